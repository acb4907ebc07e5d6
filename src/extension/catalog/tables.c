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

static Oid
relation_oid(const char *name)
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
	return relation_oid(table_names[table]);
}

Oid
infer_table_key_oid(InferTable table)
{
	return relation_oid(psprintf("%s_pkey", table_names[table]));
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

/* Rows of a table whose first column is this uuid, in the key's order. */
static SysScanDesc
scan_by_id(Relation table, InferTable which, const pg_uuid_t *id, Snapshot snapshot)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(id));
	return systable_beginscan(table, infer_table_key_oid(which), true, snapshot, 1, &key);
}

int32
infer_counter_next(const pg_uuid_t *id)
{
	Relation	table = table_open(infer_table_oid(INFER_TABLE_COUNTER), RowExclusiveLock);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = scan_by_id(table, INFER_TABLE_COUNTER, id, snapshot);
	HeapTuple	tuple = systable_getnext(scan);
	Datum		values[Natts_counter];
	bool		nulls[Natts_counter] = {false};
	int32		version = 1;

	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;

		version = DatumGetInt32(heap_getattr(tuple, Anum_counter_last_version, RelationGetDescr(table), &isnull));
		if (version == PG_INT32_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("the model has no version numbers left")));
		version++;
	}
	values[Anum_counter_model_id - 1] = UUIDPGetDatum(id);
	values[Anum_counter_last_version - 1] = Int32GetDatum(version);
	if (HeapTupleIsValid(tuple))
		CatalogTupleUpdate(table, &tuple->t_self, heap_form_tuple(RelationGetDescr(table), values, nulls));
	else
		CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values, nulls));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(table, NoLock);
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
	Relation	table = table_open(infer_table_oid(INFER_TABLE_VERSION), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = scan_by_id(table, INFER_TABLE_VERSION, id, snapshot);
	HeapTuple	tuple;
	int			state = -1;

	while (state < 0 && HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (tuple_version(tuple, RelationGetDescr(table)) == version)
			state = tuple_active(tuple, RelationGetDescr(table)) ? 1 : 0;
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(table, AccessShareLock);
	return state;
}

bool
infer_version_any(const pg_uuid_t *id)
{
	Relation	table = table_open(infer_table_oid(INFER_TABLE_VERSION), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = scan_by_id(table, INFER_TABLE_VERSION, id, snapshot);
	bool		any = HeapTupleIsValid(systable_getnext(scan));

	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(table, AccessShareLock);
	return any;
}

bool
infer_version_activate(const pg_uuid_t *id, int32 version)
{
	Relation	table = table_open(infer_table_oid(INFER_TABLE_VERSION), RowExclusiveLock);
	TupleDesc	desc = RelationGetDescr(table);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = scan_by_id(table, INFER_TABLE_VERSION, id, snapshot);
	HeapTuple	tuple;
	bool		found = false;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		chosen = tuple_version(tuple, desc) == version;
		Datum		values[Natts_version];
		bool		nulls[Natts_version];
		bool		replace[Natts_version] = {false};

		found |= chosen;
		if (tuple_active(tuple, desc) == chosen)
			continue;
		values[Anum_version_active - 1] = BoolGetDatum(chosen);
		nulls[Anum_version_active - 1] = false;
		replace[Anum_version_active - 1] = true;
		CatalogTupleUpdate(table, &tuple->t_self, heap_modify_tuple(tuple, desc, values, nulls, replace));
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	infer_versions_changed(table);
	table_close(table, NoLock);
	return found;
}

void
infer_version_delete(const pg_uuid_t *id, int32 version)
{
	Relation	table = table_open(infer_table_oid(INFER_TABLE_VERSION), RowExclusiveLock);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = scan_by_id(table, INFER_TABLE_VERSION, id, snapshot);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (version == 0 || tuple_version(tuple, RelationGetDescr(table)) == version)
			CatalogTupleDelete(table, &tuple->t_self);
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	infer_versions_changed(table);
	table_close(table, NoLock);
}
