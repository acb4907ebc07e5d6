/*
 * end.c
 *	  The end of an engine: asked for, or found.
 */
#include "postgres.h"

#include <signal.h>
#include <sys/wait.h>

#include "internal.h"

#define LIVED			5000		/* ms: an engine that lived so long resets the back-off */
#define STOP_TIME		1500		/* ms between SIGTERM and SIGKILL */

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

void
supervisor_engine_ended(int status, TimestampTz now)
{
	bool		blameless;

	report_end(status);
	blameless = supervisor_gpu_lost(now) || supervisor.ordered;
	supervisor.failures = supervisor.was_ready || supervisor.ordered ? 0 : supervisor.failures + 1;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	infer_shared->engine_pid = 0;
	if (blameless)
		infer_shared->engine_blameless++;
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
	supervisor_back_off(now);
}

void
supervisor_stop_engine(TimestampTz now)
{
	if (supervisor.ordered)
		return;
	supervisor.ordered = true;
	supervisor.kill_at = after_ms(now, STOP_TIME);
	engine_process_signal(SIGTERM);
}

void
supervisor_stop_engine_for_good(void)
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
