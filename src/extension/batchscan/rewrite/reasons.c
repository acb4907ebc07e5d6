/*
 * reasons.c
 *	  Why the calls that are left in a finished plan are not computed in batches.
 *
 * Found by looking at where they are: what the rewriting does (hoist.c, wrap.c, push.c) tells what
 * it does not do.  Everything else of a plan is a place of its own (tree.c).
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "rewrite.h"

typedef struct Listing
{
	const PlannedStmt *statement;
	Plan	   *plan;
	const char *why;				/* what is around; NULL: nothing that matters */
	List	   *found;				/* InferUnbatched */
} Listing;

static bool list_walker(Node *node, void *context);

static void
list_under(Node *node, const char *why, Listing *listing)
{
	const char *outer = listing->why;

	if (outer == NULL)
		listing->why = why;
	list_walker(node, listing);
	listing->why = outer;
}

/* ---- calls ---- */

static const char *
reason_of_call(const Node *call, const Listing *listing)
{
	Node	   *arguments = (Node *) infer_call_arguments(call);

	if (!infer_batching)
		return "infer.batching is off";
	if (!infer_call_verb(call)->hoist)
		return "the function gives a set of rows";
	if (!infer_function_is_plain(infer_called_function(call)))
		return "the function has settings or a user of its own";
	if (infer_is_volatile(listing->statement, arguments))
		return "argument is volatile";
	if (infer_is_bound(arguments))
		return "argument is what CASE compares";
	return listing->why != NULL ? listing->why : "not supported here";
}

static void
add_call(Node *call, Listing *listing)
{
	InferUnbatched *unbatched = palloc(sizeof(InferUnbatched));

	unbatched->plan = listing->plan;
	unbatched->call = call;
	unbatched->reason = reason_of_call(call, listing);
	listing->found = lappend(listing->found, unbatched);
}

/* ---- what is around them ---- */

static void
list_case(CaseExpr *expression, Listing *listing)
{
	ListCell   *cell;

	list_walker((Node *) expression->arg, listing);
	foreach(cell, expression->args)
	{
		list_under((Node *) lfirst_node(CaseWhen, cell)->expr,
				   foreach_current_index(cell) == 0 ? NULL : "inside CASE with a volatile condition", listing);
		list_under((Node *) lfirst_node(CaseWhen, cell)->result, "inside CASE with a volatile condition", listing);
	}
	list_under((Node *) expression->defresult, "inside CASE with a volatile condition", listing);
}

static void
list_first_and_rest(List *arguments, const char *why, Listing *listing)
{
	ListCell   *cell;

	foreach(cell, arguments)
		list_under(lfirst(cell), foreach_current_index(cell) == 0 ? NULL : why, listing);
}

/* What keeps the calls within an expression; NULL: nothing. */
static const char *
reason_of_expression(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_WindowFunc:
			return "window function argument";
		case T_Aggref:
			return "argument of an aggregate";
		default:
			return infer_is_transparent(node) ? NULL : "inside an expression that may not evaluate it";
	}
}

static bool
list_walker(Node *node, void *context)
{
	Listing    *listing = context;
	const char *outer = listing->why;

	if (node == NULL)
		return false;
	if (infer_call_verb(node) != NULL)
		add_call(node, listing);
	switch (nodeTag(node))
	{
		case T_CaseExpr:
			list_case((CaseExpr *) node, listing);
			return false;
		case T_CoalesceExpr:
			list_first_and_rest(((CoalesceExpr *) node)->args, "after a volatile argument of COALESCE", listing);
			return false;
		case T_BoolExpr:
			list_first_and_rest(((BoolExpr *) node)->args, "after a volatile condition", listing);
			return false;
		case T_SubPlan:
			list_walker((Node *) ((SubPlan *) node)->args, listing);
			list_under(((SubPlan *) node)->testexpr, "compared with a subquery", listing);
			return false;
		default:
			break;
	}
	if (outer == NULL)
		listing->why = reason_of_expression(node);
	expression_tree_walker(node, list_walker, listing);
	listing->why = outer;
	return false;
}

/* ---- plans ---- */

/* What a node of ours computes is batched, but not what is left in the arguments. */
static void
list_node(const CustomScan *scan, Listing *listing)
{
	BatchInfo	info;
	ListCell   *cell;

	infer_batch_get(scan, &info);
	foreach(cell, info.calls)
	{
		list_walker((Node *) ((BatchCall *) lfirst(cell))->args, listing);
		list_walker((Node *) ((BatchCall *) lfirst(cell))->guard, listing);
	}
	list_walker((Node *) scan->scan.plan.targetlist, listing);
	list_walker((Node *) scan->scan.plan.qual, listing);
}

/* Of a plan's own target list and filter. */
static const char *
reason_of_plan(Plan *plan)
{
	if (infer_is_fixed(plan))
		return "beside CURRENT OF or a subquery that sets several columns";
	if (infer_can_wrap(plan) || IsA(plan, ProjectSet))
		return NULL;
	if (IsA(plan, Result))
		return "a Result without a table";
	return IsA(plan, CustomScan) || IsA(plan, ForeignScan) ? "another extension's plan" : "not supported here";
}

/* ExpressionVisitor */
static bool
list_visitor(Node *expression, const char *place, void *context)
{
	Listing    *listing = context;

	listing->why = infer_is_own_place(place) ? reason_of_plan(listing->plan) : place;
	list_walker(expression, listing);
	return false;
}

/* PlanVisitor */
static void
plan_visitor(Plan *plan, void *context)
{
	Listing    *listing = context;

	listing->plan = plan;
	listing->why = NULL;
	if (infer_is_batch(plan))
		list_node((CustomScan *) plan, listing);
	else
		infer_visit_expressions(plan, list_visitor, listing);
	infer_visit_children(plan, plan_visitor, listing);
}

List *
infer_list_unbatched(const PlannedStmt *statement)
{
	Listing		listing = {.statement = statement};
	ListCell   *cell;

	if (!infer_calls_verb(statement))
		return NIL;
	plan_visitor(statement->planTree, &listing);
	foreach(cell, statement->subplans)
		if (lfirst(cell) != NULL)
			plan_visitor(lfirst(cell), &listing);
	return listing.found;
}
