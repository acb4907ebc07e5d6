/*
 * sets.c
 *	  Verbs that give several rows: embed_all, entities, chunk.
 *
 * Each call of entities and chunk is one request.  embed_all sends its texts together, in requests as large
 * as a batch of a statement (site.c); while one is computed, the next one is filled.
 *
 * NULL as the model or the input: no rows.  With infer.on_error = 'null' an error of the text gives no rows,
 * or the element NULL.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "single.h"

static ReturnSetInfo *
begin_set(FunctionCallInfo fcinfo)
{
	infer_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	return (ReturnSetInfo *) fcinfo->resultinfo;
}

static void
put(ReturnSetInfo *set, const Datum *values, bool *nulls)
{
	tuplestore_putvalues(set->setResult, set->setDesc, unconstify(Datum *, values), nulls);
}

/* ---- entities ---- */

static void
put_entities(SingleCall *single, InferCall *call)
{
	InferEntity *entities;
	int			count = infer_result_entities(single->asked->model, call, 0, &entities);

	for (int i = 0; i < count; i++)
	{
		const InferEntity *entity = &entities[i];
		Datum		values[5] = {
			CStringGetTextDatum(entity->type), PointerGetDatum(entity->text),
			Int32GetDatum(entity->first), Int32GetDatum(entity->last), Float8GetDatum(entity->score)
		};
		bool		nulls[5] = {false};

		put(single->arg, values, nulls);
	}
}

PG_FUNCTION_INFO_V1(infer_entities);
Datum
infer_entities(PG_FUNCTION_ARGS)
{
	const InferVerbDef *def = &infer_verbs[VERB_ENTITIES];
	SingleArguments arguments;
	SingleCall	single = {.def = def, .arguments = &arguments.given, .make = put_entities};

	single.arg = begin_set(fcinfo);
	if (PG_ARGISNULL(0) || !single_arguments(fcinfo, def, &arguments))
		return (Datum) 0;
	single.asked = single_ask(fcinfo, def, &arguments.given);
	single.options = verb_options(single.asked, def, PG_GETARG_DATUM(2), PG_ARGISNULL(2));
	(void) single_run(&single);
	return (Datum) 0;
}

/* ---- chunk ---- */

static void
put_chunks(SingleCall *single, InferCall *call)
{
	InferChunk *chunks;
	int			count = infer_result_chunks(single->asked->model, call, 0,
											DatumGetTextPP(single->arguments->values[0]), &chunks);

	for (int i = 0; i < count; i++)
	{
		Datum		values[3] = {
			Int32GetDatum(i + 1), PointerGetDatum(chunks[i].text), Int32GetDatum(chunks[i].tokens)
		};
		bool		nulls[3] = {false};

		put(single->arg, values, nulls);
	}
}

static void
check_sizes(int tokens_max, int overlap)
{
	if (tokens_max < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_tokens must be at least 1, but is %d", tokens_max)));
	if (overlap < 0 || overlap >= tokens_max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("overlap must be from 0 to %d, but is %d", tokens_max - 1, overlap),
				 errdetail("A chunk of max_tokens tokens must have some of its own.")));
}

PG_FUNCTION_INFO_V1(infer_chunk);
Datum
infer_chunk(PG_FUNCTION_ARGS)
{
	const InferVerbDef *def = &infer_verbs[VERB_CHUNK];
	SingleArguments arguments;
	SingleCall	single = {.def = def, .arguments = &arguments.given, .make = put_chunks};
	InferTextOptions options = {.prompt = ""};
	const InferTextOptions *given;

	single.arg = begin_set(fcinfo);
	if (PG_ARGISNULL(0) || !single_arguments(fcinfo, def, &arguments) || PG_ARGISNULL(2) || PG_ARGISNULL(3))
		return (Datum) 0;
	check_sizes(PG_GETARG_INT32(2), PG_GETARG_INT32(3));
	arguments.given.values[0] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(arguments.given.values[0]));
	single.asked = single_ask(fcinfo, def, &arguments.given);
	given = verb_options(single.asked, def, PG_GETARG_DATUM(4), PG_ARGISNULL(4));
	if (given != NULL)
		options = *given;
	options.numbers[INFER_TEXT_FLAGS] |= INFER_TEXT_NO_PROMPT;
	options.numbers[INFER_TEXT_CHUNK_TOKENS] = PG_GETARG_INT32(2);
	options.numbers[INFER_TEXT_CHUNK_OVERLAP] = PG_GETARG_INT32(3);
	single.options = &options;
	(void) single_run(&single);
	return (Datum) 0;
}

/* ---- embed_all ---- */

typedef struct EmbedAll
{
	ReturnSetInfo *set;
	InferSite  *site;
	MemoryContext scratch;			/* of a row that is put */
	Datum		arguments[3];		/* the second one is the text's place */
	bool		nulls[3];
	int			count;
	Datum	   *texts;
	bool	   *texts_null;
	int		   *tickets;
	int			next;				/* the first text that was not sent */
	int			put;				/* the first one whose row is not put */
} EmbedAll;

/* As many texts as one request takes. */
static InferRows *
send_some(EmbedAll *all)
{
	int			rows_max = infer_site_batch_rows(all->site, Min(all->count - all->next, infer_statement_batch_rows));
	InferRows  *rows = infer_rows_begin(all->site, rows_max,
										all->count == 1 ? INFER_CLASS_INTERACTIVE : INFER_CLASS_STATEMENT, false);

	for (int end = all->next + rows_max; all->next < end; all->next++)
	{
		CHECK_FOR_INTERRUPTS();
		all->arguments[1] = all->texts[all->next];
		all->nulls[1] = all->texts_null[all->next];
		all->tickets[all->next] = infer_rows_add(rows, all->arguments, all->nulls, NULL, NULL);
		if (all->tickets[all->next] == INFER_TICKET_LATER)
			break;
	}
	infer_rows_submit(rows);
	return rows;
}

/* Texts before end were sent with rows, or before. */
static void
put_some(EmbedAll *all, InferRows *rows, int end)
{
	infer_rows_wait(rows, NULL);
	for (; all->put < end; all->put++)
	{
		int			ticket = all->tickets[all->put];
		MemoryContext old = MemoryContextSwitchTo(all->scratch);
		Datum		values[2] = {Int32GetDatum(all->put + 1), (Datum) 0};
		bool		nulls[2] = {false, true};

		if (ticket != INFER_TICKET_NULL && !infer_rows_result(rows, ticket, &values[1], &nulls[1]))
			infer_rows_raise(rows, ticket);
		put(all->set, values, nulls);
		MemoryContextSwitchTo(old);
		MemoryContextReset(all->scratch);
	}
	infer_rows_end(rows);
}

static void
run_all(EmbedAll *all)
{
	InferRows  *before = NULL;
	int			before_end = 0;

	while (all->next < all->count)
	{
		InferRows  *rows = send_some(all);

		if (before != NULL)
			put_some(all, before, before_end);
		before = rows;
		before_end = all->next;
	}
	if (before != NULL)
		put_some(all, before, before_end);
}

PG_FUNCTION_INFO_V1(infer_embed_all);
Datum
infer_embed_all(PG_FUNCTION_ARGS)
{
	EmbedAll	all = {.set = begin_set(fcinfo)};

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		return (Datum) 0;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT, &all.texts, &all.texts_null, &all.count);
	all.tickets = palloc_extended(sizeof(int) * (Size) Max(all.count, 1), MCXT_ALLOC_HUGE);
	all.arguments[0] = PG_GETARG_DATUM(0);
	all.arguments[2] = PG_GETARG_DATUM(2);
	all.nulls[2] = PG_ARGISNULL(2);
	all.site = infer_site_make_texts(&infer_verbs[VERB_EMBED_ALL], CurrentMemoryContext);
	all.scratch = AllocSetContextCreate(CurrentMemoryContext, "infer embed_all", ALLOCSET_DEFAULT_SIZES);
	run_all(&all);
	return (Datum) 0;
}
