/*
 * client.h
 *	  The only way from a backend to the engine.
 *
 * Nouns
 *	connection	one per backend, made at first use, kept for the session
 *	call		one request in one region: typed columns in, a reply out, of one row or many
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

#include "lib/stringinfo.h"

#include "catalog.h"
#include "compat.h"

typedef struct InferCall InferCall;
struct InferScope;

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
 * A call of 1 to INFER_ROWS_MAX rows, of that enum infer_class unless infer.request_class says
 * another.  The model must outlive the call.
 */
extern InferCall *infer_client_begin(const InferModel *model, uint32 rows, uint32 class_);

/* The class that infer.request_class says, else this one. */
extern uint32 infer_client_class(uint32 class_);

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

/*
 * Sends the call, if the engine has room for it now; else wait does.  The call's time
 * (infer.timeout) begins here, and again in wait if the engine has answered or died by then:
 * what the caller did in between is not the call's.
 */
extern void infer_client_submit(InferCall *call, uint32 outputs_wanted);

/* Before submit, of a call of one row: its reply is to have the time of each operator. */
extern void infer_client_ask_profile(InferCall *call);

/* Sleeps until the call has ended; raises the whole request's error, if it is one. */
extern void infer_client_wait(InferCall *call);

/*
 * The same, but the request's error is returned, and lives as long as the call; NULL: none.  The answer must be of
 * that scope (below) as well, unless it is NULL.
 */
extern const struct infer_error_text *infer_client_wait_quiet(InferCall *call, struct InferScope *within);

/* An error of the row, or a lost, late or full engine: where infer.try gives NULL. */
extern bool infer_client_error_hides(uint32 error);

/*
 * Before submit, of a call with too many rows to run one at a time: if an engine dies while it computes them,
 * the call ends with INFER_CLIENT_LOST, and its caller sends fewer.
 */
extern void infer_client_set_once(InferCall *call);

/* After wait.  INFER_OK, or the row's error with its text (err may be NULL). */
extern uint32 infer_client_row(InferCall *call, uint32 row, struct infer_error_text *err);
extern void infer_client_output(InferCall *call, uint32 row, uint32 output, InferOutput *out);

/*
 * After wait, of a model with places of its text among its outputs: the text (UTF-8, not terminated)
 * that an input of the row was given; lies as long as the call.
 */
extern const char *infer_client_text_given(InferCall *call, uint32 row, uint32 input, Size *length);

/* After wait: the encoded profile (PROTOCOL.md), a copy; false if the model's kind gives none. */
extern bool infer_client_profile(InferCall *call, struct infer_reader *profile);

extern void infer_client_end(InferCall *call);

/*
 * What a row of a model takes on the device, in nsec, as all sessions measured it lately: which is
 * INFER_ROW_ALONE or INFER_ROW_OF_MANY.  0: not known.
 */
extern uint64 infer_client_row_nsec(const uint8 *key, int which);

/* ---- many rows, of which it is not known how many they will be ---- */

/* Before submit: only the first so many of the rows begun are sent. */
extern void infer_client_set_rows(InferCall *call, uint32 rows);

/* What its rows take or took, in all: how many of them are wise. */
extern uint64 infer_client_rows_bytes(const InferModel *model, uint32 rows);

/*
 * Bytes that the inputs take so far.  A row that turns out not to be wanted is unwritten by
 * infer_client_unwrite with what this was before; the next one is written in its place.  All
 * columns must have been asked for before.
 */
extern uint64 infer_client_used(const InferCall *call);
extern void infer_client_unwrite(InferCall *call, uint64 used);

/*
 * A written row's bytes: equal for equal inputs, and only for these (of one model).  They lie in
 * the region, or in scratch, until either is changed.
 */
extern const void *infer_client_row_key(const InferCall *call, uint32 row, StringInfo scratch, Size *length);

/* After wait: the longest wait of a row in the engine, and the device's time, in nsec. */
extern void infer_client_times(const InferCall *call, uint64 *queue, uint64 *compute);

/* After wait: what the rows' texts took to become tokens, in nsec; 0 where there are none. */
extern uint64 infer_client_prepare_nsec(const InferCall *call);

/* After wait: the tokens of the rows that were computed; 0 where rows have none. */
extern uint64 infer_client_tokens(const InferCall *call);

/* The device's name; "" without an engine. */
extern const char *infer_client_device(void);

/* Raises a row's or a request's error with its SQLSTATE. */
pg_noreturn extern void infer_client_raise(const struct infer_error_text *err);
extern int	infer_client_sqlstate(uint32 error);

/* Whose results must be of one numerics; all zeros to begin with. */
typedef struct InferScope
{
	char		numerics_id[INFER_NUMERICS_MAX];	/* of its first answer */
	char		refused[INFER_NUMERICS_MAX];	/* of an answer that was not taken; "": there was none */
} InferScope;

/* Until the next such call, answers are taken into this scope instead of the statement's (NULL); returns the one before. */
extern InferScope *infer_client_scope(InferScope *within);

/* Raises if answers were not taken: whoever goes on is to begin with a new scope. */
extern void infer_client_scope_check(const InferScope *within);

/* A text of the engine's (UTF-8, or so it says) in the server's encoding, palloc'd; never fails. */
extern char *infer_client_text(const char *text);

/*
 * Load: have the engine load (or only check) a model; the signature (unless NULL) is
 * allocated in context.  Writes the files first where the engine asks for it, unless wrote
 * says that the caller has just done so.  May be called outside of a transaction.
 */
extern void infer_client_load(const InferModel *model, uint32 flags, struct infer_signature *signature,
							  MemoryContext context);

/* Whether the model is disabled, or loading it has ended engines: until infer.load_model. */
extern bool infer_client_is_suspect(const InferModel *model);

/* Of this session's requests of class job: among all of that class, those of higher priority go first. */
extern void infer_client_set_priority(int32 priority);

/* Have function called before each sleep, and twice a second in long ones; it may raise. */
extern void infer_client_watch(void (*function) (void));

/*
 * Whether this process goes on with the next transaction at once: then it keeps the memory of its calls from one to the
 * other.  false, the default: at the end of each, what is large goes back at once.
 */
extern void infer_client_stay(bool stay);

extern void infer_client_unload(const InferModel *model);

typedef struct EngineStats			/* entries are palloc'd, and classes name models that there are */
{
	struct infer_stats_head head;
	struct infer_stats_device *devices;
	struct infer_stats_model *models;
	struct infer_stats_class *classes;
} EngineStats;

/* The engine's counters; reset: of its first page only, before all are reset. */
extern void infer_client_stats(bool reset, EngineStats *stats);

/* What waits and runs now; palloc'd. */
extern struct infer_activity *infer_client_activity(int *count);

#endif							/* INFER_CLIENT_H */
