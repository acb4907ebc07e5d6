/*
 * log.c
 *	  See log.h.
 *
 * A pipe that is ready takes PIPE_BUF bytes without blocking, so a line is at most that long
 * and written at once.  What was ready for one thread may not be for the next: one looks and
 * writes at a time.
 */
#include "log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {"DEBUG", "LOG", "WARNING", "ERROR", "FATAL"};
static unsigned lines_dropped;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void
put_line(char *line, int length)
{
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};

	if (length >= PIPE_BUF)
		length = PIPE_BUF - 1;
	for (int i = 0; i < length; i++)
		if (line[i] == '\n' || line[i] == '\r')
			line[i] = ' ';
	line[length++] = '\n';
	pthread_mutex_lock(&writing);
	if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0 ||
		write(STDERR_FILENO, line, (size_t) length) < 0)
		__atomic_fetch_add(&lines_dropped, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&writing);
}

void
log_write(enum log_level level, const char *format,...)
{
	char		line[PIPE_BUF];
	unsigned	dropped = __atomic_exchange_n(&lines_dropped, 0, __ATOMIC_RELAXED);
	int			length;
	va_list		args;

	if (dropped > 0)
	{
		length = snprintf(line, sizeof(line), "WARNING: %u lines of the log were dropped", dropped);
		put_line(line, length);
	}
	length = snprintf(line, sizeof(line), "%s: ", level_names[level]);
	va_start(args, format);
	length += vsnprintf(line + length, sizeof(line) - (size_t) length, format, args);
	va_end(args);
	put_line(line, length);
}

void
log_status(enum log_level level, const char *prefix, const struct status *status)
{
	log_write(level, "%s: %s%s%s%s%s", prefix, status->message,
			  status->detail[0] != '\0' ? " DETAIL: " : "", status->detail,
			  status->hint[0] != '\0' ? " HINT: " : "", status->hint);
}
