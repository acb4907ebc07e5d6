/*
 * push.c
 *	  A node below a plan: calls within the arguments of aggregates and of set-returning functions,
 *	  computed for the rows that the plan reads.
 *
 * The node passes its child's columns on, so whatever else the plan refers to stays as it is.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"

#include "rewrite.h"

/* An aggregate's arguments are evaluated for the rows that its filter lets through. */
static Aggref *
push_aggregate(Hoist *hoist, Aggref *aggregate)
{
	Aggref	   *result = copyObject(aggregate);
	Expr	   *guard = NULL;

	if (!infer_has_call((Node *) aggregate->args) && !infer_has_call((Node *) aggregate->aggfilter))
		return result;
	if (aggregate->aggfilter != NULL)
	{
		Node	   *filter = infer_hoist_rewrite((Node *) aggregate->aggfilter, hoist);

		guard = infer_make_test(IS_TRUE, AND_EXPR, list_make1(filter));
		result->aggfilter = (Expr *) infer_index_to_outer(filter);
	}
	result->args = (List *) infer_index_to_outer(infer_hoist_guarded((Node *) aggregate->args, guard, hoist));
	return result;
}

static Node *
push_aggregates_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Aggref))
		return (Node *) push_aggregate(context, (Aggref *) node);
	return expression_tree_mutator(node, push_aggregates_mutator, context);
}

void
infer_begin_below(Hoist *hoist, Rewrite *rewrite, Plan *plan)
{
	memset(hoist, 0, sizeof(*hoist));
	hoist->rewrite = rewrite;
	hoist->kind = HOIST_BELOW;
	hoist->allowed = true;
	infer_spread_below(hoist, plan);
	hoist->atoms_count = list_length(plan->lefttree->targetlist);
}

/* Between a plan and its child; expressions: where the calls were. */
void
infer_put_below(Hoist *hoist, Plan *plan, List *expressions, const Reader *reader)
{
	Plan	   *child = plan->lefttree;

	infer_count_cost(hoist->rewrite, child, expressions, NIL, reader);
	plan->lefttree = infer_make_node(hoist, child, infer_pass_targetlist(hoist, child), NIL, child, reader);

	/* the calls use parameters that only the plan did: the node must learn when they change */
	plan->lefttree->extParam = bms_union(child->extParam, plan->extParam);
	plan->lefttree->allParam = bms_union(child->allParam, plan->allParam);
}

void
infer_push_aggregates(Rewrite *rewrite, Agg *agg, const Reader *reader)
{
	Plan	   *plan = &agg->plan;
	Hoist		hoist;
	List	   *targetlist;
	List	   *qual;

	if (!infer_has_call((Node *) plan->targetlist) && !infer_has_call((Node *) plan->qual))
		return;
	infer_begin_below(&hoist, rewrite, plan);
	targetlist = (List *) push_aggregates_mutator((Node *) plan->targetlist, &hoist);
	qual = (List *) push_aggregates_mutator((Node *) plan->qual, &hoist);
	if (hoist.calls == NIL)
		return;
	infer_put_below(&hoist, plan, plan->targetlist, reader);
	plan->targetlist = targetlist;
	plan->qual = qual;
}

/* Sets' arguments and what stands beside them are evaluated at least once for each row read. */
void
infer_push_sets(Rewrite *rewrite, ProjectSet *sets, const Reader *reader)
{
	Plan	   *plan = &sets->plan;
	Hoist		hoist;
	List	   *targetlist;

	if (plan->lefttree == NULL || !infer_has_call((Node *) plan->targetlist))
		return;
	infer_begin_below(&hoist, rewrite, plan);
	targetlist = (List *) infer_index_to_outer(infer_hoist_rewrite((Node *) plan->targetlist, &hoist));
	if (hoist.calls == NIL)
		return;
	infer_put_below(&hoist, plan, plan->targetlist, reader);
	plan->targetlist = targetlist;
}
