/*
 * glance.c
 *	  From a model's name to what the planner may know of it.
 *
 * What is missing, forbidden or malformed is not known here: whoever calls the model is told.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_foreign_server.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../infer.h"
#include "internal.h"

static void
glance_at_model(const InferModel *model, InferGlance *glance)
{
	memcpy(glance->key, model->key, INFER_KEY_BYTES);
	glance->bytes = model->signature.bytes;
	glance->alone_nsec = model->signature.alone_nsec;
	glance->row_nsec = model->signature.row_nsec;
}

static bool
glance_at_row(HeapTuple tuple, TupleDesc desc, InferGlance *glance)
{
	bool		null;
	bytea	   *digest = DatumGetByteaPP(heap_getattr(tuple, Anum_version_digest, desc, &null));
	Jsonb	   *options = DatumGetJsonbP(heap_getattr(tuple, Anum_version_options, desc, &null));
	Jsonb	   *signature = DatumGetJsonbP(heap_getattr(tuple, Anum_version_signature, desc, &null));

	if (VARSIZE_ANY_EXHDR(digest) != INFER_KEY_BYTES || !JB_ROOT_IS_OBJECT(options))
		return false;
	infer_key_make((uint8 *) VARDATA_ANY(digest), infer_options_engine(options), glance->key);
	glance->bytes = DatumGetInt64(heap_getattr(tuple, Anum_version_bytes, desc, &null));
	glance->alone_nsec = infer_jsonb_nsec(signature, "alone_nsec");
	glance->row_nsec = infer_jsonb_nsec(signature, "row_nsec");
	return true;
}

static bool
glance_at_version(const InferAnchor *anchor, int32 version, InferGlance *glance)
{
	Relation	table = table_open(infer_table_oid(INFER_TABLE_VERSION), AccessShareLock);
	TupleDesc	desc = RelationGetDescr(table);
	SysScanDesc scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&keys[0], Anum_version_model_id, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&anchor->id));
	ScanKeyInit(&keys[1], Anum_version_version, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(version));
	scan = systable_beginscan(table, infer_table_key_oid(INFER_TABLE_VERSION), true, GetActiveSnapshot(),
							  version != 0 ? 2 : 1, keys);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		null;

		if (version != 0 || DatumGetBool(heap_getattr(tuple, Anum_version_active, desc, &null)))
			found = glance_at_row(tuple, desc, glance);
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return found;
}

static bool
may_use(Oid server)
{
	return infer_server_aclcheck(server, GetUserId(), ACL_USAGE) == ACLCHECK_OK;
}

bool
infer_model_glance(const char *text, InferGlance *glance)
{
	const InferModel *cached;
	char		name[NAMEDATALEN];
	Size		length;
	int32		version;
	InferAnchor anchor;

	if (infer_shared == NULL || !ActiveSnapshotSet())
		return false;
	cached = infer_model_cached(text);
	if (cached != NULL)
	{
		glance_at_model(cached, glance);
		return may_use(cached->server);
	}
	if (!infer_name_split(text, &length, &version) || length >= NAMEDATALEN)
		return false;
	memcpy(name, text, length);
	name[length] = '\0';
	return infer_anchor_find(name, &anchor, NULL) && may_use(anchor.server) &&
		glance_at_version(&anchor, version, glance);
}
