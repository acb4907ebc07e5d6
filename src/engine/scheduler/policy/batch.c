/*
 * batch.c
 *	  Which rows run next, of the class and model that choose.c names, and what they are
 *	  charged.  See batch.h.
 */
#include "policy.h"

#include <stddef.h>

#include "../../../protocol/protocol.h"

/* ---- which rows ---- */

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Of rows that all take the same: how many fit; the first row of an empty batch always does. */
static inline void
equal_rows(struct batch_slice *slice, const struct room *room, bool empty)
{
	const struct batch_request *request = slice->request;
	uint64_t	cost_row = request->model->cost_row;
	uint64_t	rows = least(least(request->rows - request->taken, room->rows), room->units);

	if (room->cost < rows * cost_row)
		rows = room->cost / cost_row;
	if (rows == 0 && empty)
		rows = 1;
	slice->count = slice->rows = (uint32_t) rows;
	slice->units = rows;
	slice->cost = rows * cost_row;
}

/* Likewise, one by one. */
static void
weighed_rows(struct batch_slice *slice, const struct room *room, bool empty)
{
	const struct batch_request *request = slice->request;
	bool		alone = false;		/* a row beyond a bound, for which the batch is */

	for (uint32_t row = request->taken; row < request->rows; row++)
	{
		uint64_t	units;
		uint64_t	cost;

		if (row_takes(request, row, &units, &cost))
		{
			if (alone || slice->rows >= room->rows || slice->units + units > room->units || slice->cost + cost > room->cost)
			{
				if (!empty || slice->rows > 0)
					break;
				alone = true;
			}
			slice->rows++;
			slice->units += units;
			slice->cost += cost;
		}
		slice->count++;
	}
}

/* A request's next rows, as many as fit; false: none of those to be computed does. */
static inline bool
rows_that_fit(struct batch_request *request, const struct room *room, bool empty, struct batch_slice *slice)
{
	*slice = (struct batch_slice) {.request = request, .first = request->taken};
	if (request->units == NULL && request->costs == NULL)
		equal_rows(slice, room, empty);
	else
		weighed_rows(slice, room, empty);
	return slice->rows > 0;
}

/* The sum of the squares of their units. */
static uint64_t
count_pairs(const struct batch_slice *slice)
{
	const uint32_t *units = slice->request->units;
	uint64_t	pairs = 0;

	if (units == NULL || !slice->request->model->weighed)
		return 0;
	for (uint32_t row = slice->first; row < slice->first + slice->count; row++)
		pairs += (uint64_t) units[row] * units[row];
	return pairs;
}

/* The slice behind those that the batch has is one more. */
static void
take(struct batch_policy *policy, struct batch *batch)
{
	const struct batch_slice *slice = &batch->slices[batch->slices_count++];
	uint32_t	c = slice->request->class_;

	queue_take(policy, slice, batch->rows_class[c] == 0);
	batch->rows += slice->rows;
	batch->rows_class[c] += slice->rows;
	batch->units += slice->units;
	batch->pairs += count_pairs(slice);
	batch->cost += slice->cost;
	batch->cost_class[c] += slice->cost;
}

static void
leave_room(struct room *room, const struct batch_slice *slice)
{
	room->rows -= (uint32_t) least(slice->rows, room->rows);	/* more than there is: a row that is alone */
	if (room->units != UINT64_MAX)
		room->units -= least(slice->units, room->units);
	if (room->cost != UINT64_MAX)
		room->cost -= least(slice->cost, room->cost);
}

static bool
is_full(const struct batch *batch, const struct room *room)
{
	return room->rows == 0 || room->units == 0 || room->cost == 0 || batch->slices_count == BATCH_SLICES_MAX ||
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
		struct batch_slice *slice = &batch->slices[batch->slices_count];

		next = r->next;
		if (r->formed == policy->formed || is_late(r, now) || (nested && !may_pass(r, now)))
			continue;			/* has rows in this very batch, or is about to expire */
		if (r->marked || (class_ == batch->class_ && !fair_may_fill(policy, r, batch->next_priority, batch->next_tag)) ||
			!rows_that_fit(r, room, batch->rows == 0, slice))
		{
			room->passed++;
			continue;
		}
		take(policy, batch);
		leave_room(room, slice);
	}
}

/*
 * The cost of rows of other classes that a batch with interactive ones may still take.  A call has waited
 * for the slice before; a whole one of others' rows in its own batch would be a second.
 */
static uint64_t
cost_beside(const struct batch_policy *policy, const struct batch *batch)
{
	uint64_t	taken = batch->cost - batch->cost_class[INFER_CLASS_INTERACTIVE];
	uint64_t	most = policy->slice / POLICY_BESIDE;

	if (batch->rows_class[INFER_CLASS_INTERACTIVE] == 0 || policy->slice == 0)
		return UINT64_MAX;
	most = cost_of(batch->model, stretch_worth(batch->model, most, stretch_slice(policy, batch->model) / POLICY_BESIDE));
	return most > taken ? most - taken : 0;
}

static void
fill_beside(struct batch_policy *policy, struct batch *batch, uint64_t now, struct room *room)
{
	if (batch->model->rows_waiting == 0)
		return;
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
	{
		uint64_t	most = c == INFER_CLASS_INTERACTIVE ? UINT64_MAX : cost_beside(policy, batch);

		room->passed = 0;
		if (room->cost > most)
			room->cost = most;
		if (c != batch->class_)
			fill(policy, batch, c, false, now, room);
	}
}

/* room: all there was. */
static void
note_fill(struct batch *batch, const struct room *room)
{
	bool		in_units = batch->model->weighed && room->units != UINT64_MAX;

	batch->room = in_units ? room->units : room->rows;
	batch->filled = least(in_units ? batch->units : batch->rows, batch->room);
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
	static const struct room one = {.rows = 1, .units = UINT64_MAX, .cost = UINT64_MAX};
	const struct room all = choose_room(policy, model, batch->class_, now);
	struct room room = all;

	policy->formed++;
	batch->rows = batch->slices_count = 0;
	batch->units = batch->pairs = batch->cost = 0;
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		batch->rows_class[c] = batch->cost_class[c] = 0;
	batch->marked = !nested && head->marked;
	if (!batch->marked)
		fill(policy, batch, batch->class_, nested, now, &room);
	else if (!is_late(head, now) && rows_that_fit(head, &one, true, &batch->slices[0]))
		take(policy, batch);
	if (!nested && !batch->marked)
		fill_beside(policy, batch, now, &room);
	note_fill(batch, &all);
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

uint64_t
batch_part(const struct batch *batch, uint64_t cost, uint64_t nsec)
{
	if (cost == batch->cost)
		return nsec;
	return (uint64_t) ((unsigned __int128) nsec * cost / batch->cost);
}

void
batch_charge(struct batch_policy *policy, const struct batch *batch, uint64_t nsec)
{
	for (uint32_t i = 0; i < batch->slices_count; i++)
	{
		const struct batch_slice *slice = &batch->slices[i];

		fair_charge(slice->request, slice->cost, batch_part(batch, slice->cost, nsec));
	}
}
