/*
 * request_log.h
 *	  infer.log_requests: a line for each call that has ended: who, which version, how much,
 *	  how long, how it ended.  Never what went in or came out, nor an error's text, which may
 *	  quote it.
 *
 * Calls end with the engine's lock held, and nobody writes to a pipe then: a note is taken,
 * and written when the lock is free.  Both the notes and the lines of a second are bounded;
 * what is over the bounds is counted, and the count is logged, once a second.
 */
#ifndef ENGINE_STATISTICS_REQUEST_LOG_H
#define ENGINE_STATISTICS_REQUEST_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct request;

#define REQUEST_LOG_NOTES	256		/* that wait to be written; a pipe takes that many lines at once */
#define REQUEST_LOG_RATE	1000	/* lines a second, in the long run */
#define REQUEST_LOG_SAID	UINT64_C(1000000000)	/* nsec from one line that says how many there are not to the next */

struct request_note
{
	uint32_t	pid;
	uint32_t	slot;
	uint64_t	seq;
	uint32_t	database;
	uint32_t	role;
	uint32_t	model;
	uint32_t	version;
	uint8_t		key[8];				/* its first bytes */
	uint32_t	class_;
	uint32_t	rows;
	uint32_t	rows_failed;
	uint32_t	batches;
	uint32_t	batch_rows;
	uint32_t	error;
	uint64_t	tokens;
	uint64_t	prepare_nsec;
	uint64_t	input_bytes;
	uint64_t	output_bytes;
	uint64_t	queue_nsec;
	uint64_t	compute_nsec;
	uint64_t	total_nsec;
};

struct request_log					/* zeroed: empty; guarded by the engine's lock */
{
	struct request_note notes[REQUEST_LOG_NOTES];
	uint32_t	first;
	uint32_t	count;				/* atomic: written with the lock held */
	uint32_t	dropped;			/* atomic, as count: since said_at */
	uint64_t	said_at;			/* nsec */
	uint64_t	lines;				/* that may be written now */
	uint64_t	filled_at;			/* nsec: when lines was brought up to date */
};

/* Lock held.  A request has ended; its regions are still its own. */
extern void request_log_note(struct request_log *log, const struct request *request, uint32_t error, uint64_t now);

/* Lock not held. */
extern void request_log_flush(struct engine *engine);

#endif							/* ENGINE_STATISTICS_REQUEST_LOG_H */
