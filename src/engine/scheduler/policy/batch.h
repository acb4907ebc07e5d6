/*
 * batch.h
 *	  Which waiting rows are computed next, together: the policy, and nothing else.
 *
 * Nouns
 *	request		rows of one call, in their order; embedded in the engine's own struct
 *	class		interactive, statement or job: the lower the number, the higher the class
 *	session		who sends requests; embedded in the engine's connection
 *	role		whom a session acts for
 *	model		the queues of the requests that wait for one model, one for each class
 *	policy		all models with waiting rows, and the bounds
 *	batch		slices of requests of one model, computed together
 *	unit		what a row takes of a batch's room (a token); rows are indivisible.  A row of no units
 *				is nothing to compute: it goes along with its neighbours, and counts for nothing
 *	cost		what a row takes of time, in a measure of its model's: 1, or where rows are
 *				weighed what the model itself predicts of each
 *	tag			a request's place among those of its class: see fair.c
 *
 * Loop
 *	batch_push for each arrival (or batch_admit, and batch_queue when the request has been
 *	prepared); batch_form when the device is free; batch_charge_segment,
 *	batch_charge, and batch_done for each slice when the batch has been computed;
 *	batch_cancel and batch_expire in between.  A batch of several segments: between two of
 *	them batch_charge_segment, batch_interrupt for what is to run before the next one, each
 *	followed by batch_resume, and batch_wanted.
 *
 * Rules
 *	- Work-conserving: if any row of a ready model waits, batch_form gives a batch, unless
 *	  a delay was asked for.
 *	- A higher class goes first.  A lower one that waits earns share percent of the device
 *	  time that others get, and goes first when it has earned its next batch (share.c).
 *	- Within a class, roles get equal device time, and so do the sessions of a role (fair.c).
 *	  Equals are served in order of arrival, their models in turn.
 *	- A batch holds no more rows than are predicted to fit into a slice of time; one always.
 *	- Where a model's batches are cut into segments and gain by being large, a batch may take
 *	  slices_max slices as long as no interactive call is about; one that comes then waits for
 *	  a segment.
 *	- While interactive calls are about (one has come within BATCH_ABOUT), a batch that is another
 *	  class's turn leaves a third of a slice, so that with the third that bulk rows have beside
 *	  them calls wait for one slice of others' rows in all.
 *	- Where batches take longer than predicted, because others have the cores, these parts are
 *	  of a slice that is as much shorter, down to three fifths (stretch.c).
 *	- A batch is filled with what waits for its model, as far as that is fair to those who wait
 *	  for other ones.  What room is left goes to rows of other classes, higher ones first; they
 *	  lengthen a batch with interactive rows by a third of a slice at most.
 *	- A request of which only a part fits goes on behind those that wait now.  A row that does
 *	  not fit any more is looked past, and heads the next batch.
 *	- A row that alone exceeds the room is a batch of its own.
 *	- A marked request is computed one row at a time, with nothing beside it, and neither
 *	  interrupts nor is interrupted.
 *	- Between segments a batch gives way to those of higher classes, as long as its own is not
 *	  owed a slice.  One with interactive rows gives way to a single one between two segments,
 *	  of interactive rows that are predicted to fit into a slice.
 *	- Who asks interactively is refused over queue_limit; others wait.
 *
 * The policy knows no thread, no clock and no allocator: the caller gives the time and holds
 * the lock.
 */
#ifndef ENGINE_SCHEDULER_POLICY_BATCH_H
#define ENGINE_SCHEDULER_POLICY_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#define BATCH_SLICES_MAX	2048
#define BATCH_LOOK_PAST		256		/* requests looked past in one batch */

#define BATCH_ABOUT			1000000000u	/* nsec */
#define BATCH_AS_PREDICTED	1000	/* a model's stretch at first */
#define BATCH_COST_SHIFT	12		/* binary places of nsec_row where rows are weighed */

#define BATCH_CLASSES		3		/* of enum infer_class */
#define BATCH_ROLES			512		/* accounts of roles with pending requests */
#define BATCH_DEPTH			4		/* of a job, between its segments a statement's, between that one's an
									 * interactive one, and a short one between that one's */

struct batch_model;

struct batch_role					/* idle, without sessions: another role may have it */
{
	uint32_t	role;				/* oid */
	uint32_t	sessions[BATCH_CLASSES];	/* that have pending requests of a class */
};

struct batch_session				/* zeroed: new; outlives its requests */
{
	struct batch_role *role;		/* of the last request; stays while any is pending */
	uint32_t	pending[BATCH_CLASSES];	/* requests pushed and not yet ended */
	uint64_t	used[BATCH_CLASSES];	/* the tag that its next request gets, if it is ahead of the class's */
};

struct batch_request
{
	struct batch_request *next;		/* in the model's queue; NULL: not in it */
	struct batch_request *prev;
	struct batch_model *model;
	struct batch_session *session;	/* NULL: nobody's, served as a new one */
	uint64_t	tag;				/* nsec of virtual time; queues are in its order */
	uint64_t	row_nsec;			/* predicted when it was queued, of each unit of cost, as the model's */
	uint64_t	row_charged;		/* of virtual time, what its session was charged for each one then */
	uint64_t	units_left;			/* of the rows that no batch has taken */
	uint64_t	cost_left;
	uint64_t	cost_open;			/* of those that have not been charged */
	uint64_t	arrived;			/* nsec */
	uint64_t	deadline;			/* nsec, 0 none */
	uint64_t	formed;				/* the last batch that took rows of it */
	uint32_t	rows;
	uint32_t	taken;				/* rows given to batches so far, from the first on */
	uint32_t	done;				/* of those, rows whose batch has ended */
	uint32_t	class_;				/* enum infer_class */
	uint32_t	role;				/* oid */
	int32_t		priority;			/* within the class: higher ones go first, whatever their tags */
	const uint32_t *units;			/* of each row; NULL: 1 each */
	const uint32_t *costs;			/* of each row; NULL: the model's cost_row each */
	bool		marked;
	bool		held;				/* admitted and not queued: somebody prepares it */
	bool		cancelled;
	bool		late;
};

struct batch_model
{
	struct batch_model *next;		/* in the policy's ring; NULL: nothing waits */
	struct batch_model *prev;
	struct batch_request queues[BATCH_CLASSES];	/* the rings' own links */
	uint64_t	rows_waiting;		/* of all classes */
	uint64_t	rows_class[BATCH_CLASSES];
	uint64_t	units_waiting;		/* of all classes */
	uint64_t	cost_waiting;
	uint64_t	waiting_since;		/* nsec */
	uint64_t	units_max;			/* room of one batch; 0: no bound but rows */
	uint32_t	rows_max;			/* rows of one batch */
	bool		ready;				/* loaded; otherwise its requests wait */
	bool		weighed;			/* its requests come with units and costs */
	uint32_t	slices_max;			/* that a batch may take while no interactive call is about: it is cut */
	uint64_t	cost_row;			/* of a row that comes without; 1 where rows are not weighed */
	uint32_t	stretch;			/* per mille of what is predicted of a batch: few take longer */

	/*
	 * Predicted device time of a batch: nsec_batch + cost · nsec_row, and where rows are weighed
	 * nsec_row is in 1 / 2^BATCH_COST_SHIFT.  0 and 0: not known.
	 */
	uint64_t	nsec_batch;
	uint64_t	nsec_row;
};

struct batch_policy
{
	struct batch_model models;		/* the ring's own link */
	uint64_t	delay;				/* nsec that a batch that is not full may wait */
	uint64_t	slice;				/* nsec that a batch may take by prediction; 0: no bound */
	uint64_t	deadline_next;		/* nsec: no deadline is earlier; 0: there is none */
	uint64_t	formed;				/* batches so far */
	uint64_t	interactive_at;		/* nsec: the last interactive arrival; 0: none yet */
	uint64_t	units_max;			/* room of one batch of weighed rows; 0: no bound */
	uint32_t	rows_max;
	uint32_t	requests_max;		/* queue_limit */
	uint32_t	share;				/* percent of device time that each lower class gets if it waits */
	uint32_t	requests;			/* pushed and not yet ended */
	uint32_t	requests_class[BATCH_CLASSES];
	uint64_t	rows_class[BATCH_CLASSES];	/* waiting, of ready and other models */
	uint32_t	suspended[BATCH_CLASSES];	/* batches of the class between two segments */
	int64_t		owed[BATCH_CLASSES];	/* nsec of device time */
	uint64_t	now[BATCH_CLASSES];	/* virtual time: the tag of the last turn */
	struct batch_role roles[BATCH_ROLES];
};

struct batch_slice
{
	struct batch_request *request;
	uint32_t	first;
	uint32_t	count;
	uint32_t	rows;				/* of those, to be computed */
	uint64_t	units;
	uint64_t	cost;
};

struct batch
{
	struct batch_model *model;
	int32_t		next_priority;		/* of those of its class that wait for other models; INT32_MIN: none do, */
	uint64_t	next_tag;			/* and then UINT64_MAX */
	uint32_t	class_;				/* whose turn it is */
	uint32_t	rows;				/* to be computed */
	uint32_t	rows_class[BATCH_CLASSES];
	uint64_t	units;
	uint64_t	pairs;				/* the sum of the squares of the rows' units, where they are weighed */
	uint64_t	cost;				/* as chosen: at most */
	uint64_t	cost_class[BATCH_CLASSES];
	uint64_t	filled;				/* of its room in units, or in rows where units have no bound, */
	uint64_t	room;				/* this is how much there is; its time may be up before */
	uint32_t	slices_count;
	bool		marked;
	bool		unopposed;			/* nothing of a higher class waits for what runs next of it */
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
 * A request (rows, class_, role, priority, session, deadline, units, costs and marked filled in by the caller) arrives.
 * false: refused, the queue is full.
 */
extern bool batch_push(struct batch_policy *policy, struct batch_model *model,
					   struct batch_request *request, uint64_t now);

/*
 * The two halves of it: it counts from now on, but is held by the caller; its rows wait, with
 * units and costs as they are now, some of them not 0.
 */
extern bool batch_admit(struct batch_policy *policy, struct batch_model *model,
						struct batch_request *request, uint64_t now);
extern void batch_queue(struct batch_policy *policy, struct batch_request *request, uint64_t now);

/* Takes one of which no row was given out from its queue: the caller holds it, until batch_queue or batch_end. */
extern void batch_hold(struct batch_policy *policy, struct batch_request *request);

/* What was held is not to be computed: it has ended. */
extern void batch_end(struct batch_policy *policy, struct batch_request *request);

/*
 * The model and class of the next batch, without its rows, of which rows, and batch's cost, are upper bounds.
 * With BATCH_LATER *wake says when to ask again.
 */
extern enum batch_next batch_choose(struct batch_policy *policy, uint64_t now, struct batch *batch,
									uint32_t *rows, uint64_t *wake);

/* Takes the rows of a batch that was chosen just now.  false: there are none but late ones. */
extern bool batch_take(struct batch_policy *policy, uint64_t now, struct batch *batch);

/* Both of them. */
extern enum batch_next batch_form(struct batch_policy *policy, uint64_t now,
								  struct batch *batch, uint64_t *wake);

/*
 * Between two segments of a batch: what runs before the next one; to be asked again until
 * nothing does.  interrupted says how many times something did since the segment before.
 */
extern bool batch_interrupt(struct batch_policy *policy, uint64_t now, struct batch *running,
							uint32_t interrupted, struct batch *batch);

/* What interrupted a batch has ended. */
extern void batch_resume(struct batch_policy *policy, const struct batch *running);

/* Whether anybody still wants a batch that runs; marks those whose deadline has passed. */
extern bool batch_wanted(const struct batch *batch, uint64_t now);

/*
 * Device time that a batch took: of each segment when it ends (more: others follow), and of the
 * whole before batch_done.
 */
extern void batch_charge_segment(struct batch_policy *policy, const struct batch *batch, uint64_t nsec, bool more);
extern void batch_charge(struct batch_policy *policy, const struct batch *batch, uint64_t nsec);

/* What rows of so much cost have of the time of their batch. */
extern uint64_t batch_part(const struct batch *batch, uint64_t cost, uint64_t nsec);

/* Of a batch of so much cost (rows, where they are not weighed); 0: not known. */
extern uint64_t batch_nsec(const struct batch_model *model, uint64_t cost);

/* A batch of the model was predicted to take so long, and did take nsec. */
extern void batch_took(const struct batch_policy *policy, struct batch_model *model, uint64_t predicted, uint64_t nsec);

/* Who is chosen: the request whose rows head the batch. */
extern struct batch_request *batch_head(const struct batch *batch);

/* A slice's batch has ended, with all its rows.  true: so has its request, which the caller now owns. */
extern bool batch_done(struct batch_policy *policy, struct batch_request *request, uint32_t rows);

/*
 * The caller of a request gave up.  true: it has ended; otherwise some of its rows are
 * being computed, and batch_done will say, or it is held, and batch_end is due.
 */
extern bool batch_cancel(struct batch_policy *policy, struct batch_request *request);

/*
 * One request whose deadline has passed and that has ended by it (none of its rows is
 * being computed), or NULL.  Others are only taken out of their queue.
 */
extern struct batch_request *batch_expire(struct batch_policy *policy, uint64_t now);

/* The waiting requests of a model, one after another; NULL: the first, and after the last. */
extern struct batch_request *batch_waiting(const struct batch_model *model, const struct batch_request *request);

/* Takes any request out that is not being computed: its model has failed. */
extern struct batch_request *batch_drain(struct batch_policy *policy, struct batch_model *model);

#endif							/* ENGINE_SCHEDULER_POLICY_BATCH_H */
