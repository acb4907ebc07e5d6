/*
 * shard.c
 *	  infer.job_shard as structs.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "utils/timestamp.h"

#include "tables.h"

enum								/* columns of infer.job_shard */
{
	Anum_shard_job = 1,
	Anum_shard_shard,
	Anum_shard_state,
	Anum_shard_low,
	Anum_shard_high,
	Anum_shard_checkpoint,
	Anum_shard_read_to_end,
	Anum_shard_done,
	Anum_shard_failed,
	Anum_shard_gone,
	Anum_shard_expired,
	Anum_shard_cancelled,
	Anum_shard_recomputed,
	Anum_shard_tokens,
	Anum_shard_chunks,
	Anum_shard_rows_per_second,
	Anum_shard_read_time,
	Anum_shard_prepare_time,
	Anum_shard_queue_time,
	Anum_shard_compute_time,
	Anum_shard_write_time,
	Anum_shard_input_digest,
	Anum_shard_output_digest,
	Anum_shard_starts,
	Anum_shard_started,
	Anum_shard_updated,
	Anum_shard_engines,
	Anum_shard_faults,
	Anum_shard_resume_at,
	Natts_shard = Anum_shard_resume_at
};

StaticAssertDecl(Natts_shard <= TABLES_ATTRIBUTES_MAX, "the widest of our tables");

static void
put_shard(JobShard *shard, bool is_new)
{
	TablesValues values = {0};

	tables_set(&values, Anum_shard_job, Int64GetDatum(shard->job));
	tables_set(&values, Anum_shard_shard, Int32GetDatum(shard->shard));
	tables_set_text(&values, Anum_shard_state, job_state_name(shard->completed ? JOB_COMPLETED : JOB_IN_PROGRESS));
	tables_set_key(&values, Anum_shard_low, &shard->low);
	tables_set_key(&values, Anum_shard_high, &shard->high);
	tables_set_key(&values, Anum_shard_checkpoint, &shard->checkpoint);
	tables_set(&values, Anum_shard_read_to_end, BoolGetDatum(shard->read_to_end));
	tables_set(&values, Anum_shard_done, Int64GetDatum(shard->done));
	tables_set(&values, Anum_shard_failed, Int64GetDatum(shard->failed));
	tables_set(&values, Anum_shard_gone, Int64GetDatum(shard->gone));
	tables_set(&values, Anum_shard_expired, Int64GetDatum(shard->expired));
	tables_set(&values, Anum_shard_cancelled, Int64GetDatum(shard->cancelled));
	tables_set(&values, Anum_shard_recomputed, Int64GetDatum(shard->recomputed));
	tables_set(&values, Anum_shard_tokens, Int64GetDatum(shard->tokens));
	tables_set(&values, Anum_shard_chunks, Int64GetDatum(shard->chunks));
	tables_set(&values, Anum_shard_rows_per_second, Float8GetDatum(shard->rows_per_second));
	values.nulls[Anum_shard_rows_per_second - 1] = shard->rows_per_second < 0;
	tables_set(&values, Anum_shard_read_time, Float8GetDatum(shard->read_time));
	tables_set(&values, Anum_shard_prepare_time, Float8GetDatum(shard->prepare_time));
	tables_set(&values, Anum_shard_queue_time, Float8GetDatum(shard->queue_time));
	tables_set(&values, Anum_shard_compute_time, Float8GetDatum(shard->compute_time));
	tables_set(&values, Anum_shard_write_time, Float8GetDatum(shard->write_time));
	tables_set_digest(&values, Anum_shard_input_digest, shard->input_digest);
	tables_set_digest(&values, Anum_shard_output_digest, shard->output_digest);
	tables_set(&values, Anum_shard_starts, Int32GetDatum(shard->starts));
	tables_set_time(&values, Anum_shard_started, shard->started);
	tables_set(&values, Anum_shard_updated, TimestampTzGetDatum(shard->updated));
	tables_set_jsonb(&values, Anum_shard_engines, shard->engines);
	tables_set(&values, Anum_shard_faults, Int32GetDatum(shard->faults));
	tables_set_time(&values, Anum_shard_resume_at, shard->resume_at);
	tables_put("job_shard", &values, &shard->tid, is_new);
}

void
job_shard_insert(JobShard *shard)
{
	put_shard(shard, true);
}

void
job_shard_update(JobShard *shard)
{
	put_shard(shard, false);
}

static JobShard *
read_shard(const TablesValues *values, ItemPointer tid)
{
	JobShard   *shard = palloc0(sizeof(JobShard));

	shard->job = tables_get_int64(values, Anum_shard_job);
	shard->shard = tables_get_int32(values, Anum_shard_shard);
	shard->completed = job_state_from_name(tables_get_text(values, Anum_shard_state)) == JOB_COMPLETED;
	tables_get_key(values, Anum_shard_low, &shard->low);
	tables_get_key(values, Anum_shard_high, &shard->high);
	tables_get_key(values, Anum_shard_checkpoint, &shard->checkpoint);
	shard->read_to_end = tables_get_bool(values, Anum_shard_read_to_end);
	shard->done = tables_get_int64(values, Anum_shard_done);
	shard->failed = tables_get_int64(values, Anum_shard_failed);
	shard->gone = tables_get_int64(values, Anum_shard_gone);
	shard->expired = tables_get_int64(values, Anum_shard_expired);
	shard->cancelled = tables_get_int64(values, Anum_shard_cancelled);
	shard->recomputed = tables_get_int64(values, Anum_shard_recomputed);
	shard->tokens = tables_get_int64(values, Anum_shard_tokens);
	shard->chunks = tables_get_int64(values, Anum_shard_chunks);
	shard->rows_per_second = values->nulls[Anum_shard_rows_per_second - 1] ? -1 :
		tables_get_double(values, Anum_shard_rows_per_second);
	shard->read_time = tables_get_double(values, Anum_shard_read_time);
	shard->prepare_time = tables_get_double(values, Anum_shard_prepare_time);
	shard->queue_time = tables_get_double(values, Anum_shard_queue_time);
	shard->compute_time = tables_get_double(values, Anum_shard_compute_time);
	shard->write_time = tables_get_double(values, Anum_shard_write_time);
	tables_get_digest(values, Anum_shard_input_digest, shard->input_digest);
	tables_get_digest(values, Anum_shard_output_digest, shard->output_digest);
	shard->starts = tables_get_int32(values, Anum_shard_starts);
	shard->started = tables_get_time(values, Anum_shard_started);
	shard->updated = tables_get_time(values, Anum_shard_updated);
	shard->engines = tables_get_jsonb(values, Anum_shard_engines);
	shard->faults = tables_get_int32(values, Anum_shard_faults);
	shard->resume_at = tables_get_time(values, Anum_shard_resume_at);
	shard->tid = *tid;
	return shard;
}

JobShard *
job_shard_get(int64 job, int32 number)
{
	TablesScan	scan;
	ScanKeyData keys[2];
	TablesValues values;
	ItemPointerData tid;
	JobShard   *shard = NULL;

	tables_key_int64(&keys[0], Anum_shard_job, job);
	tables_key_int32(&keys[1], Anum_shard_shard, number);
	tables_begin(&scan, "job_shard", AccessShareLock, keys, 2);
	if (tables_next(&scan, &values, &tid, NULL))
		shard = read_shard(&values, &tid);
	tables_end(&scan);
	return shard;
}

JobShard **
job_shards(int64 job, int *count)
{
	TablesScan	scan;
	ScanKeyData key;
	TablesValues values;
	ItemPointerData tid;
	int			space = 8;
	JobShard  **shards = palloc(sizeof(JobShard *) * space);

	*count = 0;
	tables_key_int64(&key, Anum_shard_job, job);
	tables_begin(&scan, "job_shard", AccessShareLock, &key, 1);
	while (tables_next(&scan, &values, &tid, NULL))
	{
		if (*count == space)
			shards = repalloc(shards, sizeof(JobShard *) * (space *= 2));
		shards[(*count)++] = read_shard(&values, &tid);
	}
	tables_end(&scan);
	return shards;
}

/* Waits for who writes one just now, and has the version that he left. */
JobShard **
job_shards_locked(int64 job, int *count)
{
	TablesScan	scan;
	ScanKeyData key;
	TablesValues values;
	ItemPointerData tid;
	TupleTableSlot *slot;

	tables_key_int64(&key, Anum_shard_job, job);
	tables_begin(&scan, "job_shard", RowExclusiveLock, &key, 1);
	slot = table_slot_create(scan.table, NULL);
	while (tables_next(&scan, &values, &tid, NULL))
	{
		TM_FailureData failure;

		(void) table_tuple_lock(scan.table, &tid, scan.snapshot, slot, GetCurrentCommandId(true), LockTupleExclusive,
								LockWaitBlock, TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure);
		ExecClearTuple(slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	tables_end(&scan);
	return job_shards(job, count);
}
