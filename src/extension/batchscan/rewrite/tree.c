/*
 * tree.c
 *	  Walks over a plan: its children, its expressions, and what may be seen from outside of it.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "rewrite.h"

/* ---- children ---- */

static void
visit_list(List *plans, PlanVisitor visit, void *context)
{
	ListCell   *cell;

	foreach(cell, plans)
		if (lfirst(cell) != NULL)
			visit(lfirst(cell), context);
}

void
infer_visit_children(Plan *plan, PlanVisitor visit, void *context)
{
	check_stack_depth();
	if (plan->lefttree != NULL)
		visit(plan->lefttree, context);
	if (plan->righttree != NULL)
		visit(plan->righttree, context);
	switch (nodeTag(plan))
	{
		case T_SubqueryScan:
			visit(((SubqueryScan *) plan)->subplan, context);
			break;
		case T_Append:
			visit_list(((Append *) plan)->appendplans, visit, context);
			break;
		case T_MergeAppend:
			visit_list(((MergeAppend *) plan)->mergeplans, visit, context);
			break;
		case T_BitmapAnd:
			visit_list(((BitmapAnd *) plan)->bitmapplans, visit, context);
			break;
		case T_BitmapOr:
			visit_list(((BitmapOr *) plan)->bitmapplans, visit, context);
			break;
		case T_CustomScan:
			visit_list(((CustomScan *) plan)->custom_plans, visit, context);
			break;
		default:
			break;
	}
}

static void
last_id_visitor(Plan *plan, void *last)
{
	*(int *) last = Max(*(int *) last, plan->plan_node_id);
	infer_visit_children(plan, last_id_visitor, last);
}

int
infer_last_plan_id(const PlannedStmt *statement)
{
	int			last = 0;

	last_id_visitor(statement->planTree, &last);
	visit_list(statement->subplans, last_id_visitor, &last);
	return last;
}

/* ---- expressions ---- */

#define VISIT(expression, place) \
	if ((expression) != NULL && visit((Node *) (expression), (place), context)) \
		return true

static bool
visit_of_join(Plan *plan, ExpressionVisitor visit, void *context)
{
	JoinType	type = ((Join *) plan)->jointype;

	VISIT(((Join *) plan)->joinqual,
		  type == JOIN_INNER ? "join condition" :
		  IS_OUTER_JOIN(type) && type != JOIN_ANTI ? "join condition of an outer join" :
		  "join condition of a semi-join");
	switch (nodeTag(plan))
	{
		case T_MergeJoin:
			VISIT(((MergeJoin *) plan)->mergeclauses, "merge key");
			break;
		case T_HashJoin:
			VISIT(((HashJoin *) plan)->hashclauses, "hash key");
			VISIT(((HashJoin *) plan)->hashkeys, "hash key");
			break;
		default:
			break;
	}
	return false;
}

static bool
visit_of_modify(ModifyTable *plan, ExpressionVisitor visit, void *context)
{
	VISIT(plan->withCheckOptionLists, "WITH CHECK OPTION or row-level security");
	VISIT(plan->returningLists, "RETURNING");
	VISIT(plan->onConflictSet, "ON CONFLICT");
	VISIT(plan->onConflictWhere, "ON CONFLICT");
	VISIT(plan->mergeActionLists, "MERGE action");
	VISIT(infer_merge_join_conditions(plan), "MERGE condition");
	return false;
}

static bool
visit_of_scan(Plan *plan, ExpressionVisitor visit, void *context)
{
	switch (nodeTag(plan))
	{
		case T_SampleScan:
			VISIT(((SampleScan *) plan)->tablesample, "TABLESAMPLE");
			break;
		case T_IndexScan:
			VISIT(((IndexScan *) plan)->indexqual, "index condition");
			VISIT(((IndexScan *) plan)->indexorderby, "index order");
			break;
		case T_IndexOnlyScan:
			VISIT(((IndexOnlyScan *) plan)->indexqual, "index condition");
			VISIT(((IndexOnlyScan *) plan)->indexorderby, "index order");
			break;
		case T_BitmapIndexScan:
			VISIT(((BitmapIndexScan *) plan)->indexqual, "index condition");
			break;
		case T_BitmapHeapScan:
			VISIT(((BitmapHeapScan *) plan)->bitmapqualorig, "index condition");
			break;
		case T_TidScan:
			VISIT(((TidScan *) plan)->tidquals, "index condition");
			break;
		case T_TidRangeScan:
			VISIT(((TidRangeScan *) plan)->tidrangequals, "index condition");
			break;
		case T_FunctionScan:
			VISIT(((FunctionScan *) plan)->functions, "function in FROM");
			break;
		case T_TableFuncScan:
			VISIT(((TableFuncScan *) plan)->tablefunc, "function in FROM");
			break;
		case T_ValuesScan:
			VISIT(((ValuesScan *) plan)->values_lists, "VALUES");
			break;
		case T_ForeignScan:
			VISIT(((ForeignScan *) plan)->fdw_exprs, "foreign server's condition");
			break;
		case T_CustomScan:
			VISIT(((CustomScan *) plan)->custom_exprs, "another extension's plan");
			break;
		default:
			break;
	}
	return false;
}

static bool
visit_of_upper(Plan *plan, ExpressionVisitor visit, void *context)
{
	switch (nodeTag(plan))
	{
		case T_Result:
			VISIT(((Result *) plan)->resconstantqual, "one-time filter");
			break;
		case T_Hash:
			VISIT(((Hash *) plan)->hashkeys, "hash key");
			break;
		case T_Memoize:
			VISIT(((Memoize *) plan)->param_exprs, "key of Memoize");
			break;
		case T_WindowAgg:
			VISIT(((WindowAgg *) plan)->startOffset, "window frame");
			VISIT(((WindowAgg *) plan)->endOffset, "window frame");
			VISIT(((WindowAgg *) plan)->runCondition, "window run condition");
			break;
		case T_Limit:
			VISIT(((Limit *) plan)->limitOffset, "LIMIT");
			VISIT(((Limit *) plan)->limitCount, "LIMIT");
			break;
		case T_ModifyTable:
			return visit_of_modify((ModifyTable *) plan, visit, context);
		default:
			break;
	}
	return false;
}

static const char target_list[] = "target list";
static const char filter[] = "filter";

bool
infer_is_own_place(const char *place)
{
	return place == target_list || place == filter;
}

bool
infer_visit_expressions(Plan *plan, ExpressionVisitor visit, void *context)
{
	/* that of ModifyTable only repeats RETURNING */
	if (!IsA(plan, ModifyTable))
		VISIT(plan->targetlist, target_list);
	VISIT(plan->qual, filter);
	if (IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin))
		return visit_of_join(plan, visit, context);
	return visit_of_scan(plan, visit, context) || visit_of_upper(plan, visit, context);
}

/* ---- what can be told from outside ---- */

typedef struct Seen
{
	const PlannedStmt *statement;
	bool		changes;			/* look for what sees changes only */
	bool		found;
} Seen;

static void seen_visitor(Plan *plan, void *context);

static bool
function_is_volatile(Oid function, void *context)
{
	const Seen *seen = context;

	switch (function)
	{
		case F_CLOCK_TIMESTAMP:
		case F_GEN_RANDOM_UUID:
		case INFER_F_RANDOM:
		case F_TIMEOFDAY:
			return !seen->changes;
		default:
			return func_volatile(function) == PROVOLATILE_VOLATILE;
	}
}

static bool
volatile_walker(Node *node, void *context)
{
	Seen	   *seen = context;

	if (node == NULL)
		return false;
	if (check_functions_in_node(node, function_is_volatile, seen) || IsA(node, NextValueExpr))
		return true;
	if (IsA(node, SubPlan))
	{
		Plan	   *plan = exec_subplan_get_plan(seen->statement, (SubPlan *) node);

		if (plan != NULL)
			seen_visitor(plan, seen);
		if (seen->found)
			return true;
	}
	return expression_tree_walker(node, volatile_walker, context);
}

static bool
volatile_visitor(Node *expression, const char *place, void *context)
{
	return volatile_walker(expression, context);
}

/* A CTE that modifies is run to its end, whatever is read of it. */
static Plan *
cte_plan(const PlannedStmt *statement, Plan *plan)
{
	Plan	   *cte;

	if (!IsA(plan, CteScan))
		return NULL;
	cte = list_nth(statement->subplans, ((CteScan *) plan)->ctePlanId - 1);
	if (cte == NULL || IsA(cte, ModifyTable) || (infer_is_batch(cte) && IsA(cte->lefttree, ModifyTable)))
		return NULL;
	return cte;
}

/* PlanVisitor */
static void
seen_visitor(Plan *plan, void *context)
{
	Seen	   *seen = context;
	Plan	   *cte = cte_plan(seen->statement, plan);

	if (cte != NULL)
		seen_visitor(cte, seen);
	if (seen->found)
		return;
	if (IsA(plan, LockRows) || IsA(plan, ModifyTable) || infer_visit_expressions(plan, volatile_visitor, seen))
	{
		seen->found = true;
		return;
	}
	infer_visit_children(plan, seen_visitor, seen);
}

bool
infer_is_volatile(const PlannedStmt *statement, Node *expression)
{
	Seen		seen = {.statement = statement};

	return volatile_walker(expression, &seen);
}

bool
infer_reading_is_seen(const PlannedStmt *statement, Plan *plan)
{
	Seen		seen = {.statement = statement};

	seen_visitor(plan, &seen);
	return seen.found;
}

bool
infer_plan_is_volatile(const PlannedStmt *statement, Plan *plan)
{
	Seen		seen = {.statement = statement};

	return infer_visit_expressions(plan, volatile_visitor, &seen);
}

bool
infer_sees_changes(const PlannedStmt *statement, Node *expression)
{
	Seen		seen = {.statement = statement, .changes = true};

	return volatile_walker(expression, &seen);
}

bool
infer_reading_sees_changes(const PlannedStmt *statement, Plan *plan)
{
	Seen		seen = {.statement = statement, .changes = true};

	seen_visitor(plan, &seen);
	return seen.found;
}
