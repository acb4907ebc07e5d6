/*
 * template.c
 *	  The post-processor: special tokens around a text, and around and between the two of a
 *	  pair.
 */
#include "reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"

#define TYPE_ID_MAX		1024

static bool
template_allocate(struct tokenizer *tokenizer, struct template *template, uint32_t space)
{
	template->pieces = graph_pool(&tokenizer->memory, space, sizeof(*template->pieces));
	return template->pieces != NULL;
}

static void
add_text(struct template *template, enum template_kind kind, int32_t type_id)
{
	template->pieces[template->count++] = (struct template_piece) {.kind = kind, .type_id = type_id};
}

/* A piece of count special tokens; NULL: out of memory. */
static int32_t *
add_tokens(struct tokenizer *tokenizer, struct template *template, uint32_t count, int32_t type_id)
{
	struct template_piece *piece = &template->pieces[template->count++];

	*piece = (struct template_piece) {TEMPLATE_TOKENS, type_id, count};
	piece->ids = graph_pool(&tokenizer->memory, count, sizeof(*piece->ids));
	template->added += count;
	return piece->ids;
}

static bool
add_token(struct tokenizer *tokenizer, struct template *template, int32_t id, int32_t type_id)
{
	int32_t    *ids = add_tokens(tokenizer, template, 1, type_id);

	if (ids == NULL)
		return false;
	ids[0] = id;
	if (id >= tokenizer->facts.ids_end)
		tokenizer->facts.ids_end = id + 1;
	return true;
}

static bool
template_plain(struct tokenizer *tokenizer)
{
	if (!template_allocate(tokenizer, &tokenizer->single, 1) || !template_allocate(tokenizer, &tokenizer->pair, 2))
		return false;
	add_text(&tokenizer->single, TEMPLATE_TEXT, 0);
	add_text(&tokenizer->pair, TEMPLATE_TEXT, 0);
	add_text(&tokenizer->pair, TEMPLATE_PAIR, 1);
	return true;
}

/* [CLS] text [SEP], and [CLS] text [SEP] pair [SEP] */
bool
template_bert(struct tokenizer *tokenizer, int32_t cls, int32_t sep)
{
	struct template *single = &tokenizer->single;
	struct template *pair = &tokenizer->pair;

	if (!template_allocate(tokenizer, single, 3) || !template_allocate(tokenizer, pair, 5) ||
		!add_token(tokenizer, single, cls, 0) || !add_token(tokenizer, pair, cls, 0))
		return false;
	add_text(single, TEMPLATE_TEXT, 0);
	add_text(pair, TEMPLATE_TEXT, 0);
	if (!add_token(tokenizer, single, sep, 0) || !add_token(tokenizer, pair, sep, 0))
		return false;
	add_text(pair, TEMPLATE_PAIR, 1);
	return add_token(tokenizer, pair, sep, 1);
}

/* ---- TemplateProcessing ---- */

static bool
read_sequence(struct template *template, json_t *object, bool pair, struct status *status)
{
	const char *id = reader_text(object, "id", "post_processor", status);
	int64_t		type_id;

	if (id == NULL || !reader_int(object, "type_id", "post_processor", 0, TYPE_ID_MAX, &type_id, status))
		return false;
	if (strcmp(id, "A") != 0 && (strcmp(id, "B") != 0 || !pair))
		return status_set(status, INFER_ERROR_MODEL, "the sequence \"%.200s\" in a template of the tokenizer is not there", id);
	add_text(template, id[0] == 'A' ? TEMPLATE_TEXT : TEMPLATE_PAIR, (int32_t) type_id);
	return true;
}

static bool
read_special(struct tokenizer *tokenizer, struct template *template, json_t *object, json_t *special,
			 struct status *status)
{
	const char *name = reader_text(object, "id", "post_processor", status);
	json_t	   *ids, *id;
	int32_t    *to;
	int64_t		type_id;
	size_t		i;

	if (name == NULL || !reader_int(object, "type_id", "post_processor", 0, TYPE_ID_MAX, &type_id, status))
		return false;
	ids = json_object_get(json_object_get(special, name), "ids");
	if (!json_is_array(ids) || json_array_size(ids) > TEXT_PIECES_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the special token \"%.200s\" of the tokenizer's template has no ids", name);
	to = add_tokens(tokenizer, template, (uint32_t) json_array_size(ids), (int32_t) type_id);
	if (to == NULL)
		return false;
	json_array_foreach(ids, i, id)
	{
		if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= INT32_MAX)
			return status_set(status, INFER_ERROR_MODEL, "the special token \"%.200s\" of the tokenizer's template has no ids", name);
		to[i] = (int32_t) json_integer_value(id);
		if (to[i] >= tokenizer->facts.ids_end)
			tokenizer->facts.ids_end = to[i] + 1;
	}
	return true;
}

static bool
read_template(struct tokenizer *tokenizer, struct template *template, json_t *pieces, json_t *special, bool pair,
			  struct status *status)
{
	json_t	   *piece;
	size_t		i;

	if (!json_is_array(pieces) || json_array_size(pieces) > TEXT_PIECES_MAX)
		return status_set(status, INFER_ERROR_MODEL, "a template of the tokenizer is not an array of at most %d pieces",
						  TEXT_PIECES_MAX);
	if (!template_allocate(tokenizer, template, (uint32_t) json_array_size(pieces)))
		return false;
	json_array_foreach(pieces, i, piece)
	{
		json_t	   *sequence = json_object_get(piece, "Sequence");
		json_t	   *token = json_object_get(piece, "SpecialToken");

		if (json_object_size(piece) != 1 || (sequence == NULL && token == NULL))
			return status_set(status, INFER_ERROR_MODEL, "a piece of the tokenizer's template is neither a sequence nor a token");
		if (!(sequence != NULL ? read_sequence(template, sequence, pair, status) :
			  read_special(tokenizer, template, token, special, status)))
			return false;
	}
	return true;
}

/* ---- BertProcessing ---- */

static bool
read_named_id(json_t *processor, const char *key, int32_t *id, struct status *status)
{
	json_t	   *both = json_object_get(processor, key);
	json_t	   *number = json_array_get(both, 1);

	if (json_array_size(both) != 2 || !json_is_integer(number) || json_integer_value(number) < 0 ||
		json_integer_value(number) >= INT32_MAX)
		return status_set(status, INFER_ERROR_MODEL, "\"%s\" of the tokenizer's post_processor is not a token and its id", key);
	*id = (int32_t) json_integer_value(number);
	return true;
}

/* ---- RobertaProcessing, ByteLevel, Sequence ---- */

/* Trimming, where the pre-tokenizer added a space or not. */
static bool
read_trim(struct tokenizer *tokenizer, json_t *processor, struct status *status)
{
	bool		trim, keeps_first;

	if (!reader_bool(processor, "trim_offsets", "post_processor", &trim, status) ||
		!reader_bool(processor, "add_prefix_space", "post_processor", &keeps_first, status))
		return false;
	if (trim && tokenizer->trim)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a post-processor that trims places twice is not supported");
	if (trim)
	{
		tokenizer->trim = true;
		tokenizer->trim_keeps_first = keeps_first;
	}
	return true;
}

/* <s> text </s>, and <s> text </s></s> pair </s>; all of type 0, also without them */
static bool
read_roberta(struct tokenizer *tokenizer, json_t *processor, struct status *status)
{
	static const char *const known[] = {"cls", "sep", "trim_offsets", "add_prefix_space", NULL};
	struct template *single = &tokenizer->single;
	struct template *pair = &tokenizer->pair;
	int32_t		cls, sep;

	if (!reader_known(processor, "post_processor", known, status) || !read_trim(tokenizer, processor, status) ||
		!read_named_id(processor, "cls", &cls, status) || !read_named_id(processor, "sep", &sep, status) ||
		!template_allocate(tokenizer, single, 3) || !template_allocate(tokenizer, pair, 6) ||
		!add_token(tokenizer, single, cls, 0) || !add_token(tokenizer, pair, cls, 0))
		return false;
	add_text(single, TEMPLATE_TEXT, 0);
	add_text(pair, TEMPLATE_TEXT, 0);
	if (!add_token(tokenizer, single, sep, 0) || !add_token(tokenizer, pair, sep, 0) || !add_token(tokenizer, pair, sep, 0))
		return false;
	add_text(pair, TEMPLATE_PAIR, 0);
	return add_token(tokenizer, pair, sep, 0);
}

static bool
read_byte_level(struct tokenizer *tokenizer, json_t *processor, struct status *status)
{
	static const char *const known[] = {"trim_offsets", "add_prefix_space", "use_regex", NULL};

	return reader_known(processor, "post_processor", known, status) && read_trim(tokenizer, processor, status);
}

static bool read_processor(struct tokenizer *tokenizer, json_t *processor, struct status *status);

static bool
read_sequence_of(struct tokenizer *tokenizer, json_t *processors, struct status *status)
{
	json_t	   *processor;
	size_t		i;

	if (!json_is_array(processors) || json_array_size(processors) > TEXT_STEPS_MAX)
		return status_set(status, INFER_ERROR_MODEL, "the tokenizer's post-processors are not an array of at most %d", TEXT_STEPS_MAX);
	json_array_foreach(processors, i, processor)
		if (!read_processor(tokenizer, processor, status))
			return false;
	return true;
}

static bool
read_processor(struct tokenizer *tokenizer, json_t *processor, struct status *status)
{
	static const char *const template_keys[] = {"single", "pair", "special_tokens", NULL};
	static const char *const bert_keys[] = {"cls", "sep", NULL};
	static const char *const sequence_keys[] = {"processors", NULL};
	json_t	   *special = json_object_get(processor, "special_tokens");
	const char *type;
	int32_t		cls, sep;

	type = reader_type(processor, "post_processor", status);
	if (type == NULL)
		return false;
	if (tokenizer->single.pieces != NULL)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's post-processor \"%.200s\" behind another is not supported", type);
	if (strcmp(type, "ByteLevel") == 0)
		return read_byte_level(tokenizer, processor, status);
	if (strcmp(type, "Sequence") == 0)
		return reader_known(processor, "post_processor", sequence_keys, status) &&
			read_sequence_of(tokenizer, json_object_get(processor, "processors"), status);
	if (strcmp(type, "RobertaProcessing") == 0)
		return read_roberta(tokenizer, processor, status);
	if (strcmp(type, "TemplateProcessing") == 0)
		return reader_known(processor, "post_processor", template_keys, status) &&
			read_template(tokenizer, &tokenizer->single, json_object_get(processor, "single"), special, false, status) &&
			read_template(tokenizer, &tokenizer->pair, json_object_get(processor, "pair"), special, true, status);
	if (strcmp(type, "BertProcessing") == 0)
		return reader_known(processor, "post_processor", bert_keys, status) &&
			read_named_id(processor, "cls", &cls, status) && read_named_id(processor, "sep", &sep, status) &&
			template_bert(tokenizer, cls, sep);
	return status_set(status, INFER_ERROR_UNSUPPORTED, "the tokenizer's post-processor \"%.200s\" is not supported", type);
}

bool
read_post_processor(struct tokenizer *tokenizer, json_t *processor, struct status *status)
{
	if (processor != NULL && !json_is_null(processor) && !read_processor(tokenizer, processor, status))
		return false;
	return tokenizer->single.pieces != NULL || template_plain(tokenizer);
}
