/*
 * packed_store.c
 *	  See packed_store.h.
 *
 * Loop of writing
 *	lock the cache, as the backends that write model files do; count what is in it; remove packed
 *	files until there is room; allocate the file's whole size under the name "writing", so that
 *	others count it; unlock; write, fsync, rename.
 *
 * A failure is no error of the load: the model is packed already, and is packed again the
 * next time.  The first in a row is logged.
 */
#include "packed_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../model/packed.h"
#include "../process/log.h"

#define WRITING			"writing"
#define CHUNK_BYTES		(UINT64_C(4) << 20)		/* between two looks at stop */
#define KEPT_MAX		4096					/* packed files that are looked at when room is made */

static bool complained;				/* of the last write, if it failed */

/* ---- names ---- */

static void
key_make(const struct engine *engine, const uint8_t *model, struct packed_key *key)
{
	memset(key, 0, sizeof(*key));
	memcpy(key->model, model, sizeof(key->model));
	snprintf(key->numerics_id, sizeof(key->numerics_id), "%s", engine->info.numerics_id);
	snprintf(key->layout, sizeof(key->layout), "%s", engine->info.weight_layout);
}

static bool
path_make(const struct engine *engine, const char *name, char path[PATH_MAX])
{
	return engine->cache != NULL &&
		snprintf(path, PATH_MAX, "%s/" PACKED_FOLDER "/%s", engine->cache, name) < PATH_MAX;
}

static bool
file_path(const struct engine *engine, const struct packed_key *key, char path[PATH_MAX])
{
	char		name[2 * INFER_KEY_BYTES + 32];
	int			used = 0;

	for (int i = 0; i < INFER_KEY_BYTES; i++)
		used += sprintf(name + used, "%02x", key->model[i]);
	sprintf(name + used, ".%016llx", (unsigned long long)
			packed_sum(PACKED_VERSION, key->numerics_id, sizeof(key->numerics_id) + sizeof(key->layout)));
	return path_make(engine, name, path);
}

/* The folder, and the cache around it, either of which may have been removed. */
static bool
folder_make(const char *cache)
{
	char		path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/" PACKED_FOLDER, cache) >= (int) sizeof(path))
	{
		errno = ENAMETOOLONG;
		return false;
	}
	(void) mkdir(cache, 0700);	/* without it the next one fails */
	return mkdir(path, 0700) == 0 || errno == EEXIST;
}

void
packed_store_prepare(const char *cache)
{
	char		path[PATH_MAX];

	if (!folder_make(cache))
		log_write(LOG_WARNING, "could not create the folder \"%s/" PACKED_FOLDER "\": %s", cache, strerror(errno));
	if (snprintf(path, sizeof(path), "%s/" PACKED_FOLDER "/" WRITING, cache) < (int) sizeof(path))
		unlink(path);
}

/* ---- reading ---- */

/* A mapping of a regular file, which is no link; NULL if there is none. */
static const uint8_t *
map_file(const char *path, uint64_t *size)
{
	int			fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const uint8_t *map = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
	{
		*size = (uint64_t) st.st_size;
		map = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map == MAP_FAILED)
			map = NULL;
		else
			madvise((void *) map, *size, MADV_WILLNEED);
		futimens(fd, NULL);		/* used now: the oldest go first */
	}
	close(fd);
	return map;
}

struct packed *
packed_store_read(struct engine *engine, const uint8_t model[INFER_KEY_BYTES])
{
	struct packed_key key;
	struct packed *packed;
	char		path[PATH_MAX];
	const uint8_t *map;
	uint64_t	size;

	key_make(engine, model, &key);
	if (!file_path(engine, &key, path) || (map = map_file(path, &size)) == NULL)
		return NULL;
	packed = calloc(1, sizeof(*packed));
	if (packed != NULL && packed_read(map, size, &key, packed))
		return packed;
	free(packed);
	munmap((void *) map, size);
	log_write(LOG_INFO, "a packed model in the cache is damaged: it is packed anew");
	unlink(path);
	return NULL;
}

void
packed_store_remove(struct engine *engine, const uint8_t model[INFER_KEY_BYTES])
{
	struct packed_key key;
	char		path[PATH_MAX];

	key_make(engine, model, &key);
	if (file_path(engine, &key, path))
		unlink(path);
}

/* ---- room ---- */

struct kept
{
	char		name[2 * INFER_KEY_BYTES + 32];
	uint64_t	bytes;
	struct timespec used;
};

/* Bytes of all files below a folder; takes the descriptor. */
static uint64_t
folder_bytes(int folder, int depth)
{
	DIR		   *dir = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *entry;
	uint64_t	bytes = 0;

	if (dir == NULL)
	{
		if (folder >= 0)
			close(folder);
		return 0;
	}
	while ((entry = readdir(dir)) != NULL)
	{
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth < 2 * FILES_DEPTH)
			bytes += folder_bytes(openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), depth + 1);
		else if (S_ISREG(st.st_mode))
			bytes += (uint64_t) st.st_size;
	}
	closedir(dir);
	return bytes;
}

static int
kept_compare(const void *a, const void *b)
{
	const struct timespec *x = &((const struct kept *) a)->used;
	const struct timespec *y = &((const struct kept *) b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* The packed files, longest unused first; NULL without memory. */
static struct kept *
list_kept(const char *folder, uint32_t *count, uint64_t *bytes)
{
	struct kept *kept = calloc(KEPT_MAX, sizeof(*kept));
	DIR		   *dir = opendir(folder);
	struct dirent *entry;

	*count = 0;
	*bytes = 0;
	while (kept != NULL && dir != NULL && *count < KEPT_MAX && (entry = readdir(dir)) != NULL)
	{
		struct kept *one = &kept[*count];
		struct stat st;

		if (strlen(entry->d_name) >= sizeof(one->name) ||
			fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		strcpy(one->name, entry->d_name);
		one->bytes = (uint64_t) st.st_size;
		one->used = st.st_mtim;
		*bytes += one->bytes;
		(*count)++;
	}
	if (dir != NULL)
		closedir(dir);
	if (kept != NULL)
		qsort(kept, *count, sizeof(*kept), kept_compare);
	return kept;
}

/* infer.cache_size, for model files and packed files together. */
static bool
make_room(struct engine *engine, uint64_t bytes)
{
	uint64_t	limit = __atomic_load_n(&engine->settings.cache_size, __ATOMIC_RELAXED);
	char		path[PATH_MAX];
	uint64_t	held;
	uint64_t	packed;
	uint32_t	count;
	struct kept *kept;

	if (limit == 0)
		return true;
	if (!path_make(engine, "", path))
		return false;
	held = folder_bytes(open(engine->cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0);
	kept = list_kept(path, &count, &packed);
	if (kept == NULL || bytes > limit || held - (packed < held ? packed : held) > limit - bytes)
	{
		free(kept);
		return false;
	}
	for (uint32_t i = 0; i < count && held > limit - bytes; i++)
	{
		if (path_make(engine, kept[i].name, path) && unlink(path) == 0)
			held -= kept[i].bytes < held ? kept[i].bytes : held;
	}
	free(kept);
	return held <= limit - bytes;
}

/* The lock of those who write model files: -1 if there is none to take; busy: another has it. */
static int
lock_cache(const struct engine *engine, bool *busy)
{
	char		path[PATH_MAX];
	int			fd = -1;

	*busy = false;
	if (snprintf(path, sizeof(path), "%s.lock", engine->cache) < (int) sizeof(path))
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
	{
		*busy = errno == EWOULDBLOCK || errno == EINTR;
		close(fd);
		fd = -1;
	}
	return fd;
}

/* ---- writing ---- */

static enum packed_result
refuse(const char *what, int error)
{
	if (!complained)
		log_write(LOG_WARNING, "packed models are not kept in the cache: %s%s%s", what,
				  error != 0 ? ": " : "", error != 0 ? strerror(error) : "");
	complained = true;
	return PACKED_REFUSED;
}

static bool
write_all(int fd, const uint8_t *data, uint64_t bytes, uint64_t offset)
{
	while (bytes > 0)
	{
		ssize_t		wrote = pwrite(fd, data, bytes, (off_t) offset);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return false;
		data += wrote;
		offset += (uint64_t) wrote;
		bytes -= (uint64_t) wrote;
	}
	return true;
}

static enum packed_result
write_weights(struct engine *engine, int fd, const struct packed_form *form, uint64_t at,
			  bool (*stop) (struct engine *engine))
{
	for (uint32_t i = 0; i < form->weights_count; i++)
	{
		const struct packed_weight *weight = &form->weights[i];

		at = packed_aligned(at);
		for (uint64_t done = 0; done < weight->bytes; done += CHUNK_BYTES)
		{
			uint64_t	part = weight->bytes - done < CHUNK_BYTES ? weight->bytes - done : CHUNK_BYTES;

			if (stop != NULL && stop(engine))
				return PACKED_INTERRUPTED;
			if (!write_all(fd, (const uint8_t *) weight->data + done, part, at + done))
				return refuse("writing", errno);
			sync_file_range(fd, (off_t) (at + done), (off_t) part, SYNC_FILE_RANGE_WRITE);
		}
		at += weight->bytes;
	}
	return PACKED_WRITTEN;
}

/* An empty file of that size, which counts from now on. */
static enum packed_result
create_file(struct engine *engine, const char *path, uint64_t bytes, int *fd)
{
	bool		busy;
	int			lock = lock_cache(engine, &busy);
	enum packed_result result = PACKED_WRITTEN;
	int			failed;

	if (busy)
		return PACKED_BUSY;
	unlink(path);
	*fd = -1;
	if (!folder_make(engine->cache))
		result = refuse("creating the folder", errno);
	else if (!make_room(engine, bytes))
		result = refuse("no room in infer.cache_size", 0);
	else if ((*fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
		result = refuse("creating a file", errno);
	else if ((failed = posix_fallocate(*fd, 0, (off_t) bytes)) != 0)
		result = refuse("allocating a file", failed);
	if (lock >= 0)
		close(lock);
	return result;
}

static void
sync_folder(const struct engine *engine)
{
	char		path[PATH_MAX];
	int			fd = path_make(engine, "", path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

static enum packed_result
write_file(struct engine *engine, const char *path, const char *final, const struct packed_form *form,
		   const void *head, uint64_t head_bytes, uint64_t total, bool (*stop) (struct engine *engine))
{
	int			fd = -1;
	enum packed_result result = create_file(engine, path, total, &fd);

	if (result == PACKED_BUSY)
		return result;
	if (result == PACKED_WRITTEN && !write_all(fd, head, head_bytes, 0))
		result = refuse("writing", errno);
	if (result == PACKED_WRITTEN)
		result = write_weights(engine, fd, form, head_bytes, stop);
	if (result == PACKED_WRITTEN && fsync(fd) < 0)
		result = refuse("fsync", errno);
	if (fd >= 0)
		close(fd);
	if (result == PACKED_WRITTEN && rename(path, final) < 0)
		result = refuse("renaming a file", errno);
	if (result != PACKED_WRITTEN)
		unlink(path);
	return result;
}

enum packed_result
packed_store_write(struct engine *engine, const uint8_t model[INFER_KEY_BYTES], const struct model_files *files,
				   const struct packed_form *form, bool (*stop) (struct engine *engine))
{
	char		path[PATH_MAX];
	char		final[PATH_MAX];
	struct packed_key key;
	enum packed_result result;
	uint64_t	head_bytes;
	uint64_t	total;
	void	   *head;

	key_make(engine, model, &key);
	if (!path_make(engine, WRITING, path) || !file_path(engine, &key, final))
		return PACKED_REFUSED;
	if (access(final, F_OK) == 0)
		return PACKED_WRITTEN;		/* one that was not right would have been removed */
	head = packed_head_make(form, &key, packed_files_sum(files, form), &head_bytes, &total);
	if (head == NULL)
		return refuse("out of memory", 0);
	result = write_file(engine, path, final, form, head, head_bytes, total, stop);
	free(head);
	if (result == PACKED_WRITTEN)
	{
		complained = false;
		sync_folder(engine);
	}
	return result;
}
