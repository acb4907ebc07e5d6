/*
 * policy.h
 *	  What the files of the policy share: queue.c (who waits), fair.c (in which order within a
 *	  class), share.c (which class is owed), stretch.c (how much longer than predicted batches
 *	  take), choose.c (which class and model), batch.c (which rows).  Callers see batch.h only.
 */
#ifndef ENGINE_SCHEDULER_POLICY_POLICY_H
#define ENGINE_SCHEDULER_POLICY_POLICY_H

#include <stddef.h>

#include "batch.h"

#define POLICY_BESIDE	3			/* of stretch_slice, one part: how much bulk rows may lengthen an interactive batch */

static inline bool
is_late(const struct batch_request *request, uint64_t now)
{
	return request->deadline != 0 && now >= request->deadline;
}

/* Whether a batch in the middle of another one may take rows of a request. */
static inline bool
may_pass(const struct batch_request *request, uint64_t now)
{
	return !request->marked && request->done == request->taken && !is_late(request, now);
}

/* Whether a request goes before those of its class with that priority and tag. */
static inline bool
goes_before(const struct batch_request *request, int32_t priority, uint64_t tag)
{
	return request->priority != priority ? request->priority > priority : request->tag < tag;
}

/* nsec of so much cost, at so much (row_nsec) each; see batch_model.nsec_row. */
static inline uint64_t
nsec_of(const struct batch_model *model, uint64_t cost, uint64_t row_nsec)
{
	if (!model->weighed)
		return cost * row_nsec;
	return (uint64_t) ((unsigned __int128) cost * row_nsec >> BATCH_COST_SHIFT);
}

/* The cost that so much time is enough for. */
static inline uint64_t
cost_of(const struct batch_model *model, uint64_t nsec)
{
	if (model->nsec_row == 0)
		return UINT64_MAX;
	return (nsec << (model->weighed ? BATCH_COST_SHIFT : 0)) / model->nsec_row;
}

/* What a row takes; false: there is nothing to compute. */
static inline bool
row_takes(const struct batch_request *request, uint32_t row, uint64_t *units, uint64_t *cost)
{
	*units = request->units != NULL ? request->units[row] : 1;
	*cost = request->costs != NULL ? request->costs[row] : request->model->cost_row;
	return *units > 0;
}

/* Of the next row that a request has to compute. */
static inline uint64_t
next_cost(const struct batch_request *request)
{
	uint64_t	units;
	uint64_t	cost = request->model->cost_row;

	for (uint32_t row = request->taken; row < request->rows && !row_takes(request, row, &units, &cost); row++)
		;
	return cost;
}

/* ---- queue.c ---- */

static inline struct batch_request *
queue_head(const struct batch_model *model, uint32_t class_)
{
	return model->rows_class[class_] > 0 ? model->queues[class_].next : NULL;
}

/* Rows of a request in its queue go to a batch; the rest of it takes its place by its tag.  turn: see fair_take. */
extern void queue_take(struct batch_policy *policy, const struct batch_slice *slice, bool turn);
extern void queue_leave_if_empty(struct batch_model *model);

/* ---- fair.c ---- */

/* A request counts among those of its session. */
extern void fair_arrive(struct batch_policy *policy, struct batch_request *request);

/* Its place, and its predicted time charged in advance to its session. */
extern void fair_enter(struct batch_policy *policy, struct batch_request *request);

/* It leaves its place again: what was charged in advance and not computed is given back. */
extern void fair_recall(struct batch_request *request);

/* It has ended: likewise. */
extern void fair_leave(struct batch_request *request);

/* Whether a request may fill up a batch before its turn; priority and next: of those of other models. */
extern bool fair_may_fill(const struct batch_policy *policy, const struct batch_request *request, int32_t priority, uint64_t next);

/* Rows are taken: the tag moves on.  turn: the first of their class in the batch, which has come to their tag. */
extern void fair_take(struct batch_policy *policy, struct batch_request *request, uint64_t cost, bool turn);

/* Rows of so much cost took so much time. */
extern void fair_charge(struct batch_request *request, uint64_t cost, uint64_t nsec);

/* ---- share.c ---- */

/* Whether a lower class has earned a batch of so much predicted time. */
extern bool share_is_owed(const struct batch_policy *policy, uint32_t class_, uint64_t nsec);
extern void share_charge(struct batch_policy *policy, const struct batch *batch, uint64_t nsec);

/* ---- stretch.c ---- */

/* What a batch may be predicted to take, so that few take more than a slice. */
extern uint64_t stretch_slice(const struct batch_policy *policy, const struct batch_model *model);

/* Of nsec for rows, no less than so much of it: more, as far as it is no longer than a batch's constant part. */
extern uint64_t stretch_worth(const struct batch_model *model, uint64_t nsec, uint64_t less);

/* ---- choose.c ---- */

struct room							/* what a batch may have, or may have more */
{
	uint32_t	rows;
	uint32_t	passed;				/* requests looked past */
	uint64_t	units;
	uint64_t	cost;
};

/* Of a model, for a batch whose turn is the class's. */
extern struct room choose_room(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_, uint64_t now);

/* Class and model of what may run before a batch's next segment; see batch_interrupt. */
extern bool choose_between(const struct batch_policy *policy, uint64_t now, const struct batch *running,
						   uint32_t interrupted, struct batch *batch);

/* Whether something of a higher class waits that could run on a free device. */
extern bool choose_opposed(const struct batch_policy *policy, const struct batch *batch, uint64_t now);

#endif							/* ENGINE_SCHEDULER_POLICY_POLICY_H */
