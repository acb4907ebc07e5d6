/*
 * verbs.h
 *	  The verbs (infer, predict, classify …): one at a time, as SQL calls them, and many rows
 *	  together, as the batch scan does.
 *
 * Nouns
 *	verb		a SQL function that asks a model: which C symbol it is, and what may be done with it
 *	site		one call in a plan: the models that its names meant, the bindings of its arguments,
 *				results that it remembers; lives as long as the plan runs
 *	rows		calls of one site that are sent together
 *	ticket		one of them
 *
 * Loop
 *	infer_site_make, then for each batch: infer_rows_begin → infer_rows_add for each row →
 *	infer_rows_submit → infer_rows_wait → infer_rows_result for each ticket → infer_rows_end.
 *	Several rows of one site may be in flight.
 *
 * Invariants
 *	- What is wrong with one row (its values, its class, its result, its share of a failed request)
 *	  is kept under its ticket and raised by infer_rows_raise only; what is wrong with the statement
 *	  (the name, the privilege, the types) is raised at once by infer_rows_add.
 *	- A ticket's result is what the verb by itself gives, bit by bit, NULL and errors included.
 *	- Inputs are copied when they are added; nothing that the caller passed is kept.
 *	- Equal inputs are computed once: within rows, and once a result was asked for, for later rows
 *	  (memo.h says within which bounds, and what it costs where nothing is equal).
 *	- A session has at most INFER_REGIONS_MAX requests that are filled or in flight.  Beyond
 *	  infer.payload_limit they wait for each other, in whatever order they are waited for.
 *	- Ended by infer_rows_end, by the reset of the context that they were begun in, or by an
 *	  error: what is in flight is cancelled.
 */
#ifndef INFER_VERBS_H
#define INFER_VERBS_H

#include "postgres.h"

#include "nodes/primnodes.h"

#include "values.h"

typedef struct InferVerbDef
{
	const char *source;				/* prosrc: the C symbol */
	InferVerb	verb;
	bool		quiet;				/* errors of the row are NULL, as infer.try says */
	bool		hoist;				/* may be computed in batches */
	bool		deduplicate;		/* equal inputs give equal results within a statement */
	int			inputs_first;		/* number of the first input argument */
	int			inputs_count;		/* texts, none of which may be NULL; 0: whatever the call gives */
	uint32		options;			/* keys of the jsonb that comes after the inputs; 0: there is none */
} InferVerbDef;

/* NULL: not a verb. */
extern const InferVerbDef *infer_verb_by_source(const char *source);

typedef struct InferSite InferSite;
typedef struct InferRows InferRows;

typedef struct InferSiteCounters	/* since infer_site_make */
{
	int64		calls;				/* rows added whose answer was not NULL by itself */
	int64		reused;				/* of those, answered by an equal one */
	int64		batches;			/* requests sent */
	int64		tokens;				/* of the rows that were computed; 0 where rows have none */
	uint64		prepare_nsec;		/* that their texts took to become tokens */
	uint64		queue_nsec;			/* that rows waited in the engine: the longest of each request */
	uint64		device_nsec;
	char		device[16];			/* "" before the first result */
} InferSiteCounters;

/*
 * call: for the types of its arguments and whether it is VARIADIC; it must outlive the site.
 * A row argument of a named type may come as its columns: with RowExpr arguments, pass to
 * infer_rows_add, at the argument's place, nothing (a NULL Datum) and the columns through
 * infer_rows_add's row; see infer_site_row_columns.
 */
extern InferSite *infer_site_make(const InferVerbDef *def, const FuncExpr *call, MemoryContext context);

/* The same for calls of a verb about texts that no plan has: the arguments are as SQL would give them. */
extern InferSite *infer_site_make_texts(const InferVerbDef *def, MemoryContext context);

/*
 * If the only input is a RowExpr of a named composite type: its number among call's
 * arguments, else -1.  Its columns' values are then passed one by one, without ever
 * forming the row.
 */
extern int	infer_site_row_argument(const InferSite *site);

/*
 * Which columns of that row (from 0) the models of the site need, if *known: only if the name is a
 * constant, whose model is resolved here, raising what is wrong with it, so when there is a first row.
 * Else NULL: all of them.
 */
extern const Bitmapset *infer_site_row_columns(InferSite *site, bool *known);

extern void infer_site_counters(const InferSite *site, InferSiteCounters *counters);

/*
 * Before the first rows, of a verb about texts: the engine counts each row's tokens, for infer_rows_tokens; then
 * equal inputs are computed again.
 */
extern void infer_site_count_tokens(InferSite *site);

/*
 * How many rows a request of this site should have, at most rows_max: infer.batch_rows; fewer if
 * they are known to take the device longer than infer.slice, so that an early stop wastes little,
 * and no request comes near infer.timeout; or more memory than a request should.  Changes as
 * requests are timed.
 */
extern int	infer_site_batch_rows(const InferSite *site, int rows_max);

/*
 * In the current memory context.  At most capacity rows.  class_: enum infer_class; a job's requests are
 * bounded by their bytes only, for nobody waits for one of them.  alone: one call as the verb by itself
 * makes it, nothing remembered.
 */
extern InferRows *infer_rows_begin(InferSite *site, int capacity, uint32 class_, bool alone);

/*
 * Before submit.  If an engine dies while it computes more than INFER_ROWS_MARKED of these rows, they fail with
 * IF001 instead of being sent again to run one at a time: the caller sends them again, fewer together, so that
 * few need run alone if it happens again.
 */
#define INFER_ROWS_MARKED	256
extern void infer_rows_set_once(InferRows *rows);

#define INFER_TICKET_NULL	(-1)	/* the answer is NULL */
#define INFER_TICKET_LATER	(-2)	/* not added: submit these rows, and add it first to the next ones */

/*
 * values, nulls: the call's arguments; row_values, row_nulls: the columns of the row argument, if
 * infer_site_row_argument is not -1 (only those of infer_site_row_columns need be there).
 * Returns a ticket; that of an equal row if there is one.  The first row is never LATER; others
 * are if the request is full (capacity, or memory), or if their model's name was not seen before.
 */
extern int	infer_rows_add(InferRows *rows, const Datum *values, const bool *nulls,
						   const Datum *row_values, const bool *row_nulls);

extern void infer_rows_submit(InferRows *rows);

/*
 * Sleeps until all have ended; raises only what ends the statement (cancel).  within: whose results they are, where
 * that is more than the statement's; or NULL.
 */
extern void infer_rows_wait(InferRows *rows, InferScope *within);

/*
 * false: this ticket has failed.  By reference results are made in the current memory context,
 * and stay valid as long as that.  A ticket may be asked several times.
 */
extern bool infer_rows_result(InferRows *rows, int ticket, Datum *value, bool *null);

/* Tokens of a ticket that has a result, special ones and the prompt's included; -1: they were not counted. */
extern int	infer_rows_tokens(InferRows *rows, int ticket);

/* Raises the error of a ticket that has failed. */
pg_noreturn extern void infer_rows_raise(InferRows *rows, int ticket);

/*
 * The same error without raising it: a copy in the current memory context.  Rows of a request that failed
 * as a whole share one, made where the first of them asked.
 */
extern ErrorData *infer_rows_error(InferRows *rows, int ticket);

extern void infer_rows_end(InferRows *rows);

/* ---- costs (cost.c) ---- */

/*
 * While a statement is planned, what is known of models' times stays as it was first seen: paths
 * are compared by the same costs.  hold returns what release is to be given.
 */
extern uint64 infer_costs_hold(void);
extern void infer_costs_release(uint64 outer);

#endif							/* INFER_VERBS_H */
