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
graph_compute(struct graph_run *run, uint32_t first, uint32_t last, struct status *status)
{
	struct graph_buffers *b = run->buffers;
	struct device_batch batch = {
		.items = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = run->rows},
		.row_error = b->row_error,
		.row_message = b->row_message
	};

	return device_run(run->m->device, run->queue, run->m->graph.program, first, last, &batch, b->bindings, b->arena, status);
}

/* With segments of the length that others are to wait for at most, if there is a yield. */
static bool
compute(struct graph_run *run, struct status *status)
{
	struct device *device = run->m->device;
	struct model_yield *yield = run->yield;
	struct device_batch batch = {.items = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = run->rows}};
	uint32_t	first = 0;
	uint32_t	last = UINT32_MAX;
	uint64_t	nsec;

	for (;;)
	{
		if (yield != NULL)
		{
			last = device->ops->segment_end(device, run->m->graph.program, first, &batch, yield->segment_nsec, &nsec);
			yield->segments_long += nsec > yield->segment_nsec;
		}
		if (!graph_compute(run, first, last, status))
			return false;
		if (last == UINT32_MAX)
			return true;
		if (!yield->between(yield))
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
check_finite(const struct graph_run *run, uint32_t output)
{
	const struct graph_model *m = run->m;
	const struct graph_value *value = graph_value(&m->graph, m->graph.outputs[output]);
	const uint8_t *data = graph_output_data(run, output);
	uint64_t	row_bytes = (uint64_t) value->elements * device_type_bytes(value->type);

	if (value->type != DEVICE_F32 && value->type != DEVICE_F64)
		return;
	if (all_finite(value->type, data, (uint64_t) value->elements * (value->rows ? run->rows : 1)))
		return;
	for (uint32_t row = 0; row < run->rows; row++)
	{
		if (run->buffers->row_error[row] != INFER_OK ||
			all_finite(value->type, data + (value->rows ? row : 0) * row_bytes, value->elements))
			continue;
		run->buffers->row_error[row] = INFER_ERROR_NOT_FINITE;
		run->buffers->row_message[row] = m->model.signature.outputs[output].name;
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
report_rows(const struct graph_buffers *b, const struct model_slice *slices, uint32_t slices_count)
{
	uint32_t	row = 0;

	for (uint32_t s = 0; s < slices_count; s++)
		for (uint32_t i = 0; i < slices[s].count; i++, row++)
			if (b->row_error[row] != INFER_OK)
				report_row(slices[s].request, slices[s].first + i, b->row_error[row], b->row_message[row]);
}

/* ---- the batch ---- */

/* The slices' rows; false: they do not fit the model. */
static bool
count_rows(struct graph_run *run, const struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	uint64_t	rows = 0;

	for (uint32_t s = 0; s < slices_count; s++)
	{
		if (!graph_rows_check(run->m, &slices[s], status))
			return false;
		rows += slices[s].count;
	}
	run->rows = (uint32_t) rows;
	return rows <= UINT32_MAX / 2 || status_set(status, INFER_ERROR_INTERNAL, "a batch has too many rows");
}

static bool
run_batch(struct graph_run *run, const struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	struct graph_buffers *b = run->buffers;

	if (!graph_buffers_grow(run->m, b, run->queue, run->rows, status))
		return false;
	memset(b->row_error, 0, run->rows * sizeof(*b->row_error));
	memset(b->row_message, 0, run->rows * sizeof(*b->row_message));
	if (!graph_rows_gather(run, slices, slices_count, status))
		return false;
	if (run->rows == 1 && slices[0].request->profile)
	{
		if (!graph_compute_profiled(run, slices[0].request, status))
			return false;
	}
	else if (!compute(run, status))
		return false;
	for (uint32_t i = 0; i < run->m->graph.outputs_count; i++)
		check_finite(run, i);
	graph_rows_scatter(run, slices, slices_count);
	report_rows(b, slices, slices_count);
	return true;
}

bool
graph_model_run(struct model *model, struct device_queue *queue, struct model_yield *yield,
				const struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	struct graph_run run = {.m = (struct graph_model *) model, .queue = queue, .yield = yield};
	bool		fine;

	if (!count_rows(&run, slices, slices_count, status))
		return false;
	if (run.rows == 0)
		return true;
	run.buffers = graph_buffers_take(run.m, queue, status);
	if (run.buffers == NULL)
		return false;
	fine = run_batch(&run, slices, slices_count, status);
	graph_buffers_give(run.m, run.buffers);
	return fine;
}
