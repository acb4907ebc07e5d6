/*
 * process.c
 *	  Background workers that the launcher starts, and what it does while none is free.
 */
#include "postgres.h"

#include "launching.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#define WORKER_INTERVAL		1000		/* ms between tries to get a background worker */
#define LACK_INTERVAL		60000		/* ms after which a lack of them is news */

static TimestampTz process_due = 0;	/* none was free: not before */
static TimestampTz lack_at = 0;		/* the last time that none was */

static void
set_lack(bool lack)
{
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	jobs_shared->no_worker = lack;
	LWLockRelease(jobs_shared->lock);
}

/* Said once, until there was no lack of them for a while. */
static void
note_lack(TimestampTz now)
{
	bool		warn = lack_at == 0 || now >= after_ms(lack_at, LACK_INTERVAL);

	lack_at = now;
	process_due = after_ms(now, WORKER_INTERVAL);
	set_lack(true);
	if (warn)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("infer: jobs wait for a free background worker"),
				 errdetail("All of max_worker_processes (%d) are in use. The jobs start by themselves when one is free.", max_worker_processes),
				 errhint("Raise max_worker_processes: jobs need two for the launcher and its scanner, and as many as infer.max_job_workers.")));
}

BackgroundWorkerHandle *
launcher_start_process(const char *name, const char *type, const char *function, Datum arg,
					   const void *extra, size_t extra_bytes, TimestampTz now)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool		started;

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
	started = RegisterDynamicBackgroundWorker(&worker, &handle);
	MemoryContextSwitchTo(old);
	if (!started)
	{
		note_lack(now);
		return NULL;
	}
	set_lack(false);
	return handle;
}

bool
launcher_has_stopped(BackgroundWorkerHandle *handle)
{
	pid_t		pid;

	return GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED;
}

TimestampTz
launcher_process_due(void)
{
	return process_due;
}

void
launcher_process_freed(void)
{
	process_due = 0;
}

void
launcher_process_unwanted(void)
{
	set_lack(false);
}
