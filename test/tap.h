/*
 * tap.h
 *	  The Test Anything Protocol for test programs without a server.
 *
 * Each program calls tap_ok() for each thing it claims and returns tap_done() from main.
 */
#ifndef TEST_TAP_H
#define TEST_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int	tap_count;
static int	tap_failed;

static inline bool __attribute__((format(printf, 2, 3), unused))
tap_ok(bool passed, const char *format,...)
{
	va_list		args;

	tap_count++;
	if (!passed)
		tap_failed++;
	printf("%sok %d - ", passed ? "" : "not ", tap_count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	return passed;
}

static inline void __attribute__((unused))
tap_skip(const char *name, const char *reason)
{
	tap_count++;
	printf("ok %d - %s # SKIP %s\n", tap_count, name, reason);
}

static inline int __attribute__((unused))
tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed == 0 ? 0 : 1;
}

#endif							/* TEST_TAP_H */
