/*
 * run.c
 *	  A batch through a graph: rows are gathered from requests, computed, checked, and
 *	  scattered into replies.
 *
 * Loop
 *	check the columns against the signature → grow the buffers → gather → enqueue and wait,
 *	segments of a slice's length where others may go first → errors of rows → scatter.
 *
 * Invariants
 *	- An error of a row stays with the row, and depends on nothing but the row.
 */
#include "graph_model.h"

#include <stdio.h>
#include <string.h>

#include "../../status.h"

/* ---- compute ---- */

bool
graph_compute(struct graph_model *m, struct device_queue *queue, uint32_t first, uint32_t last,
			  uint32_t rows, struct status *status)
{
	struct device_batch batch = {
		.items = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = rows},
		.row_error = m->buffers.row_error,
		.row_message = m->buffers.row_message
	};

	return device_run(m->device, queue, m->graph.program, first, last, &batch, m->buffers.bindings, m->buffers.arena, status);
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
	struct device_batch batch = {.items = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = rows}};
	uint32_t	first = 0;
	uint32_t	last = UINT32_MAX;
	uint64_t	nsec;

	for (;;)
	{
		if (yield != NULL)
		{
			last = m->device->ops->segment_end(m->device, m->graph.program, first, &batch,
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

/* Marks rows whose output is not finite; the message is the output's name until report_row. */
static void
check_finite(struct graph_model *m, uint32_t output, uint32_t rows)
{
	const struct graph_value *value = graph_value(&m->graph, m->graph.outputs[output]);
	const uint8_t *data = graph_output_data(m, output);
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

/* ---- the batch ---- */

static bool
run_batch(struct graph_model *m, struct device_queue *queue, const struct model_slice *slices,
		  uint32_t slices_count, struct status *status)
{
	uint64_t	rows = 0;

	for (uint32_t s = 0; s < slices_count; s++)
	{
		if (!graph_rows_check(m, &slices[s], status))
			return false;
		rows += slices[s].count;
	}
	if (rows == 0)
		return true;
	if (rows > UINT32_MAX / 2)
		return status_set(status, INFER_ERROR_INTERNAL, "a batch has too many rows");
	if (!graph_buffers_grow(m, (uint32_t) rows, status))
		return false;
	memset(m->buffers.row_error, 0, rows * sizeof(*m->buffers.row_error));
	memset(m->buffers.row_message, 0, rows * sizeof(*m->buffers.row_message));
	if (!graph_rows_gather(m, slices, slices_count, (uint32_t) rows, status))
		return false;
	if (rows == 1 && slices[0].request->profile)
	{
		if (!graph_compute_profiled(m, queue, slices[0].request, status))
			return false;
	}
	else if (!compute(m, queue, (uint32_t) rows, status))
		return false;
	for (uint32_t i = 0; i < m->graph.outputs_count; i++)
		check_finite(m, i, (uint32_t) rows);
	graph_rows_scatter(m, slices, slices_count);
	report_rows(m, slices, slices_count);
	return true;
}

bool
graph_model_run(struct model *model, struct device_queue *queue, const struct model_slice *slices,
				uint32_t slices_count, struct status *status)
{
	struct graph_model *m = (struct graph_model *) model;
	bool		fine = run_batch(m, queue, slices, slices_count, status);

	graph_texts_shrink(m);
	return fine;
}
