/*
 * write.c
 *	  Results of a chunk into the target.
 *
 * All of a chunk's rows are written by one statement, in a subtransaction.  If that fails, the statement is
 * tried without any rows: what fails then, too, is no row's fault (a table, a privilege), and raised.  Else
 * the rows are halved until those that fail are alone, and the others are written.
 *
 * Nobody is waited for: rows that others have locked are passed over before the statement runs.  Whoever locks a
 * row in the moments between stops the statement, by lock_timeout, or by having changed the row; then it is tried
 * again with the rows locked first, as the next chunks are at once.  What it may yet have to wait for (a foreign
 * key's row, a unique index's entry) ends by lock_timeout as well.
 * Deferred constraints are checked with the statement, so that their errors are of the rows as well.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "../lines/lines.h"
#include "rows.h"

#define WAIT_FREE	"1ms"			/* of a chunk's statement for a lock: where rows are not locked first */
#define WAIT_LOCKED	"10ms"			/* where they are */
#define WAIT_HALVES	"1ms"			/* of the halves of one that had to wait longer */
#define HALVES_MIN	8				/* fewer rows that had to wait are not told apart */
#define SURELY		32				/* chunks that are locked first after one that failed */

JobWriter *
job_writer_make(JobRun *run)
{
	const JobPlan *plan = run->plan;
	JobWriter  *writer = MemoryContextAllocZero(run->context, sizeof(JobWriter));

	switch (plan->target)
	{
		case JOB_TARGET_UPDATE:
			writer->ops = &job_writer_update_ops;
			break;
		case JOB_TARGET_INSERT:
			writer->ops = &job_writer_insert_ops;
			break;
		case JOB_TARGET_RESPONSES:
			break;				/* by themselves: see job_write */
	}
	job_statements_end_with(run->context, writer->statements, JOB_WRITE_STATEMENTS);
	writer->key_types = job_key_types(plan->keys_count, plan->keys, run->context);
	writer->target_key_types = job_key_types(plan->keys_count, plan->target_keys, run->context);
	writer->context = AllocSetContextCreate(run->context, "infer job write", ALLOCSET_DEFAULT_SIZES);
	return writer;
}

void
job_table_lock(Oid table, LOCKMODE mode)
{
	if (!ConditionalLockRelationOid(table, mode))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("table \"%s\" is locked", get_rel_name(table))));
}

char *
job_version_sql(const JobPlan *plan)
{
	switch (plan->version_column->type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return psprintf("%d", plan->model->version);
		default:
			return psprintf("%s::pg_catalog.text", quote_literal_cstr(plan->model_pinned));
	}
}

void
job_rows_write(JobRun *run, const JobStatement *statement, JobPlanning planning, Datum *values, Tuplestorestate *given,
			   JobRow **rows, int count)
{
	uint64		written;

	if (given != NULL)
		job_statement_give(statement, given);
	job_statement_plan(statement, planning);
	written = job_statement_execute(statement, values);
	if (given != NULL)
	{
		job_statement_take();
		tuplestore_end(given);
	}
	if (written < count)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
				 errmsg("the row was not written"),
				 errdetail("A trigger or a row-level security policy of table \"%s\" leaves it as it is.",
						   get_rel_name(run->plan->target_table))));
	for (int i = 0; i < count; i++)
		rows[i]->outcome = JOB_ROW_WRITTEN;
}

/* ---- one try ---- */

typedef struct Try
{
	JobRun	   *run;
	JobRow	  **rows;
	int			count;
	bool		surely;
} Try;

static void
write_now(void *arg)
{
	const Try  *this = arg;

	MemoryContextSwitchTo(this->run->writer->context);
	job_spi_begin();
	this->run->writer->ops->write(this->run, this->rows, this->count, this->surely);
	job_spi_end();
}

/* NULL: it succeeded.  Else the error, in the current context, and everything is as it was before. */
static ErrorData *
try(JobRun *run, JobRow **rows, int count, bool surely)
{
	Try			this = {.run = run,.rows = rows,.count = count,.surely = surely};
	ErrorData  *error;

	MemoryContextReset(run->writer->context);
	error = job_attempt(write_now, &this);
	if (error == NULL)
		return NULL;
	if (run->writer->ops->give_up != NULL)
		run->writer->ops->give_up();
	for (int i = 0; i < count; i++)
		rows[i]->outcome = JOB_ROW_COMPUTED;
	return error;
}

/* Errors that no other choice of rows would spare us. */
static bool
is_of_all_rows(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
			return true;
		default:
			return error->elevel >= FATAL;
	}
}

/* ---- halves ---- */

static void
set_wait(const char *wait)
{
	(void) set_config_option("lock_timeout", wait, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* What somebody has locked comes back, however often; what a trigger says about locks does so a few times. */
static bool
is_locked_by_others(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE && job_error_is_of_others(error);
}

static void
fail(JobRow **rows, int count, ErrorData *error)
{
	bool		is_locked = is_locked_by_others(error);

	for (int i = 0; i < count; i++)
	{
		rows[i]->outcome = is_locked ? JOB_ROW_LOCKED :
			job_error_is_transient(error->sqlerrcode) ? JOB_ROW_TRANSIENT : JOB_ROW_FAILED;
		rows[i]->error = is_locked ? NULL : error;
	}
}

/* tried: the statement runs by itself. */
static void
write_rows(JobRun *run, JobRow **rows, int count, bool tried)
{
	ErrorData  *error;
	bool		is_locked;
	int			half = count / 2;

	CHECK_FOR_INTERRUPTS();
	error = try(run, rows, count, true);
	if (error == NULL)
		return;
	if (is_of_all_rows(error))
		ReThrowError(error);
	is_locked = is_locked_by_others(error);
	if (is_locked)
		set_wait(WAIT_HALVES);
	if (!tried)
	{
		ErrorData  *without = try(run, NULL, 0, true);

		if (without != NULL)
			ReThrowError(without);
	}
	if (count == 1 || (is_locked && count < HALVES_MIN))
	{
		fail(rows, count, error);
		return;
	}
	FreeErrorData(error);
	write_rows(run, rows, half, true);
	write_rows(run, rows + half, count - half, true);
}

/* false: somebody came in between, or there is another error. */
static bool
write_free_rows(JobRun *run, JobRow **rows, int count)
{
	JobWriter  *writer = run->writer;
	ErrorData  *error;

	if (writer->surely > 0)
	{
		writer->surely--;
		return false;
	}
	set_wait(WAIT_FREE);
	error = try(run, rows, count, false);
	if (error == NULL)
		return true;
	if (is_of_all_rows(error))
		ReThrowError(error);
	writer->surely = SURELY;
	FreeErrorData(error);
	return false;
}

static void
write_chunk(JobRun *run, JobChunk *chunk)
{
	MemoryContext context = MemoryContextSwitchTo(chunk->context);
	JobRow	  **rows = palloc(sizeof(JobRow *) * Max(chunk->rows_count, 1));
	int			count = 0;
	int			level;

	for (int i = 0; i < chunk->rows_count; i++)
		if (chunk->rows[i].outcome == JOB_ROW_COMPUTED)
			rows[count++] = &chunk->rows[i];
	if (count > 0)
	{
		level = NewGUCNestLevel();
		job_table_lock(run->plan->target_table, RowExclusiveLock);
		job_spi_begin();
		job_spi_execute("SET CONSTRAINTS ALL IMMEDIATE");
		job_spi_end();
		if (!write_free_rows(run, rows, count))
		{
			set_wait(WAIT_LOCKED);
			write_rows(run, rows, count, false);
		}
		AtEOXact_GUC(true, level);
	}
	pfree(rows);
	MemoryContextSwitchTo(context);
}

void
job_write(JobRun *run, JobChunk *chunk)
{
	if (run->plan->target == JOB_TARGET_RESPONSES)
		lines_write(run, chunk);
	else
		write_chunk(run, chunk);
}
