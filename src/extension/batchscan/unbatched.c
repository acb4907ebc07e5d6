/*
 * unbatched.c
 *	  EXPLAIN says at a plan's end why calls in it are not computed in batches:
 *
 *	Not batched: window function argument
 *
 * From 18 on there is a hook for it.  Before, we keep the state of the EXPLAIN that is under way,
 * and write when its query is closed, which is the last that happens before its end; of
 * EXPLAIN EXECUTE and auto_explain nothing is known then.
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "tcop/tcopprot.h"

#include "batchscan.h"
#include "rewrite/rewrite.h"

static void
show_unbatched(const PlannedStmt *statement, ExplainState *es)
{
	List	   *reasons = NIL;
	ListCell   *cell;

	foreach(cell, infer_list_unbatched(statement))
	{
		const InferUnbatched *unbatched = lfirst(cell);
		ListCell   *known;
		bool		is_new = true;

		foreach(known, reasons)
			is_new &= strcmp(lfirst(known), unbatched->reason) != 0;
		if (is_new)
			reasons = lappend(reasons, unconstify(char *, unbatched->reason));
	}
	if (reasons != NIL)
		ExplainPropertyList("Not batched", reasons, es);
}

#ifdef INFER_HAS_EXPLAIN_PER_PLAN

static explain_per_plan_hook_type prev_explain_per_plan;

static void
explain_plan(PlannedStmt *statement, IntoClause *into, ExplainState *es, const char *text,
			 ParamListInfo parameters, QueryEnvironment *environment)
{
	if (prev_explain_per_plan != NULL)
		prev_explain_per_plan(statement, into, es, text, parameters, environment);
	show_unbatched(statement, es);
}

void
infer_explain_init(void)
{
	prev_explain_per_plan = explain_per_plan_hook;
	explain_per_plan_hook = explain_plan;
}

#else

static ExplainOneQuery_hook_type prev_explain_query;
static ExecutorEnd_hook_type prev_executor_end;

static ExplainState *explaining;	/* NULL: no EXPLAIN is under way */

#ifndef infer_explain_query

/* What EXPLAIN does where nobody has a hook. */
static void
infer_explain_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es, const char *text,
					ParamListInfo parameters, QueryEnvironment *environment)
{
	BufferUsage before = pgBufferUsage;
	BufferUsage usage = {0};
	instr_time	start;
	instr_time	duration;
	PlannedStmt *statement;

	INSTR_TIME_SET_CURRENT(start);
	statement = pg_plan_query(query, text, cursor_options, parameters);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	BufferUsageAccumDiff(&usage, &pgBufferUsage, &before);
	ExplainOnePlan(statement, into, es, text, parameters, environment, &duration, es->buffers ? &usage : NULL);
}
#endif

static void
explain_query(Query *query, int cursor_options, IntoClause *into, ExplainState *es, const char *text,
			  ParamListInfo parameters, QueryEnvironment *environment)
{
	ExplainState *outer = explaining;

	explaining = es;
	PG_TRY();
	{
		if (prev_explain_query != NULL)
			prev_explain_query(query, cursor_options, into, es, text, parameters, environment);
		else
			infer_explain_query(query, cursor_options, into, es, text, parameters, environment);
	}
	PG_FINALLY();
	{
		explaining = outer;
	}
	PG_END_TRY();
}

static void
end_query(QueryDesc *query)
{
	if (explaining != NULL && explaining->pstmt == query->plannedstmt)
		show_unbatched(query->plannedstmt, explaining);
	if (prev_executor_end != NULL)
		prev_executor_end(query);
	else
		standard_ExecutorEnd(query);
}

void
infer_explain_init(void)
{
	prev_explain_query = ExplainOneQuery_hook;
	ExplainOneQuery_hook = explain_query;
	prev_executor_end = ExecutorEnd_hook;
	ExecutorEnd_hook = end_query;
}

#endif
