/*
 * write_update.c
 *	  Results into a column of the table that was read.
 *
 * The rows are locked before, and then found by their places: all at once, and matched with what they get in
 * a hash table.  Where the table has parts, each by itself: its key lets the executor look into one of them only.
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
	Oid			parameter = TIDARRAYOID;
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
	if (!is_partitioned)
		appendStringInfoString(&sql, " AND infer_job_target.ctid OPERATOR(pg_catalog.=) ANY ($1)");
	job_statement_prepare(&run->writer->write, sql.data, is_partitioned ? 0 : 1, &parameter, columns,
						  CURSOR_OPT_GENERIC_PLAN);
}

/* The places of rows that are COMPUTED. */
static Datum
places(JobRow **rows, int count)
{
	Datum	   *tids = palloc(sizeof(Datum) * Max(count, 1));
	int			tids_count = 0;

	for (int i = 0; i < count; i++)
		if (rows[i]->outcome == JOB_ROW_COMPUTED)
			tids[tids_count++] = PointerGetDatum(&rows[i]->tid);
	return PointerGetDatum(construct_array(tids, tids_count, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
}

static void
write_rows(JobRun *run, JobRow **rows, int count)
{
	JobStatement *statement = &run->writer->write;
	Datum	   *values;
	bool	   *nulls;
	Tuplestorestate *given;
	int			given_count = 0;
	bool		has_keys;
	Datum		tids = (Datum) 0;

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
	has_keys = statement->given->natts >= GIVEN_KEYS;
	if (!has_keys)
		tids = places(rows, count);
	job_rows_write(run, statement, has_keys ? JOB_PLANNING_BY_ROW : JOB_PLANNING_BY_HASH, has_keys ? NULL : &tids, given,
				   given_count, rows, count);
}

const JobWriterOps job_writer_update_ops = {
	.write = write_rows,
};
