/*
 * outbox.h
 *	  Answers that the loop sends while the device goes on.
 *
 * To ring a client that sleeps takes as long as a small batch, and who is woken may take the
 * waker's core.  So a batch's answers are put into the outbox if more rows wait, the next batch
 * begins, and only then is the loop woken, which sends them.
 *
 * engine.outbox is guarded by engine.lock.
 */
#ifndef ENGINE_SCHEDULER_OUTBOX_H
#define ENGINE_SCHEDULER_OUTBOX_H

#include "scheduler.h"

/* Before any thread.  The descriptor that is readable while answers wait, or -1. */
extern int	outbox_open(struct engine *engine, struct status *status);

/* A runner, lock held.  false: it is to send its answers itself. */
extern bool outbox_put(struct engine *engine, struct runner *runner);

/* A runner, lock held: whether the loop is to be woken, by outbox_wake without the lock. */
extern bool outbox_is_new(struct engine *engine);
extern void outbox_wake(struct engine *engine);

/* Loop, lock not held: sends all of it. */
extern void outbox_send(struct engine *engine, struct runner *runner);

#endif							/* ENGINE_SCHEDULER_OUTBOX_H */
