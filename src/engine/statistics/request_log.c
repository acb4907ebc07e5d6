/*
 * request_log.c
 *	  See request_log.h.
 */
#include "request_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../engine.h"
#include "../process/log.h"
#include "../process/process.h"
#include "../server/connection.h"

#define FLUSH_NOTES		32			/* copied at a time */
#define LINE_NSEC		(1000000000u / REQUEST_LOG_RATE)

static const char *const class_names[INFER_CLASSES] = {
	[INFER_CLASS_INTERACTIVE] = "interactive", [INFER_CLASS_STATEMENT] = "statement", [INFER_CLASS_JOB] = "job"
};

/* Whether this second has room for one more. */
static bool
take_line(struct request_log *log, uint64_t now)
{
	uint64_t	earned = (now - log->filled_at) / LINE_NSEC;

	if (earned > 0)
	{
		log->filled_at += earned * LINE_NSEC;
		log->lines = earned < REQUEST_LOG_NOTES - log->lines ? log->lines + earned : REQUEST_LOG_NOTES;
	}
	if (log->lines == 0 || log->count == REQUEST_LOG_NOTES)
		return false;
	log->lines--;
	return true;
}

void
request_log_note(struct request_log *log, const struct request *request, uint32_t error, uint64_t now)
{
	const struct connection *connection = request->region->connection;
	struct request_note *note;

	if (!take_line(log, now))
	{
		__atomic_store_n(&log->dropped, log->dropped + 1, __ATOMIC_RELAXED);
		return;
	}
	note = &log->notes[(log->first + log->count) % REQUEST_LOG_NOTES];
	*note = (struct request_note) {
		.pid = connection->pid,
		.slot = request->region->slot,
		.seq = request->seq,
		.database = connection->database,
		.role = request->role,
		.model = request->model,
		.version = request->version,
		.class_ = request->batch.class_,
		.rows = request->batch.rows,
		.rows_failed = error == INFER_OK ? request->rows_failed : request->batch.rows,
		.batches = request->batches,
		.batch_rows = request->batch_rows,
		.error = error,
		.input_bytes = request->reply_offset > INFER_REGION_HEAD ? request->reply_offset - INFER_REGION_HEAD : 0,
		.output_bytes = request->work.reply_used,
		.tokens = request->tokens,
		.prepare_nsec = request->prepare_nsec,
		.queue_nsec = request->queue_nsec,
		.compute_nsec = request->compute_nsec,
		.total_nsec = request->batch.arrived != 0 ? now - request->batch.arrived : 0
	};
	memcpy(note->key, request->entry->key, sizeof(note->key));
	__atomic_store_n(&log->count, log->count + 1, __ATOMIC_RELAXED);
}

static void
write_note(const struct request_note *n)
{
	char		key[2 * sizeof(n->key) + 1];

	for (size_t i = 0; i < sizeof(n->key); i++)
		snprintf(key + 2 * i, 3, "%02x", n->key[i]);
	log_write(LOG_INFO, "request id=%u.%u.%" PRIu64 " database=%u role=%u model=%u version=%u key=%s class=%s rows=%u rows_failed=%u tokens=%" PRIu64 " "
			  "input_bytes=%" PRIu64 " output_bytes=%" PRIu64 " batches=%u batch_rows=%u prepare_ms=%.3f queue_ms=%.3f compute_ms=%.3f total_ms=%.3f status=\"%s\"",
			  n->pid, n->slot, n->seq, n->database, n->role, n->model, n->version, key, class_names[n->class_],
			  n->rows, n->rows_failed, n->tokens, n->input_bytes, n->output_bytes, n->batches, n->batch_rows,
			  (double) n->prepare_nsec / 1e6, (double) n->queue_nsec / 1e6, (double) n->compute_nsec / 1e6, (double) n->total_nsec / 1e6,
			  infer_error_name(n->error));
}

/* How many were left out, when it is time to say so: also after the last call. */
static void
say_dropped(struct engine *engine)
{
	struct request_log *log = &engine->request_log;
	uint64_t	now;
	uint32_t	dropped = 0;

	if (__atomic_load_n(&log->dropped, __ATOMIC_RELAXED) == 0)
		return;
	now = process_clock();
	pthread_mutex_lock(&engine->lock);
	if (now - log->said_at >= REQUEST_LOG_SAID)
	{
		dropped = log->dropped;
		log->said_at = now;
		__atomic_store_n(&log->dropped, 0, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&engine->lock);
	if (dropped > 0)
		log_write(LOG_WARNING, "%u requests were not logged: more than %u ended in a second", dropped, REQUEST_LOG_RATE);
}

void
request_log_flush(struct engine *engine)
{
	struct request_log *log = &engine->request_log;
	struct request_note notes[FLUSH_NOTES];
	uint32_t	count;

	while (__atomic_load_n(&log->count, __ATOMIC_RELAXED) > 0)
	{
		pthread_mutex_lock(&engine->lock);
		for (count = 0; count < FLUSH_NOTES && count < log->count; count++)
			notes[count] = log->notes[(log->first + count) % REQUEST_LOG_NOTES];
		log->first = (log->first + count) % REQUEST_LOG_NOTES;
		__atomic_store_n(&log->count, log->count - count, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&engine->lock);
		for (uint32_t i = 0; i < count; i++)
			write_note(&notes[i]);
	}
	say_dropped(engine);
}
