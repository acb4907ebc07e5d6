/*
 * materialise.c
 *	  The server's model cache: folders of files, named by their digest, that the engine maps.
 *
 * Loop
 *	lock the cache; remove what dead writers left; make room; write the chunks of
 *	infer.model_file into a folder of another name, hashing them; fsync; compare the
 *	digest; rename; unlock.
 *
 * Invariants
 *	- A folder whose name is a digest was whole when it was renamed to that.  Nothing in it
 *	  is ever written again: it is replaced, or removed, as one.
 *	- There is one writer at a time on a server (the lock is a file's, so it ends with its
 *	  holder, however that ends); so the sum of sizes is known, and any folder of another
 *	  name is rubbish.
 *	- The engine maps files, so removing a folder in use takes nothing from anybody.
 *	- The cache is only a cache: any of it may be gone at any time.
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/detoast.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "common/file_perm.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../catalog.h"
#include "../compat.h"
#include "../infer.h"
#include "internal.h"

#define CACHE_LOCK			INFER_DIRECTORY "/models.lock"
#define HEX_LENGTH			(2 * INFER_KEY_BYTES)
#define LOCK_POLL_MS		20

typedef struct CacheFolder
{
	char		name[HEX_LENGTH + 1];
	uint64		bytes;
	struct timespec used;			/* the engine sets it when it loads the model */
} CacheFolder;

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

/* ---- errors and small things of files ---- */

static void
cache_failed(const char *doing, const char *path)
{
	bool		full = errno == ENOSPC || errno == EDQUOT;

	ereport(ERROR,
			(full ? errcode(ERRCODE_DISK_FULL) : errcode_for_file_access(),
			 errmsg("could not %s \"%s\" of the model cache: %m", doing, path),
			 full ? errhint("Free space on the file system of the data directory.") : 0));
}

static void
make_folder(const char *path)
{
	if (MakePGDirectory(path) < 0 && errno != EEXIST)
		cache_failed("create folder", path);
}

static void
hex_name(const uint8 *digest, char *hex)
{
	hex[hex_encode((const char *) digest, INFER_KEY_BYTES, hex)] = '\0';
}

static bool
is_hex_name(const char *name)
{
	return strlen(name) == HEX_LENGTH && strspn(name, "0123456789abcdef") == HEX_LENGTH;
}

/* ---- the lock ---- */

/* Waits for the lock as long as it takes, or until the statement is cancelled. */
static int
lock_cache(void)
{
	int			fd;

	make_folder("pg_infer");
	make_folder(INFER_DIRECTORY);
	make_folder(INFER_CACHE);
	fd = OpenTransientFile(CACHE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | PG_BINARY);
	if (fd < 0)
		cache_failed("open lock", CACHE_LOCK);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0)
	{
		if (errno != EWOULDBLOCK && errno != EINTR)
			cache_failed("lock", CACHE_LOCK);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOCK_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return fd;
}

/* ---- what is in the cache ---- */

/* Bytes of all files below a folder; what vanishes meanwhile counts nothing. */
static uint64
folder_bytes(const char *path, int depth)
{
	DIR		   *dir = AllocateDir(path);
	struct dirent *entry;
	uint64		bytes = 0;

	while ((entry = ReadDirExtended(dir, path, LOG)) != NULL)
	{
		char	   *inner;
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		inner = psprintf("%s/%s", path, entry->d_name);
		if (lstat(inner, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < 2 * INFER_DEPTH_MAX)
			bytes += folder_bytes(inner, depth + 1);
		else if (S_ISREG(st.st_mode))
			bytes += st.st_size;
	}
	FreeDir(dir);
	return bytes;
}

static int
compare_used(const void *a, const void *b)
{
	const struct timespec *left = &((const CacheFolder *) a)->used;
	const struct timespec *right = &((const CacheFolder *) b)->used;

	if (left->tv_sec != right->tv_sec)
		return left->tv_sec < right->tv_sec ? -1 : 1;
	return left->tv_nsec < right->tv_nsec ? -1 : left->tv_nsec > right->tv_nsec;
}

/* The folders of digests, longest unused first; rubbish is removed on the way. */
static CacheFolder *
list_folders(int *count)
{
	DIR		   *dir = AllocateDir(INFER_CACHE);
	int			room = 16;
	CacheFolder *folders = palloc(sizeof(CacheFolder) * room);
	List	   *rubbish = NIL;
	struct dirent *entry;
	ListCell   *lc;

	*count = 0;
	while ((entry = ReadDir(dir, INFER_CACHE)) != NULL)
	{
		char	   *path = psprintf("%s/%s", INFER_CACHE, entry->d_name);
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || lstat(path, &st) < 0)
			continue;
		if (!is_hex_name(entry->d_name) || !S_ISDIR(st.st_mode))
		{
			rubbish = lappend(rubbish, path);
			continue;
		}
		if (*count == room)
			folders = repalloc(folders, sizeof(CacheFolder) * (room *= 2));
		strlcpy(folders[*count].name, entry->d_name, sizeof(folders[*count].name));
		folders[*count].bytes = folder_bytes(path, 1);
		folders[*count].used = st.st_mtim;
		(*count)++;
	}
	FreeDir(dir);
	foreach(lc, rubbish)
		if (unlink(lfirst(lc)) < 0)
			rmtree(lfirst(lc), true);
	qsort(folders, *count, sizeof(CacheFolder), compare_used);
	return folders;
}

/* Removes a whole folder; under its digest's name it is never seen in part. */
static void
remove_folder(const char *name)
{
	char	   *path = psprintf("%s/%s", INFER_CACHE, name);
	char	   *removed = psprintf("%s/removed.%s", INFER_CACHE, name);

	if (rename(path, removed) == 0)
		rmtree(removed, true);
	else if (errno != ENOENT)
		cache_failed("rename", path);
}

/*
 * Removes the longest unused folders until so many bytes have room under infer.cache_size
 * (0: no limit); keep is the one that will be replaced.
 */
static void
make_room(uint64 bytes, const char *keep)
{
	uint64		limit = (uint64) infer_cache_size * 1024 * 1024;
	uint64		held = 0;
	int			count;
	CacheFolder *folders = list_folders(&count);

	if (limit == 0)
		return;
	if (bytes > limit)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the model's " UINT64_FORMAT " bytes of files do not fit into infer.cache_size (%d MB)",
						bytes, infer_cache_size),
				 errhint("Raise infer.cache_size.")));
	for (int i = 0; i < count; i++)
		if (strcmp(folders[i].name, keep) != 0)
			held += folders[i].bytes;
	for (int i = 0; i < count && held + bytes > limit; i++)
	{
		if (strcmp(folders[i].name, keep) == 0)
			continue;
		remove_folder(folders[i].name);
		held -= folders[i].bytes;
	}
}

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
		make_folder(psprintf("%s/%.*s", writer->folder, (int) (slash - name), name));
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
fsync_folders(const char *path)
{
	DIR		   *dir = AllocateDir(path);
	struct dirent *entry;

	while ((entry = ReadDir(dir, path)) != NULL)
	{
		char	   *inner = psprintf("%s/%s", path, entry->d_name);
		struct stat st;

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			lstat(inner, &st) == 0 && S_ISDIR(st.st_mode))
			fsync_folders(inner);
	}
	FreeDir(dir);
	fsync_fname(path, true);
}

/* Gives the written folder its digest's name, in place of a damaged one. */
static void
put_in_place(const char *folder, const char *hex)
{
	char	   *final = psprintf("%s/%s", INFER_CACHE, hex);

	remove_folder(hex);
	if (rename(folder, final) < 0)
		cache_failed("rename", folder);
	fsync_fname(INFER_CACHE, true);
}

static void
write_folder(Relation files, Relation key, const uint8 *digest, Snapshot snapshot)
{
	Writer		writer = {.fd = -1};
	char		hex[HEX_LENGTH + 1];

	hex_name(digest, hex);
	writer.folder = psprintf("%s/writing.%s", INFER_CACHE, hex);
	make_folder(writer.folder);
	PG_TRY();
	{
		write_files(&writer, files, key, digest, snapshot);
		infer_source_sort(&writer.written);
		infer_source_combine(&writer.written);
		if (memcmp(writer.written.digest, digest, INFER_KEY_BYTES) != 0)
			corrupt("Their SHA-256 is not the version's digest.");
		fsync_folders(writer.folder);
		put_in_place(writer.folder, hex);
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
	int			lock = lock_cache();
	char		hex[HEX_LENGTH + 1];

	hex_name(digest, hex);
	PG_TRY();
	{
		make_room(bytes, hex);
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

int
infer_model_open_reference(const InferModel *model, char **names, uint64 *sizes, int *fds, int max)
{
	InferSource *source;
	int			count;

	if (!has_privs_of_role(model->owner, ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for the files of model \"%s\"", model->name),
				 errdetail("It is stored by reference, and its owner \"%s\" may not read files of the server.",
						   GetUserNameFromId(model->owner, false)),
				 errhint("Grant pg_read_server_files to the owner, or store a copy.")));
	source = infer_source_path(model->reference);
	count = infer_source_open_all(source, fds, sizes, max);
	for (int i = 0; i < count; i++)
		names[i] = source->files[i].name;
	return count;
}
