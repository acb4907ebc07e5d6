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
 * fraction of a second: the key that is so many further is looked up first.  That is also how rows are found that
 * cannot be read, by an error of the condition or of an input.
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

#define PLACE_COLUMNS	3			/* tableoid, ctid, xmin */

/* The version of a row, from the slot's columns first, first + 1 ... */
static void
fill_place(JobFilling *filling, JobRow *row, TupleTableSlot *slot, int first)
{
	const Datum *values = slot->tts_values + first;

	row->tableoid = DatumGetObjectId(values[0]);
	row->tid = *(ItemPointer) DatumGetPointer(values[1]);
	row->xmin = DatumGetTransactionId(values[2]);
	row->file = file_of(filling, row->tableoid);
	row->horizon = GetActiveSnapshot()->xmin;
}

/* Likewise its key and its inputs. */
static void
fill(JobFilling *filling, JobRow *row, TupleTableSlot *slot, int first, bool with_keys)
{
	const JobPlan *plan = filling->run->plan;
	const JobKeyType *types = filling->run->reader->key_types;
	const Datum *values = slot->tts_values + first + PLACE_COLUMNS;
	const bool *nulls = slot->tts_isnull + first + PLACE_COLUMNS;

	fill_place(filling, row, slot, first);
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
	JobRow	   *row;
	bool		found;
} Ahead;

static bool
receive_ahead(TupleTableSlot *slot, void *arg)
{
	Ahead	   *ahead = arg;
	JobFilling	filling = {.run = ahead->run};
	const JobKeyType *types = ahead->run->reader->key_types;

	slot_getallattrs(slot);
	fill_place(&filling, ahead->row, slot, 0);
	ahead->row->keys = palloc(sizeof(Datum) * ahead->run->plan->keys_count);
	for (int i = 0; i < ahead->run->plan->keys_count; i++)
		ahead->row->keys[i] = datumCopy(slot->tts_values[PLACE_COLUMNS + i], types[i].by_value, types[i].length);
	ahead->found = true;
	return true;
}

/* The row that is so many further, whatever the condition; false: there are not so many before the end. */
static bool
find_ahead(JobRun *run, const Datum *behind, int64 keys, JobRow *row)
{
	JobReader  *reader = run->reader;
	JobStatement *statement = &reader->statements[JOB_READ_AHEAD + (behind != NULL)];
	Ahead		ahead = {.run = run,.row = row};

	if (statement->plan == NULL)
		prepare_read(run, statement, behind != NULL, reader->high != NULL, true);
	job_statement_query(statement, parameters(run, behind, reader->high, keys - 1), JOB_PLANNING_BY_INDEX, NULL,
						receive_ahead, &ahead);
	return ahead.found;
}

static const Datum *
behind_what(const JobRun *run)
{
	return run->position != NULL ? run->position : run->reader->low;
}

bool
job_scan_next(JobRun *run, JobRow *row)
{
	bool		found;

	job_spi_begin();
	found = find_ahead(run, behind_what(run), 1, row);
	job_spi_end();
	return found;
}

/* 0: any number */
static int64
keys_at_most(const JobReader *reader)
{
	if (reader->keys_ahead == 0 || reader->keys_careful == 0)
		return Max(reader->keys_ahead, reader->keys_careful);
	return Min(reader->keys_ahead, reader->keys_careful);
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
read_bounded(JobRun *run, Reading *reading, const Datum *behind, int64 keys)
{
	instr_time	begun;
	instr_time	ended;
	JobRow		ahead = {.keys = NULL};

	INSTR_TIME_SET_CURRENT(begun);
	(void) find_ahead(run, behind, keys, &ahead);
	reading->bounded = true;
	read_up_to(run, reading, behind, ahead.keys != NULL ? ahead.keys : run->reader->high);
	INSTR_TIME_SET_CURRENT(ended);
	INSTR_TIME_SUBTRACT(ended, begun);
	if (keys == run->reader->keys_ahead)
		adapt(run->reader, reading, INSTR_TIME_GET_DOUBLE(ended));
	return ahead.keys;
}

static void
read_rows(JobRun *run, JobChunk *chunk, int rows_max)
{
	JobReader  *reader = run->reader;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer job read", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const Datum *behind = behind_what(run);
	Reading		reading = {.filling = {.run = run,.chunk = chunk,.rows_max = rows_max}};
	Datum	   *ahead = NULL;

	job_spi_begin();
	if (keys_at_most(reader) == 0)
		read_up_to(run, &reading, behind, reader->high);
	if (reading.refused)
		reader->keys_ahead = AHEAD_FIRST;
	if (keys_at_most(reader) > 0)
		ahead = read_bounded(run, &reading, behind, keys_at_most(reader));
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

/* bare: the places alone, whatever the condition. */
static void
prepare_items(JobRun *run, JobStatement *statement, bool bare)
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
	if (!bare)
		job_sql_columns(&sql, plan->inputs_count, plan->inputs);
	appendStringInfoString(&sql, bare ? job_sql_from_all(plan) : job_sql_from(plan));
	job_sql_equal_given(&sql, plan->keys_count, plan->keys, "", key_types, 2, false);
	appendStringInfoString(&sql, ") AS infer_job_source");
	job_statement_prepare(statement, sql.data, 0, NULL, columns, CURSOR_OPT_NO_SCROLL);
}

static void
read_by_keys(JobRun *run, int number, const JobRow *rows, int rows_count, JobReceive receive, void *arg)
{
	JobStatement *statement = &run->reader->statements[number];
	int			keys_count = run->plan->keys_count;
	Datum	   *values = palloc(sizeof(Datum) * (keys_count + 1));
	bool	   *nulls = palloc0(sizeof(bool) * (keys_count + 1));
	Tuplestorestate *given;

	job_spi_begin();
	if (statement->plan == NULL)
		prepare_items(run, statement, number == JOB_READ_PLACE);
	given = tuplestore_begin_heap(false, false, work_mem);
	for (int i = 0; i < rows_count; i++)
	{
		values[0] = Int32GetDatum(i);
		memcpy(values + 1, rows[i].keys, sizeof(Datum) * keys_count);
		tuplestore_putvalues(given, statement->given, values, nulls);
	}
	job_statement_give(statement, given);
	job_statement_plan(statement, JOB_PLANNING_BY_ROW);
	job_statement_query(statement, NULL, JOB_PLANNING_BY_ROW, NULL, receive, arg);
	job_statement_take();
	tuplestore_end(given);
	job_spi_end();
}

static void
read_items(JobRun *run, JobChunk *chunk)
{
	JobFilling	filling = {.run = run,.chunk = chunk};

	read_by_keys(run, JOB_READ_ITEMS, chunk->rows, chunk->rows_count, receive_item, &filling);
}

static bool
receive_place(TupleTableSlot *slot, void *arg)
{
	Ahead	   *place = arg;
	JobFilling	filling = {.run = place->run};

	slot_getallattrs(slot);
	fill_place(&filling, place->row, slot, 1);
	place->found = true;
	return true;
}

bool
job_scan_place(JobRun *run, JobRow *row)
{
	Ahead		place = {.run = run,.row = row};

	read_by_keys(run, JOB_READ_PLACE, row, 1, receive_place, &place);
	return place.found;
}

const JobReaderOps job_reader_scan_ops = {
	.count = job_scan_count,
	.ranges = job_scan_ranges,
	.read = read_rows,
	.read_items = read_items,
};
