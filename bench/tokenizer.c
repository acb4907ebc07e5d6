/*
 * tokenizer.c
 *	  Texts a tokenizer turns into ids a second, on one thread.
 *
 *	tokenizer [--quick] FOLDER TEXTS
 *
 * FOLDER has the tokenizer's files; TEXTS holds texts that end with a zero byte each.  The best
 * of several runs counts, as a machine that is shared only ever makes things slower.
 * bench/tokenizer.py calls this beside the reference library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/model/files.h"
#include "engine/status.h"
#include "engine/text/tokenizer.h"

#define IDS		(1u << 20)

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* All texts once; returns the tokens. */
static uint64_t
run(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const struct model_file *texts)
{
	static int32_t ids[IDS];
	struct status status = {0};
	uint64_t	tokens = 0;

	for (const uint8_t *at = texts->data, *end = texts->data + texts->size; at < end;)
	{
		const uint8_t *stop = memchr(at, 0, (size_t) (end - at));
		struct tokenizer_input input = {.text = (const char *) at, .text_bytes = (uint64_t) (stop - at)};
		struct tokenizer_output output = {.space = IDS, .ids = ids};

		if (!tokenizer_encode(tokenizer, arena, &input, &output, &status))
		{
			fprintf(stderr, "%s\n", status.message);
			exit(1);
		}
		tokens += output.count;
		at = stop + 1;
	}
	return tokens;
}

int
main(int argc, char **argv)
{
	int			first = argc > 1 && strcmp(argv[1], "--quick") == 0 ? 2 : 1;
	struct model_files folder = {0}, texts = {0};
	struct status status = {0};
	struct tokenizer *tokenizer;
	struct tokenizer_arena *arena = tokenizer_arena_create();
	double		best = 1e9, begin = now(), opened;
	uint64_t	tokens = 0;

	if (argc != first + 2)
	{
		fprintf(stderr, "usage: tokenizer [--quick] FOLDER TEXTS\n");
		return 2;
	}
	if (files_open_folder(argv[first], &folder, &status) != FILES_OK ||
		files_open_path(argv[first + 1], &texts, &status) != FILES_OK ||
		(tokenizer = tokenizer_open(&folder, &status)) == NULL)
	{
		fprintf(stderr, "%s\n", status.message);
		return 1;
	}
	opened = now() - begin;
	for (int i = 0; i < (first == 2 ? 3 : 10); i++)
	{
		begin = now();
		tokens = run(tokenizer, arena, &texts.files[0]);
		if (now() - begin < best)
			best = now() - begin;
	}
	printf("%.6f %llu %.4f %llu\n", best, (unsigned long long) tokens, opened,
		   (unsigned long long) tokenizer_bytes(tokenizer));
	tokenizer_close(tokenizer);
	tokenizer_arena_free(arena);
	files_close(&folder);
	files_close(&texts);
	return 0;
}
