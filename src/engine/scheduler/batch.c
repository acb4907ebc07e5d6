/*
 * batch.c
 *	  See batch.h.
 *
 * Both rings are circular with the owner's embedded link as head, so that nothing here
 * allocates and every removal is O(1).
 */
#include "batch.h"

#include <stddef.h>

#include "../../protocol/protocol.h"

void
batch_policy_init(struct batch_policy *policy)
{
	*policy = (struct batch_policy) {.rows_max = 1, .requests_max = UINT32_MAX};
	policy->models.next = policy->models.prev = &policy->models;
}

void
batch_model_init(struct batch_model *model)
{
	*model = (struct batch_model) {.rows_max = 1};
	model->queue.next = model->queue.prev = &model->queue;
}

static void
queue_append(struct batch_model *model, struct batch_request *request)
{
	request->prev = model->queue.prev;
	request->next = &model->queue;
	request->prev->next = request;
	model->queue.prev = request;
}

static void
queue_unlink(struct batch_request *request)
{
	request->prev->next = request->next;
	request->next->prev = request->prev;
	request->next = request->prev = NULL;
}

static bool
queue_is_empty(const struct batch_model *model)
{
	return model->queue.next == &model->queue;
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

static void
model_leave_if_empty(struct batch_model *model)
{
	if (model->next == NULL || !queue_is_empty(model))
		return;
	model->prev->next = model->next;
	model->next->prev = model->prev;
	model->next = model->prev = NULL;
}

/* Out of its queue, with the rows that no batch has taken. */
static void
request_remove(struct batch_request *request)
{
	if (request->next == NULL)
		return;
	queue_unlink(request);
	request->model->rows_waiting -= request->rows - request->taken;
	model_leave_if_empty(request->model);
}

static void
deadline_note(struct batch_policy *policy, uint64_t deadline)
{
	if (deadline != 0 && (policy->deadline_next == 0 || deadline < policy->deadline_next))
		policy->deadline_next = deadline;
}

bool
batch_push(struct batch_policy *policy, struct batch_model *model,
		   struct batch_request *request, uint64_t now)
{
	if (request->class_ == INFER_CLASS_INTERACTIVE && policy->requests >= policy->requests_max)
		return false;
	request->model = model;
	request->arrived = now;
	request->formed = 0;
	request->taken = request->done = 0;
	request->cancelled = request->late = false;
	queue_append(model, request);
	model->rows_waiting += request->rows;
	model_enter(policy, model, now);
	deadline_note(policy, request->deadline);
	policy->requests++;
	return true;
}

static uint32_t
rows_room(const struct batch_policy *policy, const struct batch_model *model)
{
	uint32_t	rows = model->rows_max < policy->rows_max ? model->rows_max : policy->rows_max;

	return rows > 0 ? rows : 1;
}

/* Whether the model's next batch need not wait for more; otherwise until when it may. */
static bool
model_is_due(const struct batch_policy *policy, const struct batch_model *model,
			 uint64_t now, uint64_t *due)
{
	*due = model->queue.next->arrived + policy->delay;
	return policy->delay == 0 || now >= *due || model->queue.next->marked ||
		model->rows_waiting >= rows_room(policy, model);
}

static enum batch_next
choose(const struct batch_policy *policy, uint64_t now, struct batch_model **model, uint64_t *wake)
{
	struct batch_model *best = NULL;
	uint64_t	earliest = UINT64_MAX;

	for (struct batch_model *m = policy->models.next; m != &policy->models; m = m->next)
	{
		uint64_t	due;

		if (!m->ready)
			continue;
		if (!model_is_due(policy, m, now, &due))
		{
			if (due < earliest)
				earliest = due;
		}
		else if (best == NULL || m->waiting_since < best->waiting_since)
			best = m;
	}
	*model = best;
	*wake = earliest;
	if (best != NULL)
		return BATCH_NOW;
	return earliest != UINT64_MAX ? BATCH_LATER : BATCH_NOTHING;
}

enum batch_next
batch_peek(struct batch_policy *policy, uint64_t now, struct batch_model **model,
		   uint32_t *rows, uint64_t *wake)
{
	enum batch_next next = choose(policy, now, model, wake);

	if (next == BATCH_NOW)
	{
		uint32_t	room = rows_room(policy, *model);

		*rows = (*model)->queue.next->marked ? 1 :
			(*model)->rows_waiting < room ? (uint32_t) (*model)->rows_waiting : room;
	}
	return next;
}

/* How many of a request's next rows fit; the first row of an empty batch always does. */
static uint32_t
rows_that_fit(const struct batch_request *request, uint32_t rows_left, uint64_t *units_left, bool empty)
{
	uint32_t	rows = request->rows - request->taken;
	uint32_t	n;

	if (rows > rows_left)
		rows = rows_left;
	if (*units_left == UINT64_MAX)
		return rows;
	for (n = 0; n < rows; n++)
	{
		uint64_t	cost = request->units != NULL ? request->units[request->taken + n] : 1;

		if (cost > *units_left)
		{
			if (!empty || n > 0)
				break;
			*units_left = 0;
			return 1;
		}
		*units_left -= cost;
	}
	return n;
}

static void
take(struct batch_policy *policy, struct batch *batch, struct batch_request *request, uint32_t rows)
{
	batch->slices[batch->slices_count++] = (struct batch_slice) {
		.request = request, .first = request->taken, .count = rows
	};
	batch->rows += rows;
	batch->model->rows_waiting -= rows;
	request->taken += rows;
	request->formed = policy->formed;
	queue_unlink(request);
	if (request->taken < request->rows)
		queue_append(batch->model, request);
}

static void
fill(struct batch_policy *policy, struct batch *batch)
{
	struct batch_model *model = batch->model;
	uint32_t	rows_left = rows_room(policy, model);
	uint64_t	units_left = model->units_max > 0 ? model->units_max : UINT64_MAX;
	uint32_t	passed = 0;
	struct batch_request *next;

	for (struct batch_request *r = model->queue.next; r != &model->queue; r = next)
	{
		uint32_t	rows = 0;

		next = r->next;
		if (r->formed == policy->formed)
			break;				/* went behind the others in this very batch */
		if (!r->marked)
			rows = rows_that_fit(r, rows_left, &units_left, batch->rows == 0);
		if (rows == 0 && ++passed > BATCH_LOOK_PAST)
			break;
		if (rows == 0)
			continue;
		take(policy, batch, r, rows);
		rows_left -= rows;
		if (rows_left == 0 || units_left == 0 || batch->slices_count == BATCH_SLICES_MAX)
			break;
	}
}

enum batch_next
batch_form(struct batch_policy *policy, uint64_t now, struct batch *batch, uint64_t *wake)
{
	enum batch_next next;

	batch->rows = batch->slices_count = 0;
	next = choose(policy, now, &batch->model, wake);
	if (next != BATCH_NOW)
		return next;
	policy->formed++;
	batch->marked = batch->model->queue.next->marked;
	if (batch->marked)
		take(policy, batch, batch->model->queue.next, 1);
	else
		fill(policy, batch);
	batch->model->waiting_since = now;
	model_leave_if_empty(batch->model);
	return BATCH_NOW;
}

/* Ended: no row waits, none is being computed. */
static bool
end_if_idle(struct batch_policy *policy, struct batch_request *request)
{
	if (request->next != NULL || request->done < request->taken)
		return false;
	policy->requests--;
	return true;
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
	request_remove(request);
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
		for (struct batch_request *r = m->queue.next; r != &m->queue; r = r_next)
		{
			r_next = r->next;
			if (r->deadline == 0)
				continue;
			if (now >= r->deadline)
			{
				r->late = true;
				request_remove(r);
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

	for (struct batch_request *r = model->queue.next; r != &model->queue; r = next)
	{
		next = r->next;
		request_remove(r);
		if (end_if_idle(policy, r))
			return r;
	}
	return NULL;
}
