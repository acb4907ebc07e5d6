/*
 * scheduler.h
 *	  Batches onto the device: by the loop's own thread while they are small and the device
 *	  is free, otherwise by the scheduler's.
 *
 * engine->running is the right to use the device's queue, engine->batch and
 * engine->slices.  Whoever finds it false with the lock held may set it.
 */
#ifndef ENGINE_SCHEDULER_SCHEDULER_H
#define ENGINE_SCHEDULER_SCHEDULER_H

#include "../engine.h"

#define RUNNER_RINGS	(2 * BATCH_SLICES_MAX)

struct runner						/* what a thread that runs batches needs of its own */
{
	bool		inline_;			/* the loop's */
	uint32_t	rings_count;
	struct ring rings[RUNNER_RINGS];	/* to be sent when the lock is free */
};

/* Starts the scheduler's thread. */
extern bool scheduler_start(struct engine *engine, struct status *status);

/* Loop.  Runs one small batch (true), or has the scheduler's thread look. */
extern bool scheduler_dispatch(struct engine *engine, struct runner *runner);

/* Loop.  Ends requests whose deadline has passed; the next deadline in nsec, or 0. */
extern uint64_t scheduler_expire(struct engine *engine, struct runner *runner, uint64_t now);

/* Lock held: ends every request of an entry that no batch has; status as for request_finish. */
extern void scheduler_drain(struct engine *engine, struct entry *entry, const struct status *status);

/* Lock held: the status page's view of the queue. */
extern void scheduler_publish(struct engine *engine, uint64_t now);

#endif							/* ENGINE_SCHEDULER_SCHEDULER_H */
