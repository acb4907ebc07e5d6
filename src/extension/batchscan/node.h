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
 *	one, which has been fetched (fetch.c) and whose first wave has been sent (steps.c) while the
 *	current one was computed, and takes it through its remaining steps.
 *
 * Memory
 *	A batch has a context of its own: rows, results, kept errors, calls in flight.  Resetting it
 *	cancels what is in flight.  What lives as long as the node is in the query's context.
 */
#ifndef INFER_BATCHSCAN_NODE_H
#define INFER_BATCHSCAN_NODE_H

#include "batchscan.h"

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

typedef struct NodeShared			/* counters of parallel workers */
{
	slock_t		mutex;
	int			workers;
	InferSiteCounters counters;
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

	NodeShared *shared;				/* or NULL */
	InferSiteCounters reported;		/* that the leader has received, after shutdown */
} InferBatchState;

/* ---- exec.c ---- */

/* Make the needed columns known; at the first row. */
extern void infer_batch_prepare(InferBatchState *node);

/* Of all its calls, parallel workers' included once these have ended. */
extern void infer_batch_counters(const InferBatchState *node, InferSiteCounters *sum);

/* Nothing in an expression can raise an error. */
extern bool infer_batch_is_plain(Node *expression);

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

/* ---- explain.c ---- */

extern void infer_batch_explain(CustomScanState *css, List *ancestors, ExplainState *es);

#endif							/* INFER_BATCHSCAN_NODE_H */
