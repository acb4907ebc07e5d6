/*
 * below.c
 *	  Rows of a table that come from further below as their columns: through joins, sorts, hash
 *	  tables, Append (the children of a partitioned table).
 *
 * Such a row would be formed by the scan, and all that is in TOAST tables fetched for it.  Where
 * nobody but the calls uses it, the scan gives its columns, added at the end of its target list
 * and of each on the way, and NULL in the row's place.  Not where an outer join could make
 * the row NULL: its columns would be NULL then, which is another row.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "rewrite.h"

/* ---- who uses a column ---- */

typedef struct Use
{
	Index		varno;				/* OUTER_VAR, INNER_VAR */
	AttrNumber	column;
	int			count;
} Use;

static bool
count_walker(Node *node, void *context)
{
	Use		   *use = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var) && ((Var *) node)->varno == use->varno && ((Var *) node)->varattno == use->column)
		use->count++;
	return expression_tree_walker(node, count_walker, use);
}

static bool
count_visitor(Node *expression, const char *place, void *context)
{
	return count_walker(expression, context);
}

static bool
is_among(AttrNumber column, const AttrNumber *columns, int count)
{
	for (int i = 0; i < count; i++)
		if (columns[i] == column)
			return true;
	return false;
}

/* A plan names its own or its child's columns beside expressions: by what it sorts or groups. */
static bool
is_named(Plan *plan, AttrNumber column)
{
	switch (nodeTag(plan))
	{
		case T_Sort:
		case T_IncrementalSort:
			return is_among(column, ((Sort *) plan)->sortColIdx, ((Sort *) plan)->numCols);
		case T_GatherMerge:
			return is_among(column, ((GatherMerge *) plan)->sortColIdx, ((GatherMerge *) plan)->numCols);
		case T_MergeAppend:
			return is_among(column, ((MergeAppend *) plan)->sortColIdx, ((MergeAppend *) plan)->numCols);
		case T_Agg:
			return ((Agg *) plan)->chain != NIL || ((Agg *) plan)->groupingSets != NIL ||
				is_among(column, ((Agg *) plan)->grpColIdx, ((Agg *) plan)->numCols);
		default:
			return false;
	}
}

/* How often a plan uses a column of a child. */
static int
count_uses(Plan *plan, Index varno, AttrNumber column)
{
	Use			use = {.varno = varno, .column = column};

	infer_visit_expressions(plan, count_visitor, &use);
	if (IsA(plan, NestLoop))
	{
		ListCell   *cell;

		foreach(cell, ((NestLoop *) plan)->nestParams)
			count_walker((Node *) lfirst_node(NestLoopParam, cell)->paramval, &use);
	}
	return use.count;
}

/* ---- the way of a column ---- */

/* The child that a plan's column comes from; NULL: it is not passed on as it is. */
static Plan *
child_of_column(Plan *plan, const Var *var)
{
	if (!IsA(var, Var) || var->varattno <= 0)
		return NULL;
	switch (nodeTag(plan))
	{
		case T_Hash:
		case T_Sort:
		case T_IncrementalSort:
		case T_Material:
		case T_Gather:
		case T_GatherMerge:
		case T_Result:
		case T_Agg:
		case T_ProjectSet:
			return var->varno == OUTER_VAR ? plan->lefttree : NULL;
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			{
				JoinType	type = ((Join *) plan)->jointype;

				if (var->varno == OUTER_VAR)
					return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_SEMI || type == JOIN_ANTI ?
						plan->lefttree : NULL;
				return type == JOIN_INNER || type == JOIN_RIGHT ? plan->righttree : NULL;
			}
		default:
			return NULL;
	}
}

static List *
appended(Plan *plan)
{
	if (IsA(plan, Append))
		return ((Append *) plan)->appendplans;
	return IsA(plan, MergeAppend) ? ((MergeAppend *) plan)->mergeplans : NIL;
}

/* As EXPLAIN shows what is appended: the row of the table that the children belong to, or NULL. */
static Node *
row_of_parent(Plan *plan, Node *value)
{
	Relids		parents = IsA(plan, Append) ? ((Append *) plan)->apprelids : ((MergeAppend *) plan)->apprelids;
	int			parent;

	if (!bms_get_singleton_member(parents, &parent))
		return NULL;
	return (Node *) makeVar(parent, InvalidAttrNumber, exprType(value), -1, InvalidOid, 0);
}

static TargetEntry *
column_of(Plan *plan, AttrNumber column)
{
	return list_nth_node(TargetEntry, plan->targetlist, column - 1);
}

/* Whether a column is a row that a scan reads, and is passed on unused.  Sets *row to an example. */
static bool
can_spread(const Rewrite *rewrite, Plan *plan, AttrNumber column, Node **row)
{
	Node	   *value = (Node *) column_of(plan, column)->expr;
	Plan	   *child;
	ListCell   *cell;

	if (infer_scans_relation(plan))
	{
		if (*row == NULL)
			*row = value;
		return infer_row_of_scan(rewrite, (Scan *) plan, value) != NULL;
	}
	if (is_named(plan, column))
		return false;
	if (appended(plan) != NIL)
		*row = row_of_parent(plan, value);
	foreach(cell, appended(plan))
		if (!can_spread(rewrite, lfirst(cell), column, row))
			return false;
	if (appended(plan) != NIL)
		return true;
	if (IsA(plan, Agg) || IsA(plan, ProjectSet))
		return false;
	child = child_of_column(plan, (Var *) value);
	return child != NULL && count_uses(plan, ((Var *) value)->varno, ((Var *) value)->varattno) == 1 &&
		can_spread(rewrite, child, ((Var *) value)->varattno, row);
}

static AttrNumber
add_column(Plan *plan, Expr *value)
{
	AttrNumber	number = list_length(plan->targetlist) + 1;

	plan->targetlist = lappend(plan->targetlist, makeTargetEntry(value, number, NULL, false));
	return number;
}

/* ROW(…) over numbers of columns → over the columns of its child that a plan has by a varno. */
static RowExpr *
refer_to_row(const RowExpr *row, Index varno)
{
	RowExpr    *result = copyObject(unconstify(RowExpr *, row));
	ListCell   *cell;

	foreach(cell, result->args)
		if (IsA(lfirst(cell), Var))
			((Var *) lfirst(cell))->varno = varno;
	return result;
}

/* Adds values to a plan as columns; the row over these. */
static RowExpr *
add_row(Plan *plan, const RowExpr *values)
{
	RowExpr    *result = copyObject(unconstify(RowExpr *, values));
	ListCell   *cell;

	plan->targetlist = list_copy(plan->targetlist);
	foreach(cell, result->args)
	{
		Node	   *value = lfirst(cell);

		if (IsA(value, Var))
			lfirst(cell) = makeVar(OUTER_VAR, add_column(plan, (Expr *) value), exprType(value), exprTypmod(value),
								   exprCollation(value), 0);
	}
	return result;
}

/* After can_spread: the row over the columns that the plan has now in addition. */
static RowExpr *
spread(const Rewrite *rewrite, Plan *plan, AttrNumber column)
{
	TargetEntry *entry = column_of(plan, column);
	RowExpr    *row = NULL;
	ListCell   *cell;

	if (infer_scans_relation(plan))
	{
		row = add_row(plan, infer_row_of_scan(rewrite, (Scan *) plan, (Node *) entry->expr));
		entry = flatCopyTargetEntry(entry);
		entry->expr = (Expr *) makeNullConst(exprType((Node *) entry->expr), -1, InvalidOid);
		lfirst(list_nth_cell(plan->targetlist, column - 1)) = entry;
		return row;
	}
	foreach(cell, appended(plan))
		row = spread(rewrite, lfirst(cell), column);
	if (row == NULL)
	{
		Var		   *var = (Var *) entry->expr;

		row = refer_to_row(spread(rewrite, child_of_column(plan, var), var->varattno), var->varno);
	}
	return add_row(plan, row);
}

/* ---- calls ---- */

typedef struct Below
{
	Hoist	   *hoist;
	Plan	   *plan;
	List	   *done;				/* Var: rows that have been spread … */
	List	   *rows;				/* … and what each is now, RowExpr */
	Var		   *wanted;				/* the row whose uses as an only input are counted */
	int			count;
} Below;

static Var *
row_input(Node *call)
{
	int			input = infer_only_input(call);
	Var		   *var;

	if (input < 0)
		return NULL;
	var = (Var *) list_nth(((FuncExpr *) call)->args, input);
	if (!IsA(var, Var) || var->varattno <= 0 || !OidIsValid(get_typ_typrelid(var->vartype)))
		return NULL;
	return var;
}

static bool
count_inputs_walker(Node *node, void *context)
{
	Below	   *below = context;

	if (node == NULL)
		return false;
	if (equal(row_input(node), below->wanted))
		below->count++;
	return expression_tree_walker(node, count_inputs_walker, below);
}

static Join *
join_of(Plan *plan)
{
	return IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin) ? (Join *) plan : NULL;
}

/* Whether all that a plan does with a row is to give it to calls, where it could be changed. */
static bool
is_input_only(Below *below, Var *row)
{
	Plan	   *plan = below->plan;

	below->wanted = row;
	below->count = 0;
	count_inputs_walker((Node *) plan->targetlist, below);
	count_inputs_walker((Node *) plan->qual, below);
	if (join_of(plan) != NULL)
		count_inputs_walker((Node *) join_of(plan)->joinqual, below);
	return below->count == count_uses(plan, row->varno, row->varattno) &&
		!(IsA(plan, Agg) && is_named(plan, row->varattno));
}

static Node *
spread_below_mutator(Node *node, void *context)
{
	Below	   *below = context;
	ListCell   *done;
	ListCell   *row;

	if (node == NULL)
		return NULL;
	forboth(done, below->done, row, below->rows)
		if (equal(lfirst(done), node))
			return copyObject(lfirst(row));
	return expression_tree_mutator(node, spread_below_mutator, below);
}

typedef struct Inputs
{
	List	   *rows;				/* Var */
} Inputs;

static bool
inputs_walker(Node *node, void *context)
{
	Inputs	   *inputs = context;

	if (node == NULL)
		return false;
	if (row_input(node) != NULL)
		inputs->rows = list_append_unique(inputs->rows, row_input(node));
	return expression_tree_walker(node, inputs_walker, inputs);
}

static void
try_row(Below *below, Var *row)
{
	const Rewrite *rewrite = below->hoist->rewrite;
	Plan	   *child = child_of_column(below->plan, row);
	Node	   *whole = NULL;
	RowExpr    *values;

	if (child == NULL || !is_input_only(below, row) ||
		!can_spread(rewrite, child, row->varattno, &whole))
		return;
	values = refer_to_row(spread(rewrite, child, row->varattno), row->varno);
	below->done = lappend(below->done, row);
	below->rows = lappend(below->rows, values);
	below->hoist->spread = lappend(below->hoist->spread, values);
	below->hoist->whole = lappend(below->hoist->whole, whole);
}

/* Changes the plan: whether it is wrapped or not, its calls are given the same rows. */
void
infer_spread_below(Hoist *hoist, Plan *plan)
{
	Below		below = {.hoist = hoist, .plan = plan};
	Inputs		inputs = {NIL};
	ListCell   *cell;

	inputs_walker((Node *) plan->targetlist, &inputs);
	inputs_walker((Node *) plan->qual, &inputs);
	if (join_of(plan) != NULL)
		inputs_walker((Node *) join_of(plan)->joinqual, &inputs);
	foreach(cell, inputs.rows)
		try_row(&below, lfirst(cell));
	if (below.done == NIL)
		return;
	plan->targetlist = (List *) spread_below_mutator((Node *) plan->targetlist, &below);
	plan->qual = (List *) spread_below_mutator((Node *) plan->qual, &below);
	if (join_of(plan) != NULL)
		join_of(plan)->joinqual = (List *) spread_below_mutator((Node *) join_of(plan)->joinqual, &below);
}
