/*
 * asked.c
 *	  What a call asks of which model, and what it answers: the same for one call and for many.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "internal.h"

void
verb_spread(Datum value, VerbArguments *arguments)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	int16		length;
	bool		byval;
	char		align;

	arguments->element = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(arguments->element, &length, &byval, &align);
	deconstruct_array(array, arguments->element, length, byval, align,
					  &arguments->values, &arguments->nulls, &arguments->count);
	if (arguments->count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no input was given"),
				 errhint("Give a row, an array, a jsonb object, or the features one by one.")));
}

static void
check_types(int nargs, const Oid *types)
{
	for (int i = 0; i < nargs; i++)
		if (!OidIsValid(types[i]))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("could not determine the type of input %d", i + 1)));
}

VerbAsked *
verb_ask(InferVerb verb, const char *name, int name_length, int nargs, Oid element,
		 const Oid *types, Oid columns)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer call site",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	VerbAsked  *asked = palloc0(sizeof(VerbAsked));

	asked->context = context;
	asked->name = pnstrdup(name, name_length);
	asked->name_length = name_length;
	asked->model = infer_model_resolve(asked->name, context);
	asked->wanted = infer_result_wanted(asked->model, verb);
	asked->nargs = nargs;
	asked->element = element;
	check_types(nargs, types);
	asked->binding = OidIsValid(columns) ? infer_binding_make_columns(asked->model, columns, context)
		: infer_binding_make(asked->model, nargs, types, context);
	MemoryContextSwitchTo(old);
	return asked;
}

void
verb_check_usage(VerbAsked *asked)
{
	Oid			user = GetUserId();
	TimestampTz transaction = GetCurrentTransactionStartTimestamp();
	TimestampTz statement = GetCurrentStatementStartTimestamp();
	CommandId	command = GetCurrentCommandId(false);

	if (asked->checked_user == user && asked->checked_transaction == transaction &&
		asked->checked_statement == statement && asked->checked_command == command)
		return;
	infer_model_check_usage(asked->model);
	asked->checked_user = user;
	asked->checked_transaction = transaction;
	asked->checked_statement = statement;
	asked->checked_command = command;
}

Datum
verb_result(const VerbAsked *asked, InferVerb verb, InferCall *call, uint32 row, int class_)
{
	switch (verb)
	{
		case INFER_VERB_INFER:
			return infer_result_jsonb(asked->model, call, row);
		case INFER_VERB_PREDICT:
			return Float8GetDatum(infer_result_number(asked->model, call, row));
		case INFER_VERB_OUTPUTS:
			return infer_result_numbers(asked->model, call, row);
		case INFER_VERB_CLASSIFY:
			return PointerGetDatum(infer_result_label(asked->model, call, row));
		case INFER_VERB_PROBABILITIES:
			return infer_result_probabilities(asked->model, call, row);
		case INFER_VERB_PROBABILITY:
			return Float8GetDatum(infer_result_probability(asked->model, call, row, class_));
	}
	elog(ERROR, "unexpected verb %d", (int) verb);
}

/*
 * The last two are of text that UTF-8 or the database's encoding cannot hold.
 */
bool
verb_error_is_rows(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE ||
		sqlerrcode == ERRCODE_NULL_VALUE_NOT_ALLOWED ||
		sqlerrcode == ERRCODE_INVALID_PARAMETER_VALUE ||
		sqlerrcode == ERRCODE_INFER_NOT_FINITE ||
		sqlerrcode == ERRCODE_CHARACTER_NOT_IN_REPERTOIRE ||
		sqlerrcode == ERRCODE_UNTRANSLATABLE_CHARACTER;
}
