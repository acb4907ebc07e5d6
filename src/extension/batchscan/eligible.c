/*
 * eligible.c
 *	  Which functions are verbs, and which calls of them the node could compute.
 *
 * A function is a verb by its language, its library and its symbol, as pg_proc has them: nothing
 * is loaded while planning.  What was found is kept until pg_proc changes.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "batchscan.h"
#include "rewrite/rewrite.h"

#define LIBRARY	"$libdir/infer"

typedef struct KnownFunction
{
	uint32		hash;				/* key: of the oid, in the syscache */
	Oid			oid;
	const InferVerbDef *verb;		/* NULL: none */
	bool		plain;				/* it runs as the caller, with the caller's settings, for one result */
} KnownFunction;

static HTAB *known_functions;		/* NULL before the first look-up */
static uint64 invalidations;

/* ---- functions ---- */

/* SyscacheCallbackFunction.  hash 0: all. */
static void
forget_functions(Datum argument, int cache, uint32 hash)
{
	HASH_SEQ_STATUS status;
	KnownFunction *known;

	invalidations++;
	if (hash != 0)
	{
		hash_search(known_functions, &hash, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&status, known_functions);
	while ((known = hash_seq_search(&status)) != NULL)
		hash_search(known_functions, &known->hash, HASH_REMOVE, NULL);
}

static void
make_known_functions(void)
{
	HASHCTL		control = {
		.keysize = sizeof(uint32),
		.entrysize = sizeof(KnownFunction),
		.hcxt = CacheMemoryContext,
	};

	known_functions = hash_create("infer functions", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterSyscacheCallback(PROCOID, forget_functions, (Datum) 0);
}

static const InferVerbDef *
verb_of_tuple(HeapTuple tuple)
{
	bool		null;
	Datum		library;
	Datum		symbol;

	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang != ClanguageId)
		return NULL;
	library = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_probin, &null);
	if (null || strcmp(TextDatumGetCString(library), LIBRARY) != 0)
		return NULL;
	symbol = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &null);
	return null ? NULL : infer_verb_by_source(TextDatumGetCString(symbol));
}

static void
read_function(KnownFunction *function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function->oid));

	if (!HeapTupleIsValid(tuple))
		return;
	function->verb = verb_of_tuple(tuple);
	if (function->verb != NULL)
	{
		Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);

		function->plain = !form->proretset && !form->prosecdef && !form->proisstrict &&
			heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL);
	}
	ReleaseSysCache(tuple);
}

static KnownFunction
look_up(Oid oid)
{
	KnownFunction function = {.oid = oid};
	KnownFunction *known;
	uint64		before;

	if (oid < FirstUnpinnedObjectId)
		return function;
	if (known_functions == NULL)
		make_known_functions();
	function.hash = GetSysCacheHashValue1(PROCOID, ObjectIdGetDatum(oid));
	known = hash_search(known_functions, &function.hash, HASH_FIND, NULL);
	if (known != NULL && known->oid == oid)
		return *known;

	/* what changed while it was read is not kept */
	before = invalidations;
	read_function(&function);
	if (before == invalidations)
	{
		known = hash_search(known_functions, &function.hash, HASH_ENTER, NULL);
		*known = function;
	}
	return function;
}

/* Whether a function that a plan names could be a verb: false only if it is known not to be. */
bool
infer_may_be_verb(uint32 hash)
{
	const KnownFunction *known;

	if (known_functions == NULL)
		return true;
	known = hash_search(known_functions, &hash, HASH_FIND, NULL);
	return known == NULL || known->verb != NULL;
}

const InferVerbDef *
infer_batch_verb(Oid function)
{
	return look_up(function).verb;
}

bool
infer_function_is_plain(Oid function)
{
	return look_up(function).plain;
}

/* ---- calls ---- */

Oid
infer_called_function(const Node *node)
{
	if (IsA(node, FuncExpr))
		return ((const FuncExpr *) node)->funcid;
	if (IsA(node, OpExpr))
		return ((const OpExpr *) node)->opfuncid;
	return InvalidOid;
}

List *
infer_call_arguments(const Node *node)
{
	return IsA(node, FuncExpr) ? ((const FuncExpr *) node)->args : ((const OpExpr *) node)->args;
}

Expr *
infer_call_with_arguments(const Node *node, List *arguments)
{
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *call = makeNode(FuncExpr);

		*call = *(const FuncExpr *) node;
		call->args = arguments;
		return (Expr *) call;
	}
	else
	{
		OpExpr	   *call = makeNode(OpExpr);

		Assert(IsA(node, OpExpr));
		*call = *(const OpExpr *) node;
		call->args = arguments;
		return (Expr *) call;
	}
}

const InferVerbDef *
infer_call_verb(const Node *node)
{
	return IsA(node, FuncExpr) ? infer_batch_verb(((const FuncExpr *) node)->funcid) : NULL;
}

/*
 * Whether an expression has a value only within one around it: a CASE's operand, a domain's
 * value.  Those that it binds itself do not count.
 */
static bool
is_bound_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_CaseTestExpr:
		case T_CoerceToDomainValue:
			return true;
		case T_ArrayCoerceExpr:
			return is_bound_walker((Node *) ((ArrayCoerceExpr *) node)->arg, context);
		case T_CaseExpr:
			{
				CaseExpr   *expression = (CaseExpr *) node;
				ListCell   *cell;

				if (expression->arg == NULL)
					break;
				foreach(cell, expression->args)
					if (is_bound_walker((Node *) lfirst_node(CaseWhen, cell)->result, context))
						return true;
				return is_bound_walker((Node *) expression->arg, context) ||
					is_bound_walker((Node *) expression->defresult, context);
			}
		default:
			break;
	}
	return expression_tree_walker(node, is_bound_walker, context);
}

bool
infer_is_bound(Node *node)
{
	return is_bound_walker(node, NULL);
}

#ifdef INFER_DEVELOPER

/* infer.debug_batch_all: what is neither volatile nor a set, and has arguments. */
static bool
is_any_call(const Node *node)
{
	Oid			function = infer_called_function(node);

	if (!infer_debug_batch_all || !OidIsValid(function) || infer_call_arguments(node) == NIL)
		return false;
	if (IsA(node, FuncExpr) ? ((const FuncExpr *) node)->funcretset : ((const OpExpr *) node)->opretset)
		return false;
	return func_volatile(function) != PROVOLATILE_VOLATILE;
}
#endif

/* Of what kind the call is; its arguments are not looked at. */
static bool
is_candidate(const Node *node)
{
	const InferVerbDef *verb = infer_call_verb(node);

	if (verb != NULL)
		return verb->hoist && infer_function_is_plain(((const FuncExpr *) node)->funcid);
#ifdef INFER_DEVELOPER
	return is_any_call(node);
#else
	return false;
#endif
}

bool
infer_batch_is_call(const Node *node)
{
	Node	   *arguments;

	if (!is_candidate(node))
		return false;
	arguments = (Node *) infer_call_arguments(node);
	return !infer_is_bound(arguments) && !contain_volatile_functions(arguments);
}

static bool
has_call_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (infer_batch_is_call(node))
		return true;
	return expression_tree_walker(node, has_call_walker, context);
}

bool
infer_has_call(Node *node)
{
	return has_call_walker(node, NULL);
}

static bool
has_verb_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (infer_call_verb(node) != NULL)
		return true;
#ifdef INFER_DEVELOPER
	if (infer_debug_batch_all && is_any_call(node))
		return true;
#endif
	return expression_tree_walker(node, has_verb_walker, context);
}

/* Whether any verb is called, however. */
bool
infer_has_verb(Node *node)
{
	return has_verb_walker(node, NULL);
}
