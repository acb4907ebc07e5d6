/*
 * upload.c
 *	  A model's files from any client, in parts: folders, and files of more than a value's
 *	  1 GB.
 *
 * Loop
 *	infer.begin_upload() makes a row with a random id and the role that owns it;
 *	infer.upload() stores a part as chunks (a part that is sent again replaces itself);
 *	create_model(…, upload => id) reads them in order and deletes them.
 *
 * Uploads that nobody takes within a day are deleted by the next create or drop of a model.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "../../compat.h"
#include "../../infer.h"
#include "../internal.h"

PG_FUNCTION_INFO_V1(infer_begin_upload);
PG_FUNCTION_INFO_V1(infer_upload);

typedef struct UploadSource
{
	InferSource base;
	pg_uuid_t	id;
	Relation	parts;				/* open while a file is */
	Relation	key;
	Snapshot	snapshot;
	SysScanDesc scan;
	MemoryContext piece;			/* the chunk that next() returned */
} UploadSource;

/* The upload's id, if the current user may add to it and use it. */
static pg_uuid_t
find_upload(const char *upload)
{
	Relation	table = table_open(infer_table_oid(INFER_TABLE_UPLOAD), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	bool		found = false;
	pg_uuid_t	id;

	if (infer_uuid_parse(upload, &id))
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple	tuple;

		ScanKeyInit(&key, Anum_upload_id, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&id));
		scan = systable_beginscan(table, infer_table_key_oid(INFER_TABLE_UPLOAD), true, snapshot, 1, &key);
		tuple = systable_getnext(scan);
		if (HeapTupleIsValid(tuple))
		{
			bool		isnull;
			Oid			owner = DatumGetObjectId(heap_getattr(tuple, Anum_upload_owner, RelationGetDescr(table), &isnull));

			found = has_privs_of_role(GetUserId(), owner);
		}
		systable_endscan(scan);
	}
	UnregisterSnapshot(snapshot);
	table_close(table, AccessShareLock);
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("upload \"%s\" does not exist", upload),
				 errhint("Begin one with infer.begin_upload(); it is kept for a day, for the role that began it.")));
	return id;
}

/* Deletes rows of infer.model_upload_part: one part, or (file NULL) all of an upload. */
static void
delete_parts(Relation parts, const pg_uuid_t *id, const char *file, int32 part)
{
	Snapshot	snapshot = infer_latest_snapshot();
	ScanKeyData keys[3];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_part_id, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(id));
	if (file != NULL)
	{
		ScanKeyInit(&keys[1], Anum_part_file, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(file));
		ScanKeyInit(&keys[2], Anum_part_part, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(part));
	}
	scan = systable_beginscan(parts, infer_table_key_oid(INFER_TABLE_UPLOAD_PART), true, snapshot,
							  file != NULL ? 3 : 1, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		CatalogTupleDelete(parts, &tuple->t_self);
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
}

void
infer_upload_delete(const char *upload)
{
	pg_uuid_t	id = find_upload(upload);
	Relation	uploads = table_open(infer_table_oid(INFER_TABLE_UPLOAD), RowExclusiveLock);
	Relation	parts = table_open(infer_table_oid(INFER_TABLE_UPLOAD_PART), RowExclusiveLock);
	Snapshot	snapshot = infer_latest_snapshot();
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_upload_id, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&id));
	scan = systable_beginscan(uploads, infer_table_key_oid(INFER_TABLE_UPLOAD), true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		CatalogTupleDelete(uploads, &tuple->t_self);
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	delete_parts(parts, &id, NULL, 0);
	table_close(parts, NoLock);
	table_close(uploads, NoLock);
}

Datum
infer_begin_upload(PG_FUNCTION_ARGS)
{
	pg_uuid_t	id = infer_uuid_make();
	Relation	uploads;
	Datum		values[Natts_upload];
	bool		nulls[Natts_upload] = {false};

	infer_require_preload();
	PreventCommandIfReadOnly("infer.begin_upload()");
	infer_check_may_create();
	uploads = table_open(infer_table_oid(INFER_TABLE_UPLOAD), RowExclusiveLock);
	values[Anum_upload_id - 1] = UUIDPGetDatum(&id);
	values[Anum_upload_owner - 1] = ObjectIdGetDatum(GetUserId());
	values[Anum_upload_created - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	CatalogTupleInsert(uploads, heap_form_tuple(RelationGetDescr(uploads), values, nulls));
	table_close(uploads, NoLock);
	PG_RETURN_TEXT_P(cstring_to_text(infer_uuid_text(&id)));
}

/* Stores a part in chunks; an empty part is one empty chunk. */
static void
insert_part(Relation parts, const pg_uuid_t *id, const char *file, int32 part, bytea *data)
{
	CatalogIndexState indexes = CatalogOpenIndexes(parts);
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "infer chunk", ALLOCSET_DEFAULT_SIZES);
	Size		length = VARSIZE_ANY_EXHDR(data);
	Size		used = 0;

	for (int32 chunk = 0; chunk == 0 || used < length; chunk++)
	{
		MemoryContext old = MemoryContextSwitchTo(scratch);
		int32		piece = Min(INFER_CHUNK_BYTES, length - used);
		Datum		values[Natts_part];
		bool		nulls[Natts_part] = {false};

		CHECK_FOR_INTERRUPTS();
		values[Anum_part_id - 1] = UUIDPGetDatum(id);
		values[Anum_part_file - 1] = CStringGetTextDatum(file);
		values[Anum_part_part - 1] = Int32GetDatum(part);
		values[Anum_part_chunk - 1] = Int32GetDatum(chunk);
		values[Anum_part_data - 1] = PointerGetDatum(infer_make_bytea(VARDATA_ANY(data) + used, piece));
		CatalogTupleInsertWithInfo(parts, heap_form_tuple(RelationGetDescr(parts), values, nulls), indexes);
		used += piece;
		MemoryContextSwitchTo(old);
		MemoryContextReset(scratch);
	}
	CatalogCloseIndexes(indexes);
	MemoryContextDelete(scratch);
}

Datum
infer_upload(PG_FUNCTION_ARGS)
{
	char	   *upload = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *file = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int32		part = PG_GETARG_INT32(2);
	bytea	   *data = PG_GETARG_BYTEA_PP(3);
	pg_uuid_t	id;
	Relation	parts;

	infer_require_preload();
	PreventCommandIfReadOnly("infer.upload()");
	id = find_upload(upload);
	infer_file_name_check(infer_file_name_from_table(file));
	if (part < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a part's number must be at least 1, not %d", part)));
	parts = table_open(infer_table_oid(INFER_TABLE_UPLOAD_PART), RowExclusiveLock);
	delete_parts(parts, &id, file, part);
	CommandCounterIncrement();
	insert_part(parts, &id, file, part, data);
	table_close(parts, NoLock);
	PG_RETURN_VOID();
}

/* ---- as a source ---- */

static void
upload_open(InferSource *base, int file)
{
	UploadSource *source = (UploadSource *) base;
	ScanKeyData keys[2];

	source->parts = table_open(infer_table_oid(INFER_TABLE_UPLOAD_PART), AccessShareLock);
	source->key = index_open(infer_table_key_oid(INFER_TABLE_UPLOAD_PART), AccessShareLock);
	source->snapshot = infer_latest_snapshot();
	ScanKeyInit(&keys[0], Anum_part_id, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&source->id));
	ScanKeyInit(&keys[1], Anum_part_file, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(infer_file_name_to_table(base->files[file].name)));
	source->scan = systable_beginscan_ordered(source->parts, source->key, source->snapshot, 2, keys);
}

static bool
upload_next(InferSource *base, const uint8 **data, Size *length)
{
	static const uint8 nothing = 0;
	UploadSource *source = (UploadSource *) base;
	HeapTuple	tuple;

	/* empty parts have a chunk, but nothing to return */
	*data = &nothing;
	*length = 0;
	while (*length == 0 &&
		   HeapTupleIsValid(tuple = systable_getnext_ordered(source->scan, ForwardScanDirection)))
	{
		MemoryContext old;
		bool		isnull;
		bytea	   *chunk;

		MemoryContextReset(source->piece);
		old = MemoryContextSwitchTo(source->piece);
		chunk = DatumGetByteaPP(heap_getattr(tuple, Anum_part_data, RelationGetDescr(source->parts), &isnull));
		MemoryContextSwitchTo(old);
		*data = (const uint8 *) VARDATA_ANY(chunk);
		*length = VARSIZE_ANY_EXHDR(chunk);
	}
	return *length > 0;
}

static void
upload_close(InferSource *base)
{
	UploadSource *source = (UploadSource *) base;

	systable_endscan_ordered(source->scan);
	UnregisterSnapshot(source->snapshot);
	index_close(source->key, AccessShareLock);
	table_close(source->parts, AccessShareLock);
}

static const InferSourceOps upload_ops = {
	.open = upload_open,
	.next = upload_next,
	.close = upload_close,
};

/* The files, and that each has its parts from 1 without a hole. */
static void
list_files(UploadSource *source)
{
	Relation	parts = table_open(infer_table_oid(INFER_TABLE_UPLOAD_PART), AccessShareLock);
	Relation	key = index_open(infer_table_key_oid(INFER_TABLE_UPLOAD_PART), AccessShareLock);
	Snapshot	snapshot = infer_latest_snapshot();
	ScanKeyData scan_key;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *file = NULL;
	int32		last = 0;

	ScanKeyInit(&scan_key, Anum_part_id, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&source->id));
	scan = systable_beginscan_ordered(parts, key, snapshot, 1, &scan_key);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		bool		isnull;
		char	   *name = TextDatumGetCString(heap_getattr(tuple, Anum_part_file, RelationGetDescr(parts), &isnull));
		int32		part = DatumGetInt32(heap_getattr(tuple, Anum_part_part, RelationGetDescr(parts), &isnull));

		CHECK_FOR_INTERRUPTS();
		if (file == NULL || strcmp(file, name) != 0)
		{
			infer_source_add(&source->base, infer_file_name_from_table(name));
			file = name;
			last = 0;
		}
		if (part > last + 1)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("file \"%s\" of the upload lacks part %d", file, last + 1),
					 errhint("Send it with infer.upload().")));
		last = part;
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	index_close(key, AccessShareLock);
	table_close(parts, AccessShareLock);
}

InferSource *
infer_source_upload(const char *upload)
{
	UploadSource *source = palloc0(sizeof(UploadSource));

	source->base.ops = &upload_ops;
	source->id = find_upload(upload);
	source->piece = AllocSetContextCreate(CurrentMemoryContext, "infer upload", ALLOCSET_DEFAULT_SIZES);
	list_files(source);
	if (source->base.files_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("upload \"%s\" holds no files", upload),
				 errhint("Send them with infer.upload().")));
	infer_source_sort(&source->base);
	return &source->base;
}
