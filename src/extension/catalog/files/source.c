/*
 * source.c
 *	  Where create_model takes a model's files from, and what is done with them: they are read
 *	  twice in pieces, once for the digest, once to store.
 *
 * A bytea is a source by itself, below; path.c has files of the server, upload.c those that
 * clients send in parts.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../../compat.h"
#include "../internal.h"

/* ---- names ---- */

/* What is wrong with a name relative to a model's folder, or NULL. */
static const char *
name_fault(const char *name)
{
	const char *part = name;
	int			depth = 0;

	if (name[0] == '\0')
		return "It is empty.";
	if (strlen(name) >= INFER_NAME_MAX)
		return psprintf("It has more than %d bytes.", INFER_NAME_MAX - 1);
	if (!pg_verify_mbstr(PG_UTF8, name, strlen(name), true))
		return "It is not valid UTF-8.";
	for (const char *c = name; *c != '\0'; c++)
		if ((unsigned char) *c < 0x20 || *c == 0x7f || *c == '\\')
			return "It has a control character or a backslash.";
	for (;;)
	{
		if (*part == '.' || *part == '/' || *part == '\0')
			return "It must be relative, and none of its parts may be empty or begin with a dot.";
		if (++depth > INFER_DEPTH_MAX)
			return psprintf("It has more than %d parts.", INFER_DEPTH_MAX);
		part = strchr(part, '/');
		if (part == NULL)
			return NULL;
		part++;
	}
}

/*
 * Files are named in UTF-8, as models refer to them, whatever the database's encoding: it
 * matters to their names in tables only.
 */
char *
infer_file_name_to_table(const char *name)
{
	return pg_any_to_server(name, strlen(name), PG_UTF8);
}

char *
infer_file_name_from_table(char *name)
{
	return pg_server_to_any(name, strlen(name), PG_UTF8);
}

void
infer_file_name_check(const char *name)
{
	const char *fault = name_fault(name);

	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is no name of a model's file", name),
				 errdetail("%s", fault)));
}

static int
compare_files(const void *a, const void *b)
{
	return strcmp(((const InferSourceFile *) a)->name, ((const InferSourceFile *) b)->name);
}

void
infer_source_add(InferSource *source, const char *name)
{
	if (source->files_count == INFER_FILES_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a model has at most %d files", INFER_FILES_MAX),
				 errhint("Give a folder that holds only what the model needs.")));
	if (source->files == NULL)
		source->files = palloc0(sizeof(InferSourceFile) * INFER_FILES_MAX);
	source->files[source->files_count++].name = pstrdup(name);
}

void
infer_source_sort(InferSource *source)
{
	qsort(source->files, source->files_count, sizeof(InferSourceFile), compare_files);
}

/* ---- a bytea ---- */

typedef struct DataSource
{
	InferSource base;
	const uint8 *data;
	Size		length;
	Size		used;
} DataSource;

static void
data_open(InferSource *base, int file)
{
	((DataSource *) base)->used = 0;
}

static bool
data_next(InferSource *base, const uint8 **data, Size *length)
{
	DataSource *source = (DataSource *) base;

	*data = source->data + source->used;
	*length = Min(INFER_CHUNK_BYTES, source->length - source->used);
	source->used += *length;
	return *length > 0;
}

static void
data_close(InferSource *base)
{
}

static const InferSourceOps data_ops = {
	.open = data_open,
	.next = data_next,
	.close = data_close,
};

InferSource *
infer_source_data(bytea *data, const char *name)
{
	DataSource *source = palloc0(sizeof(DataSource));

	source->base.ops = &data_ops;
	source->data = (const uint8 *) VARDATA_ANY(data);
	source->length = VARSIZE_ANY_EXHDR(data);
	infer_source_add(&source->base, name);
	return &source->base;
}

/* ---- what is done with any source ---- */

/* The digest of all files, from their names, sizes and hashes. */
void
infer_source_combine(InferSource *source)
{
	InferHash  *hash = infer_hash_begin();

	for (int i = 0; i < source->files_count; i++)
		infer_digest_add(hash, source->files[i].name, source->files[i].size, source->files[i].sha256);
	infer_hash_final(hash, source->digest);
}

static void
check_limit(uint64 bytes, uint64 limit)
{
	if (limit != 0 && bytes > limit)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the model's files have more than " UINT64_FORMAT " MB, the limit of infer.cache_size",
						limit / (1024 * 1024)),
				 errhint("Raise infer.cache_size, or store a reference.")));
}

void
infer_source_digest(InferSource *source, uint64 limit)
{
	uint64		expected = 0;

	/* what is known to be too large is not read */
	for (int i = 0; i < source->files_count; i++)
	{
		expected += source->files[i].size;
		check_limit(expected, limit);
	}
	source->bytes = 0;
	for (int i = 0; i < source->files_count; i++)
	{
		InferSourceFile *file = &source->files[i];
		InferHash  *hash = infer_hash_begin();
		const uint8 *data;
		Size		length;

		file->size = 0;
		source->ops->open(source, i);
		while (source->ops->next(source, &data, &length))
		{
			CHECK_FOR_INTERRUPTS();
			infer_hash_update(hash, data, length);
			file->size += length;
			source->bytes += length;
			check_limit(source->bytes, limit);
		}
		source->ops->close(source);
		infer_hash_final(hash, file->sha256);
	}
	infer_source_combine(source);
}

bool
infer_files_stored(Relation files, const uint8 *digest)
{
	Snapshot	snapshot = infer_latest_snapshot();
	ScanKeyData key;
	SysScanDesc scan;
	bool		stored;

	ScanKeyInit(&key, Anum_file_digest, BTEqualStrategyNumber, F_BYTEAEQ,
				PointerGetDatum(infer_make_bytea(digest, INFER_KEY_BYTES)));
	scan = systable_beginscan(files, infer_table_key_oid(INFER_TABLE_FILE), true, snapshot, 1, &key);
	stored = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	return stored;
}

static void
store_chunk(Relation files, CatalogIndexState indexes, const uint8 *digest, const char *name,
			int chunk, const uint8 *data, Size length)
{
	Datum		values[Natts_file];
	bool		nulls[Natts_file] = {false};

	values[Anum_file_digest - 1] = PointerGetDatum(infer_make_bytea(digest, INFER_KEY_BYTES));
	values[Anum_file_name - 1] = CStringGetTextDatum(infer_file_name_to_table(name));
	values[Anum_file_chunk - 1] = Int32GetDatum(chunk);
	values[Anum_file_data - 1] = PointerGetDatum(infer_make_bytea(data, length));
	CatalogTupleInsertWithInfo(files, heap_form_tuple(RelationGetDescr(files), values, nulls), indexes);
}

/* One file; at least one chunk, so that empty files are there too. */
static void
store_file(InferSource *source, int i, Relation files, CatalogIndexState indexes, MemoryContext scratch)
{
	InferSourceFile *file = &source->files[i];
	InferHash  *hash = infer_hash_begin();
	uint8		sha256[INFER_KEY_BYTES];
	uint64		size = 0;
	const uint8 *data;
	Size		length;
	int			chunk = 0;

	source->ops->open(source, i);
	while (source->ops->next(source, &data, &length) || chunk == 0)
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		infer_hash_update(hash, data, length);
		size += length;
		old = MemoryContextSwitchTo(scratch);
		store_chunk(files, indexes, source->digest, file->name, chunk++, data, length);
		MemoryContextSwitchTo(old);
		MemoryContextReset(scratch);
	}
	source->ops->close(source);
	infer_hash_final(hash, sha256);
	if (size != file->size || memcmp(sha256, file->sha256, INFER_KEY_BYTES) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("file \"%s\" changed while it was read", file->name),
				 errhint("Call infer.create_model() again when nobody writes it.")));
}

void
infer_source_store(InferSource *source, Relation files)
{
	CatalogIndexState indexes = CatalogOpenIndexes(files);
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "infer chunk", ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < source->files_count; i++)
		store_file(source, i, files, indexes, scratch);
	CatalogCloseIndexes(indexes);
	MemoryContextDelete(scratch);
	CommandCounterIncrement();
}
