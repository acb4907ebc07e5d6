/*
 * batch.h
 *	  Which waiting rows are computed next, together: the policy, and nothing else.
 *
 * Nouns
 *	request		rows of one call, in their order; embedded in the engine's own struct
 *	model		the queue of the requests that wait for one model
 *	policy		all models with waiting rows, and the bounds
 *	batch		slices of requests of one model, computed together
 *	unit		what a row costs of a batch's room; rows are indivisible
 *
 * Loop
 *	batch_push for each arrival; batch_form when the device is free; batch_done for each
 *	slice when the batch has been computed; batch_cancel and batch_expire in between.
 *
 * Rules
 *	- Work-conserving: if any row of a ready model waits, batch_form gives a batch, unless
 *	  a delay was asked for.
 *	- Models take turns: the one that has waited longest (since its oldest arrival, or since
 *	  it was last served) is next.
 *	- Within a model requests are served in order of arrival.  A request of which only a part
 *	  fits goes on behind those that wait now, so a large one delays a small one by at most
 *	  one batch.  A row that does not fit any more is looked past, and heads the next batch.
 *	- A row that alone exceeds the room is a batch of its own.
 *	- A marked request is computed one row at a time, with nothing beside it.
 *	- Who asks interactively is refused over queue_limit; others wait.
 *
 * This file knows no thread, no clock and no allocator: the caller gives the time and
 * holds the lock.  Classes, shares and slices of time come into batch_form alone.
 */
#ifndef ENGINE_SCHEDULER_BATCH_H
#define ENGINE_SCHEDULER_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#define BATCH_SLICES_MAX	2048
#define BATCH_LOOK_PAST		256		/* requests looked past in one batch */

struct batch_model;

struct batch_request
{
	struct batch_request *next;		/* in the model's queue; NULL: not in it */
	struct batch_request *prev;
	struct batch_model *model;
	uint64_t	arrived;			/* nsec */
	uint64_t	deadline;			/* nsec, 0 none */
	uint64_t	formed;				/* the last batch that took rows of it */
	uint32_t	rows;
	uint32_t	taken;				/* rows given to batches so far, from the first on */
	uint32_t	done;				/* of those, rows whose batch has ended */
	uint32_t	class_;				/* enum infer_class */
	const uint32_t *units;			/* what each row costs; NULL: 1 each */
	bool		marked;
	bool		cancelled;
	bool		late;
};

struct batch_model
{
	struct batch_model *next;		/* in the policy's ring; NULL: nothing waits */
	struct batch_model *prev;
	struct batch_request queue;		/* the ring's own link */
	uint64_t	rows_waiting;
	uint64_t	waiting_since;		/* nsec */
	uint64_t	units_max;			/* room of one batch; 0: no bound but rows */
	uint32_t	rows_max;			/* rows of one batch */
	bool		ready;				/* loaded; otherwise its requests wait */
};

struct batch_policy
{
	struct batch_model models;		/* the ring's own link */
	uint64_t	delay;				/* nsec that a batch that is not full may wait */
	uint64_t	deadline_next;		/* nsec: no deadline is earlier; 0: there is none */
	uint64_t	formed;				/* batches so far */
	uint32_t	rows_max;
	uint32_t	requests_max;		/* queue_limit */
	uint32_t	requests;			/* pushed and not yet ended */
};

struct batch_slice
{
	struct batch_request *request;
	uint32_t	first;
	uint32_t	count;
};

struct batch
{
	struct batch_model *model;
	uint32_t	rows;
	uint32_t	slices_count;
	bool		marked;
	struct batch_slice slices[BATCH_SLICES_MAX];
};

enum batch_next
{
	BATCH_NOTHING,					/* nothing waits that could run */
	BATCH_LATER,					/* something may wait until the given time */
	BATCH_NOW
};

extern void batch_policy_init(struct batch_policy *policy);
extern void batch_model_init(struct batch_model *model);

/*
 * A request (rows, class_, deadline, units and marked filled in by the caller) arrives.
 * false: refused, the queue is full.
 */
extern bool batch_push(struct batch_policy *policy, struct batch_model *model,
					   struct batch_request *request, uint64_t now);

/* What batch_form would take, without taking it; rows is an upper bound. */
extern enum batch_next batch_peek(struct batch_policy *policy, uint64_t now,
								  struct batch_model **model, uint32_t *rows, uint64_t *wake);

/* Takes the next batch.  With BATCH_LATER *wake says when to ask again. */
extern enum batch_next batch_form(struct batch_policy *policy, uint64_t now,
								  struct batch *batch, uint64_t *wake);

/* A slice's batch has ended.  true: so has its request, which the caller now owns. */
extern bool batch_done(struct batch_policy *policy, struct batch_request *request, uint32_t rows);

/*
 * The caller of a request gave up.  true: it has ended; otherwise some of its rows are
 * being computed, and batch_done will say.
 */
extern bool batch_cancel(struct batch_policy *policy, struct batch_request *request);

/*
 * One request whose deadline has passed and that has ended by it (none of its rows is
 * being computed), or NULL.  Others are only taken out of their queue.
 */
extern struct batch_request *batch_expire(struct batch_policy *policy, uint64_t now);

/* Takes any request out that is not being computed: its model has failed. */
extern struct batch_request *batch_drain(struct batch_policy *policy, struct batch_model *model);

#endif							/* ENGINE_SCHEDULER_BATCH_H */
