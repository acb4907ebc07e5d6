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

/* A text for a text, or for so many characters of a class. */
static bool
read_replace(struct tokenizer *tokenizer, struct normalizer *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"pattern", "content", NULL};
	json_t	   *pattern = json_object_get(object, "pattern");
	const char *regex = json_string_value(json_object_get(pattern, "Regex"));

	if (!reader_known(object, "normalizer", known, status))
		return false;
	if (regex != NULL)
	{
		step->kind = NORMALIZE_REPLACE_CLASS;
		if (!class_read(regex, &step->class))
			return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's normalizer Replace by the pattern \"%.200s\" is not supported",
							  regex);
		return keep_text(tokenizer, reader_text(object, "content", "normalizer", status), &step->content, status);
	}
	if (!keep_text(tokenizer, reader_text(pattern, "String", "normalizer", status), &step->pattern, status) ||
		!keep_text(tokenizer, reader_text(object, "content", "normalizer", status), &step->content, status))
		return false;
	if (step->pattern[0] == '\0')
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a tokenizer's normalizer that replaces nothing is not supported");
	return true;
}

/* ---- Precompiled ---- */

static int
base64_digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c == '\0' ? NULL : strchr(digits, c);

	return at == NULL ? -1 : (int) (at - digits);
}

/* False: it is not base64. */
static bool
decode_base64(const char *text, size_t size, uint8_t *to, uint32_t *length)
{
	uint32_t	bits = 0, count = 0;

	*length = 0;
	if (size % 4 != 0)
		return false;
	while (size > 0 && text[size - 1] == '=' && count++ < 2)
		size--;
	count = 0;
	for (size_t i = 0; i < size; i++)
	{
		int			digit = base64_digit(text[i]);

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t) digit;
		count += 6;
		if (count >= 8)
		{
			count -= 8;
			to[(*length)++] = (uint8_t) (bits >> count);
		}
	}
	return true;
}

static uint32_t
little_endian(const uint8_t *at)
{
	return (uint32_t) at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24;
}

/* The size of the double array, the array, and the texts to its end. */
static bool
read_charsmap(struct tokenizer *tokenizer, struct normalizer *step, const uint8_t *map, uint32_t length)
{
	uint32_t	size = length < 4 ? UINT32_MAX : little_endian(map);
	uint32_t   *units;
	size_t		bad;

	if (size % 4 != 0 || size == 0 || size > length - 4 || !utf8_check(map + 4 + size, length - 4 - size, &bad))
		return status_set(tokenizer->memory.status, INFER_ERROR_MODEL, "the tokenizer's precompiled_charsmap is malformed");
	step->units_count = size / 4;
	units = graph_pool(&tokenizer->memory, step->units_count, sizeof(*units));
	step->texts_bytes = length - 4 - size;
	step->texts = graph_pool_text(&tokenizer->memory, map + 4 + size, step->texts_bytes);
	if (units == NULL || step->texts == NULL)
		return false;
	for (uint32_t i = 0; i < step->units_count; i++)
		units[i] = little_endian(map + 4 + 4 * i);
	step->units = units;
	return true;
}

static bool
read_precompiled(struct tokenizer *tokenizer, struct normalizer *step, json_t *object, struct status *status)
{
	static const char *const known[] = {"precompiled_charsmap", NULL};
	const char *text = reader_text(object, "precompiled_charsmap", "normalizer", status);
	uint32_t	length;
	uint8_t    *map;
	bool		good;

	if (text == NULL || !reader_known(object, "normalizer", known, status))
		return false;
	map = graph_block(&tokenizer->memory, strlen(text));
	if (map == NULL)
		return false;
	good = decode_base64(text, strlen(text), map, &length) ||
		status_set(status, INFER_ERROR_MODEL, "the tokenizer's precompiled_charsmap is not base64");
	good = good && read_charsmap(tokenizer, step, map, length);
	graph_block_free(&tokenizer->memory, map);
	return good;
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
		{"Lowercase", NORMALIZE_LOWERCASE}, {"StripAccents", NORMALIZE_STRIP_ACCENTS}, {"Nmt", NORMALIZE_NMT}
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
	step->kind = NORMALIZE_PRECOMPILED;
	if (strcmp(type, "Precompiled") == 0)
		return read_precompiled(tokenizer, step, object, status);
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
