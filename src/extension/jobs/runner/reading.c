/*
 * reading.c
 *	  Rows whose inputs cannot be read: an expression that fails for one row is that row's error.
 *
 * A read of a scan is tried in a subtransaction.  If it fails for a reason that rows can have (a division by zero,
 * a cast), fewer rows are read, down to one; later reads have twice as many again from time to time.  The one
 * row is found without its inputs, and then read by its key: so it is told from the row behind it, which a
 * read looks at as well.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "../rows/rows.h"
#include "runner.h"

typedef struct Read
{
	JobRun	   *run;
	JobChunk   *chunk;
	int			rows_max;
	JobItem    *items;				/* NULL: in order */
	int			items_count;
} Read;

static void
read_now(const Read *read)
{
	if (read->items != NULL)
		job_read_items(read->run, read->chunk, read->items, read->items_count);
	else
		job_read(read->run, read->chunk, read->rows_max);
}

static bool
may_be_of_row(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_TO_CATEGORY(ERRCODE_CARDINALITY_VIOLATION):
		case ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION):
		case ERRCODE_TO_CATEGORY(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_EXTERNAL_ROUTINE_INVOCATION_EXCEPTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_PROGRAM_LIMIT_EXCEEDED):
		case ERRCODE_TO_CATEGORY(ERRCODE_PLPGSQL_ERROR):
			return true;
	}
	return false;
}

/* The error, in the chunk's context, if a row may be the reason; NULL: it has been read. */
static ErrorData *
try_to_read(const Read *read)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		read_now(read);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		if (!may_be_of_row(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(read->chunk->context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/* Of the same rows, without their inputs. */
static JobRun *
run_of_keys(Runner *runner)
{
	MemoryContext old = MemoryContextSwitchTo(runner->run.context);
	JobRun	   *run = runner->run_of_keys;
	JobPlan    *plan;

	if (run == NULL)
	{
		run = palloc(sizeof(JobRun));
		plan = palloc(sizeof(JobPlan));
		*run = runner->run;
		*plan = *runner->run.plan;
		plan->inputs_count = 0;
		run->plan = plan;
		run->reader = job_reader_make(run);
		runner->run_of_keys = run;
	}
	run->position = runner->run.position;
	MemoryContextSwitchTo(old);
	return run;
}

/* The next row by itself, which has failed if it cannot be read. */
static void
read_one(Runner *runner, JobChunk *chunk)
{
	JobItem		item = {0};
	Read		read = {.run = &runner->run,.chunk = chunk,.items = &item,.items_count = 1};
	JobRun	   *keys = run_of_keys(runner);
	ErrorData  *error;
	JobRow		found;
	JobRow	   *row;
	bool		last;

	job_read(keys, chunk, 1);
	last = chunk->last;
	if (chunk->rows_count == 0)
	{
		job_reader_move(&runner->run, keys->position);
		return;
	}
	found = chunk->rows[0];
	job_key_make(runner->run.plan, found.keys, &item.key);
	error = try_to_read(&read);
	chunk->of_items = false;
	chunk->last = last;
	row = &chunk->rows[0];
	row->item = NULL;
	if (error != NULL)
	{
		row->tableoid = found.tableoid;
		row->file = found.file;
		row->tid = found.tid;
		row->xmin = found.xmin;
		row->horizon = found.horizon;
		row->outcome = JOB_ROW_FAILED;
		row->error = error;
	}
	job_read_back(&runner->run, row);
}

void
runner_read(Runner *runner, JobChunk *chunk, int rows_max)
{
	Read		read = {.run = &runner->run,.chunk = chunk};
	int			rows = runner->read_max > 0 ? Min(rows_max, runner->read_max) : rows_max;

	if (runner->run.plan->source != JOB_SOURCE_SCAN)
	{
		job_read(&runner->run, chunk, rows_max);	/* was evaluated when it was materialised */
		return;
	}
	while (read.rows_max = rows, try_to_read(&read) != NULL)
	{
		runner->run.reader->by_index = true;	/* a sort would look at all rows first */
		if (rows == 1)
		{
			read_one(runner, chunk);
			break;
		}
		rows /= 2;
		runner->read_max = rows;
	}
	runner->read_max = runner->read_max == 0 || rows >= rows_max ? 0 : rows * 2;
}

void
runner_read_items(Runner *runner, JobChunk *chunk, JobItem *items, int items_count)
{
	Read		read = {.run = &runner->run,.chunk = chunk,.items = items,.items_count = items_count};
	ErrorData  *error;

	if (runner->run.plan->source != JOB_SOURCE_SCAN)
	{
		job_read_items(&runner->run, chunk, items, items_count);
		return;
	}
	while ((error = try_to_read(&read)) != NULL)
	{
		if (read.items_count == 1)
		{
			chunk->rows[0].outcome = JOB_ROW_FAILED;
			chunk->rows[0].error = error;
			return;
		}
		read.items_count /= 2;		/* the others are still due */
		runner->items_due = 0;
	}
}
