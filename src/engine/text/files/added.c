/*
 * added.c
 *	  Added tokens: those of tokenizer.json, and whether tokenizer_config.json agrees.
 *
 * The reference gives an added token the id that its text has in the vocabulary, else the next
 * one behind all others, whatever the file says.  A file that says something else was not
 * written by it, and is refused.
 */
#include "reader.h"

#include <stdlib.h>
#include <string.h>

#include "../../../protocol/protocol.h"

#define ADDED_MAX	65536

/* By content; the tries that find them in texts are built later. */
static int
compare_tokens(const void *a, const void *b)
{
	return strcmp(((const struct added_token *) a)->content, ((const struct added_token *) b)->content);
}

void
added_sort(struct added_tokens *added)
{
	if (added->count > 1)
		qsort(added->tokens, added->count, sizeof(*added->tokens), compare_tokens);
}

/* The model's id of a text, or -1: of an object by text, or of Unigram's array by its trie. */
static int32_t
model_id(const struct tokenizer *tokenizer, json_t *vocabulary, const char *content)
{
	json_t	   *id = json_object_get(vocabulary, content);

	if (tokenizer->model == MODEL_UNIGRAM)
		return trie_find(&tokenizer->unigram.vocabulary, content, strlen(content));
	return id == NULL ? -1 : (int32_t) json_integer_value(id);
}

/* The id that the reference gives it; next is that of what is not in the vocabulary. */
static int32_t
expected_id(const struct tokenizer *tokenizer, json_t *vocabulary, const char *content, int32_t *next)
{
	int32_t		id = model_id(tokenizer, vocabulary, content);

	return id >= 0 ? id : (*next)++;
}

static bool
read_flags(json_t *object, struct added_token *token, struct status *status)
{
	const char *what = "added_tokens";

	return reader_bool(object, "single_word", what, &token->single_word, status) &&
		reader_bool(object, "lstrip", what, &token->lstrip, status) &&
		reader_bool(object, "rstrip", what, &token->rstrip, status) &&
		reader_bool(object, "normalized", what, &token->normalized, status) &&
		reader_bool(object, "special", what, &token->special, status);
}

static bool
read_added_token(struct tokenizer *tokenizer, json_t *object, json_t *vocabulary, int32_t *next,
				 struct status *status)
{
	static const char *const known[] = {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", NULL};
	struct added_token *token = &tokenizer->added.tokens[tokenizer->added.count];
	const char *content;
	int32_t		expected;
	int64_t		id;

	if (!json_is_object(object) || !reader_known(object, "added_tokens", known, status))
		return status_set(status, INFER_ERROR_MODEL, "an added token of the tokenizer is not an object");
	content = reader_text(object, "content", "added_tokens", status);
	if (content == NULL || !reader_int(object, "id", "added_tokens", 0, INT32_MAX - 1, &id, status) ||
		!read_flags(object, token, status))
		return false;
	if (content[0] == '\0' || strlen(content) > TEXT_TOKEN_BYTES)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "an added token of the tokenizer is empty or longer than %d bytes",
						  TEXT_TOKEN_BYTES);
	expected = expected_id(tokenizer, vocabulary, content, next);
	if (expected != id)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "the added token \"%.200s\" has an id that is not its own", content);
		status_detail(status, "The file says %lld; by the vocabulary it is %d.", (long long) id, expected);
		return false;
	}
	if (id + 1 > tokenizer->facts.ids_end)
		tokenizer->facts.ids_end = (int32_t) id + 1;
	token->content = graph_pool_text(&tokenizer->memory, content, strlen(content));
	token->id = (int32_t) id;
	tokenizer->added.count++;
	return token->content != NULL;
}

static bool
check_twice(struct added_tokens *added, struct status *status)
{
	added_sort(added);
	for (uint32_t i = 1; i < added->count; i++)
		if (compare_tokens(&added->tokens[i - 1], &added->tokens[i]) == 0)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "the added token \"%.200s\" is there twice", added->tokens[i].content);
	return true;
}

bool
read_added_tokens(struct tokenizer *tokenizer, json_t *tokens, json_t *vocabulary, struct status *status)
{
	struct added_tokens *added = &tokenizer->added;
	int32_t		next = tokenizer->vocabulary_count;
	json_t	   *token;
	size_t		i;

	if (tokens == NULL || json_is_null(tokens))
		return true;
	if (!json_is_array(tokens) || json_array_size(tokens) > ADDED_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the tokenizer's added_tokens are not an array of at most %d", ADDED_MAX);
	added->tokens = graph_pool(&tokenizer->memory, json_array_size(tokens), sizeof(*added->tokens));
	if (added->tokens == NULL)
		return false;
	json_array_foreach(tokens, i, token)
		if (!read_added_token(tokenizer, token, vocabulary, &next, status))
			return false;
	return check_twice(added, status);
}

/* ---- tokenizer_config.json ---- */

static const struct added_token *
find_added(const struct added_tokens *added, const char *content)
{
	struct added_token key = {.content = content};

	return added->count == 0 ? NULL :
		bsearch(&key, added->tokens, added->count, sizeof(*added->tokens), compare_tokens);
}

bool
check_added_tokens(const struct tokenizer *tokenizer, json_t *config, struct status *status)
{
	json_t	   *decoder = json_object_get(config, "added_tokens_decoder");
	const char *key;
	json_t	   *object;

	if (decoder == NULL || json_is_null(decoder))
		return true;
	if (json_object_size(decoder) > ADDED_MAX)
		return status_set(status, INFER_ERROR_MODEL, "added_tokens_decoder has more than %d tokens", ADDED_MAX);
	json_object_foreach(decoder, key, object)
	{
		const char *content = reader_text(object, "content", "tokenizer_config.json", status);
		struct added_token theirs = {0};
		const struct added_token *mine;

		if (content == NULL || !read_flags(object, &theirs, status))
			return false;
		mine = find_added(&tokenizer->added, content);
		if (mine == NULL || mine->id != strtol(key, NULL, 10) || mine->single_word != theirs.single_word ||
			mine->lstrip != theirs.lstrip || mine->rstrip != theirs.rstrip || mine->normalized != theirs.normalized)
			return status_set(status, INFER_ERROR_UNSUPPORTED,
							  "the tokenizer's files disagree about the added token \"%.200s\"", content);
	}
	return true;
}
