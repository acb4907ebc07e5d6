/*
 * client.h
 *	  The only way from a backend to the engine.
 *
 * Nouns
 *	connection	one per backend, made at first use, kept for the session
 *	call		one request in one region: typed columns in, a reply out
 *
 * Loop
 *	infer_client_begin → fill columns (infer_client_column) → infer_client_submit →
 *	infer_client_wait → read the reply → infer_client_end.  Several calls may be in
 *	flight (each takes a region).  begin and filling need no engine; submit connects;
 *	every failure of the engine's is told by wait.  wait handles, without its caller knowing:
 *	the model that must be loaded or materialised first, a reply that did not fit, an
 *	engine that died (sent again, marked or not, as docs/architecture.md says), a restart.
 *
 * Invariants
 *	- A call hangs on a reset callback of the memory context it was begun in: cancel, error
 *	  or the end of a statement release it.  The callback queues CANCEL; it never blocks or
 *	  raises.  The region returns to the free list only when the engine has given it back.
 *	- A wait ends by: the result; cancel, statement_timeout, termination; the client's
 *	  connection being gone; infer.timeout.  Nothing else, but always by these.
 */
#ifndef INFER_CLIENT_H
#define INFER_CLIENT_H

#include "postgres.h"

#include "catalog.h"
#include "compat.h"

typedef struct InferCall InferCall;

typedef struct InferOutput			/* one output of a finished call; points into the region */
{
	uint32		type;				/* enum infer_type; INFER_TYPE_NONE if not wanted */
	uint64		width;				/* elements of this row */
	const void *data;				/* of this row; strings: struct infer_span */
	const char *texts;				/* strings: where spans begin from */
	uint64		texts_bytes;		/* each span was checked to lie within */
} InferOutput;

/* Errors that only the client knows; they go on where the protocol's end. */
enum InferClientError
{
	INFER_CLIENT_LOST = INFER_ERROR_LAST + 1,	/* IF001: not running, or lost during the call */
	INFER_CLIENT_ROW_KILLED,		/* IF004: this row, alone, ended the engine */
	INFER_CLIENT_DISABLED			/* IF005: the model's rows did so too often */
};

/*
 * A call of 1 to INFER_ROWS_MAX rows.  The model must outlive the call.  Its time
 * (infer.timeout) begins here.
 */
extern InferCall *infer_client_begin(const InferModel *model, uint32 rows);

/*
 * Room for the values of an input (all rows): rows × width elements of the signature's
 * type; for strings zeroed struct infer_span, which infer_client_string fills.  Asked
 * again for the same input it gives the same column.  The address holds until the next
 * infer_client_column or infer_client_string of this call (its region may grow, and then
 * the values move).
 */
extern void *infer_client_column(InferCall *call, uint32 input, uint64 width);

/* A string for an element of a string column: copies it into the region. */
extern void infer_client_string(InferCall *call, uint32 input, uint64 element, const char *text, Size length);

extern void infer_client_submit(InferCall *call, uint32 outputs_wanted);

/* Before submit, of a call of one row: its reply is to have the time of each operator. */
extern void infer_client_ask_profile(InferCall *call);

/* Sleeps until the call has ended; raises the whole request's error, if it is one. */
extern void infer_client_wait(InferCall *call);

/*
 * The same for infer.try and infer.on_error = null: false with the request's error in err
 * if infer_client_error_hides says that it may be shown as NULL; all others are raised.
 */
extern bool infer_client_wait_try(InferCall *call, struct infer_error_text *err);

/* An error of the row, or a lost, late or full engine: where infer.try gives NULL. */
extern bool infer_client_error_hides(uint32 error);

/* After wait.  INFER_OK, or the row's error with its text (err may be NULL). */
extern uint32 infer_client_row(InferCall *call, uint32 row, struct infer_error_text *err);
extern void infer_client_output(InferCall *call, uint32 row, uint32 output, InferOutput *out);

/* After wait: the encoded profile (PROTOCOL.md), a copy; false if the model's kind gives none. */
extern bool infer_client_profile(InferCall *call, struct infer_reader *profile);

extern void infer_client_end(InferCall *call);

/* Raises a row's or a request's error with its SQLSTATE. */
pg_noreturn extern void infer_client_raise(const struct infer_error_text *err);
extern int	infer_client_sqlstate(uint32 error);

/* A text of the engine's (UTF-8, or so it says) in the server's encoding, palloc'd; never fails. */
extern char *infer_client_text(const char *text);

/*
 * Load: have the engine load (or only check) a model; the signature is allocated in
 * context.  Writes the files first where the engine asks for it, unless wrote says that
 * the caller has just done so.
 */
extern void infer_client_load(const InferModel *model, uint32 flags, struct infer_signature *signature,
							  MemoryContext context);
extern void infer_client_unload(const InferModel *model);

/* The engine's counters; entries are palloc'd, and classes name models that there are. */
extern void infer_client_stats(bool reset, struct infer_stats_head *head,
							   struct infer_stats_device **devices, struct infer_stats_model **models,
							   struct infer_stats_class **classes);

/* What waits and runs now; palloc'd. */
extern struct infer_activity *infer_client_activity(int *count);

#endif							/* INFER_CLIENT_H */
