/*
 * plan.c
 *	  What a request means: columns, types, model, verb, statements.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "../lines/lines.h"
#include "parts.h"

#define SHARDS_MAX		64
#define PRIORITY_MAX	1000
#define NAME_MAX_BYTES	255

static void
check_range(bool good, const char *argument, const char *range)
{
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is out of range", argument),
				 errdetail("It must be %s.", range)));
}

static bool
is_positive(const Interval *interval)
{
	Interval	none = {0};

	return DatumGetBool(DirectFunctionCall2(interval_gt, IntervalPGetDatum(interval), IntervalPGetDatum(&none)));
}

static void
check_numbers(const JobRequest *request)
{
	check_range(request->shards >= 1 && request->shards <= SHARDS_MAX, "shards",
				psprintf("from 1 to %d", SHARDS_MAX));
	check_range(request->priority >= -PRIORITY_MAX && request->priority <= PRIORITY_MAX, "job_priority",
				psprintf("from -%d to %d", PRIORITY_MAX, PRIORITY_MAX));
	check_range(!isnan(request->max_failures), "max_failures",
				"a count, or a share below 1 of all rows; negative: no limit");
	check_range(request->completion_window == NULL || is_positive(request->completion_window), "completion_window",
				"more than no time");
	check_range(request->name == NULL || (request->name[0] != '\0' && strlen(request->name) <= NAME_MAX_BYTES), "name",
				psprintf("from 1 to %d bytes long", NAME_MAX_BYTES));
}

static void
plan_model(PlanWork *work)
{
	JobPlan    *plan = work->plan;

	if (work->request->model == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("no model was named")));
	plan->model = infer_model_resolve(work->request->model, plan->context);
	infer_model_check_usage(plan->model);
	plan->model_pinned = psprintf("%s@%d", plan->model->name, plan->model->version);
	work->model = plan->model;
}

static void
close_tables(PlanWork *work)
{
	if (work->target != NULL && work->target != work->table)
		relation_close(work->target, NoLock);
	if (work->table != NULL)
		relation_close(work->table, NoLock);
}

static void
plan_rows(JobPlan *plan)
{
	PlanWork	work = {.plan = plan, .request = plan->request};

	plan_model(&work);
	plan_source(&work);
	plan_target(&work);
	plan_keys(&work);
	plan_output(&work);
	if (plan->target == JOB_TARGET_INSERT)
		plan_check_new_rows(&work);
	plan_inputs(&work);
	plan_read(&work);
	plan_call(&work);
	close_tables(&work);
	plan_check_statements(plan);
}

JobPlan *
job_plan_make(const JobRequest *request, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	JobPlan    *plan = palloc0(sizeof(JobPlan));

	plan->context = context;
	plan->request = request;
	check_numbers(request);
	plan_check_role();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (request->requests)
		lines_plan(plan);
	else
		plan_rows(plan);
	PopActiveSnapshot();
	MemoryContextSwitchTo(old);
	return plan;
}
