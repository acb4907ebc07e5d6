/*
 * guards.c
 *	  Expressions that evaluate a later part only if earlier ones say so: CASE, COALESCE, AND, OR.
 *
 * What is hoisted from such a part gets a guard: the condition under which the part is evaluated,
 * made of the earlier ones as they are over the node's columns.  A guard is computed anew for each
 * row, so nothing is hoisted from under one that is volatile.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"

#include "rewrite.h"

Expr *
infer_make_test(BoolTestType what, BoolExprType operator, List *arguments)
{
	BooleanTest *test = makeNode(BooleanTest);

	test->arg = list_length(arguments) == 1 ? copyObject(linitial(arguments))
		: makeBoolExpr(operator, copyObject(arguments), -1);
	test->booltesttype = what;
	test->location = -1;
	return (Expr *) test;
}

Node *
infer_hoist_guarded(Node *node, Expr *guard, Hoist *hoist)
{
	Expr	   *outer = hoist->guard;
	bool		allowed = hoist->allowed;
	Node	   *result;

	if (guard != NULL)
	{
		if (infer_is_bound((Node *) guard) || infer_is_volatile(hoist->rewrite->statement, (Node *) guard))
			hoist->allowed = false;
		hoist->guard = outer == NULL ? guard : makeBoolExpr(AND_EXPR, list_make2(copyObject(outer), guard), -1);
	}
	result = infer_hoist_rewrite(node, hoist);
	hoist->guard = outer;
	hoist->allowed = allowed;
	return result;
}

static CaseWhen *
make_when(Expr *condition, bool result)
{
	CaseWhen   *when = makeNode(CaseWhen);

	when->expr = copyObject(condition);
	when->result = (Expr *) makeBoolConst(result, false);
	when->location = -1;
	return when;
}

/* NULL if there are no arms: nothing to guard. */
static Expr *
make_case(Expr *operand, List *arms, bool otherwise)
{
	CaseExpr   *guard = makeNode(CaseExpr);

	if (arms == NIL)
		return NULL;
	guard->casetype = BOOLOID;
	guard->arg = copyObject(operand);
	guard->args = copyObject(arms);
	guard->defresult = (Expr *) makeBoolConst(otherwise, false);
	guard->location = -1;
	return (Expr *) guard;
}

static Node *
rewrite_arm(Node *node, Expr *operand, List *arms, bool otherwise, Hoist *hoist)
{
	Expr	   *guard = infer_has_call(node) ? make_case(operand, arms, otherwise) : NULL;

	return infer_hoist_guarded(node, guard, hoist);
}

/*
 * An arm's condition is evaluated if no earlier one was true; its result, if it was the first
 * that was.
 */
Node *
infer_hoist_case(CaseExpr *expression, Hoist *hoist)
{
	CaseExpr   *result = makeNode(CaseExpr);
	List	   *earlier = NIL;		/* the arms so far, giving false */
	ListCell   *cell;

	*result = *expression;
	result->arg = (Expr *) infer_hoist_rewrite((Node *) expression->arg, hoist);
	result->args = NIL;
	foreach(cell, expression->args)
	{
		CaseWhen   *arm = lfirst_node(CaseWhen, cell);
		CaseWhen   *when = makeNode(CaseWhen);
		List	   *upto;

		*when = *arm;
		when->expr = (Expr *) rewrite_arm((Node *) arm->expr, result->arg, earlier, true, hoist);
		upto = lappend(list_copy(earlier), make_when(when->expr, true));
		when->result = (Expr *) rewrite_arm((Node *) arm->result, result->arg, upto, false, hoist);
		earlier = lappend(earlier, make_when(when->expr, false));
		result->args = lappend(result->args, when);
	}
	result->defresult = (Expr *) rewrite_arm((Node *) expression->defresult, result->arg, earlier, true, hoist);
	return (Node *) result;
}

static Expr *
make_all_null(CoalesceExpr *like, List *arguments)
{
	CoalesceExpr *coalesce = makeNode(CoalesceExpr);
	NullTest   *test = makeNode(NullTest);

	if (arguments == NIL)
		return NULL;
	*coalesce = *like;
	coalesce->args = copyObject(arguments);
	test->arg = (Expr *) coalesce;
	test->nulltesttype = IS_NULL;
	test->location = -1;
	return (Expr *) test;
}

Node *
infer_hoist_coalesce(CoalesceExpr *expression, Hoist *hoist)
{
	CoalesceExpr *result = makeNode(CoalesceExpr);
	List	   *earlier = NIL;
	ListCell   *cell;

	*result = *expression;
	foreach(cell, expression->args)
	{
		Expr	   *guard = infer_has_call(lfirst(cell)) ? make_all_null(expression, earlier) : NULL;

		earlier = lappend(earlier, infer_hoist_guarded(lfirst(cell), guard, hoist));
	}
	result->args = earlier;
	return (Node *) result;
}

/* AND, OR: an argument is evaluated until an earlier one has decided. */
Node *
infer_hoist_and_or(BoolExpr *expression, Hoist *hoist)
{
	BoolTestType open = expression->boolop == AND_EXPR ? IS_NOT_FALSE : IS_NOT_TRUE;
	List	   *earlier = NIL;
	ListCell   *cell;

	foreach(cell, expression->args)
	{
		Expr	   *guard = NULL;

		if (earlier != NIL && infer_has_call(lfirst(cell)))
			guard = infer_make_test(open, expression->boolop, earlier);

		earlier = lappend(earlier, infer_hoist_guarded(lfirst(cell), guard, hoist));
	}
	return (Node *) makeBoolExpr(expression->boolop, earlier, expression->location);
}
