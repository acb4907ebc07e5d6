/*
 * returning.c
 *	  A node above ModifyTable: the calls of RETURNING.
 *
 * There is a list for each result relation, of one shape: what is rewritten is the first, and
 * each gives the atoms at the same places.  A relation that gets rows by routing has none; the
 * executor makes it out of the first.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"

#include "rewrite.h"

static List *
atoms_of_list(Rewrite *rewrite, List *list)
{
	Hoist		hoist = {.rewrite = rewrite, .kind = HOIST_RETURNING};
	List	   *targetlist = NIL;
	ListCell   *cell;

	infer_hoist_collect((Node *) list, &hoist);
	foreach(cell, hoist.atoms)
		targetlist = lappend(targetlist, makeTargetEntry(lfirst(cell), foreach_current_index(cell) + 1, NULL, false));
	return targetlist;
}

static bool
have_same_types(List *one, List *other)
{
	ListCell   *a;
	ListCell   *b;

	if (list_length(one) != list_length(other))
		return false;
	forboth(a, one, b, other)
		if (exprType((Node *) lfirst_node(TargetEntry, a)->expr) != exprType((Node *) lfirst_node(TargetEntry, b)->expr))
			return false;
	return true;
}

/* NIL: they differ in shape. */
static List *
atoms_of_lists(Rewrite *rewrite, List *lists)
{
	List	   *atoms = NIL;
	ListCell   *cell;

	foreach(cell, lists)
	{
		atoms = lappend(atoms, atoms_of_list(rewrite, lfirst(cell)));
		if (!have_same_types(linitial(atoms), llast(atoms)))
			return NIL;
	}
	return atoms;
}

Plan *
infer_wrap_returning(Rewrite *rewrite, ModifyTable *modify, const Reader *reader)
{
	Plan	   *plan = &modify->plan;
	Hoist		hoist = {.rewrite = rewrite, .kind = HOIST_RETURNING, .allowed = true};
	List	   *initplans = plan->initPlan;
	List	   *targetlist;
	List	   *lists;
	Plan	   *node;

	if (modify->returningLists == NIL || !infer_has_call(linitial(modify->returningLists)))
		return plan;
	lists = atoms_of_lists(rewrite, modify->returningLists);
	if (lists == NIL)
		return plan;
	infer_hoist_collect(linitial(modify->returningLists), &hoist);
	targetlist = (List *) infer_hoist_rewrite(linitial(modify->returningLists), &hoist);
	if (hoist.calls == NIL)
		return plan;

	infer_count_cost(rewrite, plan, linitial(modify->returningLists), NIL, reader);
	modify->returningLists = lists;
	plan->targetlist = copyObject(linitial(lists));
	plan->initPlan = NIL;
	node = infer_make_node(&hoist, plan, targetlist, NIL, plan, reader);
	node->initPlan = initplans;
	return node;
}
