/*
 * lane.h
 *	  The device's queues of batches, and who has them.
 *
 * Nouns
 *	lane		a queue, with the turns of the batches that are on it.  There are info.inflight_max of them: one where the
 *				device computes on its caller's thread, two for each GPU
 *	unit		what several lanes share: a GPU, or the one device.  Lane i is of unit i modulo their number, as
 *				queues are given to GPUs in the order in which they are created
 *	alone		a marked row has the device, or is prepared: no other lane begins
 *
 * Beats.  The status page has one beat for all lanes, and who watches it ends an engine whose beat has stopped.  So
 * it rises only when every lane that is taken has given a sign of life since the last time: a lane that
 * hangs stops it, whatever the others do.  With a single lane, each sign is a beat.
 *
 * All of it with engine.lock held, unless it says otherwise.
 */
#ifndef ENGINE_SCHEDULER_LANE_H
#define ENGINE_SCHEDULER_LANE_H

#include "../engine.h"

/* Before any thread: as many as the device is worth, at most ENGINE_LANES_MAX. */
extern bool lanes_open(struct engine *engine, struct status *status);

/* One that nobody has; NULL: all are taken, or a marked row is alone. */
extern struct lane *lane_free(struct engine *engine);

/* The right to enqueue on it; and back. */
extern void lane_take(struct engine *engine, struct lane *lane);
extern void lane_give(struct engine *engine, struct lane *lane);

/* Lock not held: whoever has the lane goes on. */
extern void lane_beat(struct engine *engine, struct lane *lane);

/* nsec: when the device is predicted to have done what is on it. */
extern uint64_t lanes_free_at(const struct engine *engine, uint64_t now);

#endif							/* ENGINE_SCHEDULER_LANE_H */
