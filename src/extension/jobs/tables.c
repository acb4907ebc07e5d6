/*
 * tables.c
 *	  infer.job, job_shard and job_item as structs.
 *
 * Relations are opened by name in schema infer and scanned by their primary keys, whatever search_path,
 * row security or the caller's privileges on them: the callers have checked what the user may.  Readers see
 * the latest committed rows, whatever the transaction's snapshot, and those of the own transaction.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "../catalog/internal.h"
#include "job.h"

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
	Natts_job = Anum_job_facts
};

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
	Natts_shard = Anum_shard_engines
};

enum								/* columns of infer.job_item */
{
	Anum_item_job = 1,
	Anum_item_shard,
	Anum_item_item,
	Anum_item_key,
	Anum_item_state,
	Anum_item_attempts,
	Anum_item_sqlstate,
	Anum_item_message,
	Anum_item_retryable,
	Anum_item_due,
	Anum_item_updated,
	Natts_item = Anum_item_updated
};

#define ATTRIBUTES_MAX	Natts_shard

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

static const char *const item_state_names[] = {
	[JOB_ITEM_PENDING] = "pending",
	[JOB_ITEM_FAILED] = "failed",
	[JOB_ITEM_EXPIRED] = "expired",
	[JOB_ITEM_CANCELLED] = "cancelled",
};

const char *
job_state_name(JobState state)
{
	return state_names[state];
}

static int
number_of_name(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("\"%s\" is no state of a job", name),
			 errhint("Only infer's own functions may write its tables.")));
}

JobState
job_state_from_name(const char *name)
{
	return number_of_name(state_names, lengthof(state_names), name);
}

/* ---- keys ---- */

ArrayType *
job_key_to_array(const JobKey *key)
{
	Datum	   *texts;

	if (key->count == 0)
		return NULL;
	texts = palloc(sizeof(Datum) * key->count);
	for (int i = 0; i < key->count; i++)
		texts[i] = CStringGetTextDatum(key->texts[i]);
	return construct_array(texts, key->count, TEXTOID, -1, false, TYPALIGN_INT);
}

void
job_key_from_array(ArrayType *array, JobKey *key)
{
	Datum	   *texts;

	*key = (JobKey) {0};
	if (array == NULL)
		return;
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &texts, NULL, &key->count);
	key->texts = palloc(sizeof(char *) * Max(key->count, 1));
	for (int i = 0; i < key->count; i++)
		key->texts[i] = TextDatumGetCString(texts[i]);
}

/* ---- where a job is at home ---- */

Oid
job_relation(const char *name)
{
	Oid			oid = get_relname_relid(name, get_namespace_oid(INFER_SCHEMA, false));

	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation %s.%s does not exist", INFER_SCHEMA, name),
				 errhint("The extension is damaged: make it anew with DROP EXTENSION and CREATE EXTENSION.")));
	return oid;
}

char *
job_origin(void)
{
	return psprintf(UINT64_FORMAT "/%u/%u", GetSystemIdentifier(), MyDatabaseId, job_relation("job"));
}

bool
job_lock(int64 job, bool wait)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, job_relation("job"), (uint32) job, (uint16) (job >> 32));
	return LockAcquire(&tag, ExclusiveLock, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

/* By numbers that no job has: they do not come so far. */
void
job_lock_name(Oid owner, const char *name)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) name, strlen(name), owner);
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, job_relation("job"), (uint32) hash, (uint16) (hash >> 32) | 0x8000);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/* ---- rows as values ---- */

typedef struct Values
{
	Datum		values[ATTRIBUTES_MAX];
	bool		nulls[ATTRIBUTES_MAX];
} Values;

static void
set(Values *values, int attribute, Datum value)
{
	values->values[attribute - 1] = value;
	values->nulls[attribute - 1] = false;
}

static void
set_text(Values *values, int attribute, const char *text)
{
	values->nulls[attribute - 1] = text == NULL;
	if (text != NULL)
		values->values[attribute - 1] = CStringGetTextDatum(text);
}

static void
set_time(Values *values, int attribute, TimestampTz time)
{
	values->nulls[attribute - 1] = time == 0;
	values->values[attribute - 1] = TimestampTzGetDatum(time);
}

static void
set_jsonb(Values *values, int attribute, const Jsonb *jsonb)
{
	values->nulls[attribute - 1] = jsonb == NULL;
	values->values[attribute - 1] = JsonbPGetDatum(jsonb);
}

static void
set_key(Values *values, int attribute, const JobKey *key)
{
	values->nulls[attribute - 1] = key->count == 0;
	values->values[attribute - 1] = PointerGetDatum(job_key_to_array(key));
}

static void
set_digest(Values *values, int attribute, const uint8 *digest)
{
	set(values, attribute, PointerGetDatum(infer_make_bytea(digest, JOB_DIGEST_BYTES)));
}

static char *
get_text(const Values *values, int attribute)
{
	return values->nulls[attribute - 1] ? NULL : TextDatumGetCString(values->values[attribute - 1]);
}

static TimestampTz
get_time(const Values *values, int attribute)
{
	return values->nulls[attribute - 1] ? 0 : DatumGetTimestampTz(values->values[attribute - 1]);
}

static int64
get_int64(const Values *values, int attribute)
{
	return DatumGetInt64(values->values[attribute - 1]);
}

static int32
get_int32(const Values *values, int attribute)
{
	return DatumGetInt32(values->values[attribute - 1]);
}

static bool
get_bool(const Values *values, int attribute)
{
	return DatumGetBool(values->values[attribute - 1]);
}

static double
get_double(const Values *values, int attribute)
{
	return DatumGetFloat8(values->values[attribute - 1]);
}

static Jsonb *
get_jsonb(const Values *values, int attribute)
{
	return values->nulls[attribute - 1] ? NULL : DatumGetJsonbPCopy(values->values[attribute - 1]);
}

static void
get_key(const Values *values, int attribute, JobKey *key)
{
	job_key_from_array(values->nulls[attribute - 1] ? NULL : DatumGetArrayTypeP(values->values[attribute - 1]), key);
}

static void
get_digest(const Values *values, int attribute, uint8 *digest)
{
	bytea	   *bytes = DatumGetByteaPP(values->values[attribute - 1]);

	if (VARSIZE_ANY_EXHDR(bytes) != JOB_DIGEST_BYTES)
		elog(ERROR, "malformed digest of a job's shard");
	memcpy(digest, VARDATA_ANY(bytes), JOB_DIGEST_BYTES);
}

/* ---- scans ---- */

typedef struct JobScan
{
	Relation	table;
	Snapshot	snapshot;
	SysScanDesc scan;
	LOCKMODE	lock;
} JobScan;

/* Of the rows with these first columns of an index. */
static void
begin_by(JobScan *scan, const char *table, const char *index, LOCKMODE lock, ScanKeyData *keys, int keys_count)
{
	scan->table = table_open(job_relation(table), lock);
	scan->lock = lock;
	scan->snapshot = infer_latest_snapshot();
	scan->scan = systable_beginscan(scan->table, job_relation(index), true, scan->snapshot, keys_count, keys);
}

/* Of the primary key. */
static void
begin(JobScan *scan, const char *table, LOCKMODE lock, ScanKeyData *keys, int keys_count)
{
	begin_by(scan, table, psprintf("%s_pkey", table), lock, keys, keys_count);
}

static bool
next(JobScan *scan, Values *values, ItemPointer tid, TransactionId *xmin)
{
	HeapTuple	tuple = systable_getnext(scan->scan);

	if (!HeapTupleIsValid(tuple))
		return false;
	heap_deform_tuple(tuple, RelationGetDescr(scan->table), values->values, values->nulls);
	*tid = tuple->t_self;
	if (xmin != NULL)
		*xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	return true;
}

static void
end(JobScan *scan)
{
	systable_endscan(scan->scan);
	UnregisterSnapshot(scan->snapshot);
	table_close(scan->table, scan->lock == AccessShareLock ? AccessShareLock : NoLock);
}

static void
key_int64(ScanKeyData *key, int attribute, int64 value)
{
	ScanKeyInit(key, attribute, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(value));
}

static void
key_int32(ScanKeyData *key, int attribute, int32 value)
{
	ScanKeyInit(key, attribute, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(value));
}

/* ---- writing ---- */

/* tid: of the row that is replaced, NULL: a new one; becomes that of the new row. */
static void
put(const char *name, Values *values, ItemPointer tid, bool is_new)
{
	Relation	table = table_open(job_relation(name), RowExclusiveLock);
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(table), values->values, values->nulls);

	if (is_new)
		CatalogTupleInsert(table, tuple);
	else
		CatalogTupleUpdate(table, tid, tuple);
	*tid = tuple->t_self;
	table_close(table, NoLock);
	CommandCounterIncrement();
}

static void
delete_at(const char *name, ItemPointer tid)
{
	Relation	table = table_open(job_relation(name), RowExclusiveLock);

	CatalogTupleDelete(table, tid);
	table_close(table, NoLock);
	CommandCounterIncrement();
}

static void
delete_of_job(const char *name, int64 job)
{
	JobScan		scan;
	ScanKeyData key;
	Values		values;
	ItemPointerData tid;

	key_int64(&key, 1, job);
	begin(&scan, name, RowExclusiveLock, &key, 1);
	while (next(&scan, &values, &tid, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		CatalogTupleDelete(scan.table, &tid);
	}
	end(&scan);
	CommandCounterIncrement();
}

/* ---- infer.job ---- */

/* Nothing is there of it: rows that came with a dump, or that somebody wrote who may restore one. */
int64
job_next_number(void)
{
	int64		job = nextval_internal(job_relation("job_id"), false);

	delete_of_job("job_input", job);
	delete_of_job("job_request", job);
	delete_of_job("job_item", job);
	delete_of_job("job_shard", job);
	return job;
}

static void
put_job(const JobRecord *record, ItemPointer tid, bool is_new)
{
	Values		values = {0};

	set(&values, Anum_job_job, Int64GetDatum(record->job));
	set_text(&values, Anum_job_origin, record->origin);
	set_text(&values, Anum_job_name, record->name);
	set(&values, Anum_job_owner, ObjectIdGetDatum(record->owner));
	set_text(&values, Anum_job_owner_name, record->owner_name);
	set_text(&values, Anum_job_model, record->model);
	set_text(&values, Anum_job_state, job_state_name(record->state));
	set_text(&values, Anum_job_sqlstate, record->sqlstate);
	set_text(&values, Anum_job_message, record->message);
	set(&values, Anum_job_priority, Int32GetDatum(record->priority));
	set_jsonb(&values, Anum_job_request, record->request);
	set(&values, Anum_job_total, Int64GetDatum(record->total));
	values.nulls[Anum_job_total - 1] = record->total < 0;
	set(&values, Anum_job_total_estimated, BoolGetDatum(record->total_estimated));
	set(&values, Anum_job_faults, Int32GetDatum(record->faults));
	set(&values, Anum_job_submitted, TimestampTzGetDatum(record->submitted));
	set_time(&values, Anum_job_started, record->started);
	set_time(&values, Anum_job_finished, record->finished);
	set_time(&values, Anum_job_expires, record->expires);
	set_time(&values, Anum_job_resume_at, record->resume_at);
	set_jsonb(&values, Anum_job_facts, record->facts);
	put("job", &values, tid, is_new);
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

static JobRecord *
read_job(const Values *values, ItemPointer tid, TransactionId xmin)
{
	JobRecord  *record = palloc0(sizeof(JobRecord));
	char	   *state = get_text(values, Anum_job_state);

	record->job = get_int64(values, Anum_job_job);
	record->origin = get_text(values, Anum_job_origin);
	record->name = get_text(values, Anum_job_name);
	record->owner = DatumGetObjectId(values->values[Anum_job_owner - 1]);
	record->owner_name = get_text(values, Anum_job_owner_name);
	record->model = get_text(values, Anum_job_model);
	record->state = job_state_from_name(state);
	record->sqlstate = get_text(values, Anum_job_sqlstate);
	record->message = get_text(values, Anum_job_message);
	record->priority = get_int32(values, Anum_job_priority);
	record->request = get_jsonb(values, Anum_job_request);
	record->total = values->nulls[Anum_job_total - 1] ? -1 : get_int64(values, Anum_job_total);
	record->total_estimated = get_bool(values, Anum_job_total_estimated);
	record->faults = get_int32(values, Anum_job_faults);
	record->submitted = get_time(values, Anum_job_submitted);
	record->started = get_time(values, Anum_job_started);
	record->finished = get_time(values, Anum_job_finished);
	record->expires = get_time(values, Anum_job_expires);
	record->resume_at = get_time(values, Anum_job_resume_at);
	record->facts = get_jsonb(values, Anum_job_facts);
	record->tid = *tid;
	record->xmin = xmin;
	return record;
}

JobRecord *
job_get(int64 job)
{
	JobScan		scan;
	ScanKeyData key;
	Values		values;
	ItemPointerData tid;
	TransactionId xmin;
	JobRecord  *record = NULL;

	key_int64(&key, 1, job);
	begin(&scan, "job", AccessShareLock, &key, 1);
	if (next(&scan, &values, &tid, &xmin))
		record = read_job(&values, &tid, xmin);
	end(&scan);
	return record;
}

/* Those with that key of their time of end, in its order. */
static void
each_by_end(ScanKey key, bool (*each) (JobRecord *record, void *arg), void *arg)
{
	Relation	table = table_open(job_relation("job"), AccessShareLock);
	Relation	index = index_open(job_relation("job_finished"), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = systable_beginscan_ordered(table, index, snapshot, 1, key);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer job", ALLOCSET_SMALL_SIZES);
	HeapTuple	tuple;
	bool		more = true;

	while (more && HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		MemoryContext old = MemoryContextSwitchTo(context);
		Values		values;
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
job_input_delete(int64 job)
{
	delete_of_job("job_input", job);
}

void
job_delete(int64 job)
{
	delete_of_job("job_input", job);
	delete_of_job("job_request", job);
	delete_of_job("job_item", job);
	delete_of_job("job_shard", job);
	delete_of_job("job", job);
}

/* ---- infer.job_input ---- */

int64
job_input_next(int64 after)
{
	Relation	table = table_open(job_relation("job_input"), AccessShareLock);
	Relation	index = index_open(job_relation("job_input_pkey"), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int64		job = 0;

	ScanKeyInit(&key, 1, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(after));
	scan = systable_beginscan_ordered(table, index, snapshot, 1, &key);
	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	if (HeapTupleIsValid(tuple))
	{
		bool		null;

		job = DatumGetInt64(heap_getattr(tuple, 1, RelationGetDescr(table), &null));
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);
	return job;
}

/* Up to *max rows of a job, which becomes what is left of it. */
static void
delete_some(const char *name, int64 job, int *max)
{
	JobScan		scan;
	ScanKeyData key;
	Values		values;
	ItemPointerData tid;

	key_int64(&key, 1, job);
	begin(&scan, name, RowExclusiveLock, &key, 1);
	while (*max > 0 && next(&scan, &values, &tid, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		CatalogTupleDelete(scan.table, &tid);
		(*max)--;
	}
	end(&scan);
	CommandCounterIncrement();
}

bool
job_input_delete_some(int64 job, int max)
{
	delete_some("job_input", job, &max);
	return max == 0;
}

bool
job_delete_some(int64 job, int max)
{
	delete_some("job_input", job, &max);
	delete_some("job_request", job, &max);
	delete_some("job_item", job, &max);
	return max == 0;
}

/* ---- infer.job_shard ---- */

static void
put_shard(JobShard *shard, bool is_new)
{
	Values		values = {0};

	set(&values, Anum_shard_job, Int64GetDatum(shard->job));
	set(&values, Anum_shard_shard, Int32GetDatum(shard->shard));
	set_text(&values, Anum_shard_state, job_state_name(shard->completed ? JOB_COMPLETED : JOB_IN_PROGRESS));
	set_key(&values, Anum_shard_low, &shard->low);
	set_key(&values, Anum_shard_high, &shard->high);
	set_key(&values, Anum_shard_checkpoint, &shard->checkpoint);
	set(&values, Anum_shard_read_to_end, BoolGetDatum(shard->read_to_end));
	set(&values, Anum_shard_done, Int64GetDatum(shard->done));
	set(&values, Anum_shard_failed, Int64GetDatum(shard->failed));
	set(&values, Anum_shard_gone, Int64GetDatum(shard->gone));
	set(&values, Anum_shard_expired, Int64GetDatum(shard->expired));
	set(&values, Anum_shard_cancelled, Int64GetDatum(shard->cancelled));
	set(&values, Anum_shard_recomputed, Int64GetDatum(shard->recomputed));
	set(&values, Anum_shard_tokens, Int64GetDatum(shard->tokens));
	set(&values, Anum_shard_chunks, Int64GetDatum(shard->chunks));
	set(&values, Anum_shard_rows_per_second, Float8GetDatum(shard->rows_per_second));
	values.nulls[Anum_shard_rows_per_second - 1] = shard->rows_per_second < 0;
	set(&values, Anum_shard_read_time, Float8GetDatum(shard->read_time));
	set(&values, Anum_shard_prepare_time, Float8GetDatum(shard->prepare_time));
	set(&values, Anum_shard_queue_time, Float8GetDatum(shard->queue_time));
	set(&values, Anum_shard_compute_time, Float8GetDatum(shard->compute_time));
	set(&values, Anum_shard_write_time, Float8GetDatum(shard->write_time));
	set_digest(&values, Anum_shard_input_digest, shard->input_digest);
	set_digest(&values, Anum_shard_output_digest, shard->output_digest);
	set(&values, Anum_shard_starts, Int32GetDatum(shard->starts));
	set_time(&values, Anum_shard_started, shard->started);
	set(&values, Anum_shard_updated, TimestampTzGetDatum(shard->updated));
	set_jsonb(&values, Anum_shard_engines, shard->engines);
	put("job_shard", &values, &shard->tid, is_new);
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
read_shard(const Values *values, ItemPointer tid)
{
	JobShard   *shard = palloc0(sizeof(JobShard));

	shard->job = get_int64(values, Anum_shard_job);
	shard->shard = get_int32(values, Anum_shard_shard);
	shard->completed = job_state_from_name(get_text(values, Anum_shard_state)) == JOB_COMPLETED;
	get_key(values, Anum_shard_low, &shard->low);
	get_key(values, Anum_shard_high, &shard->high);
	get_key(values, Anum_shard_checkpoint, &shard->checkpoint);
	shard->read_to_end = get_bool(values, Anum_shard_read_to_end);
	shard->done = get_int64(values, Anum_shard_done);
	shard->failed = get_int64(values, Anum_shard_failed);
	shard->gone = get_int64(values, Anum_shard_gone);
	shard->expired = get_int64(values, Anum_shard_expired);
	shard->cancelled = get_int64(values, Anum_shard_cancelled);
	shard->recomputed = get_int64(values, Anum_shard_recomputed);
	shard->tokens = get_int64(values, Anum_shard_tokens);
	shard->chunks = get_int64(values, Anum_shard_chunks);
	shard->rows_per_second = values->nulls[Anum_shard_rows_per_second - 1] ? -1 :
		get_double(values, Anum_shard_rows_per_second);
	shard->read_time = get_double(values, Anum_shard_read_time);
	shard->prepare_time = get_double(values, Anum_shard_prepare_time);
	shard->queue_time = get_double(values, Anum_shard_queue_time);
	shard->compute_time = get_double(values, Anum_shard_compute_time);
	shard->write_time = get_double(values, Anum_shard_write_time);
	get_digest(values, Anum_shard_input_digest, shard->input_digest);
	get_digest(values, Anum_shard_output_digest, shard->output_digest);
	shard->starts = get_int32(values, Anum_shard_starts);
	shard->started = get_time(values, Anum_shard_started);
	shard->updated = get_time(values, Anum_shard_updated);
	shard->engines = get_jsonb(values, Anum_shard_engines);
	shard->tid = *tid;
	return shard;
}

JobShard *
job_shard_get(int64 job, int32 number)
{
	JobScan		scan;
	ScanKeyData keys[2];
	Values		values;
	ItemPointerData tid;
	JobShard   *shard = NULL;

	key_int64(&keys[0], Anum_shard_job, job);
	key_int32(&keys[1], Anum_shard_shard, number);
	begin(&scan, "job_shard", AccessShareLock, keys, 2);
	if (next(&scan, &values, &tid, NULL))
		shard = read_shard(&values, &tid);
	end(&scan);
	return shard;
}

JobShard **
job_shards(int64 job, int *count)
{
	JobScan		scan;
	ScanKeyData key;
	Values		values;
	ItemPointerData tid;
	int			space = 8;
	JobShard  **shards = palloc(sizeof(JobShard *) * space);

	*count = 0;
	key_int64(&key, Anum_shard_job, job);
	begin(&scan, "job_shard", AccessShareLock, &key, 1);
	while (next(&scan, &values, &tid, NULL))
	{
		if (*count == space)
			shards = repalloc(shards, sizeof(JobShard *) * (space *= 2));
		shards[(*count)++] = read_shard(&values, &tid);
	}
	end(&scan);
	return shards;
}

/* Waits for who writes one just now, and has the version that he left. */
JobShard **
job_shards_locked(int64 job, int *count)
{
	JobScan		scan;
	ScanKeyData key;
	Values		values;
	ItemPointerData tid;
	TupleTableSlot *slot;

	key_int64(&key, Anum_shard_job, job);
	begin(&scan, "job_shard", RowExclusiveLock, &key, 1);
	slot = table_slot_create(scan.table, NULL);
	while (next(&scan, &values, &tid, NULL))
	{
		TM_FailureData failure;

		(void) table_tuple_lock(scan.table, &tid, scan.snapshot, slot, GetCurrentCommandId(true), LockTupleExclusive,
								LockWaitBlock, TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure);
		ExecClearTuple(slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	end(&scan);
	return job_shards(job, count);
}

/* ---- infer.job_item ---- */

static void
put_item(JobItem *item, bool is_new)
{
	Values		values = {0};

	set(&values, Anum_item_job, Int64GetDatum(item->job));
	set(&values, Anum_item_shard, Int32GetDatum(item->shard));
	set(&values, Anum_item_item, Int64GetDatum(item->item));
	set_key(&values, Anum_item_key, &item->key);
	set_text(&values, Anum_item_state, item_state_names[item->state]);
	set(&values, Anum_item_attempts, Int32GetDatum(item->attempts));
	set_text(&values, Anum_item_sqlstate, item->sqlstate);
	set_text(&values, Anum_item_message, item->message);
	set(&values, Anum_item_retryable, BoolGetDatum(item->retryable));
	set_time(&values, Anum_item_due, item->due);
	set(&values, Anum_item_updated, TimestampTzGetDatum(item->updated));
	put("job_item", &values, &item->tid, is_new);
}

static void
read_item(const Values *values, ItemPointer tid, JobItem *item)
{
	item->job = get_int64(values, Anum_item_job);
	item->shard = get_int32(values, Anum_item_shard);
	item->item = get_int64(values, Anum_item_item);
	get_key(values, Anum_item_key, &item->key);
	item->state = number_of_name(item_state_names, lengthof(item_state_names), get_text(values, Anum_item_state));
	item->attempts = get_int32(values, Anum_item_attempts);
	item->sqlstate = get_text(values, Anum_item_sqlstate);
	item->message = get_text(values, Anum_item_message);
	item->retryable = get_bool(values, Anum_item_retryable);
	item->due = get_time(values, Anum_item_due);
	item->updated = get_time(values, Anum_item_updated);
	item->tid = *tid;
}

/* The greatest number of a shard's items, 0: there are none. */
static int64
last_item(int64 job, int32 shard)
{
	Relation	table = table_open(job_relation("job_item"), AccessShareLock);
	Relation	index = index_open(job_relation("job_item_pkey"), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	int64		last = 0;

	key_int64(&keys[0], Anum_item_job, job);
	key_int32(&keys[1], Anum_item_shard, shard);
	scan = systable_beginscan_ordered(table, index, snapshot, 2, keys);
	tuple = systable_getnext_ordered(scan, BackwardScanDirection);
	if (HeapTupleIsValid(tuple))
	{
		bool		null;

		last = DatumGetInt64(heap_getattr(tuple, Anum_item_item, RelationGetDescr(table), &null));
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);
	return last;
}

void
job_item_insert(JobItem *item)
{
	item->item = last_item(item->job, item->shard) + 1;
	put_item(item, true);
}

void
job_item_update(JobItem *item)
{
	put_item(item, false);
}

void
job_item_delete(JobItem *item)
{
	delete_at("job_item", &item->tid);
}

/*
 * Scans a job's items in that state, or those of one of its shards above the item after, by shard and number: many
 * more may be in another state.
 */
static void
begin_items(JobScan *scan, int64 job, int32 shard, JobItemState state, int64 after)
{
	ScanKeyData keys[4];

	key_int64(&keys[0], Anum_item_job, job);
	ScanKeyEntryInitialize(&keys[1], 0, Anum_item_state, BTEqualStrategyNumber, InvalidOid, DEFAULT_COLLATION_OID,
						   F_TEXTEQ, CStringGetTextDatum(item_state_names[state]));
	key_int32(&keys[2], Anum_item_shard, shard);
	ScanKeyInit(&keys[3], Anum_item_item, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(after));
	begin_by(scan, "job_item", "job_item_state", AccessShareLock, keys, shard > 0 ? 4 : 2);
}

JobItem *
job_items(int64 job, int32 shard, JobItemState state, int64 after, int max, TimestampTz due, int *count,
		  TimestampTz *next_due)
{
	JobScan		scan;
	Values		values;
	ItemPointerData tid;
	JobItem    *items = palloc(sizeof(JobItem) * Max(max, 1));

	*count = 0;
	*next_due = 0;
	begin_items(&scan, job, shard, state, after);
	while (next(&scan, &values, &tid, NULL))
	{
		JobItem    *item = &items[*count];

		read_item(&values, &tid, item);
		if (state == JOB_ITEM_PENDING && due != 0 && item->due > due)
		{
			if (*next_due == 0 || item->due < *next_due)
				*next_due = item->due;
		}
		else if (++*count >= max)
			break;
	}
	end(&scan);
	return items;
}

int64
job_items_count(int64 job, int32 shard, JobItemState state)
{
	JobScan		scan;
	Values		values;
	ItemPointerData tid;
	int64		count = 0;

	begin_items(&scan, job, shard, state, 0);
	while (next(&scan, &values, &tid, NULL))
		count++;
	end(&scan);
	return count;
}
