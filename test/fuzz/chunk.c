/*
 * chunk.c
 *	  Fuzzes chunks of texts: whatever the text and the lengths, what chunk.h promises holds.
 *
 * Four bytes say tokenizer and border, tokens_max, overlap, and how often the text behind them is
 * repeated.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "chunk_check.h"
#include "text_fixture.h"

#define TEXT_BYTES	(1u << 16)

static struct tokenizer *kinds[FIXTURE_KINDS];
static struct tokenizer_arena *arena;
static struct chunks chunks;

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	arena = tokenizer_arena_create();
	if (!fixture_open_kinds(kinds) || arena == NULL)
		abort();
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[TEXT_BYTES];
	const struct tokenizer *tokenizer;
	uint32_t	bytes = 0;
	enum chunk_border border;
	struct status status = {0};
	const char *what;

	if (size < 4 || size > 4096)
		return 0;
	tokenizer = kinds[data[0] % FIXTURE_KINDS];
	for (int times = 0; times <= data[3] % 16; times++)
	{
		memcpy(text + bytes, data + 4, size - 4);
		bytes += (uint32_t) size - 4;
	}
	border = data[0] / FIXTURE_KINDS % 3;
	if (!chunk_text(tokenizer, arena, text, bytes, data[1], data[2], border, &chunks, &status))
	{
		if (status.error == 0 || status.message[0] == '\0')
			abort();
		return 0;
	}
	what = chunks_broken(tokenizer, arena, &chunks, text, bytes, data[1], data[2], border);
	if (what != NULL)
	{
		fprintf(stderr, "%s\n", what);
		abort();
	}
	return 0;
}
