/*
 * read_scan.c
 *	  Rows of a table, by keyset: each read begins behind the last key of the one before.
 *
 * Each read is planned with its values: where a chunk begins and how many rows it has decide between an
 * index in the key's order and sorting what a selective condition leaves.  A planner that keeps sorting for
 * chunks that turn out full was wrong about how many rows there are, and is told to use the index.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "rows.h"

#define SORTED_MAX	3				/* full chunks that may be sorted, of a reader */

/* The version of a row, its key and its inputs, from columns first, first + 1, ... of a slot. */
static void
fill(JobFilling *filling, JobRow *row, TupleTableSlot *slot, int first, bool with_keys)
{
	const JobPlan *plan = filling->run->plan;
	const JobKeyType *types = filling->run->reader->key_types;
	const Datum *values = slot->tts_values + first;
	const bool *nulls = slot->tts_isnull + first;

	row->tableoid = DatumGetObjectId(*values++);
	row->tid = *(ItemPointer) DatumGetPointer(*values++);
	row->xmin = DatumGetTransactionId(*values++);
	nulls += 3;
	for (int i = 0; i < plan->keys_count; i++)
		if (with_keys)
			row->keys[i] = job_filling_value(filling, values[i], types[i].length, types[i].by_value);
	values += plan->keys_count;
	nulls += plan->keys_count;
	for (int i = 0; i < plan->inputs_count; i++)
	{
		row->inputs_null[i] = nulls[i];
		row->inputs[i] = nulls[i] ? (Datum) 0 :
			job_filling_value(filling, values[i], plan->inputs[i].length, plan->inputs[i].by_value);
	}
	row->outcome = JOB_ROW_READ;
}

/* ---- in order ---- */

static bool
receive_row(TupleTableSlot *slot, void *arg)
{
	JobFilling *filling = arg;
	JobRow	   *row = job_filling_row(filling);

	if (row == NULL)
		return false;
	slot_getallattrs(slot);
	fill(filling, row, slot, 0, true);
	return true;
}

/* Parameters: the position's keys, if there is one; the high key's, if there is one; how many rows. */
static void
prepare_read(JobRun *run, JobStatement *statement, bool behind)
{
	JobReader  *reader = run->reader;
	const JobPlan *plan = run->plan;
	Oid		   *types = palloc(sizeof(Oid) * (2 * plan->keys_count + 1));
	int			count = 0;
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT tableoid, ctid, xmin");
	job_sql_columns(&sql, plan->keys_count, plan->keys);
	job_sql_columns(&sql, plan->inputs_count, plan->inputs);
	appendStringInfoString(&sql, job_sql_from(plan));
	if (behind)
	{
		job_sql_behind(&sql, plan, reader->key_types, count + 1);
		for (int i = 0; i < plan->keys_count; i++)
			types[count++] = reader->key_types[i].type;
	}
	if (reader->high != NULL)
	{
		job_sql_up_to(&sql, plan, reader->key_types, count + 1);
		for (int i = 0; i < plan->keys_count; i++)
			types[count++] = reader->key_types[i].type;
	}
	appendStringInfoString(&sql, "\n");
	job_sql_order(&sql, plan, reader->key_types);
	types[count] = INT8OID;
	appendStringInfo(&sql, " LIMIT $%d", ++count);
	job_statement_prepare(statement, sql.data, count, types, NULL, CURSOR_OPT_CUSTOM_PLAN | CURSOR_OPT_NO_SCROLL);
}

static void
read_rows(JobRun *run, JobChunk *chunk, int rows_max)
{
	JobReader  *reader = run->reader;
	int			keys_count = run->plan->keys_count;
	const Datum *position = run->position != NULL ? run->position : reader->low;
	JobStatement *statement = &reader->read[position != NULL];
	Datum	   *values = palloc(sizeof(Datum) * (2 * keys_count + 1));
	int			count = 0;
	JobFilling	filling = {.run = run,.chunk = chunk,.rows_max = rows_max};

	job_spi_begin();
	if (statement->plan == NULL)
		prepare_read(run, statement, position != NULL);
	for (int i = 0; position != NULL && i < keys_count; i++)
		values[count++] = position[i];
	for (int i = 0; reader->high != NULL && i < keys_count; i++)
		values[count++] = reader->high[i];
	values[count] = Int64GetDatum((int64) rows_max + 1);
	if (job_statement_query(statement, values, reader->by_index ? JOB_PLANNING_BY_INDEX : JOB_PLANNING_FREE,
							receive_row, &filling) && filling.full && ++reader->sorted == SORTED_MAX)
		reader->by_index = true;
	job_spi_end();
	chunk->last = !filling.full;
	pfree(values);
}

/* ---- by key ---- */

static bool
receive_item(TupleTableSlot *slot, void *arg)
{
	JobFilling *filling = arg;
	JobRow	   *row;

	slot_getallattrs(slot);
	row = &filling->chunk->rows[DatumGetInt32(slot->tts_values[0])];
	if (row->outcome == JOB_ROW_GONE)
		fill(filling, row, slot, 1, false);
	return true;
}

static void
prepare_items(JobRun *run, JobStatement *statement)
{
	const JobPlan *plan = run->plan;
	const JobKeyType *key_types = run->reader->key_types;
	Oid		   *types = palloc(sizeof(Oid) * (plan->keys_count + 1));
	MemoryContext old;
	TupleDesc	columns;
	StringInfoData sql;

	types[0] = INT4OID;
	for (int i = 0; i < plan->keys_count; i++)
		types[1 + i] = key_types[i].type;
	old = MemoryContextSwitchTo(run->context);
	columns = job_given_columns(plan->keys_count + 1, types);
	MemoryContextSwitchTo(old);

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT " JOB_GIVEN ".c1, infer_job_source.* FROM " JOB_GIVEN
						   ",\n LATERAL (SELECT tableoid, ctid, xmin");
	job_sql_columns(&sql, plan->keys_count, plan->keys);
	job_sql_columns(&sql, plan->inputs_count, plan->inputs);
	appendStringInfoString(&sql, job_sql_from(plan));
	job_sql_equal_given(&sql, plan->keys_count, plan->keys, "", key_types, 2, false);
	appendStringInfoString(&sql, ") AS infer_job_source");
	job_statement_prepare(statement, sql.data, 0, NULL, columns, CURSOR_OPT_NO_SCROLL);
}

static void
read_items(JobRun *run, JobChunk *chunk)
{
	JobStatement *statement = &run->reader->items;
	int			keys_count = run->plan->keys_count;
	JobFilling	filling = {.run = run,.chunk = chunk};
	Datum	   *values = palloc(sizeof(Datum) * (keys_count + 1));
	bool	   *nulls = palloc0(sizeof(bool) * (keys_count + 1));
	Tuplestorestate *given;

	job_spi_begin();
	if (statement->plan == NULL)
		prepare_items(run, statement);
	given = tuplestore_begin_heap(false, false, work_mem);
	for (int i = 0; i < chunk->rows_count; i++)
	{
		values[0] = Int32GetDatum(i);
		memcpy(values + 1, chunk->rows[i].keys, sizeof(Datum) * keys_count);
		tuplestore_putvalues(given, statement->given, values, nulls);
	}
	job_statement_give(statement, given);
	job_statement_plan(statement, JOB_PLANNING_BY_ROW);
	job_statement_query(statement, NULL, JOB_PLANNING_BY_ROW, receive_item, &filling);
	job_statement_take();
	tuplestore_end(given);
	job_spi_end();
}

const JobReaderOps job_reader_scan_ops = {
	.count = job_scan_count,
	.ranges = job_scan_ranges,
	.read = read_rows,
	.read_items = read_items,
};
