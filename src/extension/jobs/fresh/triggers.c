/*
 * triggers.c
 *	  The functions that the triggers of kept columns call: for each row that somebody writes, so short.
 *
 * define.c has how they are called.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "fresh.h"

PG_FUNCTION_INFO_V1(infer_fresh_note);
PG_FUNCTION_INFO_V1(infer_fresh_of);
PG_FUNCTION_INFO_V1(infer_fresh_differs);
PG_FUNCTION_INFO_V1(infer_fresh_kept);
PG_FUNCTION_INFO_V1(infer_fresh_clear);

/* infer.fresh_note(number, value of the version column) → false */
Datum
infer_fresh_note(PG_FUNCTION_ARGS)
{
	Oid		   *type = fcinfo->flinfo->fn_extra;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	if (type == NULL)
	{
		Oid			argument = get_fn_expr_argtype(fcinfo->flinfo, 1);

		fcinfo->flinfo->fn_extra = type = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(Oid));
		*type = OidIsValid(argument) ? getBaseType(argument) : InvalidOid;
	}
	fresh_note(PG_GETARG_INT64(0), PG_GETARG_DATUM(1), PG_ARGISNULL(1), *type);
	PG_RETURN_BOOL(false);
}

Datum
infer_fresh_of(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(false);
}

typedef struct Compared				/* a type */
{
	int16		length;
	bool		by_value;
} Compared;

/* A value out of line that was not touched has the same pointer, and need not be read. */
static bool
is_same_pointer(Datum a, Datum b)
{
	struct varlena *left = (struct varlena *) DatumGetPointer(a);
	struct varlena *right = (struct varlena *) DatumGetPointer(b);

	return VARATT_IS_EXTERNAL_ONDISK(left) && VARATT_IS_EXTERNAL_ONDISK(right) &&
		memcmp(left, right, VARSIZE_EXTERNAL(left)) == 0;
}

/* infer.fresh_differs(old, new): by their bytes, whatever the type's own idea of equality */
Datum
infer_fresh_differs(PG_FUNCTION_ARGS)
{
	Compared   *type = fcinfo->flinfo->fn_extra;
	Datum		old = PG_GETARG_DATUM(0);
	Datum		new = PG_GETARG_DATUM(1);

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_BOOL(PG_ARGISNULL(0) != PG_ARGISNULL(1));
	if (type == NULL)
	{
		Oid			argument = get_fn_expr_argtype(fcinfo->flinfo, 0);

		if (!OidIsValid(argument) || argument != get_fn_expr_argtype(fcinfo->flinfo, 1))
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("infer.fresh_differs() compares values of one type")));
		fcinfo->flinfo->fn_extra = type = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(Compared));
		get_typlenbyval(argument, &type->length, &type->by_value);
	}
	if (type->length == -1 && is_same_pointer(old, new))
		PG_RETURN_BOOL(false);
	PG_RETURN_BOOL(!datum_image_eq(old, new, type->by_value, type->length));
}

static void
no_such_trigger(const char *function)
{
	ereport(ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg("function infer.%s() is of the triggers that infer.keep_fresh() makes", function)));
}

/* Its WHEN is never true. */
Datum
infer_fresh_kept(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		no_such_trigger("fresh_kept");
	return PointerGetDatum(NULL);
}

static bool
find_version(Node *node, AttrNumber *version)
{
	if (node == NULL)
		return false;
	if (IsA(node, NullTest) && IsA(((NullTest *) node)->arg, Var))
	{
		*version = ((Var *) ((NullTest *) node)->arg)->varattno;
		return true;
	}
	return expression_tree_walker(node, find_version, version);
}

/* The version column, which the trigger's own WHEN names: new.version IS NOT NULL AND ... */
static AttrNumber
version_column(FunctionCallInfo fcinfo, const Trigger *trigger)
{
	AttrNumber *version = fcinfo->flinfo->fn_extra;

	if (version == NULL)
	{
		fcinfo->flinfo->fn_extra = version = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(AttrNumber));
		if (trigger->tgqual != NULL)
			find_version(stringToNode(trigger->tgqual), version);
	}
	return *version;
}

/* Before an update that changes an input: the row's value is of the input that was. */
Datum
infer_fresh_clear(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	int			version;
	Datum		value = (Datum) 0;
	bool		isnull = true;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
		!TRIGGER_FIRED_BY_UPDATE(data->tg_event) || !TRIGGER_FIRED_BEFORE(data->tg_event))
		no_such_trigger("fresh_clear");
	version = version_column(fcinfo, data->tg_trigger);
	if (version <= 0)
		return PointerGetDatum(data->tg_newtuple);
	return PointerGetDatum(heap_modify_tuple_by_cols(data->tg_newtuple, RelationGetDescr(data->tg_relation), 1, &version,
													 &value, &isnull));
}
