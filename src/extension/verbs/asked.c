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
	asked->checks++;
	asked->checked_user = user;
	asked->checked_transaction = transaction;
	asked->checked_statement = statement;
	asked->checked_command = command;
}

/* Tokens are the text's own: a default prompt's words are none. */
static const InferTextOptions plain_text = {.numbers[INFER_TEXT_FLAGS] = INFER_TEXT_NO_PROMPT, .prompt = ""};

/* Jsonb that are equal to the byte ask the same. */
static bool
options_came_last(const VerbAsked *asked, const struct varlena *options)
{
	return asked->options_given != NULL &&
		VARSIZE_ANY_EXHDR(asked->options_given) == VARSIZE_ANY_EXHDR(options) &&
		memcmp(VARDATA_ANY(asked->options_given), VARDATA_ANY(options), VARSIZE_ANY_EXHDR(options)) == 0;
}

/* Replaced only once they are known to be fine. */
static void
read_options(VerbAsked *asked, const InferVerbDef *def, Datum given)
{
	InferTextOptions options;
	struct varlena *copy;
	char	   *prompt;

	infer_text_options_read(asked->model, DatumGetJsonbP(given), def->options, &options);
	copy = MemoryContextAlloc(asked->context, VARSIZE_ANY(given));
	memcpy(copy, DatumGetPointer(given), VARSIZE_ANY(given));
	prompt = MemoryContextStrdup(asked->context, options.prompt);
	if (asked->options_given != NULL)
	{
		pfree(asked->options_given);
		pfree(unconstify(char *, asked->options.prompt));
	}
	asked->options_given = copy;
	asked->options = options;
	asked->options.prompt = prompt;
}

const InferTextOptions *
verb_options(VerbAsked *asked, const InferVerbDef *def, Datum options, bool null)
{
	if (def->verb == INFER_VERB_TOKENIZE || def->verb == INFER_VERB_TOKEN_COUNT)
		return &plain_text;
	if (def->options == 0 || null)
		return NULL;
	options = PointerGetDatum(PG_DETOAST_DATUM_PACKED(options));
	if (!options_came_last(asked, (struct varlena *) DatumGetPointer(options)))
		read_options(asked, def, options);
	return &asked->options;
}

Datum
verb_result(const VerbAsked *asked, InferVerb verb, InferCall *call, uint32 row, int detail)
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
			return Float8GetDatum(infer_result_probability(asked->model, call, row, detail));
		case INFER_VERB_EMBED:
			return infer_result_embedding(asked->model, call, row, detail);
		case INFER_VERB_RERANK:
			return Float8GetDatum(infer_result_score(asked->model, call, row));
		case INFER_VERB_TOKENIZE:
			return infer_result_tokens(asked->model, call, row);
		case INFER_VERB_TOKEN_COUNT:
			return Int32GetDatum(infer_result_token_count(asked->model, call, row));
		case INFER_VERB_ENTITIES:
		case INFER_VERB_CHUNK:
			break;				/* sets */
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
