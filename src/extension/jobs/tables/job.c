/*
 * job.c
 *	  infer.job as structs, and what goes with a job.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "commands/sequence.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "../../catalog/internal.h"
#include "tables.h"

enum								/* columns of infer.job */
{
	Anum_job_job = 1,
	Anum_job_origin,
	Anum_job_name,
	Anum_job_owner,
	Anum_job_owner_name,
	Anum_job_model,
	Anum_job_state,
	Anum_job_sqlstate,
	Anum_job_message,
	Anum_job_priority,
	Anum_job_request,
	Anum_job_total,
	Anum_job_total_estimated,
	Anum_job_faults,
	Anum_job_submitted,
	Anum_job_started,
	Anum_job_finished,
	Anum_job_expires,
	Anum_job_resume_at,
	Anum_job_facts,
	Anum_job_done,
	Anum_job_failed,
	Anum_job_gone,
	Anum_job_expired,
	Anum_job_cancelled,
	Anum_job_recomputed,
	Anum_job_tokens,
	Anum_job_shards,
	Natts_job = Anum_job_shards
};

StaticAssertDecl(Natts_job <= TABLES_ATTRIBUTES_MAX, "all columns of infer.job");

/* ---- names of states ---- */

static const char *const state_names[] = {
	[JOB_VALIDATING] = "validating",
	[JOB_IN_PROGRESS] = "in_progress",
	[JOB_FINALIZING] = "finalizing",
	[JOB_COMPLETED] = "completed",
	[JOB_FAILED] = "failed",
	[JOB_EXPIRED] = "expired",
	[JOB_CANCELLING] = "cancelling",
	[JOB_CANCELLED] = "cancelled",
};

const char *
job_state_name(JobState state)
{
	return state_names[state];
}

JobState
job_state_from_name(const char *name)
{
	return tables_number_of_name(state_names, lengthof(state_names), name);
}

/* ---- infer.job ---- */

/* Nothing is there of it: rows that came with a dump, or that somebody wrote who may restore one. */
int64
job_next_number(void)
{
	int64		job = nextval_internal(infer_relation_oid("job_id"), false);

	tables_delete_of_job("job_input", job);
	tables_delete_of_job("job_request", job);
	tables_delete_of_job("job_item", job);
	tables_delete_of_job("job_shard", job);
	return job;
}

/* NULL: NULLs. */
static void
set_totals(TablesValues *values, const JobTotals *totals)
{
	if (totals == NULL)
	{
		for (int i = Anum_job_done; i <= Anum_job_shards; i++)
			values->nulls[i - 1] = true;
		return;
	}
	tables_set(values, Anum_job_done, Int64GetDatum(totals->done));
	tables_set(values, Anum_job_failed, Int64GetDatum(totals->failed));
	tables_set(values, Anum_job_gone, Int64GetDatum(totals->gone));
	tables_set(values, Anum_job_expired, Int64GetDatum(totals->expired));
	tables_set(values, Anum_job_cancelled, Int64GetDatum(totals->cancelled));
	tables_set(values, Anum_job_recomputed, Int64GetDatum(totals->recomputed));
	tables_set(values, Anum_job_tokens, Int64GetDatum(totals->tokens));
	tables_set(values, Anum_job_shards, Int32GetDatum(totals->shards));
}

static void
put_job(const JobRecord *record, ItemPointer tid, bool is_new)
{
	TablesValues values = {0};

	tables_set(&values, Anum_job_job, Int64GetDatum(record->job));
	tables_set_text(&values, Anum_job_origin, record->origin);
	tables_set_text(&values, Anum_job_name, record->name);
	tables_set(&values, Anum_job_owner, ObjectIdGetDatum(record->owner));
	tables_set_text(&values, Anum_job_owner_name, record->owner_name);
	tables_set_text(&values, Anum_job_model, record->model);
	tables_set_text(&values, Anum_job_state, job_state_name(record->state));
	tables_set_text(&values, Anum_job_sqlstate, record->sqlstate);
	tables_set_text(&values, Anum_job_message, record->message);
	tables_set(&values, Anum_job_priority, Int32GetDatum(record->priority));
	tables_set_jsonb(&values, Anum_job_request, record->request);
	tables_set(&values, Anum_job_total, Int64GetDatum(record->total));
	values.nulls[Anum_job_total - 1] = record->total < 0;
	tables_set(&values, Anum_job_total_estimated, BoolGetDatum(record->total_estimated));
	tables_set(&values, Anum_job_faults, Int32GetDatum(record->faults));
	tables_set(&values, Anum_job_submitted, TimestampTzGetDatum(record->submitted));
	tables_set_time(&values, Anum_job_started, record->started);
	tables_set_time(&values, Anum_job_finished, record->finished);
	tables_set_time(&values, Anum_job_expires, record->expires);
	tables_set_time(&values, Anum_job_resume_at, record->resume_at);
	tables_set_jsonb(&values, Anum_job_facts, record->facts);
	set_totals(&values, record->totals);
	tables_put("job", &values, tid, is_new);
}

void
job_insert(const JobRecord *record)
{
	ItemPointerData tid;

	put_job(record, &tid, true);
}

void
job_update(JobRecord *record)
{
	put_job(record, &record->tid, false);
	record->xmin = GetCurrentTransactionId();
}

/* NULL: it has none, or, in a row that the library did not write, not all of them. */
static JobTotals *
get_totals(const TablesValues *values)
{
	JobTotals  *totals;

	for (int i = Anum_job_done; i <= Anum_job_shards; i++)
		if (values->nulls[i - 1])
			return NULL;
	totals = palloc(sizeof(JobTotals));
	totals->done = tables_get_int64(values, Anum_job_done);
	totals->failed = tables_get_int64(values, Anum_job_failed);
	totals->gone = tables_get_int64(values, Anum_job_gone);
	totals->expired = tables_get_int64(values, Anum_job_expired);
	totals->cancelled = tables_get_int64(values, Anum_job_cancelled);
	totals->recomputed = tables_get_int64(values, Anum_job_recomputed);
	totals->tokens = tables_get_int64(values, Anum_job_tokens);
	totals->shards = tables_get_int32(values, Anum_job_shards);
	return totals;
}

static JobRecord *
read_job(const TablesValues *values, ItemPointer tid, TransactionId xmin)
{
	JobRecord  *record = palloc0(sizeof(JobRecord));
	char	   *state = tables_get_text(values, Anum_job_state);

	record->job = tables_get_int64(values, Anum_job_job);
	record->origin = tables_get_text(values, Anum_job_origin);
	record->name = tables_get_text(values, Anum_job_name);
	record->owner = DatumGetObjectId(values->values[Anum_job_owner - 1]);
	record->owner_name = tables_get_text(values, Anum_job_owner_name);
	record->model = tables_get_text(values, Anum_job_model);
	record->state = job_state_from_name(state);
	record->sqlstate = tables_get_text(values, Anum_job_sqlstate);
	record->message = tables_get_text(values, Anum_job_message);
	record->priority = tables_get_int32(values, Anum_job_priority);
	record->request = tables_get_jsonb(values, Anum_job_request);
	record->total = values->nulls[Anum_job_total - 1] ? -1 : tables_get_int64(values, Anum_job_total);
	record->total_estimated = tables_get_bool(values, Anum_job_total_estimated);
	record->faults = tables_get_int32(values, Anum_job_faults);
	record->submitted = tables_get_time(values, Anum_job_submitted);
	record->started = tables_get_time(values, Anum_job_started);
	record->finished = tables_get_time(values, Anum_job_finished);
	record->expires = tables_get_time(values, Anum_job_expires);
	record->resume_at = tables_get_time(values, Anum_job_resume_at);
	record->facts = tables_get_jsonb(values, Anum_job_facts);
	record->totals = get_totals(values);
	record->tid = *tid;
	record->xmin = xmin;
	return record;
}

JobRecord *
job_get(int64 job)
{
	TablesScan	scan;
	ScanKeyData key;
	TablesValues values;
	ItemPointerData tid;
	TransactionId xmin;
	JobRecord  *record = NULL;

	tables_key_int64(&key, 1, job);
	tables_begin(&scan, "job", AccessShareLock, &key, 1);
	if (tables_next(&scan, &values, &tid, &xmin))
		record = read_job(&values, &tid, xmin);
	tables_end(&scan);
	return record;
}

/* Those with that key of their time of end, in its order. */
static void
each_by_end(ScanKey key, bool (*each) (JobRecord *record, void *arg), void *arg)
{
	Relation	table = table_open(infer_relation_oid("job"), AccessShareLock);
	Relation	index = index_open(infer_relation_oid("job_finished"), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = systable_beginscan_ordered(table, index, snapshot, 1, key);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer job", ALLOCSET_SMALL_SIZES);
	HeapTuple	tuple;
	bool		more = true;

	while (more && HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		TablesValues values;
		JobRecord  *record;

		heap_deform_tuple(tuple, RelationGetDescr(table), values.values, values.nulls);
		record = read_job(&values, &tuple->t_self, HeapTupleHeaderGetXmin(tuple->t_data));
		MemoryContextSwitchTo(old);
		more = each(record, arg);
		MemoryContextReset(context);
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);
	MemoryContextDelete(context);
}

/* flag: SK_SEARCHNULL or SK_SEARCHNOTNULL. */
static void
init_end_key(ScanKey key, int flag)
{
	ScanKeyEntryInitialize(key, SK_ISNULL | flag, Anum_job_finished, InvalidStrategy, InvalidOid, InvalidOid, InvalidOid,
						   (Datum) 0);
}

void
job_each_unfinished(bool (*each) (JobRecord *record, void *arg), void *arg)
{
	ScanKeyData key;

	init_end_key(&key, SK_SEARCHNULL);
	each_by_end(&key, each, arg);
}

void
job_each_ended(bool (*each) (JobRecord *record, void *arg), void *arg)
{
	ScanKeyData key;

	init_end_key(&key, SK_SEARCHNOTNULL);
	each_by_end(&key, each, arg);
}

void
job_delete(int64 job)
{
	tables_delete_of_job("job_input", job);
	tables_delete_of_job("job_request", job);
	tables_delete_of_job("job_item", job);
	tables_delete_of_job("job_shard", job);
	tables_delete_of_job("job", job);
}

/* ---- infer.job_input ---- */

int64
job_input_next(int64 after)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(after));
	return tables_edge("job_input", "job_input_pkey", &key, 1, 1, ForwardScanDirection);
}

bool
job_input_delete_some(int64 job, int max)
{
	tables_delete_some("job_input", job, &max);
	return max == 0;
}

bool
job_delete_some(int64 job, int max)
{
	tables_delete_some("job_input", job, &max);
	tables_delete_some("job_request", job, &max);
	tables_delete_some("job_item", job, &max);
	return max == 0;
}
