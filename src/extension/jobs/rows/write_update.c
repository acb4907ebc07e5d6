/*
 * write_update.c
 *	  Results into a column of the table that was read.
 *
 * The rows are found by their places, all at once and in the table's order; infer.read_job_value() gives each the
 * result that was computed for its place.  In a table with parts a place is one of each part: there the rows
 * are given as a relation, and their keys let the executor look into one part only, for each by itself.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "rows.h"

#define GIVEN_KEYS	4				/* columns before: place, table, result */

/* ---- infer.read_job_value() ---- */

/* What is being written: of this process, while the statement runs. */
static struct
{
	JobRow	  **rows;				/* in the order of their places; NULL: nothing */
	int			count;
	int			next;				/* that the statement probably asks for */
	Oid			type;
} writing;

static void
stop_writing(void)
{
	writing.rows = NULL;
}

/* A place as a number, in the order of places. */
static uint64
number_of(ItemPointer place)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(place) << 16 | ItemPointerGetOffsetNumberNoCheck(place);
}

typedef struct Placed
{
	uint64		number;
	JobRow	   *row;
} Placed;

#define ST_SORT sort_placed
#define ST_ELEMENT_TYPE Placed
#define ST_COMPARE(a, b) ((a)->number < (b)->number ? -1 : (a)->number > (b)->number)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

static void
sort_rows(JobRow **rows, int count)
{
	Placed	   *placed = palloc(sizeof(Placed) * Max(count, 1));

	for (int i = 0; i < count; i++)
		placed[i] = (Placed) {number_of(&rows[i]->tid), rows[i]};
	sort_placed(placed, count);
	for (int i = 0; i < count; i++)
		rows[i] = placed[i].row;
	pfree(placed);
}

static const JobRow *
row_at(ItemPointer place)
{
	int			low = 0;
	int			high = writing.count;

	if (writing.next < high && ItemPointerEquals(&writing.rows[writing.next]->tid, place))
		return writing.rows[writing.next++];
	while (low < high)
	{
		int			middle = (low + high) / 2;
		int			order = ItemPointerCompare(&writing.rows[middle]->tid, place);

		if (order == 0)
		{
			writing.next = middle + 1;
			return writing.rows[middle];
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

PG_FUNCTION_INFO_V1(infer_read_job_value);

/* Place, NULL of the result's type. */
Datum
infer_read_job_value(PG_FUNCTION_ARGS)
{
	const JobRow *row;

	if (writing.rows == NULL || get_fn_expr_argtype(fcinfo->flinfo, 1) != writing.type || PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("infer.read_job_value() has values for the statements of jobs only")));
	row = row_at((ItemPointer) PG_GETARG_POINTER(0));
	if (row == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the row has changed since it was looked at")));
	if (row->result_null)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(row->result);
}

/* ---- the statement ---- */

static void
begin_update(StringInfo sql, const JobPlan *plan, const char *only, const char *value)
{
	initStringInfo(sql);
	appendStringInfo(sql, "UPDATE %s%s AS infer_job_target SET %s = %s", only, plan->target_sql, plan->output.sql, value);
	if (plan->version_column != NULL)
		appendStringInfo(sql, ", %s = %s", plan->version_column->sql, job_version_sql(plan));
}

static void
prepare(JobRun *run)
{
	const JobPlan *plan = run->plan;
	Oid			parameter = TIDARRAYOID;
	StringInfoData sql;

	begin_update(&sql, plan, "ONLY ",
				 psprintf("infer.read_job_value(infer_job_target.ctid, NULL::%s)",
						  format_type_extended(plan->result_type, -1, FORMAT_TYPE_FORCE_QUALIFY)));
	appendStringInfoString(&sql, "\n WHERE infer_job_target.ctid OPERATOR(pg_catalog.=) ANY ($1)");
	job_statement_prepare(&run->writer->statements[JOB_WRITE_ROWS], sql.data, 1, &parameter, NULL, CURSOR_OPT_GENERIC_PLAN);
}

static void
prepare_parts(JobRun *run)
{
	const JobPlan *plan = run->plan;
	Oid		   *types = palloc(sizeof(Oid) * (GIVEN_KEYS - 1 + plan->keys_count));
	MemoryContext old;
	TupleDesc	columns;
	StringInfoData sql;

	types[0] = TIDOID;
	types[1] = OIDOID;
	types[2] = plan->result_type;
	for (int i = 0; i < plan->keys_count; i++)
		types[GIVEN_KEYS - 1 + i] = run->writer->key_types[i].type;
	old = MemoryContextSwitchTo(run->context);
	columns = job_given_columns(GIVEN_KEYS - 1 + plan->keys_count, types);
	MemoryContextSwitchTo(old);

	begin_update(&sql, plan, "", JOB_GIVEN ".c3");
	appendStringInfoString(&sql, "\n FROM " JOB_GIVEN
						   "\n WHERE infer_job_target.ctid OPERATOR(pg_catalog.=) " JOB_GIVEN ".c1"
						   " AND infer_job_target.tableoid OPERATOR(pg_catalog.=) " JOB_GIVEN ".c2");
	job_sql_equal_given(&sql, plan->keys_count, plan->target_keys, "infer_job_target.", run->writer->key_types, GIVEN_KEYS,
						false);
	job_statement_prepare(&run->writer->statements[JOB_WRITE_ROWS], sql.data, 0, NULL, columns, 0);
}

/* ---- rows ---- */

static JobRow **
rows_to_write(JobRow **rows, int count, int *found_count)
{
	JobRow	  **found = palloc(sizeof(JobRow *) * Max(count, 1));

	*found_count = 0;
	for (int i = 0; i < count; i++)
		if (rows[i]->outcome == JOB_ROW_COMPUTED)
			found[(*found_count)++] = rows[i];
	return found;
}

static void
write_plain(JobRun *run, JobRow **rows, int count)
{
	Datum	   *places = palloc(sizeof(Datum) * Max(count, 1));
	Datum		array;

	if (run->writer->statements[JOB_WRITE_ROWS].plan == NULL)
		prepare(run);
	sort_rows(rows, count);
	for (int i = 0; i < count; i++)
		places[i] = PointerGetDatum(&rows[i]->tid);
	array = PointerGetDatum(construct_array(places, count, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
	writing.rows = rows;
	writing.count = count;
	writing.next = 0;
	writing.type = run->plan->result_type;
	job_rows_write(run, &run->writer->statements[JOB_WRITE_ROWS], JOB_PLANNING_BY_ROW, &array, NULL, rows, count);
	stop_writing();
}

static void
write_parts(JobRun *run, JobRow **rows, int count)
{
	JobStatement *statement = &run->writer->statements[JOB_WRITE_ROWS];
	Datum	   *values;
	bool	   *nulls;
	Tuplestorestate *given = tuplestore_begin_heap(false, false, Max(work_mem, 64 * 1024));

	if (statement->plan == NULL)
		prepare_parts(run);
	values = palloc(sizeof(Datum) * statement->given->natts);
	nulls = palloc0(sizeof(bool) * statement->given->natts);
	for (int i = 0; i < count; i++)
	{
		values[0] = PointerGetDatum(&rows[i]->tid);
		values[1] = ObjectIdGetDatum(rows[i]->tableoid);
		values[2] = rows[i]->result;
		nulls[2] = rows[i]->result_null;
		memcpy(values + GIVEN_KEYS - 1, rows[i]->keys, sizeof(Datum) * run->plan->keys_count);
		tuplestore_putvalues(given, statement->given, values, nulls);
	}
	job_rows_write(run, statement, JOB_PLANNING_BY_ROW, NULL, given, rows, count);
}

static void
write_rows(JobRun *run, JobRow **rows, int count, bool surely)
{
	JobRow	  **found;
	int			found_count;

	job_rows_look(run, rows, count, surely ? JOB_LOOK_LOCK : JOB_LOOK_FREE);
	found = rows_to_write(rows, count, &found_count);
	if (get_rel_relkind(run->plan->target_table) == RELKIND_PARTITIONED_TABLE)
		write_parts(run, found, found_count);
	else
		write_plain(run, found, found_count);
}

const JobWriterOps job_writer_update_ops = {
	.write = write_rows,
	.give_up = stop_writing,
};
