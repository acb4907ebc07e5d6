/*
 * recover.c
 *	  What the death of an engine means to a call that it had.
 *
 * The region survives in this process, and with it what the engine wrote last:
 *
 *	run_state		the call is sent again ...
 *	not running		as it was: it was only waiting
 *	running			marked: the next engine computes its rows one at a time; or the end of a call
 *					that is not to be (infer_client_set_once)
 *	running, marked	without row running_row, which died alone and is the guilty one
 *
 * An engine that was stopped on purpose (infer.restart_engine) makes nobody guilty, nor
 * does a connection that we closed ourselves.  Nor does one whose GPU was lost, if infer.device
 * is auto: before long an engine on the CPU tells whether it was a row.
 */
#include "postgres.h"

#include "internal.h"

#include "common/hashfn.h"

#define DEATHS_WITHOUT_ROW 3		/* marked, but the engine named no row */

/*
 * The span's bytes, hashed.  What lies in the region may have been written over by the
 * engine as it died: a span that leaves the inputs counts as empty.
 */
static uint64
hash_span(const InferCall *call, const struct infer_column *column, const struct infer_span *at, uint64 hash)
{
	const unsigned char *data = (const unsigned char *) call->region->head + column->data_offset;
	uint64		bytes = call->used - column->data_offset;
	struct infer_span span = *at;

	if (span.begin > bytes || span.length > bytes - span.begin)
		span = (struct infer_span) {0};
	return hash_bytes_extended(data + span.begin, span.length, hash);
}

/* A hash of the row's inputs: the same row sent again is no news to guilty_record. */
static uint64
hash_row(const InferCall *call, uint32 row)
{
	const char *base = (const char *) call->region->head;
	uint64		hash = 0;

	for (uint32 i = 0; i < call->model->signature.inputs_count; i++)
	{
		const struct infer_column *column = &call->columns[i];

		if (column->type == INFER_TYPE_STRING)
		{
			const struct infer_span *spans = (const struct infer_span *) (base + column->spans_offset);

			for (uint64 e = row * column->width; e < (row + 1) * column->width; e++)
				hash = hash_span(call, column, &spans[e], hash);
		}
		else
		{
			uint64		bytes = column->width * infer_type_bytes(column->type);

			hash = hash_bytes_extended((const unsigned char *) base + column->data_offset + row * bytes,
									   bytes, hash);
		}
	}
	return hash;
}

/* The rows behind it move up in every column. */
static void
remove_row(InferCall *call, uint32 row)
{
	char	   *base = (char *) call->region->head;

	for (uint32 i = 0; i < call->model->signature.inputs_count; i++)
	{
		struct infer_column *column = &call->columns[i];
		bool		strings = column->type == INFER_TYPE_STRING;
		uint64		bytes = column->width * (strings ? sizeof(struct infer_span) : infer_type_bytes(column->type));
		char	   *at = base + (strings ? column->spans_offset : column->data_offset) + row * bytes;

		memmove(at, at + bytes, (call->rows_sent - row - 1) * bytes);
		if (!strings)
			column->data_bytes -= bytes;
	}
	call->rows_sent--;
}

static void
map_rows(InferCall *call, uint32 removed)
{
	if (call->row_map == NULL)
	{
		call->row_map = MemoryContextAlloc(call->context, call->rows * sizeof(uint32));
		for (uint32 i = 0; i < call->rows; i++)
			call->row_map[i] = i;
	}
	for (uint32 i = 0; i < call->rows; i++)
	{
		if (call->row_map[i] == removed)
			call->row_map[i] = ROW_KILLED;
		else if (call->row_map[i] != ROW_KILLED && call->row_map[i] > removed)
			call->row_map[i]--;
	}
}

static bool
ended(InferCall *call)
{
	error_set(&call->error, INFER_CLIENT_LOST, "the inference engine ended during the call", NULL,
			  "Look into the server's log for the reason.");
	return false;
}

bool
recover_mark(InferCall *call)
{
	if (call->once)
		return ended(call);
	call->marked = true;
	return true;
}

bool
recover_call(InferCall *call)
{
	Region	   *region = call->region;
	uint32		state = infer_load_acquire32(&region->head->run_state);
	uint32		row = infer_load_acquire32(&region->head->running_row);

	call->sent = false;
	if (region->lost_by_us || state != INFER_RUN_RUNNING)
		return true;
	if (!call->marked)
		return recover_mark(call);

	/* once the next engine is there, the supervisor has said how the last one ended */
	if (!connection_ready(call->deadline, &call->error))
		return false;
	if (*(volatile uint64 *) &infer_shared->engine_blameless != call->blameless)
		return true;
	if (row >= call->rows_sent)
		return ++call->deaths < DEATHS_WITHOUT_ROW || ended(call);
	guilty_record(call->model->key, hash_row(call, row));
	remove_row(call, row);
	map_rows(call, row);
	return true;
}
