/*
 * node.c
 *	  Making a node InferBatch of a hoist; lists of columns; Material.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planmain.h"
#include "optimizer/tlist.h"

#include "rewrite.h"

/* ---- lists of columns ---- */

static List *
refer_to_columns(List *columns, int varno)
{
	List	   *targetlist = NIL;
	ListCell   *cell;

	foreach(cell, columns)
	{
		TargetEntry *column = lfirst_node(TargetEntry, cell);
		TargetEntry *entry = flatCopyTargetEntry(column);
		Node	   *value = (Node *) column->expr;

		entry->resno = foreach_current_index(cell) + 1;
		entry->expr = (Expr *) makeVar(varno, entry->resno, exprType(value), exprTypmod(value),
									   exprCollation(value), 0);
		targetlist = lappend(targetlist, entry);
	}
	return targetlist;
}

List *
infer_outer_targetlist(Plan *plan)
{
	return refer_to_columns(plan->targetlist, OUTER_VAR);
}

List *
infer_pass_targetlist(Hoist *hoist, Plan *child)
{
	List	   *targetlist = refer_to_columns(child->targetlist, INDEX_VAR);
	ListCell   *cell;

	foreach(cell, hoist->calls)
	{
		Node	   *call = (Node *) ((BatchCall *) lfirst(cell))->call;
		int			number = list_length(targetlist) + 1;

		targetlist = lappend(targetlist,
							 makeTargetEntry((Expr *) makeVar(INDEX_VAR, number, exprType(call), exprTypmod(call),
															  exprCollation(call), 0),
											 number, NULL, false));
	}
	return targetlist;
}

/* What INDEX_VAR counts: the child's columns, then the calls as EXPLAIN shows them. */
static List *
make_scan_targetlist(const Hoist *hoist, Plan *child)
{
	List	   *targetlist = infer_outer_targetlist(child);
	ListCell   *cell;

	foreach(cell, hoist->shown)
		targetlist = lappend(targetlist,
							 makeTargetEntry(lfirst(cell), list_length(targetlist) + 1, NULL, false));
	return targetlist;
}

/* ---- nodes ---- */

static void
copy_estimates(Plan *to, const Plan *from)
{
	to->startup_cost = from->startup_cost;
	to->total_cost = from->total_cost;
	to->plan_rows = from->plan_rows;
	to->plan_width = from->plan_width;
	infer_copy_disabled(to, from);
	to->parallel_safe = from->parallel_safe;
	to->extParam = bms_copy(from->extParam);
	to->allParam = bms_copy(from->allParam);
}

static int
count_volatile(const PlannedStmt *statement, List *expressions)
{
	int			count = 0;
	ListCell   *cell;

	foreach(cell, expressions)
		count += infer_is_volatile(statement, lfirst(cell));
	return count;
}

/*
 * Whether the child must not be read further than row by row it would be: because it could be
 * told by who ends early, or by what is computed between its rows.  What is computed for a batch
 * before its first row is handed out, the child and each qual, must be only one thing that is
 * volatile, and nothing that happens between rows may be.
 */
static bool
must_go_one_by_one(const Hoist *hoist, Plan *child, List *targetlist, List *qual, const Reader *reader)
{
	const PlannedStmt *statement = hoist->rewrite->statement;
	int			ahead;

	if (hoist->kind == HOIST_RETURNING)
		return infer_is_volatile(statement, (Node *) targetlist);
	ahead = count_volatile(statement, qual) + infer_reading_is_seen(statement, child);
	if (ahead == 0)
		return false;
	if (ahead > 1 || !reader->drained || reader->calls_volatile ||
		infer_is_volatile(statement, (Node *) targetlist))
		return true;
	return reader->modifies && (infer_sees_changes(statement, (Node *) qual) ||
								infer_reading_sees_changes(statement, child));
}

/*
 * A node over child, which has the atoms as its columns; like: the plan whose place it takes.
 */
Plan *
infer_make_node(Hoist *hoist, Plan *child, List *targetlist, List *qual, Plan *like, const Reader *reader)
{
	CustomScan *scan = makeNode(CustomScan);
	BatchInfo	info = {
		.calls = hoist->calls,
		.drained = reader->drained,
		.one_by_one = must_go_one_by_one(hoist, child, targetlist, qual, reader),
		.bound = reader->bound,
	};

	Assert(hoist->atoms_count == list_length(child->targetlist));
	copy_estimates(&scan->scan.plan, like);
	scan->scan.plan.plan_node_id = hoist->rewrite->next_id++;
	scan->scan.plan.targetlist = targetlist;
	scan->scan.plan.qual = qual;
	scan->scan.plan.lefttree = child;

	/* for the counters of workers, which only such nodes can hand over */
	scan->scan.plan.parallel_aware = reader->parallel;
	scan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	if (ExecSupportsBackwardScan(child))
		scan->flags |= CUSTOMPATH_SUPPORT_BACKWARD_SCAN;
	scan->methods = &infer_batch_methods;
	scan->custom_scan_tlist = make_scan_targetlist(hoist, child);
	infer_batch_put(scan, &info);
	hoist->rewrite->nodes_count++;
	return &scan->scan.plan;
}

Plan *
infer_make_material(Rewrite *rewrite, Plan *plan)
{
	Plan	   *material = materialize_finished_plan(plan);

	material->targetlist = infer_outer_targetlist(plan);
	material->plan_node_id = rewrite->next_id++;
	material->parallel_safe = plan->parallel_safe;
	material->parallel_aware = false;
	return material;
}
