/*
 * arena.c
 *	  The memory of a call: a few arrays that grow and stay.
 */
#include "text_internal.h"

#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"

struct tokenizer_arena *
tokenizer_arena_create(void)
{
	return calloc(1, sizeof(struct tokenizer_arena));
}

void
tokenizer_arena_free(struct tokenizer_arena *arena)
{
	if (arena == NULL)
		return;
	free(arena->buffer.bytes);
	free(arena->buffer.origins);
	free(arena->other.bytes);
	free(arena->other.origins);
	free(arena->merge.symbols);
	free(arena->merge.heap);
	free(arena->paths.data);
	free(arena->marks.data);
	free(arena->marks.sorted);
	free(arena->held.data);
	free(arena->held.sorted);
	free(arena->tokens[0].data);
	free(arena->tokens[1].data);
	free(arena);
}

static bool
grow(struct tokenizer_arena *arena, void *array, size_t count, size_t size)
{
	void	  **place = array;
	void	   *larger = realloc(*place, count * size);

	if (larger == NULL)
		return status_set(arena->status, INFER_ERROR_MEMORY, "out of memory for the tokens of a text");
	*place = larger;
	return true;
}

/* Doubling ends below UINT32_MAX: texts are at most 2^28 bytes, and normalised ones TEXT_BUFFER_MAX. */
static uint32_t
doubled(uint32_t space, uint32_t wanted)
{
	uint32_t	result = space < 4096 ? 4096 : space;

	while (result < wanted)
		result *= 2;
	return result;
}

bool
arena_too_long(struct tokenizer_arena *arena)
{
	return status_set(arena->status, INFER_ERROR_INPUT, "the text is too long when the tokenizer's normalizer has made more of it");
}

bool
arena_grow_buffer(struct tokenizer_arena *arena, struct text_buffer *buffer, uint64_t wanted)
{
	uint32_t	space;

	if (wanted > arena->buffer_max)
		return arena_too_long(arena);
	space = doubled(buffer->space, (uint32_t) wanted);
	if (!grow(arena, &buffer->bytes, space, 1) ||
		!grow(arena, &buffer->origins, space, sizeof(*buffer->origins)))
		return false;
	buffer->space = space;
	return true;
}

bool
arena_grow_marks(struct tokenizer_arena *arena, struct pending_marks *marks)
{
	uint32_t	space = marks->space == 0 ? 64 : 2 * marks->space;

	if (!grow(arena, &marks->data, space, sizeof(*marks->data)) ||
		!grow(arena, &marks->sorted, space, sizeof(*marks->sorted)))
		return false;
	marks->space = space;
	return true;
}

bool
arena_grow_tokens(struct tokenizer_arena *arena, struct text_tokens *tokens)
{
	uint32_t	space = tokens->space == 0 ? 512 : 2 * tokens->space;

	if (!grow(arena, &tokens->data, space, sizeof(*tokens->data)))
		return false;
	tokens->space = space;
	return true;
}

bool
arena_grow_merge(struct tokenizer_arena *arena, uint32_t wanted)
{
	struct merge_room *merge = &arena->merge;
	uint32_t	space = doubled(merge->space, wanted);

	if (!grow(arena, &merge->symbols, space, sizeof(*merge->symbols)) ||
		!grow(arena, &merge->heap, 3 * (size_t) space, sizeof(*merge->heap)))
		return false;
	merge->space = space;
	return true;
}

bool
arena_grow_paths(struct tokenizer_arena *arena, uint32_t wanted)
{
	uint32_t	space = doubled(arena->paths.space, wanted);

	if (!grow(arena, &arena->paths.data, space, sizeof(*arena->paths.data)))
		return false;
	arena->paths.space = space;
	return true;
}
