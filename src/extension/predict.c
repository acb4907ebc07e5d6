/*
 * predict.c
 *	  The verbs: infer, try, predict, outputs, classify, probabilities, probability; and
 *	  infer.profile, a call that says where its time went.
 *
 * Nouns
 *	site		what one call site (an FmgrInfo) keeps between rows: the model that its name
 *				meant and the binding of its arguments
 *
 * Loop
 *	Each call looks whether its site still stands (the name, the catalogue, the user), then:
 *	begin, write the row, submit, wait, result, end.
 *
 * Invariants
 *	- An FmgrInfo may outlive its statement, its transaction and its user (a simple
 *	  expression of PL/pgSQL does).  The site is looked at anew in every call, the
 *	  privilege in every command.
 *	- A site is replaced only after its successor is complete.
 *	- With quiet, what is the row's own (its values, its result) or the engine's being lost,
 *	  late or full becomes NULL.  Whatever concerns the statement (name, privilege, types,
 *	  names of columns, the verb) is raised before that.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "compat.h"
#include "infer.h"
#include "values.h"

typedef struct VerbSite
{
	MemoryContext context;			/* of everything here */
	InferModel *model;
	InferBinding *binding;
	uint32		wanted;				/* outputs */
	int			name_length;
	char	   *name;				/* as the call gave it */
	int			nargs;				/* of the model's arguments */
	Oid			element;			/* VARIADIC array: its element type, else invalid */

	/* for whom and when the privilege was last checked */
	Oid			checked_user;
	TimestampTz checked_transaction;
	TimestampTz checked_statement;
	CommandId	checked_command;
} VerbSite;

typedef struct VerbArguments		/* of one call, after the model and the class */
{
	int			count;
	Oid			element;
	Datum	   *values;
	bool	   *nulls;
	Datum		inline_values[FUNC_MAX_ARGS];
	bool		inline_nulls[FUNC_MAX_ARGS];
} VerbArguments;

typedef struct VerbCall
{
	InferVerb	verb;
	int			class_;				/* probability */
	Datum		result;
} VerbCall;

/* ---- arguments ---- */

/* VARIADIC array: its elements are the arguments.  false if the array is NULL. */
static bool
spread_variadic(FunctionCallInfo fcinfo, int first, VerbArguments *arguments)
{
	ArrayType  *array;
	int16		length;
	bool		byval;
	char		align;

	if (PG_ARGISNULL(first))
		return false;
	array = PG_GETARG_ARRAYTYPE_P(first);
	arguments->element = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(arguments->element, &length, &byval, &align);
	deconstruct_array(array, arguments->element, length, byval, align,
					  &arguments->values, &arguments->nulls, &arguments->count);
	if (arguments->count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no input was given"),
				 errhint("Give a row, an array, a jsonb object, or the features one by one.")));
	return true;
}

/* false if the call's answer is NULL without asking: one single input that is NULL. */
static bool
read_arguments(FunctionCallInfo fcinfo, int first, VerbArguments *arguments)
{
	if (unlikely(get_fn_expr_variadic(fcinfo->flinfo)))
	{
		if (!spread_variadic(fcinfo, first, arguments))
			return false;
	}
	else
	{
		arguments->count = PG_NARGS() - first;
		arguments->element = InvalidOid;
		arguments->values = arguments->inline_values;
		arguments->nulls = arguments->inline_nulls;
		for (int i = 0; i < arguments->count; i++)
		{
			arguments->values[i] = PG_GETARG_DATUM(first + i);
			arguments->nulls[i] = PG_ARGISNULL(first + i);
		}
	}
	return !(arguments->count == 1 && arguments->nulls[0]);
}

static Oid *
argument_types(FunctionCallInfo fcinfo, int first, const VerbArguments *arguments)
{
	Oid		   *types = palloc(sizeof(Oid) * arguments->count);

	for (int i = 0; i < arguments->count; i++)
	{
		types[i] = OidIsValid(arguments->element) ? arguments->element
			: get_fn_expr_argtype(fcinfo->flinfo, first + i);
		if (!OidIsValid(types[i]))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("could not determine the type of input %d", i + 1)));
	}
	return types;
}

/* ---- sites ---- */

static VerbSite *
make_site(FunctionCallInfo fcinfo, InferVerb verb, int first, const VerbArguments *arguments)
{
	text	   *name = PG_GETARG_TEXT_PP(0);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer call site",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	VerbSite   *site = palloc0(sizeof(VerbSite));

	site->context = context;
	site->name = text_to_cstring(name);
	site->name_length = strlen(site->name);
	site->model = infer_model_resolve(site->name, context);
	site->wanted = infer_result_wanted(site->model, verb);
	site->nargs = arguments->count;
	site->element = arguments->element;
	site->binding = infer_binding_make(site->model, arguments->count,
									   argument_types(fcinfo, first, arguments), context);
	MemoryContextSwitchTo(old);
	return site;
}

static void
replace_site(FunctionCallInfo fcinfo, VerbSite *site)
{
	VerbSite   *previous = fcinfo->flinfo->fn_extra;

	MemoryContextSetParent(site->context, fcinfo->flinfo->fn_mcxt);
	fcinfo->flinfo->fn_extra = site;
	if (previous != NULL)
		MemoryContextDelete(previous->context);
}

static bool
site_stands(FunctionCallInfo fcinfo, const VerbSite *site, const VerbArguments *arguments)
{
	text	   *name = PG_GETARG_TEXT_PP(0);

	return VARSIZE_ANY_EXHDR(name) == site->name_length &&
		memcmp(VARDATA_ANY(name), site->name, site->name_length) == 0 &&
		arguments->count == site->nargs && arguments->element == site->element &&
		infer_model_current(site->model);
}

/* Raises 42501 unless the user may use the model; once per command and user. */
static void
check_usage(VerbSite *site)
{
	Oid			user = GetUserId();
	TimestampTz transaction = GetCurrentTransactionStartTimestamp();
	TimestampTz statement = GetCurrentStatementStartTimestamp();
	CommandId	command = GetCurrentCommandId(false);

	if (site->checked_user == user && site->checked_transaction == transaction &&
		site->checked_statement == statement && site->checked_command == command)
		return;
	infer_model_check_usage(site->model);
	site->checked_user = user;
	site->checked_transaction = transaction;
	site->checked_statement = statement;
	site->checked_command = command;
}

static VerbSite *
find_site(FunctionCallInfo fcinfo, InferVerb verb, int first, const VerbArguments *arguments)
{
	VerbSite   *site = fcinfo->flinfo->fn_extra;

	if (unlikely(site == NULL || !site_stands(fcinfo, site, arguments)))
	{
		site = make_site(fcinfo, verb, first, arguments);
		replace_site(fcinfo, site);
	}
	check_usage(site);
	return site;
}

/* ---- one call ---- */

/*
 * Errors that a row's values raise while they are converted or while its result is; the
 * last two are of text that UTF-8 or the database's encoding cannot hold.
 */
static bool
error_is_the_rows(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE ||
		sqlerrcode == ERRCODE_NULL_VALUE_NOT_ALLOWED ||
		sqlerrcode == ERRCODE_INVALID_PARAMETER_VALUE ||
		sqlerrcode == ERRCODE_INFER_NOT_FINITE ||
		sqlerrcode == ERRCODE_CHARACTER_NOT_IN_REPERTOIRE ||
		sqlerrcode == ERRCODE_UNTRANSLATABLE_CHARACTER;
}

static Datum
verb_result(const VerbSite *site, InferCall *call, const VerbCall *verb)
{
	switch (verb->verb)
	{
		case INFER_VERB_INFER:
			return infer_result_jsonb(site->model, call, 0);
		case INFER_VERB_PREDICT:
			return Float8GetDatum(infer_result_number(site->model, call, 0));
		case INFER_VERB_OUTPUTS:
			return infer_result_numbers(site->model, call, 0);
		case INFER_VERB_CLASSIFY:
			return PointerGetDatum(infer_result_label(site->model, call, 0));
		case INFER_VERB_PROBABILITIES:
			return infer_result_probabilities(site->model, call, 0);
		case INFER_VERB_PROBABILITY:
			return Float8GetDatum(infer_result_probability(site->model, call, 0, verb->class_));
	}
	elog(ERROR, "unexpected verb %d", (int) verb->verb);
}

static void
run_loud(VerbSite *site, const VerbArguments *arguments, VerbCall *verb)
{
	InferCall  *call = infer_client_begin(site->model, 1);
	struct infer_error_text error;

	infer_binding_write(site->binding, call, 0, arguments->values, arguments->nulls);
	infer_client_submit(call, site->wanted);
	infer_client_wait(call);
	if (unlikely(infer_client_row(call, 0, NULL) != INFER_OK))
	{
		infer_client_row(call, 0, &error);
		infer_client_raise(&error);
	}
	verb->result = verb_result(site, call, verb);
	infer_client_end(call);
}

typedef enum QuietStep { QUIET_WRITE, QUIET_RESULT } QuietStep;

/*
 * Run a step whose errors may be the row's; false if it was such an error.  The steps
 * only convert values that are in memory: nothing of theirs needs a subtransaction to be
 * undone.  Interrupts wait meanwhile, so that no error of somebody else (a cancellation, a
 * parallel worker's) is taken for the row's.
 */
static bool
run_quiet_step(QuietStep step, VerbSite *site, InferCall *call, const VerbArguments *arguments, VerbCall *verb)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	volatile bool fine = true;

	HOLD_INTERRUPTS();
	PG_TRY();
	{
		if (step == QUIET_WRITE)
			infer_binding_write(site->binding, call, 0, arguments->values, arguments->nulls);
		else
			verb->result = verb_result(site, call, verb);
	}
	PG_CATCH();
	{
		if (!error_is_the_rows(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		fine = false;
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;
	return fine;
}

static bool
run_quiet(VerbSite *site, VerbArguments *arguments, VerbCall *verb)
{
	InferCall  *call;
	struct infer_error_text error;
	bool		fine = false;

	infer_binding_prepare(site->binding, arguments->values, arguments->nulls);
	call = infer_client_begin(site->model, 1);
	if (run_quiet_step(QUIET_WRITE, site, call, arguments, verb))
	{
		infer_client_submit(call, site->wanted);
		if (infer_client_wait_try(call, &error))
		{
			uint32		status = infer_client_row(call, 0, NULL);

			if (status == INFER_OK)
				fine = run_quiet_step(QUIET_RESULT, site, call, arguments, verb);
			else if (!infer_client_error_hides(status))
			{
				infer_client_row(call, 0, &error);
				infer_client_raise(&error);
			}
		}
	}
	infer_client_end(call);
	return fine;
}

/* Everything of a verb but its name: first is the number of the first input argument. */
static Datum
run_verb(FunctionCallInfo fcinfo, InferVerb name, bool quiet)
{
	int			first = name == INFER_VERB_PROBABILITY ? 2 : 1;
	VerbCall	verb = {.verb = name};
	VerbArguments arguments;
	VerbSite   *site;

	infer_require_preload();
	if (PG_ARGISNULL(0) || (first == 2 && PG_ARGISNULL(1)) ||
		!read_arguments(fcinfo, first, &arguments))
		PG_RETURN_NULL();

	site = find_site(fcinfo, name, first, &arguments);
	if (first == 2)
	{
		text	   *class_ = PG_GETARG_TEXT_PP(1);

		verb.class_ = infer_result_class(site->model, VARDATA_ANY(class_), VARSIZE_ANY_EXHDR(class_));
	}
	if (!quiet && infer_on_error != INFER_ON_ERROR_NULL)
		run_loud(site, &arguments, &verb);
	else if (!run_quiet(site, &arguments, &verb))
		PG_RETURN_NULL();
	return verb.result;
}

/* ---- SQL ---- */

PG_FUNCTION_INFO_V1(infer);
Datum
infer(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, INFER_VERB_INFER, false);
}

PG_FUNCTION_INFO_V1(infer_try);
Datum
infer_try(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, INFER_VERB_INFER, true);
}

PG_FUNCTION_INFO_V1(infer_predict);
Datum
infer_predict(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, INFER_VERB_PREDICT, false);
}

PG_FUNCTION_INFO_V1(infer_outputs);
Datum
infer_outputs(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, INFER_VERB_OUTPUTS, false);
}

PG_FUNCTION_INFO_V1(infer_classify);
Datum
infer_classify(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, INFER_VERB_CLASSIFY, false);
}

PG_FUNCTION_INFO_V1(infer_probabilities);
Datum
infer_probabilities(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, INFER_VERB_PROBABILITIES, false);
}

PG_FUNCTION_INFO_V1(infer_probability);
Datum
infer_probability(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, INFER_VERB_PROBABILITY, false);
}

/* ---- a call's operators ---- */

enum { PROFILE_COLUMNS = 5 };

static text *
take_text(struct infer_reader *profile)
{
	uint32_t	length;
	const char *bytes = infer_get_string(profile, &length);

	return cstring_to_text(infer_client_text(bytes == NULL ? "" : pnstrdup(bytes, length)));
}

static Datum
text_or_null(struct infer_reader *profile, bool *null)
{
	text	   *value = take_text(profile);

	*null = VARSIZE_ANY_EXHDR(value) == 0;
	return PointerGetDatum(value);
}

/* PROTOCOL.md has the encoding. */
static void
put_profile(ReturnSetInfo *result, struct infer_reader *profile)
{
	Datum		device = PointerGetDatum(take_text(profile));
	uint32_t	count = infer_get_u32(profile);

	for (uint32_t i = 0; i < count && !profile->failed; i++)
	{
		Datum		values[PROFILE_COLUMNS];
		bool		nulls[PROFILE_COLUMNS] = {false};

		values[0] = text_or_null(profile, &nulls[0]);
		values[1] = text_or_null(profile, &nulls[1]);
		values[2] = text_or_null(profile, &nulls[2]);
		values[3] = device;
		values[4] = Float8GetDatum(infer_get_u64(profile) / 1e6);
		if (!profile->failed)
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	if (profile->failed)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the engine's profile is malformed")));
}

PG_FUNCTION_INFO_V1(infer_profile);
Datum
infer_profile(PG_FUNCTION_ARGS)
{
	VerbArguments arguments;
	VerbSite   *site;
	InferCall  *call;
	struct infer_error_text error;
	struct infer_reader profile;

	infer_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0) || !read_arguments(fcinfo, 1, &arguments))
		return (Datum) 0;
	site = find_site(fcinfo, INFER_VERB_INFER, 1, &arguments);
	call = infer_client_begin(site->model, 1);
	infer_binding_write(site->binding, call, 0, arguments.values, arguments.nulls);
	infer_client_ask_profile(call);
	infer_client_submit(call, site->wanted);
	infer_client_wait(call);
	if (infer_client_row(call, 0, NULL) != INFER_OK)
	{
		infer_client_row(call, 0, &error);
		infer_client_raise(&error);
	}
	if (!infer_client_profile(call, &profile))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("model \"%s\" has no operators to be timed", site->model->name),
				 errhint("See the compute time of infer.stats instead.")));
	put_profile((ReturnSetInfo *) fcinfo->resultinfo, &profile);
	infer_client_end(call);
	return (Datum) 0;
}
