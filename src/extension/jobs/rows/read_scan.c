/*
 * read_scan.c
 *	  Rows of a table, by keyset: each read begins behind the last key of the one before.
 *
 * Each read is planned with its values: where a chunk begins and how many rows it has decide between an
 * index in the key's order and sorting what a selective condition leaves.  A planner that keeps sorting for
 * chunks that turn out full was wrong about how many rows there are, and is told to use the index.
 *
 * Where few rows meet a condition, a read might pass over millions of others for a chunk, with its snapshot.  If
 * going through all that is left is dear, and rows are filtered, a read passes over so many keys only, as take a
 * fraction of a second: the key that is so many further is looked up first.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "rows.h"

#define SORTED_MAX	3				/* full chunks that may be sorted, of a reader */
#define COST_MAX	250000			/* of all rows that are left, as the planner counts: some seconds */
#define AHEAD_FIRST	50000			/* keys */
#define AHEAD_MIN	10000
#define AHEAD_MAX	4000000
#define AHEAD_FAST	0.25			/* seconds: more keys next time */
#define AHEAD_SLOW	1.0				/* fewer */

/* While a table is being read, it keeps its file. */
static Oid
file_of(JobFilling *filling, Oid tableoid)
{
	Relation	table;

	if (filling->tableoid != tableoid)
	{
		table = RelationIdGetRelation(tableoid);
		if (!RelationIsValid(table))
			elog(ERROR, "could not open relation with OID %u", tableoid);
		filling->file = infer_file_number(table);
		filling->tableoid = tableoid;
		RelationClose(table);
	}
	return filling->file;
}

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
	row->file = file_of(filling, row->tableoid);
	row->horizon = GetActiveSnapshot()->xmin;
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

/* Of a chunk that is being read. */
typedef struct Reading
{
	JobFilling	filling;			/* first: receive_row is given it */
	bool		bounded;
	bool		sorts;
	bool		refused;
} Reading;

static bool
accept_read(const JobPlanned *planned, void *arg)
{
	Reading    *reading = arg;

	reading->sorts = planned->sorts;
	reading->refused = !reading->bounded && planned->filters && planned->cost > COST_MAX;
	return !reading->refused;
}

/* Adds a condition on the keys, and its parameters. */
static int
add_keys(StringInfo sql, JobRun *run, Oid *types, int count, bool behind)
{
	const JobPlan *plan = run->plan;
	const JobKeyType *key_types = run->reader->key_types;

	if (behind)
		job_sql_behind(sql, plan, key_types, count + 1);
	else
		job_sql_up_to(sql, plan, key_types, count + 1);
	for (int i = 0; i < plan->keys_count; i++)
		types[count++] = key_types[i].type;
	return count;
}

/*
 * Parameters: the keys that the rows are behind, if behind; those up to which they are, if up_to; how many
 * rows, or which one.
 */
static void
prepare_read(JobRun *run, JobStatement *statement, bool behind, bool up_to, bool ahead)
{
	const JobPlan *plan = run->plan;
	Oid		   *types = palloc(sizeof(Oid) * (2 * plan->keys_count + 1));
	int			count = 0;
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT tableoid, ctid, xmin");
	job_sql_columns(&sql, plan->keys_count, plan->keys);
	if (!ahead)
		job_sql_columns(&sql, plan->inputs_count, plan->inputs);
	appendStringInfoString(&sql, ahead ? job_sql_from_all(plan) : job_sql_from(plan));
	if (behind)
		count = add_keys(&sql, run, types, count, true);
	if (up_to)
		count = add_keys(&sql, run, types, count, false);
	appendStringInfoString(&sql, "\n");
	job_sql_order(&sql, plan, run->reader->key_types);
	types[count++] = INT8OID;
	appendStringInfo(&sql, ahead ? " OFFSET $%d LIMIT 1" : " LIMIT $%d", count);
	job_statement_prepare(statement, sql.data, count, types, NULL, CURSOR_OPT_CUSTOM_PLAN | CURSOR_OPT_NO_SCROLL);
}

static Datum *
parameters(JobRun *run, const Datum *behind, const Datum *up_to, int64 number)
{
	int			keys_count = run->plan->keys_count;
	Datum	   *values = palloc(sizeof(Datum) * (2 * keys_count + 1));
	int			count = 0;

	for (int i = 0; behind != NULL && i < keys_count; i++)
		values[count++] = behind[i];
	for (int i = 0; up_to != NULL && i < keys_count; i++)
		values[count++] = up_to[i];
	values[count] = Int64GetDatum(number);
	return values;
}

static void
read_up_to(JobRun *run, Reading *reading, const Datum *behind, const Datum *up_to)
{
	JobReader  *reader = run->reader;
	JobStatement *statement = &reader->statements[JOB_READ_ROWS + 2 * (behind != NULL) + (up_to != NULL)];

	if (statement->plan == NULL)
		prepare_read(run, statement, behind != NULL, up_to != NULL, false);
	job_statement_query(statement, parameters(run, behind, up_to, (int64) reading->filling.rows_max + 1),
						reader->by_index || reading->bounded ? JOB_PLANNING_BY_INDEX : JOB_PLANNING_FREE, accept_read,
						receive_row, reading);
	if (reading->sorts && reading->filling.full && ++reader->sorted == SORTED_MAX)
		reader->by_index = true;
}

/* ---- so many keys at most ---- */

typedef struct Ahead
{
	JobRun	   *run;
	Datum	   *keys;
} Ahead;

static bool
receive_ahead(TupleTableSlot *slot, void *arg)
{
	Ahead	   *ahead = arg;
	const JobKeyType *types = ahead->run->reader->key_types;

	slot_getallattrs(slot);
	ahead->keys = palloc(sizeof(Datum) * ahead->run->plan->keys_count);
	for (int i = 0; i < ahead->run->plan->keys_count; i++)
		ahead->keys[i] = datumCopy(slot->tts_values[3 + i], types[i].by_value, types[i].length);
	return true;
}

/* The key that is keys_ahead further; NULL: there are not so many before the end. */
static Datum *
find_ahead(JobRun *run, const Datum *behind)
{
	JobReader  *reader = run->reader;
	JobStatement *statement = &reader->statements[JOB_READ_AHEAD + (behind != NULL)];
	Ahead		ahead = {.run = run};

	if (statement->plan == NULL)
		prepare_read(run, statement, behind != NULL, reader->high != NULL, true);
	job_statement_query(statement, parameters(run, behind, reader->high, reader->keys_ahead - 1), JOB_PLANNING_BY_INDEX,
						NULL, receive_ahead, &ahead);
	return ahead.keys;
}

static void
adapt(JobReader *reader, const Reading *reading, double seconds)
{
	if (seconds > AHEAD_SLOW)
		reader->keys_ahead /= 2;
	else if (reading->filling.full)
		reader->keys_ahead = Max(reader->keys_ahead / 2, (int64) reading->filling.rows_max * 4);
	else if (seconds < AHEAD_FAST)
		reader->keys_ahead *= 2;
	reader->keys_ahead = Min(Max(reader->keys_ahead, AHEAD_MIN), AHEAD_MAX);
}

/* Returns the key up to which all was read, unless the chunk is full; NULL: the end. */
static Datum *
read_bounded(JobRun *run, Reading *reading, const Datum *behind)
{
	instr_time	begun;
	instr_time	ended;
	Datum	   *ahead;

	INSTR_TIME_SET_CURRENT(begun);
	ahead = find_ahead(run, behind);
	reading->bounded = true;
	read_up_to(run, reading, behind, ahead != NULL ? ahead : run->reader->high);
	INSTR_TIME_SET_CURRENT(ended);
	INSTR_TIME_SUBTRACT(ended, begun);
	adapt(run->reader, reading, INSTR_TIME_GET_DOUBLE(ended));
	return ahead;
}

static void
read_rows(JobRun *run, JobChunk *chunk, int rows_max)
{
	JobReader  *reader = run->reader;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer job read", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const Datum *behind = run->position != NULL ? run->position : reader->low;
	Reading		reading = {.filling = {.run = run,.chunk = chunk,.rows_max = rows_max}};
	Datum	   *ahead = NULL;

	job_spi_begin();
	if (reader->keys_ahead == 0)
		read_up_to(run, &reading, behind, reader->high);
	if (reading.refused)
		reader->keys_ahead = AHEAD_FIRST;
	if (reader->keys_ahead > 0)
		ahead = read_bounded(run, &reading, behind);
	job_spi_end();
	chunk->last = !reading.filling.full && ahead == NULL;
	if (reading.filling.full)
		job_reader_move(run, chunk->rows[chunk->rows_count - 1].keys);
	else if (ahead != NULL)
		job_reader_move(run, ahead);
	else if (chunk->rows_count > 0)
		job_reader_move(run, chunk->rows[chunk->rows_count - 1].keys);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
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
	JobStatement *statement = &run->reader->statements[JOB_READ_ITEMS];
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
	job_statement_query(statement, NULL, JOB_PLANNING_BY_ROW, NULL, receive_item, &filling);
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
