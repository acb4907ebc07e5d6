/*
 * supervisor.c
 *	  The background worker that owns the engine process: signals, exit, and its loop.
 *
 * internal.h has the nouns, the loop and the invariants.
 */
#include "postgres.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "../preload.h"
#include "internal.h"

extern PGDLLEXPORT void infer_supervisor_main(Datum arg);

Supervisor	supervisor;

TimestampTz
supervisor_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (TimestampTz) now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

void
supervisor_share_error(const char *error)
{
	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	strlcpy(infer_shared->engine_error, error, sizeof(infer_shared->engine_error));
	LWLockRelease(infer_shared->lock);
}

/* ---- signals and exit ---- */

/*
 * Immediate shutdown, another backend's crash, or a failed assertion of ours: end at once
 * but not before the engine has.
 */
static void
handle_crash_exit(SIGNAL_ARGS)
{
	engine_process_kill_in_handler();
	if (postgres_signal_arg == SIGABRT)
	{
		sigset_t	abort_set;

		/* with its own status and core; the signal is blocked while its handler runs */
		signal(SIGABRT, SIG_DFL);
		sigemptyset(&abort_set);
		sigaddset(&abort_set, SIGABRT);
		sigprocmask(SIG_UNBLOCK, &abort_set, NULL);
		raise(SIGABRT);
	}
	_exit(2);
}

static void
handle_child(SIGNAL_ARGS)
{
	int			save_errno = errno;

	SetLatch(MyLatch);
	errno = save_errno;
}

static void
supervisor_exit(int code, Datum arg)
{
	int			status;

	engine_process_kill(&status);

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	if (infer_shared->supervisor_pid == MyProcPid)
	{
		infer_shared->engine_pid = 0;
		infer_shared->supervisor_pid = 0;
		infer_shared->supervisor_latch = NULL;
	}
	LWLockRelease(infer_shared->lock);
}

/* ---- the loop ---- */

static bool
take_restart_request(void)
{
	bool		requested;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	requested = infer_shared->restart_requested;
	infer_shared->restart_requested = false;
	LWLockRelease(infer_shared->lock);
	return requested;
}

/* One round: start, stop, look, move.  Returns how long to wait, in ms. */
static long
supervise(void)
{
	TimestampTz now = supervisor_clock();
	bool		restart = take_restart_request();
	int			status;

	engine_process_log();
	if (engine_process_reap(&status))
		supervisor_engine_ended(status, now);
	if (restart)
	{
		supervisor_gpu_forget();
		if (engine_process_pid() != 0)
			supervisor_stop_engine(now);
		else
		{
			supervisor.ends = 0;
			supervisor.start_at = now;
		}
	}
	if (engine_process_pid() == 0 && now >= supervisor.start_at && supervisor_old_engine_gone(now))
		supervisor_start_engine(now);
	if (engine_process_pid() == 0)
		return TimestampDifferenceMilliseconds(now, supervisor.start_at);

	supervisor_watch(now);
	if (engine_process_settings() || !supervisor.was_ready)
		return 20;
	if (supervisor.kill_at != 0)
		return Max(1, TimestampDifferenceMilliseconds(now, supervisor.kill_at));
	return supervisor_watch_interval();
}

static void
wait_for_events(long timeout)
{
	int			fd = engine_process_log_fd();
	int			events = WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH;

	if (fd >= 0)
		(void) WaitLatchOrSocket(MyLatch, events | WL_SOCKET_READABLE, fd, timeout, PG_WAIT_EXTENSION);
	else
		(void) WaitLatch(MyLatch, events, timeout, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

static void
supervisor_begin(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGQUIT, handle_crash_exit);
	pqsignal(SIGABRT, handle_crash_exit);
	pqsignal(SIGCHLD, handle_child);
	before_shmem_exit(supervisor_exit, (Datum) 0);
	BackgroundWorkerUnblockSignals();

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	infer_shared->supervisor_pid = MyProcPid;
	infer_shared->supervisor_latch = MyLatch;
	infer_shared->engine_pid = 0;
	LWLockRelease(infer_shared->lock);
}

void
infer_supervisor_main(Datum arg)
{
	MemoryContext context;

	supervisor_begin();
	context = AllocSetContextCreate(TopMemoryContext, "infer supervisor", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(context);

	while (!ShutdownRequestPending)
	{
		long		timeout = supervise();
		long		preload = infer_preload_round(supervisor_clock());

		MemoryContextReset(context);
		wait_for_events(preload < 0 ? timeout : Min(timeout, preload));
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	supervisor_stop_engine_for_good();
	proc_exit(1);
}

void
infer_supervisor_init(void)
{
	BackgroundWorker worker;

	/* pg_upgrade wants a server in which nothing runs but what it asks for */
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "infer", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "infer_supervisor_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "infer supervisor", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "infer supervisor", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}
