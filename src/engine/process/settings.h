/*
 * settings.h
 *	  What the engine can be told: name=value, at its start and, for some, later.
 *
 * A number that may change while the engine runs is stored atomically: who needs no other
 * reads it without engine.lock.
 *
 * A plain number is in the unit of the server's setting of that name (docs/settings.md);
 * sizes may also be written with B, kB, MB, GB or TB, times with us, ms, s or min.
 */
#ifndef ENGINE_SETTINGS_H
#define ENGINE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

struct status;

struct settings
{
	/* at the start only */
	char		device[256];
	uint32_t	cpu_threads;		/* 0: all usable cores */
	uint32_t	nice;
	uint64_t	memory;				/* bytes for models, 0: no bound */
	uint64_t	gpu_memory;			/* bytes of each GPU, 0: what is free, but for a reserve */

	/* also later */
	uint64_t	cache_size;			/* bytes; kept by backends and the loader, each for what it writes */
	uint32_t	batch_rows;
	uint32_t	batch_tokens;		/* 0: no bound */
	uint64_t	batch_delay;		/* usec */
	uint32_t	job_share;			/* percent */
	uint64_t	slice;				/* usec, 0: the device's own */
	uint32_t	queue_limit;		/* requests */
	uint64_t	payload_limit;		/* bytes of all regions together */
	uint64_t	engine_timeout;		/* usec */
	uint32_t	log_requests;		/* 0 or 1 */
};

extern void settings_default(struct settings *settings);

/*
 * text: "name=value".  started: only what may change while the engine runs; another
 * known name is then ignored and *ignored set.  INFER_ERROR_INPUT names what is wrong.
 */
extern bool settings_set(struct settings *settings, const char *text, bool started,
						 bool *ignored, struct status *status);

/* For --help: each name with its default and meaning, one a line. */
extern void settings_help(void);

#endif							/* ENGINE_SETTINGS_H */
