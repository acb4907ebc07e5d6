/*
 * buffers.c
 *	  What a part of a batch lies in: tokens, offsets, results, arena.
 *
 * Invariants
 *	- After the first part of a size, a part allocates nothing.
 *	- model.bytes counts weights, tables and all buffers; any thread may read it.
 */
#include "encoder_model.h"

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
buffers_free(struct encoder_buffers *b)
{
	for (int i = 0; i < ENCODER_BINDINGS; i++)
		free(b->bindings[i]);
	free(b->arena);
	free(b->row_off);
	free(b->row_first);
	free(b->row_error);
	free(b->row_message);
	free(b->refs);
	free(b->work);
	*b = (struct encoder_buffers) {0};
}

void
encoder_bytes_count(struct encoder_model *m)
{
	const struct text_graph *graph = m->encoder->graph;
	uint64_t	bytes = m->program.weights_bytes + m->program.tables_bytes + m->program.memory.used + m->memory.used +
		tokenizer_bytes(m->tokenizer) + m->buffers.bytes + m->buffers.work_bytes;

	if (graph != NULL)
		bytes += graph->base.weights_bytes + graph->memory.used + graph->programs_bytes;
	for (uint32_t i = 0; i < BATCH_DEPTH; i++)
		bytes += m->others[i].bytes + m->others[i].work_bytes;
	__atomic_store_n(&m->model.bytes, bytes, __ATOMIC_RELAXED);
}

static uint64_t
binding_bytes(const struct encoder_model *m, int binding, uint32_t rows, uint32_t tokens)
{
	if (!m->program.bound[binding])
		return 0;
	if (binding == ENCODER_GIVEN)
		return (uint64_t) (m->encoder->graph->output == TEXT_GRAPH_TOKENS ? tokens : rows) * m->encoder->graph->width * sizeof(float);
	if (binding != ENCODER_RESULT)
		return (uint64_t) tokens * sizeof(int32_t);
	return (uint64_t) (m->program.result_lead == DEVICE_LEAD_TOKENS ? tokens : rows) * m->program.result_width * sizeof(float);
}

static uint64_t
arena_bytes(const struct encoder_model *m, uint32_t rows, uint32_t tokens)
{
	uint32_t	items[DEVICE_LEADS] = {
		[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = rows, [DEVICE_LEAD_TOKENS] = tokens
	};

	return m->device->ops->arena_bytes(m->program.program, items);
}

uint64_t
encoder_buffers_bytes(const struct encoder_model *m, uint32_t rows, uint32_t tokens)
{
	uint64_t	bytes = arena_bytes(m, rows, tokens);

	for (int i = 0; i < ENCODER_BINDINGS; i++)
		bytes += binding_bytes(m, i, rows, tokens);
	return bytes + (uint64_t) rows * (3 * sizeof(uint32_t) + sizeof(char *) + sizeof(struct encoder_row_ref));
}

static bool
buffers_make(struct encoder_model *m, uint32_t rows, uint32_t tokens)
{
	struct encoder_buffers *b = &m->buffers;

	b->arena = aligned_zeroed(arena_bytes(m, rows, tokens));
	b->row_off = calloc((size_t) rows + 1, sizeof(*b->row_off));
	b->row_first = calloc(rows, sizeof(*b->row_first));
	b->row_error = calloc(rows, sizeof(*b->row_error));
	b->row_message = calloc(rows, sizeof(*b->row_message));
	b->refs = calloc(rows, sizeof(*b->refs));
	if (b->arena == NULL || b->row_off == NULL || b->row_first == NULL || b->row_error == NULL ||
		b->row_message == NULL || b->refs == NULL)
		return false;
	for (int i = 0; i < ENCODER_BINDINGS; i++)
	{
		if (!m->program.bound[i])
			continue;
		b->bindings[i] = aligned_zeroed(binding_bytes(m, i, rows, tokens));
		if (b->bindings[i] == NULL)
			return false;
	}
	b->rows = rows;
	b->tokens = tokens;
	b->bytes = encoder_buffers_bytes(m, rows, tokens);
	return true;
}

/* The next power of two, but no more than most, unless that is too little. */
static uint32_t
round_up(uint32_t wanted, uint32_t most)
{
	uint32_t	rounded = 1;

	while (rounded < wanted)
		rounded = rounded > UINT32_MAX / 2 ? wanted : rounded * 2;
	return rounded > most && wanted <= most ? most : rounded > most ? wanted : rounded;
}

bool
encoder_buffers_grow(struct encoder_model *m, uint32_t rows, uint32_t tokens, struct status *status)
{
	struct encoder_buffers *b = &m->buffers;
	uint32_t	rows_wanted = round_up(rows > b->rows ? rows : b->rows, m->part_tokens);
	uint32_t	tokens_wanted = round_up(tokens > b->tokens ? tokens : b->tokens, m->part_tokens);

	if (rows <= b->rows && tokens <= b->tokens)
		return true;
	buffers_free(b);
	if (!buffers_make(m, rows_wanted, tokens_wanted))
	{
		buffers_free(b);
		encoder_bytes_count(m);
		return status_set(status, INFER_ERROR_MEMORY, "out of memory: a batch of %u tokens needs %llu bytes", tokens_wanted,
						  (unsigned long long) encoder_buffers_bytes(m, rows_wanted, tokens_wanted));
	}
	encoder_bytes_count(m);
	return true;
}

bool
encoder_work_grow(struct encoder_model *m, uint64_t bytes, struct status *status)
{
	struct encoder_buffers *b = &m->buffers;

	if (bytes <= b->work_bytes)
		return true;
	free(b->work);
	b->work = aligned_zeroed(bytes);
	b->work_bytes = b->work == NULL ? 0 : bytes;
	encoder_bytes_count(m);
	return b->work != NULL ||
		status_set(status, INFER_ERROR_MEMORY, "out of memory: a batch of texts needs %llu bytes", (unsigned long long) bytes);
}

void
encoder_buffers_shrink(struct encoder_model *m)
{
	if ((m->buffers.tokens <= m->part_tokens || m->buffers.bytes <= ENCODER_BUFFERS_KEPT) && m->buffers.work_bytes <= ENCODER_BUFFERS_KEPT)
		return;
	buffers_free(&m->buffers);
	encoder_bytes_count(m);
}

void
encoder_buffers_free(struct encoder_model *m)
{
	buffers_free(&m->buffers);
	for (uint32_t i = 0; i < BATCH_DEPTH; i++)
		buffers_free(&m->others[i]);
}
