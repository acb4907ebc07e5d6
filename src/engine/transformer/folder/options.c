/*
 * options.c
 *	  What create_model's options say about a text model.
 *
 * precision		"f32", "bf16" or "int8"; without it the device decides
 * truncate			true: a text that is too long is cut; else it is an error
 * max_tokens		the length limit, within what the positions allow
 * pooling			"cls", "mean", "max", "mean_sqrt_len_tokens", "lasttoken", "weightedmean"
 * normalize		whether an embedding is brought to length 1
 * prompts			an object of texts by name, beside or in place of the folder's
 * default_prompt	the name of one of them, or null
 * task				"embed", "classify", "rerank", "regression", "entities"
 * labels			names of the classes, in their order
 * file				which ONNX file, where there are several
 *
 * classes and store are the catalogue's.
 */
#include "reader.h"

#include <string.h>

#define OPTIONS_BYTES	(64u << 10)

bool
folder_task_parse(const char *text, enum encoder_task *task)
{
	static const char *const names[] = {"", "embed", "classify", "rerank", "regression", "entities"};

	for (int i = ENCODER_EMBEDDING; i <= ENCODER_ENTITIES; i++)
		if (strcmp(text, names[i]) == 0)
		{
			*task = (enum encoder_task) i;
			return true;
		}
	return false;
}

/* By sentence-transformers' names. */
bool
folder_pooling_parse(const char *text, enum encoder_pooling *pooling)
{
	static const char *const names[] = {"", "cls", "mean", "max", "mean_sqrt_len_tokens", "lasttoken", "weightedmean"};

	for (int i = ENCODER_POOL_CLS; i < ENCODER_POOLINGS; i++)
		if (strcmp(text, names[i]) == 0)
		{
			*pooling = (enum encoder_pooling) i;
			return true;
		}
	return false;
}

static bool
option_wrong(struct folder *f, const char *key, const char *what)
{
	return status_set(f->status, INFER_ERROR_INPUT, "the option %s is not %s", key, what);
}

static bool
short_text(json_t *json)
{
	return json_is_string(json) && json_string_length(json) <= FOLDER_TEXT_MAX;
}

static bool
option_prompts(struct folder *f, json_t *json)
{
	struct folder_options *o = &f->options;
	const char *name;
	json_t	   *text;

	if (!json_is_object(json) || json_object_size(json) > ENCODER_PROMPTS_MAX)
		return option_wrong(f, "prompts", "an object of at most 64 texts");
	json_object_foreach(json, name, text)
	{
		struct encoder_prompt *prompt = &o->prompts[o->prompts_count];

		if (!short_text(text) || strlen(name) > FOLDER_TEXT_MAX)
			return option_wrong(f, "prompts", "an object of texts of at most 4096 bytes");
		prompt->name = folder_text(f, "%s", name);
		prompt->text = folder_text(f, "%s", json_string_value(text));
		if (prompt->name == NULL || prompt->text == NULL)
			return false;
		o->prompts_count++;
	}
	return true;
}

static bool
option_labels(struct folder *f, json_t *json)
{
	struct folder_options *o = &f->options;
	size_t		count = json_array_size(json);

	if (count == 0)
		return option_wrong(f, "labels", "a list of texts");
	o->labels = graph_pool(f->memory, count, sizeof(*o->labels));
	if (o->labels == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
	{
		json_t	   *label = json_array_get(json, i);

		if (!short_text(label) || json_string_length(label) == 0)
			return option_wrong(f, "labels", "a list of texts that are not empty");
		o->labels[i] = folder_text(f, "%s", json_string_value(label));
		if (o->labels[i] == NULL)
			return false;
	}
	o->labels_count = (uint32_t) count;
	return true;
}

static bool
option_one_of(struct folder *f, const char *key, json_t *json)
{
	const char *text = json_is_string(json) ? json_string_value(json) : "";
	struct folder_options *o = &f->options;

	if (strcmp(key, "task") == 0)
		return folder_task_parse(text, &o->task) ||
			option_wrong(f, key, "\"embed\", \"classify\", \"rerank\", \"regression\" or \"entities\"");
	if (strcmp(key, "pooling") == 0)
		return folder_pooling_parse(text, &o->pooling) ||
			option_wrong(f, key, "\"cls\", \"mean\", \"max\", \"mean_sqrt_len_tokens\", \"lasttoken\" or \"weightedmean\"");
	if (strcmp(text, "f32") != 0 && strcmp(text, "bf16") != 0 && strcmp(text, "int8") != 0)
		return option_wrong(f, key, "\"f32\", \"bf16\" or \"int8\"");
	o->precision = strcmp(text, "f32") == 0 ? "f32" : strcmp(text, "bf16") == 0 ? "bf16" : "int8";
	return true;
}

static bool
option_text(struct folder *f, const char *key, json_t *json, const char **text)
{
	if (!short_text(json) || json_string_length(json) == 0)
		return option_wrong(f, key, "a text");
	*text = folder_text(f, "%s", json_string_value(json));
	return *text != NULL;
}

static bool
read_option(struct folder *f, const char *key, json_t *json)
{
	struct folder_options *o = &f->options;

	if (strcmp(key, "task") == 0 || strcmp(key, "pooling") == 0 || strcmp(key, "precision") == 0)
		return option_one_of(f, key, json);
	if (strcmp(key, "truncate") == 0 || strcmp(key, "normalize") == 0)
	{
		if (!json_is_boolean(json))
			return option_wrong(f, key, "true or false");
		if (key[0] == 't')
			o->truncate = json_is_true(json);
		else
			o->normalize = json_is_true(json);
		return true;
	}
	if (strcmp(key, "max_tokens") == 0)
	{
		if (!json_is_integer(json) || json_integer_value(json) < 1 || json_integer_value(json) > FOLDER_TOKENS_MAX)
			return option_wrong(f, key, "a whole number from 1 to 1048576");
		o->tokens_max = json_integer_value(json);
		return true;
	}
	if (strcmp(key, "prompts") == 0)
		return option_prompts(f, json);
	if (strcmp(key, "labels") == 0)
		return option_labels(f, json);
	if (strcmp(key, "file") == 0)
		return option_text(f, key, json, &o->file);
	if (strcmp(key, "default_prompt") == 0)
	{
		o->prompt_default_given = true;
		return json_is_null(json) || option_text(f, key, json, &o->prompt_default);
	}
	if (strcmp(key, "classes") == 0 || strcmp(key, "store") == 0)
		return true;
	return status_set(f->status, INFER_ERROR_INPUT, "unknown option \"%.200s\" of a text model", key);
}

bool
folder_options_read(struct folder *f, const char *options)
{
	json_error_t error;
	json_t	   *root, *json;
	const char *key;
	bool		fine = true;

	f->options = (struct folder_options) {.normalize = -1};
	if (options == NULL || options[0] == '\0')
		return true;
	if (strlen(options) > OPTIONS_BYTES)
		return status_set(f->status, INFER_ERROR_INPUT, "the model's options are longer than %u bytes", OPTIONS_BYTES);
	root = json_loads(options, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(root))
		fine = status_set(f->status, INFER_ERROR_INPUT, "the model's options are not a JSON object");
	json_object_foreach(root, key, json)
		fine = fine && read_option(f, key, json);
	json_decref(root);
	return fine;
}
