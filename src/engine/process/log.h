/*
 * log.h
 *	  The engine's log: lines "LEVEL: text" on standard error, which is the supervisor's
 *	  pipe.  Any thread; never blocks (a line that a stopped reader has no room for is
 *	  dropped and counted).
 */
#ifndef ENGINE_LOG_H
#define ENGINE_LOG_H

#include "../status.h"

enum log_level
{
	LOG_DEBUG = 0,
	LOG_INFO = 1,				/* printed as LOG */
	LOG_WARNING = 2,
	LOG_ERROR = 3,
	LOG_FATAL = 4
};

extern void log_write(enum log_level level, const char *format,...)
			__attribute__((format(printf, 2, 3)));

/* A status with its detail and hint, after a prefix ("cannot open the device"). */
extern void log_status(enum log_level level, const char *prefix, const struct status *status);

#endif							/* ENGINE_LOG_H */
