/*
 * rewrite.h
 *	  Putting nodes InferBatch into a finished plan: what the files of the rewriting share.
 *
 * Nouns
 *	rewrite		of one statement: its plan, the next node's id, what its calls cost
 *	reader		what is known about who reads a plan's rows
 *	hoist		the making of one node: its atoms, its calls, and the guard, the stage and the
 *				place that the expression being rewritten is in
 *	spread		a row of a table as its columns
 *
 * Loop
 *	plan.c walks over the plan, children first.  At each plan wrap.c and push.c look for calls.
 *	For a node: the atoms are collected (hoist.c), the moved quals and then the target list are
 *	rewritten over INDEX_VAR, which gives the calls, and the node is made of both (node.c).
 *
 * Invariants
 *	- What is rewritten is copied first: a plan that is not wrapped in the end is unchanged.
 *	- Whatever is not known to be right is left as it was.
 */
#ifndef INFER_BATCHSCAN_REWRITE_H
#define INFER_BATCHSCAN_REWRITE_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

#include "../batchscan.h"

typedef struct Rewrite
{
	PlannedStmt *statement;
	int			next_id;			/* plan_node_id */
	int			nodes_count;		/* made so far */
	Cost		calls_cost;			/* of the calls in nodes, as the planner counted it */
	struct Reader *readers;			/* of the subplans */
} Rewrite;

typedef struct Reader
{
	bool		drained;			/* it reads to the end for certain */
	bool		parallel;			/* it is in a parallel worker */
	int64		bound;				/* rows that it reads at most, as far as is known; 0: not known */
	double		loops;				/* how often it starts over, about */

	/* what happens above, or beside, between two rows that it reads */
	bool		modifies;			/* rows are changed or locked */
	bool		calls_volatile;		/* volatile functions are called */
} Reader;

typedef enum HoistKind
{
	HOIST_ABOVE,					/* the node above a plan that computes what calls need */
	HOIST_BELOW,					/* the node above a plan's child, whose columns are the atoms */
	HOIST_RETURNING					/* above ModifyTable */
} HoistKind;

typedef struct Hoist
{
	Rewrite    *rewrite;
	HoistKind	kind;
	List	   *atoms;				/* not in HOIST_BELOW */
	int			atoms_count;
	List	   *calls;				/* BatchCall */
	List	   *shown;				/* for each call: what EXPLAIN shows */
	List	   *spread;				/* of rows: RowExpr */
	List	   *whole;				/* of each of them: the row that it stands for */
	Expr	   *guard;				/* around what is being rewritten; NULL: none */
	int			stage;
	int			stages;				/* moved quals */
	bool		allowed;			/* calls may be hoisted from here */
} Hoist;

/* ---- eligible.c ---- */

extern bool infer_may_be_verb(uint32 hash);
extern bool infer_function_is_plain(Oid function);
extern const InferVerbDef *infer_call_verb(const Node *node);
extern bool infer_is_bound(Node *node);
extern bool infer_has_call(Node *node);
extern bool infer_has_verb(Node *node);

/* ---- hook.c ---- */

/* Whether a statement calls any verb, at little cost where it does not. */
extern bool infer_calls_verb(const PlannedStmt *statement);

/* ---- tree.c ---- */

typedef void (*PlanVisitor) (Plan *plan, void *context);
typedef bool (*ExpressionVisitor) (Node *expression, const char *place, void *context);

/* Every child, those of other extensions' nodes included. */
extern void infer_visit_children(Plan *plan, PlanVisitor visit, void *context);

/*
 * Every expression that a plan evaluates itself, with what it is called ("target list", "qual");
 * ends where visit returns true.
 */
extern bool infer_visit_expressions(Plan *plan, ExpressionVisitor visit, void *context);

/* The target list or the filter. */
extern bool infer_is_own_place(const char *place);

extern int	infer_last_plan_id(const PlannedStmt *statement);

/* Whether evaluating it again, or not at all, could be told: subplans are looked into. */
extern bool infer_is_volatile(const PlannedStmt *statement, Node *expression);

/* Whether reading more or fewer of its rows could be told. */
extern bool infer_reading_is_seen(const PlannedStmt *statement, Plan *plan);

/* Whether what a plan itself evaluates is volatile; its children are not looked at. */
extern bool infer_plan_is_volatile(const PlannedStmt *statement, Plan *plan);

/*
 * Whether a volatile function in it could see what the statement has changed so far, or a change
 * could see the function's: all but a few that have to do with no table.
 */
extern bool infer_sees_changes(const PlannedStmt *statement, Node *expression);
extern bool infer_reading_sees_changes(const PlannedStmt *statement, Plan *plan);

/* ---- hoist.c ---- */

extern bool infer_hoist_collect(Node *node, Hoist *hoist);
extern Node *infer_hoist_rewrite(Node *node, Hoist *hoist);

/* Its children are evaluated whenever it is. */
extern bool infer_is_transparent(const Node *node);

/* Over INDEX_VAR → over OUTER_VAR, for whoever reads the node's columns as they are. */
extern Node *infer_index_to_outer(Node *node);

/* ---- guards.c ---- */

/* As infer_hoist_rewrite, within a guard (over INDEX_VAR, NULL: none) more. */
extern Node *infer_hoist_guarded(Node *node, Expr *guard, Hoist *hoist);
extern Node *infer_hoist_case(CaseExpr *expression, Hoist *hoist);
extern Node *infer_hoist_coalesce(CoalesceExpr *expression, Hoist *hoist);
extern Node *infer_hoist_and_or(BoolExpr *expression, Hoist *hoist);

/* (all of the arguments) IS what */
extern Expr *infer_make_test(BoolTestType what, BoolExprType operator, List *arguments);

/* ---- node.c ---- */

extern Plan *infer_make_node(Hoist *hoist, Plan *child, List *targetlist, List *qual, Plan *like, const Reader *reader);

/* The child's columns, then the calls. */
extern List *infer_pass_targetlist(Hoist *hoist, Plan *child);

/* Each of a plan's columns as its parent refers to them. */
extern List *infer_outer_targetlist(Plan *plan);
extern Plan *infer_make_material(Rewrite *rewrite, Plan *plan);

/* ---- wrap.c, push.c, keys.c, returning.c, limit.c ---- */

extern bool infer_can_wrap(const Plan *plan);
extern bool infer_is_fixed(const Plan *plan);
extern bool infer_scans_relation(const Plan *plan);
extern Plan *infer_wrap(Rewrite *rewrite, Plan *plan, const Reader *reader);
/* Of a node between a plan and its child. */
extern void infer_begin_below(Hoist *hoist, Rewrite *rewrite, Plan *plan);
extern void infer_put_below(Hoist *hoist, Plan *plan, List *expressions, const Reader *reader);
extern void infer_push_aggregates(Rewrite *rewrite, Agg *agg, const Reader *reader);
extern void infer_push_sets(Rewrite *rewrite, ProjectSet *sets, const Reader *reader);
extern void infer_push_keys(Rewrite *rewrite, HashJoin *join, const Reader *outer, const Reader *inner);
extern Plan *infer_wrap_returning(Rewrite *rewrite, ModifyTable *modify, const Reader *reader);
extern Plan *infer_swap_limit(Rewrite *rewrite, Limit *limit);
extern int64 infer_limit_bound(const Limit *limit);

/* ---- spread.c ---- */

/* Rows of the scanned table, where they are all that a call is given, as their columns. */
extern Node *infer_spread_rows(Hoist *hoist, Scan *scan, Node *expression);

/* The place of a call's only input among its arguments; -1: there are several, or an array. */
extern int	infer_only_input(Node *node);
extern RowExpr *infer_row_of_scan(const Rewrite *rewrite, Scan *scan, Node *value);

/* Puts the atoms in the order of the table's columns if the scan then need not project. */
extern void infer_order_atoms(Hoist *hoist, Scan *scan);

/* ---- below.c ---- */

/* The same where the rows come from scans further below: these then give columns. */
extern void infer_spread_below(Hoist *hoist, Plan *plan);

/* ---- cost.c ---- */

extern void infer_count_cost(Rewrite *rewrite, Plan *plan, List *targetlist, List *quals, const Reader *reader);

/* What the calls cost is nothing that compiling expressions would save. */
extern void infer_lower_jit(const Rewrite *rewrite);

/* ---- reasons.c ---- */

typedef struct InferUnbatched
{
	Plan	   *plan;				/* where it is left */
	Node	   *call;
	const char *reason;
} InferUnbatched;

extern List *infer_list_unbatched(const PlannedStmt *statement);

/* ---- unbatched.c ---- */

extern void infer_explain_init(void);

#endif							/* INFER_BATCHSCAN_REWRITE_H */
