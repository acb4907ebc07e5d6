/*
 * source.c
 *	  A file of the server, or a text, as lines.
 *
 * A line ends with \n, \r\n, or where the source ends.  A byte order mark before the first one, and lines of
 * blanks alone, are passed over.  Of a line that is too long no more is kept than says so.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"

#include "lines.h"

#define READ_BYTES	65536

struct LineSource
{
	const char *path;				/* NULL: a text */
	int			fd;
	char	   *bytes;				/* read, and not yet in a line */
	Size		length;
	Size		at;
	bool		ended;				/* nothing is behind them */
	int64		number;				/* of the line that was read last */
	StringInfoData line;
	bool		too_long;
};

static const char byte_order_mark[] = "\xEF\xBB\xBF";

static void
file_failed(const char *doing, const char *path)
{
	int			why = errno;

	ereport(ERROR,
			(why == ELOOP || why == ENAMETOOLONG ? errcode(ERRCODE_INVALID_PARAMETER_VALUE) : errcode_for_file_access(),
			 errmsg("could not %s \"%s\": %m", doing, path),
			 why == ENOENT || why == ENOTDIR ?
			 errhint("The path is one of the server's. Send a client's file with infer.import_requests().") :
			 why == EACCES || why == EPERM ?
			 errhint("Let the user that the server runs as read it, or send it with infer.import_requests().") : 0));
}

static LineSource *
make(void)
{
	LineSource *source = palloc0(sizeof(LineSource));

	initStringInfo(&source->line);
	return source;
}

/* The server's text of the path is in the database's encoding, as a file's name in COPY is. */
LineSource *
line_source_file(const char *path)
{
	LineSource *source = make();
	struct stat st;

	source->path = path;
	/* without waiting, should it be a pipe */
	source->fd = OpenTransientFile(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | PG_BINARY);
	if (source->fd < 0)
		file_failed("open file", path);
	if (fstat(source->fd, &st) < 0)
		file_failed("stat file", path);
	if (!S_ISREG(st.st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a regular file", path),
				 errhint("Give a file of JSON lines.")));
	source->bytes = palloc(READ_BYTES);
	return source;
}

LineSource *
line_source_text(text *lines)
{
	LineSource *source = make();

	source->fd = -1;
	source->bytes = VARDATA_ANY(lines);
	source->length = VARSIZE_ANY_EXHDR(lines);
	source->ended = true;
	return source;
}

bool
line_source_is_utf8(const LineSource *source)
{
	return source->path != NULL;
}

void
line_source_close(LineSource *source)
{
	if (source->path != NULL && CloseTransientFile(source->fd) != 0)
		file_failed("close file", source->path);
}

/* Whether there are more bytes. */
static bool
fill(LineSource *source)
{
	ssize_t		got;

	if (source->at < source->length)
		return true;
	if (source->ended)
		return false;
	got = read(source->fd, source->bytes, READ_BYTES);
	if (got < 0)
		file_failed("read file", source->path);
	source->at = 0;
	source->length = got;
	source->ended = got == 0;
	return got > 0;
}

static void
keep(LineSource *source, const char *bytes, Size length)
{
	if (source->too_long || source->line.len + length > LINES_BYTES_MAX)
		source->too_long = true;
	else
		appendBinaryStringInfo(&source->line, bytes, length);
}

/* Bytes up to the line's end, without it; false: there are none. */
static bool
read_line(LineSource *source)
{
	bool		any = false;

	resetStringInfo(&source->line);
	source->too_long = false;
	while (fill(source))
	{
		const char *from = source->bytes + source->at;
		const char *end = memchr(from, '\n', source->length - source->at);
		Size		length = end != NULL ? end - from : source->length - source->at;

		any = true;
		keep(source, from, length);
		source->at += length + (end != NULL);
		if (end != NULL)
			break;
		CHECK_FOR_INTERRUPTS();
	}
	source->number += any;
	return any;
}

static void
trim(LineSource *source)
{
	StringInfo	line = &source->line;
	bool		unicode = line_source_is_utf8(source) || GetDatabaseEncoding() == PG_UTF8;

	if (source->number == 1 && unicode && line->len >= 3 && memcmp(line->data, byte_order_mark, 3) == 0)
	{
		memmove(line->data, line->data + 3, line->len - 3);
		line->len -= 3;
	}
	while (line->len > 0 && strchr(" \t\r", line->data[line->len - 1]) != NULL && line->data[line->len - 1] != '\0')
		line->len--;
	line->data[line->len] = '\0';
}

bool
line_source_next(LineSource *source, int64 *number, char **line, Size *length)
{
	while (read_line(source))
	{
		CHECK_FOR_INTERRUPTS();
		trim(source);
		*number = source->number;
		*line = source->too_long ? NULL : source->line.data;
		*length = source->line.len;
		if (source->too_long || strspn(source->line.data, " \t\r") < source->line.len)
			return true;
	}
	return false;
}
