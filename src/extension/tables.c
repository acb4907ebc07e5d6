/*
 * tables.c
 *	  The catalogue's anchors and tables: found, scanned and written without SPI.
 *
 * Relations are opened by oid and scanned by their primary keys, whatever search_path, row
 * security or the caller's privileges on them: the callers have checked what the user may.
 * models.h has the locks.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "models.h"

#define UPLOAD_KEPT_SECONDS (24 * 60 * 60)

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

/* ---- anchors ---- */

Oid
infer_wrapper_oid(void)
{
	return get_foreign_data_wrapper_oid(INFER_WRAPPER, true);
}

/* A uuid in its usual form, lower case; unlike uuid_in without raising. */
bool
infer_uuid_parse(const char *text, pg_uuid_t *id)
{
	int			digits = 0;

	memset(id, 0, sizeof(*id));
	for (int i = 0; text[i] != '\0'; i++)
	{
		char		c = text[i];
		int			value;

		if (i == 8 || i == 13 || i == 18 || i == 23)
		{
			if (c != '-')
				return false;
			continue;
		}
		if (c >= '0' && c <= '9')
			value = c - '0';
		else if (c >= 'a' && c <= 'f')
			value = c - 'a' + 10;
		else
			return false;
		if (digits == 2 * UUID_LEN)
			return false;
		id->data[digits / 2] |= value << (digits % 2 == 0 ? 4 : 0);
		digits++;
	}
	return digits == 2 * UUID_LEN;
}

char *
infer_uuid_text(const pg_uuid_t *id)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(id)));
}

pg_uuid_t
infer_uuid_make(void)
{
	return *DatumGetUUIDP(OidFunctionCall0(F_GEN_RANDOM_UUID));
}

bool
infer_anchor_id(List *options, pg_uuid_t *id)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, INFER_ID_OPTION) == 0)
			return option->arg != NULL && infer_uuid_parse(defGetString(option), id);
	}
	return false;
}

bool
infer_anchor_find(const char *name, InferAnchor *anchor, bool *other_wrapper)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	if (other_wrapper != NULL)
		*other_wrapper = false;
	if (server == NULL)
		return false;
	if (server->fdwid != infer_wrapper_oid() || !infer_anchor_id(server->options, &anchor->id))
	{
		if (other_wrapper != NULL)
			*other_wrapper = true;
		return false;
	}
	anchor->server = server->serverid;
	anchor->owner = server->owner;
	strlcpy(anchor->name, server->servername, NAMEDATALEN);
	return true;
}

void
infer_anchor_get(const char *name, InferAnchor *anchor)
{
	if (!infer_anchor_find(name, anchor, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("model \"%s\" does not exist", name),
				 errhint("See infer.models, or make it with infer.create_model().")));
}

void
infer_anchor_check_owner(const InferAnchor *anchor)
{
	if (!infer_server_ownercheck(anchor->server, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of model \"%s\"", anchor->name),
				 errhint("Its owner is \"%s\".", GetUserNameFromId(anchor->owner, false))));
}

void
infer_anchor_lock(const InferAnchor *anchor)
{
	LockDatabaseObject(ForeignServerRelationId, anchor->server, 0, ShareUpdateExclusiveLock);
	if (!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(anchor->server)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("model \"%s\" was dropped meanwhile", anchor->name)));
}

InferAnchor *
infer_anchor_list(int *count)
{
	Oid			wrapper = infer_wrapper_oid();
	int			room = 16;
	InferAnchor *anchors = palloc(sizeof(InferAnchor) * room);
	Relation	servers = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(servers, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	*count = 0;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_server form = (Form_pg_foreign_server) GETSTRUCT(tuple);
		InferAnchor *anchor;
		Datum		options;
		bool		isnull;

		options = heap_getattr(tuple, Anum_pg_foreign_server_srvoptions, RelationGetDescr(servers), &isnull);
		if (form->srvfdw != wrapper || isnull)
			continue;
		if (*count == room)
			anchors = repalloc(anchors, sizeof(InferAnchor) * (room *= 2));
		anchor = &anchors[*count];
		if (!infer_anchor_id(untransformRelOptions(options), &anchor->id))
			continue;
		anchor->server = form->oid;
		anchor->owner = form->srvowner;
		strlcpy(anchor->name, NameStr(form->srvname), NAMEDATALEN);
		(*count)++;
	}
	systable_endscan(scan);
	table_close(servers, AccessShareLock);
	return anchors;
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

/* What changed in infer.model_version is seen by this command's successors, and by all sessions' caches. */
static void
versions_changed(Relation table)
{
	CacheInvalidateRelcacheByRelid(RelationGetRelid(table));
	CommandCounterIncrement();
}

void
infer_version_insert(Datum *values, bool *nulls)
{
	Relation	table = table_open(infer_table_oid(INFER_TABLE_VERSION), RowExclusiveLock);

	CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values, nulls));
	versions_changed(table);
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
	versions_changed(table);
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
	versions_changed(table);
	table_close(table, NoLock);
}

/* ---- what nobody needs any longer ---- */

typedef struct Digests
{
	int			count;
	int			room;
	uint8		(*bytes)[INFER_KEY_BYTES];
} Digests;

static bool
among_anchors(const InferAnchor *anchors, int count, const pg_uuid_t *id)
{
	for (int i = 0; i < count; i++)
		if (memcmp(&anchors[i].id, id, sizeof(*id)) == 0)
			return true;
	return false;
}

static bool
among_digests(const Digests *digests, const uint8 *digest)
{
	for (int i = 0; i < digests->count; i++)
		if (memcmp(digests->bytes[i], digest, INFER_KEY_BYTES) == 0)
			return true;
	return false;
}

/*
 * Delete the rows of models that no longer exist from a table whose first column is the
 * model's id; collect the digests of the others.  The rows are read before the anchors, so
 * that a model that is made meanwhile is not mistaken for one that is gone.
 */
static void
sweep_models(InferTable which, Digests *needed)
{
	Relation	table = table_open(infer_table_oid(which), RowExclusiveLock);
	Snapshot	snapshot = infer_latest_snapshot();
	int			anchors_count;
	InferAnchor *anchors = infer_anchor_list(&anchors_count);
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple	tuple;
	bool		changed = false;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		pg_uuid_t  *id = DatumGetUUIDP(heap_getattr(tuple, 1, RelationGetDescr(table), &isnull));

		if (!among_anchors(anchors, anchors_count, id))
		{
			CatalogTupleDelete(table, &tuple->t_self);
			changed = true;
		}
		else if (needed != NULL)
		{
			TupleDesc	desc = RelationGetDescr(table);
			bytea	   *digest = DatumGetByteaPP(heap_getattr(tuple, Anum_version_digest, desc, &isnull));

			(void) heap_getattr(tuple, Anum_version_reference, desc, &isnull);
			if (!isnull || VARSIZE_ANY_EXHDR(digest) != INFER_KEY_BYTES)
				continue;
			if (needed->count == needed->room)
			{
				needed->room = Max(16, needed->room * 2);
				needed->bytes = needed->bytes == NULL ? palloc(INFER_KEY_BYTES * needed->room) :
					repalloc(needed->bytes, INFER_KEY_BYTES * needed->room);
			}
			memcpy(needed->bytes[needed->count++], VARDATA_ANY(digest), INFER_KEY_BYTES);
		}
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	if (changed)
		versions_changed(table);
	table_close(table, NoLock);
}

static void
sweep_files(Relation files, const Digests *needed)
{
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = systable_beginscan(files, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		bytea	   *digest = DatumGetByteaPP(heap_getattr(tuple, Anum_file_digest, RelationGetDescr(files), &isnull));

		CHECK_FOR_INTERRUPTS();
		if (VARSIZE_ANY_EXHDR(digest) != INFER_KEY_BYTES || !among_digests(needed, (uint8 *) VARDATA_ANY(digest)))
			CatalogTupleDelete(files, &tuple->t_self);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	CommandCounterIncrement();
}

/*
 * Uploads that were left, or whose role is gone, and parts without an upload.  One
 * snapshot for both: who sees a part sees its upload, unless that was removed.
 */
static void
sweep_uploads(void)
{
	Relation	uploads = table_open(infer_table_oid(INFER_TABLE_UPLOAD), RowExclusiveLock);
	Relation	parts = table_open(infer_table_oid(INFER_TABLE_UPLOAD_PART), RowExclusiveLock);
	Snapshot	snapshot = infer_latest_snapshot();
	SysScanDesc scan = systable_beginscan(uploads, InvalidOid, false, snapshot, 0, NULL);
	TimestampTz oldest = GetCurrentTimestamp() - UPLOAD_KEPT_SECONDS * USECS_PER_SEC;
	HeapTuple	tuple;
	int			kept_count = 0;
	int			kept_room = 16;
	pg_uuid_t  *kept = palloc(sizeof(pg_uuid_t) * kept_room);

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		TupleDesc	desc = RelationGetDescr(uploads);
		bool		isnull;
		Oid			owner = DatumGetObjectId(heap_getattr(tuple, Anum_upload_owner, desc, &isnull));
		TimestampTz created = DatumGetTimestampTz(heap_getattr(tuple, Anum_upload_created, desc, &isnull));

		if (created < oldest || !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(owner)))
		{
			CatalogTupleDelete(uploads, &tuple->t_self);
			continue;
		}
		if (kept_count == kept_room)
			kept = repalloc(kept, sizeof(pg_uuid_t) * (kept_room *= 2));
		kept[kept_count++] = *DatumGetUUIDP(heap_getattr(tuple, Anum_upload_id, desc, &isnull));
	}
	systable_endscan(scan);

	scan = systable_beginscan(parts, InvalidOid, false, snapshot, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		pg_uuid_t  *id = DatumGetUUIDP(heap_getattr(tuple, Anum_part_id, RelationGetDescr(parts), &isnull));
		bool		wanted = false;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < kept_count && !wanted; i++)
			wanted = memcmp(&kept[i], id, sizeof(*id)) == 0;
		if (!wanted)
			CatalogTupleDelete(parts, &tuple->t_self);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(parts, NoLock);
	table_close(uploads, NoLock);
	CommandCounterIncrement();
}

void
infer_sweep(Relation files)
{
	Digests		needed = {0};

	sweep_models(INFER_TABLE_COUNTER, NULL);
	sweep_models(INFER_TABLE_VERSION, &needed);
	sweep_files(files, &needed);
	sweep_uploads();
}
