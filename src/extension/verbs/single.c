/*
 * single.c
 *	  The verbs as SQL calls them, one row at a time: infer, try, predict, outputs, classify,
 *	  probabilities, probability, embed, rerank, tokenize, token_count.
 *
 * Loop
 *	Each call looks whether what its site (an FmgrInfo) keeps still stands: the name, the
 *	catalogue, the user; then: begin, write the row, submit, wait, result, end.
 *
 * Invariants
 *	- An FmgrInfo may outlive its statement, its transaction and its user (a simple
 *	  expression of PL/pgSQL does).  What it keeps is looked at anew in every call, the
 *	  privilege in every command.
 *	- It is replaced only after its successor is complete.
 *	- With quiet, what is the row's own (its values, its result) or the engine's being lost,
 *	  late or full becomes NULL.  Whatever concerns the statement (name, privilege, types,
 *	  names of columns, the verb) is raised before that.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "single.h"

/* ---- arguments ---- */

bool
single_arguments(FunctionCallInfo fcinfo, const InferVerbDef *def, SingleArguments *arguments)
{
	VerbArguments *given = &arguments->given;
	int			first = def->inputs_first;

	if (unlikely(get_fn_expr_variadic(fcinfo->flinfo)))
	{
		if (PG_ARGISNULL(first))
			return false;
		verb_spread(PG_GETARG_DATUM(first), given);
	}
	else
	{
		given->count = def->inputs_count > 0 ? def->inputs_count : PG_NARGS() - first;
		given->element = InvalidOid;
		given->values = arguments->values;
		given->nulls = arguments->nulls;
		for (int i = 0; i < given->count; i++)
		{
			given->values[i] = PG_GETARG_DATUM(first + i);
			given->nulls[i] = PG_ARGISNULL(first + i);
		}
	}
	return !verb_has_null(def, given);
}

static Oid
argument_type(FunctionCallInfo fcinfo, const InferVerbDef *def, const VerbArguments *arguments, int i)
{
	if (OidIsValid(arguments->element))
		return arguments->element;
	return def->inputs_count > 0 ? TEXTOID : get_fn_expr_argtype(fcinfo->flinfo, def->inputs_first + i);
}

static Oid *
argument_types(FunctionCallInfo fcinfo, const InferVerbDef *def, const VerbArguments *arguments)
{
	Oid		   *types = palloc(sizeof(Oid) * arguments->count);

	for (int i = 0; i < arguments->count; i++)
		types[i] = argument_type(fcinfo, def, arguments, i);
	return types;
}

/* ---- what is asked ---- */

static VerbAsked *
ask_anew(FunctionCallInfo fcinfo, const InferVerbDef *def, const VerbArguments *arguments)
{
	text	   *name = PG_GETARG_TEXT_PP(0);
	VerbAsked  *previous = fcinfo->flinfo->fn_extra;
	VerbAsked  *asked;

	asked = verb_ask(def->verb, VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), arguments->count, arguments->element,
					 argument_types(fcinfo, def, arguments), InvalidOid);
	MemoryContextSetParent(asked->context, fcinfo->flinfo->fn_mcxt);
	fcinfo->flinfo->fn_extra = asked;
	if (previous != NULL)
		MemoryContextDelete(previous->context);
	return asked;
}

static bool
asked_stands(FunctionCallInfo fcinfo, const VerbAsked *asked, const VerbArguments *arguments)
{
	text	   *name = PG_GETARG_TEXT_PP(0);

	return verb_asks(asked, VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), arguments->count, arguments->element) &&
		infer_model_current(asked->model);
}

VerbAsked *
single_ask(FunctionCallInfo fcinfo, const InferVerbDef *def, const VerbArguments *arguments)
{
	VerbAsked  *asked = fcinfo->flinfo->fn_extra;

	if (unlikely(asked == NULL || !asked_stands(fcinfo, asked, arguments)))
		asked = ask_anew(fcinfo, def, arguments);
	verb_check_usage(asked);
	return asked;
}

/* ---- one call ---- */

static void
make_result(SingleCall *single, InferCall *call)
{
	if (single->make != NULL)
		single->make(single, call);
	else
		single->result = verb_result(single->asked, single->def->verb, call, 0, single->detail);
}

static void
run_loud(SingleCall *single)
{
	VerbAsked  *asked = single->asked;
	InferCall  *call = infer_client_begin(asked->model, 1, INFER_CLASS_INTERACTIVE);
	struct infer_error_text error;

	infer_binding_write(asked->binding, call, 0, single->arguments->values, single->arguments->nulls, single->options);
	infer_client_submit(call, asked->wanted);
	infer_client_wait(call);
	if (unlikely(infer_client_row(call, 0, NULL) != INFER_OK))
	{
		infer_client_row(call, 0, &error);
		infer_client_raise(&error);
	}
	make_result(single, call);
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
run_quiet_step(QuietStep step, SingleCall *single, InferCall *call)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	volatile bool fine = true;

	HOLD_INTERRUPTS();
	PG_TRY();
	{
		if (step == QUIET_WRITE)
			infer_binding_write(single->asked->binding, call, 0, single->arguments->values,
								single->arguments->nulls, single->options);
		else
			make_result(single, call);
	}
	PG_CATCH();
	{
		if (!verb_error_is_rows(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		fine = false;
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;
	return fine;
}

/* After a request's or a row's error: raised unless it may be shown as NULL. */
static void
raise_unless_hidden(const struct infer_error_text *error)
{
	if (!infer_client_error_hides(error->error))
		infer_client_raise(error);
}

static bool
run_quiet(SingleCall *single)
{
	VerbAsked  *asked = single->asked;
	const struct infer_error_text *failure;
	struct infer_error_text error;
	InferCall  *call;
	bool		fine = false;

	infer_binding_prepare(asked->binding, single->arguments->values, single->arguments->nulls);
	call = infer_client_begin(asked->model, 1, INFER_CLASS_INTERACTIVE);
	if (run_quiet_step(QUIET_WRITE, single, call))
	{
		infer_client_submit(call, asked->wanted);
		failure = infer_client_wait_quiet(call, NULL);
		if (failure != NULL)
			raise_unless_hidden(failure);
		else if (infer_client_row(call, 0, NULL) == INFER_OK)
			fine = run_quiet_step(QUIET_RESULT, single, call);
		else
		{
			infer_client_row(call, 0, &error);
			raise_unless_hidden(&error);
		}
	}
	infer_client_end(call);
	return fine;
}

bool
single_run(SingleCall *single)
{
	if (single->def->quiet || infer_on_error == INFER_ON_ERROR_NULL)
		return run_quiet(single);
	run_loud(single);
	return true;
}

/* What comes beside the inputs: a class before them, options after them. */
static void
take_others(FunctionCallInfo fcinfo, SingleCall *single)
{
	const InferVerbDef *def = single->def;

	if (def->inputs_first == 2)
	{
		text	   *class_ = PG_GETARG_TEXT_PP(1);

		single->detail = infer_result_class(single->asked->model, VARDATA_ANY(class_), VARSIZE_ANY_EXHDR(class_));
	}
	if (def->inputs_count > 0)
	{
		int			last = PG_NARGS() - 1;

		single->options = verb_options(single->asked, def, PG_GETARG_DATUM(last), PG_ARGISNULL(last));
		if (single->options != NULL)
			single->detail = single->options->numbers[INFER_TEXT_DIMENSIONS];
	}
}

/* ---- SQL ---- */

static Datum
run_verb(FunctionCallInfo fcinfo, VerbNumber number)
{
	const InferVerbDef *def = &infer_verbs[number];
	SingleArguments arguments;
	SingleCall	single = {.def = def, .arguments = &arguments.given};

	infer_require_preload();
	if (PG_ARGISNULL(0) || (def->inputs_first == 2 && PG_ARGISNULL(1)) ||
		!single_arguments(fcinfo, def, &arguments))
		PG_RETURN_NULL();

	single.asked = single_ask(fcinfo, def, &arguments.given);
	if (def->inputs_count > 0 && single_recall(fcinfo, &single))
		return single.result;
	take_others(fcinfo, &single);
	if (!single_run(&single))
		PG_RETURN_NULL();
	if (def->inputs_count > 0)
		single_remember(fcinfo, &single);
	return single.result;
}

PG_FUNCTION_INFO_V1(infer);
Datum
infer(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_INFER);
}

PG_FUNCTION_INFO_V1(infer_try);
Datum
infer_try(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_TRY);
}

PG_FUNCTION_INFO_V1(infer_predict);
Datum
infer_predict(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_PREDICT);
}

PG_FUNCTION_INFO_V1(infer_outputs);
Datum
infer_outputs(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_OUTPUTS);
}

PG_FUNCTION_INFO_V1(infer_classify);
Datum
infer_classify(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_CLASSIFY);
}

PG_FUNCTION_INFO_V1(infer_probabilities);
Datum
infer_probabilities(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_PROBABILITIES);
}

PG_FUNCTION_INFO_V1(infer_probability);
Datum
infer_probability(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_PROBABILITY);
}

PG_FUNCTION_INFO_V1(infer_embed);
Datum
infer_embed(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_EMBED);
}

PG_FUNCTION_INFO_V1(infer_rerank);
Datum
infer_rerank(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_RERANK);
}

PG_FUNCTION_INFO_V1(infer_tokenize);
Datum
infer_tokenize(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_TOKENIZE);
}

PG_FUNCTION_INFO_V1(infer_token_count);
Datum
infer_token_count(PG_FUNCTION_ARGS)
{
	return run_verb(fcinfo, VERB_TOKEN_COUNT);
}
