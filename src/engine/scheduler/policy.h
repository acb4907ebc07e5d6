/*
 * policy.h
 *	  What the files of the policy share: queue.c (who waits), fair.c (in which order within a
 *	  class), share.c (which class), batch.c (what runs).  Callers see batch.h only.
 */
#ifndef ENGINE_SCHEDULER_POLICY_H
#define ENGINE_SCHEDULER_POLICY_H

#include <stddef.h>

#include "batch.h"

/* ---- queue.c ---- */

static inline struct batch_request *
queue_head(const struct batch_model *model, uint32_t class_)
{
	return model->rows_class[class_] > 0 ? model->queues[class_].next : NULL;
}

/* Rows of a request in its queue go to a batch; the rest of it takes its place by its tag. */
extern void queue_take(struct batch_policy *policy, struct batch_request *request, uint32_t rows);
extern void queue_leave_if_empty(struct batch_model *model);

/* ---- fair.c ---- */

/* A request's place, and its predicted time charged in advance to its session. */
extern void fair_enter(struct batch_policy *policy, struct batch_request *request);

/* It has ended: what was charged in advance and not computed is given back. */
extern void fair_leave(struct batch_request *request);

/* Rows are taken: the class has come to the request's tag, and the tag moves on. */
extern void fair_take(struct batch_policy *policy, struct batch_request *request, uint32_t rows);

/* Rows took so much time. */
extern void fair_charge(struct batch_request *request, uint32_t rows, uint64_t nsec);

/* ---- share.c ---- */

/* Whether a lower class has earned a batch of so much predicted time. */
extern bool share_is_owed(const struct batch_policy *policy, uint32_t class_, uint64_t nsec);
extern void share_charge(struct batch_policy *policy, const struct batch *batch, uint64_t nsec);

#endif							/* ENGINE_SCHEDULER_POLICY_H */
