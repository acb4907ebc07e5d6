/*
 * batch.c
 *	  What runs next: which class, which model, which rows.  See batch.h.
 */
#include "policy.h"

#include <stddef.h>

#include "../../protocol/protocol.h"

#define SLICE_BESIDE	3			/* of a slice, one part: how much bulk rows may lengthen an interactive batch */

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

static uint32_t
rows_room(const struct batch_policy *policy, const struct batch_model *model)
{
	uint32_t	rows = model->rows_max < policy->rows_max ? model->rows_max : policy->rows_max;

	rows = rows_slice(policy, model, rows);
	return rows > 0 ? rows : 1;
}

static bool
is_short(const struct batch_policy *policy, const struct batch_model *model)
{
	return batch_nsec(model, 1) <= policy->slice;
}

/* ---- which class and model ---- */

/* Whether a class's next batch of a model need not wait for more; otherwise until when it may. */
static bool
model_is_due(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_,
			 uint64_t now, uint64_t *due)
{
	const struct batch_request *head = queue_head(model, class_);

	*due = head->arrived + policy->delay;
	return policy->delay == 0 || now >= *due || head->marked ||
		model->rows_waiting >= rows_room(policy, model);
}

/*
 * The model whose first request of the class is to be served first; short_: of those whose
 * rows fit into a slice.  wake: when one will be due.
 */
static struct batch_model *
choose_model(const struct batch_policy *policy, uint32_t class_, bool short_, uint64_t now, uint64_t *wake)
{
	struct batch_model *best = NULL;

	if (policy->rows_class[class_] == 0)
		return NULL;
	for (struct batch_model *m = policy->models.next; m != &policy->models; m = m->next)
	{
		uint64_t	due;
		uint64_t	tag;

		if (!m->ready || m->rows_class[class_] == 0 || (short_ && !is_short(policy, m)))
			continue;
		if (!model_is_due(policy, m, class_, now, &due))
		{
			if (due < *wake)
				*wake = due;
			continue;
		}
		tag = queue_head(m, class_)->tag;
		if (best == NULL || tag < queue_head(best, class_)->tag ||
			(tag == queue_head(best, class_)->tag && m->waiting_since < best->waiting_since))
			best = m;
	}
	return best;
}

static uint32_t
rows_next(const struct batch_policy *policy, const struct batch_model *model, uint32_t class_)
{
	uint32_t	room = rows_room(policy, model);

	if (queue_head(model, class_)->marked)
		return 1;
	return model->rows_waiting < room ? (uint32_t) model->rows_waiting : room;
}

static enum batch_next
choose(const struct batch_policy *policy, uint64_t now, struct batch_model **model, uint32_t *class_,
	   bool *unopposed, uint64_t *wake)
{
	struct batch_model *best[BATCH_CLASSES];
	uint32_t	highest = BATCH_CLASSES;

	*wake = UINT64_MAX;
	for (uint32_t c = BATCH_CLASSES; c-- > 0;)
	{
		best[c] = choose_model(policy, c, false, now, wake);
		if (best[c] != NULL)
			highest = c;
	}
	if (highest == BATCH_CLASSES)
		return *wake != UINT64_MAX ? BATCH_LATER : BATCH_NOTHING;
	*class_ = highest;
	for (uint32_t c = BATCH_CLASSES; c-- > highest + 1;)
	{
		if (best[c] != NULL && share_is_owed(policy, c, batch_nsec(best[c], rows_next(policy, best[c], c))))
		{
			*class_ = c;
			break;
		}
	}
	*unopposed = *class_ == highest;
	*model = best[*class_];
	return BATCH_NOW;
}

enum batch_next
batch_peek(struct batch_policy *policy, uint64_t now, struct batch_model **model,
		   uint32_t *rows, uint64_t *wake)
{
	uint32_t	class_;
	bool		unopposed;
	enum batch_next next = choose(policy, now, model, &class_, &unopposed, wake);

	if (next == BATCH_NOW)
		*rows = rows_next(policy, *model, class_);
	return next;
}

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
	batch->rows += rows;
	batch->rows_class[request->class_] += rows;
	queue_take(policy, request, rows);
}

static bool
is_full(const struct batch *batch, const struct room *room)
{
	return room->rows == 0 || room->units == 0 || batch->slices_count == BATCH_SLICES_MAX ||
		room->passed > BATCH_LOOK_PAST;
}

/* fresh: only of requests that no other batch computes rows of. */
static void
fill(struct batch_policy *policy, struct batch *batch, uint32_t class_, bool fresh, uint64_t now,
	 struct room *room)
{
	struct batch_request *head = &batch->model->queues[class_];
	struct batch_request *next;

	for (struct batch_request *r = head->next; r != head && !is_full(batch, room); r = next)
	{
		uint32_t	rows = 0;

		next = r->next;
		if (r->formed == policy->formed || (r->deadline != 0 && now >= r->deadline))
			continue;			/* has rows in this very batch, or is about to expire */
		if (fresh && r->done < r->taken)
			continue;
		if (!r->marked)
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
	struct room room = {rows_room(policy, model), model->units_max > 0 ? model->units_max : UINT64_MAX, 0};

	policy->formed++;
	batch->rows = batch->slices_count = 0;
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		batch->rows_class[c] = 0;
	batch->marked = head->marked;
	if (batch->marked)
		take(policy, batch, head, 1);
	else
		fill(policy, batch, batch->class_, nested, now, &room);
	if (!nested && !batch->marked)
		fill_beside(policy, batch, now, &room);
	model->waiting_since = now;
	queue_leave_if_empty(model);
	return batch->rows > 0;
}

enum batch_next
batch_form(struct batch_policy *policy, uint64_t now, struct batch *batch, uint64_t *wake)
{
	enum batch_next next;

	batch->rows = batch->slices_count = 0;
	next = choose(policy, now, &batch->model, &batch->class_, &batch->unopposed, wake);
	if (next != BATCH_NOW || take_batch(policy, now, batch, false))
		return next;
	*wake = now;				/* all of them are late: batch_expire first */
	return BATCH_LATER;
}

/* ---- between two segments ---- */

/* Whether an interactive batch may run before a batch's next segment. */
static bool
gives_way(const struct batch_policy *policy, const struct batch *running, uint32_t interrupted)
{
	if (running->marked || policy->rows_class[INFER_CLASS_INTERACTIVE] == 0)
		return false;
	if (running->rows_class[INFER_CLASS_INTERACTIVE] > 0)
		return interrupted == 0;
	return !share_is_owed(policy, running->class_, policy->slice);
}

bool
batch_interrupt(struct batch_policy *policy, uint64_t now, struct batch *running,
				uint32_t interrupted, struct batch *batch)
{
	bool		short_ = running->rows_class[INFER_CLASS_INTERACTIVE] > 0;
	uint64_t	wake = UINT64_MAX;
	struct batch_model *model;

	if (!gives_way(policy, running, interrupted))
		return false;
	model = choose_model(policy, INFER_CLASS_INTERACTIVE, short_, now, &wake);
	if (model == NULL || queue_head(model, INFER_CLASS_INTERACTIVE)->marked)
		return false;
	batch->model = model;
	batch->class_ = INFER_CLASS_INTERACTIVE;
	batch->unopposed = true;
	if (!take_batch(policy, now, batch, true))
		return false;
	running->unopposed = false;
	policy->suspended[running->class_]++;
	return true;
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

		if (request->deadline != 0 && now >= request->deadline && request->next == NULL)
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
