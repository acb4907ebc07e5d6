/*
 * node.h
 *	  The node InferBatch: what its files share; nobody else includes it.
 *
 * Nouns
 *	node		the executor's state of one CustomScan (infer_batch_methods)
 *	column		a column of the node's scan tuple: the child's first, then one for each call
 *	batch		rows of the child that are held together: their columns, and how far each has come
 *	round		the rows of a batch that are computed together: all, but where a row asks for a
 *				model that was not known when the round began
 *	wave		calls that can be sent together: of one stage, none using another's result
 *	step		a wave, or the qual that follows a stage
 *	kept error	an error of a row, raised when that row is the next to be handed out, or the one that
 *				is due before it
 *	protected	evaluated within a subtransaction, so that an error can be kept
 *
 * Loop
 *	exec.c hands out the rows of the current batch; when there are none left it takes the next
 *	one, which has been fetched (fetch.c) and whose first wave has been sent (steps.c, calls.c)
 *	while the current one was computed, and takes it through its remaining steps.
 *
 * Memory
 *	A batch has a context of its own: rows, results, kept errors, calls in flight.  Resetting it
 *	cancels what is in flight.  What lives as long as the node is in the query's context.
 */
#ifndef INFER_BATCHSCAN_NODE_H
#define INFER_BATCHSCAN_NODE_H

#include "../batchscan.h"

#include "access/parallel.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "storage/itemptr.h"
#include "storage/spin.h"

enum { BATCHES = 2 };				/* the current one, and the one in flight */
enum { WAVE_CALLS = 48 };			/* of one wave: requests that are filled at the same time are bounded
									 * by INFER_REGIONS_MAX */

enum { UNMEASURED_ROWS = 256 };		/* of a batch while it is not known how long its results are */

typedef struct NodeArgument
{
	int			column;				/* of the scan tuple, or -1 */
	ExprState  *expression;			/* column -1; NULL: the row argument, passed as its columns */
} NodeArgument;

typedef struct NodeCall
{
	BatchCall	plan;
	int			column;				/* of its result */
	int			wave;
	const InferVerbDef *verb;		/* NULL: any function (developer builds) */
	InferSite  *site;				/* NULL before the first execution, and in a mere EXPLAIN */
	ExprState  *guard;				/* or NULL */
	int			arguments_count;
	NodeArgument *arguments;
	int			row_columns_count;
	int		   *row_columns;		/* columns of the row argument, or -1; NULL: there is none */
	ExprState **row_expressions;	/* those that are -1; NULL: NULL */
	int16		length;				/* of the result's type */
	bool		byval;
	Size		result_bytes;		/* of a result by reference, about, in the last batch; 0: not known */

	/* a call without a column: its answer holds as long as the parameters do */
	bool		constant;
	bool		constant_known;
	bool		constant_null;
	Datum		constant_value;

	/* scratch for one row */
	Datum	   *values;
	bool	   *nulls;
	Datum	   *row_values;
	bool	   *row_nulls;

	struct NodeFunction *function;	/* developer.c */
} NodeCall;

typedef struct NodeQual
{
	ExprState  *expression;
	bool		protect;
} NodeQual;

typedef struct CallRows				/* of one call in one batch */
{
	InferRows **owners;				/* for each row of the batch: where its ticket is; NULL: no call */
	int		   *tickets;
	List	   *sent;				/* InferRows, in flight or answered */
	InferRows  *open;				/* being filled */
	int			open_count;
	int			constant_row;		/* a constant call's row that asks for all; -1: none yet */
} CallRows;

typedef struct Batch
{
	MemoryContext context;
	int			rows_count;
	int			rows_room;
	Size		bytes;				/* of the rows, about: their values and what is kept of each */
	Datum	   *values;				/* rows × columns */
	bool	   *nulls;
	ItemPointerData *tids;			/* of base relations' rows, for CURRENT OF */
	ErrorData **errors;				/* kept errors; NULL: none */
	int		   *failed_in;			/* where there is one: the stage; -1: its qual, after the calls */

	/* the round */
	int			begin;				/* rows [begin, end) */
	int			end;
	int		   *live;				/* rows that no qual has removed, in order */
	int			live_count;
	int			next;				/* index into live of the next row to hand out */
	bool	   *removed;			/* for each row, while a qual is applied */
	CallRows   *calls;
} Batch;

typedef struct NodeAgain NodeAgain;		/* again.c */

typedef struct NodeShared			/* by the leader and parallel workers */
{
	slock_t		mutex;
	int			workers;
	InferSiteCounters counters;		/* of workers that have ended */
	char		numerics_id[INFER_NUMERICS_MAX];	/* of the first answer; "": there was none */
} NodeShared;

typedef struct InferBatchState
{
	CustomScanState css;			/* first */
	BatchInfo	info;
	int			child_columns;
	int			columns;
	int			calls_count;
	NodeCall   *calls;
	int			waves;				/* of all stages */
	int		   *wave_stage;			/* for each wave */
	bool	   *wave_protect;
	bool		by_rows;			/* a batch is so many rows, not so many calls */
	int			quals_count;
	NodeQual   *quals;
	Bitmapset  *params;				/* PARAM_EXEC that calls and quals read */

	bool		prepared;			/* the columns that are kept are known */
	int			kept_count;			/* columns of the child that are copied */
	int		   *kept;
	int			kept_last;			/* the last of them + 1 */
	int16	   *lengths;			/* of the child's columns */
	bool	   *byvals;

	int			batch_rows;			/* of a full batch */
	int			ramp;				/* rows of the next batch; doubled until batch_rows */
	bool		alone;				/* infer.batching is off: row by row */
	bool		child_ended;
	bool		backward;			/* a cursor moves so, row by row */
	bool		on_row;				/* the last answer was a row */
	Batch		batches[BATCHES];
	Batch	   *current;			/* whose rows are handed out; or NULL */
	Batch	   *ahead;				/* in flight; or NULL */
	ScanState  *base;				/* the child, if it scans a base relation; else NULL */

	struct NodeAgain *again;		/* NULL: no row has been evaluated so */

	InferScope	scope;				/* of all results, whichever statement asks for them */
	NodeShared *shared;				/* or NULL */
	InferSiteCounters reported;		/* that the leader has received, after shutdown */
} InferBatchState;

/* ---- begin.c ---- */

extern void infer_batch_begin(CustomScanState *css, EState *estate, int eflags);

/* Make the needed columns known; at the first row. */
extern void infer_batch_prepare(InferBatchState *node);

/* ---- expressions.c ---- */

/* Nothing in an expression can raise an error. */
extern bool infer_batch_is_plain(Node *expression);

/* Its evaluation runs nodes of the executor, those of InitPlans apart (protect.c sees to them). */
extern bool infer_batch_runs_plans(Node *expression);
extern bool infer_batch_wants_protection(Node *expression);
extern bool infer_batch_has_column(Node *expression);

/* Add the columns of the scan tuple, and the numbers of PARAM_EXEC, that it reads. */
extern void infer_batch_add_columns(Node *expression, Bitmapset **columns);
extern void infer_batch_add_params(Node *expression, Bitmapset **params);

/* ---- exec.c ---- */

/* The next batch is as small as the first one. */
extern void infer_batch_reset_ramp(InferBatchState *node);

/* ---- fetch.c ---- */

extern void infer_batch_alloc(InferBatchState *node, Batch *batch);
extern void infer_batch_clear(Batch *batch);

/* Up to count more rows of the child; how many there were. */
extern int	infer_batch_fetch(InferBatchState *node, Batch *batch, int count);

/* Make a row of a batch the scan tuple. */
extern void infer_batch_load(InferBatchState *node, const Batch *batch, int row);

/* ---- steps.c ---- */

/* Fetch rows and send their first wave; false: there are none. */
extern bool infer_batch_start(InferBatchState *node, Batch *batch);

/* Another round of the rows that are left in a batch; false: none are. */
extern bool infer_batch_restart(InferBatchState *node, Batch *batch);

/* Take the round through all its steps. */
extern void infer_batch_finish(InferBatchState *node, Batch *batch);

/* ---- calls.c ---- */

/* Arrays as long as the batch's rows are. */
extern void infer_batch_make_calls(InferBatchState *node, Batch *batch);

/* RowStep: the row's calls of a wave, into requests; false: they do not fit into those of the round. */
extern bool infer_batch_ask_wave(InferBatchState *node, Batch *batch, int wave, int row);
extern void infer_batch_send_wave(InferBatchState *node, Batch *batch, int wave);

/* Wait for its results, and store them as columns. */
extern void infer_batch_take_wave(InferBatchState *node, Batch *batch, int wave);

/* ---- protect.c ---- */

/* false: stop before this row. */
typedef bool (*RowStep) (InferBatchState *node, Batch *batch, int what, int row);

typedef struct RowLoop				/* over the live rows [place, last) */
{
	RowStep		step;
	int			what;				/* a wave, or a qual */
	int			stage;				/* for errors: see Batch */
	bool		protect;
	int			place;				/* where it is, and has stopped */
	int			last;
} RowLoop;

/* Runs the step for the rows that have no error; false: it has stopped before the last. */
extern bool infer_batch_run_rows(InferBatchState *node, Batch *batch, RowLoop *loop);

/* After PG_CATCH. */
extern void infer_batch_keep_error(Batch *batch, int stage, int row);

/* Whether an error concerns a row, rather than the session. */
extern bool infer_batch_error_is_rows(int sqlerrcode);

/* ---- again.c ---- */

/* The turn of a row with a kept error: raises what is due; else the row, NULL if it is removed. */
extern TupleTableSlot *infer_batch_again(InferBatchState *node, const Batch *batch, int row);

/* ---- developer.c: any function, to run other tests through the node ---- */

#ifdef INFER_DEVELOPER
extern void infer_batch_function_init(InferBatchState *node, NodeCall *call);

/* Calls it with call->values and call->nulls. */
extern Datum infer_batch_function_run(NodeCall *call, bool *null);
#endif

/* ---- workers.c ---- */

/* Of all its calls, parallel workers' included once these have ended. */
extern void infer_batch_counters(const InferBatchState *node, InferSiteCounters *sum);

/* The node's scope is one with those of the other processes; raises if it cannot be. */
extern void infer_batch_share_scope(InferBatchState *node);

extern Size infer_batch_estimate_shared(CustomScanState *css, ParallelContext *context);
extern void infer_batch_init_shared(CustomScanState *css, ParallelContext *context, void *place);
extern void infer_batch_reinit_shared(CustomScanState *css, ParallelContext *context, void *place);
extern void infer_batch_init_worker(CustomScanState *css, shm_toc *toc, void *place);
extern void infer_batch_shutdown(CustomScanState *css);

/* ---- explain.c ---- */

extern void infer_batch_explain(CustomScanState *css, List *ancestors, ExplainState *es);

#endif							/* INFER_BATCHSCAN_NODE_H */
