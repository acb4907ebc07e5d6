/*
 * splitter.c
 *	  The pre-tokenizer: one step, or a sequence of them.
 */
#include "reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"

static const char *const what = "pre_tokenizer";

static bool
read_byte_level(struct splitter *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"add_prefix_space", "trim_offsets", "use_regex", NULL};
	bool		trim, use_regex = true;

	if (!reader_known(object, what, known, status) ||
		!reader_bool(object, "add_prefix_space", what, &step->add_space, status) ||
		!reader_bool(object, "trim_offsets", what, &trim, status) ||
		(json_object_get(object, "use_regex") != NULL && !reader_bool(object, "use_regex", what, &use_regex, status)))
		return false;
	step->kind = SPLIT_BYTES;
	step->pattern = use_regex ? PATTERN_GPT2 : PATTERN_NONE;
	return true;
}

static bool
read_digits(struct splitter *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"individual_digits", NULL};

	step->kind = SPLIT_DIGITS;
	return reader_known(object, what, known, status) &&
		reader_bool(object, "individual_digits", what, &step->single, status);
}

/*
 * A known pattern matches everywhere, so what lies between its matches is nothing, and it
 * makes no difference whether the matches are isolated or the rest is removed.
 */
static bool
read_split(struct splitter *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"pattern", "behavior", "invert", NULL};
	const char *regex = reader_text(json_object_get(object, "pattern"), "Regex", what, status);
	const char *behavior = reader_text(object, "behavior", what, status);
	bool		invert;

	if (regex == NULL || behavior == NULL || !reader_known(object, what, known, status) ||
		!reader_bool(object, "invert", what, &invert, status))
		return false;
	step->kind = SPLIT_PATTERN;
	step->pattern = pattern_find(regex);
	if (step->pattern == PATTERN_NONE)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's pre-tokenizer splits by a pattern that is not known: %.700s", regex);
	if (strcmp(behavior, "Isolated") != 0 && (strcmp(behavior, "Removed") != 0 || !invert))
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's pre-tokenizer Split with the behavior \"%.200s\" is not supported",
						  behavior);
	return true;
}

static bool
read_scheme(struct splitter *step, json_t *object, struct status *status)
{
	const char *name = "always";
	bool		add = true;

	if (json_object_get(object, "prepend_scheme") != NULL)
		name = reader_text(object, "prepend_scheme", what, status);
	if (name == NULL ||
		(json_object_get(object, "add_prefix_space") != NULL && !reader_bool(object, "add_prefix_space", what, &add, status)))
		return false;
	if (strcmp(name, "always") != 0 && strcmp(name, "first") != 0 && strcmp(name, "never") != 0)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the prepend_scheme \"%.200s\" of the tokenizer's pre_tokenizer is not supported", name);
	step->scheme = name[0] == 'a' ? PREPEND_ALWAYS : name[0] == 'f' ? PREPEND_FIRST : PREPEND_NEVER;
	if (!add && step->scheme != PREPEND_NEVER)
		return status_set(status, INFER_ERROR_MODEL, "\"add_prefix_space\" and \"prepend_scheme\" of the tokenizer's pre_tokenizer disagree");
	return true;
}

static bool
read_metaspace(struct splitter *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep", NULL};
	const char *letter = reader_text(object, "replacement", what, status);

	step->kind = SPLIT_METASPACE;
	step->cuts = true;
	if (letter == NULL || !reader_known(object, what, known, status) || !read_scheme(step, object, status) ||
		(json_object_get(object, "split") != NULL && !reader_bool(object, "split", what, &step->cuts, status)))
		return false;
	if (utf8_characters((const uint8_t *) letter, strlen(letter)) != 1)
		return status_set(status, INFER_ERROR_MODEL, "\"replacement\" of the tokenizer's pre_tokenizer is not one character");
	strcpy(step->letter, letter);
	step->letter_length = (uint8_t) strlen(letter);
	return true;
}

static bool
read_step(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	const char *type = reader_type(object, what, status);
	struct splitter *step = &tokenizer->splitters[tokenizer->splitters_count++];

	if (type == NULL)
		return false;
	if (step > tokenizer->splitters && (step[-1].kind == SPLIT_BYTES || step[-1].kind == SPLIT_METASPACE))
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a pre-tokenizer behind ByteLevel or Metaspace is not supported");
	if (strcmp(type, "Metaspace") == 0)
		return read_metaspace(step, object, status);
	if (strcmp(type, "ByteLevel") == 0)
		return read_byte_level(step, object, status);
	if (strcmp(type, "Digits") == 0)
		return read_digits(step, object, status);
	if (strcmp(type, "Split") == 0)
		return read_split(step, object, status);
	step->kind = SPLIT_SPACES;
	if (strcmp(type, "WhitespaceSplit") == 0)
		return reader_known(object, what, (const char *const[]) {NULL}, status);
	step->kind = SPLIT_BERT;
	if (strcmp(type, "BertPreTokenizer") == 0)
		return reader_known(object, what, (const char *const[]) {NULL}, status);
	return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's pre-tokenizer \"%.200s\" is not supported", type);
}

bool
read_pre_tokenizer(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	static const char *const known[] = {"pretokenizers", NULL};
	json_t	   *steps = json_object_get(object, "pretokenizers"), *step;
	const char *type;
	size_t		i;

	if (object == NULL || json_is_null(object))
		return true;
	type = reader_type(object, what, status);
	if (type == NULL)
		return false;
	if (strcmp(type, "Sequence") == 0)
	{
		if (!json_is_array(steps))
			return status_set(status, INFER_ERROR_MODEL, "the tokenizer's pretokenizers are not an array");
		if (!reader_known(object, what, known, status))
			return false;
		json_array_foreach(steps, i, step)
			if (!read_pre_tokenizer(tokenizer, step, status))
				return false;
		return true;
	}
	if (tokenizer->splitters_count == TEXT_STEPS_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a pre-tokenizer of more than %d steps is not supported", TEXT_STEPS_MAX);
	return read_step(tokenizer, object, status);
}
