/*
 * finish.c
 *	  The ends of shards and jobs.
 *
 * The last shard that ends has the job end: first it is finalizing, then it has completed.  Other ends come
 * out of order (cancel, expiry, an error, more failures than allowed) and end all shards at once, whoever runs
 * them: one that is writing its shard's row is waited for, a runner that comes to it later finds the row
 * changed, which undoes its transaction.  The rows of a query are removed by scanners, a few at a time.
 *
 * What is left of a job that was cancelled or has expired is counted as such, in the shards that have not
 * been read to their end, and may be taken up again by infer.retry_job.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/async.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "../json.h"
#include "runner.h"

#define ITEMS_AT_ONCE	1000
#define NOTIFY_CHANNEL	"infer_jobs"

/* ---- counting ---- */

static int64
settled(const JobShard *shard)
{
	return shard->done + shard->failed + shard->gone + shard->expired + shard->cancelled;
}

static int64
sum_settled(JobShard *const *shards, int count)
{
	int64		sum = 0;

	for (int i = 0; i < count; i++)
		sum += settled(shards[i]);
	return sum;
}

/* For whoever looks at the job when it has ended. */
static JobTotals *
sum_totals(JobShard *const *shards, int count)
{
	JobTotals  *totals = palloc0(sizeof(JobTotals));

	totals->shards = count;
	for (int i = 0; i < count; i++)
	{
		totals->done += shards[i]->done;
		totals->failed += shards[i]->failed;
		totals->gone += shards[i]->gone;
		totals->expired += shards[i]->expired;
		totals->cancelled += shards[i]->cancelled;
		totals->recomputed += shards[i]->recomputed;
		totals->tokens += shards[i]->tokens;
	}
	return totals;
}

static int64
sum_failed(JobShard *const *shards, int count)
{
	int64		sum = 0;

	for (int i = 0; i < count; i++)
		sum += shards[i]->failed;
	return sum;
}

/* Of those items; negative: any number. */
static double
failures_allowed(double max_failures, int64 total)
{
	return max_failures < 0 || max_failures >= 1 ? max_failures : max_failures * total;
}

static bool
are_too_many(int64 failed, double max_failures, int64 total)
{
	double		allowed = failures_allowed(max_failures, total);

	return allowed >= 0 && failed > allowed;
}

/* A share is of all rows, as far as they are known: the first few that fail say nothing of it. */
bool
runner_has_failed(Runner *runner)
{
	const JobRun *run = &runner->run;
	double		max_failures = run->plan->request->max_failures;
	int			count;
	JobShard  **shards = job_shards(runner->job, &count);

	if (max_failures > 0 && max_failures < 1 && run->record->total < 0)
		return false;
	return are_too_many(sum_failed(shards, count), max_failures,
						Max(run->record->total, sum_settled(shards, count)));
}

/* ---- what was left ---- */

/* Pending items of a shard; how many. */
static int64
end_items(int64 job, int32 shard, JobItemState state)
{
	int64		ended = 0;
	int64		after = 0;
	TimestampTz now = GetCurrentTimestamp();
	int			count;

	do
	{
		TimestampTz next_due;
		JobItem    *items = job_items(job, shard, JOB_ITEM_PENDING, after, ITEMS_AT_ONCE, 0, &count, &next_due);

		for (int i = 0; i < count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			items[i].state = state;
			items[i].due = 0;
			items[i].updated = now;
			job_item_update(&items[i]);
			after = items[i].item;
		}
		ended += count;
	} while (count == ITEMS_AT_ONCE);
	return ended;
}

static void
add_left(JobShard *shard, JobState state, int64 count)
{
	if (state == JOB_CANCELLED)
		shard->cancelled += count;
	else
		shard->expired += count;
}

/* Rows that were never read are counted where the first of them would have been. */
static void
end_rest(const JobRecord *record, JobState state, JobShard **shards, int count)
{
	JobItemState item_state = state == JOB_CANCELLED ? JOB_ITEM_CANCELLED : JOB_ITEM_EXPIRED;
	int64		rest;

	for (int i = 0; i < count; i++)
		add_left(shards[i], state, end_items(record->job, shards[i]->shard, item_state));
	rest = record->total - sum_settled(shards, count);
	for (int i = 0; i < count && rest > 0; i++)
	{
		if (shards[i]->read_to_end)
			continue;
		add_left(shards[i], state, rest);
		rest = 0;
	}
}

static void
end_shards(JobShard **shards, int count)
{
	for (int i = 0; i < count; i++)
	{
		shards[i]->completed = true;
		shards[i]->resume_at = 0;
		shards[i]->updated = GetCurrentTimestamp();
		job_shard_update(shards[i]);
	}
}

/* ---- telling ---- */

static void
notify(const JobRecord *record)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfo(&json, "{\"job\": " INT64_FORMAT ", \"state\": \"%s\", \"name\": ", record->job,
					 job_state_name(record->state));
	if (record->name != NULL)
		escape_json(&json, record->name);
	else
		appendStringInfoString(&json, "null");
	appendStringInfoChar(&json, '}');
	Async_Notify(NOTIFY_CHANNEL, json.data);
}

static void
tell_log(const JobRecord *record, const JobTotals *totals)
{
	int64		done = totals->done;
	int64		failed = totals->failed;

	ereport(LOG,
			(errmsg("infer: job " INT64_FORMAT " of role \"%s\" has ended: %s", record->job, record->owner_name,
					job_state_name(record->state)),
			 record->message != NULL ?
			 errdetail("%s; " INT64_FORMAT " items done, " INT64_FORMAT " failed.", record->message, done, failed) :
			 errdetail(INT64_FORMAT " items done, " INT64_FORMAT " failed.", done, failed)));
}

/* Of a kept column, with no row stale: nobody asked, and the scanner forgets it. */
static bool
found_nothing(const JobRecord *record, JobShard *const *shards, int count)
{
	return record->state == JOB_COMPLETED && sum_settled(shards, count) == 0 &&
		job_request_from_jsonb(record->request, CurrentMemoryContext)->fresh != 0;
}

/* ---- ending ---- */

void
job_end(JobRecord *record, JobState state, const char *sqlstate, const char *message)
{
	int			count;
	JobShard  **shards = job_shards_locked(record->job, &count);
	JobTotals  *totals;

	Assert(job_has_ended(state));
	if (state == JOB_CANCELLED || state == JOB_EXPIRED)
		end_rest(record, state, shards, count);
	end_shards(shards, count);
	if (state == JOB_COMPLETED)
	{
		record->total = sum_settled(shards, count);
		record->total_estimated = false;
	}
	record->state = state;
	record->sqlstate = sqlstate != NULL ? pstrdup(sqlstate) : NULL;
	record->message = message != NULL ? pstrdup(message) : NULL;
	record->faults = 0;
	totals = sum_totals(shards, count);
	record->totals = strcmp(record->origin, job_origin()) == 0 ? totals : NULL; /* a dump's shards may yet come */
	record->finished = GetCurrentTimestamp();
	record->resume_at = 0;
	job_update(record);
	infer_jobs_changed();
	if (found_nothing(record, shards, count))
		return;
	notify(record);
	tell_log(record, totals);
}

void
runner_end_job(Runner *runner, JobState state, const char *sqlstate, const char *message)
{
	JobRecord  *record;

	runner_begin_transaction(runner);
	(void) job_lock(runner->job, true);
	record = job_get(runner->job);
	if (record != NULL && !job_has_ended(record->state))
		job_end(record, record->state == JOB_CANCELLING ? JOB_CANCELLED : state, sqlstate, message);
	runner_commit(runner);
}

/* Whether all shards have. */
static bool
end_shard(Runner *runner)
{
	int			count;
	JobShard  **shards;
	bool		all = true;

	shards = job_shards(runner->job, &count);
	for (int i = 0; i < count; i++)
	{
		if (shards[i]->shard == runner->shard)
		{
			shards[i]->completed = true;
			shards[i]->updated = GetCurrentTimestamp();
			job_shard_update(shards[i]);
		}
		all &= shards[i]->completed;
	}
	return all;
}

void
runner_finalize(Runner *runner)
{
	JobRecord  *record;
	JobRequest *request;
	JobShard  **shards;
	int			count;

	runner_begin_transaction(runner);
	(void) job_lock(runner->job, true);
	record = job_get(runner->job);
	if (record != NULL && record->state == JOB_FINALIZING)
	{
		request = job_request_from_jsonb(record->request, CurrentMemoryContext);
		shards = job_shards(runner->job, &count);
		if (are_too_many(sum_failed(shards, count), request->max_failures, sum_settled(shards, count)))
			job_end(record, JOB_FAILED, RUNNER_FAILURES_SQLSTATE, RUNNER_FAILURES_MESSAGE);
		else
			job_end(record, JOB_COMPLETED, NULL, NULL);
	}
	runner_commit(runner);
}

void
runner_finish(Runner *runner)
{
	JobRecord  *record;
	bool		all = false;

	job_slot_phase(JOB_PHASE_ENDING, runner->chunks_last, 0);
	runner_begin_transaction(runner);
	(void) job_lock(runner->job, true);
	record = job_get(runner->job);
	if (record != NULL && record->state == JOB_IN_PROGRESS && (all = end_shard(runner)))
	{
		record->state = JOB_FINALIZING;
		job_update(record);
	}
	runner_commit(runner);
	if (all)
		runner_finalize(runner);
}
