/*
 * rows.c
 *	  A job of lines as the runner sees it: its plan, and rows of infer.job_request as rows of chunks.
 *
 * A row's key is the line's number; its inputs are url, model and body; its result is the response.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "../rows/rows.h"
#include "lines.h"

#define CHUNK_CALLS		4096		/* beyond one line */

/* ---- the plan ---- */

static JobColumn
column(const char *name, Oid type)
{
	bool		by_value = type == INT8OID;

	return (JobColumn) {
		.sql = pstrdup(name), .name = pstrdup(name), .type = type, .typmod = -1,
		.collation = type == TEXTOID ? DEFAULT_COLLATION_OID : InvalidOid,
		.length = by_value ? sizeof(int64) : -1, .by_value = by_value, .type_sql = format_type_be_qualified(type)
	};
}

void
lines_plan(JobPlan *plan)
{
	plan->source = JOB_SOURCE_REQUESTS;
	plan->keys_count = 1;
	plan->keys = palloc(sizeof(JobColumn));
	plan->keys[0] = column("line", INT8OID);
	plan->inputs_count = LINE_INPUTS;
	plan->inputs = palloc(sizeof(JobColumn) * LINE_INPUTS);
	plan->inputs[LINE_INPUT_URL] = column("url", TEXTOID);
	plan->inputs[LINE_INPUT_MODEL] = column("model", TEXTOID);
	plan->inputs[LINE_INPUT_BODY] = column("body", JSONBOID);
	plan->target = JOB_TARGET_RESPONSES;
	plan->target_keys = plan->keys;
	plan->output = column("response", JSONOID);
	plan->result_type = JSONOID;
}

/* ---- reading ---- */

typedef struct Reading
{
	JobFilling	filling;
	int64		calls;
} Reading;

static void
set_input(JobRow *row, LineInput input, const void *value)
{
	row->inputs[input] = PointerGetDatum(value);
	row->inputs_null[input] = value == NULL;
}

/* In the chunk's context.  A bad line has failed before it is computed. */
static void
set_row(JobRow *row, const JobLine *line)
{
	row->outcome = JOB_ROW_READ;
	set_input(row, LINE_INPUT_URL, line->url != NULL ? cstring_to_text(line->url) : NULL);
	set_input(row, LINE_INPUT_MODEL, line->model != NULL ? cstring_to_text(line->model) : NULL);
	set_input(row, LINE_INPUT_BODY, line->body);
	if (line->sqlstate == NULL)
		return;
	row->outcome = JOB_ROW_FAILED;
	row->error = palloc0(sizeof(ErrorData));
	row->error->elevel = ERROR;
	row->error->sqlerrcode = MAKE_SQLSTATE(line->sqlstate[0], line->sqlstate[1], line->sqlstate[2], line->sqlstate[3], line->sqlstate[4]);
	row->error->message = line->message;
	row->error->assoc_context = CurrentMemoryContext;
}

static bool
read_line(JobLine *line, void *arg)
{
	Reading    *reading = arg;
	int			calls = line_calls(line->body);
	JobRow	   *row;

	if (reading->filling.chunk->rows_count > 0 && reading->calls + calls > CHUNK_CALLS)
		reading->filling.full = true;
	if (reading->filling.full || (row = job_filling_row(&reading->filling)) == NULL)
		return false;
	row->keys[0] = Int64GetDatum(line->line);
	set_row(row, line);
	reading->filling.bytes += line->body != NULL ? VARSIZE(line->body) : 0;
	reading->calls += calls;
	return true;
}

static void
read_lines(JobRun *run, JobChunk *chunk, int rows_max)
{
	MemoryContext old = MemoryContextSwitchTo(chunk->context);
	LineTable  *table = line_table_open(false);
	Reading		reading = {.filling = {.run = run, .chunk = chunk, .rows_max = rows_max}};
	const Datum *after = run->position != NULL ? run->position : run->reader->low;
	const Datum *upto = run->reader->high;

	line_each(table, run->record->job, after != NULL ? DatumGetInt64(after[0]) : 0,
			  upto != NULL ? DatumGetInt64(upto[0]) : PG_INT64_MAX, chunk->context, read_line, &reading);
	line_table_close(table);
	chunk->last = !reading.filling.full;
	if (chunk->rows_count > 0)
		job_reader_move(run, chunk->rows[chunk->rows_count - 1].keys);
	MemoryContextSwitchTo(old);
}

static void
read_items(JobRun *run, JobChunk *chunk)
{
	MemoryContext old = MemoryContextSwitchTo(chunk->context);
	LineTable  *table = line_table_open(false);

	for (int i = 0; i < chunk->rows_count; i++)
	{
		JobRow	   *row = &chunk->rows[i];
		JobLine    *line = line_get(table, run->record->job, DatumGetInt64(row->keys[0]));

		if (line != NULL)
			set_row(row, line);
	}
	line_table_close(table);
	MemoryContextSwitchTo(old);
}

/* They were counted when they were imported. */
static int64
count_lines(JobRun *run, bool *estimated)
{
	*estimated = false;
	return run->record->total;
}

/* Of about as many lines each, as few are empty. */
static JobKey *
ranges(JobRun *run, int shards, int *count)
{
	JobKey	   *bounds = palloc0(sizeof(JobKey) * shards);
	int64		last = 0;

	*count = 0;
	for (int i = 1; i < shards; i++)
	{
		int64		line = run->record->total * i / shards;
		Datum		key = Int64GetDatum(line);

		if (line > last)
			job_key_make(run->plan, &key, &bounds[(*count)++]);
		last = line;
	}
	return bounds;
}

const JobReaderOps job_reader_lines_ops = {
	.count = count_lines,
	.ranges = ranges,
	.read = read_lines,
	.read_items = read_items,
};

/* ---- writing ---- */

void
lines_write(JobRun *run, JobChunk *chunk)
{
	LineTable  *table = line_table_open(true);

	for (int i = 0; i < chunk->rows_count; i++)
	{
		JobRow	   *row = &chunk->rows[i];

		if (row->outcome != JOB_ROW_COMPUTED)
			continue;
		row->outcome = line_respond(table, run->record->job, DatumGetInt64(row->keys[0]), DatumGetTextPP(row->result)) ?
			JOB_ROW_WRITTEN : JOB_ROW_GONE;
	}
	line_table_close(table);
}
