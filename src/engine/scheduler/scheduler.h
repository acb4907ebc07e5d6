/*
 * scheduler.h
 *	  Batches onto the device: by the loop's own thread while they are small and the device
 *	  is free, otherwise by runners, a thread for each lane.
 *
 * A lane is the right to use one of the device's queues and the lane's turns.  Whoever finds one that nobody has
 * with the lock held may take it; runners are alike, and none has a lane of its own.  The loop takes one
 * only if all are free: it waits for the device then, whatever that is, and others' batches should not be what it waits for.
 */
#ifndef ENGINE_SCHEDULER_SCHEDULER_H
#define ENGINE_SCHEDULER_SCHEDULER_H

#include "../engine.h"

#define RUNNER_RINGS	(2 * BATCH_SLICES_MAX)

struct runner						/* what a thread that runs batches needs of its own */
{
	struct engine *engine;			/* of one that is no loop */
	bool		inline_;			/* the loop's */
	uint32_t	rings_count;
	struct ring rings[RUNNER_RINGS];	/* to be sent when the lock is free */
};

/* Lock held: a ring to be sent; RUNNER_RINGS is enough for a batch's and what expires. */
extern void runner_add(struct runner *runner, struct ring ring);

/* Lock held: ends requests whose deadline has passed; leaves room for a batch's rings. */
extern void runner_expire(struct engine *engine, struct runner *runner, uint64_t now);

/* Lock not held.  After the answers: a device that answers nothing but errors ends the process. */
extern void runner_send(struct engine *engine, struct runner *runner);

/* Lock held, or before any thread: takes what the settings say. */
extern void scheduler_settings(struct engine *engine);

/* Opens the lanes and starts the runners. */
extern bool scheduler_start(struct engine *engine, struct status *status);

/* Loop.  Runs one small batch (true), or has a runner look. */
extern bool scheduler_dispatch(struct engine *engine, struct runner *runner);

/* Lock held: the next one, nsec, or 0. */
extern uint64_t scheduler_deadline(const struct engine *engine);

/* Loop.  Ends requests whose deadline has passed; the next deadline in nsec, or 0. */
extern uint64_t scheduler_expire(struct engine *engine, struct runner *runner, uint64_t now);

/* Lock held: ends every request of an entry that no batch has; status as for request_finish. */
extern void scheduler_drain(struct engine *engine, struct entry *entry, const struct status *status);

/* Lock held: the status page's view of the queue. */
extern void scheduler_publish(struct engine *engine, uint64_t now);

#endif							/* ENGINE_SCHEDULER_SCHEDULER_H */
