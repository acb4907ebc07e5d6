/*
 * workers.c
 *	  What launcher and runners do, as relations.
 *
 * A runner is shown to those who may see its job: the role that submitted it, its members, and members of
 * pg_read_all_stats.  How many there are is no secret.
 */
#include "postgres.h"

#include "launcher.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

static const char *const phase_names[] = {
	[JOB_PHASE_STARTING] = "starting",
	[JOB_PHASE_READING] = "reading",
	[JOB_PHASE_COMPUTING] = "computing",
	[JOB_PHASE_WRITING] = "writing",
	[JOB_PHASE_ENDING] = "ending",
};

static void
put_worker(ReturnSetInfo *result, const JobSlot *slot)
{
	Datum		values[7];
	bool		nulls[7] = {false};

	values[0] = Int64GetDatum(slot->job);
	values[1] = Int32GetDatum(slot->shard);
	values[2] = Int32GetDatum(slot->pid);
	nulls[2] = slot->pid == 0;
	values[3] = CStringGetTextDatum(phase_names[slot->phase]);
	values[4] = Int64GetDatum(slot->chunk);
	values[5] = Int32GetDatum(slot->rows);
	values[6] = TimestampTzGetDatum(slot->started);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(infer_read_job_workers);

Datum
infer_read_job_workers(PG_FUNCTION_ARGS)
{
	JobSlot    *slots = palloc(sizeof(JobSlot) * JOB_SLOTS_MAX);
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	infer_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	memcpy(slots, jobs_shared->slots, sizeof(JobSlot) * JOB_SLOTS_MAX);
	LWLockRelease(jobs_shared->lock);

	for (int i = 0; i < JOB_SLOTS_MAX; i++)
		if (slots[i].state != JOB_SLOT_FREE && slots[i].database == MyDatabaseId &&
			(all || has_privs_of_role(GetUserId(), slots[i].owner)))
			put_worker((ReturnSetInfo *) fcinfo->resultinfo, &slots[i]);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(infer_read_job_launcher);

Datum
infer_read_job_launcher(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[6];
	bool		nulls[6] = {false};

	infer_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[1] = Int32GetDatum(job_slots_taken());
	values[2] = Int32GetDatum(infer_max_job_workers);
	values[3] = Int32GetDatum(pg_atomic_read_u32(&jobs_shared->waiting));
	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	values[0] = Int32GetDatum(jobs_shared->launcher_pid);
	nulls[0] = jobs_shared->launcher_pid == 0;
	values[4] = Int64GetDatum(jobs_shared->scans);
	values[5] = Int64GetDatum(jobs_shared->starts);
	LWLockRelease(jobs_shared->lock);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

PG_FUNCTION_INFO_V1(infer_read_job_delay);

Datum
infer_read_job_delay(PG_FUNCTION_ARGS)
{
	TimestampTz until;

	infer_require_preload();
	until = job_delayed_until(MyDatabaseId, PG_GETARG_INT64(0));
	if (until == 0)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(until);
}

PG_FUNCTION_INFO_V1(infer_read_job_wait);

Datum
infer_read_job_wait(PG_FUNCTION_ARGS)
{
	bool		runs;
	bool		no_worker;
	const char *what;

	infer_require_preload();
	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	runs = jobs_shared->launcher_pid != 0;
	no_worker = jobs_shared->no_worker;
	LWLockRelease(jobs_shared->lock);

	if (infer_max_job_workers == 0)
		what = "infer.max_job_workers, which is 0";
	else if (!PG_ARGISNULL(0) && PG_GETARG_TIMESTAMPTZ(0) > GetCurrentTimestamp())
		what = psprintf("%s (back-off)", DatumGetCString(DirectFunctionCall1(timestamptz_out, PG_GETARG_DATUM(0))));
	else if (no_worker)
		what = psprintf("a background worker (max_worker_processes = %d)", max_worker_processes);
	else if (job_slots_taken() >= infer_max_job_workers)
		what = psprintf("a worker slot (infer.max_job_workers = %d)", infer_max_job_workers);
	else if (!runs)
		what = "the launcher of jobs";
	else
		what = "its start";
	PG_RETURN_TEXT_P(cstring_to_text(what));
}
