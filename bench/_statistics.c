/*
 * _statistics.c
 *	  Nanoseconds of a call of one row that go into statistics, for bench/statistics.sh:
 *	  what scheduler/turn.c and server/region.c count of it, again and again.
 *
 * Prints the best of many runs, since a machine that is shared only ever makes things slower.
 * The call's times vary from one to the next, as those of real calls do.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "engine/process/process.h"

#define CALLS	10000
#define RUNS	2000

static struct busy_clock unit;
static struct entry entry;
static struct request request;
static struct batch batch;

static void
count_one(uint64_t now, uint64_t waited, uint64_t took)
{
	counters_rows_waited(&request, 1, waited);
	counters_segment_begins(&unit, now);
	counters_segment_ends(&unit, &entry, now, now + took);
	latency_errors_record(&entry.latency_errors, took + waited, took);
	counters_batch_ends(&entry, &batch, took, true);
	counters_rows_done(&request, 0, true);
	request.queue_nsec = waited;
	request.compute_nsec = took;
	counters_call(&request, INFER_OK);
}

int
main(void)
{
	uint64_t	best = UINT64_MAX;
	uint64_t	noise = 1;

	request = (struct request) {.entry = &entry, .batches = 1};
	request.batch.rows = request.batch.done = 1;
	batch.slices_count = batch.rows = 1;
	batch.cost = batch.units = 1;
	batch.slices[0] = (struct batch_slice) {.request = &request.batch, .count = 1, .rows = 1, .units = 1, .cost = 1};
	for (int run = 0; run < RUNS; run++)
	{
		uint64_t	began = process_clock();
		uint64_t	took;

		for (int i = 0; i < CALLS; i++)
		{
			noise = noise * 6364136223846793005u + 1442695040888963407u;
			count_one(began + (uint64_t) i, 300 + (noise >> 40 & 127), 400 + (noise >> 50 & 127));
		}
		took = process_clock() - began;
		if (took < best)
			best = took;
	}
	if (entry.classes[0].calls != (uint64_t) CALLS * RUNS)
		abort();
	printf("%.2f\n", (double) best / CALLS);
	return 0;
}
