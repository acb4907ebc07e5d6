/*
 * compute.c
 *	  A chunk's rows to the engine, and their results back.
 *
 * Nouns
 *	request		rows of the chunk that are sent together, in the chunk's order: as many as find room in
 *				one, and then the next
 *
 * Loop
 *	job_compute_fill, in the transaction that read the rows: the model is resolved, and the privilege
 *	checked, as the verb does it at each call; inputs are copied.  Then job_compute_send and
 *	job_compute_wait in no transaction, and job_compute_collect in the one that writes.
 *
 * Invariants
 *	- What is wrong with a row is that row's error; what is wrong with the statement (the model is
 *	  gone, or not the owner's to use any more) is raised.
 *	- Results and errors lie in the chunk's context, and nothing of it in the requests'.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/memutils.h"

#include "../job.h"
#include "../lines/lines.h"

/* ---- rows to the engine ---- */

typedef struct Arguments			/* of the plan's call, for one row */
{
	int			count;
	Datum	   *values;
	bool	   *nulls;
	int		   *inputs;				/* which input each is, -1: a constant, whose value is there */
} Arguments;

/* The parameters of a call are the inputs, by their numbers from 1; or all of them, as one row. */
static void
make_arguments(const JobPlan *plan, Arguments *arguments)
{
	int			i = 0;
	ListCell   *cell;

	arguments->count = list_length(plan->call->args);
	arguments->values = palloc0(sizeof(Datum) * arguments->count);
	arguments->nulls = palloc0(sizeof(bool) * arguments->count);
	arguments->inputs = palloc(sizeof(int) * arguments->count);
	foreach(cell, plan->call->args)
	{
		const Node *argument = lfirst(cell);

		if (IsA(argument, Const))
		{
			arguments->values[i] = ((const Const *) argument)->constvalue;
			arguments->nulls[i] = ((const Const *) argument)->constisnull;
			arguments->inputs[i] = -1;
		}
		else
			arguments->inputs[i] = castNode(Param, unconstify(Node *, argument))->paramid - 1;
		i++;
	}
}

static void
set_arguments(const JobPlan *plan, const JobRow *row, Arguments *arguments)
{
	for (int i = 0; i < arguments->count; i++)
	{
		int			input = arguments->inputs[i];

		if (input < 0)
			continue;
		if (plan->as_row)
			arguments->values[i] = HeapTupleGetDatum(heap_form_tuple(plan->row_desc, row->inputs, row->inputs_null));
		else
		{
			arguments->values[i] = row->inputs[input];
			arguments->nulls[i] = row->inputs_null[input];
		}
	}
}

/* Adds rows from the first one on, as many as have room; how many. */
static int
fill_request(JobRun *run, JobChunk *chunk, Arguments *arguments, int first, MemoryContext scratch)
{
	InferRows  *request = infer_rows_begin(run->site, chunk->rows_count - first, INFER_CLASS_JOB, false);
	int			number = chunk->requests_count++;
	int			i;

	chunk->requests[number] = request;
	if (!chunk->careful)
		infer_rows_set_once(request);
	for (i = first; i < chunk->rows_count; i++)
	{
		JobRow	   *row = &chunk->rows[i];
		MemoryContext old;

		if (row->outcome != JOB_ROW_READ)
			continue;
		old = MemoryContextSwitchTo(scratch);
		set_arguments(run->plan, row, arguments);
		row->ticket = infer_rows_add(request, arguments->values, arguments->nulls, NULL, NULL);
		row->request = number;
		MemoryContextSwitchTo(old);
		if (run->plan->as_row)
			MemoryContextReset(scratch);
		if (row->ticket == INFER_TICKET_LATER)
			break;
	}
	return i - first;
}

static void
rows_fill(JobRun *run, JobChunk *chunk)
{
	MemoryContext old = MemoryContextSwitchTo(chunk->context);
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "infer job row", ALLOCSET_SMALL_SIZES);
	Arguments	arguments;
	int			rows = 0;

	make_arguments(run->plan, &arguments);
	while (rows < chunk->rows_count && chunk->requests_count < JOB_CHUNK_REQUESTS)
		rows += fill_request(run, chunk, &arguments, rows, scratch);
	if (rows < chunk->rows_count)
	{
		chunk->rows_count = rows;
		chunk->last = false;
		chunk->is_cut = true;
	}
	MemoryContextDelete(scratch);
	MemoryContextSwitchTo(old);
}

static void
rows_send(JobRun *run, JobChunk *chunk)
{
	for (int i = 0; i < chunk->requests_count; i++)
		infer_rows_submit(chunk->requests[i]);
}

static void
rows_wait(JobRun *run, JobChunk *chunk)
{
	for (int i = 0; i < chunk->requests_count; i++)
		infer_rows_wait(chunk->requests[i], NULL);
}

/* ---- results ---- */

static void
collect_row(JobChunk *chunk, JobRow *row)
{
	InferRows  *request = chunk->requests[row->request];

	row->result_null = true;
	row->outcome = JOB_ROW_COMPUTED;
	if (row->ticket == INFER_TICKET_NULL ||
		infer_rows_result(request, row->ticket, &row->result, &row->result_null))
		return;
	row->error = infer_rows_error(request, row->ticket);
	if (row->error->sqlerrcode == ERRCODE_INFER_MODEL_DISABLED)
		ReThrowError(row->error);
	row->outcome = job_error_is_transient(row->error->sqlerrcode) ? JOB_ROW_TRANSIENT : JOB_ROW_FAILED;
}

static void
rows_collect(JobRun *run, JobChunk *chunk)
{
	MemoryContext old = MemoryContextSwitchTo(chunk->context);

	for (int i = 0; i < chunk->rows_count; i++)
		if (chunk->rows[i].outcome == JOB_ROW_READ)
			collect_row(chunk, &chunk->rows[i]);
	for (int i = 0; i < chunk->requests_count; i++)
		infer_rows_end(chunk->requests[i]);
	chunk->requests_count = 0;
	MemoryContextSwitchTo(old);
}

/* ---- of rows, or of lines ---- */

void
job_compute_begin(JobRun *run)
{
	if (run->plan->source == JOB_SOURCE_REQUESTS)
		run->lines = lines_run_make(run->context);
	else
		run->site = infer_site_make(run->plan->verb, run->plan->call, run->context);
}

typedef void (*Step) (JobRun *run, JobChunk *chunk);

/* A step may also take answers of other chunks, whose memory it needs.  An engine of other bits ends the session. */
static void
do_step(JobRun *run, JobChunk *chunk, Step of_lines, Step of_rows)
{
	InferScope *before = infer_client_scope(&run->scope);

	PG_TRY();
	{
		if (run->lines != NULL)
			of_lines(run, chunk);
		else
			of_rows(run, chunk);
	}
	PG_FINALLY();
	{
		infer_client_scope(before);
	}
	PG_END_TRY();
	infer_client_scope_check(&run->scope);
}

void
job_compute_fill(JobRun *run, JobChunk *chunk)
{
	do_step(run, chunk, lines_fill, rows_fill);
}

void
job_compute_send(JobRun *run, JobChunk *chunk)
{
	do_step(run, chunk, lines_send, rows_send);
}

void
job_compute_wait(JobRun *run, JobChunk *chunk)
{
	do_step(run, chunk, lines_wait, rows_wait);
}

void
job_compute_collect(JobRun *run, JobChunk *chunk)
{
	if (run->lines != NULL)
		lines_collect(run, chunk);
	else
		rows_collect(run, chunk);
}

void
job_compute_counters(const JobRun *run, InferSiteCounters *counters)
{
	if (run->lines != NULL)
		lines_counters(run, counters);
	else
		infer_site_counters(run->site, counters);
}

/* ---- errors ---- */

static bool
is_of_concurrency(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE || sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ||
		sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE || sqlerrcode == ERRCODE_OBJECT_IN_USE;
}

/*
 * A trigger's function may raise the same codes by itself, and do so for ever: then the message is of its language,
 * not of the server, whose messages are those of locks that were waited for, or not to be had.
 */
bool
job_error_is_of_others(const ErrorData *error)
{
	const char *servers = "postgres";

	return is_of_concurrency(error->sqlerrcode) &&
		error->domain != NULL && strncmp(error->domain, servers, strlen(servers)) == 0;
}

/*
 * The engine's state, the server's, and what other transactions do.  That the model is disabled is neither
 * a row's business nor gone by itself.
 */
bool
job_error_is_transient(int sqlerrcode)
{
	switch (sqlerrcode)
	{
		case ERRCODE_INFER_ENGINE_UNAVAILABLE:
		case ERRCODE_INFER_BUSY:
		case ERRCODE_INFER_TIMEOUT:
		case ERRCODE_INFER_DEVICE:
		case ERRCODE_INFER_ROW_KILLED_ENGINE:
			return true;
	}
	if (is_of_concurrency(sqlerrcode))
		return true;
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES):
		case ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_CONNECTION_EXCEPTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_SYSTEM_ERROR):
			return true;
	}
	return false;
}
