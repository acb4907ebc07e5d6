/*
 * cache.c
 *	  The server's model cache: folders of files, named by their digest, that the engine maps.
 *
 * Invariants
 *	- A folder whose name is a digest was whole when it was renamed to that.  Nothing in it
 *	  is ever written again: it is replaced, or removed, as one.
 *	- There is one writer at a time on a server (the lock is a file's, so it ends with its
 *	  holder, however that ends); so the sum of sizes is known, and any folder of another
 *	  name is rubbish.
 *	- The engine maps files, so removing a folder in use takes nothing from anybody.
 *	- Beside the folders of digests there is one of packed models, which the engine writes, and
 *	  nobody else: one file each.  Here they only count, and go in turn with the folders.
 *	- The cache is only a cache: any of it may be gone at any time.
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"

#include "../../infer.h"
#include "cache.h"

#define CACHE_LOCK			INFER_DIRECTORY "/models.lock"
#define PACKED_FOLDER		"packed"	/* the engine's: see src/engine/registry/packed_store.h */
#define PACKED_BYTES_MIN	(1024 * 1024)	/* smaller models have no packed form */
#define LOCK_POLL_MS		20

typedef struct CacheItem			/* the folder of a digest, or a packed model */
{
	char		name[MAXPGPATH];	/* in the cache */
	bool		is_folder;
	uint64		bytes;
	struct timespec used;			/* the engine sets it when it loads the model */
} CacheItem;

typedef struct CacheList
{
	int			count;
	int			room;
	CacheItem  *items;
} CacheList;

/* ---- errors and small things of files ---- */

void
cache_failed(const char *doing, const char *path)
{
	bool		full = errno == ENOSPC || errno == EDQUOT;

	ereport(ERROR,
			(full ? errcode(ERRCODE_DISK_FULL) : errcode_for_file_access(),
			 errmsg("could not %s \"%s\" of the model cache: %m", doing, path),
			 full ? errhint("Free space on the file system of the data directory.") : 0));
}

void
cache_make_folder(const char *path)
{
	if (MakePGDirectory(path) < 0 && errno != EEXIST)
		cache_failed("create folder", path);
}

void
cache_name(const uint8 *digest, char *hex)
{
	hex[hex_encode((const char *) digest, INFER_KEY_BYTES, hex)] = '\0';
}

static bool
is_hex_name(const char *name)
{
	return strlen(name) == CACHE_NAME_LENGTH && strspn(name, "0123456789abcdef") == CACHE_NAME_LENGTH;
}

/* ---- the lock ---- */

int
cache_lock(void)
{
	int			fd;

	cache_make_folder("pg_infer");
	cache_make_folder(INFER_DIRECTORY);
	cache_make_folder(INFER_CACHE);
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
	const struct timespec *left = &((const CacheItem *) a)->used;
	const struct timespec *right = &((const CacheItem *) b)->used;

	if (left->tv_sec != right->tv_sec)
		return left->tv_sec < right->tv_sec ? -1 : 1;
	return left->tv_nsec < right->tv_nsec ? -1 : left->tv_nsec > right->tv_nsec;
}

static void
list_add(CacheList *list, const char *name, const struct stat *st, uint64 bytes)
{
	CacheItem  *item;

	if (list->count == list->room)
	{
		list->room = Max(16, list->room * 2);
		list->items = list->items == NULL ? palloc(sizeof(CacheItem) * list->room) :
			repalloc(list->items, sizeof(CacheItem) * list->room);
	}
	item = &list->items[list->count++];
	strlcpy(item->name, name, sizeof(item->name));
	item->is_folder = S_ISDIR(st->st_mode);
	item->bytes = bytes;
	item->used = st->st_mtim;
}

/* The folders of digests; rubbish is removed on the way. */
static void
list_folders(CacheList *list)
{
	DIR		   *dir = AllocateDir(INFER_CACHE);
	List	   *rubbish = NIL;
	struct dirent *entry;
	ListCell   *lc;

	while ((entry = ReadDir(dir, INFER_CACHE)) != NULL)
	{
		char	   *path = psprintf("%s/%s", INFER_CACHE, entry->d_name);
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || lstat(path, &st) < 0)
			continue;
		if (is_hex_name(entry->d_name) && S_ISDIR(st.st_mode))
			list_add(list, entry->d_name, &st, folder_bytes(path, 1));
		else if (strcmp(entry->d_name, PACKED_FOLDER) != 0 || !S_ISDIR(st.st_mode))
			rubbish = lappend(rubbish, path);
	}
	FreeDir(dir);
	foreach(lc, rubbish)
		if (unlink(lfirst(lc)) < 0)
			rmtree(lfirst(lc), true);
}

/* The packed models; the folder may not be there. */
static void
list_packed(CacheList *list)
{
	DIR		   *dir = AllocateDir(INFER_CACHE "/" PACKED_FOLDER);
	struct dirent *entry;

	if (dir == NULL && errno == ENOENT)
		return;
	while ((entry = ReadDir(dir, INFER_CACHE "/" PACKED_FOLDER)) != NULL)
	{
		char	   *name = psprintf(PACKED_FOLDER "/%s", entry->d_name);
		struct stat st;

		if (lstat(psprintf("%s/%s", INFER_CACHE, name), &st) == 0 && S_ISREG(st.st_mode))
			list_add(list, name, &st, st.st_size);
	}
	FreeDir(dir);
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

static void
remove_item(const CacheItem *item)
{
	char	   *path = psprintf("%s/%s", INFER_CACHE, item->name);

	if (item->is_folder)
		remove_folder(item->name);
	else if (unlink(path) < 0 && errno != ENOENT)
		cache_failed("remove", path);
}

void
cache_make_room(uint64 bytes, const char *keep)
{
	uint64		limit = (uint64) infer_cache_size * 1024 * 1024;
	uint64		held = 0;
	uint64		wanted = bytes >= PACKED_BYTES_MIN && bytes <= limit / 2 ? 2 * bytes : bytes;
	CacheList	list = {0};

	list_folders(&list);
	if (limit == 0)
		return;
	if (bytes > limit)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the model's " UINT64_FORMAT " bytes of files do not fit into infer.cache_size (%d MB)",
						bytes, infer_cache_size),
				 errhint("Raise infer.cache_size.")));
	list_packed(&list);
	if (list.count > 0)
		qsort(list.items, list.count, sizeof(CacheItem), compare_used);
	for (int i = 0; i < list.count; i++)
		if (strcmp(list.items[i].name, keep) != 0)
			held += list.items[i].bytes;
	for (int i = 0; i < list.count && held + wanted > limit; i++)
	{
		if (strcmp(list.items[i].name, keep) == 0)
			continue;
		remove_item(&list.items[i]);
		held -= list.items[i].bytes;
	}
}

/* ---- a folder that was written ---- */

void
cache_fsync(const char *path)
{
	DIR		   *dir = AllocateDir(path);
	struct dirent *entry;

	while ((entry = ReadDir(dir, path)) != NULL)
	{
		char	   *inner = psprintf("%s/%s", path, entry->d_name);
		struct stat st;

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			lstat(inner, &st) == 0 && S_ISDIR(st.st_mode))
			cache_fsync(inner);
	}
	FreeDir(dir);
	fsync_fname(path, true);
}

void
cache_put_in_place(const char *folder, const char *hex)
{
	char	   *final = psprintf("%s/%s", INFER_CACHE, hex);

	remove_folder(hex);
	if (rename(folder, final) < 0)
		cache_failed("rename", folder);
	fsync_fname(INFER_CACHE, true);
}
