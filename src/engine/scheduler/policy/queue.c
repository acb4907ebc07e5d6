/*
 * queue.c
 *	  Who waits: the models' queues, from arrival to end.
 *
 * All rings are circular with the owner's embedded link as head, so that nothing here
 * allocates and every removal is O(1).  A queue is in the order of priorities, then of tags, equals in
 * order of arrival.  Most arrivals belong near one of its ends, so a place is looked for from both.
 */
#include "policy.h"

#include <stddef.h>

#include "../../../protocol/protocol.h"

void
batch_policy_init(struct batch_policy *policy)
{
	*policy = (struct batch_policy) {.rows_max = 1, .requests_max = UINT32_MAX};
	policy->models.next = policy->models.prev = &policy->models;
}

void
batch_model_init(struct batch_model *model)
{
	*model = (struct batch_model) {.rows_max = 1, .slices_max = 1, .cost_row = 1, .stretch = BATCH_AS_PREDICTED};
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		model->queues[c].next = model->queues[c].prev = &model->queues[c];
}

/* ---- rings ---- */

static void
queue_insert(struct batch_request *request)
{
	struct batch_request *head = &request->model->queues[request->class_];
	struct batch_request *behind = head->next;	/* from the front: the first with a greater tag */
	struct batch_request *after = head->prev;	/* from the back: the last without */

	while (behind != head && !goes_before(request, behind->priority, behind->tag) &&
		   after != head && goes_before(request, after->priority, after->tag))
	{
		behind = behind->next;
		after = after->prev;
	}
	if (after == head || !goes_before(request, after->priority, after->tag))
		behind = after->next;
	request->next = behind;
	request->prev = behind->prev;
	request->prev->next = request;
	request->next->prev = request;
}

static void
queue_unlink(struct batch_request *request)
{
	request->prev->next = request->next;
	request->next->prev = request->prev;
	request->next = request->prev = NULL;
}

/* Rows of a request begin to wait. */
static void
count_rows(struct batch_policy *policy, struct batch_request *request)
{
	struct batch_model *model = request->model;
	uint32_t	rows = request->rows - request->taken;

	model->rows_waiting += rows;
	model->units_waiting += request->units_left;
	model->cost_waiting += request->cost_left;
	model->rows_class[request->class_] += rows;
	policy->rows_class[request->class_] += rows;
}

/* And cease to. */
static void
uncount_rows(struct batch_policy *policy, struct batch_request *request, uint32_t rows, uint64_t units, uint64_t cost)
{
	struct batch_model *model = request->model;

	model->rows_waiting -= rows;
	model->units_waiting -= units;
	model->cost_waiting -= cost;
	model->rows_class[request->class_] -= rows;
	policy->rows_class[request->class_] -= rows;
	request->units_left -= units;
	request->cost_left -= cost;
}

static void
model_enter(struct batch_policy *policy, struct batch_model *model, uint64_t now)
{
	if (model->next != NULL)
		return;
	model->waiting_since = now;
	model->prev = policy->models.prev;
	model->next = &policy->models;
	model->prev->next = model;
	policy->models.prev = model;
}

void
queue_leave_if_empty(struct batch_model *model)
{
	if (model->next == NULL || model->rows_waiting > 0)
		return;
	model->prev->next = model->next;
	model->next->prev = model->prev;
	model->next = model->prev = NULL;
}

void
queue_take(struct batch_policy *policy, const struct batch_slice *slice, bool turn)
{
	struct batch_request *request = slice->request;

	uncount_rows(policy, request, slice->count, slice->units, slice->cost);
	fair_take(policy, request, slice->cost, turn);
	request->taken += slice->count;
	request->formed = policy->formed;
	queue_unlink(request);
	if (request->taken < request->rows)
		queue_insert(request);
}

/* Out of its queue, with the rows that no batch has taken. */
static void
request_remove(struct batch_policy *policy, struct batch_request *request)
{
	if (request->next == NULL)
		return;
	queue_unlink(request);
	uncount_rows(policy, request, request->rows - request->taken, request->units_left, request->cost_left);
	queue_leave_if_empty(request->model);
}

/* ---- arrivals ---- */

static void
deadline_note(struct batch_policy *policy, uint64_t deadline)
{
	if (deadline != 0 && (policy->deadline_next == 0 || deadline < policy->deadline_next))
		policy->deadline_next = deadline;
}

bool
batch_admit(struct batch_policy *policy, struct batch_model *model,
			struct batch_request *request, uint64_t now)
{
	uint32_t	c = request->class_;

	if (c == INFER_CLASS_INTERACTIVE && policy->requests_class[c] >= policy->requests_max)
		return false;
	if (c == INFER_CLASS_INTERACTIVE)
		policy->interactive_at = now;
	request->model = model;
	request->next = request->prev = NULL;
	request->arrived = now;
	request->formed = 0;
	request->taken = request->done = 0;
	request->cost_open = 0;
	request->cancelled = request->late = false;
	request->held = true;
	fair_arrive(policy, request);
	policy->requests++;
	policy->requests_class[c]++;
	return true;
}

/* What all its rows take. */
static void
weigh(struct batch_request *request)
{
	request->units_left = request->rows;
	request->cost_left = request->rows * request->model->cost_row;
	if (request->units == NULL && request->costs == NULL)
		return;
	request->units_left = request->cost_left = 0;
	for (uint32_t row = 0; row < request->rows; row++)
	{
		uint64_t	units;
		uint64_t	cost;

		if (!row_takes(request, row, &units, &cost))
			continue;
		request->units_left += units;
		request->cost_left += cost;
	}
}

void
batch_queue(struct batch_policy *policy, struct batch_request *request, uint64_t now)
{
	weigh(request);
	request->held = false;
	request->cost_open = request->cost_left;
	fair_enter(policy, request);
	queue_insert(request);
	count_rows(policy, request);
	model_enter(policy, request->model, now);
	deadline_note(policy, request->deadline);
}

bool
batch_push(struct batch_policy *policy, struct batch_model *model,
		   struct batch_request *request, uint64_t now)
{
	if (!batch_admit(policy, model, request, now))
		return false;
	batch_queue(policy, request, now);
	return true;
}

void
batch_hold(struct batch_policy *policy, struct batch_request *request)
{
	request_remove(policy, request);
	fair_recall(request);
	request->held = true;
}

struct batch_request *
batch_waiting(const struct batch_model *model, const struct batch_request *request)
{
	uint32_t	c = request == NULL ? 0 : request->class_;
	struct batch_request *next = request == NULL ? model->queues[0].next : request->next;

	while (next == &model->queues[c])
	{
		if (++c == BATCH_CLASSES)
			return NULL;
		next = model->queues[c].next;
	}
	return next;
}

/* ---- ends ---- */

/* Ended: no row waits, none is being computed. */
static bool
end_if_idle(struct batch_policy *policy, struct batch_request *request)
{
	if (request->next != NULL || request->held || request->done < request->taken)
		return false;
	policy->requests--;
	policy->requests_class[request->class_]--;
	fair_leave(request);
	return true;
}

void
batch_end(struct batch_policy *policy, struct batch_request *request)
{
	request->held = false;
	end_if_idle(policy, request);
}

bool
batch_done(struct batch_policy *policy, struct batch_request *request, uint32_t rows)
{
	request->done += rows;
	return end_if_idle(policy, request);
}

bool
batch_cancel(struct batch_policy *policy, struct batch_request *request)
{
	request->cancelled = true;
	request_remove(policy, request);
	return end_if_idle(policy, request);
}

/* Looks at every waiting request, but only when some deadline may have passed. */
struct batch_request *
batch_expire(struct batch_policy *policy, uint64_t now)
{
	uint64_t	earliest = 0;
	struct batch_model *m_next;
	struct batch_request *r_next;

	if (policy->deadline_next == 0 || now < policy->deadline_next)
		return NULL;
	for (struct batch_model *m = policy->models.next; m != &policy->models; m = m_next)
	{
		m_next = m->next;
		for (struct batch_request *r = batch_waiting(m, NULL); r != NULL; r = r_next)
		{
			r_next = batch_waiting(m, r);
			if (r->deadline == 0)
				continue;
			if (now >= r->deadline)
			{
				r->late = true;
				request_remove(policy, r);
				if (end_if_idle(policy, r))
					return r;
			}
			else if (earliest == 0 || r->deadline < earliest)
				earliest = r->deadline;
		}
	}
	policy->deadline_next = earliest;
	return NULL;
}

struct batch_request *
batch_drain(struct batch_policy *policy, struct batch_model *model)
{
	struct batch_request *next;

	for (struct batch_request *r = batch_waiting(model, NULL); r != NULL; r = next)
	{
		next = batch_waiting(model, r);
		request_remove(policy, r);
		if (end_if_idle(policy, r))
			return r;
	}
	return NULL;
}
