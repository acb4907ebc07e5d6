/*
 * policy.h
 *	  What the files of the policy share: queue.c (who waits), fair.c (in which order within a
 *	  class), share.c (which class is owed), choose.c (which class and model), batch.c (which rows).
 *	  Callers see batch.h only.
 */
#ifndef ENGINE_SCHEDULER_POLICY_POLICY_H
#define ENGINE_SCHEDULER_POLICY_POLICY_H

#include <stddef.h>

#include "batch.h"

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

/* ---- queue.c ---- */

static inline struct batch_request *
queue_head(const struct batch_model *model, uint32_t class_)
{
	return model->rows_class[class_] > 0 ? model->queues[class_].next : NULL;
}

/* Rows of a request in its queue go to a batch; the rest of it takes its place by its tag.  turn: see fair_take. */
extern void queue_take(struct batch_policy *policy, struct batch_request *request, uint32_t rows, bool turn);
extern void queue_leave_if_empty(struct batch_model *model);

/* ---- fair.c ---- */

/* A request's place, and its predicted time charged in advance to its session. */
extern void fair_enter(struct batch_policy *policy, struct batch_request *request);

/* It has ended: what was charged in advance and not computed is given back. */
extern void fair_leave(struct batch_request *request);

/* Whether a request may fill up a batch before its turn; next: the tag of those of other models. */
extern bool fair_may_fill(const struct batch_policy *policy, const struct batch_request *request, uint64_t next);

/* Rows are taken: the tag moves on.  turn: the first of their class in the batch, which has come to their tag. */
extern void fair_take(struct batch_policy *policy, struct batch_request *request, uint32_t rows, bool turn);

/* Rows took so much time. */
extern void fair_charge(struct batch_request *request, uint32_t rows, uint64_t nsec);

/* ---- share.c ---- */

/* Whether a lower class has earned a batch of so much predicted time. */
extern bool share_is_owed(const struct batch_policy *policy, uint32_t class_, uint64_t nsec);
extern void share_charge(struct batch_policy *policy, const struct batch *batch, uint64_t nsec);

/* ---- choose.c ---- */

/* Rows that a batch of a model may have. */
extern uint32_t choose_room(const struct batch_policy *policy, const struct batch_model *model);

/* Class and model of what may run before a batch's next segment; see batch_interrupt. */
extern bool choose_between(const struct batch_policy *policy, uint64_t now, const struct batch *running,
						   uint32_t interrupted, struct batch *batch);

/* Whether something of a higher class waits that could run on a free device. */
extern bool choose_opposed(const struct batch_policy *policy, const struct batch *batch, uint64_t now);

#endif							/* ENGINE_SCHEDULER_POLICY_POLICY_H */
