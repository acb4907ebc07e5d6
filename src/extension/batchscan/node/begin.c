/*
 * begin.c
 *	  The node's state, made of its plan: calls, their arguments, waves, quals and columns.
 *
 * Which of the child's columns are kept is settled at the first row only: that may depend on what
 * a model asks for, and a statement that has no rows looks at none.
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "node.h"

/* ---- calls ---- */

static int
scan_column(const Node *expression)
{
	const Var  *var = (const Var *) expression;

	return IsA(expression, Var) && var->varno == INDEX_VAR ? var->varattno - 1 : -1;
}

static bool
is_null_constant(const Node *expression)
{
	return IsA(expression, Const) && ((const Const *) expression)->constisnull;
}

/* A row of a table as its columns, or one that the statement makes of whatever expressions. */
static void
begin_row_argument(InferBatchState *node, NodeCall *call, const RowExpr *row)
{
	ListCell   *cell;

	call->row_columns = palloc(sizeof(int) * list_length(row->args));
	call->row_expressions = palloc0(sizeof(ExprState *) * list_length(row->args));
	foreach(cell, row->args)
	{
		int			i = call->row_columns_count++;

		call->row_columns[i] = scan_column(lfirst(cell));
		if (call->row_columns[i] < 0 && !is_null_constant(lfirst(cell)))
			call->row_expressions[i] = ExecInitExpr(lfirst(cell), &node->css.ss.ps);
	}
	call->row_values = palloc0(sizeof(Datum) * call->row_columns_count);
	call->row_nulls = palloc0(sizeof(bool) * call->row_columns_count);
}

static void
begin_arguments(InferBatchState *node, NodeCall *call, bool explain_only)
{
	int			row_argument = call->site != NULL ? infer_site_row_argument(call->site) : -1;
	ListCell   *cell;

	call->arguments_count = list_length(call->plan.args);
	call->arguments = palloc0(sizeof(NodeArgument) * call->arguments_count);
	call->values = palloc0(sizeof(Datum) * call->arguments_count);
	call->nulls = palloc0(sizeof(bool) * call->arguments_count);
	foreach(cell, call->plan.args)
	{
		int			i = foreach_current_index(cell);
		NodeArgument *argument = &call->arguments[i];

		argument->column = scan_column(lfirst(cell));
		if (i == row_argument && IsA(lfirst(cell), RowExpr))
			begin_row_argument(node, call, lfirst(cell));
		else if (argument->column < 0)
			argument->expression = ExecInitExpr(lfirst(cell), &node->css.ss.ps);
	}
	if (call->plan.guard != NULL)
		call->guard = ExecInitExpr(call->plan.guard, &node->css.ss.ps);
}

static void
check_execute(Oid function)
{
	AclResult	result = infer_function_aclcheck(function, GetUserId(), ACL_EXECUTE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

static void
begin_call(InferBatchState *node, int number, bool explain_only)
{
	NodeCall   *call = &node->calls[number];
	Oid			function = infer_called_function((Node *) call->plan.call);

	check_execute(function);
	call->column = node->child_columns + number;
	call->verb = infer_batch_verb(function);
	get_typlenbyval(exprType((Node *) call->plan.call), &call->length, &call->byval);
	if (call->verb != NULL)
	{
		if (!explain_only)
			call->site = infer_site_make(call->verb, (FuncExpr *) call->plan.call, CurrentMemoryContext);
		call->constant = call->verb->deduplicate && !infer_batch_has_column((Node *) call->plan.args);
	}
#ifdef INFER_DEVELOPER
	else
		infer_batch_function_init(node, call);
#else
	else
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("function %u is not a verb of extension infer any more", function)));
#endif
	begin_arguments(node, call, explain_only);
}

/* ---- waves ---- */

/* The first wave in which a call can be: after those whose results it uses. */
static int
earliest_wave(InferBatchState *node, const NodeCall *call, int wave)
{
	Bitmapset  *columns = NULL;
	int			column = -1;

	infer_batch_add_columns((Node *) call->plan.args, &columns);
	infer_batch_add_columns((Node *) call->plan.guard, &columns);
	while ((column = bms_next_member(columns, column)) >= 0)
		if (column >= node->child_columns)
			wave = Max(wave, node->calls[column - node->child_columns].wave + 1);
	return wave;
}

static bool
wave_is_full(const InferBatchState *node, int wave)
{
	int			calls = 0;

	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].wave == wave)
			calls++;
	return calls == WAVE_CALLS;
}

/* Calls come in the order of their stages, and a call after those that it uses. */
static void
begin_waves(InferBatchState *node)
{
	int			stage = -1;
	int			first = 0;			/* wave of the stage */
	int			wave;

	node->wave_stage = palloc0(sizeof(int) * (node->calls_count + 1));
	node->wave_protect = palloc0(sizeof(bool) * (node->calls_count + 1));
	for (int i = 0; i < node->calls_count; i++)
		node->calls[i].wave = -1;
	for (int i = 0; i < node->calls_count; i++)
	{
		NodeCall   *call = &node->calls[i];

		Assert(call->plan.stage >= stage);
		if (call->plan.stage > stage)
			first = node->waves;
		stage = call->plan.stage;
		for (wave = earliest_wave(node, call, first); wave < node->waves && wave_is_full(node, wave); wave++)
			;
		call->wave = wave;
		node->waves = Max(node->waves, call->wave + 1);
		node->wave_stage[call->wave] = stage;
		if (infer_batch_wants_protection((Node *) call->plan.args) ||
			infer_batch_wants_protection((Node *) call->plan.guard) || call->verb == NULL)
			node->wave_protect[call->wave] = true;
	}
	for (int i = 0; i < node->calls_count; i++)
		if (infer_batch_runs_plans((Node *) node->calls[i].plan.args) ||
			infer_batch_runs_plans((Node *) node->calls[i].plan.guard))
			node->wave_protect[node->calls[i].wave] = false;
}

/* ---- the node ---- */

static void
begin_quals(InferBatchState *node, List *quals)
{
	ListCell   *cell;

	node->quals_count = list_length(quals);
	node->quals = palloc0(sizeof(NodeQual) * (node->quals_count + 1));
	foreach(cell, quals)
	{
		NodeQual   *qual = &node->quals[foreach_current_index(cell)];

		qual->expression = ExecInitQual(list_make1(lfirst(cell)), &node->css.ss.ps);
		qual->protect = infer_batch_wants_protection(lfirst(cell));
	}
}

static void
begin_params(InferBatchState *node)
{
	infer_batch_add_params((Node *) node->css.ss.ps.plan->qual, &node->params);
	for (int i = 0; i < node->calls_count; i++)
	{
		infer_batch_add_params((Node *) node->calls[i].plan.args, &node->params);
		infer_batch_add_params((Node *) node->calls[i].plan.guard, &node->params);
	}
}

/* A child that scans a relation: CURRENT OF looks for the row of that relation here. */
static void
begin_base(InferBatchState *node)
{
	PlanState  *child = outerPlanState(node);

	switch (nodeTag(child))
	{
		case T_SeqScanState:
		case T_SampleScanState:
		case T_IndexScanState:
		case T_IndexOnlyScanState:
		case T_BitmapHeapScanState:
		case T_TidScanState:
		case T_TidRangeScanState:
			node->base = (ScanState *) child;
			node->css.ss.ss_currentRelation = node->base->ss_currentRelation;
			break;
		default:
			break;
	}
}

static void
begin_columns(InferBatchState *node)
{
	TupleDesc	columns = ExecGetResultType(outerPlanState(node));

	node->child_columns = columns->natts;
	node->lengths = palloc(sizeof(int16) * (columns->natts + 1));
	node->byvals = palloc(sizeof(bool) * (columns->natts + 1));
	for (int i = 0; i < columns->natts; i++)
	{
		node->lengths[i] = TupleDescAttr(columns, i)->attlen;
		node->byvals[i] = TupleDescAttr(columns, i)->attbyval;
	}
}

void
infer_batch_begin(CustomScanState *css, EState *estate, int eflags)
{
	InferBatchState *node = (InferBatchState *) css;
	CustomScan *scan = (CustomScan *) css->ss.ps.plan;
	bool		explain_only = (eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0;
	ListCell   *cell;

	outerPlanState(node) = ExecInitNode(outerPlan(scan), estate, eflags & ~EXEC_FLAG_MARK);
	infer_batch_get(scan, &node->info);
	begin_columns(node);
	begin_base(node);
	node->calls_count = list_length(node->info.calls);
	node->columns = node->child_columns + node->calls_count;
	node->calls = palloc0(sizeof(NodeCall) * (node->calls_count + 1));
	foreach(cell, node->info.calls)
		node->calls[foreach_current_index(cell)].plan = *(BatchCall *) lfirst(cell);
	for (int i = 0; i < node->calls_count; i++)
		begin_call(node, i, explain_only);
	begin_waves(node);
	begin_quals(node, scan->scan.plan.qual);
	begin_params(node);

	node->alone = !infer_batching;
	node->batch_rows = infer_statement_batch_rows;
	node->by_rows = node->alone || node->info.one_by_one || !node->info.drained;
	for (int i = 0; i < node->calls_count; i++)
		node->by_rows |= node->calls[i].verb == NULL;
	infer_batch_reset_ramp(node);
	for (int i = 0; i < BATCHES; i++)
		infer_batch_alloc(node, &node->batches[i]);
}

/* ---- the first row ---- */

/*
 * The columns that a call's row argument needs: those that its model asks for, where the model
 * will be asked for certain (an error in finding it is then due); else all.
 */
static void
keep_row_columns(InferBatchState *node, const NodeCall *call, const RowExpr *row, Bitmapset **columns)
{
	const Bitmapset *needed = NULL;
	bool		known = false;

	if (call->wave == 0 && call->guard == NULL)
		needed = infer_site_row_columns(call->site, &known);
	for (int i = 0; i < call->row_columns_count; i++)
		if (call->row_columns[i] < 0 || !known || bms_is_member(i, needed))
			infer_batch_add_columns(list_nth(row->args, i), columns);
}

static Bitmapset *
needed_columns(InferBatchState *node)
{
	Plan	   *plan = node->css.ss.ps.plan;
	Bitmapset  *columns = NULL;

	infer_batch_add_columns((Node *) plan->targetlist, &columns);
	infer_batch_add_columns((Node *) plan->qual, &columns);
	for (int i = 0; i < node->calls_count; i++)
	{
		NodeCall   *call = &node->calls[i];
		ListCell   *cell;

		infer_batch_add_columns((Node *) call->plan.guard, &columns);
		foreach(cell, call->plan.args)
		{
			const NodeArgument *argument = &call->arguments[foreach_current_index(cell)];

			if (argument->column < 0 && argument->expression == NULL)
				keep_row_columns(node, call, lfirst(cell), &columns);
			else
				infer_batch_add_columns(lfirst(cell), &columns);
		}
	}
	return columns;
}

void
infer_batch_prepare(InferBatchState *node)
{
	MemoryContext old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);
	Bitmapset  *columns = needed_columns(node);
	int			column = -1;

	node->kept = palloc(sizeof(int) * (node->child_columns + 1));
	while ((column = bms_next_member(columns, column)) >= 0 && column < node->child_columns)
	{
		node->kept[node->kept_count++] = column;
		node->kept_last = column + 1;
	}
	bms_free(columns);
	node->prepared = true;
	MemoryContextSwitchTo(old);
}
