/*
 * prepare.c
 *	  A request's rows as tokens, before they wait for the device; what needs no device (token
 *	  ids, their count, chunks) is answered here.
 *
 * Loop
 *	for each row: say so (model_prepare_row) → read the call → hidden outputs → tokens → the row's
 *	units and cost.  A row that cannot be computed gets its error and no unit.
 *
 * Runs on any thread, several requests of a model at once: each takes an arena of its own.
 */
#include "encoder_model.h"

#include <stdlib.h>
#include <string.h>

#include "../../status.h"

struct preparing
{
	struct encoder_model *m;
	struct model_request *request;
	struct encoder_request *to;
	struct encoder_arena *arena;
	struct encoder_call call;		/* of the row */
	bool		results;			/* something of the device is wanted */
	struct status status;			/* of the row */
};

/* ---- tokens ---- */

/* tokens_max: cut to so many; 0: never.  The arena holds what was written. */
static bool
encode(struct preparing *p, uint32_t tokens_max, struct tokenizer_output *output)
{
	struct tokenizer_input input = {
		.text = p->call.text, .text_bytes = p->call.text_bytes,
		.pair = p->call.pair, .pair_bytes = p->call.pair_bytes,
		.tokens_max = tokens_max
	};

	*output = (struct tokenizer_output) {
		.space = p->arena->space, .ids = p->arena->ids, .type_ids = p->arena->types,
		.sources = p->arena->sources, .places = p->arena->places
	};
	return tokenizer_encode(p->m->tokenizer, p->arena->tokenizer, &input, output, &p->status);
}

/* Room for more tokens behind those of earlier rows. */
static bool
grow(struct preparing *p, uint32_t more)
{
	struct encoder_request *to = p->to;
	uint64_t	space = to->space == 0 ? 1024 : to->space;
	int32_t    *ids;

	if (to->tokens + more <= to->space)
		return true;
	if (to->tokens + more > ENCODER_REQUEST_TOKENS)
		return status_set(&p->status, INFER_ERROR_MEMORY, "the texts of a request have more than %llu tokens together",
						  (unsigned long long) ENCODER_REQUEST_TOKENS);
	while (space < to->tokens + more)
		space *= 2;
	ids = realloc(to->ids, space * sizeof(*ids));
	if (ids != NULL)
		to->ids = ids;
	if (ids != NULL && (p->m->program.bound[ENCODER_TYPES] || (p->m->encoder->graph != NULL && p->m->encoder->types_used)))
	{
		int32_t    *types = realloc(to->types, space * sizeof(*types));

		if (types == NULL)
			ids = NULL;
		else
			to->types = types;
	}
	if (ids != NULL && p->m->encoder->task == ENCODER_ENTITIES)
	{
		struct token_place *places = realloc(to->places, space * sizeof(*places));
		uint8_t    *sources = realloc(to->sources, space);

		to->places = places != NULL ? places : to->places;
		to->sources = sources != NULL ? sources : to->sources;
		if (places == NULL || sources == NULL)
			ids = NULL;
	}
	if (ids == NULL)
		return status_set(&p->status, INFER_ERROR_MEMORY, "out of memory for the tokens of a request");
	to->space = space;
	return true;
}

/* The row's text, which the ends of entities are looked up in. */
static bool
keep_text(struct preparing *p, struct encoder_row *row)
{
	struct encoder_request *to = p->to;
	uint64_t	wanted = to->texts_used + p->call.text_bytes;
	uint64_t	space = to->texts_space == 0 ? 4096 : to->texts_space;

	while (space < wanted)
		space *= 2;
	if (space > to->texts_space)
	{
		char	   *texts = realloc(to->texts, space);

		if (texts == NULL)
			return status_set(&p->status, INFER_ERROR_MEMORY, "out of memory for the texts of a request");
		to->texts = texts;
		to->texts_space = space;
	}
	memcpy(to->texts + to->texts_used, p->call.text, p->call.text_bytes);
	row->text_first = to->texts_used;
	row->text_bytes = p->call.text_bytes;
	to->texts_used = wanted;
	return true;
}

static bool
too_long(struct preparing *p, uint32_t count)
{
	const struct encoder *encoder = p->m->encoder;

	status_set(&p->status, INFER_ERROR_INPUT, "the text has %u tokens, and the model takes at most %u", count, encoder->tokens_max);
	status_detail(&p->status, "The limit comes from %s; special tokens%s count.", encoder->tokens_max_from,
				  p->call.pair != NULL ? " and both texts" : p->call.prompt_bytes > 0 ? " and the prompt" : "");
	status_hint(&p->status, "Have it cut with the option {\"truncate\": true}, or split %s with infer.chunk().",
				p->call.pair != NULL ? "the document" : "it");
	return false;
}

/* That every token has its row in the tables. */
static bool
check_tokens(struct preparing *p, uint32_t count)
{
	const struct encoder *encoder = p->m->encoder;
	int64_t		types = p->to->types != NULL && encoder->graph == NULL ? encoder->types.dims[0] : INT64_MAX;

	for (uint32_t i = 0; i < count; i++)
	{
		if (p->arena->ids[i] < 0 || p->arena->ids[i] >= encoder->vocabulary)
			return status_set(&p->status, INFER_ERROR_INPUT, "the text has the token %d, and the model knows only %lld",
							  p->arena->ids[i], (long long) encoder->vocabulary);
		if (p->arena->types[i] < 0 || p->arena->types[i] >= types)
			return status_set(&p->status, INFER_ERROR_INPUT, "the text has a token of type %d, and the model knows only %lld types",
							  p->arena->types[i], (long long) types);
	}
	return true;
}

static uint32_t
row_cost(const struct encoder_model *m, uint32_t tokens)
{
	double		nsec = m->nsec_row + m->nsec_token * tokens + m->nsec_pair * tokens * tokens;

	return nsec < 1 ? 1 : nsec > UINT32_MAX ? UINT32_MAX : (uint32_t) nsec;
}

/* The number of the row's tokens, where it is wanted. */
static void
answer_count(struct preparing *p, uint32_t row, uint32_t tokens)
{
	uint32_t	output = p->m->outputs_results + 1;

	if (encoder_wants(p->request, output))
		((int32_t *) (p->request->region + p->request->outputs[output].data_offset))[row] = (int32_t) tokens;
}

/* The row's tokens behind those of the rows before; their number is that of those that are computed. */
static bool
prepare_tokens(struct preparing *p, uint32_t row)
{
	const struct encoder *encoder = p->m->encoder;
	struct encoder_request *to = p->to;
	struct tokenizer_output output;

	if (!encode(p, p->call.truncate ? encoder->tokens_max : 0, &output))
		return false;
	if (output.count > encoder->tokens_max)
		return too_long(p, output.count);
	if (output.count == 0)
		return status_set(&p->status, INFER_ERROR_INPUT, "the text has no tokens");
	if (p->call.prompt_tokens >= output.count)
		return status_set(&p->status, INFER_ERROR_INPUT, "the text has no tokens behind those of its prompt, which pooling passes over");
	if (!grow(p, output.count) || !check_tokens(p, output.count))
		return false;
	for (uint32_t i = 0; i < output.count; i++)
	{
		to->ids[to->tokens + i] = p->arena->ids[i];
		if (to->types != NULL)
			to->types[to->tokens + i] = p->arena->types[i];
		if (to->places == NULL)
			continue;
		to->places[to->tokens + i] = p->arena->places[i];
		to->sources[to->tokens + i] = p->arena->sources[i];
	}
	to->rows[row] = (struct encoder_row) {
		.first = to->tokens, .tokens = output.count, .dimensions = p->call.dimensions,
		.prompt_characters = p->call.prompt_characters, .passed_over = p->call.prompt_tokens, .normalize = p->call.normalize
	};
	if (to->places != NULL && !keep_text(p, &to->rows[row]))
		return false;
	if (!encoder_wants(p->request, p->m->outputs_results))
		answer_count(p, row, output.count);
	to->tokens += output.count;
	p->request->units[row] = output.count;
	p->request->costs[row] = row_cost(p->m, output.count);
	return true;
}

/* ---- what needs no device ---- */

/*
 * Ids and their number, of the whole text unless the call itself asks for less.  Beside results the number is
 * theirs, which prepare_tokens knows.
 */
static bool
answer_tokens(struct preparing *p, uint32_t row)
{
	struct model_request *request = p->request;
	uint32_t	ids = p->m->outputs_results;
	uint32_t	tokens_max = p->call.truncate_asked ? p->m->encoder->tokens_max : 0;
	struct tokenizer_output output;

	if (!encoder_wants(request, ids) && (p->results || !encoder_wants(request, ids + 1)))
		return true;
	if (!encode(p, tokens_max, &output))
		return false;
	if (output.count > output.space && encoder_wants(request, ids))
	{
		if (!encoder_arena_tokens(p->arena, output.count))
			return status_set(&p->status, INFER_ERROR_MEMORY, "out of memory for %u tokens of a text", output.count);
		if (!encode(p, tokens_max, &output))
			return false;
	}
	if (encoder_wants(request, ids))
		model_reply_varying(request, ids, row, p->arena->ids, output.count);
	answer_count(p, row, output.count);
	return true;
}

/* Of the row's own text, without a prompt. */
static bool
answer_chunks(struct preparing *p, uint32_t row)
{
	static const enum chunk_border borders[] = {
		[INFER_BORDER_TOKEN] = CHUNK_TOKEN, [INFER_BORDER_SENTENCE] = CHUNK_SENTENCE, [INFER_BORDER_PARAGRAPH] = CHUNK_PARAGRAPH
	};
	const struct encoder_call *call = &p->call;
	struct chunks *chunks = &p->arena->chunks;
	uint32_t	output = p->m->outputs_results + 2;
	int32_t    *numbers;

	if (!encoder_wants(p->request, output))
		return true;
	if (!chunk_text(p->m->tokenizer, p->arena->tokenizer, call->text + call->prompt_bytes, call->text_bytes - call->prompt_bytes,
					call->chunk_tokens > 0 ? call->chunk_tokens : p->m->encoder->tokens_max, call->chunk_overlap,
					borders[call->chunk_border], chunks, &p->status))
		return false;
	numbers = malloc((size_t) chunks->count * 3 * sizeof(*numbers) + 1);
	if (numbers == NULL)
		return status_set(&p->status, INFER_ERROR_MEMORY, "out of memory for %u chunks", chunks->count);
	for (uint32_t i = 0; i < chunks->count; i++)
	{
		numbers[3 * i] = (int32_t) chunks->data[i].start;
		numbers[3 * i + 1] = (int32_t) chunks->data[i].end;
		numbers[3 * i + 2] = (int32_t) chunks->data[i].tokens;
	}
	model_reply_varying(p->request, output, row, numbers, (uint64_t) chunks->count * 3);
	free(numbers);
	return true;
}

/* ---- the request ---- */

static bool
columns_check(const struct encoder_model *m, const struct model_request *request, struct status *status)
{
	const struct infer_signature *signature = &m->model.signature;

	if (request->columns_count != signature->inputs_count)
		return status_set(status, INFER_ERROR_PROTOCOL, "a request does not fit the model's inputs");
	for (uint32_t i = 0; i < signature->inputs_count; i++)
	{
		const struct infer_column *column = &request->columns[i];
		uint64_t	width = signature->inputs[i].rank == 0 ? 1 : (uint64_t) signature->inputs[i].dims[0];

		if (column->type != signature->inputs[i].type || column->width != width ||
			infer_column_check(column, request->rows, request->region_bytes) != NULL)
			return status_set(status, INFER_ERROR_PROTOCOL, "the column \"%s\" does not fit the model's input",
							  signature->inputs[i].name);
	}
	return true;
}

/* An error stays with the row, unless there is no memory for any. */
static bool
prepare_rows(struct preparing *p, struct status *status)
{
	for (uint32_t row = 0; row < p->request->rows; row++)
	{
		if (!model_prepare_row(p->request, row))
			return status_set(status, INFER_ERROR_CANCELLED, "nobody waits for the texts any more");
		status_clear(&p->status);
		if (encoder_call_read(p->m, p->request, row, p->arena, &p->call, &p->status) &&
			answer_tokens(p, row) && answer_chunks(p, row) && (!p->results || prepare_tokens(p, row)))
			continue;
		if (p->status.error == INFER_ERROR_MEMORY)
		{
			*status = p->status;
			return false;
		}
		model_row_error(p->request, row, p->status.error, p->status.message,
						p->status.detail[0] != '\0' ? p->status.detail : NULL,
						p->status.hint[0] != '\0' ? p->status.hint : NULL);
	}
	return true;
}

static uint64_t
prepared_bytes(const struct encoder_model *m, const struct model_request *request)
{
	const struct encoder_request *to = request->prepared;
	uint64_t	token = sizeof(*to->ids) + (to->types != NULL ? sizeof(*to->types) : 0) +
		(to->places != NULL ? sizeof(*to->places) + sizeof(*to->sources) : 0);

	return sizeof(*to) + request->rows * (sizeof(*to->rows) + sizeof(*request->units) + sizeof(*request->costs)) +
		to->space * token + to->texts_space;
}

bool
encoder_model_prepare(struct model *model, struct model_request *request, struct status *status)
{
	struct encoder_model *m = (struct encoder_model *) model;
	struct encoder_request *to = calloc(1, sizeof(*to));
	struct preparing p = {.m = m, .request = request, .to = to};
	bool		prepared;

	request->prepared = to;
	request->units = calloc((size_t) request->rows + 1, sizeof(*request->units));
	request->costs = calloc((size_t) request->rows + 1, sizeof(*request->costs));
	if (to != NULL)
		to->rows = calloc((size_t) request->rows + 1, sizeof(*to->rows));
	p.arena = encoder_arena_take(m);
	if (to == NULL || to->rows == NULL || request->units == NULL || request->costs == NULL || p.arena == NULL)
	{
		if (p.arena != NULL)
			encoder_arena_give(m, p.arena);
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a request of %u rows", request->rows);
	}
	for (uint32_t i = 0; i < m->outputs_results; i++)
		p.results = p.results || encoder_wants(request, i);
	prepared = columns_check(m, request, status) && prepare_rows(&p, status);
	encoder_arena_give(m, p.arena);
	request->prepared_bytes = prepared_bytes(m, request);
	return prepared;
}

void
encoder_model_release(struct model *model, struct model_request *request)
{
	struct encoder_request *prepared = request->prepared;

	if (prepared != NULL)
	{
		free(prepared->rows);
		free(prepared->ids);
		free(prepared->types);
		free(prepared->sources);
		free(prepared->places);
		free(prepared->texts);
		free(prepared);
	}
	free(request->units);
	free(request->costs);
	request->prepared = NULL;
	request->units = NULL;
	request->costs = NULL;
}
