/*
 * control.c
 *	  What is done to jobs that are there: cancel, retry, wait, drop.
 *
 * Whoever has the rights of the job's owner may.  That is looked at before the job's lock is taken, so that
 * nobody else can hold it.  A runner takes the lock for an instant only.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "../job.h"

#define WAIT_FIRST	5				/* ms until wait_job looks again, longer from time to time */
#define WAIT_MOST	250
#define ITEMS_BATCH	1000

/* ---- which job ---- */

JobRecord *
job_find(int64 job)
{
	JobRecord  *record = job_get(job);

	if (record == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no job " INT64_FORMAT, job),
				 errhint("See infer.jobs for those there are.")));
	if (!job_is_owned(record))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for job " INT64_FORMAT, job),
				 errhint("It belongs to role \"%s\": it is for that role and its members.", record->owner_name)));
	return record;
}

/* And stays, until the transaction's end, but for its runners' progress. */
static JobRecord *
lock_job(int64 job, const char *function)
{
	job_check_may_write(function);
	(void) job_find(job);
	(void) job_lock(job, true);
	return job_find(job);
}

void
job_check_ended(const JobRecord *record, const char *what)
{
	if (!job_has_ended(record->state))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job " INT64_FORMAT " has not ended: it is %s", record->job, job_state_name(record->state)),
				 errdetail("Only a job that has ended can be %s.", what),
				 errhint("Wait for it with infer.wait_job(), or stop it with infer.cancel_job().")));
}

/* ---- cancel ---- */

PG_FUNCTION_INFO_V1(infer_cancel_job);

Datum
infer_cancel_job(PG_FUNCTION_ARGS)
{
	JobRecord  *record = lock_job(PG_GETARG_INT64(0), "infer.cancel_job()");

	if (job_has_ended(record->state))
		PG_RETURN_BOOL(false);
	if (record->state != JOB_CANCELLING)
	{
		record->state = JOB_CANCELLING;
		job_update(record);
	}
	infer_jobs_cancel(record->job);
	PG_RETURN_BOOL(true);
}

/* ---- retry ---- */

/* An item is to be computed as if it had never been. */
static void
reset_item(JobItem *item, TimestampTz now)
{
	item->state = JOB_ITEM_PENDING;
	item->attempts = 0;
	item->sqlstate = NULL;
	item->message = NULL;
	item->retryable = false;
	item->due = now;
	item->updated = now;
	job_item_update(item);
}

/* Those of a shard in that state; returns how many. */
static int64
reset_items(const JobShard *shard, JobItemState state, TimestampTz now)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer items", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int64		last = 0;
	int64		all = 0;
	int			count;

	do
	{
		TimestampTz next_due;
		JobItem    *items;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(context);
		items = job_items(shard->job, shard->shard, state, last, ITEMS_BATCH, 0, &count, &next_due);
		for (int i = 0; i < count; i++)
			reset_item(&items[i], now);
		if (count > 0)
			last = items[count - 1].item;
		all += count;
	} while (count == ITEMS_BATCH);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return all;
}

typedef struct Retry
{
	int64		items;				/* to be computed again */
	int64		settled;			/* rows that are not */
	bool		rest;				/* rows behind a checkpoint are left */
} Retry;

static void
retry_shard(JobShard *shard, TimestampTz now, Retry *retry)
{
	int64		failed = reset_items(shard, JOB_ITEM_FAILED, now);
	int64		others = reset_items(shard, JOB_ITEM_EXPIRED, now) + reset_items(shard, JOB_ITEM_CANCELLED, now);
	int64		pending = job_items_count(shard->job, shard->shard, JOB_ITEM_PENDING);

	retry->items += pending;
	retry->rest |= !shard->read_to_end;
	shard->failed = Max(shard->failed - failed, 0);
	if (pending > 0 || !shard->read_to_end)
	{
		shard->expired = 0;
		shard->cancelled = 0;
		shard->completed = false;
		shard->faults = 0;
		shard->resume_at = 0;
	}
	if (failed + others > 0 || !shard->completed)
	{
		shard->updated = now;
		job_shard_update(shard);
	}
	retry->settled += shard->done + shard->failed + shard->gone + shard->expired + shard->cancelled;
}

static void
check_may_retry(const JobRecord *record)
{
	int64		other;

	job_check_ended(record, "retried");
	if (strcmp(record->origin, job_origin()) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job " INT64_FORMAT " was submitted elsewhere", record->job),
				 errdetail("It came here with a dump, as history."),
				 errhint("Submit it anew.")));
	if (record->name != NULL && (other = job_find_named(record->owner, record->name)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job " INT64_FORMAT " of the same name \"%s\" has not ended yet", other, record->name),
				 errhint("Wait for it with infer.wait_job(), or stop it with infer.cancel_job().")));
}

/* As if it were submitted now, but for what it has done. */
static void
begin_again(JobRecord *record, TimestampTz now)
{
	JobRequest *request = job_request_from_jsonb(record->request, CurrentMemoryContext);

	record->state = JOB_VALIDATING;
	record->sqlstate = NULL;
	record->message = NULL;
	record->faults = 0;
	record->totals = NULL;
	record->finished = 0;
	record->resume_at = 0;
	record->expires = job_expiry(request, now);
	job_update(record);
	infer_jobs_changed();
}

PG_FUNCTION_INFO_V1(infer_retry_job);

/* NULL: there is something to do, and nobody knows how much. */
Datum
infer_retry_job(PG_FUNCTION_ARGS)
{
	JobRecord  *record = lock_job(PG_GETARG_INT64(0), "infer.retry_job()");
	TimestampTz now = GetCurrentTimestamp();
	Retry		retry = {0};
	JobShard  **shards;
	int			count;

	check_may_retry(record);
	shards = job_shards(record->job, &count);
	for (int i = 0; i < count; i++)
		retry_shard(shards[i], now, &retry);
	retry.rest |= count == 0 && record->state != JOB_COMPLETED;
	if (retry.items == 0 && !retry.rest)
		PG_RETURN_INT64(0);
	begin_again(record, now);
	if (!retry.rest)
		PG_RETURN_INT64(retry.items);
	if (record->total < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(Max(record->total - retry.settled, retry.items));
}

/* ---- wait ---- */

/* Nobody else sees what this transaction has done to it. */
static void
check_committed(const JobRecord *record)
{
	if (TransactionIdIsCurrentTransactionId(record->xmin))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job " INT64_FORMAT " was submitted, or changed, by this transaction", record->job),
				 errdetail("It goes on when the transaction has been committed."),
				 errhint("Commit first, then wait.")));
}

/* ms until then, at most this many; 0: it is over. */
static long
until(TimestampTz end, long most)
{
	TimestampTz now = GetCurrentTimestamp();

	if (end == DT_NOEND)
		return most;
	return end <= now ? 0 : Min(TimestampDifferenceMilliseconds(now, end) + 1, most);
}

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = infer_wait_event_new("InferJobWait");
	return event;
}

PG_FUNCTION_INFO_V1(infer_wait_job);

Datum
infer_wait_job(PG_FUNCTION_ARGS)
{
	MemoryContext context;
	MemoryContext old;
	TimestampTz end = DT_NOEND;
	double		pause = WAIT_FIRST;
	JobState	state;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	context = AllocSetContextCreate(CurrentMemoryContext, "infer wait", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	if (!PG_ARGISNULL(1))
		end = job_time_after(GetCurrentTimestamp(), PG_GETARG_INTERVAL_P(1));
	for (;;)
	{
		JobRecord  *record = job_find(PG_GETARG_INT64(0));
		long		wait = until(end, (long) pause);

		state = record->state;
		if (job_has_ended(state) || wait == 0)
			break;
		check_committed(record);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, wait, wait_event());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		pause = Min(pause * 1.2, WAIT_MOST);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	PG_RETURN_TEXT_P(cstring_to_text(job_state_name(state)));
}

/* ---- drop ---- */

PG_FUNCTION_INFO_V1(infer_drop_job);

Datum
infer_drop_job(PG_FUNCTION_ARGS)
{
	JobRecord  *record = lock_job(PG_GETARG_INT64(0), "infer.drop_job()");

	job_check_ended(record, "dropped");
	job_delete(record->job);
	PG_RETURN_VOID();
}
