/*
 * bpe.c
 *	  A BPE model: its vocabulary, its merges, and which words need none of them.
 *
 * Byte-level models write each byte of their tokens as a printable character: those of Latin 1
 * that are visible stand for themselves, the others are numbered from U+0100 on (GPT-2's
 * encoder.py).  The trie holds the bytes.  A token with another character in it is found by no
 * text, but may have a name (an unknown token, an added one).
 */
#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../protocol/protocol.h"

#define MERGES_MAX		(1u << 22)
#define BYTES_FIRST		0x100		/* where the numbered ones begin */

/* ---- bytes as characters ---- */

static bool
is_visible(uint32_t byte)
{
	return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

/* The byte that a character stands for, or -1. */
static int
byte_of(uint32_t point)
{
	uint32_t	number = point - BYTES_FIRST;

	if (is_visible(point))
		return (int) point;
	for (uint32_t byte = 0; point >= BYTES_FIRST && byte < 256; byte++)
		if (!is_visible(byte) && number-- == 0)
			return (int) byte;
	return -1;
}

/* A token's bytes in place of its characters, of which there are no fewer. */
static bool
to_bytes(const char *token, uint8_t *to, uint32_t *length)
{
	const uint8_t *at = (const uint8_t *) token;
	uint32_t	size;

	*length = 0;
	for (; *at != '\0'; at += size)
	{
		int			byte = byte_of(utf8_decode(at, &size));

		if (byte < 0)
			return false;
		to[(*length)++] = (uint8_t) byte;
	}
	return true;
}

/* ---- the vocabulary ---- */

static int32_t
id_of(json_t *vocabulary, const char *token)
{
	json_t	   *id = json_object_get(vocabulary, token);

	return id == NULL ? -1 : (int32_t) json_integer_value(id);
}

static bool
read_key(struct tokenizer *tokenizer, const char *token, json_t *id, struct trie_key *key, struct status *status)
{
	uint8_t    *bytes = graph_pool(&tokenizer->memory, strlen(token) + 1, 1);

	if (bytes == NULL)
		return false;
	if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= TEXT_IDS_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the vocabulary's id of \"%.200s\" is not one", token);
	if (strlen(token) > TEXT_TOKEN_BYTES)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a token of the vocabulary is longer than %d bytes", TEXT_TOKEN_BYTES);
	if (json_integer_value(id) >= tokenizer->facts.ids_end)
		tokenizer->facts.ids_end = (int32_t) json_integer_value(id) + 1;
	*key = (struct trie_key) {bytes, (uint32_t) strlen(token), (int32_t) json_integer_value(id)};
	if (!tokenizer->bpe.byte_level)
		memcpy(bytes, token, key->length);
	else if (!to_bytes(token, bytes, &key->length))
		key->length = 0;
	return true;
}

static bool
read_vocabulary(struct tokenizer *tokenizer, json_t *vocabulary, struct trie_key *keys, uint32_t *count,
				struct status *status)
{
	const struct trie_key *duplicate;
	const char *token;
	json_t	   *id;

	json_object_foreach(vocabulary, token, id)
	{
		if (!read_key(tokenizer, token, id, &keys[*count], status))
			return false;
		*count += keys[*count].length > 0;
	}
	return trie_build(&tokenizer->bpe.vocabulary, keys, *count, &tokenizer->memory, &duplicate);
}

static void
read_bytes(struct bpe *model, json_t *vocabulary)
{
	char		name[16];

	for (uint32_t byte = 0; byte < 256; byte++)
	{
		uint8_t		text = (uint8_t) byte;

		snprintf(name, sizeof(name), "<0x%02X>", byte);
		model->fallback[byte] = id_of(vocabulary, name);
		model->bytes[byte] = model->byte_level || byte < 0x80 ? trie_find(&model->vocabulary, &text, 1) : -1;
	}
}

/* How many spaces a token begins and ends with, as the post-processor counts them. */
static void
count_spaces(struct bpe *model, const char *token, int32_t id)
{
	uint32_t	leading = text_leading_spaces((const uint8_t *) token, strlen(token));
	uint32_t	trailing = text_trailing_spaces((const uint8_t *) token, strlen(token));

	model->leading[id] = (uint16_t) leading;	/* at most TEXT_TOKEN_BYTES */
	model->trailing[id] = (uint16_t) trailing;
}

static bool
read_spaces(struct tokenizer *tokenizer, json_t *vocabulary)
{
	struct bpe *model = &tokenizer->bpe;
	const char *token;
	json_t	   *id;

	model->leading = graph_pool(&tokenizer->memory, (uint64_t) tokenizer->facts.ids_end, sizeof(*model->leading));
	model->trailing = graph_pool(&tokenizer->memory, (uint64_t) tokenizer->facts.ids_end, sizeof(*model->trailing));
	if (model->leading == NULL || model->trailing == NULL)
		return false;
	json_object_foreach(vocabulary, token, id)
		count_spaces(model, token, (int32_t) json_integer_value(id));
	return true;
}

/* ---- merges ---- */

/* The two texts of a merge: an array of them, or one text with a space between. */
static bool
read_pair(json_t *merge, char left[TEXT_TOKEN_BYTES + 1], char right[TEXT_TOKEN_BYTES + 1])
{
	const char *a = json_string_value(json_array_get(merge, 0));
	const char *b = json_string_value(json_array_get(merge, 1));
	const char *both = json_string_value(merge);
	size_t		length = a == NULL ? 0 : strlen(a);

	if (both != NULL)
	{
		const char *space = strchr(both, ' ');

		if (space == NULL || strchr(space + 1, ' ') != NULL)
			return false;
		a = both;
		length = (size_t) (space - both);
		b = space + 1;
	}
	else if (json_array_size(merge) != 2)
		return false;
	if (a == NULL || b == NULL || length > TEXT_TOKEN_BYTES || strlen(b) > TEXT_TOKEN_BYTES)
		return false;
	memcpy(left, a, length);
	left[length] = '\0';
	strcpy(right, b);
	return true;
}

/* A pair that is there twice has the rank of the last. */
static void
add_merge(struct bpe *model, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
	struct merge *place = (struct merge *) bpe_merge(model, left, right);

	*place = (struct merge) {(uint32_t) left, (uint32_t) right, rank, id};
}

static bool
read_merge(struct bpe *model, json_t *vocabulary, json_t *merge, uint32_t rank, struct status *status)
{
	char		left[TEXT_TOKEN_BYTES + 1], right[TEXT_TOKEN_BYTES + 1], both[2 * TEXT_TOKEN_BYTES + 1];
	int32_t		left_id, right_id, id;

	if (!read_pair(merge, left, right))
		return status_set(status, INFER_ERROR_MODEL, "merge %u of the tokenizer is not two tokens", rank + 1);
	snprintf(both, sizeof(both), "%s%s", left, right);
	left_id = id_of(vocabulary, left);
	right_id = id_of(vocabulary, right);
	id = id_of(vocabulary, both);
	if (left_id < 0 || right_id < 0 || id < 0)
		return status_set(status, INFER_ERROR_MODEL, "merge %u of the tokenizer, \"%.100s\" and \"%.100s\", is not of its vocabulary",
						  rank + 1, left, right);
	add_merge(model, left_id, right_id, rank, id);
	return true;
}

static bool
read_merges(struct tokenizer *tokenizer, json_t *vocabulary, json_t *merges, struct status *status)
{
	struct bpe *model = &tokenizer->bpe;
	uint32_t	places = 16, rank = 0;
	json_t	   *merge;
	size_t		i;

	if (!json_is_array(merges) || json_array_size(merges) > MERGES_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the tokenizer's merges are not an array of at most %u", MERGES_MAX);
	while (places < 2 * json_array_size(merges))
		places *= 2;
	model->merges = graph_block(&tokenizer->memory, places * sizeof(*model->merges));
	if (model->merges == NULL)
		return false;
	model->merges_mask = places - 1;
	for (uint32_t p = 0; p < places; p++)
		model->merges[p].rank = NO_RANK;
	json_array_foreach(merges, i, merge)
	{
		const char *line = json_string_value(merge);

		if (line != NULL && strncmp(line, "#version", 8) == 0)
			continue;
		if (!read_merge(model, vocabulary, merge, rank++, status))
			return false;
	}
	return true;
}

/* The bytes of a token that may be a word, without the suffix; 0: it may be none. */
static uint32_t
without_suffix(const struct bpe *model, const struct trie_key *key)
{
	uint32_t	suffix = model->suffix_length;

	if (key->length <= suffix || memcmp(key->bytes + key->length - suffix, model->suffix, suffix) != 0)
		return 0;
	return key->length - suffix;
}

/* Which tokens are what their own text is merged to. */
static bool
find_whole(struct tokenizer *tokenizer, const struct trie_key *keys, uint32_t count, struct status *status)
{
	struct tokenizer_arena *arena = tokenizer_arena_create();
	bool		good = arena != NULL;

	tokenizer->bpe.whole = graph_pool(&tokenizer->memory, (uint64_t) tokenizer->facts.ids_end, 1);
	if (!good)
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a tokenizer");
	else
		arena->status = status;
	good = good && tokenizer->bpe.whole != NULL;
	for (uint32_t i = 0; good && i < count; i++)
	{
		uint32_t	length = without_suffix(&tokenizer->bpe, &keys[i]);

		good = length == 0 ||
			bpe_is_whole(&tokenizer->bpe, arena, keys[i].bytes, length, keys[i].value, &tokenizer->bpe.whole[keys[i].value]);
	}
	tokenizer_arena_free(arena);
	return good;
}

/* ---- the model ---- */

static bool
optional_flag(json_t *model, const char *key, bool *value, struct status *status)
{
	json_t	   *member = json_object_get(model, key);

	return member == NULL || json_is_null(member) || reader_bool(model, key, "model", value, status);
}

/* A setting that is nothing, or is refused. */
static bool
without(json_t *model, const char *key, struct status *status)
{
	json_t	   *member = json_object_get(model, key);
	const char *text = json_string_value(member);

	if (member == NULL || json_is_null(member) || (text != NULL && text[0] == '\0') ||
		(json_is_number(member) && json_number_value(member) == 0))
		return true;
	return status_set(status, INFER_ERROR_UNSUPPORTED, "a BPE tokenizer with %s is not supported", key);
}

/* What ends a word: CLIP's </w>. */
static bool
read_suffix(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	const char *suffix = json_string_value(json_object_get(object, "end_of_word_suffix"));

	if (suffix == NULL)
		suffix = "";
	for (const char *at = suffix; *at != '\0'; at++)
		if (*at < '!' || *at > '~' || at - suffix >= TEXT_CONTENT_MAX)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "an end_of_word_suffix that is not visible ASCII, or longer than %d bytes, is not supported",
							  TEXT_CONTENT_MAX);
	tokenizer->bpe.suffix = graph_pool_text(&tokenizer->memory, suffix, strlen(suffix));
	tokenizer->bpe.suffix_length = (uint32_t) strlen(suffix);
	return tokenizer->bpe.suffix != NULL;
}

/* With the suffix the reference mixes these in ways that no model is known to use. */
static bool
check_suffix(const struct bpe *model, struct status *status)
{
	const char *other = model->use_fallback ? "byte_fallback" : model->ignore_merges ? "ignore_merges" :
		model->unknown < 0 ? "no unk_token" : NULL;

	return model->suffix_length == 0 || other == NULL ||
		status_set(status, INFER_ERROR_UNSUPPORTED, "a BPE tokenizer with end_of_word_suffix and %s is not supported", other);
}

static bool
read_settings(struct tokenizer *tokenizer, json_t *object, json_t *vocabulary, struct status *status)
{
	static const char *const known[] = {
		"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
		"ignore_merges", "vocab", "merges", NULL
	};
	const char *unknown = json_string_value(json_object_get(object, "unk_token"));
	struct bpe *model = &tokenizer->bpe;

	if (!reader_known(object, "model", known, status) || !without(object, "dropout", status) ||
		!without(object, "continuing_subword_prefix", status) || !read_suffix(tokenizer, object, status) ||
		!optional_flag(object, "fuse_unk", &model->fuse_unknown, status) ||
		!optional_flag(object, "byte_fallback", &model->use_fallback, status) ||
		!optional_flag(object, "ignore_merges", &model->ignore_merges, status))
		return false;
	model->unknown = unknown == NULL ? -1 : id_of(vocabulary, unknown);
	if (unknown != NULL && model->unknown < 0)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the vocabulary does not have the unknown token \"%.200s\"", unknown);
	return check_suffix(model, status);
}

bool
read_bpe(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	struct bpe *model = &tokenizer->bpe;
	json_t	   *vocabulary = json_object_get(object, "vocab");
	struct trie_key *keys;
	uint32_t	count = 0;
	bool		good;

	if (!json_is_object(vocabulary) || json_object_size(vocabulary) > TEXT_TOKENS_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the tokenizer's vocabulary is not an object of at most %u tokens",
						  TEXT_TOKENS_MAX);
	tokenizer->model = MODEL_BPE;
	tokenizer->facts.model = "BPE";
	tokenizer->vocabulary_count = (int32_t) json_object_size(vocabulary);
	model->byte_level = tokenizer->splitters_count > 0 &&
		tokenizer->splitters[tokenizer->splitters_count - 1].kind == SPLIT_BYTES;
	keys = graph_block(&tokenizer->memory, json_object_size(vocabulary) * sizeof(*keys));
	good = keys != NULL && read_vocabulary(tokenizer, vocabulary, keys, &count, status) &&
		read_settings(tokenizer, object, vocabulary, status) &&
		read_merges(tokenizer, vocabulary, json_object_get(object, "merges"), status);
	if (good)
		read_bytes(model, vocabulary);
	good = good && read_spaces(tokenizer, vocabulary) && find_whole(tokenizer, keys, count, status);
	graph_block_free(&tokenizer->memory, keys);
	return good;
}
