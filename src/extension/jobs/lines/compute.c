/*
 * compute.c
 *	  Lines of a chunk to the engine, and its answers back.
 *
 * Nouns
 *	work		a line that is computed
 *	call		one text, document or input of a work, under a ticket of a request
 *	wave		the requests that are in flight together: JOB_CHUNK_REQUESTS of them at most
 *
 * Loop
 *	lines_fill asks the first wave's calls, in the transaction that read the lines; lines_send sends them;
 *	lines_wait waits, in no transaction, and as long as calls are left collects the wave and asks the next one
 *	in a short transaction of its own; lines_collect makes the responses, in the transaction that writes.
 *	Mostly there is one wave; a line of 2,048 long texts takes several.
 *
 * Invariants
 *	- Whatever is wrong with a line's model, input or answer is that line's own error.
 *	- A line's answers are collected in the order of its calls.
 *	- A line fails by its first error that is not transient; with only transient ones it comes back whole.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "../../verbs/many.h"
#include "lines.h"

typedef struct RunModel				/* one that lines name */
{
	char	   *name;				/* with its version */
	MemoryContext context;
	InferModel *model;				/* NULL: to be resolved */
} RunModel;

struct LinesRun
{
	MemoryContext context;
	InferSite  *sites[LINE_VERBS];	/* NULL: not used yet */
	int			models_count;
	RunModel	models[LINES_MODELS_MAX];
};

typedef struct LineWork
{
	JobRow	   *row;
	LineAsk		ask;
	char	   *model;
	LineAnswers *answers;
	int			asked;				/* of its calls */
	ErrorData  *error;
	bool		transient;			/* error is */
} LineWork;

typedef struct LineCall
{
	int			work;
	int			number;				/* within its line */
	InferRows  *rows;
	int			ticket;
} LineCall;

struct LinesChunk
{
	int			works_count;
	LineWork   *works;
	int			next;				/* the first with calls that are not asked yet */
	JobChunk   *chunk;				/* whose requests are the wave's */
	InferRows  *open[LINE_VERBS];	/* those that may have room; NULL: none */
	int			calls_count;		/* of the wave */
	int			calls_space;
	LineCall   *calls;
};

/* ---- sites ---- */

/* A call of infer() with an input of that type, as a plan has it. */
static FuncExpr *
infer_call(Oid type)
{
	FuncExpr   *call = makeNode(FuncExpr);
	Oid			types[] = {TEXTOID, type};

	for (int i = 0; i < lengthof(types); i++)
	{
		Param	   *param = makeNode(Param);

		param->paramkind = PARAM_EXTERN;
		param->paramid = i + 1;
		param->paramtype = types[i];
		param->paramtypmod = -1;
		call->args = lappend(call->args, param);
	}
	return call;
}

static InferSite *
site_of(struct LinesRun *lines, LineVerb verb)
{
	MemoryContext old;

	if (lines->sites[verb] != NULL)
		return lines->sites[verb];
	old = MemoryContextSwitchTo(lines->context);
	if (verb == LINE_VERB_EMBED || verb == LINE_VERB_RERANK)
	{
		lines->sites[verb] = infer_site_make_texts(line_verb_def(verb), lines->context);
		infer_site_count_tokens(lines->sites[verb]);
	}
	else
		lines->sites[verb] = infer_site_make(line_verb_def(verb), infer_call(verb == LINE_VERB_INFER_TEXT ? TEXTOID : JSONBOID),
											 lines->context);
	MemoryContextSwitchTo(old);
	return lines->sites[verb];
}

struct LinesRun *
lines_run_make(MemoryContext context)
{
	struct LinesRun *lines = MemoryContextAllocZero(context, sizeof(struct LinesRun));

	lines->context = context;
	return lines;
}

void
lines_counters(const JobRun *run, InferSiteCounters *sum)
{
	*sum = (InferSiteCounters) {0};
	for (int i = 0; i < LINE_VERBS; i++)
	{
		InferSiteCounters counters;

		if (run->lines->sites[i] == NULL)
			continue;
		infer_site_counters(run->lines->sites[i], &counters);
		sum->calls += counters.calls;
		sum->reused += counters.reused;
		sum->batches += counters.batches;
		sum->tokens += counters.tokens;
		sum->prepare_nsec += counters.prepare_nsec;
		sum->queue_nsec += counters.queue_nsec;
		sum->device_nsec += counters.device_nsec;
		if (counters.device[0] != '\0')
			memcpy(sum->device, counters.device, sizeof(sum->device));
	}
}

/* ---- models ---- */

/* May raise, in a subtransaction. */
static const InferModel *
model_of(JobRun *run, const char *name)
{
	struct LinesRun *lines = run->lines;
	RunModel   *entry = NULL;

	for (int i = 0; i < lines->models_count && entry == NULL; i++)
		if (strcmp(lines->models[i].name, name) == 0)
			entry = &lines->models[i];
	if (entry == NULL)
	{
		if (lines->models_count == LINES_MODELS_MAX)
			elog(ERROR, "more models than a file of lines may name");
		entry = &lines->models[lines->models_count++];
		*entry = (RunModel) {.name = MemoryContextStrdup(lines->context, name)};
		entry->context = AllocSetContextCreate(lines->context, "infer line model", ALLOCSET_SMALL_SIZES);
	}
	if (entry->model == NULL || !infer_model_current(entry->model))
	{
		InferModel *model;

		entry->model = NULL;
		MemoryContextReset(entry->context);
		model = infer_model_resolve(name, entry->context);
		lines_check_model(run->record, model);
		entry->model = model;
	}
	return entry->model;
}

/* ---- errors ---- */

/* error may be others' as well. */
static void
note_error(LineWork *work, int call, const ErrorData *error)
{
	bool		transient = job_error_is_transient(error->sqlerrcode);

	if (work->error != NULL && (!work->transient || transient))
		return;
	work->error = palloc(sizeof(ErrorData));
	*work->error = *error;
	work->transient = transient;
	if (work->ask.several)
		work->error->message = psprintf("%s %d: %s", work->ask.url == LINE_RERANK ? "document" : "input", call, error->message);
}

/* ---- asking ---- */

static InferRows *
request_for(JobRun *run, struct LinesChunk *chunk, LineVerb verb, int capacity)
{
	InferRows  *rows = chunk->open[verb];

	if (rows == NULL && chunk->chunk->requests_count < JOB_CHUNK_REQUESTS)
	{
		rows = infer_rows_begin(site_of(run->lines, verb), capacity, INFER_CLASS_JOB, false);
		chunk->chunk->requests[chunk->chunk->requests_count++] = rows;
		if (!chunk->chunk->careful)
			infer_rows_set_once(rows);
		chunk->open[verb] = rows;
	}
	return rows;
}

static void
note_call(struct LinesChunk *chunk, int work, int number, InferRows *rows, int ticket)
{
	if (chunk->calls_count == chunk->calls_space)
	{
		chunk->calls_space *= 2;
		chunk->calls = repalloc_huge(chunk->calls, sizeof(LineCall) * chunk->calls_space);
	}
	chunk->calls[chunk->calls_count++] = (LineCall) {.work = work, .number = number, .rows = rows, .ticket = ticket};
}

/* The arguments of a call, as the verb takes them. */
static void
set_arguments(const LineWork *work, int call, Datum *values)
{
	values[0] = CStringGetTextDatum(work->model);
	if (work->ask.verb == LINE_VERB_RERANK)
	{
		values[1] = work->ask.query;
		values[2] = work->ask.texts[call];
		values[3] = work->ask.options;
	}
	else
	{
		values[1] = work->ask.texts[call];
		values[2] = work->ask.options;
	}
}

/* Calls left in a chunk, as far as they may be in one request. */
static int
calls_left(const struct LinesChunk *chunk)
{
	int64		left = 0;

	for (int i = chunk->next; i < chunk->works_count && left < INFER_ROWS_MAX; i++)
		left += Max(chunk->works[i].ask.count, 1) - chunk->works[i].asked;
	return Min(left, INFER_ROWS_MAX);
}

/* false: there was no room for all of them. */
static bool
ask_calls(JobRun *run, struct LinesChunk *chunk, LineWork *work)
{
	static const bool nulls[4] = {false};
	Datum		values[4];

	while (work->asked < work->ask.count)
	{
		InferRows  *rows = request_for(run, chunk, work->ask.verb, calls_left(chunk));
		int			ticket;

		if (rows == NULL)
			return false;
		set_arguments(work, work->asked, values);
		ticket = infer_rows_add(rows, values, nulls, NULL, NULL);
		if (ticket == INFER_TICKET_LATER)
		{
			chunk->open[work->ask.verb] = NULL;
			continue;
		}
		if (ticket == INFER_TICKET_NULL)
			elog(ERROR, "an input of a line came out as NULL");
		note_call(chunk, work - chunk->works, work->asked++, rows, ticket);
	}
	return true;
}

/* What a row's body asks, if that is not known yet. */
static void
begin_work(JobRun *run, LineWork *work)
{
	JobRow	   *row = work->row;

	if (work->model != NULL)
		return;
	work->model = TextDatumGetCString(row->inputs[LINE_INPUT_MODEL]);
	line_ask(line_url(TextDatumGetCString(row->inputs[LINE_INPUT_URL])), DatumGetJsonbP(row->inputs[LINE_INPUT_BODY]),
			 model_of(run, work->model), &work->ask);
	work->answers = line_answers_make(work->model, &work->ask);
}

/* In a subtransaction: models are looked up, which may leave something open when it fails. */
static bool
ask_work(JobRun *run, struct LinesChunk *chunk, LineWork *work)
{
	MemoryContext old = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool all = true;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(old);
	PG_TRY();
	{
		begin_work(run, work);
		all = ask_calls(run, chunk, work);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION))
			ReThrowError(error);
		note_error(work, work->asked, error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	CurrentResourceOwner = owner;
	return all;
}

static void
ask_wave(JobRun *run, struct LinesChunk *chunk)
{
	while (chunk->next < chunk->works_count)
	{
		LineWork   *work = &chunk->works[chunk->next];

		CHECK_FOR_INTERRUPTS();
		if (work->error == NULL && !ask_work(run, chunk, work))
			break;
		chunk->next++;
	}
}

void
lines_fill(JobRun *run, JobChunk *chunk)
{
	MemoryContext old = MemoryContextSwitchTo(chunk->context);
	struct LinesChunk *lines = palloc0(sizeof(struct LinesChunk));

	lines->works = palloc0(sizeof(LineWork) * Max(chunk->rows_count, 1));
	lines->calls_space = 64;
	lines->calls = palloc(sizeof(LineCall) * lines->calls_space);
	for (int i = 0; i < chunk->rows_count; i++)
		if (chunk->rows[i].outcome == JOB_ROW_READ)
			lines->works[lines->works_count++].row = &chunk->rows[i];
	chunk->lines = lines;
	lines->chunk = chunk;
	ask_wave(run, lines);
	MemoryContextSwitchTo(old);
}

void
lines_send(JobRun *run, JobChunk *chunk)
{
	for (int i = 0; i < chunk->requests_count; i++)
		infer_rows_submit(chunk->requests[i]);
}

/* ---- answers ---- */

static void
collect_call(struct LinesChunk *chunk, const LineCall *call, MemoryContext scratch)
{
	LineWork   *work = &chunk->works[call->work];
	MemoryContext old;
	Datum		value;
	bool		null;

	if (work->error != NULL && !work->transient)
		return;
	old = MemoryContextSwitchTo(scratch);
	if (infer_rows_result(call->rows, call->ticket, &value, &null))
	{
		if (work->error == NULL)
			line_answer(work->answers, value, infer_rows_tokens(call->rows, call->ticket));
		MemoryContextSwitchTo(old);
	}
	else
	{
		MemoryContextSwitchTo(old);
		note_error(work, call->number, infer_rows_error(call->rows, call->ticket));
	}
	MemoryContextReset(scratch);
}

/* In a transaction, in the chunk's context.  The requests are given back. */
static void
collect_wave(struct LinesChunk *chunk)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "infer line answer", ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < chunk->calls_count; i++)
		collect_call(chunk, &chunk->calls[i], scratch);
	MemoryContextDelete(scratch);
	for (int i = 0; i < chunk->chunk->requests_count; i++)
		infer_rows_end(chunk->chunk->requests[i]);
	chunk->chunk->requests_count = 0;
	chunk->calls_count = 0;
	memset(chunk->open, 0, sizeof(chunk->open));
}

static void
wait_for_wave(const JobChunk *chunk)
{
	for (int i = 0; i < chunk->requests_count; i++)
		infer_rows_wait(chunk->requests[i], NULL);
}

void
lines_wait(JobRun *run, JobChunk *chunk)
{
	MemoryContext old = CurrentMemoryContext;

	wait_for_wave(chunk);
	while (chunk->lines->next < chunk->lines->works_count)
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		MemoryContextSwitchTo(chunk->context);
		collect_wave(chunk->lines);
		ask_wave(run, chunk->lines);
		PopActiveSnapshot();
		CommitTransactionCommand();
		MemoryContextSwitchTo(old);
		lines_send(run, chunk);
		wait_for_wave(chunk);
	}
}

static void
make_response(void *arg)
{
	LineWork   *work = arg;

	work->row->result = PointerGetDatum(line_answers_response(work->answers));
}

void
lines_collect(JobRun *run, JobChunk *chunk)
{
	MemoryContext old = MemoryContextSwitchTo(chunk->context);

	collect_wave(chunk->lines);
	for (int i = 0; i < chunk->lines->works_count; i++)
	{
		LineWork   *work = &chunk->lines->works[i];

		if (work->error == NULL)
			work->error = answer_try(make_response, work, chunk->context);
		work->row->result_null = work->error != NULL;
		work->row->error = work->error;
		if (work->error == NULL)
			work->row->outcome = JOB_ROW_COMPUTED;
		else
			work->row->outcome = job_error_is_transient(work->error->sqlerrcode) ? JOB_ROW_TRANSIENT : JOB_ROW_FAILED;
	}
	MemoryContextSwitchTo(old);
}
