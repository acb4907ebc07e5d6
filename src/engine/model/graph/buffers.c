/*
 * buffers.c
 *	  What a batch of a graph lies in: bindings, arena, errors of rows, bytes of strings.
 *
 * Invariants
 *	- After the first batch of a size, a batch allocates nothing.
 *	- model.bytes counts what the graph and all its buffers take; any thread may read it.
 */
#include "graph_model.h"

#include <stdlib.h>
#include <string.h>

#include "../../status.h"

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

/* ---- strings ---- */

bool
graph_texts_grow(struct graph_model *m, uint64_t wanted, struct status *status)
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

void
graph_texts_shrink(struct graph_model *m)
{
	if (m->buffers.texts_space <= GRAPH_TEXTS_MAX)
		return;
	buffers_free_texts(m);
	count_bytes(m);
}
