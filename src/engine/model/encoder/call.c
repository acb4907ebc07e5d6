/*
 * call.c
 *	  A row's texts, prompt and options out of the region, checked.
 *
 * A client may change its region at any time: each span, each option and each byte is read
 * once, into the arena, and checked there.
 */
#include "encoder_model.h"

#include <string.h>

#include "../../status.h"

#define FLAGS_KNOWN	(INFER_TEXT_TRUNCATE | INFER_TEXT_REFUSE | INFER_TEXT_NORMALIZE | INFER_TEXT_RAW | INFER_TEXT_NO_PROMPT)

/* ---- texts ---- */

/* Appends a string of the row to the arena's texts, at *used. */
static bool
copy_string(const struct model_request *request, enum encoder_input input, uint32_t row,
			struct encoder_arena *arena, uint64_t *used, struct status *status)
{
	const struct infer_column *column = &request->columns[input];
	const volatile struct infer_span *span =
		(const volatile struct infer_span *) (request->region + column->spans_offset) + row;
	uint64_t	begin = span->begin;
	uint64_t	length = span->length;

	if (begin + length > column->data_bytes)
		return status_set(status, INFER_ERROR_PROTOCOL, "a string lies outside its column");
	if (length > TOKENIZER_TEXT_MAX)
		return status_set(status, INFER_ERROR_INPUT, "a text of %llu bytes is longer than the limit of %llu",
						  (unsigned long long) length, (unsigned long long) TOKENIZER_TEXT_MAX);
	if (!encoder_arena_texts(arena, *used + length))
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a text of %llu bytes", (unsigned long long) length);
	if (length > 0)
		memcpy(arena->texts + *used, request->region + column->data_offset + begin, length);
	*used += length;
	return true;
}

static uint32_t
characters(const char *text, uint64_t bytes)
{
	uint32_t	count = 0;

	for (uint64_t i = 0; i < bytes; i++)
		count += ((unsigned char) text[i] & 0xC0) != 0x80;
	return count;
}

/* ---- prompts ---- */

/* One error for a name that the model does not have: those that it has are its hint. */
static bool
prompt_unknown(const struct encoder *encoder, const char *name, uint64_t bytes, struct status *status)
{
	char		names[512] = "";
	size_t		used = 0;

	for (uint32_t i = 0; i < encoder->prompts_count && used + 64 < sizeof(names); i++)
	{
		size_t		length = strlen(encoder->prompts[i].name);

		if (length > sizeof(names) - used - 8)
			break;
		memcpy(names + used, used == 0 ? "\"" : ", \"", used == 0 ? 1 : 3);
		used += used == 0 ? 1 : 3;
		memcpy(names + used, encoder->prompts[i].name, length);
		used += length;
		names[used++] = '"';
		names[used] = '\0';
	}
	if (bytes > 100)
		for (bytes = 100; bytes > 0 && ((unsigned char) name[bytes] & 0xC0) == 0x80;)
			bytes--;			/* cut where a character begins */
	status_set(status, INFER_ERROR_INPUT, "the model has no prompt \"%.*s\"", (int) bytes, name);
	if (encoder->prompts_count == 0)
		status_hint(status, "Leave the prompt out: the model has none.");
	else
		status_hint(status, "Use one of its prompts: %s.", names);
	return false;
}

static bool
prompt_find(const struct encoder *encoder, const char *name, uint64_t bytes, const struct encoder_prompt **prompt,
			struct status *status)
{
	for (uint32_t i = 0; i < encoder->prompts_count; i++)
		if (strlen(encoder->prompts[i].name) == bytes && memcmp(encoder->prompts[i].name, name, bytes) == 0)
		{
			*prompt = &encoder->prompts[i];
			return true;
		}
	return prompt_unknown(encoder, name, bytes, status);
}

/* What goes before the row's own text, NULL for nothing. */
static bool
prompt_choose(const struct encoder_model *m, const struct model_request *request, uint32_t row, uint32_t flags,
			  struct encoder_arena *arena, const struct encoder_prompt **prompt, struct status *status)
{
	const struct encoder *encoder = m->encoder;
	uint64_t	bytes = 0;

	*prompt = NULL;
	if (!copy_string(request, ENCODER_INPUT_PROMPT, row, arena, &bytes, status))
		return false;
	if ((flags & INFER_TEXT_NO_PROMPT) != 0)
		return bytes == 0 || status_set(status, INFER_ERROR_INPUT, "a prompt is named, and none is asked for");
	if (bytes > 0)
		return prompt_find(encoder, arena->texts, bytes, prompt, status);
	return encoder->prompt_default == NULL ||
		prompt_find(encoder, encoder->prompt_default, strlen(encoder->prompt_default), prompt, status);
}

/* ---- options ---- */

static bool
both(uint32_t flags, uint32_t one, uint32_t other)
{
	return (flags & one) != 0 && (flags & other) != 0;
}

static bool
read_flags(const struct encoder_model *m, uint32_t flags, struct encoder_call *call, struct status *status)
{
	const struct encoder *encoder = m->encoder;

	if ((flags & ~FLAGS_KNOWN) != 0)
		return status_set(status, INFER_ERROR_INPUT, "the options have flags 0x%x that mean nothing", flags & ~FLAGS_KNOWN);
	if (both(flags, INFER_TEXT_TRUNCATE, INFER_TEXT_REFUSE) || both(flags, INFER_TEXT_NORMALIZE, INFER_TEXT_RAW))
		return status_set(status, INFER_ERROR_INPUT, "the options ask for a thing and for its opposite");
	if (encoder->task != ENCODER_EMBEDDING && (flags & (INFER_TEXT_NORMALIZE | INFER_TEXT_RAW)) != 0)
		return status_set(status, INFER_ERROR_INPUT, "the model gives no embedding that could have length 1");
	call->truncate_asked = (flags & INFER_TEXT_TRUNCATE) != 0;
	call->truncate = call->truncate_asked || (encoder->truncate && (flags & INFER_TEXT_REFUSE) == 0);
	call->normalize = (flags & INFER_TEXT_NORMALIZE) != 0 || (encoder->normalize && (flags & INFER_TEXT_RAW) == 0);
	return true;
}

static bool
read_options(const struct encoder_model *m, const int32_t options[INFER_TEXT_OPTIONS], struct encoder_call *call,
			 struct status *status)
{
	int32_t		dimensions = options[INFER_TEXT_DIMENSIONS];
	uint32_t	all = m->program.result_width;

	for (int i = INFER_TEXT_CHUNK_BORDER + 1; i < INFER_TEXT_OPTIONS; i++)
		if (options[i] != 0)
			return status_set(status, INFER_ERROR_INPUT, "option %d of the call is %d and means nothing", i, options[i]);
	if (!read_flags(m, (uint32_t) options[INFER_TEXT_FLAGS], call, status))
		return false;
	if (dimensions != 0 && m->encoder->task != ENCODER_EMBEDDING)
		return status_set(status, INFER_ERROR_INPUT, "the model gives no embedding that could have %d dimensions", dimensions);
	if (dimensions < 0 || (uint32_t) dimensions > all)
	{
		status_set(status, INFER_ERROR_INPUT, "%d dimensions are asked for, and the model's embedding has %u", dimensions, all);
		status_hint(status, "Ask for 1 to %u dimensions.", all);
		return false;
	}
	call->dimensions = dimensions == 0 ? all : (uint32_t) dimensions;
	if (options[INFER_TEXT_CHUNK_TOKENS] < 0 || options[INFER_TEXT_CHUNK_OVERLAP] < 0 ||
		options[INFER_TEXT_CHUNK_BORDER] < INFER_BORDER_TOKEN || options[INFER_TEXT_CHUNK_BORDER] > INFER_BORDER_PARAGRAPH)
		return status_set(status, INFER_ERROR_INPUT, "the options of chunks are out of range");
	call->chunk_tokens = (uint32_t) options[INFER_TEXT_CHUNK_TOKENS];
	call->chunk_overlap = (uint32_t) options[INFER_TEXT_CHUNK_OVERLAP];
	call->chunk_border = (uint32_t) options[INFER_TEXT_CHUNK_BORDER];
	return true;
}

/* ---- a row ---- */

bool
encoder_call_read(const struct encoder_model *m, const struct model_request *request, uint32_t row,
				  struct encoder_arena *arena, struct encoder_call *call, struct status *status)
{
	int32_t		options[INFER_TEXT_OPTIONS];
	const struct encoder_prompt *prompt;
	const char *before;
	uint64_t	used;
	uint64_t	pair_first;

	*call = (struct encoder_call) {0};
	memcpy(options, request->region + request->columns[ENCODER_INPUT_OPTIONS].data_offset + row * sizeof(options),
		   sizeof(options));
	if (!read_options(m, options, call, status) ||
		!prompt_choose(m, request, row, (uint32_t) options[INFER_TEXT_FLAGS], arena, &prompt, status))
		return false;
	before = prompt == NULL ? "" : prompt->text;
	call->prompt_tokens = prompt == NULL ? 0 : m->prompt_tokens[prompt - m->encoder->prompts];
	call->prompt_bytes = strlen(before);
	call->prompt_characters = characters(before, call->prompt_bytes);
	if (!encoder_arena_texts(arena, call->prompt_bytes))
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a prompt");
	memcpy(arena->texts, before, call->prompt_bytes);
	used = call->prompt_bytes;
	if (!copy_string(request, ENCODER_INPUT_TEXT, row, arena, &used, status))
		return false;
	pair_first = used;
	if (!copy_string(request, ENCODER_INPUT_PAIR, row, arena, &used, status))
		return false;
	call->text = arena->texts;
	call->text_bytes = pair_first;
	call->pair_bytes = used - pair_first;
	if (call->pair_bytes > 0 || m->encoder->task == ENCODER_RERANKER)
		call->pair = arena->texts + pair_first;
	return true;
}
