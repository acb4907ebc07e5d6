/*
 * restart.c
 *	  infer.restart_engine(): another engine, without restarting the server.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"

#include "internal.h"

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
	TimestampTz deadline = after_ms(supervisor_clock(), infer_timeout);
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
		if (infer_timeout > 0 && supervisor_clock() >= deadline)
			ereport(ERROR,
					(errcode(ERRCODE_INFER_ENGINE_UNAVAILABLE),
					 errmsg("the engine was not started within infer.timeout"),
					 errhint("Look into the server's log for the reason.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
