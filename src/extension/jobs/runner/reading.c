/*
 * reading.c
 *	  Rows that cannot be read: where the condition or an input's expression fails for one row, that is the row's error.
 *
 * A read of a scan is tried in a subtransaction.  If it fails for a reason that rows can have (a division by zero,
 * a cast), the next one passes over fewer keys of the table, down to one, whose row is the one that fails; later
 * ones pass over more again.
 *
 * Where the row is, is looked up before it is tried by itself: if somebody changes it in between, the error is of
 * another version than the one that is known, which nobody is told of as failed.
 *
 * A key is kept as text, which its type's input function may refuse: then that is the row's error, and its keys are
 * those that were read, or none.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "../rows/rows.h"
#include "runner.h"

#define KEYS_CAREFUL_FIRST	4		/* times the rows that were to be read */
#define KEYS_CAREFUL_FEWER	4		/* times fewer after an error */
#define KEYS_CAREFUL_MAX	4000000	/* then any number again */

typedef struct Read
{
	JobRun	   *run;
	JobChunk   *chunk;
	int			rows_max;
	JobItem    *items;				/* NULL: in order */
	int			items_count;
} Read;

static void
read_now(void *arg)
{
	const Read *read = arg;

	if (read->items != NULL)
		job_read_items(read->run, read->chunk, read->items, read->items_count);
	else
		job_read(read->run, read->chunk, read->rows_max);
}

/* The error, in the chunk's context, if a row may be the reason; NULL: it has been read. */
static ErrorData *
try_to_read(Read *read)
{
	MemoryContext context = MemoryContextSwitchTo(read->chunk->context);
	ErrorData  *error = job_attempt(read_now, read);

	MemoryContextSwitchTo(context);
	if (error != NULL && !job_error_may_be_of_row(error->sqlerrcode))
		ReThrowError(error);
	return error;
}

/* A row by itself, whose place is known, is the chunk.  It has the place's keys where its own could not be read. */
static void
read_item(Read *read, const JobRow *place)
{
	ErrorData  *error = try_to_read(read);
	JobRow	   *row = &read->chunk->rows[0];

	if (error == NULL)
		return;
	if (row->keys == NULL)
		row->keys = place->keys;
	row->tableoid = place->tableoid;
	row->file = place->file;
	row->tid = place->tid;
	row->xmin = place->xmin;
	row->horizon = place->horizon;
	row->outcome = JOB_ROW_FAILED;
	row->error = error;
}

/* The next row of the table: of the chunk if it meets the condition, or has failed. */
static void
read_next(Runner *runner, JobChunk *chunk)
{
	JobItem		item = {0};
	Read		read = {.run = &runner->run,.chunk = chunk,.items = &item,.items_count = 1};
	JobRow		next = {0};

	if (!job_scan_next(&runner->run, &next))
	{
		chunk->rows_count = 0;
		chunk->last = true;
		return;
	}
	job_key_make(runner->run.plan, next.keys, &item.key);
	read_item(&read, &next);
	chunk->of_items = false;
	chunk->rows[0].item = NULL;
	if (chunk->rows[0].outcome == JOB_ROW_GONE)
		chunk->rows_count = 0;
	job_reader_move(&runner->run, next.keys);
}

void
runner_read(Runner *runner, JobChunk *chunk, int rows_max)
{
	JobReader  *reader = runner->run.reader;
	Read		read = {.run = &runner->run,.chunk = chunk,.rows_max = rows_max};

	if (runner->run.plan->source != JOB_SOURCE_SCAN)
	{
		job_read(&runner->run, chunk, rows_max);	/* was evaluated when it was materialised */
		return;
	}
	while (try_to_read(&read) != NULL)
	{
		reader->by_index = true;	/* a sort would look at all rows first */
		if (reader->keys_careful == 1)
		{
			read_next(runner, chunk);
			break;
		}
		reader->keys_careful = reader->keys_careful == 0 ? (int64) rows_max * KEYS_CAREFUL_FIRST :
			Max(reader->keys_careful / KEYS_CAREFUL_FEWER, 1);
	}
	reader->keys_careful *= 2;
	if (chunk->rows_count >= rows_max || reader->keys_careful > KEYS_CAREFUL_MAX)
		reader->keys_careful = 0;
}

void
runner_read_items(Runner *runner, JobChunk *chunk, JobItem *items, int items_count)
{
	Read		read = {.run = &runner->run,.chunk = chunk,.items = items,.items_count = items_count};

	if (runner->run.plan->source != JOB_SOURCE_SCAN)
	{
		job_read_items(&runner->run, chunk, items, items_count);
		return;
	}
	while (try_to_read(&read) != NULL)
	{
		JobRow		place = {.keys = chunk->rows[0].keys};

		if (read.items_count == 1)
		{
			if (place.keys != NULL)
				(void) job_scan_place(&runner->run, &place);
			read_item(&read, &place);
			return;
		}
		read.items_count /= 2;		/* the others are still due */
		runner->items_due = 0;
	}
}
