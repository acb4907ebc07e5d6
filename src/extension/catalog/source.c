/*
 * source.c
 *	  Where create_model takes a model's files from: a path of the server or a bytea
 *	  (upload.c has the third), read twice in pieces: once for the digest, once to store.
 *
 * A folder counts with all its regular files, also those of its subfolders, but without
 * names that begin with a dot.  A link counts as what it points to if that is a file in
 * the same folder, and is refused if it leaves the folder.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../compat.h"
#include "internal.h"

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

/* ---- a path ---- */

typedef struct PathSource
{
	InferSource base;
	char	   *root;				/* the folder or file, absolute, links resolved */
	bool		folder;
	int			fd;
	char	   *open_path;			/* for messages */
	uint8	   *buffer;				/* INFER_CHUNK_BYTES */
} PathSource;

/* without waiting, should it be a pipe */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | PG_BINARY)

static void
path_failed(const char *doing, const char *path)
{
	int			why = errno;

	ereport(ERROR,
			(why == ELOOP || why == ENAMETOOLONG ?
			 errcode(ERRCODE_INVALID_PARAMETER_VALUE) : errcode_for_file_access(),
			 errmsg("could not %s \"%s\": %m", doing, path),
			 why == ENOENT || why == ENOTDIR ?
			 errhint("The path is one of the server's. Send a client's file with data => ... or with infer.begin_upload() and infer.upload().") :
			 why == EACCES || why == EPERM ?
			 errhint("Let the user that the server runs as read it, or send the file as the argument data.") : 0));
}

static char *
path_of(const PathSource *source, int file)
{
	if (!source->folder)
		return pstrdup(source->root);
	return psprintf("%s/%s", source->root, source->base.files[file].name);
}

static void
check_mode(const struct stat *st, const char *path)
{
	if (!S_ISREG(st->st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a regular file", path),
				 errhint("Give a model's file, or the folder that holds its files.")));
}

static void
check_regular(int fd, const char *path, struct stat *st)
{
	if (fd < 0)
		path_failed("open file", path);
	if (fstat(fd, st) < 0)
		path_failed("stat file", path);
	check_mode(st, path);
}

static void
path_source_open(InferSource *base, int file)
{
	PathSource *source = (PathSource *) base;
	struct stat st;

	source->open_path = path_of(source, file);
	source->fd = OpenTransientFile(source->open_path, OPEN_FLAGS);
	check_regular(source->fd, source->open_path, &st);
}

static bool
path_source_next(InferSource *base, const uint8 **data, Size *length)
{
	PathSource *source = (PathSource *) base;
	Size		have = 0;

	while (have < INFER_CHUNK_BYTES)
	{
		ssize_t		got = read(source->fd, source->buffer + have, INFER_CHUNK_BYTES - have);

		if (got < 0)
			path_failed("read file", source->open_path);
		if (got == 0)
			break;
		have += got;
	}
	*data = source->buffer;
	*length = have;
	return have > 0;
}

static void
path_source_close(InferSource *base)
{
	CloseTransientFile(((PathSource *) base)->fd);
}

static const InferSourceOps path_ops = {
	.open = path_source_open,
	.next = path_source_next,
	.close = path_source_close,
};

/* Whether a link leads to a regular file below the root; raises if it does not.  st is that file's. */
static void
check_link(const PathSource *source, const char *path, struct stat *st)
{
	Size		root_length = strlen(source->root);
	char		target[MAXPGPATH];
	char	   *resolved = realpath(path, NULL);

	if (resolved == NULL)
		path_failed("resolve link", path);
	strlcpy(target, resolved, sizeof(target));
	free(resolved);
	if (strncmp(target, source->root, root_length) != 0 || target[root_length] != '/')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("link \"%s\" leaves the model's folder", path),
				 errhint("Put a copy of the file in its place, as \"cp -rL\" does.")));
	if (stat(target, st) < 0)
		path_failed("stat file", target);
	if (!S_ISREG(st->st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("link \"%s\" does not lead to a regular file", path),
				 errhint("Put the file in its place, or remove the link.")));
}

static void
add_file(PathSource *source, const char *name, const struct stat *st)
{
	infer_file_name_check(name);
	infer_source_add(&source->base, name);
	source->base.files[source->base.files_count - 1].size = st->st_size;
}

/* Adds the files of a folder; prefix is its name below the root with a '/', or "". */
static void
walk_folder(PathSource *source, const char *prefix, int depth)
{
	char	   *folder = psprintf("%s/%s", source->root, prefix);
	DIR		   *dir;
	struct dirent *entry;

	if (depth > INFER_DEPTH_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("folder \"%s\" is nested too deeply", folder),
				 errdetail("At most %d folders may lie within each other.", INFER_DEPTH_MAX)));
	dir = AllocateDir(folder);
	while ((entry = ReadDir(dir, folder)) != NULL)
	{
		char	   *path;
		char	   *name;
		struct stat st;

		CHECK_FOR_INTERRUPTS();
		if (entry->d_name[0] == '.')
			continue;
		path = psprintf("%s%s", folder, entry->d_name);
		name = psprintf("%s%s", prefix, entry->d_name);
		if (lstat(path, &st) < 0)
			path_failed("stat file", path);
		if (S_ISDIR(st.st_mode))
		{
			walk_folder(source, psprintf("%s/", name), depth + 1);
			continue;
		}
		if (S_ISLNK(st.st_mode))
			check_link(source, path, &st);
		else
			check_mode(&st, path);
		add_file(source, name, &st);
	}
	FreeDir(dir);
}

InferSource *
infer_source_path(const char *path)
{
	PathSource *source = palloc0(sizeof(PathSource));
	char	   *resolved;
	struct stat st;

	source->base.ops = &path_ops;
	source->buffer = palloc(INFER_CHUNK_BYTES);
	if (!is_absolute_path(path))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("path \"%s\" is not absolute", path),
				 errhint("Give the whole path of a file or folder of the server, beginning with \"/\".")));
	resolved = realpath(path, NULL);
	if (resolved == NULL)
		path_failed("find", path);
	source->root = pstrdup(resolved);
	free(resolved);
	if (stat(source->root, &st) < 0)
		path_failed("stat", path);
	source->folder = S_ISDIR(st.st_mode);
	if (source->folder)
		walk_folder(source, "", 1);
	else
	{
		/* the name that the caller wrote, where the path is a link */
		const char *name = last_dir_separator(path) + 1;

		check_mode(&st, source->root);
		add_file(source, name, &st);
	}
	if (source->base.files_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("folder \"%s\" holds no files", path),
				 errhint("Give a folder with the model's files; names that begin with a dot do not count.")));
	infer_source_sort(&source->base);
	return &source->base;
}

int
infer_source_open_all(InferSource *base, int *fds, uint64 *sizes, int max)
{
	PathSource *source = (PathSource *) base;
	volatile int opened = 0;

	Assert(base->ops == &path_ops);
	if (base->files_count > max)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a model stored by reference has at most %d files", max),
				 errhint("Give a folder that holds only what the model needs, or store a copy.")));
	PG_TRY();
	{
		while (opened < base->files_count)
		{
			char	   *path;
			struct stat st;

			fds[opened] = -1;
			path = path_of(source, opened);
			fds[opened] = BasicOpenFile(path, OPEN_FLAGS);
			check_regular(fds[opened], path, &st);
			sizes[opened++] = st.st_size;
		}
	}
	PG_CATCH();
	{
		for (int i = 0; i <= opened && i < base->files_count; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return base->files_count;
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
