/*
 * shared.c
 *	  Slots of runners, and the launcher's mail-box.
 */
#include "postgres.h"

#include "job.h"

void
infer_jobs_init(void)
{
}

void
infer_jobs_changed(void)
{
}

void
job_slot_attach(Datum arg, Oid *database, Oid *owner, int64 *job, int32 *shard)
{
	elog(ERROR, "not there yet");
}

void
job_slot_phase(JobPhase phase, int64 chunk, int rows)
{
	elog(ERROR, "not there yet");
}

bool
job_slot_is_cancelled(void)
{
	elog(ERROR, "not there yet");
}

bool
job_slot_is_wanted(void)
{
	elog(ERROR, "not there yet");
}


bool
job_slot_must_leave(void)
{
	elog(ERROR, "not there yet");
}

void
job_slot_shard(int32 shard)
{
	elog(ERROR, "not there yet");
}
