/*
 * cost.c
 *	  What a call of a verb costs, for the planner: infer.verb_support.
 *
 * Nouns
 *	row			nsec that a row of the model takes on the device: measured, else predicted by the
 *				engine when the model was made, else guessed from its size
 *	generic		where the planner cannot know the model: its name is no constant, there is no such
 *				model, or the user may not use it
 *	held		what was found for a name while the current statement is planned
 *
 * Units
 *	The planner's unit is whatever the cost settings make it; we count in nsec, and take
 *	cpu_operator_cost (0.0025) for OPERATOR_NSEC.  Measured on one core of an AMD EPYC (Zen 5), in time of
 *	the processor, PostgreSQL 15 over 2,000,000 cached rows: count(*) takes 29 nsec a row (cpu_tuple_cost,
 *	which is 4 operators), a qual a > 0 with the fetching of its column 11, each + 1 more 3.  10 lies
 *	between, and makes COST 1000, which functions with unknown costs of this kind declare, 10 usec.
 *
 * Rules
 *	- Nothing here raises, connects or loads: a statement that would fail is planned nevertheless.
 *	- Times are rounded to powers of two, so that plans do not change with every measurement.
 *	- A parallel plan divides these costs by its workers, as those of any function, although they
 *	  share one device: nothing tells us whether a path is parallel.
 *	- Not preloaded, every call fails, and costs what it declares.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"

#include "../batchscan/batchscan.h"
#include "internal.h"

#define OPERATOR_NSEC	10.0		/* of cpu_operator_cost */
#define GENERIC_NSEC	10000.0		/* a row of a model that is not known */

/* The processor's time in the session, measured with a model of one addition on the same machine. */
#define BATCHED_NSEC	150.0		/* a row in a batch: copied, encoded, decoded */
#define JSONB_NSEC		150.0		/* to make a jsonb of a result */
#define SINGLE_NSEC		4000.0		/* a call of one row: 2000 if the engine is awake, 7000 if it is woken */
#define TOKENS_NSEC		20000.0		/* to tell the tokens of a text of 1 kB */
#define TEXTS			10.0		/* of an array whose length is not known */
#define ROW_NSEC_MAX	1e9			/* beyond, all are the same to the planner */

/* Guessed from a model's bytes: matrix products of many rows, of one row. */
#define BYTE_NSEC		0.002
#define BYTE_ALONE_NSEC	0.01
#define SMALL_NSEC		200.0
#define SMALL_ALONE_NSEC 400.0
#define BATCHING_GAIN	16.0		/* a row by itself takes so many times a row of many, at most */

typedef struct RowCost				/* nsec on the device */
{
	double		alone;
	double		of_many;
} RowCost;

typedef struct HeldCost
{
	uint64		planning;
	uint64		generation;			/* of the catalogue */
	Oid			user;
	char		name[NAMEDATALEN + 16];	/* "": free */
	RowCost		cost;
} HeldCost;

static uint64 planning;				/* the current one; 0: none */
static uint64 plannings;
static HeldCost held_costs[8];
static int	held_next;

/* ---- holding ---- */

uint64
infer_costs_hold(void)
{
	uint64		outer = planning;

	planning = ++plannings;
	return outer;
}

void
infer_costs_release(uint64 outer)
{
	planning = outer;
}

static const RowCost *
find_held(const char *name)
{
	for (int i = 0; i < lengthof(held_costs); i++)
	{
		const HeldCost *held = &held_costs[i];

		if (held->planning == planning && held->generation == infer_catalog_generation() &&
			held->user == GetUserId() && strcmp(held->name, name) == 0)
			return &held->cost;
	}
	return NULL;
}

static void
hold(const char *name, const RowCost *cost)
{
	HeldCost   *held = &held_costs[held_next++ % lengthof(held_costs)];

	if (strlen(name) >= sizeof(held->name))
		return;
	held->planning = planning;
	held->generation = infer_catalog_generation();
	held->user = GetUserId();
	strlcpy(held->name, name, sizeof(held->name));
	held->cost = *cost;
}

/* ---- a model's rows ---- */

static double
rounded(double nsec)
{
	return exp2(round(log2(Min(Max(nsec, 1), ROW_NSEC_MAX))));
}

static RowCost
predicted(const InferGlance *glance)
{
	RowCost		cost = {.alone = glance->alone_nsec, .of_many = glance->row_nsec};

	if (glance->alone_nsec == 0)
		cost.alone = SMALL_ALONE_NSEC + glance->bytes * BYTE_ALONE_NSEC;
	if (glance->row_nsec == 0)
		cost.of_many = SMALL_NSEC + glance->bytes * BYTE_NSEC;
	return cost;
}

/* What was not measured is predicted, within what the other measurement allows. */
static RowCost
known_cost(const InferGlance *glance)
{
	RowCost		cost = predicted(glance);
	double		alone = infer_client_row_nsec(glance->key, INFER_ROW_ALONE);
	double		of_many = infer_client_row_nsec(glance->key, INFER_ROW_OF_MANY);

	if (alone > 0)
		cost = (RowCost) {alone, Max(Min(cost.of_many, alone), alone / BATCHING_GAIN)};
	if (of_many > 0)
		cost = (RowCost) {alone > 0 ? alone : Max(cost.alone, of_many), of_many};
	return (RowCost) {rounded(cost.alone), rounded(cost.of_many)};
}

static RowCost
find_cost(const char *name)
{
	const RowCost *held = find_held(name);
	RowCost		cost = {GENERIC_NSEC, GENERIC_NSEC};
	InferGlance glance;

	if (held != NULL)
		return *held;
	if (infer_model_glance(name, &glance))
		cost = known_cost(&glance);
	hold(name, &cost);
	return cost;
}

static bool
is_null(const Node *argument)
{
	return IsA(argument, Const) && ((const Const *) argument)->constisnull;
}

/* Whether the device has no part in it. */
static bool
is_of_tokens(const InferVerbDef *def)
{
	return def != NULL && (def->verb == INFER_VERB_TOKENIZE || def->verb == INFER_VERB_TOKEN_COUNT ||
						   def->verb == INFER_VERB_CHUNK);
}

static RowCost
cost_of_call(const FuncExpr *call, const InferVerbDef *def)
{
	const Const *name = linitial(call->args);

	if (is_of_tokens(def))
		return (RowCost) {TOKENS_NSEC, TOKENS_NSEC};
	if (!IsA(name, Const) || name->consttype != TEXTOID)
		return (RowCost) {GENERIC_NSEC, GENERIC_NSEC};
	return find_cost(TextDatumGetCString(name->constvalue));
}

/* ---- a call ---- */

/* Of the inputs: then a statement in batches asks once. */
static bool
is_constant(const FuncExpr *call)
{
	ListCell   *cell;

	foreach(cell, call->args)
	{
		const Node *argument = lfirst(cell);

		if (!IsA(argument, Const) &&
			!(IsA(argument, Param) && ((const Param *) argument)->paramkind == PARAM_EXTERN))
			return false;
	}
	return true;
}

static void
set_cost(SupportRequestCost *request, double startup_nsec, double row_nsec)
{
	request->startup = startup_nsec / OPERATOR_NSEC * cpu_operator_cost;
	request->per_tuple = Max(row_nsec / OPERATOR_NSEC, 1) * cpu_operator_cost;
}

/* Texts that one call of embed_all has. */
static double
texts_of(PlannerInfo *root, const FuncExpr *call)
{
	Node	   *texts = lsecond(call->args);

	if (!IsA(texts, Const) && !IsA(texts, ArrayExpr))
		return TEXTS;
	return Max(infer_array_length(root, texts), 1);
}

static bool
is_embed_all(const FuncExpr *call, const InferVerbDef *def)
{
	return call->funcretset && def != NULL && def->verb == INFER_VERB_EMBED;
}

static void
find_call_cost(SupportRequestCost *request, const FuncExpr *call)
{
	double		around = call->funcresulttype == JSONBOID ? JSONB_NSEC : 0;
	const InferVerbDef *def = infer_batch_verb(call->funcid);
	RowCost		cost;

	if (is_null(linitial(call->args)))
	{
		set_cost(request, 0, 0);
		return;
	}
	cost = cost_of_call(call, def);
	if (is_embed_all(call, def))
		set_cost(request, 0, texts_of(request->root, call) * (cost.of_many + BATCHED_NSEC) + SINGLE_NSEC);
	else if (!infer_batching || call->funcretset)
		set_cost(request, 0, cost.alone + SINGLE_NSEC + around);
	else if (is_constant(call))
		set_cost(request, cost.alone + SINGLE_NSEC + around, 0);
	else
		set_cost(request, SINGLE_NSEC, cost.of_many + BATCHED_NSEC + around);
}

static bool
is_call(const Node *node)
{
	return node != NULL && IsA(node, FuncExpr) && ((const FuncExpr *) node)->args != NIL;
}

/* Rows of embed_all; the others' are as they declare. */
static bool
find_rows(SupportRequestRows *request)
{
	const FuncExpr *call = (const FuncExpr *) request->node;

	if (!is_embed_all(call, infer_batch_verb(call->funcid)))
		return false;
	request->rows = texts_of(request->root, call);
	return true;
}

PG_FUNCTION_INFO_V1(infer_verb_support);
Datum
infer_verb_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (infer_shared == NULL)
		PG_RETURN_POINTER(NULL);
	if (IsA(request, SupportRequestRows) && is_call(((SupportRequestRows *) request)->node) &&
		find_rows((SupportRequestRows *) request))
		PG_RETURN_POINTER(request);
	if (IsA(request, SupportRequestCost) && is_call(((SupportRequestCost *) request)->node))
	{
		SupportRequestCost *cost = (SupportRequestCost *) request;

		find_call_cost(cost, (FuncExpr *) cost->node);
		PG_RETURN_POINTER(request);
	}
	PG_RETURN_POINTER(NULL);
}
