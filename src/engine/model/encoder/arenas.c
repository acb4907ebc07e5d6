/*
 * arenas.c
 *	  What texts are tokenized in, by any number of threads: a few arenas are kept, more are
 *	  made while more threads work.
 *
 * An arena that one enormous text has made large is freed rather than kept.
 */
#include "encoder_model.h"

#include <stdlib.h>

#define TEXTS_KEPT	(UINT64_C(1) << 20)		/* bytes of texts, and tokens, of an arena that is kept */

static void
arena_free(struct encoder_arena *arena)
{
	if (arena == NULL)
		return;
	tokenizer_arena_free(arena->tokenizer);
	chunks_free(&arena->chunks);
	free(arena->texts);
	free(arena->ids);
	free(arena->types);
	free(arena->sources);
	free(arena->places);
	free(arena);
}

struct encoder_arena *
encoder_arena_take(struct encoder_model *m)
{
	struct encoder_arena *arena;

	pthread_mutex_lock(&m->arenas_lock);
	arena = m->arenas;
	if (arena != NULL)
	{
		m->arenas = arena->next;
		m->arenas_count--;
	}
	pthread_mutex_unlock(&m->arenas_lock);
	if (arena != NULL)
		return arena;
	arena = calloc(1, sizeof(*arena));
	if (arena == NULL)
		return NULL;
	arena->tokenizer = tokenizer_arena_create();
	if (arena->tokenizer == NULL || !encoder_arena_tokens(arena, m->encoder->tokens_max) ||
		!encoder_arena_texts(arena, 1))
	{
		arena_free(arena);
		return NULL;
	}
	return arena;
}

void
encoder_arena_give(struct encoder_model *m, struct encoder_arena *arena)
{
	bool		kept = arena->texts_space <= TEXTS_KEPT && arena->space <= TEXTS_KEPT && arena->chunks.space <= TEXTS_KEPT / 16;

	pthread_mutex_lock(&m->arenas_lock);
	kept = kept && m->arenas_count < ENCODER_ARENAS_KEPT;
	if (kept)
	{
		arena->next = m->arenas;
		m->arenas = arena;
		m->arenas_count++;
	}
	pthread_mutex_unlock(&m->arenas_lock);
	if (!kept)
		arena_free(arena);
}

void
encoder_arenas_free(struct encoder_model *m)
{
	while (m->arenas != NULL)
	{
		struct encoder_arena *arena = m->arenas;

		m->arenas = arena->next;
		arena_free(arena);
	}
}

static bool
grow(void *array, uint64_t bytes)
{
	void	  **place = array;
	void	   *larger = realloc(*place, bytes);

	if (larger != NULL)
		*place = larger;
	return larger != NULL;
}

bool
encoder_arena_tokens(struct encoder_arena *arena, uint32_t tokens)
{
	uint64_t	space = tokens;

	if (tokens <= arena->space)
		return true;
	if (!grow(&arena->ids, space * sizeof(*arena->ids)) || !grow(&arena->types, space * sizeof(*arena->types)) ||
		!grow(&arena->sources, space) || !grow(&arena->places, space * sizeof(*arena->places)))
		return false;
	arena->space = tokens;
	return true;
}

bool
encoder_arena_texts(struct encoder_arena *arena, uint64_t bytes)
{
	uint64_t	space = arena->texts_space == 0 ? 4096 : arena->texts_space;

	if (bytes <= arena->texts_space)
		return true;
	while (space < bytes)
		space = space < TEXTS_KEPT ? space * 2 : bytes;
	if (!grow(&arena->texts, space))
		return false;
	arena->texts_space = space;
	return true;
}
