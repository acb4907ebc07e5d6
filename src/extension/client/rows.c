/*
 * rows.c
 *	  What a call of many rows wants beside what one of a single row does: it is begun before it is
 *	  known how many rows there will be, and rows are looked at, and taken back, as they come.
 */
#include "postgres.h"

#include "internal.h"

void
infer_client_set_rows(InferCall *call, uint32 rows)
{
	Assert(!call->sent && rows > 0 && rows <= call->rows);
	call->rows = call->rows_sent = rows;
}

void
infer_client_set_once(InferCall *call)
{
	Assert(!call->sent);
	call->once = true;
}

uint64
infer_client_rows_bytes(const InferModel *model, uint32 rows)
{
	const struct infer_signature *signature = &model->signature;
	uint64		bytes = inputs_bytes(model, rows);

	for (uint32 i = 0; i < signature->outputs_count; i++)
		if (output_is_wanted(model, 0, i))
			bytes += tensor_bytes(&signature->outputs[i], rows);
	return bytes;
}

uint64
infer_client_used(const InferCall *call)
{
	return call->used;
}

void
infer_client_unwrite(InferCall *call, uint64 used)
{
	Assert(!call->sent && used <= call->used);
	call->used = used;			/* columns stay; strings were behind them */
}

/* ---- a row's bytes ---- */

static const char *
row_address(const InferCall *call, const struct infer_column *column, uint32 row, Size bytes)
{
	return call_address(call, column->data_offset + row * bytes);
}

/* The strings of a row, each with its length. */
static void
append_strings(const InferCall *call, const struct infer_column *column, uint32 row, StringInfo out)
{
	const struct infer_span *spans = (const struct infer_span *) call_address(call, column->spans_offset);

	for (uint64 i = row * column->width; i < (row + 1) * column->width; i++)
	{
		appendBinaryStringInfo(out, (const char *) &spans[i].length, sizeof(spans[i].length));
		appendBinaryStringInfo(out, call_address(call, column->data_offset + spans[i].begin), spans[i].length);
	}
}

const void *
infer_client_row_key(const InferCall *call, uint32 row, StringInfo scratch, Size *length)
{
	uint32		count = call->model->signature.inputs_count;
	const struct infer_column *column = &call->columns[0];

	if (count == 1 && column->type != INFER_TYPE_STRING)
	{
		*length = column->width * infer_type_bytes(column->type);
		return row_address(call, column, row, *length);
	}
	resetStringInfo(scratch);
	for (uint32 i = 0; i < count; i++)
	{
		Size		bytes;

		column = &call->columns[i];
		bytes = column->width * infer_type_bytes(column->type);
		if (column->type == INFER_TYPE_STRING)
			append_strings(call, column, row, scratch);
		else
			appendBinaryStringInfo(scratch, row_address(call, column, row, bytes), bytes);
	}
	*length = scratch->len;
	return scratch->data;
}

/* ---- what the engine says of it ---- */

void
infer_client_times(const InferCall *call, uint64 *queue, uint64 *compute)
{
	*queue = call->reply.queue_nsec;
	*compute = call->reply.compute_nsec;
}

uint64
infer_client_prepare_nsec(const InferCall *call)
{
	return call->reply.prepare_nsec;
}

uint64
infer_client_tokens(const InferCall *call)
{
	return call->reply.tokens;
}

const char *
infer_client_device(void)
{
	static char name[sizeof(connection.page->device)];

	if (connection.page == NULL)
		return "";
	memcpy(name, connection.page->device, sizeof(name) - 1);
	return name;
}
