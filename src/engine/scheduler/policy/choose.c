/*
 * choose.c
 *	  Which class and which model run next, on a free device or between two segments.
 */
#include "policy.h"

#include "../../../protocol/protocol.h"

uint64_t
batch_nsec(const struct batch_model *model, uint32_t rows)
{
	return model->nsec_batch + rows * model->nsec_row;
}

/* ---- bounds ---- */

/*
 * Rows that fit into a slice by prediction.  Where the part that does not depend on rows is
 * longer than a slice, leaving rows out does not help, and theirs may take another one.
 */
static uint32_t
rows_slice(const struct batch_policy *policy, const struct batch_model *model, uint32_t rows)
{
	uint64_t	left = policy->slice > model->nsec_batch ? policy->slice - model->nsec_batch : policy->slice;

	if (policy->slice == 0 || rows * model->nsec_row <= left)
		return rows;
	return (uint32_t) (left / model->nsec_row);
}

uint32_t
choose_room(const struct batch_policy *policy, const struct batch_model *model)
{
	uint32_t	rows = model->rows_max < policy->rows_max ? model->rows_max : policy->rows_max;

	rows = rows_slice(policy, model, rows);
	return rows > 0 ? rows : 1;
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

	if (!model->ready || (place == PLACE_BETWEEN_SHORT && batch_nsec(model, 1) > policy->slice))
		return NULL;
	while (place != PLACE_FREE && request != head && !may_pass(request, now))
		request = request->next;
	return request != head ? request : NULL;
}

/* Whether a request need not wait for more of its model; otherwise until when it may. */
static bool
is_due(const struct batch_policy *policy, const struct batch_request *request, uint64_t now, uint64_t *due)
{
	*due = request->arrived + policy->delay;
	return policy->delay == 0 || now >= *due || request->marked ||
		request->model->rows_waiting >= choose_room(policy, request->model);
}

struct choice
{
	struct batch_model *model;		/* NULL: none */
	uint64_t	tag;				/* of its first request */
	uint64_t	next_tag;			/* of the first one of another model, UINT64_MAX if there is none */
};

/* The model whose first request of the class is to be served first.  wake: when one will be due. */
static struct choice
choose_model(const struct batch_policy *policy, uint32_t class_, enum place place, uint64_t now, uint64_t *wake)
{
	struct choice best = {NULL, UINT64_MAX, UINT64_MAX};

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
		if (best.model == NULL || first->tag < best.tag ||
			(first->tag == best.tag && m->waiting_since < best.model->waiting_since))
			best = (struct choice) {m, first->tag, best.tag};
		else if (first->tag < best.next_tag)
			best.next_tag = first->tag;
	}
	return best;
}

static uint32_t
rows_next(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_)
{
	uint32_t	room = choose_room(policy, model);

	if (queue_head(model, class_)->marked)
		return 1;
	return model->rows_waiting < room ? (uint32_t) model->rows_waiting : room;
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

		if (m != NULL && share_is_owed(policy, c, batch_nsec(m, rows_next(policy, m, c))))
		{
			batch->class_ = c;
			break;
		}
	}
	batch->unopposed = batch->class_ == highest;
	batch->model = best[batch->class_].model;
	batch->next_tag = best[batch->class_].next_tag;
	return true;
}

enum batch_next
batch_choose(struct batch_policy *policy, uint64_t now, struct batch *batch, uint32_t *rows, uint64_t *wake)
{
	batch->rows = batch->slices_count = 0;
	*wake = UINT64_MAX;
	if (!choose_class(policy, BATCH_CLASSES, PLACE_FREE, now, batch, wake))
		return *wake != UINT64_MAX ? BATCH_LATER : BATCH_NOTHING;
	*rows = rows_next(policy, batch->model, batch->class_);
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
