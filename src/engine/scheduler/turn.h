/*
 * turn.h
 *	  A batch on the device, from its first row to its answers.
 */
#ifndef ENGINE_SCHEDULER_TURN_H
#define ENGINE_SCHEDULER_TURN_H

#include "scheduler.h"

/*
 * Lock held at the start and at the end, not in between; running is the caller's, and a batch
 * is formed in engine->turns[depth].
 */
extern void turn_run(struct engine *engine, struct runner *runner, uint32_t depth, uint64_t now);

/* Lock held: the answer to a request that has ended by its rows, its deadline or its cancel. */
extern struct ring turn_finish(struct request *request);

#endif							/* ENGINE_SCHEDULER_TURN_H */
