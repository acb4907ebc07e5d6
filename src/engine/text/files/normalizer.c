/*
 * normalizer.c
 *	  The normalizer: one step, or a sequence of them.
 */
#include "reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"

static const char *const no_members[] = {NULL};

static bool
read_bert(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	static const char *const known[] = {"clean_text", "handle_chinese_chars", "strip_accents", "lowercase", NULL};
	struct bert_normalizer *bert = &tokenizer->bert;
	json_t	   *accents = json_object_get(object, "strip_accents");
	const char *what = "normalizer";

	if (tokenizer->normalizers_count > 1)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a BertNormalizer behind other normalizers is not supported");
	if (!reader_known(object, what, known, status) ||
		!reader_bool(object, "clean_text", what, &bert->clean_text, status) ||
		!reader_bool(object, "handle_chinese_chars", what, &bert->handle_chinese_chars, status) ||
		!reader_bool(object, "lowercase", what, &bert->lowercase, status))
		return false;
	bert->strip_accents = bert->lowercase;	/* unless it is said */
	if (accents != NULL && !json_is_null(accents) &&
		!reader_bool(object, "strip_accents", what, &bert->strip_accents, status))
		return false;
	bert_prepare(bert);
	return true;
}

static bool
read_strip(struct normalizer *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"strip_left", "strip_right", NULL};

	return reader_known(object, "normalizer", known, status) &&
		reader_bool(object, "strip_left", "normalizer", &step->left, status) &&
		reader_bool(object, "strip_right", "normalizer", &step->right, status);
}

static bool
keep_text(struct tokenizer *tokenizer, const char *text, const char **kept, struct status *status)
{
	if (text == NULL)
		return false;
	if (strlen(text) > TEXT_CONTENT_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a text of the tokenizer's normalizer is longer than %d bytes", TEXT_CONTENT_MAX);
	*kept = graph_pool_text(&tokenizer->memory, text, strlen(text));
	return *kept != NULL;
}

static bool
read_prepend(struct tokenizer *tokenizer, struct normalizer *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"prepend", NULL};

	return reader_known(object, "normalizer", known, status) &&
		keep_text(tokenizer, reader_text(object, "prepend", "normalizer", status), &step->content, status);
}

/* A text for a text; regular expressions are not read. */
static bool
read_replace(struct tokenizer *tokenizer, struct normalizer *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"pattern", "content", NULL};
	json_t	   *pattern = json_object_get(object, "pattern");
	const char *regex = json_string_value(json_object_get(pattern, "Regex"));

	if (regex != NULL)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's normalizer Replace by the pattern \"%.200s\" is not supported", regex);
	if (!reader_known(object, "normalizer", known, status) ||
		!keep_text(tokenizer, reader_text(pattern, "String", "normalizer", status), &step->pattern, status) ||
		!keep_text(tokenizer, reader_text(object, "content", "normalizer", status), &step->content, status))
		return false;
	if (step->pattern[0] == '\0')
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a tokenizer's normalizer that replaces nothing is not supported");
	return true;
}

static bool
read_step(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	static const struct
	{
		const char *name;
		enum normalizer_kind kind;
	}			plain[] = {
		{"NFC", NORMALIZE_NFC}, {"NFD", NORMALIZE_NFD}, {"NFKC", NORMALIZE_NFKC}, {"NFKD", NORMALIZE_NFKD},
		{"Lowercase", NORMALIZE_LOWERCASE}, {"StripAccents", NORMALIZE_STRIP_ACCENTS}
	};
	const char *type = reader_type(object, "normalizer", status);
	struct normalizer *step = &tokenizer->normalizers[tokenizer->normalizers_count++];

	if (type == NULL)
		return false;
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
		if (strcmp(type, plain[i].name) == 0)
		{
			step->kind = plain[i].kind;
			return reader_known(object, "normalizer", no_members, status);
		}
	step->kind = NORMALIZE_BERT;
	if (strcmp(type, "BertNormalizer") == 0)
		return read_bert(tokenizer, object, status);
	step->kind = NORMALIZE_STRIP;
	if (strcmp(type, "Strip") == 0)
		return read_strip(step, object, status);
	step->kind = NORMALIZE_PREPEND;
	if (strcmp(type, "Prepend") == 0)
		return read_prepend(tokenizer, step, object, status);
	step->kind = NORMALIZE_REPLACE;
	if (strcmp(type, "Replace") == 0)
		return read_replace(tokenizer, step, object, status);
	return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's normalizer \"%.200s\" is not supported", type);
}

/* Sequences in sequences are sequences; the depth of JSON is bounded. */
bool
read_normalizer(struct tokenizer *tokenizer, json_t *object, struct status *status)
{
	static const char *const known[] = {"normalizers", NULL};
	json_t	   *steps = json_object_get(object, "normalizers"), *step;
	const char *type;
	size_t		i;

	if (object == NULL || json_is_null(object))
		return true;
	type = reader_type(object, "normalizer", status);
	if (type == NULL)
		return false;
	if (strcmp(type, "Sequence") == 0)
	{
		if (!json_is_array(steps))
			return status_set(status, INFER_ERROR_MODEL, "the tokenizer's normalizers are not an array");
		if (!reader_known(object, "normalizer", known, status))
			return false;
		json_array_foreach(steps, i, step)
			if (!read_normalizer(tokenizer, step, status))
				return false;
		return true;
	}
	if (tokenizer->normalizers_count == TEXT_STEPS_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a normalizer of more than %d steps is not supported", TEXT_STEPS_MAX);
	return read_step(tokenizer, object, status);
}
