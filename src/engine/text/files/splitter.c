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

static bool
read_behavior(struct splitter *step, json_t *object, struct status *status)
{
	static const struct
	{
		const char *name;
		enum behavior behavior;
	}			known[] = {
		{"Isolated", BEHAVIOR_ISOLATED}, {"Removed", BEHAVIOR_REMOVED}, {"MergedWithPrevious", BEHAVIOR_PREVIOUS},
		{"MergedWithNext", BEHAVIOR_NEXT}, {"Contiguous", BEHAVIOR_CONTIGUOUS}
	};
	const char *name = reader_text(object, "behavior", what, status);

	for (size_t i = 0; name != NULL && i < sizeof(known) / sizeof(*known); i++)
		if (strcmp(name, known[i].name) == 0)
			return step->behavior = known[i].behavior, true;
	return name != NULL &&
		status_set(status, INFER_ERROR_UNSUPPORTED, "the behavior \"%.200s\" of the tokenizer's pre_tokenizer is not supported", name);
}

static bool
keep_literal(struct tokenizer *tokenizer, struct splitter *step, const char *text, struct status *status)
{
	if (text == NULL)
		return false;
	if (text[0] == '\0' || strlen(text) > TEXT_CONTENT_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a tokenizer's pre-tokenizer that splits by nothing, or more than %d bytes, is not supported",
						  TEXT_CONTENT_MAX);
	step->match = MATCH_TEXT;
	step->literal = graph_pool_text(&tokenizer->memory, text, strlen(text));
	step->literal_length = (uint32_t) strlen(text);
	return step->literal != NULL;
}

static bool
read_split(struct tokenizer *tokenizer, struct splitter *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"pattern", "behavior", "invert", NULL};
	json_t	   *pattern = json_object_get(object, "pattern");
	const char *regex = json_string_value(json_object_get(pattern, "Regex"));

	step->kind = SPLIT_MATCHES;
	if (!reader_known(object, what, known, status) || !read_behavior(step, object, status) ||
		!reader_bool(object, "invert", what, &step->invert, status))
		return false;
	if (regex == NULL)
		return keep_literal(tokenizer, step, reader_text(pattern, "String", what, status), status);
	step->match = MATCH_PATTERN;
	step->pattern = pattern_find(regex);
	if (step->pattern != PATTERN_NONE)
		return true;
	step->match = MATCH_CLASS;
	return class_read(regex, &step->class) ||
		status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's pre-tokenizer splits by a pattern that is not known: %.700s", regex);
}

static bool
read_punctuation(struct splitter *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"behavior", NULL};

	step->kind = SPLIT_MATCHES;
	step->match = MATCH_CLASS;
	step->class = (struct character_class) {.flags = UNICODE_PUNCTUATION, .least = 1, .most = 1};
	return reader_known(object, what, known, status) &&
		(json_object_get(object, "behavior") == NULL || read_behavior(step, object, status));
}

static bool
read_delimiter(struct tokenizer *tokenizer, struct splitter *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"delimiter", NULL};
	const char *delimiter = reader_text(object, "delimiter", what, status);

	step->kind = SPLIT_MATCHES;
	step->behavior = BEHAVIOR_REMOVED;
	if (delimiter == NULL || !reader_known(object, what, known, status) || !keep_literal(tokenizer, step, delimiter, status))
		return false;
	return utf8_characters((const uint8_t *) delimiter, strlen(delimiter)) == 1 ||
		status_set(status, INFER_ERROR_MODEL, "\"delimiter\" of the tokenizer's pre_tokenizer is not one character");
}

/* Words, and what is between them and is no white space. */
static bool
read_whitespace(struct splitter *step, json_t *object, struct status *status)
{
	step->kind = SPLIT_MATCHES;
	step->match = MATCH_PATTERN;
	step->pattern = PATTERN_WORDS;
	step->behavior = BEHAVIOR_REMOVED;
	step->invert = true;
	return reader_known(object, what, (const char *const[]) {NULL}, status);
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

/*
 * ByteLevel comes last: what is behind it would see its letters, which are not made here.  Metaspace
 * and ByteLevel each write a copy of the text, of which there is one.
 */
static bool
check_order(const struct tokenizer *tokenizer, const char *type, struct status *status)
{
	bool		copies = strcmp(type, "Metaspace") == 0 || strcmp(type, "ByteLevel") == 0;

	for (uint32_t i = 0; i + 1 < tokenizer->splitters_count; i++)
		if (tokenizer->splitters[i].kind == SPLIT_BYTES || (copies && tokenizer->splitters[i].kind == SPLIT_METASPACE))
			return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's pre-tokenizer \"%.200s\" behind %s is not supported", type,
							  tokenizer->splitters[i].kind == SPLIT_BYTES ? "ByteLevel" : "Metaspace");
	return true;
}

static bool
read_step(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	const char *type = reader_type(object, what, status);
	struct splitter *step = &tokenizer->splitters[tokenizer->splitters_count++];

	if (type == NULL)
		return false;
	if (!check_order(tokenizer, type, status))
		return false;
	if (strcmp(type, "Metaspace") == 0)
		return read_metaspace(step, object, status);
	if (strcmp(type, "ByteLevel") == 0)
		return read_byte_level(step, object, status);
	if (strcmp(type, "Digits") == 0)
		return read_digits(step, object, status);
	if (strcmp(type, "Split") == 0)
		return read_split(tokenizer, step, object, status);
	if (strcmp(type, "Punctuation") == 0)
		return read_punctuation(step, object, status);
	if (strcmp(type, "Whitespace") == 0)
		return read_whitespace(step, object, status);
	if (strcmp(type, "CharDelimiterSplit") == 0)
		return read_delimiter(tokenizer, step, object, status);
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
