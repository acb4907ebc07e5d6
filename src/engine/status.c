/*
 * status.c
 *	  See status.h.
 */
#include "status.h"

#include <stdio.h>

void
status_clear(struct status *status)
{
	status->error = 0;
	status->message[0] = status->detail[0] = status->hint[0] = '\0';
}

bool
status_set(struct status *status, uint32_t error, const char *format,...)
{
	va_list		args;

	if (status->error != 0)
		return false;
	status_clear(status);
	status->error = error;
	va_start(args, format);
	vsnprintf(status->message, sizeof(status->message), format, args);
	va_end(args);
	return false;
}

void
status_detail(struct status *status, const char *format,...)
{
	va_list		args;

	if (status->detail[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(status->detail, sizeof(status->detail), format, args);
	va_end(args);
}

void
status_hint(struct status *status, const char *format,...)
{
	va_list		args;

	if (status->hint[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(status->hint, sizeof(status->hint), format, args);
	va_end(args);
}
