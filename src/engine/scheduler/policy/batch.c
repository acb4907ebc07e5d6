/*
 * batch.c
 *	  Which rows run next, of the class and model that choose.c names, and what they are
 *	  charged.  See batch.h.
 */
#include "policy.h"

#include <stddef.h>

#include "../../../protocol/protocol.h"

#define SLICE_BESIDE	3			/* of a slice, one part: how much bulk rows may lengthen an interactive batch */

/* ---- which rows ---- */

struct room							/* what is left of a batch's */
{
	uint32_t	rows;
	uint64_t	units;
	uint32_t	passed;				/* requests looked past */
};

/* How many of a request's next rows fit; the first row of an empty batch always does. */
static uint32_t
rows_that_fit(const struct batch_request *request, struct room *room, bool empty)
{
	uint32_t	rows = request->rows - request->taken;
	uint32_t	n;

	if (rows > room->rows)
		rows = room->rows;
	if (room->units == UINT64_MAX)
		return rows;
	for (n = 0; n < rows; n++)
	{
		uint64_t	cost = request->units != NULL ? request->units[request->taken + n] : 1;

		if (cost > room->units)
		{
			if (!empty || n > 0)
				break;
			room->units = 0;
			return 1;
		}
		room->units -= cost;
	}
	return n;
}

static void
take(struct batch_policy *policy, struct batch *batch, struct batch_request *request, uint32_t rows)
{
	batch->slices[batch->slices_count++] = (struct batch_slice) {
		.request = request, .first = request->taken, .count = rows
	};
	queue_take(policy, request, rows, batch->rows_class[request->class_] == 0);
	batch->rows += rows;
	batch->rows_class[request->class_] += rows;
}

static bool
is_full(const struct batch *batch, const struct room *room)
{
	return room->rows == 0 || room->units == 0 || batch->slices_count == BATCH_SLICES_MAX ||
		room->passed > BATCH_LOOK_PAST;
}

/* nested: in the middle of another batch. */
static void
fill(struct batch_policy *policy, struct batch *batch, uint32_t class_, bool nested, uint64_t now,
	 struct room *room)
{
	struct batch_request *head = &batch->model->queues[class_];
	struct batch_request *next;

	for (struct batch_request *r = head->next; r != head && !is_full(batch, room); r = next)
	{
		uint32_t	rows = 0;

		next = r->next;
		if (r->formed == policy->formed || is_late(r, now) || (nested && !may_pass(r, now)))
			continue;			/* has rows in this very batch, or is about to expire */
		if (!r->marked && (class_ != batch->class_ || fair_may_fill(policy, r, batch->next_tag)))
			rows = rows_that_fit(r, room, batch->rows == 0);
		if (rows == 0)
		{
			room->passed++;
			continue;
		}
		take(policy, batch, r, rows);
		room->rows -= rows;
	}
}

/*
 * Rows of other classes that a batch with interactive ones may still take.  A call has waited
 * for the slice before; a whole one of others' rows in its own batch would be a second.
 */
static uint32_t
rows_beside(const struct batch_policy *policy, const struct batch *batch)
{
	uint32_t	taken = batch->rows - batch->rows_class[INFER_CLASS_INTERACTIVE];
	uint64_t	most;

	if (taken == batch->rows || policy->slice == 0 || batch->model->nsec_row == 0)
		return UINT32_MAX;
	most = policy->slice / SLICE_BESIDE / batch->model->nsec_row;
	return most > taken ? (uint32_t) (most - taken) : 0;
}

static void
fill_beside(struct batch_policy *policy, struct batch *batch, uint64_t now, struct room *room)
{
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
	{
		uint32_t	most = c == INFER_CLASS_INTERACTIVE ? UINT32_MAX : rows_beside(policy, batch);

		room->passed = 0;
		if (room->rows > most)
			room->rows = most;
		if (c != batch->class_)
			fill(policy, batch, c, false, now, room);
	}
}

/*
 * Takes the batch whose turn it is.  nested: in the middle of another one, whose requests are
 * left alone; otherwise rows of other classes may have what is left of the room.
 */
static bool
take_batch(struct batch_policy *policy, uint64_t now, struct batch *batch, bool nested)
{
	struct batch_model *model = batch->model;
	struct batch_request *head = queue_head(model, batch->class_);
	struct room room = {choose_room(policy, model), model->units_max > 0 ? model->units_max : UINT64_MAX, 0};

	policy->formed++;
	batch->rows = batch->slices_count = 0;
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		batch->rows_class[c] = 0;
	batch->marked = !nested && head->marked;
	if (!batch->marked)
		fill(policy, batch, batch->class_, nested, now, &room);
	else if (!is_late(head, now))
		take(policy, batch, head, 1);
	if (!nested && !batch->marked)
		fill_beside(policy, batch, now, &room);
	model->waiting_since = now;
	queue_leave_if_empty(model);
	return batch->rows > 0;
}

bool
batch_take(struct batch_policy *policy, uint64_t now, struct batch *batch)
{
	return take_batch(policy, now, batch, false);
}

enum batch_next
batch_form(struct batch_policy *policy, uint64_t now, struct batch *batch, uint64_t *wake)
{
	uint32_t	rows;
	enum batch_next next = batch_choose(policy, now, batch, &rows, wake);

	if (next != BATCH_NOW || batch_take(policy, now, batch))
		return next;
	*wake = now;				/* all of them are late: batch_expire first */
	return BATCH_LATER;
}

/* ---- between two segments ---- */

bool
batch_interrupt(struct batch_policy *policy, uint64_t now, struct batch *running,
				uint32_t interrupted, struct batch *batch)
{
	if (!choose_between(policy, now, running, interrupted, batch))
	{
		running->unopposed = !choose_opposed(policy, running, now);
		return false;
	}
	policy->suspended[running->class_]++;
	return take_batch(policy, now, batch, true);	/* at least the row that it was chosen for */
}

void
batch_resume(struct batch_policy *policy, const struct batch *running)
{
	policy->suspended[running->class_]--;
}

bool
batch_wanted(const struct batch *batch, uint64_t now)
{
	bool		wanted = false;

	for (uint32_t i = 0; i < batch->slices_count; i++)
	{
		struct batch_request *request = batch->slices[i].request;

		if (is_late(request, now) && request->next == NULL)
			request->late = true;
		wanted = wanted || !(request->cancelled || request->late);
	}
	return wanted;
}

void
batch_charge_segment(struct batch_policy *policy, const struct batch *batch, uint64_t nsec, bool more)
{
	policy->suspended[batch->class_] += more;
	share_charge(policy, batch, nsec);
	policy->suspended[batch->class_] -= more;
}

void
batch_charge(struct batch_policy *policy, const struct batch *batch, uint64_t nsec)
{
	for (uint32_t i = 0; i < batch->slices_count; i++)
	{
		const struct batch_slice *slice = &batch->slices[i];

		fair_charge(slice->request, slice->count,
					slice->count == batch->rows ? nsec : nsec * slice->count / batch->rows);
	}
}
