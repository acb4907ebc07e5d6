/*
 * write_insert.c
 *	  Results into another table: INSERT ... ON CONFLICT (key) DO UPDATE.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "rows.h"

static void
names(StringInfo sql, const JobPlan *plan)
{
	for (int i = 0; i < plan->keys_count; i++)
		appendStringInfo(sql, "%s%s", i == 0 ? "" : ", ", plan->target_keys[i].sql);
}

static void
prepare(JobRun *run)
{
	const JobPlan *plan = run->plan;
	Oid		   *types = palloc(sizeof(Oid) * (plan->keys_count + 1));
	MemoryContext old;
	TupleDesc	columns;
	StringInfoData sql;

	for (int i = 0; i < plan->keys_count; i++)
		types[i] = run->writer->key_types[i].type;
	types[plan->keys_count] = plan->result_type;
	old = MemoryContextSwitchTo(run->context);
	columns = job_given_columns(plan->keys_count + 1, types);
	MemoryContextSwitchTo(old);

	initStringInfo(&sql);
	appendStringInfo(&sql, "INSERT INTO %s AS infer_job_target (", plan->target_sql);
	names(&sql, plan);
	appendStringInfo(&sql, ", %s", plan->output.sql);
	if (plan->version_column != NULL)
		appendStringInfo(&sql, ", %s", plan->version_column->sql);
	appendStringInfoString(&sql, ")\n SELECT ");
	for (int i = 0; i <= plan->keys_count; i++)
		appendStringInfo(&sql, "%s" JOB_GIVEN ".c%d", i == 0 ? "" : ", ", i + 1);
	if (plan->version_column != NULL)
		appendStringInfo(&sql, ", %s", job_version_sql(plan));
	appendStringInfoString(&sql, " FROM " JOB_GIVEN "\n ON CONFLICT (");
	names(&sql, plan);
	appendStringInfo(&sql, ") DO UPDATE SET %s = EXCLUDED.%s", plan->output.sql, plan->output.sql);
	if (plan->version_column != NULL)
		appendStringInfo(&sql, ", %s = EXCLUDED.%s", plan->version_column->sql, plan->version_column->sql);
	job_statement_prepare(&run->writer->statements[JOB_WRITE_ROWS], sql.data, 0, NULL, columns, 0);
}

static void
write_rows(JobRun *run, JobRow **rows, int count, bool surely)
{
	JobStatement *statement = &run->writer->statements[JOB_WRITE_ROWS];
	int			keys_count = run->plan->keys_count;
	Datum	   *values = palloc(sizeof(Datum) * (keys_count + 1));
	bool	   *nulls = palloc0(sizeof(bool) * (keys_count + 1));
	JobRow	  **found = palloc(sizeof(JobRow *) * Max(count, 1));
	Tuplestorestate *given;
	int			given_count = 0;

	if (run->plan->unchanged)
		job_rows_look(run, rows, count, JOB_LOOK_ONLY);
	if (surely)
		job_rows_lock_target(run, rows, count);
	if (statement->plan == NULL)
		prepare(run);
	given = tuplestore_begin_heap(false, false, Max(work_mem, 64 * 1024));
	for (int i = 0; i < count; i++)
	{
		if (rows[i]->outcome != JOB_ROW_COMPUTED)
			continue;
		found[given_count++] = rows[i];
		memcpy(values, rows[i]->keys, sizeof(Datum) * keys_count);
		values[keys_count] = rows[i]->result;
		nulls[keys_count] = rows[i]->result_null;
		tuplestore_putvalues(given, statement->given, values, nulls);
	}
	job_rows_write(run, statement, JOB_PLANNING_FREE, NULL, given, found, given_count);
}

const JobWriterOps job_writer_insert_ops = {
	.write = write_rows,
};
