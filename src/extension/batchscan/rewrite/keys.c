/*
 * keys.c
 *	  Nodes below a hash join: calls in the keys of either side.
 *
 * Each side's rows are hashed by keys over that side alone, computed for every row of it, and the
 * join's conditions compare the same expressions: both then read the columns of the node.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "rewrite.h"

/* What an expression over OUTER_VAR is to a join whose inner side that is. */
static Node *
outer_to_inner_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == OUTER_VAR)
	{
		Var		   *var = copyObject((Var *) node);

		var->varno = INNER_VAR;
		return (Node *) var;
	}
	return expression_tree_mutator(node, outer_to_inner_mutator, context);
}

static Node *
as_seen_by_join(Node *key, bool inner)
{
	return inner ? outer_to_inner_mutator(key, NULL) : key;
}

/* The conditions compare the keys, with operators that a NULL never satisfies. */
static bool
are_compared(HashJoin *join, List *keys, bool inner)
{
	ListCell   *condition;
	ListCell   *key;

	if (list_length(join->hashclauses) != list_length(keys))
		return false;
	forboth(condition, join->hashclauses, key, keys)
	{
		OpExpr	   *comparison = lfirst(condition);

		if (!IsA(comparison, OpExpr) || list_length(comparison->args) != 2 || !op_strict(comparison->opno) ||
			!equal(list_nth(comparison->args, inner), as_seen_by_join(lfirst(key), inner)))
			return false;
	}
	return true;
}

static Expr *
make_not_null(Node *value)
{
	NullTest   *test = makeNode(NullTest);

	test->arg = copyObject((Expr *) value);
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	return (Expr *) test;
}

/* Rows of that side that match nothing are in the result, too: all their keys are computed. */
static bool
keeps_all(const HashJoin *join, bool inner)
{
	switch (join->join.jointype)
	{
		case JOIN_FULL:
			return true;
		case JOIN_LEFT:
		case JOIN_ANTI:
			return !inner;
		case JOIN_INNER:
		case JOIN_SEMI:
			return false;
		default:
			/* JOIN_RIGHT, and JOIN_RIGHT_ANTI from 16 on */
			return inner;
	}
}

/* Unless the side keeps all rows, a key after one that is NULL is not computed. */
static List *
rewrite_keys(Hoist *hoist, List *keys, bool all)
{
	List	   *rewritten = NIL;
	List	   *present = NIL;
	ListCell   *cell;

	foreach(cell, keys)
	{
		Expr	   *guard = present == NIL || all ? NULL : makeBoolExpr(AND_EXPR, copyObject(present), -1);
		Node	   *key = infer_hoist_guarded(lfirst(cell), guard, hoist);

		rewritten = lappend(rewritten, key);
		present = lappend(present, make_not_null(key));
	}
	return rewritten;
}

static void
replace_compared(HashJoin *join, List *keys, bool inner)
{
	List	   *conditions = copyObject(join->hashclauses);
	ListCell   *condition;
	ListCell   *key;

	forboth(condition, conditions, key, keys)
		lfirst(list_nth_cell(lfirst_node(OpExpr, condition)->args, inner)) = as_seen_by_join(lfirst(key), inner);
	join->hashclauses = conditions;
}

/* The keys over the columns of a node that has been put above plan's child; NIL: they stay. */
static List *
push_keys(Rewrite *rewrite, HashJoin *join, Plan *plan, List *keys, bool inner, const Reader *reader)
{
	Hoist		hoist;
	List	   *rewritten;

	if (!infer_has_call((Node *) keys) || !are_compared(join, keys, inner))
		return NIL;
	infer_begin_below(&hoist, rewrite, plan);
	rewritten = (List *) infer_index_to_outer((Node *) rewrite_keys(&hoist, keys, keeps_all(join, inner)));
	if (hoist.calls == NIL)
		return NIL;
	infer_put_below(&hoist, plan, keys, reader);
	replace_compared(join, rewritten, inner);
	return rewritten;
}

void
infer_push_keys(Rewrite *rewrite, HashJoin *join, const Reader *outer, const Reader *inner)
{
	Hash	   *hash = castNode(Hash, join->join.plan.righttree);
	List	   *keys;

	keys = push_keys(rewrite, join, &join->join.plan, join->hashkeys, false, outer);
	if (keys != NIL)
		join->hashkeys = keys;
	keys = push_keys(rewrite, join, &hash->plan, hash->hashkeys, true, inner);
	if (keys != NIL)
	{
		hash->hashkeys = keys;
		hash->plan.targetlist = infer_outer_targetlist(hash->plan.lefttree);
	}
}
