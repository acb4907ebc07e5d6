/*
 * limit.c
 *	  LIMIT above a node: computing what it lets through, and no more.
 */
#include "postgres.h"

#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"

#include "rewrite.h"

/* false: not known while planning. */
static bool
known_count(const Node *node, int64 *count)
{
	const Const *constant = (const Const *) node;

	*count = 0;
	if (node == NULL)
		return true;
	if (!IsA(node, Const) || constant->constisnull)
		return false;
	*count = DatumGetInt64(constant->constvalue);
	return *count >= 0;
}

/* The rows that LIMIT reads at most; 0: not known. */
int64
infer_limit_bound(const Limit *limit)
{
	int64		count;
	int64		offset;

	if (limit->limitCount == NULL || limit->limitOption != LIMIT_OPTION_COUNT ||
		!known_count(limit->limitCount, &count) || !known_count(limit->limitOffset, &offset) ||
		count > PG_INT32_MAX || offset > PG_INT32_MAX)
		return 0;
	return count + offset;
}

/*
 * A node without quals gives a row for each that it reads: it may as well read what LIMIT lets
 * through.  Not where its skipping of rows would be seen.
 */
static bool
can_swap(Rewrite *rewrite, const Limit *limit)
{
	Plan	   *node = limit->plan.lefttree;

	return infer_is_batch(node) && node->qual == NIL && limit->limitOption == LIMIT_OPTION_COUNT &&
		(limit->limitOffset == NULL || !infer_is_volatile(rewrite->statement, (Node *) node->targetlist));
}

/* The node above LIMIT, or LIMIT as it was. */
Plan *
infer_swap_limit(Rewrite *rewrite, Limit *limit)
{
	Plan	   *plan = &limit->plan;
	Plan	   *node = plan->lefttree;

	if (!can_swap(rewrite, limit))
		return plan;

	/* the names of the result and what is junk in it are known to the upper plan only */
	apply_tlist_labeling(node->targetlist, plan->targetlist);
	plan->lefttree = node->lefttree;
	plan->targetlist = infer_outer_targetlist(plan->lefttree);
	plan->plan_width = plan->lefttree->plan_width;
	node->lefttree = plan;
	node->startup_cost = plan->startup_cost;
	node->total_cost = plan->total_cost;
	node->plan_rows = plan->plan_rows;
	node->extParam = bms_union(node->extParam, plan->extParam);
	node->allParam = bms_union(node->allParam, plan->allParam);
	node->initPlan = list_concat(plan->initPlan, node->initPlan);
	plan->initPlan = NIL;
	return node;
}
