/*
 * plan.c
 *	  The walk over a finished plan that puts nodes InferBatch into it.
 *
 * A node takes the place of a plan that projects, and has it as its child: C over P' for P.  P'
 * computes what the calls need (the atoms), C the calls, then the quals that have moved to it,
 * then P's target list.  Children come first.  What may be where:
 *
 *	scans, joins, Agg, Group, WindowAgg, Result, SubqueryScan, Gather	C above			wrap.c
 *	arguments of aggregates, everything in ProjectSet					C below			push.c
 *	keys of hash joins													C below			keys.c
 *	RETURNING															C above			returning.c
 *	LIMIT over C without quals											C over LIMIT	limit.c
 *
 * C moves backward where its child does.  A C that takes from a plan what that alone could do gets
 * a Material above it: restoring a position (MergeJoin), moving backward (SCROLL).
 *
 * Not looked into: what feeds a BitmapHeapScan, what a ForeignScan rechecks with, nodes of other
 * extensions.  Childless Results stay: PL/pgSQL's simple expressions are these.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"

#include "batchscan.h"
#include "rewrite/rewrite.h"

static Plan *rewrite_plan(Rewrite *rewrite, Plan *plan, Reader reader);

/* ---- who reads the children ---- */

static Reader
unknown_reader(Reader reader)
{
	reader.drained = false;
	reader.bound = 0;
	return reader;
}

static Reader
unbound_reader(Reader reader, bool drained)
{
	reader.drained = drained;
	reader.bound = 0;
	return reader;
}

static Reader
reader_of_limit(const Limit *limit, Reader reader)
{
	Plan	   *child = limit->plan.lefttree;

	reader.drained = false;
	reader.bound = infer_limit_bound(limit);
	if (child->plan_rows > limit->plan.plan_rows)
		reader.loops *= limit->plan.plan_rows / child->plan_rows;
	return reader;
}

/* The outer side of a hash join is not read if the inner one is empty, unless its rows survive. */
static Reader
reader_of_outer(const Join *join, Reader reader)
{
	bool		survives = join->jointype == JOIN_LEFT || join->jointype == JOIN_FULL || join->jointype == JOIN_ANTI;

	return unbound_reader(reader, reader.drained &&
						  (IsA(join, NestLoop) || (IsA(join, HashJoin) && survives)));
}

static Reader
reader_of_inner(const Join *join, Reader reader)
{
	bool		all = join->jointype != JOIN_SEMI && join->jointype != JOIN_ANTI && !join->inner_unique;

	/* a hash table is built of all rows, or of none */
	if (IsA(join, HashJoin))
		return unbound_reader(reader, true);
	if (IsA(join, NestLoop))
		reader.loops *= Max(join->plan.lefttree->plan_rows, 1);
	return unbound_reader(reader, IsA(join, NestLoop) && all && reader.drained);
}

/* Who reads a plan's lefttree, and for those that have several children alike, each of them. */
static Reader
reader_of_child(Plan *plan, Reader reader)
{
	switch (nodeTag(plan))
	{
		case T_Sort:
		case T_Hash:
		case T_ModifyTable:
			return unbound_reader(reader, true);
		case T_Agg:
			return unbound_reader(reader, reader.drained || ((Agg *) plan)->aggstrategy == AGG_PLAIN ||
								  ((Agg *) plan)->aggstrategy == AGG_HASHED);
		case T_WindowAgg:
			return unbound_reader(reader, reader.drained && ((WindowAgg *) plan)->runCondition == NIL);
		case T_Limit:
			return reader_of_limit((Limit *) plan, reader);
		case T_NestLoop:
		case T_HashJoin:
			return reader_of_outer((Join *) plan, reader);
		case T_Gather:
		case T_GatherMerge:
			reader.parallel = true;
			return unbound_reader(reader, reader.drained);
		case T_Memoize:
			return unbound_reader(reader, reader.drained && !((Memoize *) plan)->singlerow);
		case T_MergeJoin:
		case T_SetOp:
			return unknown_reader(reader);
		case T_Append:
		case T_LockRows:
		case T_Material:
		case T_Result:
		case T_SubqueryScan:
			/* as many rows as it gives, or more */
			if (plan->qual != NIL)
				reader.bound = 0;
			return reader;
		default:
			return unbound_reader(reader, reader.drained);
	}
}

/* ---- what happens between their rows ---- */

static bool
reads_whole(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Sort:
		case T_Hash:
			return true;
		case T_Agg:
			return ((const Agg *) plan)->aggstrategy == AGG_PLAIN || ((const Agg *) plan)->aggstrategy == AGG_HASHED;
		default:
			return false;
	}
}

/* What a plan does itself, and those above it unless it hands out rows only at the end. */
static Reader
with_plan(Rewrite *rewrite, Plan *plan, Reader reader)
{
	if (reads_whole(plan))
		reader.modifies = reader.calls_volatile = false;
	if (IsA(plan, ModifyTable) || IsA(plan, LockRows))
		reader.modifies = true;
	if (infer_plan_is_volatile(rewrite->statement, plan))
		reader.calls_volatile = true;
	return reader;
}

/* A sibling is read between rows. */
static Reader
beside(Rewrite *rewrite, Plan *sibling, Reader reader)
{
	if (infer_reading_is_seen(rewrite->statement, sibling))
		reader.modifies = reader.calls_volatile = true;
	return reader;
}

static Reader
reader_below(Rewrite *rewrite, Plan *plan, Reader reader)
{
	return with_plan(rewrite, plan, reader_of_child(plan, reader));
}

static Reader
reader_below_outer(Rewrite *rewrite, Plan *join, Reader reader)
{
	return beside(rewrite, join->righttree, reader_below(rewrite, join, reader));
}

static Reader
reader_below_inner(Rewrite *rewrite, Plan *join, Reader reader)
{
	reader = with_plan(rewrite, join, reader);
	if (IsA(join, MergeJoin))
		reader = beside(rewrite, join->lefttree, reader);
	return reader_of_inner((Join *) join, reader);
}

/* ---- children ---- */

static void
rewrite_list(Rewrite *rewrite, List *plans, Reader reader)
{
	ListCell   *cell;

	foreach(cell, plans)
		lfirst(cell) = rewrite_plan(rewrite, lfirst(cell), reader);
}

static void
rewrite_children(Rewrite *rewrite, Plan *plan, Reader reader)
{
	Reader		below = reader_below(rewrite, plan, reader);

	switch (nodeTag(plan))
	{
		case T_BitmapHeapScan:
		case T_ForeignScan:
		case T_CustomScan:
			return;
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			below = reader_below_outer(rewrite, plan, reader);
			plan->righttree = rewrite_plan(rewrite, plan->righttree, reader_below_inner(rewrite, plan, reader));
			break;
		case T_SubqueryScan:
			((SubqueryScan *) plan)->subplan = rewrite_plan(rewrite, ((SubqueryScan *) plan)->subplan, below);
			break;
		case T_Append:
			rewrite_list(rewrite, ((Append *) plan)->appendplans, below);
			break;
		case T_MergeAppend:
			rewrite_list(rewrite, ((MergeAppend *) plan)->mergeplans, beside(rewrite, plan, below));
			break;
		default:
			plan->righttree = rewrite_plan(rewrite, plan->righttree, below);
			break;
	}
	plan->lefttree = rewrite_plan(rewrite, plan->lefttree, below);
}

/* Whether restoring a position would end at a node of ours: a Result hands it on to its child. */
static bool
is_restored_by_node(const Plan *plan)
{
	while (plan != NULL && IsA(plan, Result))
		plan = plan->lefttree;
	return infer_is_batch(plan);
}

static Plan *
rewrite_plan(Rewrite *rewrite, Plan *plan, Reader reader)
{
	if (plan == NULL)
		return NULL;
	check_stack_depth();
	rewrite_children(rewrite, plan, reader);
	switch (nodeTag(plan))
	{
		case T_Limit:
			return infer_swap_limit(rewrite, (Limit *) plan);
		case T_ModifyTable:
			return infer_wrap_returning(rewrite, (ModifyTable *) plan, &reader);
		case T_MergeJoin:
			if (!((MergeJoin *) plan)->skip_mark_restore && is_restored_by_node(plan->righttree))
				plan->righttree = infer_make_material(rewrite, plan->righttree);
			break;
		case T_HashJoin:
			{
				Reader		outer = reader_below_outer(rewrite, plan, reader);
				Reader		inner = reader_below_inner(rewrite, plan, reader);

				infer_push_keys(rewrite, (HashJoin *) plan, &outer, &inner);
			}
			break;
		case T_Agg:
			{
				Reader		below = reader_below(rewrite, plan, reader);

				infer_push_aggregates(rewrite, (Agg *) plan, &below);
			}
			break;
		case T_ProjectSet:
			{
				Reader		below = reader_below(rewrite, plan, reader);

				infer_push_sets(rewrite, (ProjectSet *) plan, &below);
			}
			break;
		default:
			break;
	}
	return infer_wrap(rewrite, plan, &reader);
}

/* ---- subplans ---- */

typedef struct SubplanUse
{
	Rewrite    *rewrite;
	double		rows;				/* for which an expression is evaluated */
} SubplanUse;

static void
note_reader(Rewrite *rewrite, const SubPlan *subplan, double loops)
{
	Reader	   *reader = &rewrite->readers[subplan->plan_id - 1];

	reader->loops = loops;
	switch (subplan->subLinkType)
	{
		case EXPR_SUBLINK:			/* a second row is an error */
		case ROWCOMPARE_SUBLINK:
		case MULTIEXPR_SUBLINK:
		case ARRAY_SUBLINK:
			reader->drained = true;
			break;
		case EXISTS_SUBLINK:
			reader->bound = 1;
			break;
		default:
			reader->drained = subplan->useHashTable;
			break;
	}
}

static bool
subplan_walker(Node *node, void *context)
{
	SubplanUse *use = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan))
		note_reader(use->rewrite, (SubPlan *) node, ((SubPlan *) node)->useHashTable ? 1 : use->rows);
	return expression_tree_walker(node, subplan_walker, context);
}

static bool
subplan_visitor(Node *expression, const char *place, void *context)
{
	return subplan_walker(expression, context);
}

/* PlanVisitor */
static void
readers_visitor(Plan *plan, void *context)
{
	SubplanUse	use = {.rewrite = context, .rows = plan->plan_rows};
	ListCell   *cell;

	foreach(cell, plan->initPlan)
		note_reader(context, lfirst_node(SubPlan, cell), 1);
	infer_visit_expressions(plan, subplan_visitor, &use);
	infer_visit_children(plan, readers_visitor, context);
}

static void
find_readers(Rewrite *rewrite)
{
	int			count = list_length(rewrite->statement->subplans);
	ListCell   *cell;

	rewrite->readers = palloc0(sizeof(Reader) * (count + 1));
	for (int i = 0; i < count; i++)
		rewrite->readers[i].loops = 1;
	readers_visitor(rewrite->statement->planTree, rewrite);
	foreach(cell, rewrite->statement->subplans)
		if (lfirst(cell) != NULL)
			readers_visitor(lfirst(cell), rewrite);
}

/* ---- the statement ---- */

void
infer_batch_rewrite(PlannedStmt *statement, int cursor_options)
{
	Rewrite		rewrite = {.statement = statement};
	Reader		client = {.loops = 1};
	bool		moves_backward = ExecSupportsBackwardScan(statement->planTree);
	ListCell   *cell;

	rewrite.next_id = infer_last_plan_id(statement) + 1;
	find_readers(&rewrite);
	foreach(cell, statement->subplans)
		lfirst(cell) = rewrite_plan(&rewrite, lfirst(cell), rewrite.readers[foreach_current_index(cell)]);

	/* what modifies is run to its end, and only then its result is handed out */
	client.drained = statement->commandType != CMD_SELECT;
	statement->planTree = rewrite_plan(&rewrite, statement->planTree, client);
	if ((cursor_options & CURSOR_OPT_SCROLL) != 0 && moves_backward &&
		!ExecSupportsBackwardScan(statement->planTree))
		statement->planTree = infer_make_material(&rewrite, statement->planTree);
	if (rewrite.nodes_count > 0)
		infer_lower_jit(&rewrite);
}
