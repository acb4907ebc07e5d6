/*
 * graph_run.c
 *	  A batch through a graph: rows are gathered from requests, computed, checked, and
 *	  scattered into replies.
 *
 * Loop
 *	check the columns against the signature → grow the buffers → gather → enqueue and wait,
 *	segments of a slice's length where others may go first → errors of rows → scatter.
 *
 * Invariants
 *	- A client may change its region at any time: each span and each byte is read once into
 *	  the buffers, and checked there.
 *	- After the first batch of a size, a batch allocates nothing.
 *	- An error of a row stays with the row, and depends on nothing but the row: a bound that
 *	  rows exceed only together fails the batch, which then is run in parts.
 */
#include "graph_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../status.h"

#define WAIT_USEC		(1000 * 1000)
#define TEXTS_BATCH_MAX	(UINT64_C(32) << 20)	/* bytes of strings: of several rows together, kept for the next batch */
#define TEXTS_ROW_MAX	(UINT64_C(1) << 30)		/* of one row */

/* ---- buffers ---- */

static void *
aligned_zeroed(uint64_t bytes)
{
	uint64_t	space = (bytes + DEVICE_ALIGN) / DEVICE_ALIGN * DEVICE_ALIGN;
	void	   *data = space < bytes ? NULL : aligned_alloc(DEVICE_ALIGN, space);

	if (data != NULL)
		memset(data, 0, space);
	return data;
}

static void
buffers_free_rows(struct graph_model *m)
{
	struct graph_buffers *b = &m->buffers;

	for (uint32_t i = 0; b->bindings != NULL && i < m->graph.bindings_count; i++)
		free(b->bindings[i]);
	free(b->bindings);
	free(b->arena);
	free(b->row_error);
	free(b->row_message);
	b->bindings = NULL;
	b->arena = NULL;
	b->row_error = NULL;
	b->row_message = NULL;
	b->rows = 0;
	b->bytes = 0;
}

static void
buffers_free_texts(struct graph_model *m)
{
	free(m->buffers.texts);
	m->buffers.texts = NULL;
	m->buffers.texts_space = 0;
}

void
graph_buffers_free(struct graph_model *m)
{
	for (uint32_t i = 0; i <= BATCH_DEPTH; i++)
	{
		buffers_free_rows(m);
		buffers_free_texts(m);
		if (i < BATCH_DEPTH)
			m->buffers = m->others[i];
	}
	m->buffers = (struct graph_buffers) {0};
}

static void
count_bytes(struct graph_model *m)
{
	uint64_t	bytes = m->graph.weights_bytes + m->memory.used + m->buffers.bytes + m->buffers.texts_space;

	for (uint32_t i = 0; i < BATCH_DEPTH; i++)
		bytes += m->others[i].bytes + m->others[i].texts_space;
	__atomic_store_n(&m->model.bytes, bytes, __ATOMIC_RELAXED);
}

static bool
buffers_make(struct graph_model *m, uint32_t rows, uint64_t *bytes)
{
	struct graph_buffers *b = &m->buffers;
	uint32_t	items[DEVICE_LEADS] = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = rows};
	uint64_t	arena = m->device->ops->arena_bytes(m->graph.program, items);

	*bytes = arena;
	b->arena = aligned_zeroed(arena);
	b->row_error = calloc(rows, sizeof(*b->row_error));
	b->row_message = calloc(rows, sizeof(*b->row_message));
	b->bindings = calloc(m->graph.bindings_count + 1, sizeof(*b->bindings));
	if (b->arena == NULL || b->row_error == NULL || b->row_message == NULL || b->bindings == NULL)
		return false;
	for (uint32_t i = 0; i < m->graph.bindings_count; i++)
	{
		const struct graph_value *value = graph_value(&m->graph, m->graph.bindings[i]);
		uint64_t	size = (uint64_t) value->elements * device_type_bytes(value->type) * rows;

		*bytes += size;
		b->bindings[i] = aligned_zeroed(size);
		if (b->bindings[i] == NULL)
			return false;
	}
	return true;
}

bool
graph_buffers_grow(struct graph_model *m, uint32_t rows, struct status *status)
{
	uint32_t	wanted = m->buffers.rows == 0 ? 1 : m->buffers.rows;
	uint64_t	bytes;

	if (rows <= m->buffers.rows)
		return true;
	while (wanted < rows)
		wanted = wanted > UINT32_MAX / 2 ? rows : wanted * 2;
	if (wanted > m->model.batch_rows_max && rows <= m->model.batch_rows_max)
		wanted = m->model.batch_rows_max;
	buffers_free_rows(m);
	if (!buffers_make(m, wanted, &bytes))
	{
		buffers_free_rows(m);
		return status_set(status, INFER_ERROR_MEMORY, "out of memory: a batch of %u rows needs %llu bytes",
						  wanted, (unsigned long long) wanted * m->row_bytes);
	}
	m->buffers.rows = wanted;
	m->buffers.bytes = bytes;
	count_bytes(m);
	return true;
}

struct texts						/* of the batch that is gathered */
{
	uint64_t	used;				/* bytes in buffers.texts */
	uint64_t	max;
};

/* Makes room for more bytes of strings behind used ones, which stay. */
static bool
texts_grow(struct graph_model *m, uint64_t wanted, struct status *status)
{
	uint64_t	space = m->buffers.texts_space == 0 ? 4096 : m->buffers.texts_space;
	uint8_t    *texts;

	if (wanted <= m->buffers.texts_space)
		return true;
	while (space < wanted)
		space *= 2;
	texts = realloc(m->buffers.texts, space);
	if (texts == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory: the strings of a batch need %llu bytes",
						  (unsigned long long) wanted);
	m->buffers.texts = texts;
	m->buffers.texts_space = space;
	count_bytes(m);
	return true;
}

/* What a row of very long strings left behind. */
static void
texts_shrink(struct graph_model *m)
{
	if (m->buffers.texts_space <= TEXTS_BATCH_MAX)
		return;
	buffers_free_texts(m);
	count_bytes(m);
}

/* ---- checks ---- */

/* That the columns are those of the signature; the engine checks too, and pointers depend on it. */
static bool
check_slice(const struct graph_model *m, const struct model_slice *slice, struct status *status)
{
	const struct infer_signature *signature = &m->model.signature;
	const struct model_request *request = slice->request;

	if (request->columns_count != signature->inputs_count || slice->count > request->rows ||
		slice->first > request->rows - slice->count)
		return status_set(status, INFER_ERROR_PROTOCOL, "a request does not fit the model's inputs");
	for (uint32_t i = 0; i < signature->inputs_count; i++)
	{
		const struct infer_column *column = &request->columns[i];

		if (column->type != signature->inputs[i].type ||
			column->width != graph_tensor_width(&signature->inputs[i]) ||
			infer_column_check(column, request->rows, request->region_bytes) != NULL)
			return status_set(status, INFER_ERROR_PROTOCOL, "the column \"%s\" does not fit the model's input",
							  signature->inputs[i].name);
	}
	return true;
}

/* ---- gather ---- */

/* A byte that a client left other than 0 and 1 is 1. */
static void
gather_bools(uint8_t *to, const uint8_t *from, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		to[i] = from[i] != 0;
}

/*
 * Strings: each span is read once, checked, and its bytes are copied.  Their places are
 * offsets into texts until all are there, since texts may move.
 */
static bool
gather_strings(struct graph_model *m, const struct model_slice *slice, const struct infer_column *column,
			   struct device_text *to, uint32_t row, struct texts *texts, struct status *status)
{
	const struct model_request *request = slice->request;
	const volatile struct infer_span *spans = (const volatile struct infer_span *)
		(request->region + column->spans_offset);

	for (uint64_t i = 0; i < slice->count * column->width; i++)
	{
		uint32_t	at = row + (uint32_t) (i / column->width);
		uint64_t	begin = spans[slice->first * column->width + i].begin;
		uint64_t	length = spans[slice->first * column->width + i].length;

		if (begin + length > column->data_bytes)
		{
			m->buffers.row_error[at] = INFER_ERROR_PROTOCOL;
			m->buffers.row_message[at] = "a string lies outside its column";
			length = 0;
			begin = 0;
		}
		if (length > texts->max - texts->used)
			return status_set(status, INFER_ERROR_INPUT, "a row's strings are longer than %llu bytes",
							  (unsigned long long) texts->max);
		if (!texts_grow(m, texts->used + length, status))
			return false;
		if (length > 0)
			memcpy(m->buffers.texts + texts->used, request->region + column->data_offset + begin, length);
		to[i].data = (const char *) (uintptr_t) texts->used;
		to[i].length = length;
		texts->used += length;
	}
	return true;
}

static bool
gather_input(struct graph_model *m, uint32_t input, const struct model_slice *slices,
			 uint32_t slices_count, struct texts *texts, struct status *status)
{
	const struct graph_value *value = graph_value(&m->graph, m->graph.inputs[input].value);
	size_t		size = device_type_bytes(value->type);
	uint8_t    *binding;
	uint32_t	row = 0;

	if (value->binding < 0)
		return true;				/* nothing reads it */
	binding = m->buffers.bindings[value->binding];
	for (uint32_t s = 0; s < slices_count; s++)
	{
		const struct model_slice *slice = &slices[s];
		const struct infer_column *column = &slice->request->columns[input];
		uint8_t    *to = binding + row * value->elements * size;
		uint64_t	count = slice->count * column->width;
		const uint8_t *from = slice->request->region + column->data_offset;

		if (value->type == DEVICE_STRING)
		{
			if (!gather_strings(m, slice, column, (struct device_text *) to, row, texts, status))
				return false;
		}
		else if (value->type == DEVICE_BOOL)
			gather_bools(to, from + slice->first * column->width, count);
		else if (count > 0)
			memcpy(to, from + slice->first * column->width * size, count * size);
		row += slice->count;
	}
	return true;
}

/* Offsets into texts become addresses, now that texts stay where they are. */
static void
strings_settle(struct graph_model *m, uint32_t rows)
{
	for (uint32_t i = 0; i < m->graph.inputs_count; i++)
	{
		const struct graph_value *value = graph_value(&m->graph, m->graph.inputs[i].value);
		struct device_text *texts;

		if (value->binding < 0 || value->type != DEVICE_STRING)
			continue;
		texts = m->buffers.bindings[value->binding];
		for (uint64_t j = 0; j < (uint64_t) rows * value->elements; j++)
			texts[j].data = texts[j].length == 0 ? "" :
				(const char *) m->buffers.texts + (uintptr_t) texts[j].data;
	}
}

/* ---- compute ---- */

bool
graph_compute(struct graph_model *m, struct device_queue *queue, uint32_t first, uint32_t last,
			  uint32_t rows, struct status *status)
{
	const struct device_ops *device = m->device->ops;
	struct device_batch batch = {
		.items = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = rows},
		.row_error = m->buffers.row_error,
		.row_message = m->buffers.row_message
	};
	enum device_state state = DEVICE_PENDING;
	uint64_t	ticket = device->enqueue(queue, m->graph.program, first, last, &batch,
										 m->buffers.bindings, m->buffers.arena, status);

	if (ticket == 0)
		return status_set(status, INFER_ERROR_DEVICE, "the device did not take the batch");
	while (state == DEVICE_PENDING)
		state = device->wait(queue, ticket, WAIT_USEC, status);
	if (state == DEVICE_LOST)
		return status_set(status, INFER_ERROR_DEVICE_LOST, "the device is lost");
	if (state != DEVICE_DONE)
		return status_set(status, INFER_ERROR_DEVICE, "the device failed the batch");
	return true;
}

/* Lets others go first; what they run of this very model has other buffers. */
static bool
give_way(struct graph_model *m, struct model_yield *yield)
{
	struct graph_buffers mine = m->buffers;
	bool		wanted;

	m->buffers = m->others[m->depth];
	m->others[m->depth++] = mine;
	wanted = yield->between(yield);
	mine = m->others[--m->depth];
	m->others[m->depth] = m->buffers;
	m->buffers = mine;
	return wanted;
}

/* With segments of the length that others are to wait for at most, if there is a yield. */
static bool
compute(struct graph_model *m, struct device_queue *queue, uint32_t rows, struct status *status)
{
	struct model_yield *yield = m->model.yield;
	uint32_t	items[DEVICE_LEADS] = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = rows};
	uint32_t	first = 0;
	uint32_t	last = UINT32_MAX;
	uint64_t	nsec;

	for (;;)
	{
		if (yield != NULL)
		{
			last = m->device->ops->segment_end(m->device, m->graph.program, first, items,
											   yield->segment_nsec, &nsec);
			yield->segments_long += nsec > yield->segment_nsec;
		}
		if (!graph_compute(m, queue, first, last, rows, status))
			return false;
		if (last == UINT32_MAX)
			return true;
		if (!give_way(m, yield))
			return status_set(status, INFER_ERROR_CANCELLED, "nobody waits for the batch any more");
		first = last;
	}
}

/* ---- rows that fail ---- */

static bool
all_finite(uint8_t type, const void *data, uint64_t count)
{
	if (type == DEVICE_F32)
	{
		const uint32_t *bits = data;
		uint32_t	bad = 0;

		for (uint64_t i = 0; i < count; i++)
			bad |= (bits[i] & 0x7F800000u) == 0x7F800000u;
		return bad == 0;
	}
	else
	{
		const uint64_t *bits = data;
		uint64_t	bad = 0;

		for (uint64_t i = 0; i < count; i++)
			bad |= (bits[i] & 0x7FF0000000000000u) == 0x7FF0000000000000u;
		return bad == 0;
	}
}

/* The elements of an output, rows end to end; constants have one row for all. */
static const uint8_t *
output_data(const struct graph_model *m, uint32_t output)
{
	const struct graph_value *value = graph_value(&m->graph, m->graph.outputs[output]);
	const struct graph_value *root = graph_value(&m->graph, graph_root(&m->graph, m->graph.outputs[output]));

	return value->rows ? m->buffers.bindings[root->binding] : root->data;
}

/* Marks rows whose output is not finite; the message is the output's name until report_row. */
static void
check_finite(struct graph_model *m, uint32_t output, uint32_t rows)
{
	const struct graph_value *value = graph_value(&m->graph, m->graph.outputs[output]);
	const uint8_t *data = output_data(m, output);
	uint64_t	row_bytes = (uint64_t) value->elements * device_type_bytes(value->type);

	if (value->type != DEVICE_F32 && value->type != DEVICE_F64)
		return;
	if (all_finite(value->type, data, (uint64_t) value->elements * (value->rows ? rows : 1)))
		return;
	for (uint32_t row = 0; row < rows; row++)
	{
		if (m->buffers.row_error[row] != INFER_OK ||
			all_finite(value->type, data + (value->rows ? row : 0) * row_bytes, value->elements))
			continue;
		m->buffers.row_error[row] = INFER_ERROR_NOT_FINITE;
		m->buffers.row_message[row] = m->model.signature.outputs[output].name;
	}
}

static void
report_row(struct model_request *request, uint32_t row, uint32_t error, const char *message)
{
	char		text[INFER_NAME_MAX + 64];

	if (error != INFER_ERROR_NOT_FINITE || message == NULL)
	{
		model_row_error(request, row, error, message == NULL ? "the row cannot be computed" : message,
						NULL, NULL);
		return;
	}
	snprintf(text, sizeof(text), "the model's output \"%s\" is not finite", message);
	model_row_error(request, row, error, text, "It is NaN or infinite for this row.",
					"Look at the row's inputs for NaN, infinity, or numbers beyond what the model was made for.");
}

static void
report_rows(struct graph_model *m, const struct model_slice *slices, uint32_t slices_count)
{
	uint32_t	row = 0;

	for (uint32_t s = 0; s < slices_count; s++)
		for (uint32_t i = 0; i < slices[s].count; i++, row++)
			if (m->buffers.row_error[row] != INFER_OK)
				report_row(slices[s].request, slices[s].first + i, m->buffers.row_error[row],
						   m->buffers.row_message[row]);
}

/* ---- scatter ---- */

static void
scatter_slice(const struct graph_model *m, uint32_t output, const struct model_slice *slice, uint32_t row)
{
	const struct graph_value *value = graph_value(&m->graph, m->graph.outputs[output]);
	struct model_request *request = slice->request;
	const struct infer_column *column = &request->outputs[output];
	uint64_t	width = (uint64_t) value->elements;
	uint64_t	size = device_type_bytes(value->type);
	const uint8_t *from = output_data(m, output);
	uint8_t    *to;

	if (column->type == INFER_TYPE_NONE || width == 0 || slice->count == 0)
		return;						/* not wanted, or nothing */
	if (value->type == DEVICE_STRING)
	{
		for (uint32_t i = 0; i < slice->count; i++)
			model_reply_strings(request, output, (slice->first + i) * width, width,
								(const struct device_text *) from + (value->rows ? row + i : 0) * width);
		return;
	}
	to = (uint8_t *) request->region + column->data_offset + slice->first * width * size;
	if (value->rows)
		memcpy(to, from + row * width * size, slice->count * width * size);
	else
		for (uint32_t i = 0; i < slice->count; i++)
			memcpy(to + i * width * size, from, width * size);
}

static void
scatter(const struct graph_model *m, const struct model_slice *slices, uint32_t slices_count)
{
	for (uint32_t output = 0; output < m->graph.outputs_count; output++)
	{
		uint32_t	row = 0;

		for (uint32_t s = 0; s < slices_count; s++)
		{
			scatter_slice(m, output, &slices[s], row);
			row += slices[s].count;
		}
	}
}

static bool
run_batch(struct graph_model *m, struct device_queue *queue, const struct model_slice *slices,
		  uint32_t slices_count, struct status *status)
{
	uint64_t	rows = 0;
	struct texts texts = {0};

	for (uint32_t s = 0; s < slices_count; s++)
	{
		if (!check_slice(m, &slices[s], status))
			return false;
		rows += slices[s].count;
	}
	if (rows == 0)
		return true;
	if (rows > UINT32_MAX / 2)
		return status_set(status, INFER_ERROR_INTERNAL, "a batch has too many rows");
	if (!graph_buffers_grow(m, (uint32_t) rows, status))
		return false;
	texts.max = rows == 1 ? TEXTS_ROW_MAX : TEXTS_BATCH_MAX;
	memset(m->buffers.row_error, 0, rows * sizeof(*m->buffers.row_error));
	memset(m->buffers.row_message, 0, rows * sizeof(*m->buffers.row_message));
	for (uint32_t i = 0; i < m->graph.inputs_count; i++)
		if (!gather_input(m, i, slices, slices_count, &texts, status))
			return false;
	strings_settle(m, (uint32_t) rows);
	if (rows == 1 && slices[0].request->profile)
	{
		if (!graph_compute_profiled(m, queue, slices[0].request, status))
			return false;
	}
	else if (!compute(m, queue, (uint32_t) rows, status))
		return false;
	for (uint32_t i = 0; i < m->graph.outputs_count; i++)
		check_finite(m, i, (uint32_t) rows);
	scatter(m, slices, slices_count);
	report_rows(m, slices, slices_count);
	return true;
}

bool
graph_model_run(struct model *model, struct device_queue *queue, const struct model_slice *slices,
				uint32_t slices_count, struct status *status)
{
	struct graph_model *m = (struct graph_model *) model;
	bool		fine = run_batch(m, queue, slices, slices_count, status);

	texts_shrink(m);
	return fine;
}
