/*
 * scanner.c
 *	  A short-lived background worker that reads a database's jobs for the launcher, and ends those that
 *	  nobody runs any more.
 *
 * It is a superuser's session, and so runs C only: no SPI, no user's function, no expression of an index or a
 * trigger of a user's table; it looks at infer.job and its kin, pg_authid and pg_extension.
 *
 * Loop
 *	Note the deaths of runners.  Have columns that are kept fresh make their jobs.  Look at each job: what is to be done with it (enum Fate), and which of its
 *	shards could be run.  Then do it, each in a transaction of its own, under the job's lock, after another
 *	look.  Remove what ended jobs have left.  Leave the report.
 *
 * Invariants
 *	- Nobody waits long for it: locks are tried for LOCK_TIME at most, a job's lock not at all (somebody has
 *	  it just now: another scan follows), and what takes long is done in pieces of a scan each.
 *	- A job is ended by the scanner only while it has no runner.  One that the launcher starts meanwhile
 *	  waits for the job's lock, and finds it ended.
 */
#include "postgres.h"

#include "launcher.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define LOCK_TIME		"2s"
#define BUSY_INTERVAL	1000		/* ms until the next scan where a job was locked */
#define WORK_TIME		1000		/* ms that one scan spends on removing things */
#define BACKOFF_FIRST	1000		/* ms after a runner's first fault, then twice that and so on */
#define BACKOFF_MAX		60000
#define BACKOFF_NOBODY	10000		/* ms after one that could not connect */
#define INPUTS_MAX		10000		/* rows of infer.job_input that are removed in a transaction */

extern PGDLLEXPORT void infer_job_scanner_main(Datum arg);

typedef enum Fate
{
	FATE_NONE,						/* it is run, or waits */
	FATE_RESTORED,					/* of another server or installation */
	FATE_CANCELLED,
	FATE_EXPIRED,
	FATE_FAILED,					/* its role cannot run it, or it has ended too many runners */
	FATE_FORGOTTEN					/* ended longer ago than infer.job_retention */
} Fate;

typedef struct Work					/* jobs that something is to be done with */
{
	int64	   *jobs;
	int			count;
	int			space;
} Work;

static JobScannerArgument argument;
static JobReport *report;
static Work work;
static char *origin;
static TimestampTz scan_time;				/* of the scan */
static MemoryContext scan_context;

/* ---- the report ---- */

static void
look_again_at(TimestampTz *at, TimestampTz time)
{
	if (*at == 0 || time < *at)
		*at = time;
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

/* Puts it where it belongs in their order; the last one falls out where there is no room. */
static void
add_candidate(const JobRecord *record, int32 shard)
{
	JobCandidate candidate = {
		.job = record->job,
		.shard = shard,
		.owner = record->owner,
		.priority = record->priority,
		.submitted = record->submitted,
	};
	int			i;

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
	if (argument.number > jobs_shared->report.scan)
		jobs_shared->report = *report;
	LWLockRelease(jobs_shared->lock);
}

/* ---- looking at a job ---- */

/* Why the job's role cannot run it; NULL: it can. */
static char *
problem_of_role(const JobRecord *record, int *sqlstate)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(record->owner));
	bool		can_login;

	if (!HeapTupleIsValid(tuple))
	{
		*sqlstate = ERRCODE_UNDEFINED_OBJECT;
		return psprintf("role \"%s\" does not exist any more", record->owner_name);
	}
	can_login = infer_can_bypass_login() || ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
	ReleaseSysCache(tuple);
	if (!can_login)
	{
		*sqlstate = ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
		return psprintf("role \"%s\" is not permitted to log in any more", record->owner_name);
	}
	if (infer_database_aclcheck(MyDatabaseId, record->owner, ACL_CONNECT) != ACLCHECK_OK)
	{
		*sqlstate = ERRCODE_INSUFFICIENT_PRIVILEGE;
		return psprintf("role \"%s\" may not connect to the database any more", record->owner_name);
	}
	return NULL;
}

/* Each runner that begins is counted, and is a fault until it gets on: shards may begin side by side. */
static int
faults_max(int64 job)
{
	int			count;

	(void) job_shards(job, &count);
	return JOB_FAULTS_MAX * Max(1, Min(count, infer_max_job_workers));
}

static Fate
fate_of_ended(const JobRecord *record)
{
	TimestampTz ended = record->finished != 0 ? record->finished : record->submitted;
	TimestampTz forget;

	if (infer_job_retention == 0)
		return FATE_NONE;
	forget = ended + (int64) infer_job_retention * USECS_PER_SEC;
	if (forget <= scan_time)
		return FATE_FORGOTTEN;
	look_again_at(&report->full_at, forget);
	return FATE_NONE;
}

/* What becomes of a job.  problem, sqlstate: why it has failed. */
static Fate
fate_of(const JobRecord *record, char **problem, int *sqlstate)
{
	if (job_has_ended(record->state))
		return fate_of_ended(record);
	if (strcmp(record->origin, origin) != 0)
		return FATE_RESTORED;
	if (job_has_runner(MyDatabaseId, record->job))
		return FATE_NONE;			/* which ends it itself */
	if (record->state == JOB_CANCELLING)
		return FATE_CANCELLED;
	if (record->expires != 0 && record->expires <= scan_time)
		return FATE_EXPIRED;
	*problem = problem_of_role(record, sqlstate);
	if (*problem != NULL)
		return FATE_FAILED;
	if (record->faults > faults_max(record->job))
	{
		*sqlstate = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
		*problem = psprintf("it ended its background worker or the server %d times in a row%s%s", record->faults,
							record->message == NULL ? "" : ": ", record->message == NULL ? "" : record->message);
		return FATE_FAILED;
	}
	return FATE_NONE;
}

/* The shards that could be run, or when to look again. */
static void
look_at_shards(const JobRecord *record)
{
	JobShard  **shards;
	int			count;

	if (record->state == JOB_CANCELLING)
		return;
	if (record->expires > scan_time)	/* before, its runner ends it */
		look_again_at(&report->scan_at, record->expires);
	if (record->resume_at > scan_time)
	{
		look_again_at(&report->scan_at, record->resume_at);
		return;
	}
	shards = job_shards(record->job, &count);
	if (count == 0 && !job_slot_has_runner(MyDatabaseId, record->job, 0))
		add_candidate(record, 0);
	for (int i = 0; i < count; i++)
		if (!shards[i]->completed && !job_slot_has_runner(MyDatabaseId, record->job, shards[i]->shard))
			add_candidate(record, shards[i]->shard);
	if (record->state == JOB_FINALIZING && !job_has_runner(MyDatabaseId, record->job))
		add_candidate(record, 1);	/* to end the job: the runner that was to do it has gone */
}

static bool
look_at_job(JobRecord *record, void *arg)
{
	char	   *problem;
	int			sqlstate;

	CHECK_FOR_INTERRUPTS();
	if (fate_of(record, &problem, &sqlstate) == FATE_NONE)
	{
		if (!job_has_ended(record->state))
			look_at_shards(record);
		return true;
	}
	if (work.count == work.space)
		work.jobs = repalloc(work.jobs, sizeof(int64) * (work.space *= 2));
	work.jobs[work.count++] = record->job;
	return true;
}

/* ---- ending a job ---- */

static void
end_job(JobRecord *record, Fate fate, const char *problem, int sqlstate)
{
	switch (fate)
	{
		case FATE_RESTORED:
			job_end(record, JOB_CANCELLED, NULL, "restored from a dump: it was unfinished there");
			break;
		case FATE_CANCELLED:
			job_end(record, JOB_CANCELLED, NULL, NULL);
			break;
		case FATE_EXPIRED:
			job_end(record, JOB_EXPIRED, NULL, "its completion window has passed");
			break;
		case FATE_FAILED:
			job_end(record, JOB_FAILED, unpack_sql_state(sqlstate), problem);
			break;
		case FATE_FORGOTTEN:
			job_delete(record->job);
			break;
		case FATE_NONE:
			break;
	}
}

/* In a transaction of its own. */
static void
begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
commit(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(scan_context);
}

/* false: somebody has its lock. */
static bool
lock_job(int64 job)
{
	if (job_lock(job, false))
		return true;
	look_again_at(&report->scan_at, TimestampTzPlusMilliseconds(scan_time, BUSY_INTERVAL));
	return false;
}

static void
do_work(int64 job)
{
	JobRecord  *record;

	begin();
	if (lock_job(job) && (record = job_get(job)) != NULL)
	{
		char	   *problem = NULL;
		int			sqlstate = 0;
		Fate		fate = fate_of(record, &problem, &sqlstate);

		end_job(record, fate, problem, sqlstate);
		if (fate != FATE_FORGOTTEN)
			look_again_at(&report->full_at, scan_time + (int64) infer_job_retention * USECS_PER_SEC);
	}
	commit();
}

/* ---- runners that died ---- */

/* A runner that never came to its job, for a reason that will pass. */
static bool
is_nobodys_fault(const JobDeath *death)
{
	return !death->counted &&
		(death->sqlstate == ERRCODE_CANNOT_CONNECT_NOW || death->sqlstate == ERRCODE_ADMIN_SHUTDOWN ||
		 death->sqlstate == ERRCODE_CRASH_SHUTDOWN);
}

/* ms: twice as long each time.  One that an administrator has ended, for the first time, goes on at once. */
static int
delay_after(const JobDeath *death, int faults)
{
	int			delay = BACKOFF_FIRST;

	if (death->sqlstate == ERRCODE_ADMIN_SHUTDOWN && faults <= 1)
		return 0;
	if (is_nobodys_fault(death))
		return BACKOFF_NOBODY;
	for (int i = 1; i < faults && delay < BACKOFF_MAX; i++)
		delay *= 2;
	return Min(delay, BACKOFF_MAX);
}

static void
note_death(const JobDeath *death)
{
	JobRecord  *record = job_get(death->job);

	if (record == NULL || job_has_ended(record->state))
		return;
	if (!death->counted && !is_nobodys_fault(death))
		record->faults++;
	record->resume_at = TimestampTzPlusMilliseconds(scan_time, delay_after(death, record->faults));
	if (death->message[0] != '\0' && pg_verifymbstr(death->message, strlen(death->message), true))
	{
		record->message = pstrdup(death->message);
		record->sqlstate = death->sqlstate == 0 ? NULL : pstrdup(unpack_sql_state(death->sqlstate));
	}
	job_update(record);
}

/* A death whose job is locked just now is only forgotten: the job is tried again. */
static void
note_deaths(void)
{
	int			count;
	JobDeath   *deaths = job_deaths_take(&count);

	for (int i = 0; i < count; i++)
	{
		begin();
		if (lock_job(deaths[i].job))
			note_death(&deaths[i]);
		commit();
	}
}

/* ---- rows of sources ---- */

/* Whether nobody needs them any more: what failed or was left may be tried again by infer.retry_job. */
static bool
is_over(int64 job)
{
	JobRecord  *record = job_get(job);
	JobShard  **shards;
	int			count;
	int64		left = 0;

	if (record == NULL || (job_has_ended(record->state) && strcmp(record->origin, origin) != 0))
		return true;
	if (record->state != JOB_COMPLETED)
		return false;
	shards = job_shards(job, &count);
	for (int i = 0; i < count; i++)
		left += shards[i]->failed + shards[i]->expired + shards[i]->cancelled;
	return left == 0;
}

static void
remove_inputs(TimestampTz until)
{
	int64		job = 0;
	bool		more = true;

	while (more)
	{
		begin();
		job = job_input_next(job);
		more = job > 0;
		if (more && is_over(job))
			while (GetCurrentTimestamp() < until && job_input_delete_some(job, INPUTS_MAX))
			{
				commit();
				begin();
			}
		commit();
		if (more && GetCurrentTimestamp() >= until)
		{
			look_again_at(&report->scan_at, scan_time);
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
	origin = MemoryContextStrdup(scan_context, job_origin());
	if (argument.full && infer_job_retention > 0)
		report->full_at = scan_time + (int64) infer_job_retention * USECS_PER_SEC;
	report->prepared = has_prepared();
	job_each(look_at_job, NULL);
}

/* Columns that are kept fresh: whether there are new jobs. */
static bool
look_at_fresh(void)
{
	TimestampTz again;
	bool		submitted = job_fresh_scan(&again);

	if (again != 0)
		look_again_at(&report->scan_at, again);
	return submitted;
}

static void
scan(void)
{
	TimestampTz until;
	bool		ours;

	begin();
	ours = is_ours();
	commit();
	if (!ours)
		return;
	note_deaths();
	(void) look_at_fresh();

	begin();
	look();
	commit();

	until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), WORK_TIME);
	for (int i = 0; i < work.count && GetCurrentTimestamp() < until; i++)
		do_work(work.jobs[i]);
	if (work.count > 0 && look_at_fresh())
		look_again_at(&report->scan_at, scan_time);	/* those that were ended are followed by others */
	if (GetCurrentTimestamp() >= until)
		look_again_at(&report->full_at, scan_time);
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
}

void
infer_job_scanner_main(Datum arg)
{
	memcpy(&argument, MyBgworkerEntry->bgw_extra, sizeof(argument));
	worker_begin(DatumGetObjectId(arg));

	scan_context = AllocSetContextCreate(TopMemoryContext, "infer job scanner", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(scan_context);
	report = palloc0(sizeof(JobReport));
	report->scan = argument.number;
	report->database = MyDatabaseId;
	report->is_full = argument.full;
	work.space = 64;
	work.jobs = palloc(sizeof(int64) * work.space);
	scan_time = GetCurrentTimestamp();

	pgstat_report_activity(STATE_RUNNING, "looking for jobs");
	scan();
	leave_report();
	proc_exit(0);
}
