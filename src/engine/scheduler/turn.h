/*
 * turn.h
 *	  A batch on the device, from its first row to its answers.
 */
#ifndef ENGINE_SCHEDULER_TURN_H
#define ENGINE_SCHEDULER_TURN_H

#include "scheduler.h"

/*
 * Lock held at the start and at the end, not in between; the lane is the caller's, and a batch
 * is formed in lane->turns[depth].  The first one's end gives the lane back.
 */
extern void turn_run(struct engine *engine, struct runner *runner, struct lane *lane, uint32_t depth, uint64_t now);

/* Lock held: the answer to a request that has ended by its rows, its deadline or its cancel. */
extern struct ring turn_finish(struct request *request);

#endif							/* ENGINE_SCHEDULER_TURN_H */
