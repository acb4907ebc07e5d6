/*
 * steps.c
 *	  A batch's way from the child's rows to rows that can be handed out: waves of calls, and the
 *	  quals between them.
 *
 * Loop
 *	infer_batch_start fetches rows and adds them to the first wave's requests, until one is full,
 *	and sends these; infer_batch_finish waits for each wave, stores its results as columns,
 *	applies the qual of its stage, and sends the next one.
 *
 * Errors
 *	An expression is evaluated for rows that may never be asked for, so its error is kept.  Where
 *	arguments, guards or quals can raise errors they run in a subtransaction, one for a whole
 *	loop over rows unless one fails.  Not where none can be had (subplans, whose nodes do not
 *	survive an error; parallel mode, but for workers from 17 on): there an error is raised at once.
 *	Neither are errors kept that concern the session and not the row: cancellation, resources, deadlocks.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "node.h"

/* ---- loops over rows, with errors kept ---- */

/* false: stop before this row. */
typedef bool (*RowStep) (InferBatchState *node, Batch *batch, int what, int row);

static bool ask_wave(InferBatchState *node, Batch *batch, int wave, int row);

bool
infer_batch_error_is_rows(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case MAKE_SQLSTATE('0', '8', '0', '0', '0'):	/* connection */
		case MAKE_SQLSTATE('4', '0', '0', '0', '0'):	/* transaction rollback */
		case MAKE_SQLSTATE('5', '3', '0', '0', '0'):	/* resources */
		case MAKE_SQLSTATE('5', '7', '0', '0', '0'):	/* operator intervention */
		case MAKE_SQLSTATE('5', '8', '0', '0', '0'):	/* system */
		case MAKE_SQLSTATE('X', 'X', '0', '0', '0'):	/* internal */
			return false;
		default:
			return true;
	}
}

/* After PG_CATCH.  stage: see Batch. */
static void
keep_error(Batch *batch, int stage, int row)
{
	if (!infer_batch_error_is_rows(geterrcode()))
		PG_RE_THROW();
	MemoryContextSwitchTo(batch->context);
	batch->errors[row] = CopyErrorData();
	batch->failed_in[row] = stage;
	FlushErrorState();
}

static bool
loop_rows(InferBatchState *node, Batch *batch, RowStep step, int what, int *place, int last)
{
	for (; *place < last; (*place)++)
	{
		int			row = batch->live[*place];

		CHECK_FOR_INTERRUPTS();
		if (batch->errors[row] == NULL && !step(node, batch, what, row))
			return false;
	}
	return true;
}

static bool
loop_protected(InferBatchState *node, Batch *batch, RowStep step, int what, int *place, int last)
{
	int			stage = step == ask_wave ? node->wave_stage[what] : -1;
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool whole = true;
	volatile bool failed;

	do
	{
		failed = false;
		BeginInternalSubTransaction(NULL);
		MemoryContextSwitchTo(context);
		PG_TRY();
		{
			whole = loop_rows(node, batch, step, what, place, last);
			ReleaseCurrentSubTransaction();
		}
		PG_CATCH();
		{
			keep_error(batch, stage, batch->live[*place]);
			RollbackAndReleaseCurrentSubTransaction();
			failed = true;
			(*place)++;
		}
		PG_END_TRY();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	} while (failed);
	return whole;
}

/* Whether an evaluation may run an InitPlan, whose nodes would not survive an error. */
static bool
may_run_initplan(const InferBatchState *node)
{
	int			param = -1;

	while ((param = bms_next_member(node->params, param)) >= 0)
		if (node->css.ss.ps.state->es_param_exec_vals[param].execPlan != NULL)
			return true;
	return false;
}

/*
 * Runs step for the live rows from *place on; where it stopped stays in *place.  Unprotected until
 * the InitPlans have run, which the first row does as a rule.
 */
static bool
run_rows(InferBatchState *node, Batch *batch, RowStep step, int what, int *place, int last, bool protect)
{
	if (!protect || !infer_can_subtransact())
		return loop_rows(node, batch, step, what, place, last);
	while (*place < last && may_run_initplan(node))
		if (!loop_rows(node, batch, step, what, place, *place + 1))
			return false;
	return loop_protected(node, batch, step, what, place, last);
}

/* ---- one call of one row ---- */

static void *
grown(void *array, Size bytes)
{
	return array == NULL ? palloc_extended(bytes, MCXT_ALLOC_HUGE) : repalloc_huge(array, bytes);
}

/* Arrays as long as the batch's rows are. */
static void
make_call_rows(InferBatchState *node, Batch *batch)
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
	switch (infer_request_class)
	{
		case INFER_REQUEST_INTERACTIVE:
			return INFER_CLASS_INTERACTIVE;
		case INFER_REQUEST_STATEMENT:
			return INFER_CLASS_STATEMENT;
		case INFER_REQUEST_JOB:
			return INFER_CLASS_JOB;
		default:
			return rows == 1 ? INFER_CLASS_INTERACTIVE : INFER_CLASS_STATEMENT;
	}
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

/* RowStep */
static bool
ask_wave(InferBatchState *node, Batch *batch, int wave, int row)
{
	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].wave == wave && !ask(node, batch, i, row, wave == 0))
			return false;
	return true;
}

static void
send_wave(InferBatchState *node, Batch *batch, int wave)
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
		MemoryContextSwitchTo(batch->context);
		batch->errors[row] = CopyErrorData();
		batch->failed_in[row] = stage;
		FlushErrorState();
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

	foreach(cell, rows->sent)
		infer_rows_wait(lfirst(cell));
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

static void
take_wave(InferBatchState *node, Batch *batch, int wave)
{
	MemoryContext old = MemoryContextSwitchTo(batch->context);

	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].wave == wave && node->calls[i].verb != NULL)
			take_results(node, batch, i);
	MemoryContextSwitchTo(old);
}

/* ---- quals ---- */

/* RowStep */
static bool
check_qual(InferBatchState *node, Batch *batch, int qual, int row)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;

	ResetExprContext(econtext);
	infer_batch_load(node, batch, row);
	batch->removed[row] = !ExecQual(node->quals[qual].expression, econtext);
	return true;
}

static void
apply_qual(InferBatchState *node, Batch *batch, int qual)
{
	int			place = 0;
	int			kept = 0;

	for (int i = 0; i < batch->live_count; i++)
		batch->removed[batch->live[i]] = false;
	run_rows(node, batch, check_qual, qual, &place, batch->live_count, node->quals[qual].protect);
	for (int i = 0; i < batch->live_count; i++)
	{
		int			row = batch->live[i];

		if (batch->removed[row])
			InstrCountFiltered1(node, 1);
		else
			batch->live[kept++] = row;
	}
	batch->live_count = kept;
}

/* ---- rounds ---- */

static void
begin_round(InferBatchState *node, Batch *batch)
{
	for (int i = 0; i < node->calls_count; i++)
		batch->calls[i].constant_row = -1;
	batch->live_count = 0;
	batch->next = 0;
}

/* Adds rows [first, rows_count) to the first wave; false: the round ends before the last of them. */
static bool
add_first_wave(InferBatchState *node, Batch *batch, int first)
{
	int			place = batch->live_count;

	for (int row = first; row < batch->rows_count; row++)
		batch->live[batch->live_count++] = row;
	if (run_rows(node, batch, ask_wave, 0, &place, batch->live_count, node->wave_protect[0]))
	{
		batch->end = batch->rows_count;
		return true;
	}
	batch->end = batch->live[place];
	batch->live_count = place;
	return false;
}

static int
most_tickets(const InferBatchState *node, const Batch *batch)
{
	int			most = 0;

	for (int i = 0; batch->calls != NULL && i < node->calls_count; i++)
		if (node->calls[i].wave == 0)
			most = Max(most, batch->calls[i].open_count);
	return most;
}

bool
infer_batch_start(InferBatchState *node, Batch *batch)
{
	int			rows_max = node->ramp;

	infer_batch_clear(batch);
	for (;;)
	{
		int			first = batch->rows_count;
		int			wanted = rows_max - most_tickets(node, batch);

		if (node->by_rows)
			wanted = Min(wanted, rows_max - first);
		if (wanted <= 0 || infer_batch_fetch(node, batch, wanted) == 0)
			break;
		make_call_rows(node, batch);
		if (first == 0)
			begin_round(node, batch);
		if (!add_first_wave(node, batch, first))
			break;
	}
	if (batch->rows_count == 0)
		return false;
	send_wave(node, batch, 0);
	return true;
}

bool
infer_batch_restart(InferBatchState *node, Batch *batch)
{
	if (batch->end == batch->rows_count)
		return false;
	begin_round(node, batch);
	batch->begin = batch->end;
	add_first_wave(node, batch, batch->begin);
	send_wave(node, batch, 0);
	return true;
}

void
infer_batch_finish(InferBatchState *node, Batch *batch)
{
	int			wave = 0;

	for (int stage = 0; stage <= node->quals_count; stage++)
	{
		for (; wave < node->waves && node->wave_stage[wave] == stage; wave++)
		{
			int			place = 0;

			if (wave > 0)
			{
				run_rows(node, batch, ask_wave, wave, &place, batch->live_count, node->wave_protect[wave]);
				send_wave(node, batch, wave);
			}
			take_wave(node, batch, wave);
		}
		if (stage < node->quals_count)
			apply_qual(node, batch, stage);
	}
}
