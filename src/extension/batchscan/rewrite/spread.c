/*
 * spread.c
 *	  Rows of a table as their columns: a call of f(t) is given ROW(t.a, t.b, …), of which the node
 *	  copies what the model needs, and no row is ever formed.
 *
 * At the scan itself a row of its table is never NULL, so both mean the same.  A child of an
 * inheritance tree gives rows of the parent's type: the parent's columns are found by name.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "rewrite.h"

enum { PHYSICAL_MAX = 64 };			/* columns that a scan may give although they are not all needed */

typedef struct Spreading
{
	Hoist	   *hoist;
	Index		scanned;			/* range table index */
	Relation	relation;
} Spreading;

/* ---- rows ---- */

/* The row of the table in an argument, below conversions to types of its parents; or NULL. */
static Var *
scanned_row(const Spreading *spreading, Node *argument)
{
	Var		   *var;

	while (IsA(argument, ConvertRowtypeExpr))
		argument = (Node *) ((ConvertRowtypeExpr *) argument)->arg;
	var = (Var *) argument;
	if (!IsA(var, Var) || var->varno != spreading->scanned || var->varattno != InvalidAttrNumber ||
		var->varlevelsup != 0 || var->vartype != RelationGetForm(spreading->relation)->reltype)
		return NULL;
	return var;
}

static Node *
make_column(const Spreading *spreading, AttrNumber number)
{
	Form_pg_attribute column = TupleDescAttr(RelationGetDescr(spreading->relation), number - 1);

	return (Node *) makeVar(spreading->scanned, number, column->atttypid, column->atttypmod,
							column->attcollation, 0);
}

/* The table's column of that name and type; NULL: there is none. */
static Node *
find_column(const Spreading *spreading, Form_pg_attribute wanted)
{
	TupleDesc	columns = RelationGetDescr(spreading->relation);

	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);

		if (!column->attisdropped && !infer_is_virtual_column(column) &&
			strcmp(NameStr(column->attname), NameStr(wanted->attname)) == 0 &&
			column->atttypid == wanted->atttypid && column->atttypmod == wanted->atttypmod)
			return make_column(spreading, i + 1);
	}
	return NULL;
}

/* The row as ROW(…) of the type that the call sees; NULL: it stays. */
static RowExpr *
make_row(const Spreading *spreading, Oid type)
{
	RowExpr    *row = makeNode(RowExpr);
	TupleDesc	columns = lookup_rowtype_tupdesc(type, -1);

	row->row_typeid = type;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->location = -1;
	for (int i = 0; i < columns->natts && row != NULL; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);
		Node	   *value = column->attisdropped ? (Node *) makeNullConst(INT4OID, -1, InvalidOid)
			: find_column(spreading, column);

		if (value == NULL)
			row = NULL;
		else
			row->args = lappend(row->args, value);
	}
	ReleaseTupleDesc(columns);
	return row;
}

static Node *
spread_argument(const Spreading *spreading, Node *argument)
{
	Hoist	   *hoist = spreading->hoist;
	RowExpr    *row;

	if (scanned_row(spreading, argument) == NULL || (row = make_row(spreading, exprType(argument))) == NULL)
		return argument;
	hoist->spread = lappend(hoist->spread, row);
	hoist->whole = lappend(hoist->whole, argument);
	return (Node *) row;
}

/* The place of a call's only input among its arguments; -1: there are several, or an array. */
int
infer_only_input(Node *node)
{
	const InferVerbDef *verb = infer_call_verb(node);
	FuncExpr   *call = (FuncExpr *) node;

	if (verb == NULL || !infer_batch_is_call(node) || call->funcvariadic || list_length(call->args) != verb->inputs_first + 1)
		return -1;
	return verb->inputs_first;
}

static Node *
spread_mutator(Node *node, void *context)
{
	Node	   *result;
	int			input;

	if (node == NULL)
		return NULL;
	result = expression_tree_mutator(node, spread_mutator, context);
	input = infer_only_input(node);
	if (input >= 0)
	{
		ListCell   *cell = list_nth_cell(((FuncExpr *) result)->args, input);

		lfirst(cell) = spread_argument(context, lfirst(cell));
	}
	return result;
}

static Relation
open_scanned(const Hoist *hoist, const Scan *scan)
{
	RangeTblEntry *entry = rt_fetch(scan->scanrelid, hoist->rewrite->statement->rtable);

	/* it has been locked since the statement was parsed */
	return entry->rtekind == RTE_RELATION ? table_open(entry->relid, NoLock) : NULL;
}

Node *
infer_spread_rows(Hoist *hoist, Scan *scan, Node *expression)
{
	Spreading	spreading = {.hoist = hoist, .scanned = scan->scanrelid};
	Node	   *result;

	spreading.relation = open_scanned(hoist, scan);
	if (spreading.relation == NULL)
		return expression;
	result = spread_mutator(expression, &spreading);
	table_close(spreading.relation, NoLock);
	return result;
}

/* What a scan gives in a row's place, ROW(…); NULL: it is not a row of its table. */
RowExpr *
infer_row_of_scan(const Rewrite *rewrite, Scan *scan, Node *value)
{
	Hoist		hoist = {.rewrite = unconstify(Rewrite *, rewrite)};
	Spreading	spreading = {.hoist = &hoist, .scanned = scan->scanrelid};
	RowExpr    *row = NULL;

	spreading.relation = open_scanned(&hoist, scan);
	if (spreading.relation == NULL)
		return NULL;
	if (scanned_row(&spreading, value) != NULL)
		row = make_row(&spreading, exprType(value));
	table_close(spreading.relation, NoLock);
	return row;
}

/* ---- the scan's columns ---- */

static bool
are_plain_columns(const Hoist *hoist, const Scan *scan)
{
	ListCell   *cell;

	foreach(cell, hoist->atoms)
	{
		Var		   *var = lfirst(cell);

		if (!IsA(var, Var) || var->varno != scan->scanrelid || var->varattno <= 0)
			return false;
	}
	return true;
}

static bool
can_give_all(TupleDesc columns)
{
	if (columns->natts > PHYSICAL_MAX)
		return false;
	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);

		if (column->attisdropped || column->atthasmissing || infer_is_virtual_column(column))
			return false;
	}
	return true;
}

/*
 * All columns in their order are what a scan gives without a projection; the node copies but
 * those that it needs.  A foreign table may have left out the others.
 */
void
infer_order_atoms(Hoist *hoist, Scan *scan)
{
	Spreading	spreading = {.hoist = hoist, .scanned = scan->scanrelid};

	if (IsA(scan, ForeignScan) || !are_plain_columns(hoist, scan))
		return;
	spreading.relation = open_scanned(hoist, scan);
	if (spreading.relation == NULL)
		return;
	if (can_give_all(RelationGetDescr(spreading.relation)))
	{
		hoist->atoms = NIL;
		for (int i = 1; i <= RelationGetNumberOfAttributes(spreading.relation); i++)
			hoist->atoms = lappend(hoist->atoms, make_column(&spreading, i));
		hoist->atoms_count = list_length(hoist->atoms);
	}
	table_close(spreading.relation, NoLock);
}
