/*
 * run.c
 *	  A batch through an encoder: rows that have tokens are taken into parts, each part is
 *	  computed, and its results go into the replies.
 *
 * Loop
 *	take rows until the part is full → grow the buffers → copy their tokens → enqueue and
 *	wait, segments of a slice's length where others may go first → scatter → the next part.
 *	Where a graph is run as it is, all of that for the rows of one length after the other.
 *
 * Invariants
 *	- A row that has no unit, or has failed, is not computed.
 *	- An error of a row stays with the row, and depends on nothing but the row.
 */
#include "encoder_model.h"

#include <stdio.h>
#include <string.h>

#include "../../status.h"

struct cursor						/* the next row of the slices */
{
	const struct model_slice *slices;
	uint32_t	slices_count;
	uint32_t	slice;
	uint32_t	row;				/* within it */
	uint32_t	length;				/* only rows of so many tokens; 0: all */
	const struct text_graph_program *graph;	/* of that length; or NULL */
};

/* ---- the device ---- */

static struct device_batch
device_batch(const struct encoder_run *run, const struct encoder_part *part)
{
	const struct encoder_buffers *b = run->buffers;

	return (struct device_batch) {
		.items = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = part->rows, [DEVICE_LEAD_TOKENS] = part->tokens},
		.max_len = part->max_len,
		.pairs = part->pairs,
		.row_off = b->row_off,
		.row_first = run->m->encoder->prompt_excluded ? b->row_first : NULL,
		.row_error = b->row_error,
		.row_message = b->row_message
	};
}

bool
encoder_compute(struct encoder_run *run, bool graph, uint32_t first, uint32_t last, const struct encoder_part *part,
				struct status *status)
{
	struct device *device = run->m->device;
	struct device_batch batch = device_batch(run, part);
	struct encoder_buffers *b = run->buffers;
	void	   *bindings[ENCODER_GRAPH_BINDINGS];

	if (graph)
	{
		encoder_graph_bindings(run, part, bindings);
		return device_run(device, run->queue, part->graph->program, first, last, &batch, bindings, b->graph_arena.data, status);
	}
	return device_run(device, run->queue, run->m->program.program, first, last, &batch, b->bindings, b->arena, status);
}

/* Lets others go first; what they run of this very model has other buffers. */
static bool
give_way(struct model_yield *yield, struct status *status)
{
	return yield->between(yield) || status_set(status, INFER_ERROR_CANCELLED, "nobody waits for the batch any more");
}

/* With segments of the length that others are to wait for at most, if there is a yield. */
static bool
compute_segments(struct encoder_run *run, bool graph, const struct encoder_part *part, struct status *status)
{
	struct device *device = run->m->device;
	struct model_yield *yield = run->yield;
	struct device_batch batch = device_batch(run, part);
	struct device_program *program = graph ? part->graph->program : run->m->program.program;
	uint32_t	first = 0;
	uint32_t	last = UINT32_MAX;
	uint64_t	nsec;

	for (;;)
	{
		if (yield != NULL)
		{
			last = device->ops->segment_end(device, program, first, &batch, yield->segment_nsec, &nsec);
			yield->segments_long += nsec > yield->segment_nsec;
		}
		if (!encoder_compute(run, graph, first, last, part, status))
			return false;
		if (last == UINT32_MAX)
			return true;
		if (!give_way(yield, status))
			return false;
		first = last;
	}
}

static bool
compute(struct encoder_run *run, const struct encoder_part *part, struct status *status)
{
	if (part->graph != NULL && !compute_segments(run, true, part, status))
		return false;
	if (part->graph != NULL && run->yield != NULL && !give_way(run->yield, status))
		return false;
	return compute_segments(run, false, part, status);
}

/* ---- parts ---- */

static uint32_t
ref_tokens(const struct encoder_row_ref *ref)
{
	return encoder_prepared(ref->request)->rows[ref->row].tokens;
}

/* The next row that is to be computed, at the cursor; false: there is none. */
static bool
cursor_seek(struct cursor *cursor, struct encoder_row_ref *ref)
{
	for (; cursor->slice < cursor->slices_count; cursor->slice++, cursor->row = 0)
	{
		const struct model_slice *slice = &cursor->slices[cursor->slice];

		for (; cursor->row < slice->count; cursor->row++)
		{
			*ref = (struct encoder_row_ref) {slice->request, slice->first + cursor->row};
			if (slice->request->units[ref->row] > 0 && ref_tokens(ref) > 0 && (cursor->length == 0 || cursor->length == ref_tokens(ref)))
				return true;
		}
	}
	return false;
}

/* Tokens of the rows from a cursor on. */
static uint64_t
tokens_left(struct cursor cursor)
{
	struct encoder_row_ref ref;
	uint64_t	tokens = 0;

	for (; cursor_seek(&cursor, &ref); cursor.row++)
		tokens += ref_tokens(&ref);
	return tokens;
}

/* How much the part that begins at a cursor has: of what is left, parts of about the same size. */
static struct encoder_part
part_measure(const struct encoder_model *m, struct cursor cursor, uint64_t left)
{
	uint32_t	most = cursor.graph == NULL ? m->part_tokens : encoder_graph_rows(m, cursor.graph) * cursor.length;
	uint64_t	parts = (left + most - 1) / most;
	struct encoder_part part = {.graph = cursor.graph};
	struct encoder_row_ref ref;

	for (; cursor_seek(&cursor, &ref); cursor.row++)
	{
		uint32_t	tokens = ref_tokens(&ref);

		if (part.rows > 0 && (part.tokens + tokens > most || part.tokens * parts >= left))
			break;
		part.rows++;
		part.tokens += tokens;
		part.pairs += (uint64_t) tokens * tokens;
		if (tokens > part.max_len)
			part.max_len = tokens;
	}
	return part;
}

/* A row's tokens into the bindings, from its first place in the part on. */
static void
gather_row(struct encoder_run *run, const struct encoder_row_ref *ref, uint32_t at)
{
	const struct encoder_request *prepared = encoder_prepared(ref->request);
	const struct encoder_row *row = &prepared->rows[ref->row];
	struct encoder_buffers *b = run->buffers;
	const struct encoder *e = run->m->encoder;
	int32_t    *places = b->bindings[ENCODER_PLACES];
	const int32_t *ids = prepared->ids + row->first;
	int64_t		counted = e->position_first;

	memcpy((int32_t *) b->bindings[ENCODER_IDS] + at, ids, row->tokens * sizeof(int32_t));
	if (b->bindings[ENCODER_TYPES] != NULL)
		memcpy((int32_t *) b->bindings[ENCODER_TYPES] + at, prepared->types + row->first, row->tokens * sizeof(int32_t));
	for (uint32_t i = 0; places != NULL && i < row->tokens; i++)
		places[at + i] = (int32_t) (ids[i] == e->position_padding ? e->position_first - 1 : counted++);
}

static void
part_gather(struct encoder_run *run, struct cursor *cursor, const struct encoder_part *part)
{
	struct encoder_buffers *b = run->buffers;
	uint32_t	at = 0;

	for (uint32_t row = 0; row < part->rows; row++, cursor->row++)
	{
		cursor_seek(cursor, &b->refs[row]);
		b->row_off[row] = at;
		b->row_first[row] = encoder_prepared(b->refs[row].request)->rows[b->refs[row].row].passed_over;
		b->row_error[row] = INFER_OK;
		b->row_message[row] = NULL;
		if (part->graph == NULL)
			gather_row(run, &b->refs[row], at);
		else
			encoder_graph_gather(run, part, &b->refs[row], row);
		at += ref_tokens(&b->refs[row]);
	}
	b->row_off[part->rows] = at;
}

/* ---- the batch ---- */

static bool
slices_check(const struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	for (uint32_t i = 0; i < slices_count; i++)
	{
		const struct model_request *request = slices[i].request;

		if (request->prepared == NULL || slices[i].count > request->rows || slices[i].first > request->rows - slices[i].count)
			return status_set(status, INFER_ERROR_INTERNAL, "a request was not prepared for the model");
	}
	return true;
}

/* Those that a cursor finds. */
static bool
run_rows(struct encoder_run *run, struct cursor cursor, struct status *status)
{
	struct encoder_row_ref next;
	uint64_t	left = tokens_left(cursor);

	while (cursor_seek(&cursor, &next))
	{
		struct encoder_part part = part_measure(run->m, cursor, left);

		if (!encoder_buffers_grow(run, &part, status))
			return false;
		part_gather(run, &cursor, &part);
		if (part.rows == 1 && next.request->profile)
		{
			if (!encoder_compute_profiled(run, &part, next.request, status))
				return false;
		}
		else if (!compute(run, &part, status))
			return false;
		encoder_scatter(run, &part);
		left -= part.tokens;
		if (run->yield != NULL && cursor_seek(&cursor, &next) && !give_way(run->yield, status))
			return false;
	}
	return true;
}

/* The fewest tokens that a row has of those with more; 0: there is none. */
static uint32_t
next_length(struct cursor cursor)
{
	uint32_t	above = cursor.length, next = 0;
	struct encoder_row_ref ref;

	for (cursor.length = 0; cursor_seek(&cursor, &ref); cursor.row++)
		if (ref_tokens(&ref) > above && (next == 0 || ref_tokens(&ref) < next))
			next = ref_tokens(&ref);
	return next;
}

/* Texts of one length may be impossible to compute where others are not. */
static void
refuse_length(struct cursor cursor, const struct status *why)
{
	char		text[STATUS_TEXT_MAX + 64];
	struct encoder_row_ref ref;

	snprintf(text, sizeof(text), "a text of %u tokens cannot be computed: %s", cursor.length, why->message);
	for (; cursor_seek(&cursor, &ref); cursor.row++)
		model_row_error(ref.request, ref.row, why->error, text, NULL, NULL);
}

static bool
run_length(struct encoder_run *run, struct cursor cursor, struct status *status)
{
	struct text_graph *graph = run->m->encoder->graph;
	struct text_graph_program *program;
	struct status why = {0};
	bool		fine;

	program = text_graph_take(graph, cursor.length, run->queue, &why);
	if (program == NULL && (why.error == INFER_ERROR_MODEL || why.error == INFER_ERROR_UNSUPPORTED))
	{
		refuse_length(cursor, &why);
		return true;
	}
	if (program == NULL)
	{
		*status = why;
		return false;
	}
	cursor.graph = program;
	fine = run_rows(run, cursor, status);
	text_graph_give(graph, program);
	return fine;
}

static bool
run_batch(struct encoder_run *run, const struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	struct cursor cursor = {.slices = slices, .slices_count = slices_count};
	bool		fine = slices_check(slices, slices_count, status);

	if (run->m->encoder->graph == NULL)
		return fine && run_rows(run, cursor, status);
	while (fine && (cursor.length = next_length(cursor)) > 0)
		fine = run_length(run, cursor, status);
	return fine;
}

bool
encoder_model_run(struct model *model, struct device_queue *queue, struct model_yield *yield,
				  const struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	struct encoder_run run = {.m = (struct encoder_model *) model, .queue = queue, .yield = yield};
	bool		fine;

	run.buffers = encoder_buffers_take(run.m, queue, status);
	if (run.buffers == NULL)
		return false;
	fine = run_batch(&run, slices, slices_count, status);
	encoder_buffers_give(run.m, run.buffers);
	return fine;
}
