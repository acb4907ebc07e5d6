/*
 * launcher.c
 *	  The background worker that has databases scanned, and starts runners.
 *
 * Nouns
 *	database	one that has been flagged, or that was there when the launcher started, and what the last
 *				scan found: candidates, and when the next scan is due
 *	hold		runners are not started while a scan is about to tell of more jobs: the highest priority
 *				goes first; but never for longer than HOLD_TIME
 *
 * Loop
 *	Fetch what is flagged; take the report of a scanner that has ended; start the next scanner, one at a
 *	time; start runners while slots and background workers are free; wait for the latch or the next time.
 *
 * Invariants
 *	- It polls nothing but what nobody tells: prepared transactions that wait (PREPARED_INTERVAL; COMMIT
 *	  PREPARED is told, but for those by others' code), databases that cannot be connected to now, and a
 *	  free background worker.
 *	- It is connected to no database, and holds up nobody's DROP DATABASE.  A scanner that waits for
 *	  something is ended after SCAN_TIME.
 *	- Whatever ends it, it loses nothing: a new one scans all databases; runners go on meanwhile.
 *	- It exits with 1, never 0: a worker that exits with 0 is not started again.
 */
#include "postgres.h"

#include "launcher.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define PREPARED_INTERVAL	10000		/* ms between scans while a prepared transaction waits */
#define CLOSED_INTERVAL		60000		/* ms between looks at databases that let nobody in */
#define RETRY_FIRST			1000		/* ms after a scan that failed, then twice that and so on */
#define RETRY_MAX			60000
#define WORKER_INTERVAL		1000		/* ms between tries to get a background worker */
#define LACK_INTERVAL		60000		/* ms after which a lack of them is news */
#define SCAN_TIME			5000		/* ms that a scanner may take; DROP DATABASE waits as long */
#define RESTART_INTERVAL	2000		/* ms */
#define RESTARTS_MAX		5			/* so near to one another; then each waits RESTART_DELAY */
#define RESTART_DELAY		1000
#define HOLD_TIME			500			/* ms */
#define INVALID_DATABASE	(-2)		/* datconnlimit of one whose DROP DATABASE was interrupted */
#define SLEEP_MAX			600000		/* ms: clocks may be set */

extern PGDLLEXPORT void infer_job_launcher_main(Datum arg);

typedef struct Database
{
	Oid			oid;
	bool		known;				/* by the list that is just being read */
	bool		closed;				/* to connections, when that was read */
	bool		scan;				/* to be scanned, not before due */
	bool		full;				/* with the jobs that have ended */
	TimestampTz due;
	int			failures;			/* of scans, in a row */
	TimestampTz scan_at;			/* next time by the clock; 0: none */
	TimestampTz full_at;
	bool		truncated;			/* the last scan left candidates out */
	int			candidates_count;
	int			candidates_next;	/* those before it have been started */
	JobCandidate *candidates;
} Database;

static Database *databases = NULL;	/* in TopMemoryContext, as all that follows */
static int	databases_count = 0;
static int	databases_space = 0;

static struct
{
	BackgroundWorkerHandle *handle;	/* NULL: none runs */
	Oid			database;
	bool		full;
	uint64		number;
	uint64		prepared_serial;	/* when it was started */
	TimestampTz end_at;				/* then it is told to; 0: it has been */
	uint32		next;				/* of the databases, to begin with: they take turns */
} scanner;

typedef struct Starting				/* runners that have not attached their slots yet */
{
	BackgroundWorkerHandle *handle;	/* NULL: none */
	Datum		slot;
} Starting;

static Starting starting[JOB_SLOTS_MAX];
/* A shard whose runner leaves it again and again, without a word, is not started each time at once. */
typedef struct Restart
{
	Oid			database;
	int64		job;
	int32		shard;
	int			times;				/* within RESTART_INTERVAL of one another */
	TimestampTz started;			/* the last time */
} Restart;

static Restart restarts[JOB_SLOTS_MAX];
static uint32 restarts_next = 0;	/* the oldest */

static TimestampTz worker_due = 0;	/* no background worker was free: not before */
static TimestampTz lack_at = 0;		/* the last time that none was; 0: never */
static TimestampTz hold_since = 0;	/* 0: nothing is held */
static int	workers_max = -1;		/* infer.max_job_workers when it was last looked at */
static int	retention = -1;

/* ---- times ---- */

static TimestampTz
after_ms(TimestampTz from, int ms)
{
	return TimestampTzPlusMilliseconds(from, ms);
}

/* The earlier of two times, of which 0 is none. */
static TimestampTz
earlier(TimestampTz a, TimestampTz b)
{
	return a == 0 ? b : b == 0 ? a : Min(a, b);
}

/* ---- databases ---- */

static Database *
find_database(Oid oid)
{
	for (int i = 0; i < databases_count; i++)
		if (databases[i].oid == oid)
			return &databases[i];
	return NULL;
}

static Database *
get_database(Oid oid)
{
	Database   *database = find_database(oid);

	if (database != NULL)
		return database;
	if (databases_count == databases_space)
	{
		databases_space = Max(16, databases_space * 2);
		databases = databases == NULL ? MemoryContextAlloc(TopMemoryContext, sizeof(Database) * databases_space) :
			repalloc(databases, sizeof(Database) * databases_space);
	}
	database = &databases[databases_count++];
	memset(database, 0, sizeof(Database));
	database->oid = oid;
	return database;
}

static void
forget_candidates(Database *database)
{
	if (database->candidates != NULL)
		pfree(database->candidates);
	database->candidates = NULL;
	database->candidates_count = 0;
	database->candidates_next = 0;
}

static void
want_scan(Database *database, bool full)
{
	database->scan = true;
	database->full |= full;
}

/*
 * Reads pg_database.  Those that are gone are forgotten.  all: those that can be connected to are to be
 * scanned; others wait until they can, as those do whose scan failed.
 */
static void
read_databases(bool all, TimestampTz now)
{
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;
	MemoryContext context = CurrentMemoryContext;

	for (int i = 0; i < databases_count; i++)
		databases[i].known = false;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	relation = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(relation, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		Database   *database = find_database(form->oid);
		bool		closed = !form->datallowconn || form->datconnlimit == INVALID_DATABASE;

		if (closed && form->datistemplate)	/* template0 */
			continue;
		if (database == NULL && !all)
			continue;
		database = get_database(form->oid);
		database->known = true;
		if (all)
			want_scan(database, true);
		if (closed)
			database->due = after_ms(now, CLOSED_INTERVAL);
		else if (all || database->closed)
			database->due = 0;
		database->closed = closed;
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);

	for (int i = 0; i < databases_count;)
	{
		if (databases[i].known)
			i++;
		else
		{
			forget_candidates(&databases[i]);
			databases[i] = databases[--databases_count];
		}
	}
}

static void
take_flags(TimestampTz now)
{
	Oid			flags[JOB_FLAGS_MAX];
	int			count;
	bool		all;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	count = jobs_shared->flags_count;
	memcpy(flags, jobs_shared->flags, sizeof(Oid) * count);
	all = jobs_shared->scan_all;
	jobs_shared->flags_count = 0;
	jobs_shared->scan_all = false;
	LWLockRelease(jobs_shared->lock);

	for (int i = 0; i < count; i++)
		want_scan(get_database(flags[i]), false);
	if (all)
		read_databases(true, now);
}

/* Scans that the clock asks for. */
static void
look_at_clock(TimestampTz now)
{
	for (int i = 0; i < databases_count; i++)
	{
		Database   *database = &databases[i];

		if (database->scan_at != 0 && database->scan_at <= now)
		{
			want_scan(database, false);
			database->scan_at = 0;
		}
		if (database->full_at != 0 && database->full_at <= now)
		{
			want_scan(database, true);
			database->full_at = 0;
		}
	}
}

/* ---- background workers ---- */

/* max_worker_processes are in use: said once, until there was no lack of them for a while. */
static void
no_worker(TimestampTz now)
{
	bool		warn = lack_at == 0 || now >= after_ms(lack_at, LACK_INTERVAL);

	lack_at = now;
	worker_due = after_ms(now, WORKER_INTERVAL);
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	jobs_shared->no_worker = true;
	LWLockRelease(jobs_shared->lock);
	if (warn)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("infer: jobs wait for a free background worker"),
				 errdetail("All of max_worker_processes (%d) are in use. The jobs start by themselves when one is free.", max_worker_processes),
				 errhint("Raise max_worker_processes: jobs need two for the launcher and its scanner, and as many as infer.max_job_workers.")));
}

static void
forget_no_worker(void)
{
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	jobs_shared->no_worker = false;
	LWLockRelease(jobs_shared->lock);
}

/* Starts a worker that is told to us when it starts and ends. */
static BackgroundWorkerHandle *
start_worker(const char *name, const char *type, const char *function, Datum arg, const void *extra, size_t extra_bytes)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "infer", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, function, BGW_MAXLEN);
	strlcpy(worker.bgw_name, name, BGW_MAXLEN);
	strlcpy(worker.bgw_type, type, BGW_MAXLEN);
	worker.bgw_main_arg = arg;
	worker.bgw_notify_pid = MyProcPid;
	if (extra_bytes > 0)
		memcpy(worker.bgw_extra, extra, extra_bytes);
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		handle = NULL;
	MemoryContextSwitchTo(old);
	return handle;
}

static bool
has_stopped(BackgroundWorkerHandle *handle)
{
	pid_t		pid;

	return GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED;
}

/* ---- scanners ---- */

static void
start_scanner(Database *database, TimestampTz now)
{
	JobScannerArgument argument = {.full = database->full};
	char		name[BGW_MAXLEN];

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	argument.number = ++jobs_shared->scans;
	LWLockRelease(jobs_shared->lock);
	scanner.prepared_serial = job_prepared_serial();

	snprintf(name, sizeof(name), "infer job scanner of database %u", database->oid);
	scanner.handle = start_worker(name, "infer job scanner", "infer_job_scanner_main", ObjectIdGetDatum(database->oid),
								  &argument, sizeof(argument));
	if (scanner.handle == NULL)
	{
		no_worker(now);
		return;
	}
	forget_no_worker();
	scanner.database = database->oid;
	scanner.full = database->full;
	scanner.number = argument.number;
	scanner.end_at = after_ms(now, SCAN_TIME);
	database->scan = false;			/* what is flagged from now on asks for another */
	database->full = false;
	database->scan_at = 0;
	if (scanner.full)
		database->full_at = 0;
}

/* Copies the report of the scan that has ended, in a context that goes with this round; NULL: it left none. */
static JobReport *
take_report(void)
{
	JobReport  *report = palloc(sizeof(JobReport));
	bool		found;

	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	*report = jobs_shared->report;
	found = report->scan == scanner.number;
	LWLockRelease(jobs_shared->lock);
	return found ? report : NULL;
}

static void
use_report(Database *database, const JobReport *report, TimestampTz now)
{
	size_t		size = sizeof(JobCandidate) * report->candidates_count;

	database->failures = 0;
	database->due = 0;
	database->truncated = report->truncated;
	database->scan_at = report->scan_at;
	if (report->prepared)
		database->scan_at = earlier(database->scan_at, after_ms(now, PREPARED_INTERVAL));
	if (report->is_full)
		database->full_at = report->full_at;
	job_keep_prepared(database->oid, report->prepared, scanner.prepared_serial);

	forget_candidates(database);
	if (report->candidates_count == 0)
		return;
	database->candidates = MemoryContextAlloc(TopMemoryContext, size);
	memcpy(database->candidates, report->candidates, size);
	database->candidates_count = report->candidates_count;
}

/* Later again; the database may be gone, or closed. */
static void
scan_failed(Database *database, TimestampTz now)
{
	int			delay = RETRY_FIRST;

	for (int i = 0; i < database->failures && delay < RETRY_MAX; i++)
		delay *= 2;
	database->failures++;
	want_scan(database, scanner.full);
	database->due = after_ms(now, Min(delay, RETRY_MAX));
	read_databases(false, now);
}

static void
look_at_scanner(TimestampTz now)
{
	Database   *database;
	JobReport  *report;

	if (scanner.handle == NULL)
		return;
	if (!has_stopped(scanner.handle))
	{
		if (scanner.end_at != 0 && scanner.end_at <= now)
		{
			TerminateBackgroundWorker(scanner.handle);
			scanner.end_at = 0;
		}
		return;
	}
	pfree(scanner.handle);
	scanner.handle = NULL;
	database = get_database(scanner.database);
	report = take_report();
	if (report != NULL)
		use_report(database, report, now);
	else
		scan_failed(database, now);
}

static bool
scan_is_due(const Database *database, TimestampTz now)
{
	return database->scan && database->due <= now;
}

static void
start_scans(TimestampTz now)
{
	if (scanner.handle != NULL || worker_due > now)
		return;
	for (int i = 0; i < databases_count; i++)
		if (databases[i].closed && scan_is_due(&databases[i], now))
		{
			read_databases(false, now);
			break;
		}
	for (int i = 0; i < databases_count; i++)
	{
		Database   *database = &databases[scanner.next++ % databases_count];

		if (!scan_is_due(database, now))
			continue;
		start_scanner(database, now);
		return;
	}
}

/* ---- runners ---- */

/* Those that have attached are on their own; of others the slot is taken back. */
static void
look_at_starting(void)
{
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
	{
		Starting   *start = &starting[i];
		pid_t		pid;

		if (start->handle == NULL || GetBackgroundWorkerPid(start->handle, &pid) == BGWH_NOT_YET_STARTED)
			continue;
		if (!job_slot_is_reserved(start->slot) || has_stopped(start->handle))
		{
			job_slot_release(start->slot, true);
			pfree(start->handle);
			start->handle = NULL;
		}
	}
}

/* Whether a is to start before b. */
static bool
starts_before(const JobCandidate *a, const JobCandidate *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return a->submitted < b->submitted;
}

static Restart *
find_restart(Oid database, const JobCandidate *candidate)
{
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
		if (restarts[i].database == database && restarts[i].job == candidate->job && restarts[i].shard == candidate->shard)
			return &restarts[i];
	return NULL;
}

static void
note_start(Oid database, const JobCandidate *candidate, TimestampTz now)
{
	Restart    *restart = find_restart(database, candidate);

	if (restart == NULL)
	{
		restart = &restarts[restarts_next++ % JOB_SLOTS_MAX];
		*restart = (Restart) {.database = database, .job = candidate->job, .shard = candidate->shard};
	}
	restart->times = now < after_ms(restart->started, RESTART_INTERVAL) ? restart->times + 1 : 0;
	restart->started = now;
}

/* When the next start of this candidate may be; 0: at once. */
static TimestampTz
start_due(Oid database, const JobCandidate *candidate)
{
	const Restart *restart = find_restart(database, candidate);

	return restart == NULL || restart->times < RESTARTS_MAX ? 0 : after_ms(restart->started, RESTART_DELAY);
}

/* The next candidate of a database; NULL: none. */
static JobCandidate *
next_candidate(Database *database)
{
	for (; database->candidates_next < database->candidates_count; database->candidates_next++)
	{
		JobCandidate *candidate = &database->candidates[database->candidates_next];

		if (!job_slot_has_runner(database->oid, candidate->job, candidate->shard))
			return candidate;
	}
	if (database->truncated)
	{
		database->truncated = false;
		want_scan(database, false);
	}
	return NULL;
}

/* The database whose next candidate is to start before all others'; NULL: there is none. */
static Database *
next_to_start(JobCandidate **candidate, TimestampTz now)
{
	Database   *first = NULL;

	*candidate = NULL;
	for (int i = 0; i < databases_count; i++)
	{
		JobCandidate *next = next_candidate(&databases[i]);

		if (next == NULL || start_due(databases[i].oid, next) > now || (*candidate != NULL && !starts_before(next, *candidate)))
			continue;
		*candidate = next;
		first = &databases[i];
	}
	return first;
}

/* false: no slot, or no background worker. */
static bool
start_runner(Database *database, const JobCandidate *candidate, TimestampTz now)
{
	char		name[BGW_MAXLEN];
	Datum		slot;
	int			i = 0;

	while (i < JOB_SLOTS_MAX && starting[i].handle != NULL)
		i++;
	if (i == JOB_SLOTS_MAX || !job_slot_reserve(database->oid, candidate, &slot))
		return false;
	snprintf(name, sizeof(name), "infer job " INT64_FORMAT, candidate->job);
	starting[i].slot = slot;
	starting[i].handle = start_worker(name, "infer job", "infer_job_runner_main", slot, NULL, 0);
	if (starting[i].handle == NULL)
	{
		job_slot_release(slot, false);
		no_worker(now);
		return false;
	}
	forget_no_worker();
	note_start(database->oid, candidate, now);
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	jobs_shared->starts++;
	LWLockRelease(jobs_shared->lock);
	return true;
}

/* Whether a scan may soon tell of a job that goes first; not for long, or nothing would start on a busy server. */
static bool
is_held(TimestampTz now)
{
	bool		about = scanner.handle != NULL && scanner.end_at != 0;

	for (int i = 0; i < databases_count && !about; i++)
		about = scan_is_due(&databases[i], now) && worker_due <= now;
	if (!about)
		hold_since = 0;
	else if (hold_since == 0)
		hold_since = now;
	return about && now < after_ms(hold_since, HOLD_TIME);
}

static void
start_runners(TimestampTz now)
{
	Database   *database;
	JobCandidate *candidate;
	int			waiting = 0;

	if (worker_due <= now && !is_held(now))
		while (job_slots_taken() < infer_max_job_workers &&
			   (database = next_to_start(&candidate, now)) != NULL &&
			   start_runner(database, candidate, now))
			database->candidates_next++;

	for (int i = 0; i < databases_count; i++)
		if (next_candidate(&databases[i]) != NULL)
			waiting += databases[i].candidates_count - databases[i].candidates_next;
	pg_atomic_write_u32(&jobs_shared->waiting, waiting);
}

/* ---- the loop ---- */

static void
look_at_settings(void)
{
	if (workers_max != infer_max_job_workers)
		job_slots_limit(infer_max_job_workers);
	workers_max = infer_max_job_workers;
	if (retention != infer_job_retention && retention >= 0)
		for (int i = 0; i < databases_count; i++)
			want_scan(&databases[i], true);
	retention = infer_job_retention;
}

/* Whether anything waits for a background worker yet. */
static void
look_at_waiting(void)
{
	bool		waits = pg_atomic_read_u32(&jobs_shared->waiting) > 0 || scanner.handle != NULL;

	for (int i = 0; i < databases_count; i++)
		waits |= databases[i].scan;
	if (!waits)
		forget_no_worker();
}

/* How long nothing will happen by itself, in ms. */
static long
time_to_sleep(TimestampTz now)
{
	TimestampTz next = worker_due;
	bool		waits = pg_atomic_read_u32(&jobs_shared->waiting) > 0;

	if (scanner.handle != NULL)
		next = earlier(next, scanner.end_at);
	if (waits && hold_since != 0 && after_ms(hold_since, HOLD_TIME) > now)
		next = earlier(next, after_ms(hold_since, HOLD_TIME));
	for (int i = 0; i < databases_count; i++)
	{
		const Database *database = &databases[i];

		if (database->scan && scanner.handle == NULL)
			next = earlier(next, Max(Max(database->due, worker_due), now));
		next = earlier(next, earlier(database->scan_at, database->full_at));
		if (database->candidates_next < database->candidates_count)
		{
			TimestampTz due = start_due(database->oid, &database->candidates[database->candidates_next]);

			if (due > now)
				next = earlier(next, due);
		}
	}
	return next == 0 ? SLEEP_MAX : Min(SLEEP_MAX, TimestampDifferenceMilliseconds(now, next) + 1);
}

static void
launcher_exit(int code, Datum arg)
{
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	if (jobs_shared->launcher_pid == MyProcPid)
	{
		jobs_shared->launcher_pid = 0;
		jobs_shared->launcher_latch = NULL;
	}
	LWLockRelease(jobs_shared->lock);
}

static void
launcher_begin(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	before_shmem_exit(launcher_exit, (Datum) 0);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	jobs_shared->launcher_pid = MyProcPid;
	jobs_shared->launcher_latch = MyLatch;
	jobs_shared->scan_all = true;
	LWLockRelease(jobs_shared->lock);
	job_slots_release_reserved();
}

static long
launch(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (worker_due <= now)
		worker_due = 0;
	take_flags(now);
	look_at_settings();
	look_at_clock(now);
	look_at_starting();
	look_at_scanner(now);
	start_scans(now);
	start_runners(now);
	look_at_waiting();
	return time_to_sleep(now);
}

void
infer_job_launcher_main(Datum arg)
{
	MemoryContext context;

	launcher_begin();
	context = AllocSetContextCreate(TopMemoryContext, "infer job launcher", ALLOCSET_DEFAULT_SIZES);
	while (!ShutdownRequestPending)
	{
		long		timeout;

		MemoryContextSwitchTo(context);
		CHECK_FOR_INTERRUPTS();
		timeout = launch();
		MemoryContextReset(context);
		if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout, PG_WAIT_EXTENSION) & WL_LATCH_SET)
			worker_due = 0;			/* one of ours may have ended */
		ResetLatch(MyLatch);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	proc_exit(1);
}

void
infer_job_launcher_init(void)
{
	BackgroundWorker worker;

	if (IsBinaryUpgrade)
		return;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "infer", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "infer_job_launcher_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "infer job launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "infer job launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}
