/*
 * launcher.c
 *	  The background worker that has databases scanned, and starts runners.
 *
 * Loop
 *	Fetch what is flagged; take the report of a scanner that has ended; start the next scanner, one at a
 *	time; start runners while slots and background workers are free; wait for the latch or the next time.
 *
 * Invariants
 *	- It polls nothing but what nobody tells: prepared transactions that wait (COMMIT PREPARED is told, but for
 *	  those by others' code), databases that cannot be connected to now, and a free background worker that
 *	  was not one of ours.
 *	- It is connected to no database, and holds up nobody's DROP DATABASE; scanners leave soon, whatever they
 *	  wait for.
 *	- Whatever ends it, it loses nothing: a new one scans all databases; runners go on meanwhile.
 *	- It exits with 1, never 0: a worker that exits with 0 is not started again.
 */
#include "postgres.h"

#include "launching.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define SLEEP_MAX			600000		/* ms: clocks may be set */

extern PGDLLEXPORT void infer_job_launcher_main(Datum arg);

static int	workers_max = -1;		/* infer.max_job_workers when it was last looked at */
static int	retention = -1;			/* infer.job_retention, likewise */

static void
look_at_settings(void)
{
	if (workers_max != infer_max_job_workers)
		job_slots_limit(infer_max_job_workers);
	workers_max = infer_max_job_workers;
	if (retention != infer_job_retention && retention >= 0)
		for (int i = 0; i < launcher_databases_count; i++)
			launcher_databases[i].scan = true;
	retention = infer_job_retention;
}

/* Whether anything waits for a background worker yet. */
static bool
waits(void)
{
	if (pg_atomic_read_u32(&jobs_shared->waiting) > 0 || launcher_is_scanning())
		return true;
	for (int i = 0; i < launcher_databases_count; i++)
		if (launcher_databases[i].scan)
			return true;
	return false;
}

/* Returns how long nothing will happen by itself, in ms. */
static long
do_round(void)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next;

	launcher_look_at_databases(now);
	look_at_settings();
	launcher_look_at_starting();
	launcher_look_at_scanner(now);
	launcher_start_scans(now);
	launcher_start_runners(now);
	if (!waits())
		launcher_process_unwanted();

	next = earlier(launcher_next_scan(now), launcher_next_start(now));
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
		timeout = do_round();
		MemoryContextReset(context);
		if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout, PG_WAIT_EXTENSION) & WL_LATCH_SET)
			launcher_process_freed();	/* one of ours may have ended */
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
