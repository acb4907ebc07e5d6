/*
 * hoist.c
 *	  Expressions with calls, rewritten over the columns of the node that computes the calls.
 *
 * A call is hoisted from where it is evaluated whenever the expression is; from an arm of CASE, a
 * later argument of COALESCE, AND or OR with a guard (guards.c); from elsewhere not at all.
 *
 * Atoms are what the node's child computes: they become INDEX_VAR and their number; calls become
 * INDEX_VAR and, after the atoms, theirs.  A call's arguments are rewritten first, so a call is
 * numbered after those that it uses.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "rewrite.h"

/* ---- atoms ---- */

static bool
is_set(const Node *node)
{
	return (IsA(node, FuncExpr) && ((const FuncExpr *) node)->funcretset) ||
		(IsA(node, OpExpr) && ((const OpExpr *) node)->opretset);
}

/* What only the plan below can compute. */
static bool
is_of_plan(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_Aggref:
		case T_WindowFunc:
		case T_GroupingFunc:
			return true;
		case T_FuncExpr:
		case T_OpExpr:
			return is_set(node);
		default:
			return false;
	}
}

/*
 * What only ModifyTable can compute: what it alone knows; and what must be computed before the
 * next row is modified (currval).
 */
static bool
is_of_modify(const Hoist *hoist, Node *node)
{
	if (IsA(node, ConvertRowtypeExpr))
		return IsA(((ConvertRowtypeExpr *) node)->arg, Var);
	if (infer_is_of_returning(node))
		return true;
	/* what has no value of its own is none; the walkers know no CaseWhen */
	if (IsA(node, List) || IsA(node, TargetEntry) || IsA(node, CaseWhen))
		return false;
	return infer_is_volatile(hoist->rewrite->statement, node) && !infer_has_call(node);
}

static bool
is_atom(const Hoist *hoist, Node *node)
{
	if (IsA(node, Var))
		return true;
	switch (hoist->kind)
	{
		case HOIST_ABOVE:
			return is_of_plan(node);
		case HOIST_RETURNING:
			return is_of_modify(hoist, node);
		default:
			return false;
	}
}

static bool
collect_walker(Node *node, void *context)
{
	Hoist	   *hoist = context;

	if (node == NULL)
		return false;
	if (is_atom(hoist, node))
	{
		if (!list_member(hoist->atoms, node))
			hoist->atoms = lappend(hoist->atoms, copyObject(node));
		return false;
	}
	return expression_tree_walker(node, collect_walker, hoist);
}

bool
infer_hoist_collect(Node *node, Hoist *hoist)
{
	collect_walker(node, hoist);
	hoist->atoms_count = list_length(hoist->atoms);
	return hoist->atoms_count > 0;
}

static int
atom_number(const Hoist *hoist, const Node *node)
{
	ListCell   *cell;

	if (hoist->kind == HOIST_BELOW)
	{
		Assert(((const Var *) node)->varno == OUTER_VAR);
		return ((const Var *) node)->varattno;
	}
	foreach(cell, hoist->atoms)
		if (equal(lfirst(cell), node))
			return foreach_current_index(cell) + 1;
	elog(ERROR, "an atom was not collected");
	return 0;
}

static Var *
make_reference(int varno, int number, Node *like)
{
	return makeVar(varno, number, exprType(like), exprTypmod(like), exprCollation(like), 0);
}

/* ---- what EXPLAIN shows of a call ---- */

/* As the statement has it: over the child's columns, and rows as rows. */
static Node *
show_mutator(Node *node, void *context)
{
	Hoist	   *hoist = context;
	ListCell   *cell;
	ListCell   *whole;

	if (node == NULL)
		return NULL;
	forboth(cell, hoist->spread, whole, hoist->whole)
		if (equal(lfirst(cell), node))
			return copyObject(lfirst(whole));
	if (is_atom(hoist, node))
		return (Node *) make_reference(OUTER_VAR, atom_number(hoist, node), node);
	return expression_tree_mutator(node, show_mutator, hoist);
}

/* ---- what evaluates a part of its children ---- */

static Node *
rewrite_unhoisted(Node *node, Hoist *hoist)
{
	bool		allowed = hoist->allowed;
	Node	   *result;

	hoist->allowed = false;
	result = infer_hoist_rewrite(node, hoist);
	hoist->allowed = allowed;
	return result;
}

/* An element that is read of NULL is NULL without a look at which one; one that is set never. */
static Node *
rewrite_subscript(SubscriptingRef *expression, Hoist *hoist)
{
	SubscriptingRef *result = makeNode(SubscriptingRef);
	bool		assigns = expression->refassgnexpr != NULL;

	*result = *expression;
	result->refexpr = (Expr *) infer_hoist_rewrite((Node *) expression->refexpr, hoist);
	result->refupperindexpr = (List *) (assigns ? infer_hoist_rewrite((Node *) expression->refupperindexpr, hoist)
										: rewrite_unhoisted((Node *) expression->refupperindexpr, hoist));
	result->reflowerindexpr = (List *) (assigns ? infer_hoist_rewrite((Node *) expression->reflowerindexpr, hoist)
										: rewrite_unhoisted((Node *) expression->reflowerindexpr, hoist));
	result->refassgnexpr = (Expr *) infer_hoist_rewrite((Node *) expression->refassgnexpr, hoist);
	return (Node *) result;
}

/* The parameters of a subquery are computed first, what it is compared with only if it has rows. */
static Node *
rewrite_subplan(SubPlan *expression, Hoist *hoist)
{
	SubPlan    *result = makeNode(SubPlan);

	*result = *expression;
	result->args = (List *) infer_hoist_rewrite((Node *) expression->args, hoist);
	result->testexpr = rewrite_unhoisted(expression->testexpr, hoist);
	return (Node *) result;
}

static Node *
rewrite_array_coercion(ArrayCoerceExpr *expression, Hoist *hoist)
{
	ArrayCoerceExpr *result = makeNode(ArrayCoerceExpr);

	*result = *expression;
	result->arg = (Expr *) infer_hoist_rewrite((Node *) expression->arg, hoist);
	result->elemexpr = (Expr *) rewrite_unhoisted((Node *) expression->elemexpr, hoist);
	return (Node *) result;
}

bool
infer_is_transparent(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_MinMaxExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ConvertRowtypeExpr:
		case T_CoerceToDomain:
		case T_NullTest:
		case T_BooleanTest:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_FieldSelect:
		case T_FieldStore:
		case T_List:
		case T_TargetEntry:
			return true;
		case T_BoolExpr:
			return ((const BoolExpr *) node)->boolop == NOT_EXPR;
		default:
			return infer_is_json_constructor(node);
	}
}

/* ---- calls ---- */

/* Not where its result could depend on when it is computed. */
static bool
may_hoist(Node *node, const Hoist *hoist)
{
	const InferVerbDef *verb;

	if (!hoist->allowed || !infer_batch_is_call(node))
		return false;
	if (infer_is_volatile(hoist->rewrite->statement, (Node *) infer_call_arguments(node)))
		return false;
	verb = infer_call_verb(node);
	return verb == NULL || verb->deduplicate || hoist->stage == hoist->stages;
}

/* The number of an equal call that is made whenever this one is; 0: none. */
static int
find_call(const Hoist *hoist, const Node *call)
{
	const InferVerbDef *verb = infer_call_verb(call);
	ListCell   *cell;

	if (verb != NULL && !verb->deduplicate)
		return 0;
	foreach(cell, hoist->calls)
	{
		const BatchCall *known = lfirst(cell);

		if (equal(known->call, call) && (known->guard == NULL || equal(known->guard, hoist->guard)))
			return foreach_current_index(cell) + 1;
	}
	return 0;
}

static Node *
hoist_call(Node *node, Hoist *hoist)
{
	List	   *arguments = (List *) infer_hoist_rewrite((Node *) infer_call_arguments(node), hoist);
	Expr	   *call = infer_call_with_arguments(node, arguments);
	int			number = find_call(hoist, (Node *) call);

	if (number == 0)
	{
		BatchCall  *made = palloc(sizeof(BatchCall));

		made->call = call;
		made->args = arguments;
		made->guard = copyObject(hoist->guard);
		made->stage = hoist->stage;
		hoist->calls = lappend(hoist->calls, made);
		hoist->shown = lappend(hoist->shown, show_mutator(node, hoist));
		number = list_length(hoist->calls);
	}
	return (Node *) make_reference(INDEX_VAR, hoist->atoms_count + number, node);
}

/* ---- all together ---- */

static Node *
rewrite_mutator(Node *node, void *context)
{
	return infer_hoist_rewrite(node, context);
}

/* Evaluates its children always, or none of them for the node. */
static Node *
rewrite_plainly(Node *node, Hoist *hoist)
{
	bool		allowed = hoist->allowed;
	Node	   *result;

	if (!infer_is_transparent(node))
		hoist->allowed = false;
	result = expression_tree_mutator(node, rewrite_mutator, hoist);
	hoist->allowed = allowed;
	return result;
}

Node *
infer_hoist_rewrite(Node *node, Hoist *hoist)
{
	if (node == NULL)
		return NULL;
	check_stack_depth();
	if (is_atom(hoist, node))
		return (Node *) make_reference(INDEX_VAR, atom_number(hoist, node), node);
	if (may_hoist(node, hoist))
		return hoist_call(node, hoist);
	switch (nodeTag(node))
	{
		case T_CaseExpr:
			return infer_hoist_case((CaseExpr *) node, hoist);
		case T_CoalesceExpr:
			return infer_hoist_coalesce((CoalesceExpr *) node, hoist);
		case T_BoolExpr:
			if (((BoolExpr *) node)->boolop == NOT_EXPR)
				return rewrite_plainly(node, hoist);
			return infer_hoist_and_or((BoolExpr *) node, hoist);
		case T_SubscriptingRef:
			return rewrite_subscript((SubscriptingRef *) node, hoist);
		case T_SubPlan:
			return rewrite_subplan((SubPlan *) node, hoist);
		case T_ArrayCoerceExpr:
			return rewrite_array_coercion((ArrayCoerceExpr *) node, hoist);
		default:
			return rewrite_plainly(node, hoist);
	}
}

static Node *
index_to_outer_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR)
		return (Node *) make_reference(OUTER_VAR, ((Var *) node)->varattno, node);
	return expression_tree_mutator(node, index_to_outer_mutator, context);
}

Node *
infer_index_to_outer(Node *node)
{
	return index_to_outer_mutator(node, NULL);
}
