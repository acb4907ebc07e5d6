/*
 * wordpiece.c
 *	  The vocabulary of a WordPiece or a WordLevel model: from tokenizer.json, or from vocab.txt, where
 *	  a token's id is its line.
 */
#include "reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../model/model.h"

/* What the reference's converter gives a folder with vocab.txt. */
#define BERT_PREFIX		"##"
#define BERT_WORD_MAX	100

static bool
add_key(struct tokenizer *tokenizer, struct trie_key *keys, uint32_t *count, const char *token, size_t length,
		int64_t id, struct status *status)
{
	if (length > TEXT_TOKEN_BYTES)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a token of the vocabulary is longer than %d bytes", TEXT_TOKEN_BYTES);
	if (id + 1 > tokenizer->facts.ids_end)
		tokenizer->facts.ids_end = (int32_t) id + 1;
	if (length > 0)				/* an empty one is never found */
		keys[(*count)++] = (struct trie_key) {(const uint8_t *) token, (uint32_t) length, (int32_t) id};
	return true;
}

static bool
build_vocabulary(struct tokenizer *tokenizer, struct trie *vocabulary, struct trie_key *keys, uint32_t count,
				 const char *unknown, int32_t *unknown_id, struct status *status)
{
	const struct trie_key *duplicate;

	if (!trie_build(vocabulary, keys, count, &tokenizer->memory, &duplicate))
	{
		if (duplicate != NULL)
			status_set(status, INFER_ERROR_UNSUPPORTED, "the vocabulary has the token \"%.*s\" twice",
					   (int) (duplicate->length < 200 ? duplicate->length : 200), (const char *) duplicate->bytes);
		return false;
	}
	*unknown_id = trie_find(vocabulary, unknown, strlen(unknown));
	if (*unknown_id < 0)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the vocabulary does not have the unknown token \"%.200s\"", unknown);
	return true;
}

bool
wordpiece_build(struct tokenizer *tokenizer, struct trie_key *keys, uint32_t count, const char *unknown,
				const char *prefix, uint32_t word_max, struct status *status)
{
	struct wordpiece *model = &tokenizer->wordpiece;

	if (!build_vocabulary(tokenizer, &model->vocabulary, keys, count, unknown, &model->unknown, status))
		return false;
	model->continued = trie_walk(&model->vocabulary, TRIE_ROOT, prefix, strlen(prefix));
	model->word_max = word_max;
	tokenizer->facts.model = "WordPiece";
	return true;
}

static bool
read_vocabulary(struct tokenizer *tokenizer, json_t *vocabulary, struct trie_key *keys, uint32_t *count,
				struct status *status)
{
	const char *token;
	json_t	   *id;

	json_object_foreach(vocabulary, token, id)
	{
		if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= TEXT_IDS_MAX)
			return status_set(status, INFER_ERROR_MODEL, "the vocabulary's id of \"%.200s\" is not one", token);
		if (!add_key(tokenizer, keys, count, token, strlen(token), json_integer_value(id), status))
			return false;
	}
	return true;
}

bool
read_wordpiece(struct tokenizer *tokenizer, json_t *model, struct status *status)
{
	static const char *const keys_known[] = {
		"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab", NULL
	};
	const char *unknown = reader_text(model, "unk_token", "model", status);
	const char *prefix = reader_text(model, "continuing_subword_prefix", "model", status);
	json_t	   *vocabulary = json_object_get(model, "vocab");
	struct trie_key *keys;
	uint32_t	count = 0;
	int64_t		word_max;
	bool		good;

	if (unknown == NULL || prefix == NULL || !reader_known(model, "model", keys_known, status) ||
		!reader_int(model, "max_input_chars_per_word", "model", 0, TEXT_WORD_MAX, &word_max, status))
		return false;
	if (!json_is_object(vocabulary) || json_object_size(vocabulary) > TEXT_TOKENS_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the tokenizer's vocabulary is not an object of at most %u tokens",
						  TEXT_TOKENS_MAX);
	keys = graph_block(&tokenizer->memory, json_object_size(vocabulary) * sizeof(*keys));
	good = keys != NULL && read_vocabulary(tokenizer, vocabulary, keys, &count, status) &&
		wordpiece_build(tokenizer, keys, count, unknown, prefix, (uint32_t) word_max, status);
	tokenizer->vocabulary_count = (int32_t) json_object_size(vocabulary);
	graph_block_free(&tokenizer->memory, keys);
	return good;
}

/* ---- WordLevel ---- */

bool
read_word_level(struct tokenizer *tokenizer, json_t *model, struct status *status)
{
	static const char *const keys_known[] = {"unk_token", "vocab", NULL};
	const char *unknown = reader_text(model, "unk_token", "model", status);
	json_t	   *vocabulary = json_object_get(model, "vocab");
	struct trie_key *keys;
	uint32_t	count = 0;
	bool		good;

	if (unknown == NULL || !reader_known(model, "model", keys_known, status))
		return false;
	if (!json_is_object(vocabulary) || json_object_size(vocabulary) > TEXT_TOKENS_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the tokenizer's vocabulary is not an object of at most %u tokens",
						  TEXT_TOKENS_MAX);
	tokenizer->model = MODEL_WORDLEVEL;
	tokenizer->facts.model = "WordLevel";
	tokenizer->vocabulary_count = (int32_t) json_object_size(vocabulary);
	keys = graph_block(&tokenizer->memory, json_object_size(vocabulary) * sizeof(*keys));
	good = keys != NULL && read_vocabulary(tokenizer, vocabulary, keys, &count, status) &&
		build_vocabulary(tokenizer, &tokenizer->word_level.vocabulary, keys, count, unknown, &tokenizer->word_level.unknown, status);
	graph_block_free(&tokenizer->memory, keys);
	return good;
}

/* ---- vocab.txt ---- */

/*
 * Lines end at line feeds, and one carriage return before them goes.  Readers differ in what
 * else they strip from a line, so one that ends in white space is refused.
 */
static bool
read_lines(struct tokenizer *tokenizer, const struct model_file *file, struct trie_key *keys, uint32_t *count,
		   struct status *status)
{
	const uint8_t *at = file->data, *end = file->data + file->size;

	for (int64_t id = 0; at < end; id++)
	{
		const uint8_t *feed = memchr(at, '\n', (size_t) (end - at));
		const uint8_t *stop = feed == NULL ? end : feed;
		uint32_t	length;

		if (stop > at && stop[-1] == '\r')
			stop--;
		if (stop > at && (unicode_flags(utf8_before(stop, &length)) & UNICODE_SPACE) != 0)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "line %lld of \"vocab.txt\" ends in white space", (long long) id + 1);
		if (memchr(at, '\r', (size_t) (stop - at)) != NULL)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "line %lld of \"vocab.txt\" has a carriage return in it", (long long) id + 1);
		if (!add_key(tokenizer, keys, count, (const char *) at, (size_t) (stop - at), id, status))
			return false;
		at = feed == NULL ? end : feed + 1;
	}
	return true;
}

static uint32_t
count_lines(const struct model_file *file)
{
	uint32_t	count = 1;

	for (uint64_t i = 0; i < file->size; i++)
		count += file->data[i] == '\n';
	return count;
}

static bool
build_from_lines(struct tokenizer *tokenizer, const struct model_file *file, const char *unknown, struct status *status)
{
	uint32_t	lines, count = 0;
	struct trie_key *keys;
	size_t		bad;
	bool		good;

	if (file->size > READER_BYTES_MAX || (lines = count_lines(file)) > TEXT_TOKENS_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "\"vocab.txt\" has more than %u tokens or %u bytes", TEXT_TOKENS_MAX,
						  READER_BYTES_MAX);
	if (!utf8_check(file->data, file->size, &bad))
		return status_set(status, INFER_ERROR_MODEL, "\"vocab.txt\" is not UTF-8 at byte %zu", bad + 1);
	keys = graph_block(&tokenizer->memory, lines * sizeof(*keys));
	good = keys != NULL && read_lines(tokenizer, file, keys, &count, status) &&
		wordpiece_build(tokenizer, keys, count, unknown, BERT_PREFIX, BERT_WORD_MAX, status);
	graph_block_free(&tokenizer->memory, keys);
	return good;
}

/* The name of a special token in tokenizer_config.json: text, or an object with its content. */
static const char *
special_name(json_t *config, const char *key, const char *usual)
{
	json_t	   *member = json_object_get(config, key);

	if (json_is_object(member))
		member = json_object_get(member, "content");
	return json_is_string(member) ? json_string_value(member) : usual;
}

static bool
add_special(struct tokenizer *tokenizer, const char *name, int32_t *id, struct status *status)
{
	struct added_token *token = &tokenizer->added.tokens[tokenizer->added.count];

	*id = trie_find(&tokenizer->wordpiece.vocabulary, name, strlen(name));
	if (*id < 0)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "\"vocab.txt\" does not have the special token \"%.200s\"", name);
	for (uint32_t i = 0; i < tokenizer->added.count; i++)
		if (tokenizer->added.tokens[i].id == *id)
			return true;
	token->content = graph_pool_text(&tokenizer->memory, name, strlen(name));
	token->id = *id;
	token->special = true;
	tokenizer->added.count++;
	return token->content != NULL;
}

static bool
read_special_tokens(struct tokenizer *tokenizer, json_t *config, struct status *status)
{
	int32_t		id, cls, sep;

	tokenizer->added.tokens = graph_pool(&tokenizer->memory, 5, sizeof(struct added_token));
	return tokenizer->added.tokens != NULL &&
		add_special(tokenizer, special_name(config, "pad_token", "[PAD]"), &id, status) &&
		add_special(tokenizer, special_name(config, "unk_token", "[UNK]"), &id, status) &&
		add_special(tokenizer, special_name(config, "cls_token", "[CLS]"), &cls, status) &&
		add_special(tokenizer, special_name(config, "sep_token", "[SEP]"), &sep, status) &&
		add_special(tokenizer, special_name(config, "mask_token", "[MASK]"), &id, status) &&
		template_bert(tokenizer, cls, sep);
}

/* Only the classes whose converter is BERT's. */
static bool
check_class(json_t *config, struct status *status)
{
	static const char *const classes[] = {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer",
		"DistilBertTokenizerFast", "ElectraTokenizer", "ElectraTokenizerFast"};
	const char *class = reader_text(config, "tokenizer_class", "tokenizer_config.json", status);
	json_t	   *never_split = json_object_get(config, "never_split");
	bool		basic;

	if (class == NULL || !config_flag(config, "do_basic_tokenize", true, &basic, status))
		return false;
	if (!basic)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a tokenizer with do_basic_tokenize off is not supported");
	if (never_split != NULL && !json_is_null(never_split) && json_array_size(never_split) != 0)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a tokenizer with never_split is not supported");
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (strcmp(class, classes[i]) == 0)
			return true;
	return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer class \"%.200s\" is not supported without tokenizer.json",
					  class);
}

bool
read_vocabulary_text(struct tokenizer *tokenizer, const struct model_files *files, struct status *status)
{
	struct bert_normalizer *bert = &tokenizer->bert;
	json_t	   *config;
	bool		good;

	if (!read_config(files, &config, status))
		return false;
	if (config == NULL)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "the model has \"vocab.txt\" but no tokenizer_config.json");
		status_hint(status, "Add tokenizer.json, or a tokenizer_config.json that says do_lower_case and tokenizer_class.");
		return false;
	}
	tokenizer->normalizers_count = 1;	/* BERT's */
	bert->clean_text = true;
	good = check_class(config, status) &&
		config_flag(config, "do_lower_case", true, &bert->lowercase, status) &&
		config_flag(config, "strip_accents", bert->lowercase, &bert->strip_accents, status) &&
		config_flag(config, "tokenize_chinese_chars", true, &bert->handle_chinese_chars, status) &&
		build_from_lines(tokenizer, model_files_find(files, "vocab.txt"), special_name(config, "unk_token", "[UNK]"), status) &&
		read_special_tokens(tokenizer, config, status);
	added_sort(&tokenizer->added);
	good = good &&
		check_added_tokens(tokenizer, config, status);
	tokenizer->splitters_count = 1;	/* BERT's */
	read_length(tokenizer, config);
	json_decref(config);
	bert_prepare(bert);
	return good && added_build(tokenizer, status);
}
