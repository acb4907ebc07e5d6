/*
 * added.c
 *	  Added tokens: found in a text before the model sees it, in the text as it is or in the
 *	  normalised one.
 *
 * The longest token that begins at the leftmost place wins, and the search goes on behind it,
 * also where it is discarded because it was to be a single word.  A token may take white
 * space before or behind it along (lstrip, rstrip); the search goes on behind the token itself
 * all the same, so that a token of white space is found in white space that another one has
 * taken.
 */
#include "text_internal.h"

#include <string.h>

#include "../../protocol/protocol.h"

/* ---- opening ---- */

/* A token as it is sought: normalised, if it is to be.  The copy lives with the tokenizer. */
static bool
sought_form(struct tokenizer *tokenizer, struct tokenizer_arena *arena, const struct added_token *token,
			struct trie_key *key, struct status *status)
{
	const uint8_t *bytes = (const uint8_t *) token->content;
	size_t		length = strlen(token->content);
	uint8_t    *copy;

	if (token->normalized)
	{
		if (!normalize(tokenizer, arena, bytes, length, 0))
			return false;
		bytes = arena->buffer.bytes;
		length = arena->buffer.used;
		if (length == 0)
			return status_set(status, INFER_ERROR_UNSUPPORTED,
							  "nothing is left of the added token \"%.200s\" when it is normalized", token->content);
	}
	copy = (uint8_t *) graph_pool_text(&tokenizer->memory, bytes, length);
	key->bytes = copy;
	key->length = (uint32_t) length;
	return copy != NULL;
}

static bool
build_trie(struct tokenizer *tokenizer, struct tokenizer_arena *arena, bool normalized, struct trie *trie,
		   uint32_t *count, struct status *status)
{
	struct added_tokens *added = &tokenizer->added;
	struct trie_key *keys = graph_block(&tokenizer->memory, added->count * sizeof(*keys));
	const struct trie_key *duplicate = NULL;
	bool		good = keys != NULL;

	*count = 0;
	for (uint32_t i = 0; good && i < added->count; i++)
		if (added->tokens[i].normalized == normalized)
		{
			keys[*count].value = (int32_t) i;
			good = sought_form(tokenizer, arena, &added->tokens[i], &keys[(*count)++], status);
		}
	if (good && !trie_build(trie, keys, *count, &tokenizer->memory, &duplicate))
	{
		good = false;
		if (duplicate != NULL)
			status_set(status, INFER_ERROR_UNSUPPORTED, "the added token \"%.200s\" and another one are sought as the same text",
					   added->tokens[duplicate->value].content);
	}
	graph_block_free(&tokenizer->memory, keys);
	return good;
}

bool
added_build(struct tokenizer *tokenizer, struct status *status)
{
	struct added_tokens *added = &tokenizer->added;
	struct tokenizer_arena *arena = tokenizer_arena_create();
	bool		good;

	if (arena == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a tokenizer");
	arena->status = status;
	good = build_trie(tokenizer, arena, false, &added->literal, &added->literal_count, status) &&
		build_trie(tokenizer, arena, true, &added->normalized, &added->normalized_count, status);
	tokenizer_arena_free(arena);
	return good;
}

/* ---- searching ---- */

void
added_search_begin(struct added_search *search, const struct added_tokens *added, const struct trie *trie,
				   const uint8_t *text, size_t size)
{
	*search = (struct added_search) {.added = added, .trie = trie, .text = text, .size = size};
}

static bool
is_word_before(const struct added_search *search, size_t at)
{
	uint32_t	length;

	return at > 0 && (unicode_flags(utf8_before(search->text + at, &length)) & UNICODE_WORD) != 0;
}

static bool
is_word_behind(const struct added_search *search, size_t at)
{
	uint32_t	length;

	return at < search->size && (unicode_flags(utf8_decode(search->text + at, &length)) & UNICODE_WORD) != 0;
}

/* Where the white space before a place begins, but not before the last match's end. */
static size_t
spaces_before(const struct added_search *search, size_t at)
{
	uint32_t	length;

	while (at > search->done && (unicode_flags(utf8_before(search->text + at, &length)) & UNICODE_SPACE) != 0)
		at -= length;
	return at < search->done ? search->done : at;
}

/* Where the white space behind a place ends; what was run over once is not run over again. */
static size_t
spaces_behind(struct added_search *search, size_t at)
{
	uint32_t	length;

	if (at >= search->spaces_start && at < search->spaces_end)
		return search->spaces_end;
	search->spaces_start = at;
	while (at < search->size && (unicode_flags(utf8_decode(search->text + at, &length)) & UNICODE_SPACE) != 0)
		at += length;
	search->spaces_end = at;
	return at;
}

bool
added_search_next(struct added_search *search, struct added_match *match)
{
	match->before = search->done;
	while (search->at < search->size)
	{
		size_t		start = search->at, length = 0;
		int32_t		found = trie_longest(search->trie, TRIE_ROOT, search->text + start, search->size - start, &length);
		const struct added_token *token;

		if (found < 0)
		{
			search->at++;
			continue;
		}
		search->at += length;
		token = &search->added->tokens[found];
		if (token->single_word && (is_word_before(search, start) || is_word_behind(search, start + length)))
			continue;
		match->token = token;
		match->start = token->lstrip ? spaces_before(search, start) : start;
		match->end = token->rstrip ? spaces_behind(search, start + length) : start + length;
		search->done = match->end;
		return match->start <= match->end;
	}
	match->token = NULL;
	match->start = match->end = search->size;
	return true;
}
