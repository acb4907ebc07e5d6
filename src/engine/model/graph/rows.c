/*
 * rows.c
 *	  Rows between the regions of requests and the buffers of a batch.
 *
 * Invariants
 *	- A client may change its region at any time: each span and each byte is read once into
 *	  the buffers, and checked there.
 *	- An error of a row stays with the row; a bound that rows exceed only together fails the
 *	  batch, which then is run in parts.
 */
#include "graph_model.h"

#include <string.h>

#include "../../status.h"

#define TEXTS_ROW_MAX	(UINT64_C(1) << 30)		/* bytes of one row's strings */

struct texts						/* of the batch that is gathered */
{
	uint64_t	used;				/* bytes in buffers.texts */
	uint64_t	max;
};

/* ---- checks ---- */

bool
graph_rows_check(const struct graph_model *m, const struct model_slice *slice, struct status *status)
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
			column->width != infer_tensor_width(&signature->inputs[i]) ||
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
gather_strings(struct graph_run *run, const struct model_slice *slice, const struct infer_column *column,
			   struct device_text *to, uint32_t row, struct texts *texts, struct status *status)
{
	struct graph_buffers *b = run->buffers;
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
			b->row_error[at] = INFER_ERROR_PROTOCOL;
			b->row_message[at] = "a string lies outside its column";
			length = 0;
			begin = 0;
		}
		if (length > texts->max - texts->used)
			return status_set(status, INFER_ERROR_INPUT, "a row's strings are longer than %llu bytes",
							  (unsigned long long) texts->max);
		if (!graph_texts_grow(run->m, b, texts->used + length, status))
			return false;
		if (length > 0)
			memcpy(b->texts + texts->used, request->region + column->data_offset + begin, length);
		to[i].data = (const char *) (uintptr_t) texts->used;
		to[i].length = length;
		texts->used += length;
	}
	return true;
}

static bool
gather_input(struct graph_run *run, uint32_t input, const struct model_slice *slices,
			 uint32_t slices_count, struct texts *texts, struct status *status)
{
	const struct graph *graph = &run->m->graph;
	const struct graph_value *value = graph_value(graph, graph->inputs[input].value);
	size_t		size = device_type_bytes(value->type);
	uint8_t    *binding;
	uint32_t	row = 0;

	if (value->binding < 0)
		return true;				/* nothing reads it */
	binding = run->buffers->bindings[value->binding];
	for (uint32_t s = 0; s < slices_count; s++)
	{
		const struct model_slice *slice = &slices[s];
		const struct infer_column *column = &slice->request->columns[input];
		uint8_t    *to = binding + row * value->elements * size;
		uint64_t	count = slice->count * column->width;
		const uint8_t *from = slice->request->region + column->data_offset;

		if (value->type == DEVICE_STRING)
		{
			if (!gather_strings(run, slice, column, (struct device_text *) to, row, texts, status))
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
strings_settle(struct graph_run *run)
{
	const struct graph *graph = &run->m->graph;

	for (uint32_t i = 0; i < graph->inputs_count; i++)
	{
		const struct graph_value *value = graph_value(graph, graph->inputs[i].value);
		struct device_text *texts;

		if (value->binding < 0 || value->type != DEVICE_STRING)
			continue;
		texts = run->buffers->bindings[value->binding];
		for (uint64_t j = 0; j < (uint64_t) run->rows * value->elements; j++)
			texts[j].data = texts[j].length == 0 ? "" :
				(const char *) run->buffers->texts + (uintptr_t) texts[j].data;
	}
}

bool
graph_rows_gather(struct graph_run *run, const struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	struct texts texts = {.max = run->rows == 1 ? TEXTS_ROW_MAX : GRAPH_TEXTS_MAX};

	for (uint32_t i = 0; i < run->m->graph.inputs_count; i++)
		if (!gather_input(run, i, slices, slices_count, &texts, status))
			return false;
	strings_settle(run);
	return true;
}

/* ---- scatter ---- */

const uint8_t *
graph_output_data(const struct graph_run *run, uint32_t output)
{
	const struct graph *graph = &run->m->graph;
	const struct graph_value *value = graph_value(graph, graph->outputs[output]);
	const struct graph_value *root = graph_value(graph, graph_root(graph, graph->outputs[output]));

	return value->rows ? run->buffers->bindings[root->binding] : root->data;
}

static void
scatter_slice(const struct graph_run *run, uint32_t output, const struct model_slice *slice, uint32_t row)
{
	const struct graph_value *value = graph_value(&run->m->graph, run->m->graph.outputs[output]);
	struct model_request *request = slice->request;
	const struct infer_column *column = &request->outputs[output];
	uint64_t	width = (uint64_t) value->elements;
	uint64_t	size = device_type_bytes(value->type);
	const uint8_t *from = graph_output_data(run, output);
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

void
graph_rows_scatter(const struct graph_run *run, const struct model_slice *slices, uint32_t slices_count)
{
	for (uint32_t output = 0; output < run->m->graph.outputs_count; output++)
	{
		uint32_t	row = 0;

		for (uint32_t s = 0; s < slices_count; s++)
		{
			scatter_slice(run, output, &slices[s], row);
			row += slices[s].count;
		}
	}
}
