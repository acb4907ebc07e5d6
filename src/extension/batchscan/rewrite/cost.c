/*
 * cost.c
 *	  What the calls of a plan cost, taken out of the decision whether to compile expressions: a
 *	  model's time is not an expression's.
 */
#include "postgres.h"

#include "jit/jit.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"

#include "rewrite.h"

/* Of one evaluation. */
static bool
add_cost_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (infer_batch_is_call(node))
	{
		QualCost	cost = {0};

		add_function_cost(NULL, infer_called_function(node), node, &cost);
		*(Cost *) context += cost.per_tuple;
	}
	return expression_tree_walker(node, add_cost_walker, context);
}

static Cost
calls_cost(List *expressions)
{
	Cost		cost = 0;

	add_cost_walker((Node *) expressions, &cost);
	return cost;
}

static void
add_total_visitor(Plan *plan, void *context)
{
	*(Cost *) context += plan->total_cost;
}

/*
 * The quals were evaluated for rows that the plan does not tell of; but all of them together cost
 * no more than the plan without its children.
 */
void
infer_count_cost(Rewrite *rewrite, Plan *plan, List *targetlist, List *quals, const Reader *reader)
{
	Cost		cost = calls_cost(targetlist) * plan->plan_rows;
	Cost		of_quals = calls_cost(quals);

	if (of_quals > 0)
	{
		Cost		of_children = 0;
		Cost		own;

		infer_visit_children(plan, add_total_visitor, &of_children);
		own = Max(plan->total_cost - of_children, 0);
		cost = Max(cost, own * of_quals / (of_quals + cpu_tuple_cost));
	}
	rewrite->calls_cost += cost * reader->loops;
}

void
infer_lower_jit(const Rewrite *rewrite)
{
	PlannedStmt *statement = rewrite->statement;
	Cost		cost = statement->planTree->total_cost - rewrite->calls_cost;

	if (cost <= jit_above_cost)
		statement->jitFlags = PGJIT_NONE;
	if (cost <= jit_optimize_above_cost)
		statement->jitFlags &= ~PGJIT_OPT3;
	if (cost <= jit_inline_above_cost)
		statement->jitFlags &= ~PGJIT_INLINE;
}
