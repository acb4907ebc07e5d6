/*
 * submit.c
 *	  infer.submit_job.
 *
 * All that is wrong with a job is raised here, where somebody sees it; the runner looks once more.  A job is a row
 * like any other until the transaction commits: then the launcher hears of it.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "../job.h"

/* ---- arguments ---- */

static char *
text_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(number));
}

static void
read_arguments(FunctionCallInfo fcinfo, JobRequest *request)
{
	request->model = text_argument(fcinfo, 0);
	request->table = PG_ARGISNULL(1) ? InvalidOid : PG_GETARG_OID(1);
	request->input = text_argument(fcinfo, 2);
	request->output = text_argument(fcinfo, 3);
	request->condition = text_argument(fcinfo, 4);
	request->source = text_argument(fcinfo, 5);
	request->key = text_argument(fcinfo, 6);
	request->target = PG_ARGISNULL(7) ? InvalidOid : PG_GETARG_OID(7);
	request->verb = text_argument(fcinfo, 8);
	request->class_ = text_argument(fcinfo, 9);
	request->version_column = text_argument(fcinfo, 10);
	request->name = text_argument(fcinfo, 11);
	request->priority = PG_ARGISNULL(12) ? 0 : PG_GETARG_INT32(12);
	request->completion_window = PG_ARGISNULL(13) ? NULL : PG_GETARG_INTERVAL_P(13);
	request->options = PG_ARGISNULL(14) ? NULL : PG_GETARG_JSONB_P(14);
	request->max_failures = PG_ARGISNULL(15) ? JOB_MAX_FAILURES : PG_GETARG_FLOAT8(15);
	request->shards = PG_ARGISNULL(16) ? 1 : PG_GETARG_INT32(16);
}

/* ---- names ---- */

typedef struct NamedJob
{
	const char *origin;
	const char *name;
	Oid			owner;
	int64		job;				/* 0: none found */
} NamedJob;

static bool
is_named(JobRecord *record, void *arg)
{
	NamedJob   *named = arg;

	if (record->name == NULL || strcmp(record->name, named->name) != 0 || record->owner != named->owner ||
		strcmp(record->origin, named->origin) != 0)
		return true;
	named->job = record->job;
	return false;
}

int64
job_find_named(Oid owner, const char *name)
{
	NamedJob	named = {.origin = job_origin(), .name = name, .owner = owner};

	job_lock_name(owner, name);
	job_each_unfinished(is_named, &named);
	return named.job;
}

/* ---- submitting ---- */

TimestampTz
job_time_after(TimestampTz time, Interval *interval)
{
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(time),
												   IntervalPGetDatum(interval)));
}

TimestampTz
job_expiry(const JobRequest *request, TimestampTz submitted)
{
	return request->completion_window == NULL ? 0 : job_time_after(submitted, request->completion_window);
}

void
job_submit_record(JobRecord *record, const JobRequest *request, const JobPlan *plan)
{
	*record = (JobRecord) {.state = JOB_VALIDATING, .total = -1};
	record->job = job_next_number();
	record->origin = job_origin();
	record->name = request->name;
	record->owner = GetUserId();
	record->owner_name = GetUserNameFromId(record->owner, false);
	record->model = plan->model_pinned != NULL ? plan->model_pinned : "requests";
	record->priority = request->priority;
	record->request = job_request_to_jsonb(request);
	record->submitted = GetCurrentTimestamp();
	record->expires = job_expiry(request, record->submitted);
	record->facts = job_facts(plan);
}

void
job_request_note_session(JobRequest *request)
{
	static const char *const orders[] = {[DATEORDER_YMD] = "YMD", [DATEORDER_DMY] = "DMY", [DATEORDER_MDY] = "MDY"};

	request->search_path = pstrdup(GetConfigOption("search_path", false, false));
	request->time_zone = pstrdup(GetConfigOption("timezone", false, false));
	request->date_order = pstrdup(orders[DateOrder]);
}

void
job_check_may_write(const char *function)
{
	infer_require_preload();
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
}

int64
job_submit_find(JobRequest *request)
{
	int64		job;

	if (request->options == NULL)
		request->options = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	if (request->search_path == NULL)
		job_request_note_session(request);
	if (request->name == NULL || (job = job_find_named(GetUserId(), request->name)) == 0)
		return 0;
	ereport(NOTICE,
			(errmsg("job \"%s\" has not ended yet: it is job " INT64_FORMAT, request->name, job)));
	return job;
}

int64
job_submit(JobRequest *request)
{
	int64		job = job_submit_find(request);
	JobRecord	record;

	if (job != 0)
		return job;
	job_submit_record(&record, request, job_plan_make(request, CurrentMemoryContext));
	job_insert(&record);
	infer_jobs_changed();
	return record.job;
}

PG_FUNCTION_INFO_V1(infer_submit_job);

Datum
infer_submit_job(PG_FUNCTION_ARGS)
{
	JobRequest	request = {0};

	job_check_may_write("infer.submit_job()");
	read_arguments(fcinfo, &request);
	PG_RETURN_INT64(job_submit(&request));
}
