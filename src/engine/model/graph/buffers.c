/*
 * buffers.c
 *	  What a batch of a graph lies in: bindings, arena, errors of rows, bytes of strings.
 *
 * Invariants
 *	- After the first batch of a size, a batch allocates nothing.
 *	- The host looks into bindings only, and into them only while no segment of the run is on the device.
 */
#include "graph_model.h"

#include <stdlib.h>

#include "../../status.h"

static void
buffers_free_rows(struct graph_model *m, struct graph_buffers *b)
{
	for (uint32_t i = 0; b->bindings != NULL && i < m->graph.bindings_count; i++)
		if (b->bindings[i] != NULL)
			device_buffer_free(m->device, DEVICE_BUFFER_STAGING, b->bindings[i]);
	free(b->bindings);
	if (b->arena != NULL)
		device_buffer_free(m->device, DEVICE_BUFFER_ARENA, b->arena);
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
buffers_free_texts(struct graph_buffers *b)
{
	free(b->texts);
	b->texts = NULL;
	b->texts_space = 0;
}

static void
count_bytes(struct graph_model *m, struct graph_buffers *b)
{
	model_sets_count(&m->sets, &b->set, b->bytes + b->texts_space);
}

struct graph_buffers *
graph_buffers_take(struct graph_model *m, struct device_queue *queue, struct status *status)
{
	return (struct graph_buffers *) model_sets_take(&m->sets, queue, status);
}

void
graph_buffers_give(struct graph_model *m, struct graph_buffers *b)
{
	if (b->texts_space > GRAPH_TEXTS_MAX)
	{
		buffers_free_texts(b);
		count_bytes(m, b);
	}
	model_sets_give(&m->sets, &b->set);
}

bool
graph_buffers_begin(struct graph_model *m, struct status *status)
{
	struct graph_buffers *b;
	bool		fine;

	if (device_has_memory(m->device))
		return true;			/* each queue's own, with its first batch */
	b = graph_buffers_take(m, NULL, status);
	if (b == NULL)
		return false;
	fine = graph_buffers_grow(m, b, NULL, 1, status);
	graph_buffers_give(m, b);
	return fine;
}

void
graph_buffers_free(struct graph_model *m)
{
	struct graph_buffers *b;

	while ((b = (struct graph_buffers *) model_sets_close(&m->sets)) != NULL)
	{
		buffers_free_rows(m, b);
		buffers_free_texts(b);
		free(b);
	}
	model_sets_destroy(&m->sets);
}

/* false: out of memory; the device may have said of what. */
static bool
buffers_make(struct graph_model *m, struct graph_buffers *b, struct device_queue *queue, uint32_t rows, struct status *status)
{
	uint32_t	items[DEVICE_LEADS] = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = rows};
	uint64_t	arena = m->device->ops->arena_bytes(m->graph.program, items);

	b->row_error = calloc(rows, sizeof(*b->row_error));
	b->row_message = calloc(rows, sizeof(*b->row_message));
	b->bindings = calloc(m->graph.bindings_count + 1, sizeof(*b->bindings));
	if (b->row_error == NULL || b->row_message == NULL || b->bindings == NULL)
		return false;
	b->arena = device_buffer_alloc(m->device, queue, DEVICE_BUFFER_ARENA, arena, status);
	if (b->arena == NULL)
		return false;
	b->bytes = arena;
	for (uint32_t i = 0; i < m->graph.bindings_count; i++)
	{
		const struct graph_value *value = graph_value(&m->graph, m->graph.bindings[i]);
		uint64_t	size = (uint64_t) value->elements * device_type_bytes(value->type) * rows;

		b->bindings[i] = device_buffer_alloc(m->device, queue, DEVICE_BUFFER_STAGING, size, status);
		if (b->bindings[i] == NULL)
			return false;
		b->bytes += size;
	}
	b->rows = rows;
	return true;
}

bool
graph_buffers_grow(struct graph_model *m, struct graph_buffers *b, struct device_queue *queue, uint32_t rows,
				   struct status *status)
{
	uint32_t	wanted = b->rows == 0 ? 1 : b->rows;
	bool		made;

	if (rows <= b->rows)
		return true;
	while (wanted < rows)
		wanted = wanted > UINT32_MAX / 2 ? rows : wanted * 2;
	if (wanted > m->model.batch_rows_max && rows <= m->model.batch_rows_max)
		wanted = m->model.batch_rows_max;
	buffers_free_rows(m, b);
	made = buffers_make(m, b, queue, wanted, status);
	if (!made)
		buffers_free_rows(m, b);
	count_bytes(m, b);
	if (made)
		return true;
	if (status->error == INFER_ERROR_MEMORY)
		status_clear(status);	/* the device's own words say less */
	return status_set(status, INFER_ERROR_MEMORY, "out of memory: a batch of %u rows needs %llu bytes",
					  wanted, (unsigned long long) wanted * m->row_bytes);
}

/* ---- strings ---- */

bool
graph_texts_grow(struct graph_model *m, struct graph_buffers *b, uint64_t wanted, struct status *status)
{
	uint64_t	space = b->texts_space == 0 ? 4096 : b->texts_space;
	uint8_t    *texts;

	if (wanted <= b->texts_space)
		return true;
	while (space < wanted)
		space *= 2;
	texts = realloc(b->texts, space);
	if (texts == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory: the strings of a batch need %llu bytes",
						  (unsigned long long) wanted);
	b->texts = texts;
	b->texts_space = space;
	count_bytes(m, b);
	return true;
}
