/*
 * gpu.c
 *	  A GPU that keeps being lost, where infer.device is auto: engines compute on the CPU.
 *
 * One loss may be a moment's: the next engine opens the GPU anew, and if it can, statements go on
 * with the same bits.  After a second one within LOSS_WINDOW, engines that start within as much
 * again leave the GPU alone.  An engine that serves is not ended only to try the GPU: that is for
 * whoever knows that it is well again (infer.restart_engine).
 */
#include "postgres.h"

#include "pgtime.h"

#include "internal.h"

#define LOSS_WINDOW		10			/* minutes */

static TimestampTz
after_window(TimestampTz from)
{
	return from + LOSS_WINDOW * INT64CONST(60) * USECS_PER_SEC;
}

static void
explain(char *why, Size bytes)
{
	pg_time_t	until = timestamptz_to_time_t(after_window(GetCurrentTimestamp()));
	char		text[64];

	pg_strftime(text, sizeof(text), "%Y-%m-%d %H:%M %Z", pg_localtime(&until, log_timezone));
	snprintf(why, bytes, "lost twice within %d minutes; tried again by infer.restart_engine(), or if an engine starts after %s",
			 LOSS_WINDOW, text);
}

bool
supervisor_gpu_lost(TimestampTz now)
{
	bool		again = supervisor.lost_at != 0 && now < after_window(supervisor.lost_at);

	if (supervisor.ordered || strcmp(infer_device, "auto") != 0 || !(supervisor.hung || engine_process_lost_gpu()))
		return false;
	supervisor.lost_at = now;
	if (!again)
	{
		ereport(LOG, (errmsg("infer: the GPU was lost, another engine tries it again")));
		return true;
	}
	supervisor.cpu_until = after_window(now);
	explain(supervisor.cpu_why, sizeof(supervisor.cpu_why));
	ereport(WARNING,
			(errmsg("infer: the GPU was lost twice within %d minutes, another engine computes on the CPU", LOSS_WINDOW),
			 errhint("Look for the reason here and in the kernel's log (Xid); once the GPU is well again, call infer.restart_engine().")));
	return true;
}

const char *
supervisor_without_gpu(TimestampTz now)
{
	return now < supervisor.cpu_until ? supervisor.cpu_why : NULL;
}

void
supervisor_gpu_forget(void)
{
	supervisor.lost_at = supervisor.cpu_until = 0;
}
