/*
 * exec.c
 *	  The node InferBatch: hand out rows, rescan, end.
 *
 * node.h has the nouns and the loop.  Neither ExecScan nor its EvalPlanQual branch is used: a
 * recheck runs this node in an estate of its own, over the row that its child is given.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "node.h"

static const CustomExecMethods exec_methods;

/* ---- how many rows a batch has ---- */

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

void
infer_batch_reset_ramp(InferBatchState *node)
{
	if (node->alone || node->info.one_by_one || node->backward)
		node->ramp = 1;
	else if (node->info.drained)
		node->ramp = first_rows(node);
	else
		node->ramp = (int) Min(Max(node->info.bound, 1), first_rows(node));
}

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

/* ---- handing out ---- */

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
	infer_batch_reset_ramp(node);
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
		infer_batch_reset_ramp(node);
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

/* ---- as the executor and the planner know it ---- */

static Node *
create_state(CustomScan *scan)
{
	InferBatchState *node = (InferBatchState *) newNode(sizeof(InferBatchState), T_CustomScanState);

	node->css.methods = &exec_methods;
	return (Node *) node;
}

void
infer_batch_expect_end(PlanState *plan)
{
	InferBatchState *node = (InferBatchState *) plan;

	if (plan == NULL || !IsA(plan, CustomScanState) || node->css.methods != &exec_methods ||
		!IsA(outerPlanState(plan), ModifyTableState))
		return;
	node->info.one_by_one = node->by_rows = true;
	infer_batch_reset_ramp(node);
}

static const CustomExecMethods exec_methods = {
	.CustomName = INFER_BATCH_NODE,
	.BeginCustomScan = infer_batch_begin,
	.ExecCustomScan = exec_node,
	.EndCustomScan = end_node,
	.ReScanCustomScan = rescan_node,
	.EstimateDSMCustomScan = infer_batch_estimate_shared,
	.InitializeDSMCustomScan = infer_batch_init_shared,
	.ReInitializeDSMCustomScan = infer_batch_reinit_shared,
	.InitializeWorkerCustomScan = infer_batch_init_worker,
	.ShutdownCustomScan = infer_batch_shutdown,
	.ExplainCustomScan = infer_batch_explain,
};

const CustomScanMethods infer_batch_methods = {
	.CustomName = INFER_BATCH_NODE,
	.CreateCustomScanState = create_state,
};
