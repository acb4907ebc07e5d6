/*
 * reply.c
 *	  What a finished call's reply says: its columns, its rows, its errors, its profile.
 *
 * Loop
 *	reply_read checks the whole once, as it comes; the infer_client_… of one row, output or
 *	profile then look at their part.
 *
 * Invariants
 *	- What the engine wrote is copied before it is checked, and checked before it is used;
 *	  values themselves are used in place: any bits are acceptable there.
 */
#include "postgres.h"

#include "internal.h"

/* ---- the whole ---- */

bool
reply_malformed(InferCall *call, const char *what)
{
	error_set(&call->error, INFER_ERROR_PROTOCOL, "the engine's reply is malformed", NULL, NULL);
	snprintf(call->error.detail, sizeof(call->error.detail), "The check says: %s.", what);
	return false;
}

/* Of an offset of the region that the reply came in. */
static char *
reply_address(const InferCall *call, uint64 offset)
{
	return call->kept != NULL ? call->kept + (offset - call_reply_begin(call)) : call_address(call, offset);
}

/* Whether count items of so many bytes lie at offset (of the region) inside the reply. */
static bool
in_reply(const InferCall *call, uint64 offset, uint64 count, uint64 bytes)
{
	return offset % 4 == 0 && offset >= call_reply_begin(call) && offset <= call->reply_end &&
		count * bytes <= call->reply_end - offset;
}

void
reply_error(const InferCall *call, uint64 offset, uint32 error, struct infer_error_text *err)
{
	uint64		begin = call_reply_begin(call);
	struct infer_reader reader = {(uint8 *) reply_address(call, begin), call->reply_end - begin, offset, 0};

	if (offset == 0 || offset >= reader.size || infer_get_error(&reader, err) != 0)
		error_set(err, error, NULL, NULL, NULL);
	err->error = error;
}

/* NULL, or why a column of the reply is not what the catalogue says of that output. */
static const char *
result_fault(const InferCall *call, uint32 output, const struct infer_column *column)
{
	const struct infer_tensor *tensor = &call->model->signature.outputs[output];
	uint64		width = infer_tensor_width(tensor);

	if (!output_is_wanted(call->model, call->outputs, output) && column->type == INFER_TYPE_NONE)
		return NULL;
	if (column->type != tensor->type)
		return "an output is of another type than the model says";
	if (width != INFER_WIDTH_VARIES && column->width != width)
		return "an output has another number of elements than the model says";
	if (column->width == INFER_WIDTH_VARIES && column->type != INFER_TYPE_STRING && column->spans_offset == 0)
		return "a row of varying width has no span";
	return NULL;
}

bool
reply_read(InferCall *call)
{
	const struct infer_signature *signature = &call->model->signature;
	uint32		count = signature->outputs_count;
	Size		bytes = count * sizeof(struct infer_column);

	if (call->reply.columns != count)
		return reply_malformed(call, "it has another number of outputs than the model");
	if (!in_reply(call, call->reply.row_status_offset, call->rows_sent, sizeof(uint32)) ||
		!in_reply(call, call->reply.row_message_offset, call->rows_sent, sizeof(uint32)) ||
		!in_reply(call, call->reply.columns_offset, count, sizeof(struct infer_column)))
		return reply_malformed(call, "a part of it is not inside the region");

	call->results = MemoryContextAlloc(call->context, bytes + 1);
	memcpy(call->results, reply_address(call, call->reply.columns_offset), bytes);
	for (uint32 i = 0; i < count; i++)
	{
		const char *wrong = infer_column_check(&call->results[i], call->rows_sent, call->reply_end);

		if (wrong == NULL)
			wrong = result_fault(call, i, &call->results[i]);
		if (wrong != NULL)
			return reply_malformed(call, wrong);
	}
	return true;
}

/* Of [begin, end) of the region. */
static char *
copy_region(const InferCall *call, uint64 begin, uint64 end)
{
	char	   *copy = MemoryContextAllocHuge(call->context, end - begin);

	memcpy(copy, call_address(call, begin), end - begin);
	return copy;
}

/* Results that name places of the text need it. */
static bool
has_places(const InferCall *call)
{
	const struct infer_signature *signature = &call->model->signature;

	for (uint32 i = 0; i < signature->outputs_count; i++)
		if (signature->outputs[i].role == INFER_ROLE_ENTITY_PLACES)
			return true;
	return false;
}

void
reply_keep(InferCall *call)
{
	Assert(call->finished && call->region != NULL);
	if (call->rows_sent > 0)
	{
		if (has_places(call))
			call->kept_inputs = copy_region(call, INFER_REGION_HEAD, call->used);
		call->kept = copy_region(call, call_reply_begin(call), call->reply_end);
	}
	call_give_up(call);
}

/* ---- its parts ---- */

static void
set_killed(struct infer_error_text *err)
{
	error_set(err, INFER_CLIENT_ROW_KILLED, "this row, computed alone, ended the inference engine", NULL,
			  "Leave the row out, and report it with the model.");
}

/* The row's place in the reply, or ROW_KILLED. */
static uint32
reply_row(const InferCall *call, uint32 row)
{
	if (!call->finished || row >= call->rows)
		elog(ERROR, "row %u of a call with %u rows was asked for too early", row, call->rows);
	return call->row_map ? call->row_map[row] : row;
}

uint32
infer_client_row(InferCall *call, uint32 row, struct infer_error_text *err)
{
	uint32		at = reply_row(call, row);
	uint32		error;
	uint32		message;

	if (at == ROW_KILLED)
	{
		if (err != NULL)
			set_killed(err);
		return INFER_CLIENT_ROW_KILLED;
	}
	error = ((uint32 *) reply_address(call, call->reply.row_status_offset))[at];
	if (error == INFER_OK)
		return INFER_OK;
	if (error > INFER_ERROR_LAST)
		error = INFER_ERROR_INTERNAL;
	if (err != NULL)
	{
		message = ((uint32 *) reply_address(call, call->reply.row_message_offset))[at];
		reply_error(call, message, error, err);
	}
	return error;
}

/* Begin and end of a row, in elements. */
static void
row_elements(InferCall *call, const struct infer_column *column, uint32 at, uint64 *begin, uint64 *end)
{
	const uint32 *ends;

	if (column->width != INFER_WIDTH_VARIES)
	{
		*begin = at * column->width;
		*end = *begin + column->width;
		return;
	}
	ends = (const uint32 *) reply_address(call, column->rows_offset);
	*begin = at > 0 ? ends[at - 1] : 0;
	*end = ends[at];
}

pg_noreturn static void
row_malformed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("the engine's reply is malformed"),
			 errdetail("A row is not inside its column.")));
}

/* Spans are copied before they are checked: what is used is what was checked. */
static const struct infer_span *
copy_spans(InferCall *call, const struct infer_column *column, uint64 begin, uint64 count)
{
	struct infer_span *spans = MemoryContextAlloc(call->context, count * sizeof(*spans) + 1);

	memcpy(spans, reply_address(call, column->spans_offset + begin * sizeof(*spans)), count * sizeof(*spans));
	for (uint64 i = 0; i < count; i++)
		if (spans[i].begin > column->data_bytes || spans[i].length > column->data_bytes - spans[i].begin)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("the engine's reply is malformed"),
					 errdetail("A string is not inside its column.")));
	return spans;
}

/* A row of varying width: its span says where its numbers are. */
static bool
find_varying(InferCall *call, const struct infer_column *column, uint32 at, InferOutput *out)
{
	Size		bytes = infer_type_bytes(column->type);
	struct infer_span span;

	memcpy(&span, reply_address(call, column->spans_offset + at * sizeof(span)), sizeof(span));
	if (span.begin > column->data_bytes || span.length > column->data_bytes - span.begin ||
		span.begin % 8 != 0 || span.length % bytes != 0)
		return false;
	out->type = column->type;
	out->width = span.length / bytes;
	out->data = reply_address(call, column->data_offset + span.begin);
	return true;
}

void
infer_client_output(InferCall *call, uint32 row, uint32 output, InferOutput *out)
{
	uint32		at = reply_row(call, row);
	const struct infer_column *column;
	uint64		begin;
	uint64		end;
	bool		fits;

	memset(out, 0, sizeof(*out));
	if (at == ROW_KILLED || output >= call->model->signature.outputs_count)
		elog(ERROR, "row %u has no output %u", row, output);
	column = &call->results[output];
	if (column->type == INFER_TYPE_NONE)
		return;

	if (column->width == INFER_WIDTH_VARIES && column->type != INFER_TYPE_STRING)
	{
		if (!find_varying(call, column, at, out))
			row_malformed();
		return;
	}
	row_elements(call, column, at, &begin, &end);
	if (column->type == INFER_TYPE_STRING)
		fits = begin <= end && end <= (call->reply_end - column->spans_offset) / sizeof(struct infer_span);
	else
		fits = begin <= end && end <= column->data_bytes / infer_type_bytes(column->type);
	if (!fits)
		row_malformed();

	out->type = column->type;
	out->width = end - begin;
	if (column->type == INFER_TYPE_STRING)
	{
		out->data = copy_spans(call, column, begin, out->width);
		out->texts = reply_address(call, column->data_offset);
		out->texts_bytes = column->data_bytes;
	}
	else
		out->data = reply_address(call, column->data_offset + begin * infer_type_bytes(column->type));
}

const char *
infer_client_text_given(InferCall *call, uint32 row, uint32 input, Size *length)
{
	const struct infer_column *column = &call->columns[input];
	const char *inputs = call->kept_inputs != NULL ? call->kept_inputs : call_address(call, INFER_REGION_HEAD);
	uint64		bytes = call->used - column->data_offset;
	uint32		at = reply_row(call, row);
	struct infer_span span;

	if (at == ROW_KILLED || column->type != INFER_TYPE_STRING || column->width != 1)
		elog(ERROR, "row %u has no text %u", row, input);
	memcpy(&span, inputs + (column->spans_offset - INFER_REGION_HEAD) + at * sizeof(span), sizeof(span));
	if (span.begin > bytes || span.length > bytes - span.begin)
		row_malformed();
	*length = span.length;
	return inputs + (column->data_offset - INFER_REGION_HEAD) + span.begin;
}

bool
infer_client_profile(InferCall *call, struct infer_reader *profile)
{
	uint32		bytes = call->reply.profile_bytes;
	uint64		offset = call->reply.profile_offset;

	if (bytes == 0)
		return false;
	if (!call->finished || offset < call_reply_begin(call) || offset > call->reply_end ||
		bytes > call->reply_end - offset)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the engine's reply is malformed"),
				 errdetail("The profile is not inside the region.")));
	*profile = (struct infer_reader) {memcpy(palloc(bytes), reply_address(call, offset), bytes), bytes, 0, 0};
	return true;
}
