/*
 * log.c
 *	  What the engine says, into the server's log.
 *
 * Nouns
 *	log pipe		lines LEVEL: text from the engine (its standard output and error)
 */
#include "postgres.h"

#include "internal.h"

#include "mb/pg_wchar.h"

#define LOG_LINE_MAX 1024			/* bytes; longer lines are cut into several */
#define LOG_READ_MAX 65536			/* bytes in one call: a flood does not starve the heartbeats */

static int	log_fd = -1;
static char log_line[LOG_LINE_MAX + 1];
static int	log_used = 0;
static char last_words[256];	/* the text of the last FATAL line since the start, or "" */

void
log_begin(int fd)
{
	log_fd = fd;
	log_used = 0;
	last_words[0] = '\0';
}

void
log_end(void)
{
	close_fd(&log_fd);
}

int
engine_process_log_fd(void)
{
	return log_fd;
}

const char *
engine_process_last_words(void)
{
	return last_words;
}

static int
level_of(const char *line, const char **text)
{
	static const struct
	{
		const char *name;
		int			level;
	}			levels[] = {
		{"DEBUG: ", DEBUG1},
		{"INFO: ", LOG},
		{"LOG: ", LOG},
		{"NOTICE: ", LOG},
		{"WARNING: ", WARNING},
		{"ERROR: ", LOG},		/* of the engine, not of this process */
		{"FATAL: ", LOG},
	};

	for (int i = 0; i < lengthof(levels); i++)
	{
		Size		length = strlen(levels[i].name);

		if (strncmp(line, levels[i].name, length) == 0)
		{
			*text = line + length;
			return levels[i].level;
		}
	}
	*text = line;
	return LOG;
}

/* What a terminal or a log reader could stumble over becomes a question mark. */
static void
log_flush(void)
{
	const char *text;
	int			level;

	if (log_used == 0)
		return;
	for (int i = 0; i < log_used; i++)
	{
		unsigned char c = log_line[i];

		if (c == '\t')
			log_line[i] = ' ';
		else if (c < ' ' || c == 0x7f)
			log_line[i] = '?';
	}
	log_line[log_used] = '\0';
	if (pg_encoding_verifymbstr(PG_UTF8, log_line, log_used) != log_used)
	{
		for (int i = 0; i < log_used; i++)
			if (IS_HIGHBIT_SET(log_line[i]))
				log_line[i] = '?';
	}
	log_used = 0;
	level = level_of(log_line, &text);
	if (strncmp(log_line, "FATAL: ", text - log_line) == 0 && text != log_line)
		strlcpy(last_words, text, pg_encoding_mbcliplen(PG_UTF8, text, strlen(text), sizeof(last_words) - 1) + 1);
	ereport(level, (errmsg("infer engine: %s", text)));
}

void
engine_process_log(void)
{
	char		buffer[4096];
	Size		total = 0;
	ssize_t		got;

	while (log_fd >= 0 && total < LOG_READ_MAX)
	{
		got = read(log_fd, buffer, sizeof(buffer));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
		{
			/* at the end of the pipe the process is gone, or soon will be: stop waiting for it */
			if (got == 0 && engine_process_pid() != 0)
				close_fd(&log_fd);
			break;
		}
		total += got;
		for (ssize_t i = 0; i < got; i++)
		{
			if (buffer[i] != '\n')
				log_line[log_used++] = buffer[i];
			if (buffer[i] == '\n' || log_used == LOG_LINE_MAX)
				log_flush();
		}
	}
	if (engine_process_pid() == 0)
		log_flush();
}
