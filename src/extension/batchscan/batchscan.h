/*
 * batchscan.h
 *	  Batching inside a statement: what the rewriting of plans and the node share.
 *
 * Nouns
 *	call		an expression that asks a model (a FuncExpr of a verb), computed by the node
 *	atom		what the node's child computes: a Var, an aggregate, a window function …
 *	guard		the condition under which a call's arguments may be evaluated at all
 *	stage		when a call is computed: before the moved qual of that number; equal to the number
 *				of quals: after all of them
 *	drained		whoever reads the node surely reads it to its end
 *	bound		how many rows are read at most, as far as the plan tells; 0: not known
 *
 * The plan of a node: see plan.c.  custom_scan_tlist has one OUTER_VAR for each child column, then one
 * entry for each call (as EXPLAIN shows it).  Its target list, its qual and the calls' arguments
 * and guards refer to those entries as INDEX_VAR: child columns, and earlier calls where calls are nested.
 * custom_exprs and custom_private hold the calls: infer_batch_put_calls, infer_batch_get_calls.
 *
 * Nothing in a plan is a pointer: plans are cached, copied and sent to parallel workers.
 */
#ifndef INFER_BATCHSCAN_H
#define INFER_BATCHSCAN_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "nodes/primnodes.h"

#include "../infer.h"
#include "../verbs.h"

#define INFER_BATCH_NODE	"InferBatch"

typedef struct BatchCall
{
	Expr	   *call;				/* as the statement has it (types, VARIADIC); its Vars mean nothing here */
	List	   *args;				/* over INDEX_VAR.  A row of a table, as the scan below reads it, is a
									 * RowExpr of its columns (dropped ones: NULL constants) */
	Expr	   *guard;				/* over INDEX_VAR; NULL: always */
	int			stage;
} BatchCall;

typedef struct BatchInfo			/* of a node */
{
	List	   *calls;				/* BatchCall, palloc'd; call number j is INDEX_VAR child columns + 1 + j */
	bool		drained;
	bool		one_by_one;			/* the child must not run ahead: batches of one */
	int64		bound;
} BatchInfo;

extern void infer_batch_put(CustomScan *scan, const BatchInfo *info);
extern void infer_batch_get(const CustomScan *scan, BatchInfo *info);

/* ---- eligible.c ---- */

/*
 * The verb that a function is, or NULL; cached by oid.  A function is a verb by its language, its
 * library and its symbol, whatever its name and schema.
 */
extern const InferVerbDef *infer_batch_verb(Oid function);

/* Whether this expression is a call that the node could compute. */
extern bool infer_batch_is_call(const Node *node);

extern Oid	infer_called_function(const Node *node);	/* of FuncExpr, OpExpr; else invalid */
extern List *infer_call_arguments(const Node *node);	/* of these */
extern Expr *infer_call_with_arguments(const Node *node, List *arguments);	/* the same call, of others */

/* ---- plan.c ---- */

/* Puts nodes into a finished plan. */
extern void infer_batch_rewrite(PlannedStmt *statement, int cursor_options);

/* ---- node/exec.c ---- */

extern const CustomScanMethods infer_batch_methods;

/* Whoever reads this plan may end early: if it modifies rows, it does so one by one. */
extern void infer_batch_expect_end(PlanState *plan);

static inline bool
infer_is_batch(const Plan *plan)
{
	return plan != NULL && IsA(plan, CustomScan) &&
		((const CustomScan *) plan)->methods == &infer_batch_methods;
}

/* ---- hook.c ---- */

extern void infer_batch_init(void);	/* from _PG_init */

#endif							/* INFER_BATCHSCAN_H */
