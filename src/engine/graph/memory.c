/*
 * memory.c
 *	  See memory.h.
 */
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../device.h"
#include "../status.h"

#define POOL_ALIGN	16
#define CHUNK_BYTES	(64u << 10)

struct graph_chunk
{
	struct graph_chunk *next;
	uint64_t	size;
	uint64_t	used;
	_Alignas(POOL_ALIGN) uint8_t data[];
};

struct graph_block					/* lies in the DEVICE_ALIGN bytes before its data */
{
	struct graph_block *next;
	struct graph_block *previous;
	uint64_t	bytes;
};

_Static_assert(sizeof(struct graph_block) <= DEVICE_ALIGN, "a block's head fits before its data");

void
graph_memory_init(struct graph_memory *memory, uint64_t limit, struct status *status)
{
	memset(memory, 0, sizeof(*memory));
	memory->limit = limit;
	memory->status = status;
}

void
graph_pool_free(struct graph_memory *memory)
{
	while (memory->chunks != NULL)
	{
		struct graph_chunk *chunk = memory->chunks;

		memory->chunks = chunk->next;
		memory->used -= chunk->size;
		free(chunk);
	}
}

void
graph_memory_free(struct graph_memory *memory)
{
	graph_pool_free(memory);
	while (memory->blocks != NULL)
	{
		struct graph_block *block = memory->blocks;

		memory->blocks = block->next;
		free(block);
	}
	memory->used = 0;
}

/* Counts bytes against the limit. */
static bool
memory_claim(struct graph_memory *memory, uint64_t bytes)
{
	if (bytes > memory->limit - memory->used)
	{
		status_set(memory->status, INFER_ERROR_MEMORY,
				   "the model needs more than %llu bytes of host memory",
				   (unsigned long long) memory->limit);
		status_detail(memory->status, "%llu bytes were in use when %llu more were wanted.",
					  (unsigned long long) memory->used, (unsigned long long) bytes);
		return false;
	}
	memory->used += bytes;
	return true;
}

static bool
memory_exhausted(struct graph_memory *memory, uint64_t bytes)
{
	memory->used -= bytes;
	return status_set(memory->status, INFER_ERROR_MEMORY,
					  "out of memory: %llu bytes were wanted", (unsigned long long) bytes);
}

void *
graph_pool(struct graph_memory *memory, uint64_t count, uint64_t size)
{
	struct graph_chunk *chunk = memory->chunks;
	uint64_t	bytes;
	void	   *result;

	if (__builtin_mul_overflow(count, size, &bytes) || bytes > UINT64_MAX - POOL_ALIGN)
		bytes = UINT64_MAX - POOL_ALIGN;
	bytes = bytes == 0 ? POOL_ALIGN : (bytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
	if (chunk == NULL || bytes > chunk->size - chunk->used)
	{
		uint64_t	space = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;

		if (!memory_claim(memory, space))
			return NULL;
		chunk = calloc(1, sizeof(*chunk) + space);
		if (chunk == NULL)
		{
			memory_exhausted(memory, space);
			return NULL;
		}
		chunk->size = space;
		if (space == bytes && memory->chunks != NULL)
		{
			/* a large one goes behind the chunk that small ones still come from */
			chunk->next = memory->chunks->next;
			memory->chunks->next = chunk;
		}
		else
		{
			chunk->next = memory->chunks;
			memory->chunks = chunk;
		}
	}
	result = chunk->data + chunk->used;
	chunk->used += bytes;
	return result;
}

char *
graph_pool_text(struct graph_memory *memory, const void *data, uint64_t length)
{
	char	   *text = graph_pool(memory, length + 1, 1);

	if (text != NULL && length > 0)
		memcpy(text, data, length);
	return text;
}

char *
graph_pool_printf(struct graph_memory *memory, const char *format,...)
{
	char		text[STATUS_TEXT_MAX];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return graph_pool_text(memory, text, strlen(text));
}

void *
graph_block(struct graph_memory *memory, uint64_t bytes)
{
	struct graph_block *block;
	uint64_t	space;

	if (bytes > UINT64_MAX / 2)
		bytes = UINT64_MAX / 2;
	space = (bytes + 2 * DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
	if (!memory_claim(memory, space))
		return NULL;
	block = aligned_alloc(DEVICE_ALIGN, space);
	if (block == NULL)
	{
		memory_exhausted(memory, space);
		return NULL;
	}
	memset(block, 0, space);
	block->bytes = space;
	block->next = memory->blocks;
	if (block->next != NULL)
		block->next->previous = block;
	memory->blocks = block;
	return (uint8_t *) block + DEVICE_ALIGN;
}

void
graph_block_free(struct graph_memory *memory, void *data)
{
	struct graph_block *block;

	if (data == NULL)
		return;
	block = (struct graph_block *) ((uint8_t *) data - DEVICE_ALIGN);
	if (block->previous != NULL)
		block->previous->next = block->next;
	else
		memory->blocks = block->next;
	if (block->next != NULL)
		block->next->previous = block->previous;
	memory->used -= block->bytes;
	free(block);
}

bool
graph_pool_grow(struct graph_memory *memory, void *array, uint32_t count, uint32_t *space,
				size_t size, uint32_t limit, const char *what)
{
	void	  **place = array;
	uint32_t	wanted;
	void	   *larger;

	if (count < *space)
		return true;
	if (count >= limit)
		return status_set(memory->status, INFER_ERROR_MODEL, "the model has more than %u %s",
						  limit, what);
	wanted = *space == 0 ? 16 : *space * 2;
	if (wanted > limit)
		wanted = limit;
	larger = graph_pool(memory, wanted, size);
	if (larger == NULL)
		return false;
	if (count > 0)
		memcpy(larger, *place, count * size);
	*place = larger;
	*space = wanted;
	return true;
}
