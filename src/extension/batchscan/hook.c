/*
 * hook.c
 *	  The hooks: which plans are rewritten at all, and which are run for so many rows only.
 *
 * A plan names the functions that it depends on (invalItems), but for those that PostgreSQL is
 * born with.  Most name none, or only such that are known not to be verbs: a look at that list
 * is all that these cost.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "utils/syscache.h"

#include "batchscan.h"
#include "rewrite/rewrite.h"

static planner_hook_type prev_planner;
static ExecutorRun_hook_type prev_run;

/* ---- does it call? ---- */

typedef struct Search
{
	bool		found;
} Search;

static bool
names_verb(const PlannedStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->invalItems)
	{
		const PlanInvalItem *item = lfirst_node(PlanInvalItem, cell);

		if (item->cacheId == PROCOID && infer_may_be_verb(item->hashValue))
			return true;
	}
	return false;
}

static bool
verb_visitor(Node *expression, const char *place, void *context)
{
	return infer_has_verb(expression);
}

/* PlanVisitor */
static void
search_visitor(Plan *plan, void *context)
{
	Search	   *search = context;

	if (search->found)
		return;
	if (infer_visit_expressions(plan, verb_visitor, NULL))
		search->found = true;
	else
		infer_visit_children(plan, search_visitor, search);
}

static bool
plans_have_verb(const PlannedStmt *statement)
{
	Search		search = {false};
	ListCell   *cell;

	search_visitor(statement->planTree, &search);
	foreach(cell, statement->subplans)
		if (lfirst(cell) != NULL && !search.found)
			search_visitor(lfirst(cell), &search);
	return search.found;
}

bool
infer_calls_verb(const PlannedStmt *statement)
{
	if (statement->planTree == NULL)
		return false;
#ifdef INFER_DEVELOPER
	if (infer_debug_batch_all)
		return true;
#endif
	return names_verb(statement) && plans_have_verb(statement);
}

/* ---- the hooks ---- */

static PlannedStmt *
plan_with_batches(Query *query, const char *text, int cursor_options, ParamListInfo parameters)
{
	planner_hook_type planner = prev_planner != NULL ? prev_planner : standard_planner;
	uint64		outer = infer_costs_hold();
	PlannedStmt *statement = planner(query, text, cursor_options, parameters);

	if (infer_batching && infer_calls_verb(statement))
		infer_batch_rewrite(statement, cursor_options);
	infer_costs_release(outer);
	return statement;
}

/* PL/pgSQL's RETURNING … INTO asks for two rows: no more may be modified. */
static void
run_with_count(INFER_RUN_PARAMETERS)
{
	ExecutorRun_hook_type run = prev_run != NULL ? prev_run : standard_ExecutorRun;

	if (count > 0)
		infer_batch_expect_end(query->planstate);
	run(INFER_RUN_ARGUMENTS);
}

/* Where the library is not preloaded, every call fails. */
void
infer_batch_init(void)
{
	RegisterCustomScanMethods(&infer_batch_methods);
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_planner = planner_hook;
	planner_hook = plan_with_batches;
	prev_run = ExecutorRun_hook;
	ExecutorRun_hook = run_with_count;
	infer_explain_init();
}
