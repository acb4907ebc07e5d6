/*
 * tokenizer_check.h
 *	  One tokenizer, what it makes of a text, and whether that is what was wanted: for the tests of tokenizers.
 *
 * Nouns
 *	tokenizer	the one under test, which each open_ function but open_with and open_usual replaces
 *	output		of the last text
 *	wanted		numbers as text: ids, or for each token the characters where it begins and ends
 */
#ifndef TEST_UNIT_TOKENIZER_CHECK_H
#define TEST_UNIT_TOKENIZER_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/protocol.h"
#include "tap.h"
#include "text_fixture.h"

#define SPACE		64

static struct tokenizer *tokenizer;
static struct tokenizer_arena *arena;
static int32_t ids[SPACE], type_ids[SPACE];
static uint8_t sources[SPACE];
static struct token_place places[SPACE];
static int32_t words[SPACE];
static struct tokenizer_output output = {SPACE, ids, type_ids, sources, places, words};

/* ---- what a text becomes ---- */

static inline bool
encode(struct tokenizer_input input)
{
	struct status status = {0};

	input.text_bytes = strlen(input.text);
	input.pair_bytes = input.pair == NULL ? 0 : strlen(input.pair);
	return tokenizer_encode(tokenizer, arena, &input, &output, &status);
}

static inline bool
is(const int32_t *got, const char *wanted)
{
	char		text[1024] = "";

	for (uint32_t i = 0; i < output.count && i < SPACE; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", i == 0 ? "" : " ", got[i]);
	if (strcmp(text, wanted) != 0)
		printf("# wanted %s, got %s\n", wanted, text);
	return strcmp(text, wanted) == 0;
}

static inline bool
bare(const char *text, const char *wanted)
{
	return encode((struct tokenizer_input) {.text = text, .bare = true}) && is(ids, wanted);
}

static inline bool
places_are(const char *wanted)
{
	int32_t		both[2 * SPACE];

	for (uint32_t i = 0; i < output.count; i++)
	{
		both[2 * i] = places[i].start;
		both[2 * i + 1] = places[i].end;
	}
	output.count *= 2;
	return is(both, wanted);
}

/* ---- tokenizers ---- */

static inline struct tokenizer *
open_with(const char *added, const char *normalizer, const char *split, const char *processor, const char *unknown,
		  const char *vocabulary, struct status *status)
{
	char		json[4096];

	snprintf(json, sizeof(json), FIXTURE_FORMAT, added, normalizer, split, processor, unknown, vocabulary);
	return fixture_open(json, strlen(json), status);
}

static inline struct tokenizer *
open_usual(const char *word_normalized, const char *normalizer)
{
	struct status status = {0};
	char		added[1024];
	struct tokenizer *result;

	snprintf(added, sizeof(added), FIXTURE_ADDED, word_normalized);
	result = open_with(added, normalizer, FIXTURE_SPLIT, FIXTURE_PROCESSOR, "[UNK]", FIXTURE_VOCABULARY, &status);
	if (result == NULL)
		printf("# %s %s\n", status.message, status.detail);
	return result;
}

static inline bool
open_json(const char *json)
{
	struct status status = {0};

	tokenizer_close(tokenizer);
	tokenizer = fixture_open(json, strlen(json), &status);
	if (tokenizer == NULL)
		printf("# %s %s\n", status.message, status.detail);
	return tokenizer != NULL;
}

static inline bool
open_bpe(const char *normalizer, const char *split, const char *processor, const char *settings)
{
	char		json[4096];

	snprintf(json, sizeof(json), FIXTURE_BPE, normalizer, split, processor, settings);
	return open_json(json);
}

static inline bool
cut_by(const char *split, const char *text, const char *wanted)
{
	struct status status = {0};
	char		json[2048];

	tokenizer_close(tokenizer);
	snprintf(json, sizeof(json), FIXTURE_WORDS, split);
	tokenizer = fixture_open(json, strlen(json), &status);
	if (tokenizer == NULL)
		printf("# %s %s\n", status.message, status.detail);
	return tokenizer != NULL && encode((struct tokenizer_input) {.text = text, .bare = true}) && places_are(wanted);
}

static inline bool
open_unigram(const char *normalizer, const char *split, const char *fallback, const char *more)
{
	char		json[4096];

	snprintf(json, sizeof(json), FIXTURE_UNIGRAM, normalizer, split, fallback, more);
	return open_json(json);
}

static inline bool
open_metaspace(const char *scheme)
{
	char		split[256];

	snprintf(split, sizeof(split), FIXTURE_METASPACE, scheme);
	return open_unigram("null", split, "false", "");
}

#define SPLIT_BY(pattern, behavior, invert) \
	"{\"type\":\"Split\",\"pattern\":" pattern ",\"behavior\":\"" behavior "\",\"invert\":" invert "}"

#endif /* TEST_UNIT_TOKENIZER_CHECK_H */
