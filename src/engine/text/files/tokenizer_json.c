/*
 * tokenizer_json.c
 *	  tokenizer.json: which parts a tokenizer is made of; and tokenizer_config.json beside it.
 *
 * Programs that load a folder by its configuration let tokenizer_config.json override what
 * tokenizer.json says of the normalizer and of added tokens; others read tokenizer.json alone.
 * Where the two disagree the folder has two meanings, so it is refused.
 */
#include "reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../model/model.h"

/* ---- tokenizer_config.json ---- */

bool
read_config(const struct model_files *files, json_t **config, struct status *status)
{
	const struct model_file *file = model_files_find(files, "tokenizer_config.json");

	*config = NULL;
	if (file == NULL)
		return true;
	*config = reader_load(file, true, status);
	return *config != NULL;
}

bool
config_flag(json_t *config, const char *key, bool usual, bool *value, struct status *status)
{
	json_t	   *member = json_object_get(config, key);

	*value = usual;
	if (member == NULL || json_is_null(member))
		return true;
	return reader_bool(config, key, "tokenizer_config.json", value, status);
}

/* A limit that no model has stands for none. */
void
read_length(struct tokenizer *tokenizer, json_t *config)
{
	double		length = json_number_value(json_object_get(config, "model_max_length"));

	tokenizer->facts.length_max = length >= 1 && length < (double) TOKENIZER_TEXT_MAX ? (uint32_t) length : 0;
}

static bool
check_flag(json_t *config, const char *key, bool mine, struct status *status)
{
	json_t	   *theirs = json_object_get(config, key);

	if (!json_is_boolean(theirs) || json_is_true(theirs) == mine)
		return true;
	return status_set(status, INFER_ERROR_UNSUPPORTED, "tokenizer.json and tokenizer_config.json disagree about \"%s\"", key);
}

bool
check_config(struct tokenizer *tokenizer, json_t *config, struct status *status)
{
	const struct bert_normalizer *bert = &tokenizer->bert;
	const struct splitter *last = tokenizer->splitters_count == 0 ? NULL : &tokenizer->splitters[tokenizer->splitters_count - 1];

	read_length(tokenizer, config);
	if (last != NULL && last->kind == SPLIT_BYTES &&
		!check_flag(config, "add_prefix_space", last->add_space, status))
		return false;
	if (tokenizer->normalizers_count > 0 && tokenizer->normalizers[0].kind == NORMALIZE_BERT &&
		(!check_flag(config, "do_lower_case", bert->lowercase, status) ||
		 !check_flag(config, "strip_accents", bert->strip_accents, status) ||
		 !check_flag(config, "tokenize_chinese_chars", bert->handle_chinese_chars, status)))
		return false;
	return check_added_tokens(tokenizer, config, status);
}

/* ---- tokenizer.json ---- */

/* Old files do not name the type of a WordPiece model. */
static bool
read_model(struct tokenizer *tokenizer, json_t *model, struct status *status)
{
	bool		old = json_object_get(model, "type") == NULL && json_object_get(model, "merges") == NULL &&
		json_object_get(model, "max_input_chars_per_word") != NULL;
	const char *type = old ? "WordPiece" : reader_type(model, "model", status);

	if (type == NULL)
		return false;
	if (strcmp(type, "BPE") == 0)
		return read_bpe(tokenizer, model, status);
	if (strcmp(type, "Unigram") == 0)
		return read_unigram(tokenizer, model, status);
	if (strcmp(type, "WordPiece") == 0)
		return read_wordpiece(tokenizer, model, status);
	if (strcmp(type, "WordLevel") == 0)
		return read_word_level(tokenizer, model, status);
	return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's model \"%.200s\" is not supported", type);
}

bool
read_parts(struct tokenizer *tokenizer, json_t *root, struct status *status)
{
	static const char *const known[] = {
		"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
		"decoder", "model", NULL
	};
	json_t	   *version = json_object_get(root, "version");

	if (!reader_known(root, "tokenizer.json", known, status))
		return false;
	if (version != NULL && (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0))
		return status_set(status, INFER_ERROR_UNSUPPORTED, "tokenizer.json is not of version 1.0");
	return read_normalizer(tokenizer, json_object_get(root, "normalizer"), status) &&
		read_pre_tokenizer(tokenizer, json_object_get(root, "pre_tokenizer"), status) &&
		read_model(tokenizer, json_object_get(root, "model"), status) &&
		read_post_processor(tokenizer, json_object_get(root, "post_processor"), status) &&
		read_added_tokens(tokenizer, json_object_get(root, "added_tokens"),
						  json_object_get(json_object_get(root, "model"), "vocab"), status) &&
		added_build(tokenizer, status);
}

bool
read_tokenizer_json(struct tokenizer *tokenizer, const struct model_files *files, struct status *status)
{
	json_t	   *root = reader_load(model_files_find(files, "tokenizer.json"), false, status);
	json_t	   *config = NULL;
	bool		good;

	if (root == NULL)
		return false;
	good = read_parts(tokenizer, root, status);
	json_decref(root);
	good = good && read_config(files, &config, status) && (config == NULL || check_config(tokenizer, config, status));
	json_decref(config);
	return good;
}
