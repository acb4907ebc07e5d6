/*
 * supervisor.c
 *	  The background worker that owns the engine process.
 *
 * Nouns
 *	supervisor	registered at preload, connected to no database, on standbys too
 *	old engine	one whose supervisor has died: it holds the lock file still
 *	watch		what the supervisor saw last of the engine's heartbeats, and since when
 *	back-off	how long the next start waits: nothing after the first end, then longer each
 *				time, forgotten when an engine has lived for a while
 *
 * Loop
 *	Start the engine once no old engine holds the lock; wait (latch, log pipe, SIGCHLD, the
 *	postmaster's death); pass log and settings on; look at the heartbeats; when the engine
 *	has ended, say so and start another.
 *
 * Invariants
 *	- The supervisor never leaves before it has killed and reaped the engine, on any path:
 *	  before_shmem_exit for every proc_exit (an ERROR included), a handler for SIGQUIT and
 *	  SIGABRT.  Where the postmaster is PID 1, an orphan that ends with another status than
 *	  0 or 1 would restart the cluster.
 *	- It exits with 1, never 0: a worker that exits with 0 is not started again.
 *	- No error is raised while infer_shared->lock is held: the exit callback takes it.
 */
#include "postgres.h"

#include "infer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine_process.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "preload.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define BACKOFF_FIRST	100			/* ms, after the second end in a row */
#define BACKOFF_MAX		5000		/* ms */
#define BACKOFF_SERVED	800			/* ms, at most, if the engine that ended had been ready */
#define LIVED			5000		/* ms: an engine that lived so long resets the back-off */
#define FAILED_MAX		3			/* starts in a row without a ready engine: callers are told */
#define STARTING_TIME	60000		/* ms that a device may take to be opened */
#define STOP_TIME		1500		/* ms between SIGTERM and SIGKILL */
#define OLD_ENGINE_TIME	500			/* ms that an old engine has to leave by itself */

extern PGDLLEXPORT void infer_supervisor_main(Datum arg);

typedef struct Supervisor
{
	TimestampTz started_at;			/* of the running engine */
	bool		was_ready;
	bool		ordered;			/* its end was asked for */
	TimestampTz kill_at;			/* of an ordered end; 0: none */
	TimestampTz start_at;			/* not before */
	int			ends;				/* in a row, without having lived */
	int			failures;			/* starts in a row that never became ready */
	TimestampTz old_since;			/* an old engine was first seen; 0: none */
	bool		old_killed;

	uint64		loop_beat;			/* the watch */
	uint64		device_beat;
	uint64		load_beat;
	TimestampTz loop_at;
	TimestampTz device_at;
	TimestampTz load_at;
	TimestampTz watched_at;
} Supervisor;

static Supervisor supervisor;

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

/* ---- small helpers ---- */

/*
 * The time in usec, for differences only.  Not the wall's clock: set back, it would put off a
 * start, or the end of an engine that hangs, by as much.
 */
static TimestampTz
monotonic_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (TimestampTz) now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

static TimestampTz
after_ms(TimestampTz from, int ms)
{
	return TimestampTzPlusMilliseconds(from, ms);
}

static void
share_error(const char *error)
{
	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	strlcpy(infer_shared->engine_error, error, sizeof(infer_shared->engine_error));
	LWLockRelease(infer_shared->lock);
}

/*
 * Our folders: nobody but the server's user may look into them.  They are made before each
 * start, since whoever cleans up may have taken them away.
 */
static bool
make_directories(char *error, size_t size)
{
	static const char *const paths[] = {"pg_infer", INFER_DIRECTORY, INFER_CACHE};

	for (int i = 0; i < lengthof(paths); i++)
	{
		struct stat st;

		if (mkdir(paths[i], S_IRWXU) == 0)
			continue;
		if (errno == EEXIST && stat(paths[i], &st) == 0)
		{
			if (S_ISDIR(st.st_mode))
				continue;
			snprintf(error, size, "\"%s\" exists but is not a directory", paths[i]);
		}
		else
			snprintf(error, size, "could not create directory \"%s\": %s", paths[i], strerror(errno));
		return false;
	}
	return true;
}

/* ---- starting ---- */

/* Whether the process is an engine: a lock file may outlive its writer, and numbers return. */
static bool
is_engine(pid_t pid)
{
	char		path[MAXPGPATH];
	char		comm[32] = "";
	int			fd;
	ssize_t		length;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, comm, sizeof(comm) - 1);
	close(fd);
	return length > 0 && strncmp(comm, "infer-engine", 12) == 0;
}

/* Whether an old engine holds the lock; *holder is its process, 0 if it cannot be told. */
static bool
lock_is_held(pid_t *holder)
{
	char		text[32] = "";
	int			fd = open(INFER_LOCK, O_RDWR | O_CLOEXEC);
	bool		held;

	*holder = 0;
	if (fd < 0)
		return false;
	held = flock(fd, LOCK_EX | LOCK_NB) < 0;
	if (held && read(fd, text, sizeof(text) - 1) > 0)
		*holder = atoi(text);
	close(fd);
	if (*holder <= 1 || !is_engine(*holder))
		*holder = 0;
	return held;
}

/*
 * True once no old engine is left.  It ends by itself when its supervisor goes; one that
 * does not is killed.
 */
static bool
old_engine_gone(TimestampTz now)
{
	pid_t		holder;

	if (!lock_is_held(&holder))
	{
		supervisor.old_since = 0;
		supervisor.old_killed = false;
		return true;
	}
	if (supervisor.old_since == 0)
		supervisor.old_since = now;
	if (!supervisor.old_killed && holder != 0 && now >= after_ms(supervisor.old_since, OLD_ENGINE_TIME))
	{
		ereport(LOG, (errmsg("infer: killing an engine left over from before, process %d", (int) holder)));
		kill(holder, SIGKILL);
		supervisor.old_killed = true;
	}
	supervisor.start_at = after_ms(now, 10);
	return false;
}

static void
watch_reset(TimestampTz now)
{
	supervisor.loop_at = supervisor.device_at = supervisor.load_at = supervisor.watched_at = now;
}

/* Another end, or start that failed: when the next start may be. */
static void
back_off(TimestampTz now)
{
	int			delay_max = supervisor.failures == 0 && supervisor.was_ready ? BACKOFF_SERVED : BACKOFF_MAX;
	int			delay = 0;

	if (supervisor.ends > 0)
	{
		delay = BACKOFF_FIRST;
		for (int i = 1; i < supervisor.ends && delay < delay_max; i++)
			delay *= 2;
	}
	supervisor.ends++;
	supervisor.start_at = after_ms(now, Min(delay, delay_max));
}

static void
start_engine(TimestampTz now)
{
	char		error[256];
	bool		folders = make_directories(error, sizeof(error));

	if (!folders || !engine_process_start(error, sizeof(error)))
	{
		ereport(LOG,
				(errmsg("infer: the engine could not be started"),
				 errdetail("%s.", error),
				 folders ?
				 errhint("Install infer-engine beside the server's programs (make install).") :
				 errhint("Let the server's user write there, and move away what is no folder.")));
		share_error(error);
		supervisor.was_ready = false;
		supervisor.ends = Max(supervisor.ends, FAILED_MAX);
		back_off(now);
		return;
	}

	supervisor.started_at = now;
	supervisor.was_ready = false;
	supervisor.ordered = false;
	supervisor.kill_at = 0;
	supervisor.loop_beat = supervisor.device_beat = supervisor.load_beat = 0;
	watch_reset(now);

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	infer_shared->engine_pid = engine_process_pid();
	infer_shared->engine_starts++;
	LWLockRelease(infer_shared->lock);
}

/* ---- ending ---- */

static void
report_end(int status)
{
	if (supervisor.ordered)
		ereport(LOG, (errmsg("infer: the engine was stopped")));
	else if (WIFSIGNALED(status))
		ereport(LOG,
				(errmsg("infer: the engine was terminated by signal %d: %s",
						WTERMSIG(status), strsignal(WTERMSIG(status)))));
	else
		ereport(LOG, (errmsg("infer: the engine ended with status %d", WEXITSTATUS(status))));
}

/* The engine has been reaped. */
static void
engine_ended(int status, TimestampTz now)
{
	report_end(status);
	supervisor.failures = supervisor.was_ready || supervisor.ordered ? 0 : supervisor.failures + 1;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	infer_shared->engine_pid = 0;
	if (supervisor.ordered)
		infer_shared->engine_stops++;
	if (supervisor.failures >= FAILED_MAX)
		snprintf(infer_shared->engine_error, sizeof(infer_shared->engine_error),
				 "it ended %d times before it was ready, the last time with %s %d%s%s",
				 supervisor.failures,
				 WIFSIGNALED(status) ? "signal" : "status",
				 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
				 engine_process_last_words()[0] != '\0' ? ": " : "", engine_process_last_words());
	LWLockRelease(infer_shared->lock);

	if (supervisor.ordered || (supervisor.was_ready && now >= after_ms(supervisor.started_at, LIVED)))
		supervisor.ends = 0;
	back_off(now);
}

/* infer.restart_engine() */
static void
stop_engine(TimestampTz now)
{
	if (supervisor.ordered)
		return;
	supervisor.ordered = true;
	supervisor.kill_at = after_ms(now, STOP_TIME);
	engine_process_signal(SIGTERM);
}

/* The server's shutdown: wait, but not for long. */
static void
stop_engine_for_good(void)
{
	int			status;

	if (engine_process_pid() == 0)
		return;
	engine_process_signal(SIGTERM);
	for (int waited = 0; waited < STOP_TIME; waited += 10)
	{
		engine_process_log();
		if (engine_process_reap(&status))
			return;
		pg_usleep(10000L);
	}
	engine_process_kill(&status);
}

/* ---- watching ---- */

static int
watch_interval(void)
{
	return Max(100, Min(1000, infer_engine_timeout / 8));
}

static void
kill_silent(const char *what)
{
	ereport(LOG,
			(errmsg("infer: the engine's %s gave no sign of life for %d ms, killing it",
					what, infer_engine_timeout)));
	engine_process_signal(SIGKILL);
	supervisor.kill_at = 0;
	watch_reset(monotonic_now());	/* said once, though it may be looked at again before it is reaped */
}

/* An engine that ends by itself says so before it removes its socket. */
static bool
socket_is_gone(const struct infer_status_page *page)
{
	return access(INFER_SOCKET, F_OK) < 0 && errno == ENOENT &&
		infer_load_acquire32(&page->state) == INFER_ENGINE_READY;
}

/* Look at the heartbeats; kill an engine that has none, or that does not stop as asked. */
static void
watch_engine(TimestampTz now)
{
	const struct infer_status_page *page = engine_process_page();
	uint32		state = infer_load_acquire32(&page->state);
	uint64		loop_beat = infer_load_acquire64(&page->loop_beat);
	uint64		device_beat = infer_load_acquire64(&page->device_beat);
	uint64		load_beat = infer_load_acquire64(&page->load_beat);
	bool		device_busy = infer_load_acquire32(&page->device_busy) != 0;
	bool		load_busy = infer_load_acquire32(&page->load_busy) != 0;

	if (supervisor.kill_at != 0 && now >= supervisor.kill_at)
	{
		engine_process_signal(SIGKILL);
		supervisor.kill_at = 0;
		return;
	}
	if (supervisor.was_ready && !supervisor.ordered && socket_is_gone(page))
	{
		ereport(LOG, (errmsg("infer: the engine's socket has been removed, starting another engine")));
		stop_engine(now);
		return;
	}

	/* if we were stopped ourselves (a suspended machine), what is overdue is our own look */
	if (now >= after_ms(supervisor.watched_at, 2 * watch_interval() + 1000))
		watch_reset(now);
	supervisor.watched_at = now;

	if (loop_beat != supervisor.loop_beat)
		supervisor.loop_at = now;
	if (device_beat != supervisor.device_beat || !device_busy)
		supervisor.device_at = now;
	if (load_beat != supervisor.load_beat || !load_busy)
		supervisor.load_at = now;
	supervisor.loop_beat = loop_beat;
	supervisor.device_beat = device_beat;
	supervisor.load_beat = load_beat;

	if (state == INFER_ENGINE_READY && !supervisor.was_ready)
	{
		supervisor.was_ready = true;
		supervisor.failures = 0;
		watch_reset(now);
		share_error("");
		infer_preload_begin();
	}
	if (!supervisor.was_ready)
	{
		if (now >= after_ms(supervisor.started_at, STARTING_TIME + infer_engine_timeout))
			kill_silent("start");
	}
	else if (now >= after_ms(supervisor.loop_at, infer_engine_timeout))
		kill_silent("event loop");
	else if (now >= after_ms(supervisor.device_at, infer_engine_timeout))
		kill_silent("device");
	else if (now >= after_ms(supervisor.load_at, infer_engine_timeout))
		kill_silent("loader");
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
	TimestampTz now = monotonic_now();
	bool		restart = take_restart_request();
	int			status;

	engine_process_log();
	if (engine_process_reap(&status))
		engine_ended(status, now);
	if (restart)
	{
		if (engine_process_pid() != 0)
			stop_engine(now);
		else
		{
			supervisor.ends = 0;
			supervisor.start_at = now;
		}
	}
	if (engine_process_pid() == 0 && now >= supervisor.start_at && old_engine_gone(now))
		start_engine(now);
	if (engine_process_pid() == 0)
		return TimestampDifferenceMilliseconds(now, supervisor.start_at);

	watch_engine(now);
	if (engine_process_settings() || !supervisor.was_ready)
		return 20;
	if (supervisor.kill_at != 0)
		return Max(1, TimestampDifferenceMilliseconds(now, supervisor.kill_at));
	return watch_interval();
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
		long		preload = infer_preload_round(monotonic_now());

		MemoryContextReset(context);
		wait_for_events(preload < 0 ? timeout : Min(timeout, preload));
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	stop_engine_for_good();
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

/* ---- SQL ---- */

/* Ask for another engine; returns how many had been started before. */
static uint64
request_restart(void)
{
	uint64		starts;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	starts = infer_shared->engine_starts;
	infer_shared->restart_requested = true;
	if (infer_shared->supervisor_latch != NULL)
		SetLatch(infer_shared->supervisor_latch);
	LWLockRelease(infer_shared->lock);
	return starts;
}

PG_FUNCTION_INFO_V1(infer_restart_engine);

/*
 * infer.restart_engine(): the way to a fresh engine without restarting the server.
 * Returns when the new process has been started; calls in flight are sent again.
 */
Datum
infer_restart_engine(PG_FUNCTION_ARGS)
{
	TimestampTz deadline = after_ms(monotonic_now(), infer_timeout);
	uint64		starts;
	uint64		starts_now;

	infer_require_preload();
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to restart the engine"),
				 errhint("Ask a superuser to call infer.restart_engine().")));

	starts = request_restart();
	for (;;)
	{
		LWLockAcquire(infer_shared->lock, LW_SHARED);
		starts_now = infer_shared->engine_starts;
		LWLockRelease(infer_shared->lock);
		if (starts_now > starts)
			PG_RETURN_VOID();
		if (infer_timeout > 0 && monotonic_now() >= deadline)
			ereport(ERROR,
					(errcode(ERRCODE_INFER_ENGINE_UNAVAILABLE),
					 errmsg("the engine was not started within infer.timeout"),
					 errhint("Look into the server's log for the reason.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
