/*
 * calls.c
 *	  The calls of a batch: a row's arguments, the requests that they go into, their results.
 *
 * Loop
 *	A wave is asked for row by row, into a request for each call; full requests are sent meanwhile,
 *	the others by infer_batch_send_wave.  infer_batch_take_wave waits for all of them and stores
 *	the results as columns.  A call whose answer every row shares is asked once.
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"

#include "../../client.h"
#include "node.h"

/* ---- a row's arguments ---- */

static void *
grown(void *array, Size bytes)
{
	return array == NULL ? palloc_extended(bytes, MCXT_ALLOC_HUGE) : repalloc_huge(array, bytes);
}

void
infer_batch_make_calls(InferBatchState *node, Batch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(batch->context);

	if (batch->calls == NULL)
		batch->calls = palloc0(sizeof(CallRows) * node->calls_count);
	batch->live = grown(batch->live, sizeof(int) * batch->rows_room);
	batch->removed = grown(batch->removed, sizeof(bool) * batch->rows_room);
	for (int i = 0; i < node->calls_count; i++)
	{
		CallRows   *rows = &batch->calls[i];

		rows->owners = grown(rows->owners, sizeof(InferRows *) * batch->rows_room);
		rows->tickets = grown(rows->tickets, sizeof(int) * batch->rows_room);
	}
	MemoryContextSwitchTo(old);
}

static inline Datum *
row_values(const InferBatchState *node, const Batch *batch, int row)
{
	return batch->values + (Size) row * node->columns;
}

static inline bool *
row_nulls(const InferBatchState *node, const Batch *batch, int row)
{
	return batch->nulls + (Size) row * node->columns;
}

static void
store_result(InferBatchState *node, Batch *batch, const NodeCall *call, int row, Datum value, bool null)
{
	row_values(node, batch, row)[call->column] = value;
	row_nulls(node, batch, row)[call->column] = null;
}

/* A row's expressions are evaluated over the scan tuple: it becomes that, unless it is. */
static void
load_once(InferBatchState *node, Batch *batch, int row, bool *loaded)
{
	if (!*loaded)
		infer_batch_load(node, batch, row);
	*loaded = true;
}

static void
read_row_argument(InferBatchState *node, Batch *batch, NodeCall *call, int row, bool *loaded)
{
	const Datum *values = row_values(node, batch, row);
	const bool *nulls = row_nulls(node, batch, row);

	for (int i = 0; i < call->row_columns_count; i++)
	{
		int			column = call->row_columns[i];

		if (call->row_expressions[i] != NULL)
		{
			load_once(node, batch, row, loaded);
			call->row_values[i] = ExecEvalExprSwitchContext(call->row_expressions[i], node->css.ss.ps.ps_ExprContext,
															&call->row_nulls[i]);
			continue;
		}
		call->row_values[i] = column < 0 ? (Datum) 0 : values[column];
		call->row_nulls[i] = column < 0 || nulls[column];
	}
}

/* Evaluates the arguments; false: the guard says that the call is not made. */
static bool
read_arguments(InferBatchState *node, Batch *batch, NodeCall *call, int row)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	const Datum *values = row_values(node, batch, row);
	const bool *nulls = row_nulls(node, batch, row);
	bool		loaded = false;

	ResetExprContext(econtext);
	if (call->guard != NULL)
	{
		bool		null;
		Datum		value;

		load_once(node, batch, row, &loaded);
		value = ExecEvalExprSwitchContext(call->guard, econtext, &null);
		if (null || !DatumGetBool(value))
			return false;
	}
	for (int i = 0; i < call->arguments_count; i++)
	{
		const NodeArgument *argument = &call->arguments[i];

		if (argument->column >= 0)
		{
			call->values[i] = values[argument->column];
			call->nulls[i] = nulls[argument->column];
		}
		else if (argument->expression != NULL)
		{
			load_once(node, batch, row, &loaded);
			call->values[i] = ExecEvalExprSwitchContext(argument->expression, econtext, &call->nulls[i]);
		}
		else
		{
			call->values[i] = (Datum) 0;
			call->nulls[i] = true;
			read_row_argument(node, batch, call, row, &loaded);
		}
	}
	return true;
}

/* ---- requests of a call ---- */

static uint32
request_class(int rows)
{
	return infer_client_class(rows == 1 ? INFER_CLASS_INTERACTIVE : INFER_CLASS_STATEMENT);
}

static void
send_open(Batch *batch, CallRows *rows)
{
	if (rows->open == NULL)
		return;
	infer_rows_submit(rows->open);
	rows->open = NULL;
	rows->open_count = 0;
}

static void
open_rows(InferBatchState *node, Batch *batch, NodeCall *call, CallRows *rows, int capacity)
{
	MemoryContext old = MemoryContextSwitchTo(batch->context);

	rows->open = infer_rows_begin(call->site, capacity, request_class(capacity), node->alone);
	rows->open_count = 0;
	rows->sent = lappend(rows->sent, rows->open);
	MemoryContextSwitchTo(old);
}

static int
add_to_open(Batch *batch, NodeCall *call, CallRows *rows, int row)
{
	MemoryContext old = MemoryContextSwitchTo(batch->context);
	int			ticket = infer_rows_add(rows->open, call->values, call->nulls, call->row_values, call->row_nulls);

	MemoryContextSwitchTo(old);
	if (ticket == INFER_TICKET_LATER)
		return ticket;
	rows->open_count++;
	rows->owners[row] = ticket == INFER_TICKET_NULL ? NULL : rows->open;
	rows->tickets[row] = ticket;
	return ticket;
}

/* false: not now, unless may_end.  A call that every row shares is a single one, and as urgent. */
static bool
add_call(InferBatchState *node, Batch *batch, NodeCall *call, CallRows *rows, int row, bool may_end)
{
	int			capacity = call->constant ? 1 : node->ramp;

	if (rows->open != NULL && rows->open_count >= capacity)
		send_open(batch, rows);
	if (rows->open == NULL)
		open_rows(node, batch, call, rows, capacity);
	if (add_to_open(batch, call, rows, row) != INFER_TICKET_LATER)
		return true;
	if (may_end && batch->begin < row)
		return false;
	send_open(batch, rows);
	open_rows(node, batch, call, rows, capacity);
	if (add_to_open(batch, call, rows, row) == INFER_TICKET_LATER)
		elog(ERROR, "a row could not be added to an empty request");
	return true;
}

/* A call whose answer every row shares: ask once. */
static bool
share_constant(InferBatchState *node, Batch *batch, NodeCall *call, CallRows *rows, int row)
{
	if (call->constant_known)
	{
		store_result(node, batch, call, row, call->constant_value, call->constant_null);
		return true;
	}
	if (rows->constant_row < 0)
	{
		rows->constant_row = row;
		return false;
	}
	rows->owners[row] = rows->owners[rows->constant_row];
	rows->tickets[row] = rows->tickets[rows->constant_row];
	return true;
}

static bool
ask(InferBatchState *node, Batch *batch, int number, int row, bool may_end)
{
	NodeCall   *call = &node->calls[number];
	CallRows   *rows = &batch->calls[number];

	rows->owners[row] = NULL;
	store_result(node, batch, call, row, (Datum) 0, true);
	if (!read_arguments(node, batch, call, row))
		return true;
	if (call->constant && share_constant(node, batch, call, rows, row))
		return true;
#ifdef INFER_DEVELOPER
	if (call->verb == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(node->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
		bool		null;
		Datum		value = infer_batch_function_run(call, &null);

		MemoryContextSwitchTo(batch->context);
		store_result(node, batch, call, row, null ? (Datum) 0 : datumCopy(value, call->byval, call->length), null);
		MemoryContextSwitchTo(old);
		return true;
	}
#endif
	return add_call(node, batch, call, rows, row, may_end);
}

bool
infer_batch_ask_wave(InferBatchState *node, Batch *batch, int wave, int row)
{
	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].wave == wave && !ask(node, batch, i, row, wave == 0))
			return false;
	return true;
}

void
infer_batch_send_wave(InferBatchState *node, Batch *batch, int wave)
{
	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].wave == wave)
			send_open(batch, &batch->calls[i]);
}

/* ---- results ---- */

static void
keep_failure(Batch *batch, int stage, InferRows *rows, int ticket, int row)
{
	PG_TRY();
	{
		infer_rows_raise(rows, ticket);
	}
	PG_CATCH();
	{
		infer_batch_keep_error(batch, stage, row);
	}
	PG_END_TRY();
}

static void
keep_constant(InferBatchState *node, NodeCall *call, Datum value, bool null)
{
	MemoryContext old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);

	call->constant_value = null ? (Datum) 0 : datumCopy(value, call->byval, call->length);
	call->constant_null = null;
	call->constant_known = true;
	MemoryContextSwitchTo(old);
}

static void
take_results(InferBatchState *node, Batch *batch, int number)
{
	NodeCall   *call = &node->calls[number];
	CallRows   *rows = &batch->calls[number];
	Size		bytes = 0;
	int			results = 0;
	ListCell   *cell;

	infer_batch_share_scope(node);
	foreach(cell, rows->sent)
		infer_rows_wait(lfirst(cell), &node->scope);
	infer_batch_share_scope(node);
	for (int i = 0; i < batch->live_count; i++)
	{
		int			row = batch->live[i];
		Datum		value;
		bool		null;

		if (batch->errors[row] != NULL || rows->owners[row] == NULL)
			continue;
		if (infer_rows_result(rows->owners[row], rows->tickets[row], &value, &null))
		{
			store_result(node, batch, call, row, value, null);
			if (!call->byval && !null)
			{
				bytes += datumGetSize(value, false, call->length);
				results++;
			}
			if (call->constant && !call->constant_known)
				keep_constant(node, call, value, null);
		}
		else
			keep_failure(batch, call->plan.stage, rows->owners[row], rows->tickets[row], row);
	}
	if (results > 0)
		call->result_bytes = bytes / results;
	foreach(cell, rows->sent)
		infer_rows_end(lfirst(cell));
	list_free(rows->sent);
	rows->sent = NIL;
}

void
infer_batch_take_wave(InferBatchState *node, Batch *batch, int wave)
{
	MemoryContext old = MemoryContextSwitchTo(batch->context);

	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].wave == wave && node->calls[i].verb != NULL)
			take_results(node, batch, i);
	MemoryContextSwitchTo(old);
}
