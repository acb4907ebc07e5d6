/*
 * scanner.c
 *	  A short-lived background worker that reads a database's jobs for the launcher, and ends those that
 *	  nobody runs any more.
 *
 * It is a superuser's session, and so runs C only: no SPI, no user's function, no expression of an index or a
 * trigger of a user's table; it looks at infer.job and its kin, pg_authid and pg_extension.
 *
 * Loop
 *	Note the deaths of runners (deaths.c).  Have columns that are kept fresh make their jobs.  Look at each job: what is
 *	to be done with it (fate.c), and which of its shards could be run.  Then do it, each in a transaction
 *	of its own, under the job's lock, after another look.  Remove what ended jobs have left, forget their delays.  Leave the report.
 *
 * Invariants
 *	- Nobody waits long for it: locks are tried for LOCK_TIME at most, a job's lock not at all (somebody has
 *	  it just now: another scan follows), and what takes long is done in pieces of a scan each.
 *	- A job is ended by the scanner only while it has no runner.  One that the launcher starts meanwhile
 *	  waits for the job's lock, and finds it ended.
 */
#include "postgres.h"

#include "scanning.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define LOCK_TIME		"2s"
#define BUSY_INTERVAL	1000		/* ms until the next scan where a job was locked */
#define WORK_TIME		1000		/* ms that one scan spends on removing things */
#define WORK_MAX		10000		/* jobs that one scan may end or remove */
#define ROWS_MAX		10000		/* that are removed in a transaction */

extern PGDLLEXPORT void infer_job_scanner_main(Datum arg);

typedef struct Work					/* jobs that something is to be done with */
{
	int64	   *jobs;
	int			count;
	int			space;
} Work;

static uint64 scan_number;
static JobReport *report;
static Work work;
static MemoryContext scan_context;

TimestampTz scan_time;
char	   *scan_origin;

/* ---- the report ---- */

void
scan_again_at(TimestampTz time)
{
	if (report->scan_at == 0 || time < report->scan_at)
		report->scan_at = time;
}

static bool
starts_before(const JobCandidate *a, const JobCandidate *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a->submitted != b->submitted)
		return a->submitted < b->submitted;
	if (a->job != b->job)
		return a->job < b->job;
	return a->shard < b->shard;
}

/*
 * Puts it where it belongs in their order; the last one falls out where there is no room.  It has no runner: one that
 * ended before it began has noted by now how long the job is to wait.  Thereafter it is as if it had been submitted then.
 */
static void
add_candidate(const JobRecord *record, int32 shard)
{
	TimestampTz delayed_until = job_delayed_until(MyDatabaseId, record->job);
	JobCandidate candidate = {
		.job = record->job,
		.shard = shard,
		.owner = record->owner,
		.priority = record->priority,
		.submitted = Max(record->submitted, delayed_until),
	};
	int			i;

	if (delayed_until > scan_time)
	{
		scan_again_at(delayed_until);
		return;
	}
	if (report->candidates_count == JOB_CANDIDATES_MAX)
	{
		report->truncated = true;
		if (!starts_before(&candidate, &report->candidates[JOB_CANDIDATES_MAX - 1]))
			return;
		report->candidates_count--;
	}
	for (i = report->candidates_count++; i > 0 && starts_before(&candidate, &report->candidates[i - 1]); i--)
		report->candidates[i] = report->candidates[i - 1];
	report->candidates[i] = candidate;
}

static void
leave_report(void)
{
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	if (scan_number > jobs_shared->report.scan)
		jobs_shared->report = *report;
	LWLockRelease(jobs_shared->lock);
}

/* ---- looking at a job ---- */

/* The shards that could be run, or when to look again. */
static void
look_at_shards(const JobRecord *record)
{
	JobShard  **shards;
	int			count;

	if (record->expires > scan_time)	/* before, its runner ends it */
		scan_again_at(record->expires);
	if (record->resume_at > scan_time)
	{
		scan_again_at(record->resume_at);
		return;
	}
	shards = job_shards(record->job, &count);
	if (count == 0 && !job_slot_has_runner(MyDatabaseId, record->job, 0))
		add_candidate(record, 0);
	for (int i = 0; i < count; i++)
		if (shards[i]->completed || job_slot_has_runner(MyDatabaseId, record->job, shards[i]->shard))
			continue;
		else if (shards[i]->resume_at > scan_time)
			scan_again_at(shards[i]->resume_at);
		else
			add_candidate(record, shards[i]->shard);
	if (record->state == JOB_FINALIZING && !job_has_runner(MyDatabaseId, record->job))
		add_candidate(record, 1);	/* to end the job: the runner that was to do it has gone */
}

static void
add_work(const JobRecord *record)
{
	if (work.count == work.space)
		work.jobs = repalloc(work.jobs, sizeof(int64) * (work.space *= 2));
	work.jobs[work.count++] = record->job;
}

static bool
look_at_unfinished(JobRecord *record, void *arg)
{
	char	   *problem;
	int			sqlstate;

	CHECK_FOR_INTERRUPTS();
	if (scan_fate(record, &problem, &sqlstate) != FATE_NONE)
		add_work(record);
	else if (record->state == JOB_CANCELLING)
		job_slots_cancel(MyDatabaseId, record->job);	/* COMMIT PREPARED tells no runner */
	else if (!job_has_ended(record->state))
		look_at_shards(record);
	return true;
}

/* In the order of their ends: those behind the first that stays, stay. */
static bool
look_at_ended(JobRecord *record, void *arg)
{
	CHECK_FOR_INTERRUPTS();
	if (scan_fate_of_ended(record) == FATE_NONE)
		return false;
	if (work.count >= WORK_MAX)
	{
		scan_again_at(scan_time);
		return false;
	}
	add_work(record);
	return true;
}

/* ---- doing it ---- */

void
scan_begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
scan_commit(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(scan_context);
}

bool
scan_lock_job(int64 job)
{
	if (job_lock(job, false))
		return true;
	scan_again_at(TimestampTzPlusMilliseconds(scan_time, BUSY_INTERVAL));
	return false;
}

/* Returns whether there is more to do with it. */
static bool
work_on(int64 job)
{
	JobRecord  *record;
	bool		more = false;

	scan_begin();
	if (scan_lock_job(job) && (record = job_get(job)) != NULL)
		more = scan_end_job(record);
	scan_commit();
	return more;
}

static void
do_work(TimestampTz until)
{
	for (int i = 0; i < work.count; i++)
	{
		bool		more = true;

		while (more)
		{
			if (GetCurrentTimestamp() >= until)
			{
				scan_again_at(scan_time);
				return;
			}
			more = work_on(work.jobs[i]);
		}
	}
}

/* ---- delays of jobs that are over ---- */

static bool
note_one(JobRecord *record, void *arg)
{
	*(bool *) arg = true;
	return false;
}

static bool
has_unfinished(void)
{
	bool		found = false;

	job_each_unfinished(note_one, &found);
	return found;
}

static bool
is_over(int64 job)
{
	JobRecord  *record;

	if (job == JOB_DELAY_ALL)
		return !has_unfinished();
	record = job_get(job);
	return record == NULL || job_has_ended(record->state);
}

static void
forget_delays(void)
{
	int			count;
	int64	   *jobs = job_delays_of(MyDatabaseId, &count);

	if (count == 0)
		return;
	scan_begin();
	for (int i = 0; i < count; i++)
		if (is_over(jobs[i]))
			job_delay_is_over(MyDatabaseId, jobs[i]);
	scan_commit();
}

/* ---- rows of sources ---- */

static void
remove_inputs(TimestampTz until)
{
	int64		job = 0;
	bool		more = true;

	while (more)
	{
		scan_begin();
		job = job_input_next(job);
		more = job > 0;
		if (more && scan_is_over(job))
			while (GetCurrentTimestamp() < until && job_input_delete_some(job, ROWS_MAX))
			{
				scan_commit();
				scan_begin();
			}
		scan_commit();
		if (more && GetCurrentTimestamp() >= until)
		{
			scan_again_at(scan_time);
			more = false;
		}
	}
}

/* ---- the scan ---- */

/* Whether the extension is here, in the version of this library. */
static bool
is_ours(void)
{
	Relation	table = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		ours = false;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("infer"));
	scan = systable_beginscan(table, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		null;
		Datum		version = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(table), &null);

		ours = !null && strcmp(TextDatumGetCString(version), INFER_VERSION) == 0;
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return ours;
}

/* Whether a prepared transaction may bring jobs yet. */
static bool
has_prepared(void)
{
	bool		none = job_prepared_lock(ShareLock, false);

	return !none;
}

static void
look(void)
{
	scan_origin = MemoryContextStrdup(scan_context, job_origin());
	job_each_unfinished(look_at_unfinished, NULL);
	job_each_ended(look_at_ended, NULL);
}

/* Columns that are kept fresh: whether there are new jobs. */
static bool
look_at_fresh(void)
{
	TimestampTz again;
	bool		submitted = job_fresh_scan(&again);

	if (again != 0)
		scan_again_at(again);
	return submitted;
}

static void
scan(void)
{
	TimestampTz until;
	bool		ours;

	scan_begin();
	ours = is_ours();
	scan_commit();
	if (!ours)
		return;
	scan_deaths();
	(void) look_at_fresh();

	scan_begin();
	report->prepared = has_prepared();	/* before its jobs are looked for */
	scan_commit();
	scan_begin();
	look();
	scan_commit();

	until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), WORK_TIME);
	do_work(until);
	if (work.count > 0 && look_at_fresh())
		scan_again_at(scan_time);	/* those that were ended are followed by others */
	forget_delays();
	remove_inputs(until);
}

/* ---- the worker ---- */

static emit_log_hook_type prev_emit_log_hook = NULL;

/* The launcher tries again; that a database is gone or closed is nothing for the log. */
static void
be_quiet(ErrorData *edata)
{
	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
	if (!OidIsValid(MyDatabaseId) && edata->elevel >= ERROR && edata->elevel < PANIC)
		edata->output_to_server = false;
}

static void
worker_begin(Oid database)
{
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = be_quiet;
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	SetConfigOption("application_name", MyBgworkerEntry->bgw_type, PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("lock_timeout", LOCK_TIME, PGC_USERSET, PGC_S_SESSION);
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);

	SetConfigOption("lock_timeout", LOCK_TIME, PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("statement_timeout", "0", PGC_USERSET, PGC_S_OVERRIDE);
#ifdef INFER_HAS_TRANSACTION_TIMEOUT
	SetConfigOption("transaction_timeout", "0", PGC_USERSET, PGC_S_OVERRIDE);
#endif
}

void
infer_job_scanner_main(Datum arg)
{
	memcpy(&scan_number, MyBgworkerEntry->bgw_extra, sizeof(scan_number));
	worker_begin(DatumGetObjectId(arg));

	scan_context = AllocSetContextCreate(TopMemoryContext, "infer job scanner", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(scan_context);
	report = palloc0(sizeof(JobReport));
	report->scan = scan_number;
	report->database = MyDatabaseId;
	work.space = 64;
	work.jobs = palloc(sizeof(int64) * work.space);
	scan_time = GetCurrentTimestamp();

	pgstat_report_activity(STATE_RUNNING, "looking for jobs");
	scan();
	leave_report();
	proc_exit(0);
}
