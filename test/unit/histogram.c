/*
 * histogram.c
 *	  The counts behind percentiles: the error is bounded as histogram.h says, ranks are right,
 *	  nothing overflows.
 */
#include <stdlib.h>

#include "engine/statistics/histogram.h"
#include "tap.h"

static uint64_t
percentile(const struct histogram *h, double share)
{
	uint64_t	nsec;

	histogram_percentiles(h, &share, 1, &nsec);
	return nsec;
}

static uint64_t
only(uint64_t nsec)
{
	static struct histogram h;

	h = (struct histogram) {0};
	histogram_add(&h, nsec);
	return percentile(&h, 0.5);
}

static bool
close_enough(uint64_t told, uint64_t nsec)
{
	uint64_t	off = told > nsec ? told - nsec : nsec - told;

	return nsec < HISTOGRAM_LINEAR ? off <= 32 : off * 16 <= nsec;
}

static void
test_error(void)
{
	bool		good = true;

	for (uint64_t nsec = 0; nsec < 20000; nsec++)
		good = good && close_enough(only(nsec), nsec);
	for (uint64_t step = 20000; step < HISTOGRAM_MAX; step += step / 37)
		good = good && close_enough(only(step), step) && close_enough(only(step - 1), step - 1);
	for (int bits = HISTOGRAM_LINEAR_BITS; bits < HISTOGRAM_MAX_BITS; bits++)
		good = good && close_enough(only(1ull << bits), 1ull << bits) && close_enough(only((2ull << bits) - 1), (2ull << bits) - 1);
	tap_ok(good, "a value is told with an error of at most a sixteenth of it");
	tap_ok(only(HISTOGRAM_MAX) == only(HISTOGRAM_MAX - 1) && only(UINT64_MAX) == only(HISTOGRAM_MAX),
		   "what is longer than the range is counted at its end");
}

static int
compare(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

static void
test_ranks(void)
{
	static const double shares[] = {0.5, 0.95, 0.99, 1};
	static uint64_t values[10000];
	struct histogram h = {0};
	uint64_t	state = 42;
	uint64_t	told[4];
	bool		good = true;

	for (int i = 0; i < 10000; i++)
	{
		state = state * 6364136223846793005u + 1442695040888963407u;
		values[i] = (state >> 33) >> (state % 23);	/* from nanoseconds to seconds */
		histogram_add(&h, values[i]);
	}
	qsort(values, 10000, sizeof(values[0]), compare);
	for (int i = 0; i < 4; i++)
		good = good && close_enough(percentile(&h, shares[i]), values[(int) (shares[i] * 10000) - 1]);
	tap_ok(good, "percentiles of ten thousand values are those of the sorted list");
	good = histogram_percentiles(&h, shares, 4, told) == 10000;
	for (int i = 0; i < 4; i++)
		good = good && told[i] == percentile(&h, shares[i]);
	tap_ok(good, "all at once, too");

	h = (struct histogram) {0};
	tap_ok(percentile(&h, 0.99) == 0, "no value: 0");
	for (int i = 0; i < 99; i++)
		histogram_add(&h, 1000);
	histogram_add(&h, 1000000);
	tap_ok(close_enough(percentile(&h, 0.99), 1000) && close_enough(percentile(&h, 1), 1000000),
		   "one outlier in a hundred is the greatest, and not the 99th percentile");
}

static void
test_full(void)
{
	struct histogram h = {0};
	uint64_t	before;

	histogram_add(&h, 5000);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
	{
		if (h.counts[i] > 0)
			h.counts[i] = UINT32_MAX;
	}
	for (int i = 0; i < 100; i++)
		histogram_add(&h, 100);
	before = percentile(&h, 0.5);
	histogram_add(&h, 5000);
	tap_ok(percentile(&h, 0.5) == before && close_enough(before, 5000) && percentile(&h, 1e-9) < 200,
		   "a full count halves all, and the percentiles stay");
}

int
main(void)
{
	test_error();
	test_ranks();
	test_full();
	return tap_done();
}
