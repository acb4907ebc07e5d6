/*
 * histogram.c
 *	  See histogram.h.
 */
#include "histogram.h"

#define SUB_BUCKETS		(1u << HISTOGRAM_SUB_BITS)
#define LINEAR_SHIFT	(HISTOGRAM_LINEAR_BITS - HISTOGRAM_SUB_BITS)

static uint32_t
bucket_of(uint64_t nsec)
{
	uint32_t	bits;

	if (nsec < HISTOGRAM_LINEAR)
		return (uint32_t) (nsec >> LINEAR_SHIFT);
	if (nsec >= HISTOGRAM_MAX)
		return HISTOGRAM_BUCKETS - 1;
	bits = 63 - (uint32_t) __builtin_clzll(nsec);
	return ((1 + bits - HISTOGRAM_LINEAR_BITS) << HISTOGRAM_SUB_BITS) +
		(uint32_t) (nsec >> (bits - HISTOGRAM_SUB_BITS) & (SUB_BUCKETS - 1));
}

/* The middle of a bucket. */
static uint64_t
value_of(uint32_t bucket)
{
	uint32_t	octave = bucket >> HISTOGRAM_SUB_BITS;
	uint64_t	sub = bucket & (SUB_BUCKETS - 1);
	uint32_t	shift = LINEAR_SHIFT + (octave > 0 ? octave - 1 : 0);

	if (octave > 0)
		sub += SUB_BUCKETS;
	return (sub << shift) + (UINT64_C(1) << shift) / 2;
}

/* A count that is full: all are halved, which keeps their shares. */
static void
halve(struct histogram *histogram)
{
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram->counts[i] /= 2;
}

void
histogram_add(struct histogram *histogram, uint64_t nsec)
{
	uint32_t   *count = &histogram->counts[bucket_of(nsec)];

	if (*count == UINT32_MAX)
		halve(histogram);
	(*count)++;
}

uint64_t
histogram_percentiles(const struct histogram *histogram, const double *shares, uint32_t count, uint64_t *nsec)
{
	uint64_t	samples = 0;
	uint64_t	seen = 0;
	uint32_t	at = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		samples += histogram->counts[i];
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS && samples > 0 && at < count; i++)
	{
		seen += histogram->counts[i];
		while (at < count && seen > 0 && (double) seen >= shares[at] * (double) samples)
			nsec[at++] = value_of(i);
	}
	for (; at < count; at++)
		nsec[at] = samples > 0 ? value_of(HISTOGRAM_BUCKETS - 1) : 0;
	return samples;
}
