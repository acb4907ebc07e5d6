/*
 * files.c
 *	  See files.h.
 *
 * Invariants
 *	- A mapping is private and read-only.  An empty file has a pointer to an empty string.
 *	- On failure nothing stays open or mapped.
 */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "../status.h"
#include "packed.h"

#define REST_BYTES	(1u << 20)		/* of a file: less is not worth a system call and faults */

static const uint8_t empty_file[1];

static bool
files_room(struct model_files *files, struct status *status)
{
	struct model_file *grown;

	if (files->count >= FILES_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a model of more than %d files is not supported", FILES_MAX);
	if ((files->count & (files->count - 1)) != 0)
		return true;			/* room doubles at powers of two */
	grown = realloc(files->files, (files->count == 0 ? 1 : 2 * (size_t) files->count) * sizeof(*grown));
	if (grown == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a model's list of files");
	files->files = grown;
	return true;
}

/* Maps an open file and adds it under its name. */
static bool
files_add(struct model_files *files, const char *name, int fd, struct status *status)
{
	struct stat st;
	const uint8_t *data = empty_file;
	char	   *copy;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return status_set(status, INFER_ERROR_MODEL, "\"%s\" is not a regular file", name);
	if (!files_room(files, status))
		return false;
	copy = strdup(name);
	if (copy == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a model's list of files");
	if (st.st_size > 0)
	{
		data = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (data == MAP_FAILED)
		{
			free(copy);
			return status_set(status, INFER_ERROR_MEMORY, "could not map \"%s\": %s", name, strerror(errno));
		}
	}
	files->files[files->count++] = (struct model_file) {
		.name = copy, .data = data, .size = (uint64_t) st.st_size
	};
	return true;
}

void
files_rest(const struct model_files *files)
{
	for (uint32_t i = 0; i < files->count; i++)
		if (files->files[i].size >= REST_BYTES)
			madvise((void *) files->files[i].data, files->files[i].size, MADV_DONTNEED);
}

void
files_close(struct model_files *files)
{
	for (uint32_t i = 0; i < files->count; i++)
	{
		if (files->files[i].size > 0)
			munmap((void *) files->files[i].data, files->files[i].size);
		free((char *) files->files[i].name);
	}
	free(files->files);
	packed_close(files->packed);
	*files = (struct model_files) {0};
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(((const struct model_file *) a)->name, ((const struct model_file *) b)->name);
}

static enum files_result
finish(struct model_files *files, bool good)
{
	if (!good)
	{
		files_close(files);
		return FILES_FAILED;
	}
	if (files->count == 0)
		return FILES_MISSING;
	qsort(files->files, files->count, sizeof(*files->files), compare_names);
	return FILES_OK;
}

static bool walk(struct model_files *files, int folder_fd, const char *prefix, int depth,
				 struct status *status);

/* One entry of a folder; what is neither file nor folder is refused. */
static bool
walk_entry(struct model_files *files, int folder_fd, const char *prefix, const char *entry,
		   int depth, struct status *status)
{
	char		name[INFER_NAME_MAX + 1];
	struct stat st;
	bool		good;
	int			fd;

	if (snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] != '\0' ? "/" : "", entry) >= (int) sizeof(name))
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the name of file \"%s\" in a model's folder is too long", entry);
	fd = openat(folder_fd, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return status_set(status, INFER_ERROR_MODEL, "could not open \"%s\": %s", name, strerror(errno));
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return walk(files, fd, name, depth + 1, status);	/* takes fd */
	good = files_add(files, name, fd, status);
	close(fd);
	return good;
}

static bool
walk(struct model_files *files, int folder_fd, const char *prefix, int depth, struct status *status)
{
	struct dirent *entry;
	bool		good = true;
	DIR		   *dir;

	if (depth > FILES_DEPTH || (dir = fdopendir(folder_fd)) == NULL)
	{
		close(folder_fd);
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a model's folder may not be more than %d levels deep", FILES_DEPTH);
	}
	while (good && (entry = readdir(dir)) != NULL)
	{
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			good = walk_entry(files, dirfd(dir), prefix, entry->d_name, depth, status);
	}
	closedir(dir);
	return good;
}

enum files_result
files_open_folder(const char *path, struct model_files *files, struct status *status)
{
	int			fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	enum files_result result;

	*files = (struct model_files) {0};
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return FILES_MISSING;
	if (fd < 0)
	{
		status_set(status, INFER_ERROR_INTERNAL, "could not open the folder \"%s\": %s", path, strerror(errno));
		status_hint(status, "The server's user must be able to read it, and links are not followed out of the data directory.");
		return FILES_FAILED;
	}
	result = finish(files, walk(files, fd, "", 0, status));
	if (result != FILES_FAILED || status->error != INFER_ERROR_MODEL)
		return result;
	status_clear(status);		/* something else lies where a file was: damaged */
	return FILES_MISSING;
}

enum files_result
files_open_path(const char *path, struct model_files *files, struct status *status)
{
	const char *base = strrchr(path, '/');
	struct stat st;
	bool		good;
	int			fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);	/* not to wait for who writes to a pipe */

	*files = (struct model_files) {0};
	if (fd < 0 || fstat(fd, &st) < 0)
	{
		status_set(status, INFER_ERROR_INPUT, "could not open \"%s\": %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return FILES_FAILED;
	}
	if (S_ISDIR(st.st_mode))
		return finish(files, walk(files, fd, "", 0, status));
	good = files_add(files, base != NULL ? base + 1 : path, fd, status);
	close(fd);
	return finish(files, good);
}

/* Relative, without empty parts, "." or "..": names come from a client. */
static bool
name_is_safe(const char *name)
{
	const char *part = name;

	if (name[0] == '\0' || strlen(name) > INFER_NAME_MAX)
		return false;
	for (;;)
	{
		size_t		length = strcspn(part, "/");

		if (length == 0 || (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		if (part[length] == '\0')
			return true;
		part += length + 1;
	}
}

enum files_result
files_open_descriptors(uint32_t count, const char *const *names, const uint64_t *sizes,
					   const int *fds, struct model_files *files, struct status *status)
{
	bool		good = true;

	*files = (struct model_files) {0};
	for (uint32_t i = 0; good && i < count; i++)
	{
		if (!name_is_safe(names[i]))
			good = status_set(status, INFER_ERROR_MODEL, "file name \"%s\" is not acceptable", names[i]);
		else
			good = files_add(files, names[i], fds[i], status);
		if (good && files->files[files->count - 1].size != sizes[i])
			good = status_set(status, INFER_ERROR_MODEL, "file \"%s\" has changed its size", names[i]);
	}
	return finish(files, good);
}

void
files_digest(const struct model_files *files, uint8_t digest[INFER_KEY_BYTES])
{
	EVP_MD_CTX *whole = EVP_MD_CTX_new();

	EVP_DigestInit_ex(whole, EVP_sha256(), NULL);
	for (uint32_t i = 0; i < files->count; i++)
	{
		const struct model_file *file = &files->files[i];
		uint8_t		size[8];
		uint8_t		one[INFER_KEY_BYTES];

		for (int b = 0; b < 8; b++)
			size[b] = (uint8_t) (file->size >> (8 * b));
		EVP_Digest(file->data, file->size, one, NULL, EVP_sha256(), NULL);
		EVP_DigestUpdate(whole, file->name, strlen(file->name) + 1);
		EVP_DigestUpdate(whole, size, sizeof(size));
		EVP_DigestUpdate(whole, one, sizeof(one));
	}
	EVP_DigestFinal_ex(whole, digest, NULL);
	EVP_MD_CTX_free(whole);
}

const struct model_file *
model_files_find(const struct model_files *files, const char *name)
{
	uint32_t	low = 0;
	uint32_t	high = files->count;

	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;
		int			order = strcmp(name, files->files[middle].name);

		if (order == 0)
			return &files->files[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
