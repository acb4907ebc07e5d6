/*
 * wrap.c
 *	  A node above a plan that projects: its calls, and the quals from the first with a call on,
 *	  move up; what they need of the plan is all that it still computes.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

#include "rewrite.h"

/* Evaluates its target list for each row, and loses nothing by another one. */
bool
infer_can_wrap(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
		case T_SubqueryScan:
		case T_FunctionScan:
		case T_ValuesScan:
		case T_TableFuncScan:
		case T_CteScan:
		case T_NamedTuplestoreScan:
		case T_WorkTableScan:
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
		case T_Agg:
		case T_Group:
		case T_WindowAgg:
		case T_Gather:
		case T_GatherMerge:
			return true;
		case T_Result:
			/* PL/pgSQL looks for one that is alone */
			return plan->lefttree != NULL;
		case T_ForeignScan:
			return ((const ForeignScan *) plan)->operation == CMD_SELECT;
		default:
			return false;
	}
}

bool
infer_scans_relation(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_SeqScan:
		case T_SampleScan:
		case T_IndexScan:
		case T_BitmapHeapScan:
		case T_TidScan:
		case T_TidRangeScan:
			return true;
		case T_ForeignScan:
			return ((const ForeignScan *) plan)->fdw_scan_tlist == NIL && ((const Scan *) plan)->scanrelid > 0;
		default:
			return false;
	}
}

/* Its state is found by the executor in the plan where it stands. */
static bool
is_fixed_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CurrentOfExpr) ||
		(IsA(node, SubPlan) && ((SubPlan *) node)->subLinkType == MULTIEXPR_SUBLINK))
		return true;
	return expression_tree_walker(node, is_fixed_walker, context);
}

bool
infer_is_fixed(const Plan *plan)
{
	return is_fixed_walker((Node *) plan->targetlist, NULL) || is_fixed_walker((Node *) plan->qual, NULL);
}

static Join *
inner_join(Plan *plan)
{
	if ((IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin)) &&
		((Join *) plan)->jointype == JOIN_INNER)
		return (Join *) plan;
	return NULL;
}

/* The first qual with a call and all after it: none may be evaluated before its predecessors. */
static void
split_quals(List *quals, List **kept, List **moved)
{
	ListCell   *cell;

	foreach(cell, quals)
	{
		if (*moved != NIL || infer_has_call(lfirst(cell)))
			*moved = lappend(*moved, lfirst(cell));
		else
			*kept = lappend(*kept, lfirst(cell));
	}
}

static void
clear_async(Plan *plan)
{
	/* Append asks such a child alone without waiting; one of ours stands between now */
	plan->async_capable = false;
	if (IsA(plan, SubqueryScan))
		((SubqueryScan *) plan)->subplan->async_capable = false;
}

/*
 * Quals that moved out of a join condition may reject the first match of several: the join must
 * not stop there.
 */
static void
clear_unique(Join *join)
{
	join->inner_unique = false;
	if (join->plan.righttree != NULL && IsA(join->plan.righttree, Memoize))
		((Memoize *) join->plan.righttree)->singlerow = false;
}

static List *
make_atom_targetlist(const Hoist *hoist)
{
	List	   *targetlist = NIL;
	ListCell   *cell;

	foreach(cell, hoist->atoms)
		targetlist = lappend(targetlist, makeTargetEntry(lfirst(cell), foreach_current_index(cell) + 1, NULL, false));
	return targetlist;
}

static List *
rewrite_quals(Hoist *hoist, List *quals)
{
	List	   *rewritten = NIL;
	ListCell   *cell;

	hoist->stages = list_length(quals);
	foreach(cell, quals)
	{
		hoist->stage = foreach_current_index(cell);
		rewritten = lappend(rewritten, infer_hoist_rewrite(lfirst(cell), hoist));
	}
	hoist->stage = hoist->stages;
	return rewritten;
}

/* A Result that only projects: its child's columns serve as well. */
static bool
is_mere_projection(Plan *plan, List *kept)
{
	return IsA(plan, Result) && ((Result *) plan)->resconstantqual == NULL && kept == NIL;
}

typedef struct Quals
{
	List	   *kept;
	List	   *moved;
	List	   *join_kept;			/* of an inner join */
	bool		join_moved;			/* some of it moved */
} Quals;

static void
split_all_quals(Plan *plan, Quals *quals)
{
	Join	   *join = inner_join(plan);

	memset(quals, 0, sizeof(*quals));
	if (join != NULL)
	{
		split_quals(join->joinqual, &quals->join_kept, &quals->moved);
		quals->join_moved = quals->moved != NIL;
	}
	if (quals->join_moved)
		quals->moved = list_concat(quals->moved, plan->qual);
	else
		split_quals(plan->qual, &quals->kept, &quals->moved);
}

static bool
has_call_to_move(Plan *plan)
{
	Join	   *join = inner_join(plan);

	return infer_has_call((Node *) plan->targetlist) || infer_has_call((Node *) plan->qual) ||
		(join != NULL && infer_has_call((Node *) join->joinqual));
}

/* The plan without what has moved, giving the atoms. */
static Plan *
strip(Hoist *hoist, Plan *plan, const Quals *quals)
{
	Join	   *join = inner_join(plan);

	if (hoist->kind == HOIST_BELOW)
		return plan->lefttree;
	plan->targetlist = make_atom_targetlist(hoist);
	plan->qual = quals->kept;
	clear_async(plan);
	if (join != NULL && quals->join_moved)
	{
		join->joinqual = quals->join_kept;
		clear_unique(join);
	}
	return plan;
}

Plan *
infer_wrap(Rewrite *rewrite, Plan *plan, const Reader *reader)
{
	Hoist		hoist = {.rewrite = rewrite, .kind = HOIST_ABOVE, .allowed = true};
	Quals		quals;
	List	   *targetlist;
	List	   *moved;
	Plan	   *node;
	List	   *initplans = plan->initPlan;

	if (!infer_can_wrap(plan))
		return plan;
	if (!has_call_to_move(plan))
		return plan;
	if (infer_is_fixed(plan))
		return plan;
	infer_spread_below(&hoist, plan);
	split_all_quals(plan, &quals);
	targetlist = plan->targetlist;
	if (infer_scans_relation(plan))
	{
		targetlist = (List *) infer_spread_rows(&hoist, (Scan *) plan, (Node *) targetlist);
		quals.moved = (List *) infer_spread_rows(&hoist, (Scan *) plan, (Node *) quals.moved);
	}
	if (is_mere_projection(plan, quals.kept))
	{
		hoist.kind = HOIST_BELOW;
		hoist.atoms_count = list_length(plan->lefttree->targetlist);
	}
	else
	{
		infer_hoist_collect((Node *) targetlist, &hoist);
		infer_hoist_collect((Node *) quals.moved, &hoist);
		if (infer_scans_relation(plan))
			infer_order_atoms(&hoist, (Scan *) plan);
	}
	moved = rewrite_quals(&hoist, quals.moved);
	targetlist = (List *) infer_hoist_rewrite((Node *) targetlist, &hoist);
	if (hoist.calls == NIL)
		return plan;

	infer_count_cost(rewrite, plan, plan->targetlist, quals.moved, reader);
	plan->initPlan = NIL;
	node = infer_make_node(&hoist, strip(&hoist, plan, &quals), targetlist, moved, plan, reader);
	node->initPlan = initplans;
	return node;
}
