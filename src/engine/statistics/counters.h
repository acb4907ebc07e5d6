/*
 * counters.h
 *	  What is counted of each model's calls, by class, and of the device.
 *
 * A call is counted when it ends; rows and device time when a batch ends.  All of it with
 * engine.lock held where it is held anyway; nothing allocates.
 */
#ifndef ENGINE_STATISTICS_COUNTERS_H
#define ENGINE_STATISTICS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

struct batch;
struct engine;
struct entry;
struct request;

struct class_counters				/* of one class of one entry, since the last reset */
{
	uint64_t	calls;				/* ended, however */
	uint64_t	rows;				/* computed, or answered before */
	uint64_t	batches;			/* that rows of the class were in */
	uint64_t	batch_rows;			/* of those, with other classes' rows */
	uint64_t	errors;				/* rows */
	uint64_t	cancelled;			/* rows that were not computed */
	uint64_t	queue_nsec;			/* summed over rows */
	uint64_t	compute_nsec;		/* device time: of each batch the class's share by rows */
	uint64_t	inline_calls;
	uint64_t	tokens;				/* computed */
	uint64_t	filled;				/* of those batches: tokens, or rows where they have none, */
	uint64_t	room;				/* and how many there was room for */
	uint64_t	prepare_nsec;		/* summed over calls */
	struct histogram queue;			/* a sample for each call that was computed: its longest wait */
	struct histogram compute;		/* and the device time of its batches */
};

/*
 * Of a GPU, or of the CPU.  Segments that are on it at once share it: the time that it is busy is counted once,
 * and a segment is taken to have had what it lasted, but no more than nobody had before it.
 */
struct busy_clock
{
	uint32_t	segments;			/* that it works on */
	uint64_t	since;				/* nsec: up to then it has been counted */
	uint64_t	busy;				/* nsec, ever */
	uint64_t	charged;			/* of that, what segments that have ended had */
};

/* A unit begins to work on a segment; has ended one that began then: nsec that it had. */
extern void counters_segment_begins(struct busy_clock *unit, uint64_t now);
extern uint64_t counters_segment_ends(struct busy_clock *unit, struct entry *entry, uint64_t began, uint64_t now);

/* A batch has ended that took nsec of device time; computed: or was given up. */
extern void counters_batch_ends(struct entry *entry, const struct batch *batch, uint64_t nsec, bool computed);

/* A slice's rows have waited; have been computed, some of them in vain. */
extern void counters_rows_waited(struct request *request, uint32_t rows, uint64_t nsec);
extern void counters_rows_done(struct request *request, uint32_t failed, bool inline_);

/* A request has been prepared; its rows have all been answered, or have failed, by that alone. */
extern void counters_prepared(struct request *request, uint64_t nsec);
extern void counters_rows_answered(struct request *request, uint32_t failed, bool inline_);

/* A request has ended; error as its reply has it. */
extern void counters_call(struct request *request, uint32_t error);

/* nsec that the device has been busy (its units, on average), up to now; and nsec that it could have been. */
extern uint64_t counters_busy(const struct engine *engine, uint64_t now);
extern uint64_t counters_elapsed(const struct engine *engine, uint64_t now);

extern void counters_reset_entry(struct entry *entry);
extern void counters_reset(struct engine *engine, uint64_t now);	/* entries apart */

#endif							/* ENGINE_STATISTICS_COUNTERS_H */
