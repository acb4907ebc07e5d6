/*
 * materialise.c
 *	  A model's files from infer.model_file into the model cache, or opened where they lie.
 *
 * Loop
 *	lock the cache; remove what dead writers left; make room; write the chunks of
 *	infer.model_file into a folder of another name, hashing them; fsync; compare the
 *	digest; rename; unlock.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/detoast.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../../compat.h"
#include "../../infer.h"
#include "cache.h"

typedef struct Writer
{
	char	   *folder;				/* being written */
	int			fd;					/* of the open file, or -1 */
	char	   *path;				/* of the open file */
	char	   *name;				/* likewise, as in the table; NULL: none is open */
	int32		chunk;				/* of that file, the next */
	InferHash  *hash;				/* of that file */
	InferSource written;			/* the files so far; the last is the open one */
} Writer;

/* ---- writing ---- */

static void
corrupt(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the model's files in infer.model_file are damaged"),
			 errdetail("%s", what),
			 errhint("Create the version again with infer.create_model().")));
}

/* The folders between the model's and a file. */
static void
make_parents(const Writer *writer, const char *name)
{
	for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/'))
		cache_make_folder(psprintf("%s/%.*s", writer->folder, (int) (slash - name), name));
}

static InferSourceFile *
open_file(Writer *writer)
{
	return &writer->written.files[writer->written.files_count - 1];
}

static void
finish_file(Writer *writer)
{
	if (writer->name == NULL)
		return;
	if (pg_fsync(writer->fd) < 0)
		cache_failed("fsync", writer->path);
	if (CloseTransientFile(writer->fd) != 0)
		cache_failed("close", writer->path);
	infer_hash_final(writer->hash, open_file(writer)->sha256);
	writer->name = NULL;
}

static void
begin_file(Writer *writer, const char *table_name)
{
	char	   *name;

	writer->name = pstrdup(table_name);
	name = infer_file_name_from_table(writer->name);
	infer_file_name_check(name);	/* whoever restored the table may have put anything there */
	infer_source_add(&writer->written, name);
	writer->chunk = 0;
	writer->hash = infer_hash_begin();
	writer->path = psprintf("%s/%s", writer->folder, name);
	make_parents(writer, name);
	writer->fd = OpenTransientFile(writer->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | PG_BINARY);
	if (writer->fd < 0)
		cache_failed("create file", writer->path);
}

static void
write_chunk(Writer *writer, const char *data, Size length)
{
	infer_hash_update(writer->hash, data, length);
	open_file(writer)->size += length;
	while (length > 0)
	{
		ssize_t		wrote;

		errno = 0;
		wrote = write(writer->fd, data, length);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
		{
			if (errno == 0)
				errno = ENOSPC;
			cache_failed("write file", writer->path);
		}
		data += wrote;
		length -= wrote;
	}
}

/* A scan over the chunks of a digest, by name and number. */
static SysScanDesc
scan_files(Relation files, Relation key, const uint8 *digest, Snapshot snapshot)
{
	ScanKeyData scan_key;

	ScanKeyInit(&scan_key, Anum_file_digest, BTEqualStrategyNumber, F_BYTEAEQ,
				PointerGetDatum(infer_make_bytea(digest, INFER_KEY_BYTES)));
	return systable_beginscan_ordered(files, key, snapshot, 1, &scan_key);
}

static void
write_files(Writer *writer, Relation files, Relation key, const uint8 *digest, Snapshot snapshot)
{
	TupleDesc	desc = RelationGetDescr(files);
	SysScanDesc scan = scan_files(files, key, digest, snapshot);
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "infer chunk", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = CurrentMemoryContext;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		bool		isnull;
		char	   *name;
		bytea	   *data;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(scratch);
		name = TextDatumGetCString(heap_getattr(tuple, Anum_file_name, desc, &isnull));
		data = DatumGetByteaPP(heap_getattr(tuple, Anum_file_data, desc, &isnull));
		MemoryContextSwitchTo(caller);
		if (writer->name == NULL || strcmp(writer->name, name) != 0)
		{
			finish_file(writer);
			begin_file(writer, name);
		}
		if (DatumGetInt32(heap_getattr(tuple, Anum_file_chunk, desc, &isnull)) != writer->chunk)
			corrupt(psprintf("File \"%s\" lacks chunk %d.", name, writer->chunk));
		writer->chunk++;
		write_chunk(writer, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data));
		MemoryContextReset(scratch);
	}
	finish_file(writer);
	systable_endscan_ordered(scan);
	MemoryContextDelete(scratch);
}

static void
write_folder(Relation files, Relation key, const uint8 *digest, Snapshot snapshot)
{
	Writer		writer = {.fd = -1};
	char		hex[CACHE_NAME_LENGTH + 1];

	cache_name(digest, hex);
	writer.folder = psprintf("%s/writing.%s", INFER_CACHE, hex);
	cache_make_folder(writer.folder);
	PG_TRY();
	{
		write_files(&writer, files, key, digest, snapshot);
		infer_source_sort(&writer.written);
		infer_source_combine(&writer.written);
		if (memcmp(writer.written.digest, digest, INFER_KEY_BYTES) != 0)
			corrupt("Their SHA-256 is not the version's digest.");
		cache_fsync(writer.folder);
		cache_put_in_place(writer.folder, hex);
	}
	PG_CATCH();
	{
		rmtree(writer.folder, true);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* Bytes of a digest's chunks, without reading them; false if there are none. */
static bool
stored_bytes(Relation files, Relation key, const uint8 *digest, Snapshot snapshot, uint64 *bytes)
{
	SysScanDesc scan = scan_files(files, key, digest, snapshot);
	bool		any = false;
	HeapTuple	tuple;

	*bytes = 0;
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		bool		isnull;

		any = true;
		*bytes += toast_raw_datum_size(heap_getattr(tuple, Anum_file_data, RelationGetDescr(files), &isnull)) - VARHDRSZ;
	}
	systable_endscan_ordered(scan);
	return any;
}

/*
 * Files belong to a digest, so any snapshot that sees them sees the same ones: the latest
 * (which sees what this transaction just created), else the statement's (which sees what
 * another has dropped since).  In parallel mode, where nothing is created, there is only
 * the statement's.
 */
static Snapshot
snapshot_with_files(const InferModel *model, Relation files, Relation key, uint64 *bytes)
{
	Snapshot	snapshot;

	if (!IsInParallelMode())
	{
		snapshot = infer_latest_snapshot();
		if (stored_bytes(files, key, model->digest, snapshot, bytes))
			return snapshot;
		UnregisterSnapshot(snapshot);
	}
	snapshot = RegisterSnapshot(GetActiveSnapshot());
	if (stored_bytes(files, key, model->digest, snapshot, bytes))
		return snapshot;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the files of model \"%s\" version %d are not in infer.model_file", model->name, model->version),
			 errhint("Create the version again with infer.create_model().")));
	return NULL;
}

/* Under the lock, which others need not wait for until our transaction's end. */
static void
replace_folder(Relation files, Relation key, const uint8 *digest, Snapshot snapshot, uint64 bytes)
{
	int			lock = cache_lock();
	char		hex[CACHE_NAME_LENGTH + 1];

	cache_name(digest, hex);
	PG_TRY();
	{
		cache_make_room(bytes, hex);
		write_folder(files, key, digest, snapshot);
	}
	PG_FINALLY();
	{
		CloseTransientFile(lock);
	}
	PG_END_TRY();
}

void
infer_model_materialise(const InferModel *model)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "infer materialise", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(scratch);
	Relation	files = table_open(infer_table_oid(INFER_TABLE_FILE), AccessShareLock);
	Relation	key = index_open(infer_table_key_oid(INFER_TABLE_FILE), AccessShareLock);
	uint64		bytes;
	Snapshot	snapshot = snapshot_with_files(model, files, key, &bytes);

	replace_folder(files, key, model->digest, snapshot, bytes);
	UnregisterSnapshot(snapshot);
	index_close(key, AccessShareLock);
	table_close(files, AccessShareLock);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
}

/* ---- by reference ---- */

/* The paths are the catalogue's: who calls the model has not given them. */
static void
reference_error(void *arg)
{
	const InferModel *model = arg;

	if (geterrcode() == ERRCODE_QUERY_CANCELED)
		return;
	errhint("Put the files back, or make a new version with infer.create_model().");
	errcontext("opening the files that model \"%s\", version %d, refers to", model->name, model->version);
}

int
infer_model_open_reference(const InferModel *model, char **names, uint64 *sizes, int *fds, int max)
{
	ErrorContextCallback context = {error_context_stack, reference_error, unconstify(InferModel *, model)};
	InferSource *source;
	int			count;

	if (!has_privs_of_role(model->owner, ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for the files of model \"%s\"", model->name),
				 errdetail("It is stored by reference, and its owner \"%s\" may not read files of the server.",
						   GetUserNameFromId(model->owner, false)),
				 errhint("Grant pg_read_server_files to the owner, or store a copy.")));
	error_context_stack = &context;
	source = infer_source_path(model->reference);
	count = infer_source_open_all(source, fds, sizes, max);
	error_context_stack = context.previous;
	for (int i = 0; i < count; i++)
		names[i] = source->files[i].name;
	return count;
}
