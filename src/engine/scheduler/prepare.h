/*
 * prepare.h
 *	  The stage before the queue: what a kind can do with a request's rows before they wait
 *	  for the device (texts become tokens).
 *
 * Nouns
 *	prepare		model_ops.prepare, once for a request, between batch_admit and batch_queue
 *	small		a request of few rows and little text: prepared by the loop, then and there
 *	preparer	a thread that prepares others, one after the other: there is one for those of at
 *				most prepare_short_bytes (1 MB), and one for the rest
 *	alone		a marked request is prepared, or computed, with nothing else prepared beside it
 *
 * Loop of a request
 *	admitted and laid out → prepare_enter → small: prepared; otherwise it waits for the
 *	preparer → prepared without the lock → its rows are queued; or it has ended: all rows
 *	have failed or are answered already, prepare has failed, nobody wants it any more.
 *
 * Order
 *	Of those that wait for a preparer, the one that arrived first, but each counts as come
 *	later by what it is predicted to take, and by its class: short ones and interactive ones go
 *	first, and nobody is passed for ever.
 *
 * Invariants
 *	- Nobody prepares with engine.lock held, and the loop prepares what is small alone: others'
 *	  calls are never held up by a large one.
 *	- A request that is being prepared is held (batch.h): cancel, deadline and a client that is
 *	  gone are seen at its next row, and end it when prepare has returned; one that waits for the
 *	  preparer ends at once.  The model stays, as the request is pending.
 *	- While it is prepared its run_state is RUNNING, for prepare may kill the process.  A
 *	  marked request, whose row running_row names, is prepared alone, on a runner's
 *	  thread, which has the device meanwhile; a prepare that goes on beside gives way
 *	  at its next row.
 *	- release follows prepare exactly once, when the request ends.
 *	- What is prepared ahead of the device is bounded: the preparer takes no more requests of a
 *	  class whose prepared ones hold PREPARE_AHEAD_BYTES.  All texts that wait lie in regions,
 *	  which infer.payload_limit bounds.
 *
 * engine.prepare is guarded by engine.lock.
 */
#ifndef ENGINE_SCHEDULER_PREPARE_H
#define ENGINE_SCHEDULER_PREPARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../protocol/protocol.h"

#define PREPARE_SMALL_BYTES		4096		/* of a request's inputs that the loop prepares */
#define PREPARE_SMALL_ROWS		64
#define PREPARE_AHEAD_BYTES		(64ull << 20)	/* that prepared requests of a class hold */

struct engine;
struct request;
struct ring;
struct runner;
struct status;

enum request_stage
{
	STAGE_NONE,						/* needs none, or has not come to it */
	STAGE_WAITS,					/* for a preparer */
	STAGE_PREPARES,
	STAGE_PREPARED					/* release is due */
};

#define PREPARERS	2

struct preparer
{
	struct engine *engine;
	pthread_cond_t wake;			/* there may be something to do for it */
	struct request *first;			/* that wait, in their order */
	struct request *last;
};

struct prepare
{
	struct preparer preparers[PREPARERS];
	uint64_t	deadline_next;		/* nsec: none of those that wait has an earlier one; 0: there is none */
	uint64_t	held_bytes[INFER_CLASSES];	/* of prepared requests */
	uint32_t	active;				/* prepares that go on */
	bool		alone;				/* a marked request has its turn, or is about to */
};

extern uint64_t prepare_short_bytes;	/* tests set it before the engine starts */

/* Starts the preparers. */
extern bool prepare_start(struct engine *engine, struct status *status);

/*
 * Lock held, and let go in between.  Loop.  The request has been admitted and laid out, and its
 * model's kind prepares; its region's ring, if it has ended.
 */
extern struct ring prepare_enter(struct engine *engine, struct request *request, uint64_t now);

/* Lock held.  Likewise when it has waited for its model: whatever its size, a preparer has it. */
extern void prepare_push(struct engine *engine, struct request *request, uint64_t now);

/* Lock held.  Takes one that waits for a preparer away from it, and from the policy. */
extern void prepare_forget(struct engine *engine, struct request *request);

/* Lock held.  Ends those that wait and are late, as long as the runner has room. */
extern void prepare_expire(struct engine *engine, struct runner *runner, uint64_t now);

/*
 * A runner, lock held.  A marked request is next: whether it may have its turn; work is
 * signalled when that changes.  And it is not, any more.
 */
extern bool prepare_stop(struct engine *engine);
extern void prepare_go_on(struct engine *engine);

/* A runner, the device and the stop are its own; lock held, and let go in between: prepares a marked one. */
extern struct ring prepare_marked(struct engine *engine, struct request *request);

/* Lock held.  The request ends. */
extern void prepare_release(struct engine *engine, struct request *request);

#endif							/* ENGINE_SCHEDULER_PREPARE_H */
