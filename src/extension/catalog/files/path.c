/*
 * path.c
 *	  A file or folder of the server as a source of a model's files.
 *
 * A folder counts with all its regular files, also those of its subfolders, but without
 * names that begin with a dot.  A link counts as what it points to if that is a file in
 * the same folder, and is refused if it leaves the folder.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"

#include "../../compat.h"
#include "../internal.h"

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
