/*
 * sweep.c
 *	  Deletes what nobody needs any longer: rows of models whose anchor is gone, files of no
 *	  version, uploads that were left.
 *
 * DROP SERVER and DROP OWNED know nothing of our tables, so whoever creates or drops a model
 * sweeps.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "../compat.h"
#include "internal.h"

#define UPLOAD_KEPT_SECONDS (24 * 60 * 60)

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
		infer_versions_changed(table);
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
