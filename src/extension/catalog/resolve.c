/*
 * resolve.c
 *	  From a model's name to what the engine needs.
 *
 * Nouns
 *	row			the row of infer.model_version that a name means under a snapshot
 *	cache		names that were resolved before, per backend, each with its row's writer
 *	generation	counts the flushes of the cache
 *
 * Loop
 *	resolve: take in other sessions' invalidations; copy the cached model if the snapshot
 *	sees its row, else read the anchor from the system caches and the row by its index.
 *
 * Invariants
 *	- A cached row was neither replaced nor deleted by anybody, not even by somebody in
 *	  progress, when it was read: whoever replaces it later invalidates at commit, and the
 *	  cache is flushed.  So a cached row is right for every snapshot that sees its writer
 *	  (an older one has to look for the older row).
 *	- Rows of the own transaction, rows being replaced, and everything under
 *	  IsolationUsesXactSnapshot() are not cached, and are believed for equal snapshots only.
 */
#include "postgres.h"

#include <errno.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "../catalog.h"
#include "../compat.h"
#include "../infer.h"
#include "internal.h"

#define CACHE_NAME_MAX	(NAMEDATALEN + 16)	/* name@version */
#define CACHE_MODELS_MAX 256				/* then it is flushed */

typedef struct CacheEntry
{
	char		name[CACHE_NAME_MAX];	/* as the caller wrote it */
	InferModel *model;
} CacheEntry;

static uint64 generation = 1;			/* raised by the callbacks, which free nothing */
static Oid	version_table = InvalidOid;	/* as last seen; whose invalidations count */

static MemoryContext cache_context;
static HTAB *cache;
static uint64 cache_generation;			/* when the cache was emptied last */

/* ---- the cache ---- */

static void
version_table_changed(Datum argument, Oid relation)
{
	if (!OidIsValid(relation) || relation == version_table)
		generation++;
}

static void
server_changed(Datum argument, int cache_id, uint32 hash)
{
	generation++;
}

void
infer_catalog_init(void)
{
	CacheRegisterRelcacheCallback(version_table_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, server_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, server_changed, (Datum) 0);
	infer_utility_init();
}

/* An empty cache of the current generation. */
static void
cache_reset(void)
{
	HASHCTL		control = {0};

	cache = NULL;
	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(CacheMemoryContext, "infer models", ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(cache_context);
	control.keysize = CACHE_NAME_MAX;
	control.entrysize = sizeof(CacheEntry);
	control.hcxt = cache_context;
	cache = hash_create("infer models", 16, &control, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	cache_generation = generation;
}

static InferModel *
copy_model(const InferModel *model, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	InferModel *copy = palloc(sizeof(InferModel));

	*copy = *model;
	copy->options = pstrdup(model->options);
	if (model->reference != NULL)
		copy->reference = pstrdup(model->reference);
	infer_signature_copy(&model->signature, &copy->signature);
	if (model->features == model->signature.features)
		copy->features = copy->signature.features;
	else
		copy->features = infer_copy_texts(model->features, model->features_count);
	if (model->classes == model->signature.classes)
		copy->classes = copy->signature.classes;
	else
		copy->classes = infer_copy_texts(model->classes, model->classes_count);
	MemoryContextSwitchTo(old);
	return copy;
}

static void
cache_add(const char *name, const InferModel *model)
{
	InferModel *copy;
	CacheEntry *entry;
	bool		found;

	if (cache_generation != generation || hash_get_num_entries(cache) >= CACHE_MODELS_MAX)
		cache_reset();
	copy = copy_model(model, cache_context);
	entry = hash_search(cache, name, HASH_ENTER, &found);
	entry->model = copy;		/* the one before, invisible to this snapshot, goes with the next reset */
}

/* ---- which snapshots a row is right for ---- */

static void
note_snapshot(InferModel *model, HeapTuple tuple, Snapshot snapshot)
{
	TransactionId writer = HeapTupleHeaderGetXmin(tuple->t_data);
	bool		replaced = (tuple->t_data->t_infomask & HEAP_XMAX_INVALID) == 0 &&
		TransactionIdIsValid(HeapTupleHeaderGetRawXmax(tuple->t_data));

	model->row_xmin = writer;
	model->row_exact = replaced || IsolationUsesXactSnapshot() ||
		(TransactionIdIsNormal(writer) && TransactionIdIsCurrentTransactionId(writer));
	model->row_settled = !model->row_exact &&
		(!TransactionIdIsNormal(writer) || TransactionIdPrecedes(writer, TransactionXmin));
	model->snapshot_xmin = snapshot->xmin;
	model->snapshot_xmax = snapshot->xmax;
	model->snapshot_xcnt = snapshot->xcnt;
	model->snapshot_subxcnt = snapshot->subxcnt;
	model->snapshot_curcid = snapshot->curcid;
}

static bool
row_right(const InferModel *model, Snapshot snapshot)
{
	if (model->row_settled)
		return true;
	if (model->row_exact)
		return model->snapshot_xmin == snapshot->xmin && model->snapshot_xmax == snapshot->xmax &&
			model->snapshot_xcnt == snapshot->xcnt && model->snapshot_subxcnt == snapshot->subxcnt &&
			model->snapshot_curcid == snapshot->curcid;
	return !XidInMVCCSnapshot(model->row_xmin, snapshot);
}

/* ---- reading ---- */

bool
infer_name_split(const char *text, Size *length, int32 *version)
{
	const char *at = strrchr(text, '@');
	char	   *end;
	long		number;

	*version = 0;
	*length = at != NULL ? (Size) (at - text) : strlen(text);
	if (at == NULL)
		return true;
	errno = 0;
	number = strtol(at + 1, &end, 10);
	if (*length == 0 || at[1] < '1' || at[1] > '9' || *end != '\0' || errno != 0 || number > PG_INT32_MAX)
		return false;
	*version = (int32) number;
	return true;
}

static void
parse_name(const char *text, char *name, int32 *version)
{
	Size		length;

	if (!infer_name_split(text, &length, version))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("invalid model name \"%s\"", infer_model_name_shown(text)),
				 errhint("Write a model as its name, or as name@version with a version's number.")));
	if (length >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("model \"%s\" does not exist", infer_model_name_shown(text)),
				 errdetail("A model's name has at most %d bytes.", NAMEDATALEN - 1)));
	memcpy(name, text, length);
	name[length] = '\0';
}

static char *
column_text(HeapTuple tuple, TupleDesc desc, int column)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, column, desc, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

static void
column_digest(HeapTuple tuple, TupleDesc desc, int column, uint8 *digest)
{
	bool		isnull;
	bytea	   *value = DatumGetByteaPP(heap_getattr(tuple, column, desc, &isnull));

	if (isnull || VARSIZE_ANY_EXHDR(value) != INFER_KEY_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a row of infer.model_version has a malformed digest")));
	memcpy(digest, VARDATA_ANY(value), INFER_KEY_BYTES);
}

/* A model from its anchor and row, in the current memory context. */
static InferModel *
make_model(const InferAnchor *anchor, HeapTuple tuple, TupleDesc desc, Snapshot snapshot)
{
	InferModel *model = palloc0(sizeof(InferModel));
	Jsonb	   *options;
	bool		isnull;

	model->server = anchor->server;
	model->owner = anchor->owner;
	strlcpy(model->name, anchor->name, NAMEDATALEN);
	model->id = anchor->id;
	model->version = DatumGetInt32(heap_getattr(tuple, Anum_version_version, desc, &isnull));
	column_digest(tuple, desc, Anum_version_digest, model->digest);
	model->reference = column_text(tuple, desc, Anum_version_reference);
	infer_signature_from_jsonb(DatumGetJsonbP(heap_getattr(tuple, Anum_version_signature, desc, &isnull)),
							   &model->signature);
	options = DatumGetJsonbP(heap_getattr(tuple, Anum_version_options, desc, &isnull));
	model->options = infer_options_engine(options);
	infer_key_make(model->digest, model->options, model->key);

	model->features = infer_jsonb_strings(options, "features", &model->features_count);
	if (model->features_count == 0)
	{
		model->features = model->signature.features;
		model->features_count = model->signature.features_count;
	}
	model->classes = infer_jsonb_strings(options, "classes", &model->classes_count);
	if (model->classes_count == 0)
	{
		model->classes = model->signature.classes;
		model->classes_count = model->signature.classes_count;
	}
	note_snapshot(model, tuple, snapshot);
	return model;
}

/* The version under the active snapshot, or NULL; in the current memory context. */
static InferModel *
read_version(const InferAnchor *anchor, int32 version)
{
	Snapshot	snapshot = GetActiveSnapshot();
	InferModel *model = NULL;
	Relation	table;
	SysScanDesc scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;

	table = table_open(infer_table_oid(INFER_TABLE_VERSION), AccessShareLock);
	ScanKeyInit(&keys[0], Anum_version_model_id, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&anchor->id));
	ScanKeyInit(&keys[1], Anum_version_version, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(version));
	scan = systable_beginscan(table, infer_table_key_oid(INFER_TABLE_VERSION), true, snapshot,
							  version != 0 ? 2 : 1, keys);
	while (model == NULL && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;

		if (version != 0 ||
			DatumGetBool(heap_getattr(tuple, Anum_version_active, RelationGetDescr(table), &isnull)))
			model = make_model(anchor, tuple, RelationGetDescr(table), snapshot);
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return model;
}

static InferModel *
read_model(const char *text, MemoryContext context)
{
	char		name[NAMEDATALEN];
	int32		version;
	InferAnchor anchor;
	InferModel *model;
	MemoryContext scratch;
	MemoryContext old;
	uint64		began;

	parse_name(text, name, &version);

	/* Read in a scratch context: what is kept is kept compactly. */
	scratch = AllocSetContextCreate(CurrentMemoryContext, "infer resolve", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(scratch);
	version_table = infer_table_oid(INFER_TABLE_VERSION);
	began = generation;
	infer_anchor_get(name, &anchor);
	model = read_version(&anchor, version);
	if (model == NULL)
	{
		if (version != 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("model \"%s\" has no version %d", name, version),
					 errhint("See infer.model_versions.")));
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("model \"%s\" has no active version", name),
				 errhint("Make a version with infer.create_model(), or choose one with infer.activate_model().")));
	}
	model->generation = began;
	MemoryContextSwitchTo(old);
	if (!model->row_exact && began == generation)
		cache_add(text, model);
	model = copy_model(model, context);
	MemoryContextDelete(scratch);
	return model;
}

const InferModel *
infer_model_cached(const char *name)
{
	CacheEntry *entry;

	if (cache_generation != generation)
		cache_reset();
	if (IsolationUsesXactSnapshot() || strlen(name) >= CACHE_NAME_MAX)
		return NULL;
	entry = hash_search(cache, name, HASH_FIND, NULL);
	if (entry == NULL || !row_right(entry->model, GetActiveSnapshot()))
		return NULL;
	if (!entry->model->row_settled)
		entry->model->row_settled = TransactionIdPrecedes(entry->model->row_xmin, TransactionXmin);
	return entry->model;
}

/* ---- what catalog.h promises ---- */

uint64
infer_catalog_generation(void)
{
	return generation;
}

InferModel *
infer_model_resolve(const char *name, MemoryContext context)
{
	const InferModel *cached;
	InferModel *model;

	infer_require_preload();
	AcceptInvalidationMessages();
	cached = infer_model_cached(name);
	model = cached != NULL ? copy_model(cached, context) : read_model(name, context);
	infer_model_check_usage(model);
	return model;
}

bool
infer_model_current(const InferModel *model)
{
	AcceptInvalidationMessages();
	return model->generation == generation && row_right(model, GetActiveSnapshot());
}

void
infer_model_check_usage(const InferModel *model)
{
	if (infer_server_aclcheck(model->server, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for model \"%s\"", model->name),
				 errhint("Its owner can grant it with infer.grant_model().")));
}

static int
compare_models(const void *a, const void *b)
{
	const InferModel *left = *(InferModel *const *) a;
	const InferModel *right = *(InferModel *const *) b;
	int			order = strcmp(left->name, right->name);

	if (order == 0)
		order = left->version < right->version ? -1 : left->version > right->version;
	return order;
}

InferModel **
infer_model_list(bool all, int *count)
{
	Snapshot	snapshot = GetActiveSnapshot();
	int			anchors_count;
	InferAnchor *anchors = infer_anchor_list(&anchors_count);
	int			room = 16;
	InferModel **models = palloc(sizeof(InferModel *) * room);
	Relation	table = table_open(infer_table_oid(INFER_TABLE_VERSION), AccessShareLock);

	*count = 0;
	for (int i = 0; i < anchors_count; i++)
	{
		SysScanDesc scan;
		ScanKeyData key;
		HeapTuple	tuple;

		if (!all && infer_server_aclcheck(anchors[i].server, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
			continue;
		ScanKeyInit(&key, Anum_version_model_id, BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&anchors[i].id));
		scan = systable_beginscan(table, infer_table_key_oid(INFER_TABLE_VERSION), true, snapshot, 1, &key);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			if (*count == room)
				models = repalloc(models, sizeof(InferModel *) * (room *= 2));
			models[(*count)++] = make_model(&anchors[i], tuple, RelationGetDescr(table), snapshot);
		}
		systable_endscan(scan);
	}
	table_close(table, AccessShareLock);
	qsort(models, *count, sizeof(InferModel *), compare_models);
	return models;
}
