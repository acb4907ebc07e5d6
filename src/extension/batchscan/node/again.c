/*
 * again.c
 *	  A row that has failed, evaluated by itself in the order that SQL has.
 *
 * The calls of a stage are made before the expressions around them are evaluated, and those of
 * one wave together.  So where a row fails in one place it may be due to fail, or to be seen
 * (a volatile function), in another one before.  Such a row is evaluated anew when its turn has come,
 * with the calls where the statement has them, from the stage on in which it failed: that raises
 * the error that is due.  Not where there is nothing but that one call, and not where the error
 * was none of the row's values: that would only be waited for twice.
 *
 * Everything here is made when the first such row comes.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

#include "node.h"

struct NodeAgain
{
	ExprState **quals;
	ProjectionInfo *projection;
};

/* ---- the expressions, with the calls in their places ---- */

static const NodeCall *
referred_call(const InferBatchState *node, const Node *expression)
{
	const Var  *var = (const Var *) expression;

	if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno <= node->child_columns)
		return NULL;
	return &node->calls[var->varattno - 1 - node->child_columns];
}

static Node *
restore_mutator(Node *expression, void *context)
{
	const InferBatchState *node = context;
	const NodeCall *call;
	List	   *arguments;

	if (expression == NULL)
		return NULL;
	call = referred_call(node, expression);
	if (call == NULL)
		return expression_tree_mutator(expression, restore_mutator, context);
	arguments = (List *) restore_mutator((Node *) call->plan.args, context);
	return (Node *) infer_call_with_arguments((Node *) call->plan.call, arguments);
}

/* A call that is handed on as a column has nothing around it that would keep it from being made. */
static Node *
restore_column(InferBatchState *node, Node *column)
{
	const NodeCall *call = referred_call(node, column);
	Node	   *restored = restore_mutator(column, node);
	CaseWhen   *when;
	CaseExpr   *guarded;

	if (call == NULL || call->plan.guard == NULL)
		return restored;
	when = makeNode(CaseWhen);
	when->expr = (Expr *) restore_mutator((Node *) call->plan.guard, node);
	when->result = (Expr *) restored;
	guarded = makeNode(CaseExpr);
	guarded->casetype = exprType(restored);
	guarded->casecollid = exprCollation(restored);
	guarded->args = list_make1(when);
	guarded->defresult = (Expr *) makeNullConst(exprType(restored), exprTypmod(restored), exprCollation(restored));
	return (Node *) guarded;
}

static void
make_again(InferBatchState *node)
{
	PlanState  *state = &node->css.ss.ps;
	MemoryContext old = MemoryContextSwitchTo(state->state->es_query_cxt);
	NodeAgain  *again = palloc0(sizeof(NodeAgain));
	List	   *columns = NIL;
	ListCell   *cell;

	again->quals = palloc0(sizeof(ExprState *) * (node->quals_count + 1));
	foreach(cell, state->plan->qual)
	{
		List	   *qual = list_make1(restore_mutator(lfirst(cell), node));

		again->quals[foreach_current_index(cell)] = ExecInitQual(qual, state);
	}
	foreach(cell, state->plan->targetlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, cell));

		entry->expr = (Expr *) restore_column(node, (Node *) entry->expr);
		columns = lappend(columns, entry);
	}
	again->projection = ExecBuildProjectionInfo(columns, state->ps_ExprContext,
												ExecAllocTableSlot(&state->state->es_tupleTable, state->ps_ResultTupleDesc,
																   &TTSOpsVirtual),
												state, NULL);
	node->again = again;
	MemoryContextSwitchTo(old);
}

/* ---- whether the order matters ---- */

/* There is but one call in the stage, and nothing else that could fail or be seen. */
static bool
is_alone(const InferBatchState *node, int stage)
{
	Plan	   *plan = node->css.ss.ps.plan;
	const NodeCall *only = NULL;

	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].plan.stage == stage)
		{
			if (only != NULL)
				return false;
			only = &node->calls[i];
		}
	return infer_batch_is_plain(stage < node->quals_count ? list_nth(plan->qual, stage) : (Node *) plan->targetlist);
}

/* Of the row's values; what the engine or the session came to is not tried again. */
static bool
is_of_values(int sqlerrcode)
{
	if (ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_TO_CATEGORY(ERRCODE_INFER_BUSY))
		return sqlerrcode == ERRCODE_INFER_NOT_FINITE;
	return infer_batch_error_is_rows(sqlerrcode);
}

/* ---- the row ---- */

/*
 * Raises the error that is due, the kept one or another.  If there is none after all: the row, or
 * NULL if it is not wanted.
 */
TupleTableSlot *
infer_batch_again(InferBatchState *node, const Batch *batch, int row)
{
	int			stage = batch->failed_in[row];

	if (stage < 0 || !is_of_values(batch->errors[row]->sqlerrcode) || is_alone(node, stage))
		ReThrowError(batch->errors[row]);
	if (node->again == NULL)
		make_again(node);
	infer_batch_load(node, batch, row);
	for (; stage < node->quals_count; stage++)
		if (!ExecQual(node->again->quals[stage], node->css.ss.ps.ps_ExprContext))
			return NULL;
	return ExecProject(node->again->projection);
}
