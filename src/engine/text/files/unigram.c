/*
 * unigram.c
 *	  A Unigram model: its tokens with their scores, in the order of their ids.
 */
#include "reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../../protocol/protocol.h"

#define UNKNOWN_PENALTY	10.0		/* the reference's: below the lowest score */

static bool
read_piece(struct tokenizer *tokenizer, json_t *piece, int32_t id, struct trie_key *key, struct status *status)
{
	const char *token = json_string_value(json_array_get(piece, 0));
	json_t	   *score = json_array_get(piece, 1);
	const char *copy;

	if (json_array_size(piece) != 2 || token == NULL || !json_is_number(score) || !isfinite(json_number_value(score)))
		return status_set(status, INFER_ERROR_MODEL, "token %d of the tokenizer is not a text and its score", id);
	if (strlen(token) > TEXT_TOKEN_BYTES)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a token of the vocabulary is longer than %d bytes", TEXT_TOKEN_BYTES);
	copy = graph_pool_text(&tokenizer->memory, token, strlen(token));
	if (copy == NULL)
		return false;
	*key = (struct trie_key) {(const uint8_t *) copy, (uint32_t) strlen(token), id};
	tokenizer->unigram.scores[id] = json_number_value(score);
	return true;
}

static bool
read_pieces(struct tokenizer *tokenizer, json_t *vocabulary, struct trie_key *keys, struct status *status)
{
	struct unigram *model = &tokenizer->unigram;
	const struct trie_key *duplicate;
	double		lowest = INFINITY;
	uint32_t	count = 0;
	json_t	   *piece;
	size_t		i;

	json_array_foreach(vocabulary, i, piece)
	{
		if (!read_piece(tokenizer, piece, (int32_t) i, &keys[count], status))
			return false;
		count += keys[count].length > 0;
		if (model->scores[i] < lowest)
			lowest = model->scores[i];
	}
	model->unknown_score = lowest - UNKNOWN_PENALTY;
	if (trie_build(&model->vocabulary, keys, count, &tokenizer->memory, &duplicate))
		return true;
	if (duplicate != NULL)
		status_set(status, INFER_ERROR_UNSUPPORTED, "the vocabulary has the token \"%.200s\" twice", (const char *) duplicate->bytes);
	return false;
}

static void
read_fallback(struct unigram *model)
{
	char		name[16];

	for (uint32_t byte = 0; byte < 256; byte++)
	{
		snprintf(name, sizeof(name), "<0x%02X>", byte);
		model->fallback[byte] = trie_find(&model->vocabulary, name, strlen(name));
	}
}

bool
read_unigram(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	static const char *const known[] = {"unk_id", "vocab", "byte_fallback", NULL};
	struct unigram *model = &tokenizer->unigram;
	json_t	   *vocabulary = json_object_get(object, "vocab");
	int64_t		unknown;
	struct trie_key *keys;
	bool		good;

	if (!json_is_array(vocabulary) || json_array_size(vocabulary) == 0 || json_array_size(vocabulary) > TEXT_TOKENS_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the tokenizer's vocabulary is not an array of 1 to %u tokens", TEXT_TOKENS_MAX);
	if (!reader_known(object, "model", known, status) ||
		!reader_int(object, "unk_id", "model", 0, (int64_t) json_array_size(vocabulary) - 1, &unknown, status) ||
		(json_object_get(object, "byte_fallback") != NULL &&
		 !reader_bool(object, "byte_fallback", "model", &model->use_fallback, status)))
		return false;
	tokenizer->model = MODEL_UNIGRAM;
	tokenizer->facts.model = "Unigram";
	tokenizer->vocabulary_count = tokenizer->facts.ids_end = (int32_t) json_array_size(vocabulary);
	model->unknown = (int32_t) unknown;
	model->scores = graph_pool(&tokenizer->memory, json_array_size(vocabulary), sizeof(*model->scores));
	keys = graph_block(&tokenizer->memory, json_array_size(vocabulary) * sizeof(*keys));
	good = model->scores != NULL && keys != NULL && read_pieces(tokenizer, vocabulary, keys, status);
	if (good)
		read_fallback(model);
	graph_block_free(&tokenizer->memory, keys);
	return good;
}
