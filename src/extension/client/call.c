/*
 * call.c
 *	  Calls: their begin, the values that are filled into their regions, their end.
 *
 * Nouns
 *	inputs		columns, bump-allocated in the region from INFER_REGION_HEAD on: the array of
 *				struct infer_column first, then the values as they are asked for
 *	reply		the rest of the region, behind the inputs
 *
 * Loop
 *	infer_client_begin takes a region of the size that inputs and reply will most likely have;
 *	infer_client_column and infer_client_string fill it, and have it grown; exchange.c sends it
 *	and waits; reply.c reads; infer_client_end, or the context's reset, releases all.
 *
 * Invariants
 *	- A call lives in a memory context of its own, whose reset callback releases the region
 *	  and cancels what is in flight.
 *	- Nothing is filled while a request is in the region: it is the engine's then.
 */
#include "postgres.h"

#include "internal.h"

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#define ROW_TEXT_BYTES 256			/* of the first few row errors, in the first guess of a reply */

/* ---- beginning ---- */

/* Bytes that a row of this tensor takes; a guess where strings or dimensions vary. */
static uint64
tensor_row_bytes(const struct infer_tensor *tensor)
{
	uint64		elements = 1;
	Size		bytes = infer_type_bytes(tensor->type);

	for (uint32 d = 0; d < tensor->rank; d++)
		elements *= tensor->dims[d] >= 0 ? tensor->dims[d] : 64;
	return elements * (bytes != 0 ? bytes : sizeof(struct infer_span) + 32);
}

uint64
tensor_bytes(const struct infer_tensor *tensor, uint64 rows)
{
	return tensor_row_bytes(tensor) * rows + sizeof(struct infer_column) + 64;
}

uint64
inputs_bytes(const InferModel *model, uint64 rows)
{
	uint64		bytes = 0;

	for (uint32 i = 0; i < model->signature.inputs_count; i++)
		bytes += tensor_bytes(&model->signature.inputs[i], rows);
	return bytes;
}

bool
output_is_wanted(const InferModel *model, uint32 outputs, uint32 output)
{
	if (outputs == 0)
		return (model->signature.outputs[output].flags & INFER_TENSOR_HIDDEN) == 0;
	return output < 32 && (outputs >> output & 1) != 0;
}

bool
call_is_of_tokens(const InferCall *call)
{
	if (call->outputs == 0)
		return false;
	for (uint32 i = 0; i < call->model->signature.outputs_count; i++)
		if (output_is_wanted(call->model, call->outputs, i) &&
			(call->model->signature.outputs[i].flags & INFER_TENSOR_HIDDEN) == 0)
			return false;
	return true;
}

/* What varies with the text that was given, tokens say, has a number of 4 bytes for every 2 of it at most. */
static uint64
output_bytes(const InferCall *call, const struct infer_tensor *tensor)
{
	bool		of_text = tensor->role == INFER_ROLE_TOKENS || tensor->role == INFER_ROLE_CHUNKS;

	return tensor_bytes(tensor, call->rows_sent) + (of_text ? 2 * call->used : 0);
}

uint64
call_reply_bytes(const InferCall *call)
{
	const struct infer_signature *signature = &call->model->signature;
	uint64		rows = call->rows_sent;
	uint64		bytes = 1024 + rows * 2 * sizeof(uint32) + Min(rows, 8) * ROW_TEXT_BYTES;

	for (uint32 i = 0; i < signature->outputs_count; i++)
		if (output_is_wanted(call->model, call->outputs, i))
			bytes += output_bytes(call, &signature->outputs[i]);
		else
			bytes += sizeof(struct infer_column);
	return bytes;
}

void
call_give_up(InferCall *call)
{
	Region	   *region = call->region;

	call->region = NULL;
	if (region == NULL)
		return;
	if (call->sent && !region_is_done(region) && connection_is(region->connection))
		connection_post(INFER_FRAME_CANCEL, region->slot, (uint32) region->seq, NULL, 0);
	region_release(region, call->used);
}

/* The reset callback. */
static void
release_call(void *arg)
{
	call_give_up(arg);
}

uint32
infer_client_class(uint32 class_)
{
	switch (infer_request_class)
	{
		case INFER_REQUEST_INTERACTIVE:
			return INFER_CLASS_INTERACTIVE;
		case INFER_REQUEST_STATEMENT:
			return INFER_CLASS_STATEMENT;
		case INFER_REQUEST_JOB:
			return INFER_CLASS_JOB;
		default:
			return class_;
	}
}

InferCall *
infer_client_begin(const InferModel *model, uint32 rows, uint32 class_)
{
	const struct infer_signature *signature = &model->signature;
	MemoryContext context;
	InferCall  *call;

	infer_require_preload();
	Assert(rows > 0 && rows <= INFER_ROWS_MAX);
	context = AllocSetContextCreate(CurrentMemoryContext, "infer call", ALLOCSET_SMALL_SIZES);
	call = MemoryContextAllocZero(context, sizeof(InferCall));
	call->context = context;
	call->model = model;
	call->rows = call->rows_sent = rows;
	call->class_ = infer_client_class(class_);
	call->columns = MemoryContextAllocZero(context, signature->inputs_count * sizeof(struct infer_column) + 1);
	call->used = align_up(INFER_REGION_HEAD + signature->inputs_count * sizeof(struct infer_column), 64);

	call->callback.func = release_call;
	call->callback.arg = call;
	MemoryContextRegisterResetCallback(context, &call->callback);
	call->region = region_take(call, call->used + call_reply_bytes(call) + inputs_bytes(model, rows));
	return call;
}

/* ---- filling ---- */

/* Offset of so many bytes behind what is used; the region may move. */
static uint64
reserve(InferCall *call, uint64 bytes, uint64 alignment)
{
	uint64		offset = align_up(call->used, alignment);

	Assert(!call->sent);
	if (bytes > INFER_REGION_MAX || offset + bytes > call->region->size)
		region_grow(call->region, offset + bytes, call->used);
	call->used = offset + bytes;
	return offset;
}

static struct infer_column *
check_input(InferCall *call, uint32 input)
{
	if (input >= call->model->signature.inputs_count)
		elog(ERROR, "input %u of a model with %u inputs", input, call->model->signature.inputs_count);
	return &call->columns[input];
}

void *
infer_client_column(InferCall *call, uint32 input, uint64 width)
{
	struct infer_column *column = check_input(call, input);
	uint32		type = call->model->signature.inputs[input].type;
	uint64		element = type == INFER_TYPE_STRING ? sizeof(struct infer_span) : infer_type_bytes(type);
	uint64		bytes;

	if (column->type != INFER_TYPE_NONE)
	{
		if (column->width != width)
			elog(ERROR, "input %u was begun with another width", input);
	}
	else
	{
		if (width == INFER_WIDTH_VARIES)
			elog(ERROR, "input %u was begun without a width", input);
		bytes = width > INFER_REGION_MAX / element / call->rows ? UINT64_MAX / 2 : call->rows * width * element;
		if (type == INFER_TYPE_STRING)
		{
			column->spans_offset = reserve(call, bytes, 64);
			column->data_offset = INFER_REGION_HEAD;
			memset(call_address(call, column->spans_offset), 0, bytes);
		}
		else
		{
			column->data_offset = reserve(call, bytes, 64);
			column->data_bytes = bytes;
		}
		column->type = type;
		column->width = width;
	}
	return call_address(call, type == INFER_TYPE_STRING ? column->spans_offset : column->data_offset);
}

void
infer_client_string(InferCall *call, uint32 input, uint64 element, const char *text, Size length)
{
	struct infer_column *column = check_input(call, input);
	char	   *utf8 = pg_server_to_any(text, length, PG_UTF8);
	struct infer_span span;
	uint64		offset;

	if (column->type != INFER_TYPE_STRING || element >= call->rows * column->width)
		elog(ERROR, "input %u has no string %llu", input, (unsigned long long) element);
	if (utf8 != text)
		length = strlen(utf8);
	offset = reserve(call, length, 1);
	memcpy(call_address(call, offset), utf8, length);
	span.begin = offset - INFER_REGION_HEAD;
	span.length = length;
	((struct infer_span *) call_address(call, column->spans_offset))[element] = span;
	if (utf8 != text)
		pfree(utf8);
}

/* ---- the end ---- */

void
infer_client_end(InferCall *call)
{
	MemoryContextDelete(call->context);	/* release_call runs */
}
