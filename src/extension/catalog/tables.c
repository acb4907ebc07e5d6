/*
 * tables.c
 *	  The catalogue's tables: found, scanned and written without SPI.
 *
 * Relations are opened by oid and scanned by their primary keys, whatever search_path, row
 * security or the caller's privileges on them: the callers have checked what the user may.
 * internal.h has the locks.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../compat.h"
#include "internal.h"

static const char *const table_names[] = {
	[INFER_TABLE_COUNTER] = "model_counter",
	[INFER_TABLE_VERSION] = "model_version",
	[INFER_TABLE_FILE] = "model_file",
	[INFER_TABLE_UPLOAD] = "model_upload",
	[INFER_TABLE_UPLOAD_PART] = "model_upload_part",
};

Oid
infer_relation_oid(const char *name)
{
	Oid			oid = get_relname_relid(name, get_namespace_oid(INFER_SCHEMA, false));

	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation %s.%s does not exist", INFER_SCHEMA, name),
				 errhint("The extension is damaged: make it anew with DROP EXTENSION and CREATE EXTENSION.")));
	return oid;
}

Oid
infer_table_oid(InferTable table)
{
	return infer_relation_oid(table_names[table]);
}

Oid
infer_table_key_oid(InferTable table)
{
	return infer_relation_oid(psprintf("%s_pkey", table_names[table]));
}

/* ---- rows ---- */

bytea *
infer_make_bytea(const void *data, Size length)
{
	bytea	   *value = palloc(VARHDRSZ + length);

	SET_VARSIZE(value, VARHDRSZ + length);
	memcpy(VARDATA(value), data, length);
	return value;
}

Snapshot
infer_latest_snapshot(void)
{
	return RegisterSnapshot(GetLatestSnapshot());
}

typedef struct IdScan				/* over the latest rows of a table whose first column is an id */
{
	Relation	table;
	TupleDesc	desc;
	LOCKMODE	lock;
	Snapshot	snapshot;
	SysScanDesc scan;
	ScanKeyData key;
} IdScan;

static void
begin_scan(IdScan *scan, InferTable which, const pg_uuid_t *id, LOCKMODE lock)
{
	scan->table = table_open(infer_table_oid(which), lock);
	scan->desc = RelationGetDescr(scan->table);
	scan->lock = lock;
	scan->snapshot = infer_latest_snapshot();
	ScanKeyInit(&scan->key, 1, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(id));
	scan->scan = systable_beginscan(scan->table, infer_table_key_oid(which), true, scan->snapshot, 1, &scan->key);
}

/* changed: rows of infer.model_version were.  A writer's lock stays until the transaction's end. */
static void
end_scan(IdScan *scan, bool changed)
{
	systable_endscan(scan->scan);
	UnregisterSnapshot(scan->snapshot);
	if (changed)
		infer_versions_changed(scan->table);
	table_close(scan->table, scan->lock == AccessShareLock ? AccessShareLock : NoLock);
}

int32
infer_counter_next(const pg_uuid_t *id)
{
	IdScan		scan;
	HeapTuple	tuple;
	HeapTuple	next;
	Datum		values[Natts_counter];
	bool		nulls[Natts_counter] = {false};
	int32		version = 1;

	begin_scan(&scan, INFER_TABLE_COUNTER, id, RowExclusiveLock);
	tuple = systable_getnext(scan.scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;

		version = DatumGetInt32(heap_getattr(tuple, Anum_counter_last_version, scan.desc, &isnull));
		if (version == PG_INT32_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("the model has no version numbers left"),
					 errhint("Create a model of another name.")));
		version++;
	}
	values[Anum_counter_model_id - 1] = UUIDPGetDatum(id);
	values[Anum_counter_last_version - 1] = Int32GetDatum(version);
	next = heap_form_tuple(scan.desc, values, nulls);
	if (HeapTupleIsValid(tuple))
		CatalogTupleUpdate(scan.table, &tuple->t_self, next);
	else
		CatalogTupleInsert(scan.table, next);
	end_scan(&scan, false);
	return version;
}

void
infer_versions_changed(Relation table)
{
	CacheInvalidateRelcacheByRelid(RelationGetRelid(table));
	CommandCounterIncrement();
}

void
infer_version_insert(Datum *values, bool *nulls)
{
	Relation	table = table_open(infer_table_oid(INFER_TABLE_VERSION), RowExclusiveLock);

	CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values, nulls));
	infer_versions_changed(table);
	table_close(table, NoLock);
}

static int32
tuple_version(HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;

	return DatumGetInt32(heap_getattr(tuple, Anum_version_version, desc, &isnull));
}

static bool
tuple_active(HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;

	return DatumGetBool(heap_getattr(tuple, Anum_version_active, desc, &isnull));
}

int
infer_version_state(const pg_uuid_t *id, int32 version)
{
	IdScan		scan;
	HeapTuple	tuple;
	int			state = -1;

	begin_scan(&scan, INFER_TABLE_VERSION, id, AccessShareLock);
	while (state < 0 && HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
		if (tuple_version(tuple, scan.desc) == version)
			state = tuple_active(tuple, scan.desc) ? 1 : 0;
	end_scan(&scan, false);
	return state;
}

int32
infer_version_active(const pg_uuid_t *id)
{
	IdScan		scan;
	HeapTuple	tuple;
	int32		version = 0;

	begin_scan(&scan, INFER_TABLE_VERSION, id, AccessShareLock);
	while (version == 0 && HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
		if (tuple_active(tuple, scan.desc))
			version = tuple_version(tuple, scan.desc);
	end_scan(&scan, false);
	return version;
}

bool
infer_version_any(const pg_uuid_t *id)
{
	IdScan		scan;
	bool		any;

	begin_scan(&scan, INFER_TABLE_VERSION, id, AccessShareLock);
	any = HeapTupleIsValid(systable_getnext(scan.scan));
	end_scan(&scan, false);
	return any;
}

bool
infer_version_activate(const pg_uuid_t *id, int32 version)
{
	IdScan		scan;
	HeapTuple	tuple;
	bool		found = false;

	begin_scan(&scan, INFER_TABLE_VERSION, id, RowExclusiveLock);
	while (HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
	{
		bool		chosen = tuple_version(tuple, scan.desc) == version;
		Datum		values[Natts_version];
		bool		nulls[Natts_version];
		bool		replace[Natts_version] = {false};

		found |= chosen;
		if (tuple_active(tuple, scan.desc) == chosen)
			continue;
		values[Anum_version_active - 1] = BoolGetDatum(chosen);
		nulls[Anum_version_active - 1] = false;
		replace[Anum_version_active - 1] = true;
		CatalogTupleUpdate(scan.table, &tuple->t_self, heap_modify_tuple(tuple, scan.desc, values, nulls, replace));
	}
	end_scan(&scan, true);
	return found;
}

void
infer_version_delete(const pg_uuid_t *id, int32 version)
{
	IdScan		scan;
	HeapTuple	tuple;

	begin_scan(&scan, INFER_TABLE_VERSION, id, RowExclusiveLock);
	while (HeapTupleIsValid(tuple = systable_getnext(scan.scan)))
		if (tuple_version(tuple, scan.desc) == version)
			CatalogTupleDelete(scan.table, &tuple->t_self);
	end_scan(&scan, true);
}
