/*
 * tables.c
 *	  Rows of our own tables as values; where jobs are at home, and their locks.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "../../catalog/internal.h"
#include "tables.h"

/* ---- where a job is at home ---- */

char *
job_origin(void)
{
	return psprintf(UINT64_FORMAT "/%u/%u", GetSystemIdentifier(), MyDatabaseId, infer_relation_oid("job"));
}

bool
tables_lock(const char *table, int64 number, bool wait)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, infer_relation_oid(table), (uint32) number, (uint16) (number >> 32));
	return LockAcquire(&tag, ExclusiveLock, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

bool
job_lock(int64 job, bool wait)
{
	return tables_lock("job", job, wait);
}

/* By numbers that no job has: they do not come so far. */
void
job_lock_name(Oid owner, const char *name)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) name, strlen(name), owner);

	(void) tables_lock("job", (int64) (hash | UINT64CONST(0x800000000000)), true);
}

/* ---- keys ---- */

/* NULL: it is none. */
static ArrayType *
key_to_array(const JobKey *key)
{
	Datum	   *texts;

	if (key->count == 0)
		return NULL;
	texts = palloc(sizeof(Datum) * key->count);
	for (int i = 0; i < key->count; i++)
		texts[i] = CStringGetTextDatum(key->texts[i]);
	return construct_array(texts, key->count, TEXTOID, -1, false, TYPALIGN_INT);
}

static void
key_from_array(ArrayType *array, JobKey *key)
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

/* ---- rows as values ---- */

int
tables_number_of_name(const char *const *names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("\"%s\" is no state of a job", name),
			 errhint("Only infer's own functions may write its tables.")));
}

void
tables_set(TablesValues *values, int attribute, Datum value)
{
	values->values[attribute - 1] = value;
	values->nulls[attribute - 1] = false;
}

void
tables_set_text(TablesValues *values, int attribute, const char *text)
{
	values->nulls[attribute - 1] = text == NULL;
	if (text != NULL)
		values->values[attribute - 1] = CStringGetTextDatum(text);
}

void
tables_set_time(TablesValues *values, int attribute, TimestampTz time)
{
	values->nulls[attribute - 1] = time == 0;
	values->values[attribute - 1] = TimestampTzGetDatum(time);
}

void
tables_set_jsonb(TablesValues *values, int attribute, const Jsonb *jsonb)
{
	values->nulls[attribute - 1] = jsonb == NULL;
	values->values[attribute - 1] = JsonbPGetDatum(jsonb);
}

void
tables_set_key(TablesValues *values, int attribute, const JobKey *key)
{
	values->nulls[attribute - 1] = key->count == 0;
	values->values[attribute - 1] = PointerGetDatum(key_to_array(key));
}

void
tables_set_digest(TablesValues *values, int attribute, const uint8 *digest)
{
	tables_set(values, attribute, PointerGetDatum(infer_make_bytea(digest, JOB_DIGEST_BYTES)));
}

char *
tables_get_text(const TablesValues *values, int attribute)
{
	return values->nulls[attribute - 1] ? NULL : TextDatumGetCString(values->values[attribute - 1]);
}

TimestampTz
tables_get_time(const TablesValues *values, int attribute)
{
	return values->nulls[attribute - 1] ? 0 : DatumGetTimestampTz(values->values[attribute - 1]);
}

int64
tables_get_int64(const TablesValues *values, int attribute)
{
	return DatumGetInt64(values->values[attribute - 1]);
}

int32
tables_get_int32(const TablesValues *values, int attribute)
{
	return DatumGetInt32(values->values[attribute - 1]);
}

bool
tables_get_bool(const TablesValues *values, int attribute)
{
	return DatumGetBool(values->values[attribute - 1]);
}

double
tables_get_double(const TablesValues *values, int attribute)
{
	return DatumGetFloat8(values->values[attribute - 1]);
}

Jsonb *
tables_get_jsonb(const TablesValues *values, int attribute)
{
	return values->nulls[attribute - 1] ? NULL : DatumGetJsonbPCopy(values->values[attribute - 1]);
}

void
tables_get_key(const TablesValues *values, int attribute, JobKey *key)
{
	key_from_array(values->nulls[attribute - 1] ? NULL : DatumGetArrayTypeP(values->values[attribute - 1]), key);
}

void
tables_get_digest(const TablesValues *values, int attribute, uint8 *digest)
{
	bytea	   *bytes = DatumGetByteaPP(values->values[attribute - 1]);

	if (VARSIZE_ANY_EXHDR(bytes) != JOB_DIGEST_BYTES)
		elog(ERROR, "malformed digest of a job's shard");
	memcpy(digest, VARDATA_ANY(bytes), JOB_DIGEST_BYTES);
}

/* ---- scans ---- */

/* Of the rows with these first columns of an index. */
void
tables_begin_by(TablesScan *scan, const char *table, const char *index, LOCKMODE lock, ScanKeyData *keys, int keys_count)
{
	scan->table = table_open(infer_relation_oid(table), lock);
	scan->lock = lock;
	scan->snapshot = infer_latest_snapshot();
	scan->scan = systable_beginscan(scan->table, infer_relation_oid(index), true, scan->snapshot, keys_count, keys);
}

/* Of the primary key. */
void
tables_begin(TablesScan *scan, const char *table, LOCKMODE lock, ScanKeyData *keys, int keys_count)
{
	tables_begin_by(scan, table, psprintf("%s_pkey", table), lock, keys, keys_count);
}

bool
tables_next(TablesScan *scan, TablesValues *values, ItemPointer tid, TransactionId *xmin)
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

void
tables_end(TablesScan *scan)
{
	systable_endscan(scan->scan);
	UnregisterSnapshot(scan->snapshot);
	table_close(scan->table, scan->lock == AccessShareLock ? AccessShareLock : NoLock);
}

void
tables_key_int64(ScanKeyData *key, int attribute, int64 value)
{
	ScanKeyInit(key, attribute, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(value));
}

void
tables_key_int32(ScanKeyData *key, int attribute, int32 value)
{
	ScanKeyInit(key, attribute, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(value));
}

/* ---- edges ---- */

int64
tables_edge(const char *name, const char *index_name, ScanKeyData *keys, int keys_count, int attribute,
			ScanDirection direction)
{
	Relation	table = table_open(infer_relation_oid(name), AccessShareLock);
	Relation	index = index_open(infer_relation_oid(index_name), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = systable_beginscan_ordered(table, index, snapshot, keys_count, keys);
	HeapTuple	tuple = systable_getnext_ordered(scan, direction);
	int64		value = 0;
	bool		null;

	if (HeapTupleIsValid(tuple))
		value = DatumGetInt64(heap_getattr(tuple, attribute, RelationGetDescr(table), &null));
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);
	return value;
}

/* ---- writing ---- */

/* tid: of the row that is replaced, NULL: a new one; becomes that of the new row. */
void
tables_put(const char *name, TablesValues *values, ItemPointer tid, bool is_new)
{
	Relation	table = table_open(infer_relation_oid(name), RowExclusiveLock);
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(table), values->values, values->nulls);

	if (is_new)
		CatalogTupleInsert(table, tuple);
	else
		CatalogTupleUpdate(table, tid, tuple);
	*tid = tuple->t_self;
	table_close(table, NoLock);
	CommandCounterIncrement();
}

void
tables_delete_at(const char *name, ItemPointer tid)
{
	Relation	table = table_open(infer_relation_oid(name), RowExclusiveLock);

	CatalogTupleDelete(table, tid);
	table_close(table, NoLock);
	CommandCounterIncrement();
}

void
tables_delete_of_job(const char *name, int64 job)
{
	TablesScan	scan;
	ScanKeyData key;
	TablesValues values;
	ItemPointerData tid;

	tables_key_int64(&key, 1, job);
	tables_begin(&scan, name, RowExclusiveLock, &key, 1);
	while (tables_next(&scan, &values, &tid, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		CatalogTupleDelete(scan.table, &tid);
	}
	tables_end(&scan);
	CommandCounterIncrement();
}

/* Up to *max rows of a job, which becomes what is left of it. */
void
tables_delete_some(const char *name, int64 job, int *max)
{
	TablesScan	scan;
	ScanKeyData key;
	TablesValues values;
	ItemPointerData tid;

	tables_key_int64(&key, 1, job);
	tables_begin(&scan, name, RowExclusiveLock, &key, 1);
	while (*max > 0 && tables_next(&scan, &values, &tid, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		CatalogTupleDelete(scan.table, &tid);
		(*max)--;
	}
	tables_end(&scan);
	CommandCounterIncrement();
}
