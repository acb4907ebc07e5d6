/*
 * expressions.c
 *	  What the node wants to know of an expression before it evaluates it.
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"

#include "node.h"

static bool
is_plain_walker(Node *expression, void *context)
{
	if (expression == NULL)
		return false;
	switch (nodeTag(expression))
	{
		case T_Var:
		case T_Const:
		case T_RelabelType:
		case T_RowExpr:
		case T_ConvertRowtypeExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_List:
		case T_TargetEntry:
			return expression_tree_walker(expression, is_plain_walker, context);
		case T_Param:
			return ((Param *) expression)->paramkind != PARAM_EXTERN;
		default:
			return true;
	}
}

bool
infer_batch_is_plain(Node *expression)
{
	return !is_plain_walker(expression, NULL);
}

static bool
runs_plans_walker(Node *expression, void *context)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, SubPlan) || IsA(expression, AlternativeSubPlan))
		return true;
	return expression_tree_walker(expression, runs_plans_walker, context);
}

bool
infer_batch_runs_plans(Node *expression)
{
	return runs_plans_walker(expression, NULL);
}

bool
infer_batch_wants_protection(Node *expression)
{
	return !infer_batch_is_plain(expression) && !infer_batch_runs_plans(expression);
}

static bool
has_column_walker(Node *expression, void *context)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, Var))
		return true;
	return expression_tree_walker(expression, has_column_walker, context);
}

bool
infer_batch_has_column(Node *expression)
{
	return has_column_walker(expression, NULL);
}

static bool
columns_walker(Node *expression, Bitmapset **columns)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, Var) && ((Var *) expression)->varno == INDEX_VAR)
		*columns = bms_add_member(*columns, ((Var *) expression)->varattno - 1);
	return expression_tree_walker(expression, columns_walker, columns);
}

void
infer_batch_add_columns(Node *expression, Bitmapset **columns)
{
	columns_walker(expression, columns);
}

static bool
params_walker(Node *expression, Bitmapset **params)
{
	if (expression == NULL)
		return false;
	if (IsA(expression, Param) && ((Param *) expression)->paramkind == PARAM_EXEC)
		*params = bms_add_member(*params, ((Param *) expression)->paramid);
	return expression_tree_walker(expression, params_walker, params);
}

void
infer_batch_add_params(Node *expression, Bitmapset **params)
{
	params_walker(expression, params);
}
