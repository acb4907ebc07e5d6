/*
 * status.h
 *	  The one way in which the engine says that something went wrong: data, never abort.
 *
 * A function that can fail takes a struct status * and returns false (or NULL) after
 * filling it.  The first failure stands: status_set on a failed status is ignored, so a
 * caller may go on and check once.
 */
#ifndef ENGINE_STATUS_H
#define ENGINE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#define STATUS_TEXT_MAX 1024

struct status
{
	uint32_t	error;			/* enum infer_error of protocol.h; 0: fine */
	char		message[STATUS_TEXT_MAX];	/* lower case, no full stop */
	char		detail[STATUS_TEXT_MAX];	/* sentences, or "" */
	char		hint[STATUS_TEXT_MAX];		/* names an action, or "" */
};

extern void status_clear(struct status *status);
extern bool status_set(struct status *status, uint32_t error, const char *format,...)
			__attribute__((format(printf, 3, 4)));	/* always returns false */
extern void status_detail(struct status *status, const char *format,...)
			__attribute__((format(printf, 2, 3)));
extern void status_hint(struct status *status, const char *format,...)
			__attribute__((format(printf, 2, 3)));

#endif							/* ENGINE_STATUS_H */
