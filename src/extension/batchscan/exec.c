/*
 * exec.c
 *	  The node InferBatch: begin, hand out rows, rescan, end; parallel workers.
 *
 * node.h has the nouns and the loop.  Neither ExecScan nor its EvalPlanQual branch is used: a
 * recheck runs this node in an estate of its own, over the row that its child is given.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "node.h"

static const CustomExecMethods exec_methods;

static Node *
create_state(CustomScan *scan)
{
	InferBatchState *node = (InferBatchState *) newNode(sizeof(InferBatchState), T_CustomScanState);

	node->css.methods = &exec_methods;
	return (Node *) node;
}

/* ---- what an expression may do ---- */

/* Nothing in it can raise an error. */
static bool
is_plain_walker(Node *expression, void *context)
{
	if (expression == NULL)
		return false;
	switch (nodeTag(expression))
	{
		case T_Var:
		case T_Const:
		case T_RelabelType:
		case T_RowExpr:
		case T_ConvertRowtypeExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_List:
		case T_TargetEntry:
			return expression_tree_walker(expression, is_plain_walker, context);
		case T_Param:
			return ((Param *) expression)->paramkind != PARAM_EXTERN;
		default:
			return true;
	}
}

bool
infer_batch_is_plain(Node *expression)
{
	return !is_plain_walker(expression, NULL);
}

/* Its evaluation runs nodes of the executor, those of InitPlans apart (steps.c sees to them). */
static bool
runs_plans_walker(Node *expression, void *context)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, SubPlan) || IsA(expression, AlternativeSubPlan))
		return true;
	return expression_tree_walker(expression, runs_plans_walker, context);
}

/* Adds the PARAM_EXEC to *params. */
static bool
params_walker(Node *expression, Bitmapset **params)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, Param) && ((Param *) expression)->paramkind == PARAM_EXEC)
		*params = bms_add_member(*params, ((Param *) expression)->paramid);
	return expression_tree_walker(expression, params_walker, params);
}

static bool
wants_protection(Node *expression)
{
	return !infer_batch_is_plain(expression) && !runs_plans_walker(expression, NULL);
}

static bool
has_column_walker(Node *expression, void *context)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, Var))
		return true;
	return expression_tree_walker(expression, has_column_walker, context);
}

/* Adds the columns of the scan tuple to *columns. */
static bool
columns_walker(Node *expression, Bitmapset **columns)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, Var) && ((Var *) expression)->varno == INDEX_VAR)
		*columns = bms_add_member(*columns, ((Var *) expression)->varattno - 1);
	return expression_tree_walker(expression, columns_walker, columns);
}

/* ---- begin ---- */

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

static Oid
called_function(const Expr *call)
{
	return IsA(call, FuncExpr) ? ((const FuncExpr *) call)->funcid : ((const OpExpr *) call)->opfuncid;
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
	Oid			function = called_function(call->plan.call);

	check_execute(function);
	call->column = node->child_columns + number;
	call->verb = infer_batch_verb(function);
	get_typlenbyval(exprType((Node *) call->plan.call), &call->length, &call->byval);
	if (call->verb != NULL)
	{
		if (!explain_only)
			call->site = infer_site_make(call->verb, (FuncExpr *) call->plan.call, CurrentMemoryContext);
		call->constant = call->verb->deduplicate && !has_column_walker((Node *) call->plan.args, NULL);
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

/* The first wave in which a call can be: after those whose results it uses. */
static int
earliest_wave(InferBatchState *node, const NodeCall *call, int wave)
{
	Bitmapset  *columns = NULL;
	int			column = -1;

	columns_walker((Node *) call->plan.args, &columns);
	columns_walker((Node *) call->plan.guard, &columns);
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
		if (wants_protection((Node *) call->plan.args) || wants_protection((Node *) call->plan.guard) ||
			call->verb == NULL)
			node->wave_protect[call->wave] = true;
	}
	for (int i = 0; i < node->calls_count; i++)
		if (runs_plans_walker((Node *) node->calls[i].plan.args, NULL) ||
			runs_plans_walker((Node *) node->calls[i].plan.guard, NULL))
			node->wave_protect[node->calls[i].wave] = false;
}

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
		qual->protect = wants_protection(lfirst(cell));
	}
}

static void
begin_params(InferBatchState *node)
{
	params_walker((Node *) node->css.ss.ps.plan->qual, &node->params);
	for (int i = 0; i < node->calls_count; i++)
	{
		params_walker((Node *) node->calls[i].plan.args, &node->params);
		params_walker((Node *) node->calls[i].plan.guard, &node->params);
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

/* Rows of a batch whose results by reference stay within its part of work_mem, as far as is known. */
static int
rows_that_fit(const InferBatchState *node)
{
	Size		bytes = 0;

	for (int i = 0; i < node->calls_count; i++)
		bytes += node->calls[i].result_bytes;
	return bytes == 0 ? INT_MAX : (int) Min((Size) work_mem * 1024 / BATCHES / bytes + 1, INT_MAX);
}

static int
first_rows(const InferBatchState *node)
{
	int			rows = Min(node->batch_rows, rows_that_fit(node));

	for (int i = 0; i < node->calls_count; i++)
		if (!node->calls[i].byval && node->calls[i].result_bytes == 0)
			rows = Min(rows, UNMEASURED_ROWS);
	return rows;
}

static void
reset_ramp(InferBatchState *node)
{
	if (node->alone || node->info.one_by_one || node->backward)
		node->ramp = 1;
	else if (node->info.drained)
		node->ramp = first_rows(node);
	else
		node->ramp = (int) Min(Max(node->info.bound, 1), first_rows(node));
}

void
infer_batch_expect_end(PlanState *plan)
{
	InferBatchState *node = (InferBatchState *) plan;

	if (plan == NULL || !IsA(plan, CustomScanState) || node->css.methods != &exec_methods ||
		!IsA(outerPlanState(plan), ModifyTableState))
		return;
	node->info.one_by_one = node->by_rows = true;
	reset_ramp(node);
}

static void
begin_node(CustomScanState *css, EState *estate, int eflags)
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
	reset_ramp(node);
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
			columns_walker(list_nth(row->args, i), columns);
}

static Bitmapset *
needed_columns(InferBatchState *node)
{
	Plan	   *plan = node->css.ss.ps.plan;
	Bitmapset  *columns = NULL;

	columns_walker((Node *) plan->targetlist, &columns);
	columns_walker((Node *) plan->qual, &columns);
	for (int i = 0; i < node->calls_count; i++)
	{
		NodeCall   *call = &node->calls[i];
		ListCell   *cell;

		columns_walker((Node *) call->plan.guard, &columns);
		foreach(cell, call->plan.args)
		{
			const NodeArgument *argument = &call->arguments[foreach_current_index(cell)];

			if (argument->column < 0 && argument->expression == NULL)
				keep_row_columns(node, call, lfirst(cell), &columns);
			else
				columns_walker(lfirst(cell), &columns);
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

/* ---- handing out ---- */

/* Grow towards full batches, of what the models take at once. */
static void
raise_ramp(InferBatchState *node)
{
	int			full = Min(node->batch_rows, rows_that_fit(node));

	if (node->alone || node->info.one_by_one || node->backward)
		return;
	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].site != NULL)
			full = infer_site_batch_rows(node->calls[i].site, full);
	node->ramp = Min(2 * node->ramp, Max(full, 1));
}

static bool
start_batch(InferBatchState *node, Batch *batch)
{
	if (node->child_ended || !infer_batch_start(node, batch))
		return false;
	raise_ramp(node);
	return true;
}

/*
 * Whether the child may be read further while a batch is computed: if whoever reads this node
 * has shown that it wants many rows, or surely wants all; and if every constant call has been
 * answered, as it is asked once.
 */
static bool
may_run_ahead(const InferBatchState *node)
{
	if (node->alone || node->info.one_by_one || node->backward || (!node->info.drained && node->ramp < node->batch_rows))
		return false;
	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].constant && !node->calls[i].constant_known)
			return false;
	return true;
}

static Batch *
other_batch(InferBatchState *node)
{
	return node->current == &node->batches[0] ? &node->batches[1] : &node->batches[0];
}

/* Makes current a batch with a round that has been computed; false: no rows are left. */
static bool
next_round(InferBatchState *node)
{
	if (node->current == NULL || !infer_batch_restart(node, node->current))
	{
		Batch	   *batch = other_batch(node);

		if (node->ahead == NULL && !start_batch(node, batch))
			return false;
		node->current = batch;
		node->ahead = NULL;
	}
	if (node->current->end == node->current->rows_count && may_run_ahead(node) &&
		start_batch(node, other_batch(node)))
		node->ahead = other_batch(node);
	infer_batch_finish(node, node->current);
	return true;
}

static void
forget_rows(InferBatchState *node)
{
	ExecClearTuple(node->css.ss.ss_ScanTupleSlot);
	for (int i = 0; i < BATCHES; i++)
		infer_batch_clear(&node->batches[i]);
	node->current = node->ahead = NULL;
}

/*
 * The other direction: the child has gone beyond the row that was handed out last by the rows
 * that are held, and by the step to its end if it has made that.
 */
static void
turn_around(InferBatchState *node)
{
	int			beyond = 0;

	if (node->on_row)
		beyond = node->current->rows_count - 1 - node->current->live[node->current->next - 1] +
			(node->ahead != NULL ? node->ahead->rows_count : 0) + (node->child_ended ? 1 : 0);
	forget_rows(node);
	for (; beyond > 0; beyond--)
		ExecProcNode(outerPlanState(node));
	node->child_ended = false;
	node->backward = !node->backward;
	reset_ramp(node);
}

static TupleTableSlot *
exec_node(CustomScanState *css)
{
	InferBatchState *node = (InferBatchState *) css;

	if (unlikely(node->backward != ScanDirectionIsBackward(css->ss.ps.state->es_direction)))
		turn_around(node);
	for (;;)
	{
		Batch	   *batch = node->current;

		if (batch != NULL && batch->next < batch->live_count)
		{
			int			row = batch->live[batch->next++];

			node->on_row = true;
			ResetExprContext(css->ss.ps.ps_ExprContext);
			if (unlikely(batch->errors[row] != NULL))
			{
				TupleTableSlot *slot = infer_batch_again(node, batch, row);

				if (slot == NULL)
					continue;
				return slot;
			}
			infer_batch_load(node, batch, row);
			return css->ss.ps.ps_ProjInfo != NULL ? ExecProject(css->ss.ps.ps_ProjInfo) : css->ss.ss_ScanTupleSlot;
		}
		if (!next_round(node))
		{
			node->on_row = false;
			ExecClearTuple(css->ss.ss_ScanTupleSlot);
			return NULL;
		}
	}
}

static void
forget_constant(NodeCall *call)
{
	if (call->constant_known && !call->constant_null && !call->byval)
		pfree(DatumGetPointer(call->constant_value));
	call->constant_known = false;
}

static void
rescan_node(CustomScanState *css)
{
	InferBatchState *node = (InferBatchState *) css;
	bool		read_whole = node->child_ended && node->ahead == NULL &&
		(node->current == NULL || node->current->next >= node->current->live_count);

	forget_rows(node);
	node->child_ended = node->on_row = node->backward = false;
	if (css->ss.ps.chgParam != NULL)
		for (int i = 0; i < node->calls_count; i++)
			forget_constant(&node->calls[i]);
	if (!read_whole)
		reset_ramp(node);
	if (outerPlanState(node)->chgParam == NULL)
		ExecReScan(outerPlanState(node));
}

static void
end_node(CustomScanState *css)
{
	InferBatchState *node = (InferBatchState *) css;

	forget_rows(node);
	ExecEndNode(outerPlanState(node));
}

/* ---- parallel workers ---- */

static Size
estimate_shared(CustomScanState *css, ParallelContext *context)
{
	return sizeof(NodeShared);
}

static void
init_shared(CustomScanState *css, ParallelContext *context, void *place)
{
	NodeShared *shared = place;

	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->mutex);
	((InferBatchState *) css)->shared = shared;
}

static void
reinit_shared(CustomScanState *css, ParallelContext *context, void *place)
{
}

static void
init_worker(CustomScanState *css, shm_toc *toc, void *place)
{
	((InferBatchState *) css)->shared = place;
}

static void
add_counters(InferSiteCounters *sum, const InferSiteCounters *one)
{
	sum->calls += one->calls;
	sum->reused += one->reused;
	sum->batches += one->batches;
	sum->tokens += one->tokens;
	sum->queue_nsec += one->queue_nsec;
	sum->device_nsec += one->device_nsec;
	if (one->device[0] != '\0')
		memcpy(sum->device, one->device, sizeof(sum->device));
}

void
infer_batch_counters(const InferBatchState *node, InferSiteCounters *sum)
{
	*sum = node->reported;
	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].site != NULL)
		{
			InferSiteCounters one;

			infer_site_counters(node->calls[i].site, &one);
			add_counters(sum, &one);
		}
}

/*
 * Workers hand their counters over; the leader takes them before the memory goes.  It does so once:
 * a node below a subquery that two expressions share is shut down for each of them.
 */
static void
shutdown_node(CustomScanState *css)
{
	InferBatchState *node = (InferBatchState *) css;
	NodeShared *shared = node->shared;
	InferSiteCounters own;

	if (shared == NULL)
		return;
	infer_batch_counters(node, &own);
	SpinLockAcquire(&shared->mutex);
	if (IsParallelWorker())
		add_counters(&shared->counters, &own);
	else
		add_counters(&node->reported, &shared->counters);
	SpinLockRelease(&shared->mutex);
	node->shared = NULL;
}

static const CustomExecMethods exec_methods = {
	.CustomName = INFER_BATCH_NODE,
	.BeginCustomScan = begin_node,
	.ExecCustomScan = exec_node,
	.EndCustomScan = end_node,
	.ReScanCustomScan = rescan_node,
	.EstimateDSMCustomScan = estimate_shared,
	.InitializeDSMCustomScan = init_shared,
	.ReInitializeDSMCustomScan = reinit_shared,
	.InitializeWorkerCustomScan = init_worker,
	.ShutdownCustomScan = shutdown_node,
	.ExplainCustomScan = infer_batch_explain,
};

const CustomScanMethods infer_batch_methods = {
	.CustomName = INFER_BATCH_NODE,
	.CreateCustomScanState = create_state,
};
