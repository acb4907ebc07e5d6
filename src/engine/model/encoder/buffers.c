/*
 * buffers.c
 *	  What a part of a batch lies in: tokens, offsets, results, arena.
 *
 * Invariants
 *	- After the first part of a size, a part allocates nothing.
 *	- The host looks into bindings only, and into them only while no segment of the run is on the device.
 */
#include "encoder_model.h"

#include <stdlib.h>
#include <string.h>

#include "../../status.h"

/* ---- what there is ---- */

static void
buffer_free(struct encoder_model *m, int kind, void *buffer)
{
	if (buffer != NULL)
		device_buffer_free(m->device, kind, buffer);
}

static void
block_free(struct encoder_model *m, int kind, struct encoder_block *block)
{
	buffer_free(m, kind, block->data);
	*block = (struct encoder_block) {0};
}

/* Rows and tokens; a graph's blocks stay. */
static void
buffers_free_rows(struct encoder_model *m, struct encoder_buffers *b)
{
	for (int i = 0; i < ENCODER_BINDINGS; i++)
		buffer_free(m, DEVICE_BUFFER_STAGING, b->bindings[i]);
	buffer_free(m, DEVICE_BUFFER_ARENA, b->arena);
	free(b->row_off);
	free(b->row_first);
	free(b->row_error);
	free(b->row_message);
	free(b->refs);
	memset(b->bindings, 0, sizeof(b->bindings));
	b->arena = NULL;
	b->row_off = b->row_first = b->row_error = NULL;
	b->row_message = NULL;
	b->refs = NULL;
	b->tokens = b->rows = 0;
	b->bytes = 0;
}

static void
buffers_free(struct encoder_model *m, struct encoder_buffers *b)
{
	buffers_free_rows(m, b);
	block_free(m, DEVICE_BUFFER_ARENA, &b->graph_arena);
	block_free(m, DEVICE_BUFFER_STAGING, &b->graph_ids);
	block_free(m, DEVICE_BUFFER_STAGING, &b->graph_types);
}

static uint64_t
graph_bytes(const struct encoder_buffers *b)
{
	return b->graph_arena.bytes + b->graph_ids.bytes + b->graph_types.bytes;
}

static void
count_bytes(struct encoder_model *m, struct encoder_buffers *b)
{
	model_sets_count(&m->sets, &b->set, b->bytes + graph_bytes(b));
}

/* ---- sizes ---- */

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

/* ---- growing ---- */

/* false: out of memory; the device may have said of what. */
static bool
buffers_make(struct encoder_run *run, uint32_t rows, uint32_t tokens, struct status *status)
{
	struct encoder_model *m = run->m;
	struct encoder_buffers *b = run->buffers;

	b->row_off = calloc((size_t) rows + 1, sizeof(*b->row_off));
	b->row_first = calloc(rows, sizeof(*b->row_first));
	b->row_error = calloc(rows, sizeof(*b->row_error));
	b->row_message = calloc(rows, sizeof(*b->row_message));
	b->refs = calloc(rows, sizeof(*b->refs));
	if (b->row_off == NULL || b->row_first == NULL || b->row_error == NULL || b->row_message == NULL || b->refs == NULL)
		return false;
	b->arena = device_buffer_alloc(m->device, run->queue, DEVICE_BUFFER_ARENA, arena_bytes(m, rows, tokens), status);
	if (b->arena == NULL)
		return false;
	for (int i = 0; i < ENCODER_BINDINGS; i++)
	{
		if (!m->program.bound[i])
			continue;
		b->bindings[i] = device_buffer_alloc(m->device, run->queue, DEVICE_BUFFER_STAGING, binding_bytes(m, i, rows, tokens), status);
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

/* Of the device's own words, of which there may be none, these say more. */
static bool
out_of_memory(struct status *status, const char *what, uint64_t count, uint64_t bytes)
{
	if (status->error == INFER_ERROR_MEMORY)
		status_clear(status);
	return status_set(status, INFER_ERROR_MEMORY, "out of memory: a batch of %llu %s needs %llu bytes",
					  (unsigned long long) count, what, (unsigned long long) bytes);
}

static bool
rows_grow(struct encoder_run *run, uint32_t rows, uint32_t tokens, struct status *status)
{
	struct encoder_model *m = run->m;
	struct encoder_buffers *b = run->buffers;
	uint32_t	rows_wanted = round_up(rows > b->rows ? rows : b->rows, m->part_tokens);
	uint32_t	tokens_wanted = round_up(tokens > b->tokens ? tokens : b->tokens, m->part_tokens);
	bool		made;

	if (rows <= b->rows && tokens <= b->tokens)
		return true;
	buffers_free_rows(m, b);
	made = buffers_make(run, rows_wanted, tokens_wanted, status);
	if (!made)
		buffers_free_rows(m, b);
	count_bytes(m, b);
	return made || out_of_memory(status, "tokens", tokens_wanted, encoder_buffers_bytes(m, rows_wanted, tokens_wanted));
}

static bool
block_grow(struct encoder_run *run, struct encoder_block *block, int kind, uint64_t bytes, struct status *status)
{
	if (bytes <= block->bytes)
		return true;
	block_free(run->m, kind, block);
	block->data = device_buffer_alloc(run->m->device, run->queue, kind, bytes, status);
	block->bytes = block->data == NULL ? 0 : bytes;
	count_bytes(run->m, run->buffers);
	return block->data != NULL;
}

static uint64_t
input_bytes(const struct encoder_part *part, const struct text_graph_input *input)
{
	return input->binding < 0 ? 0 : (uint64_t) part->tokens * device_type_bytes(input->type);
}

static bool
graph_grow(struct encoder_run *run, const struct encoder_part *part, struct status *status)
{
	uint32_t	items[DEVICE_LEADS] = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = part->rows};
	struct encoder_buffers *b = run->buffers;
	uint64_t	arena = run->m->device->ops->arena_bytes(part->graph->program, items);
	uint64_t	ids = input_bytes(part, &part->graph->ids), types = input_bytes(part, &part->graph->types);

	return (block_grow(run, &b->graph_arena, DEVICE_BUFFER_ARENA, arena, status) &&
			block_grow(run, &b->graph_ids, DEVICE_BUFFER_STAGING, ids, status) &&
			block_grow(run, &b->graph_types, DEVICE_BUFFER_STAGING, types, status)) ||
		out_of_memory(status, "texts", part->rows, arena + ids + types);
}

bool
encoder_buffers_grow(struct encoder_run *run, const struct encoder_part *part, struct status *status)
{
	return rows_grow(run, part->rows, part->tokens, status) && (part->graph == NULL || graph_grow(run, part, status));
}

/* ---- whose they are ---- */

struct encoder_buffers *
encoder_buffers_take(struct encoder_model *m, struct device_queue *queue, struct status *status)
{
	return (struct encoder_buffers *) model_sets_take(&m->sets, queue, status);
}

void
encoder_buffers_give(struct encoder_model *m, struct encoder_buffers *b)
{
	uint64_t	kept = 2 * m->part_bytes > ENCODER_BUFFERS_KEPT ? 2 * m->part_bytes : ENCODER_BUFFERS_KEPT;

	if ((b->tokens > m->part_tokens && b->bytes > kept) || graph_bytes(b) > kept)
	{
		buffers_free(m, b);
		count_bytes(m, b);
	}
	model_sets_give(&m->sets, &b->set);
}

bool
encoder_buffers_begin(struct encoder_model *m, struct status *status)
{
	static const struct encoder_part one = {.rows = 1, .tokens = 1};
	struct encoder_run run = {.m = m};
	bool		fine;

	if (device_has_memory(m->device))
		return true;			/* each queue's own, with its first batch */
	run.buffers = encoder_buffers_take(m, NULL, status);
	if (run.buffers == NULL)
		return false;
	fine = encoder_buffers_grow(&run, &one, status);
	encoder_buffers_give(m, run.buffers);
	return fine;
}

void
encoder_buffers_free(struct encoder_model *m)
{
	struct encoder_buffers *b;

	while ((b = (struct encoder_buffers *) model_sets_close(&m->sets)) != NULL)
	{
		buffers_free(m, b);
		free(b);
	}
	model_sets_destroy(&m->sets);
}
