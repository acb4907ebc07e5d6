/*
 * merges.c
 *	  Folders with vocab.json and merges.txt: byte-level BPE as GPT-2's, RoBERTa's and CLIP's programs
 *	  wrote it before there was tokenizer.json.
 *
 * The classes of the "transformers" package convert such a folder to a tokenizer.json in memory
 * (convert_slow_tokenizer.py).  The same is made here, as JSON, and read as any other.  Special
 * tokens are named by special_tokens_map.json, else tokenizer_config.json, else the class; files that
 * say different things of one are refused.
 */
#include "reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../model/model.h"

#define CLIP_MERGES		48894		/* its class reads no more */
#define SPECIAL_KEYS	7
#define SPECIAL_MAX		4096

enum family
{
	FAMILY_GPT2,
	FAMILY_ROBERTA,
	FAMILY_CLIP
};

static const char *const special_keys[SPECIAL_KEYS] = {
	"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"
};

/* Where no file names one; NULL: there is none. */
static const char *const special_usual[][SPECIAL_KEYS] = {
	[FAMILY_GPT2] = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, NULL, NULL},
	[FAMILY_ROBERTA] = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
	[FAMILY_CLIP] = {"<|startoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>", NULL, NULL}
};

struct folder
{
	enum family family;
	json_t	   *config;				/* tokenizer_config.json, or NULL */
	json_t	   *map;				/* special_tokens_map.json, or NULL */
	json_t	   *more;				/* added_tokens.json, or NULL */
	json_t	   *vocabulary;			/* vocab.json */
	json_t	   *added;				/* being made: an array */
	struct status *status;
};

/* ---- which class it is ---- */

/* What config.json calls the model; NULL: nothing. */
static const char *
model_type(json_t *config)
{
	return json_string_value(json_object_get(config, "model_type"));
}

static bool
read_family(const struct model_files *files, struct folder *folder)
{
	static const struct
	{
		const char *class;
		const char *model;
		enum family family;
	}			known[] = {
		{"GPT2Tokenizer", "gpt2", FAMILY_GPT2}, {"RobertaTokenizer", "roberta", FAMILY_ROBERTA},
		{"LongformerTokenizer", "longformer", FAMILY_ROBERTA}, {"BartTokenizer", "bart", FAMILY_ROBERTA},
		{"CLIPTokenizer", "clip", FAMILY_CLIP}
	};
	const char *class = json_string_value(json_object_get(folder->config, "tokenizer_class")), *type = NULL;
	json_t	   *model = NULL;
	const struct model_file *file = model_files_find(files, "config.json");
	bool		found = false;

	if (class == NULL && file != NULL)
	{
		model = reader_load(file, true, folder->status);
		type = model_type(model);
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(*known) && !found; i++)
	{
		size_t		length = strlen(known[i].class);

		found = class == NULL ? type != NULL && strcmp(type, known[i].model) == 0 :
			strncmp(class, known[i].class, length) == 0 && (class[length] == '\0' || strcmp(class + length, "Fast") == 0);
		folder->family = known[i].family;
	}
	if (!found && class == NULL && type == NULL)
	{
		status_set(folder->status, INFER_ERROR_UNSUPPORTED, "the model has \"vocab.json\" and \"merges.txt\", but nothing says what tokenizer they are of");
		status_hint(folder->status, "Add tokenizer.json, or a tokenizer_config.json that says tokenizer_class.");
	}
	else if (!found)
		status_set(folder->status, INFER_ERROR_UNSUPPORTED, "the tokenizer class \"%.200s\" is not supported without tokenizer.json",
				   class != NULL ? class : type);
	json_decref(model);
	return found;
}

/* ---- special tokens ---- */

static const char *
content_of(json_t *token)
{
	return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* An added token of the id that the vocabulary has, or was given; flags by an object, else usual ones. */
static bool
add_token(struct folder *folder, const char *content, int64_t id, json_t *object, bool special, bool lstrip)
{
	bool		single = false, left = lstrip, right = false, normalized = true;
	const char *what = "special tokens";
	json_t	   *known;
	size_t		i;

	if (json_is_object(object) &&
		(!reader_bool(object, "single_word", what, &single, folder->status) || !reader_bool(object, "lstrip", what, &left, folder->status) ||
		 !reader_bool(object, "rstrip", what, &right, folder->status) || !reader_bool(object, "normalized", what, &normalized, folder->status)))
		return false;
	json_array_foreach(folder->added, i, known)
		if (strcmp(json_string_value(json_object_get(known, "content")), content) == 0)
			return true;
	if (json_array_size(folder->added) == SPECIAL_MAX)
		return status_set(folder->status, INFER_ERROR_UNSUPPORTED, "more than %d added tokens are not supported without tokenizer.json", SPECIAL_MAX);
	known = json_pack("{s:I,s:s,s:b,s:b,s:b,s:b,s:b}", "id", (json_int_t) id, "content", content, "single_word", single, "lstrip", left,
					  "rstrip", right, "normalized", normalized, "special", special);
	return json_array_append_new(folder->added, known) == 0 ||
		status_set(folder->status, INFER_ERROR_MEMORY, "out of memory for a tokenizer");
}

static bool
add_special(struct folder *folder, json_t *token, const char *usual, bool lstrip)
{
	const char *content = token == NULL ? usual : content_of(token);
	json_t	   *id, *known;
	size_t		i;

	if (token != NULL && content == NULL && !json_is_null(token))
		return status_set(folder->status, INFER_ERROR_MODEL, "a special token of the tokenizer is neither a text nor an object with one");
	if (content == NULL)
		return true;
	json_array_foreach(folder->added, i, known)
		if (strcmp(json_string_value(json_object_get(known, "content")), content) == 0)
			return true;
	id = json_object_get(folder->vocabulary, content);
	if (!json_is_integer(id))
		return status_set(folder->status, INFER_ERROR_UNSUPPORTED, "\"vocab.json\" does not have the special token \"%.200s\"", content);
	return add_token(folder, content, json_integer_value(id), token, true, lstrip);
}

/* The map's, else the configuration's, which may not differ; null: there is none; NULL: nothing is said. */
static bool
special_named(const struct folder *folder, uint32_t key, json_t **token)
{
	json_t	   *mine = json_object_get(folder->map, special_keys[key]), *theirs = json_object_get(folder->config, special_keys[key]);
	const char *a = content_of(mine), *b = content_of(theirs);

	*token = mine != NULL ? mine : theirs;
	return a == NULL || b == NULL || strcmp(a, b) == 0 ||
		status_set(folder->status, INFER_ERROR_UNSUPPORTED, "special_tokens_map.json and tokenizer_config.json disagree about \"%s\"", special_keys[key]);
}

/* What tokenizer_config.json lists is as it says; otherwise what is named, and added_tokens.json. */
static bool
read_listed(struct folder *folder)
{
	json_t	   *decoder = json_object_get(folder->config, "added_tokens_decoder"), *object, *id;
	const char *key;

	json_object_foreach(decoder, key, object)
	{
		const char *content = content_of(object);
		bool		special = false;

		if (content == NULL || !json_is_object(object) || !reader_bool(object, "special", "added_tokens_decoder", &special, folder->status))
			return status_set(folder->status, INFER_ERROR_MODEL, "added_tokens_decoder has a token without a text");
		id = json_object_get(folder->vocabulary, content);
		if (!add_token(folder, content, json_is_integer(id) ? json_integer_value(id) : strtoll(key, NULL, 10), object, special, false))
			return false;
	}
	return true;
}

static bool
read_more(struct folder *folder)
{
	json_t	   *id;
	const char *content;

	json_object_foreach(folder->more, content, id)
	{
		if (!json_is_integer(id))
			return status_set(folder->status, INFER_ERROR_MODEL, "\"added_tokens.json\" is not an object of ids");
		if (!add_token(folder, content, json_integer_value(id), NULL, false, false))
			return false;
	}
	return true;
}

static bool
read_additional(struct folder *folder, json_t *file)
{
	json_t	   *tokens = json_object_get(file, "additional_special_tokens"), *token;
	size_t		i;

	if (tokens != NULL && !json_is_null(tokens) && !json_is_array(tokens))
		return status_set(folder->status, INFER_ERROR_MODEL, "\"additional_special_tokens\" of the tokenizer is not an array");
	json_array_foreach(tokens, i, token)
		if (!add_special(folder, token, NULL, false))
			return false;
	return true;
}

static bool
read_special(struct folder *folder, json_t *tokens[SPECIAL_KEYS])
{
	for (uint32_t key = 0; key < SPECIAL_KEYS; key++)
	{
		bool		mask = folder->family == FAMILY_ROBERTA && strcmp(special_keys[key], "mask_token") == 0;

		if (!special_named(folder, key, &tokens[key]) || !add_special(folder, tokens[key], special_usual[folder->family][key], mask))
			return false;
	}
	return read_additional(folder, folder->map != NULL ? folder->map : folder->config);
}

/* Ascending by id: those that are not of the vocabulary are numbered in this order. */
static bool
sort_added(struct folder *folder)
{
	size_t		count = json_array_size(folder->added);

	for (size_t i = 1; i < count; i++)
		for (size_t j = i; j > 0; j--)
		{
			json_t	   *first = json_array_get(folder->added, j - 1), *second = json_array_get(folder->added, j);

			if (json_integer_value(json_object_get(first, "id")) <= json_integer_value(json_object_get(second, "id")))
				break;
			json_incref(first);
			json_array_set(folder->added, j - 1, second);
			json_array_set_new(folder->added, j, first);
		}
	return true;
}

/* ---- merges.txt ---- */

/*
 * Lines behind the first, which is the version: the class drops it unseen, and what is behind the
 * last line's end, so a file that has something else there is refused, and so is a line that is there
 * twice, whose rank is one thing to the class and another to the library.
 */
static json_t *
read_merges(const struct model_file *file, size_t most, struct status *status)
{
	const char *at = (const char *) file->data, *end = at + file->size;
	json_t	   *merges = json_array(), *seen = json_object();
	bool		good = merges != NULL && seen != NULL;

	if (file->size > READER_BYTES_MAX || file->size < 8 || memcmp(at, "#version", 8) != 0 || end[-1] != '\n')
		good = status_set(status, INFER_ERROR_UNSUPPORTED, "\"merges.txt\" does not begin with a line \"#version\" and end with a line's end, or is larger than %u bytes",
						  READER_BYTES_MAX);
	for (size_t line = 0; good && at < end && line <= most; line++)
	{
		const char *feed = memchr(at, '\n', (size_t) (end - at));
		size_t		length = (size_t) (feed - at);
		json_t	   *text = line == 0 ? NULL : json_stringn(at, length - (length > 0 && at[length - 1] == '\r'));

		at = feed + 1;
		if (line == 0)
			continue;
		if (text == NULL || json_object_get(seen, json_string_value(text)) != NULL)
			good = status_set(status, INFER_ERROR_UNSUPPORTED, "line %zu of \"merges.txt\" is not UTF-8, or there twice", line + 1);
		else
			good = json_object_set(seen, json_string_value(text), text) == 0 && json_array_append(merges, text) == 0;
		json_decref(text);
	}
	json_decref(seen);
	if (!good)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a tokenizer");
		json_decref(merges);
		return NULL;
	}
	return merges;
}

/* ---- the parts, as the converters have them ---- */

static json_t *
byte_level(bool add_space)
{
	return json_pack("{s:s,s:b,s:b,s:b}", "type", "ByteLevel", "add_prefix_space", add_space, "trim_offsets", 1, "use_regex", 1);
}

static json_t *
pre_tokenizer(enum family family, bool add_space)
{
	if (family != FAMILY_CLIP)
		return byte_level(add_space);
	return json_pack("{s:s,s:[{s:s,s:{s:s},s:s,s:b},o]}", "type", "Sequence", "pretokenizers", "type", "Split", "pattern", "Regex",
					 "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", "behavior", "Removed", "invert", 1, byte_level(false));
}

static json_t *
normalizer(enum family family)
{
	if (family != FAMILY_CLIP)
		return json_null();
	return json_pack("{s:s,s:[{s:s},{s:s,s:{s:s},s:s},{s:s}]}", "type", "Sequence", "normalizers", "type", "NFC", "type", "Replace", "pattern",
					 "Regex", "\\s+", "content", " ", "type", "Lowercase");
}

/* A special token by its place among the keys, as the post-processors name it. */
static const char *
special_name(const struct folder *folder, json_t *const tokens[SPECIAL_KEYS], uint32_t key)
{
	return tokens[key] != NULL ? content_of(tokens[key]) : special_usual[folder->family][key];
}

static json_int_t
special_id(const struct folder *folder, const char *content)
{
	json_t	   *known;
	size_t		i;

	json_array_foreach(folder->added, i, known)
		if (strcmp(json_string_value(json_object_get(known, "content")), content) == 0)
			return json_integer_value(json_object_get(known, "id"));
	return -1;
}

static json_t *
roberta_processor(const struct folder *folder, const char *cls, const char *sep, bool trim, bool add_space)
{
	if (cls == NULL || sep == NULL)
		status_set(folder->status, INFER_ERROR_UNSUPPORTED, "the tokenizer has no special token to begin or to end a text with");
	return cls == NULL || sep == NULL ? NULL :
		json_pack("{s:s,s:[s,I],s:[s,I],s:b,s:b}", "type", "RobertaProcessing", "sep", sep, special_id(folder, sep), "cls", cls,
					 special_id(folder, cls), "trim_offsets", trim, "add_prefix_space", add_space);
}

static json_t *
post_processor(const struct folder *folder, json_t *const tokens[SPECIAL_KEYS], bool add_space, bool trim, bool add_bos)
{
	const char *bos = special_name(folder, tokens, 0), *eos = special_name(folder, tokens, 1);

	if (folder->family == FAMILY_CLIP)
		return roberta_processor(folder, bos, eos, false, false);
	if (folder->family == FAMILY_ROBERTA)
		return roberta_processor(folder, special_name(folder, tokens, 5), special_name(folder, tokens, 3), trim, add_space);
	if (add_bos && bos == NULL)
		status_set(folder->status, INFER_ERROR_UNSUPPORTED, "the tokenizer has no special token to begin a text with");
	if (!add_bos || bos == NULL)
		return json_null();
	return json_pack("{s:s,s:[{s:{s:s,s:i}},{s:{s:s,s:i}}],s:[{s:{s:s,s:i}},{s:{s:s,s:i}},{s:{s:s,s:i}}],s:{s:{s:s,s:[I]}}}", "type", "TemplateProcessing",
					 "single", "SpecialToken", "id", bos, "type_id", 0, "Sequence", "id", "A", "type_id", 0,
					 "pair", "SpecialToken", "id", bos, "type_id", 0, "Sequence", "id", "A", "type_id", 0, "Sequence", "id", "B", "type_id", 1,
					 "special_tokens", bos, "id", bos, "ids", special_id(folder, bos));
}

static bool
build(struct tokenizer *tokenizer, const struct model_files *files, struct folder *folder)
{
	json_t	   *tokens[SPECIAL_KEYS], *merges, *root, *unknown = json_null();
	bool		add_space, trim, add_bos, good;

	if (!config_flag(folder->config, "add_prefix_space", false, &add_space, folder->status) ||
		!config_flag(folder->config, "trim_offsets", true, &trim, folder->status) ||
		!config_flag(folder->config, "add_bos_token", false, &add_bos, folder->status) ||
		!read_listed(folder) || !read_special(folder, tokens) || !read_more(folder) || !sort_added(folder))
		return false;
	merges = read_merges(model_files_find(files, "merges.txt"), folder->family == FAMILY_CLIP ? CLIP_MERGES : SIZE_MAX - 1, folder->status);
	if (merges == NULL)
		return false;
	if (folder->family == FAMILY_CLIP && special_name(folder, tokens, 2) != NULL)
		unknown = json_string(special_name(folder, tokens, 2));
	root = json_pack("{s:O,s:o,s:o,s:o,s:{s:s,s:o,s:s,s:O,s:o}}", "added_tokens", folder->added, "normalizer", normalizer(folder->family),
					 "pre_tokenizer", pre_tokenizer(folder->family, add_space),
					 "post_processor", post_processor(folder, tokens, add_space, trim, add_bos),
					 "model", "type", "BPE", "unk_token", unknown, "end_of_word_suffix", folder->family == FAMILY_CLIP ? "</w>" : "",
					 "vocab", folder->vocabulary, "merges", merges);
	good = root != NULL ? read_parts(tokenizer, root, folder->status) :
		status_set(folder->status, INFER_ERROR_MEMORY, "out of memory for a tokenizer");
	json_decref(root);
	return good;
}

/* A file of settings, or NULL where there is none; false: the status is set. */
static bool
load_optional(const struct model_files *files, const char *name, json_t **json, struct status *status)
{
	const struct model_file *file = model_files_find(files, name);

	*json = file == NULL ? NULL : reader_load(file, false, status);
	return file == NULL || *json != NULL;
}

bool
read_vocabulary_merges(struct tokenizer *tokenizer, const struct model_files *files, struct status *status)
{
	struct folder folder = {.status = status, .added = json_array()};
	bool		good = read_config(files, &folder.config, status) && read_family(files, &folder) &&
		load_optional(files, "special_tokens_map.json", &folder.map, status) &&
		load_optional(files, "added_tokens.json", &folder.more, status);

	if (good)
	{
		folder.vocabulary = reader_load(model_files_find(files, "vocab.json"), false, status);
		good = folder.vocabulary != NULL && build(tokenizer, files, &folder) &&
			(folder.config == NULL || check_config(tokenizer, folder.config, status));
	}
	json_decref(folder.vocabulary);
	json_decref(folder.added);
	json_decref(folder.more);
	json_decref(folder.map);
	json_decref(folder.config);
	return good;
}
