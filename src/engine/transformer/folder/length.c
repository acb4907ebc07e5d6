/*
 * length.c
 *	  How long a text may be, and what else tokenizer_config.json decides for the model.
 *
 * The limit is sentence-transformers' max_seq_length, or where there is none the tokenizer's
 * model_max_length, or less where the positions end before; the option max_tokens takes the place
 * of those two, and must be within the positions.  The truncation and padding blocks of tokenizer.json belong to the program that wrote
 * it.
 */
#include "reader.h"

#include <string.h>

/* Tokenizers whose classes give a model no type ids, so that all are 0; their fast ones too. */
static const char *const typeless[] = {
	"RobertaTokenizer", "XLMRobertaTokenizer", "CamembertTokenizer", "DistilBertTokenizer", "MPNetTokenizer", NULL
};

static bool
class_is_typeless(const char *class)
{
	for (int i = 0; typeless[i] != NULL; i++)
	{
		size_t		length = strlen(typeless[i]);

		if (strncmp(class, typeless[i], length) == 0 && (class[length] == '\0' || strcmp(class + length, "Fast") == 0))
			return true;
	}
	return false;
}

static bool
read_types(struct folder *f, const struct object *config)
{
	json_t	   *inputs = object_get(config, "model_input_names");
	const char *class;
	bool		given = false;

	if (!object_text_or(config, "tokenizer_class", "", &class))
		return false;
	if (inputs == NULL)
		given = !class_is_typeless(class);
	for (size_t i = 0; i < json_array_size(inputs); i++)
	{
		const char *name = json_string_value(json_array_get(inputs, i));

		given = given || (name != NULL && strcmp(name, "token_type_ids") == 0);
	}
	f->encoder->types_used = f->encoder->types_used && given;
	return true;
}

/* sentence-transformers puts lower-casing before a tokenizer that does not do it. */
static bool
check_case(struct folder *f, const struct object *config)
{
	bool		lower = false;

	if (!f->lower_case)
		return true;
	if (config->json != NULL && !object_bool_or(config, "do_lower_case", false, &lower))
		return false;
	return lower || status_set(f->status, INFER_ERROR_UNSUPPORTED, "\"do_lower_case\" of %s is not supported where the tokenizer keeps capitals",
							   f->sentence_file);
}

/* A limit that no model has stands for none. */
static bool
read_limit(struct folder *f, const struct object *config, double *limit)
{
	if (!object_number_or(config, "model_max_length", 0, limit))
		return false;
	if (*limit >= INT32_MAX || *limit == 0)
		*limit = 0;
	else if (!(*limit >= 1))
		return object_malformed(config, "model_max_length", "a number of tokens");
	return true;
}

static void
lower_limit(struct folder *f, double limit, const char *from)
{
	if (limit >= 1 && limit < (double) f->encoder->tokens_max)
	{
		f->encoder->tokens_max = (uint32_t) limit;
		f->encoder->tokens_max_from = from;
	}
}

static bool
settle(struct folder *f, double tokenizer_limit)
{
	struct encoder *e = f->encoder;
	int64_t		wanted = f->options.tokens_max;

	e->tokens_max = (uint32_t) f->positions_usable;
	e->tokens_max_from = f->positions_from;
	if (wanted > f->positions_usable)
	{
		status_set(f->status, INFER_ERROR_INPUT, "the option max_tokens is %lld, but the model has positions for %lld tokens only", (long long) wanted,
				   (long long) f->positions_usable);
		status_hint(f->status, "Choose a smaller number, or leave the option out.");
		return false;
	}
	if (wanted > 0)
	{
		e->tokens_max = (uint32_t) wanted;
		e->tokens_max_from = "the option max_tokens";
		return true;
	}
	if (f->sentence_length > 0)
		lower_limit(f, (double) f->sentence_length, f->sentence_file);
	else
		lower_limit(f, tokenizer_limit, "tokenizer_config.json (model_max_length)");
	return true;
}

bool
folder_length_read(struct folder *f)
{
	const struct model_file *file = model_files_find(f->files, "tokenizer_config.json");
	struct object config = {NULL, "tokenizer_config.json", f->status};
	double		limit = 0;
	bool		fine = true;

	if (file != NULL)
	{
		config.json = folder_json(file, false, f->status);
		fine = config.json != NULL && read_types(f, &config) && read_limit(f, &config, &limit);
	}
	fine = fine && check_case(f, &config) && settle(f, limit);
	f->encoder->truncate = f->options.truncate;
	json_decref(config.json);
	return fine;
}
