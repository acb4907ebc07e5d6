/*
 * write_update.c
 *	  Results into a column of the table that was read.
 *
 * The rows are locked before; each is then found by its place.  Where the table has parts, the key lets the
 * executor look into one of them only.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "rows.h"

#define GIVEN_KEYS	4				/* columns before: place, table, result */

static void
prepare(JobRun *run)
{
	const JobPlan *plan = run->plan;
	bool		is_partitioned = get_rel_relkind(plan->target_table) == RELKIND_PARTITIONED_TABLE;
	int			keys_count = is_partitioned ? plan->keys_count : 0;
	Oid		   *types = palloc(sizeof(Oid) * (GIVEN_KEYS - 1 + keys_count));
	MemoryContext old;
	TupleDesc	columns;
	StringInfoData sql;

	types[0] = TIDOID;
	types[1] = OIDOID;
	types[2] = plan->result_type;
	for (int i = 0; i < keys_count; i++)
		types[GIVEN_KEYS - 1 + i] = run->writer->key_types[i].type;
	old = MemoryContextSwitchTo(run->context);
	columns = job_given_columns(GIVEN_KEYS - 1 + keys_count, types);
	MemoryContextSwitchTo(old);

	initStringInfo(&sql);
	appendStringInfo(&sql, "UPDATE %s AS infer_job_target SET %s = " JOB_GIVEN ".c3", plan->target_sql, plan->output.sql);
	if (plan->version_column != NULL)
		appendStringInfo(&sql, ", %s = %s", plan->version_column->sql, job_version_sql(plan));
	appendStringInfoString(&sql, "\n FROM " JOB_GIVEN
						   "\n WHERE infer_job_target.ctid OPERATOR(pg_catalog.=) " JOB_GIVEN ".c1"
						   " AND infer_job_target.tableoid OPERATOR(pg_catalog.=) " JOB_GIVEN ".c2");
	job_sql_equal_given(&sql, keys_count, plan->target_keys, "infer_job_target.", run->writer->key_types, GIVEN_KEYS, false);
	job_statement_prepare(&run->writer->write, sql.data, 0, NULL, columns, 0);
}

static void
write_rows(JobRun *run, JobRow **rows, int count)
{
	JobStatement *statement = &run->writer->write;
	Datum	   *values;
	bool	   *nulls;
	Tuplestorestate *given;
	int			given_count = 0;

	job_rows_look(run, rows, count, true);
	if (statement->plan == NULL)
		prepare(run);
	values = palloc(sizeof(Datum) * statement->given->natts);
	nulls = palloc0(sizeof(bool) * statement->given->natts);
	given = tuplestore_begin_heap(false, false, Max(work_mem, 64 * 1024));
	for (int i = 0; i < count; i++)
	{
		const JobRow *row = rows[i];

		if (row->outcome != JOB_ROW_COMPUTED)
			continue;
		values[0] = PointerGetDatum(&row->tid);
		values[1] = ObjectIdGetDatum(row->tableoid);
		values[2] = row->result;
		nulls[2] = row->result_null;
		for (int k = GIVEN_KEYS - 1; k < statement->given->natts; k++)
			values[k] = row->keys[k - GIVEN_KEYS + 1];
		tuplestore_putvalues(given, statement->given, values, nulls);
		given_count++;
	}
	job_rows_write(run, statement, given, given_count, rows, count);
}

const JobWriterOps job_writer_update_ops = {
	.write = write_rows,
};
