/*
 * choose.c
 *	  Which class and which model run next, on a free device or between two segments.
 */
#include "policy.h"

#include "../../../protocol/protocol.h"

uint64_t
batch_nsec(const struct batch_model *model, uint64_t cost)
{
	return model->nsec_batch + nsec_of(model, cost, model->nsec_row);
}

struct batch_request *
batch_head(const struct batch *batch)
{
	return queue_head(batch->model, batch->class_);
}

/* ---- bounds ---- */

/* Whether interactive calls are about. */
static bool
calls_are_about(const struct batch_policy *policy, uint64_t now)
{
	return policy->rows_class[INFER_CLASS_INTERACTIVE] > 0 ||
		(policy->interactive_at != 0 && now - policy->interactive_at < BATCH_ABOUT);
}

static uint64_t
less_third(uint64_t left, uint64_t slice)
{
	return left - (left / 2 < slice / POLICY_BESIDE ? left / 2 : slice / POLICY_BESIDE);
}

/* The time that bulk rows have of their batch while calls are about: a third of a slice less than there is, or half. */
static uint64_t
left_about(const struct batch_policy *policy, const struct batch_model *model)
{
	uint64_t	slice = stretch_slice(policy, model);
	uint64_t	less = slice > model->nsec_batch ? less_third(slice - model->nsec_batch, slice) : 0;

	return stretch_worth(model, less_third(policy->slice - model->nsec_batch, policy->slice), less);
}

/*
 * The cost that fits into a slice by prediction.  Where the part that does not depend on rows is
 * longer than a slice, leaving rows out does not help, and theirs may take another one.
 * UINT64_MAX: all that waits fits, which is told without a division.
 */
static inline uint64_t
cost_slice(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_, uint64_t now)
{
	bool		about = class_ != INFER_CLASS_INTERACTIVE && calls_are_about(policy, now);
	uint64_t	slice = policy->slice * (class_ == INFER_CLASS_INTERACTIVE || about ? 1 : model->slices_max);
	uint64_t	left = slice > model->nsec_batch ? slice - model->nsec_batch : slice;
	uint64_t	cost;

	if (slice == 0)
		return UINT64_MAX;
	if (slice > model->nsec_batch && about)
		left = left_about(policy, model);
	if (nsec_of(model, model->cost_waiting + 1, model->nsec_row) <= left)
		return UINT64_MAX;
	cost = cost_of(model, left);
	return cost > 0 ? cost : 1;
}

static inline struct room
room_of(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_, uint64_t now)
{
	struct room room = {
		.rows = model->rows_max < policy->rows_max ? model->rows_max : policy->rows_max,
		.units = model->units_max > 0 ? model->units_max : UINT64_MAX,
		.cost = cost_slice(policy, model, class_, now)
	};

	if (model->weighed && policy->units_max > 0 && policy->units_max < room.units)
		room.units = policy->units_max;
	return room;
}

struct room
choose_room(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_, uint64_t now)
{
	return room_of(policy, model, class_, now);
}

/* ---- which class and model ---- */

enum place							/* where a batch is to run */
{
	PLACE_FREE,						/* on a free device */
	PLACE_BETWEEN,					/* between two segments of another one */
	PLACE_BETWEEN_SHORT				/* likewise, if a row of it fits into a slice */
};

/* The first request of a class that may be served in a place; NULL: none. */
static const struct batch_request *
first_request(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_,
			  enum place place, uint64_t now)
{
	const struct batch_request *head = &model->queues[class_];
	const struct batch_request *request = head->next;

	if (!model->ready)
		return NULL;
	while (place != PLACE_FREE && request != head && !may_pass(request, now))
		request = request->next;
	if (request == head || (place == PLACE_BETWEEN_SHORT && batch_nsec(model, next_cost(request)) > policy->slice))
		return NULL;
	return request;
}

/* Whether a request need not wait for more of its model; otherwise until when it may. */
static bool
is_due(const struct batch_policy *policy, const struct batch_request *request, uint64_t now, uint64_t *due)
{
	const struct batch_model *model = request->model;
	struct room room;

	*due = request->arrived + policy->delay;
	if (policy->delay == 0 || now >= *due || request->marked)
		return true;
	room = choose_room(policy, model, request->class_, now);
	return model->rows_waiting >= room.rows || model->units_waiting >= room.units || model->cost_waiting >= room.cost;
}

struct choice
{
	struct batch_model *model;		/* NULL: none */
	int32_t		priority;			/* of its first request */
	uint64_t	tag;
	int32_t		next_priority;		/* of the first one of another model, INT32_MIN if there is none, */
	uint64_t	next_tag;			/* and UINT64_MAX */
};

/* The model whose first request of the class is to be served first.  wake: when one will be due. */
static struct choice
choose_model(const struct batch_policy *policy, uint32_t class_, enum place place, uint64_t now, uint64_t *wake)
{
	struct choice best = {NULL, INT32_MIN, UINT64_MAX, INT32_MIN, UINT64_MAX};

	if (policy->rows_class[class_] == 0)
		return best;
	for (struct batch_model *m = policy->models.next; m != &policy->models; m = m->next)
	{
		const struct batch_request *first = first_request(policy, m, class_, place, now);
		uint64_t	due;

		if (first == NULL)
			continue;
		if (!is_due(policy, first, now, &due))
		{
			if (due < *wake)
				*wake = due;
			continue;
		}
		if (best.model == NULL || goes_before(first, best.priority, best.tag) ||
			(first->priority == best.priority && first->tag == best.tag && m->waiting_since < best.model->waiting_since))
			best = (struct choice) {m, first->priority, first->tag, best.priority, best.tag};
		else if (goes_before(first, best.next_priority, best.next_tag))
		{
			best.next_priority = first->priority;
			best.next_tag = first->tag;
		}
	}
	return best;
}

/* At most: what the next batch of a class may have, if it is filled up with what waits. */
static inline struct room
room_next(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_, uint64_t now)
{
	struct room room = room_of(policy, model, class_, now);
	const struct batch_request *head = queue_head(model, class_);
	uint64_t	alone = next_cost(head);

	if (!model->weighed && room.rows > room.cost)
		room.rows = (uint32_t) room.cost;
	if (room.rows > model->rows_waiting)
		room.rows = (uint32_t) model->rows_waiting;
	if (head->marked)
		room.rows = 1;
	if (room.cost > model->cost_waiting)
		room.cost = model->cost_waiting;
	if (!model->weighed || head->marked)
		room.cost = room.rows * alone;
	else if (room.cost < alone)
		room.cost = alone;
	return room;
}

/*
 * The highest class above `below` that has something to run, or a lower one that is owed its
 * turn; false: none has.
 */
static bool
choose_class(const struct batch_policy *policy, uint32_t below, enum place place, uint64_t now,
			 struct batch *batch, uint64_t *wake)
{
	struct choice best[BATCH_CLASSES];
	uint32_t	highest = BATCH_CLASSES;

	for (uint32_t c = below; c-- > 0;)
	{
		best[c] = choose_model(policy, c, place, now, wake);
		if (best[c].model != NULL)
			highest = c;
	}
	if (highest == BATCH_CLASSES)
		return false;
	batch->class_ = highest;
	for (uint32_t c = below; c-- > highest + 1;)
	{
		struct batch_model *m = best[c].model;

		if (m != NULL && share_is_owed(policy, c, batch_nsec(m, room_next(policy, m, c, now).cost)))
		{
			batch->class_ = c;
			break;
		}
	}
	batch->unopposed = batch->class_ == highest;
	batch->model = best[batch->class_].model;
	batch->next_priority = best[batch->class_].next_priority;
	batch->next_tag = best[batch->class_].next_tag;
	return true;
}

enum batch_next
batch_choose(struct batch_policy *policy, uint64_t now, struct batch *batch, uint32_t *rows, uint64_t *wake)
{
	struct room room;

	batch->rows = batch->slices_count = 0;
	*wake = UINT64_MAX;
	if (!choose_class(policy, BATCH_CLASSES, PLACE_FREE, now, batch, wake))
		return *wake != UINT64_MAX ? BATCH_LATER : BATCH_NOTHING;
	room = room_next(policy, batch->model, batch->class_, now);
	*rows = room.rows;
	batch->cost = room.cost;
	return BATCH_NOW;
}

/* ---- between two segments ---- */

bool
choose_between(const struct batch_policy *policy, uint64_t now, const struct batch *running,
			   uint32_t interrupted, struct batch *batch)
{
	uint64_t	wake = UINT64_MAX;

	if (running->marked)
		return false;
	if (running->rows_class[INFER_CLASS_INTERACTIVE] > 0)
		return interrupted == 0 &&
			choose_class(policy, INFER_CLASS_INTERACTIVE + 1, PLACE_BETWEEN_SHORT, now, batch, &wake);
	return !share_is_owed(policy, running->class_, policy->slice) &&
		choose_class(policy, running->class_, PLACE_BETWEEN, now, batch, &wake);
}

bool
choose_opposed(const struct batch_policy *policy, const struct batch *batch, uint64_t now)
{
	uint64_t	wake = UINT64_MAX;

	for (uint32_t c = 0; c < batch->class_; c++)
		if (choose_model(policy, c, PLACE_FREE, now, &wake).model != NULL)
			return true;
	return false;
}
