/*
 * read_input.c
 *	  Rows of a query, which are put into infer.job_input first.
 *
 * The query runs once, in the order of its keys, so that equal keys are neighbours and are found in passing,
 * and so that a row's number is found by its key as in a sorted array.  Numbers are from 1, without gaps.
 * Values are texts, from output functions to input functions, a domain as its base type.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../../catalog/internal.h"
#include "rows.h"

#define BATCH_ROWS	256				/* rows that are inserted together */
#define BATCH_BYTES	(1 << 20)

enum								/* columns of infer.job_input */
{
	Anum_input_job = 1,
	Anum_input_number,
	Anum_input_key,
	Anum_input_input,
	Natts_input = Anum_input_input
};

/* ---- from the query into the table ---- */

typedef struct Materialising
{
	JobRun	   *run;
	Relation	table;
	CatalogIndexState indexes;
	FmgrInfo   *functions;			/* output functions of keys and inputs */
	MemoryContext context;			/* of a batch */
	TupleTableSlot *slots[BATCH_ROWS];
	int			slots_count;
	Size		bytes;
	int64		rows;
	MemoryContext last_contexts[2];
	Datum	   *last;				/* the key before; NULL: none */
} Materialising;

static void
insert_batch(Materialising *m)
{
	if (m->slots_count > 0)
		CatalogTuplesMultiInsertWithInfo(m->table, m->slots, m->slots_count, m->indexes);
	for (int i = 0; i < m->slots_count; i++)
		ExecClearTuple(m->slots[i]);
	m->slots_count = 0;
	m->bytes = 0;
	MemoryContextReset(m->context);
}

static void
check_key(Materialising *m, TupleTableSlot *slot)
{
	const JobPlan *plan = m->run->plan;
	const JobKeyType *types = m->run->reader->key_types;
	MemoryContext old;

	for (int i = 0; i < plan->keys_count; i++)
		if (slot->tts_isnull[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("key column \"%s\" is NULL in a row of the query", plan->keys[i].name),
					 errhint("Leave such rows out: WHERE %s IS NOT NULL.", quote_identifier(plan->keys[i].name))));
	if (m->last != NULL && job_keys_compare(types, plan->keys_count, m->last, slot->tts_values) == 0)
	{
		StringInfoData names;
		StringInfoData texts;
		JobKey		key;

		initStringInfo(&names);
		initStringInfo(&texts);
		job_key_make(plan, slot->tts_values, &key);
		for (int i = 0; i < plan->keys_count; i++)
		{
			appendStringInfo(&names, "%s%s", i == 0 ? "" : ", ", quote_identifier(plan->keys[i].name));
			appendStringInfo(&texts, "%s%s", i == 0 ? "" : ", ", key.texts[i]);
		}
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("the query has several rows with the same key"),
				 errdetail("Key (%s)=(%s) is not the only one.", names.data, texts.data),
				 errhint("Name more columns as key, or have the query return one row for each key.")));
	}
	MemoryContextReset(m->last_contexts[m->rows % 2]);
	old = MemoryContextSwitchTo(m->last_contexts[m->rows % 2]);
	m->last = palloc(sizeof(Datum) * plan->keys_count);
	for (int i = 0; i < plan->keys_count; i++)
		m->last[i] = datumCopy(slot->tts_values[i], types[i].by_value, types[i].length);
	MemoryContextSwitchTo(old);
}

/* Texts of some of a slot's columns, from first on. */
static Datum
texts_of(Materialising *m, TupleTableSlot *slot, int first, int count)
{
	Datum	   *texts = palloc(sizeof(Datum) * Max(count, 1));
	int			dimensions[1] = {count};
	int			lower_bounds[1] = {1};
	ArrayType  *array;

	for (int i = 0; i < count; i++)
		if (!slot->tts_isnull[first + i])
			texts[i] = CStringGetTextDatum(OutputFunctionCall(&m->functions[first + i], slot->tts_values[first + i]));
	array = construct_md_array(texts, &slot->tts_isnull[first], 1, dimensions, lower_bounds, TEXTOID, -1, false,
							   TYPALIGN_INT);
	m->bytes += VARSIZE(array);
	return PointerGetDatum(array);
}

static bool
receive_input(TupleTableSlot *slot, void *arg)
{
	Materialising *m = arg;
	const JobPlan *plan = m->run->plan;
	MemoryContext old;
	TupleTableSlot *to = m->slots[m->slots_count];

	slot_getallattrs(slot);
	check_key(m, slot);
	old = MemoryContextSwitchTo(m->context);
	to->tts_values[Anum_input_job - 1] = Int64GetDatum(m->run->record->job);
	to->tts_values[Anum_input_number - 1] = Int64GetDatum(++m->rows);
	to->tts_values[Anum_input_key - 1] = texts_of(m, slot, 0, plan->keys_count);
	to->tts_values[Anum_input_input - 1] = texts_of(m, slot, plan->keys_count, plan->inputs_count);
	memset(to->tts_isnull, 0, sizeof(bool) * Natts_input);
	ExecStoreVirtualTuple(to);
	MemoryContextSwitchTo(old);
	if (++m->slots_count == BATCH_ROWS || m->bytes >= BATCH_BYTES)
		insert_batch(m);
	return true;
}

static FmgrInfo *
output_functions(const JobPlan *plan)
{
	FmgrInfo   *functions = palloc(sizeof(FmgrInfo) * (plan->keys_count + plan->inputs_count));

	for (int i = 0; i < plan->keys_count + plan->inputs_count; i++)
	{
		Oid			type = i < plan->keys_count ? plan->keys[i].type : plan->inputs[i - plan->keys_count].type;
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(getBaseType(type), &function, &is_varlena);
		fmgr_info(function, &functions[i]);
	}
	return functions;
}

static char *
query_sql(JobRun *run)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT * FROM (%s\n) AS infer_job_source", run->plan->from_sql);
	for (int i = 0; i < run->plan->keys_count; i++)
		appendStringInfo(&sql, "%s%d USING %s", i == 0 ? " ORDER BY " : ", ", i + 1, run->reader->key_types[i].less);
	return sql.data;
}

int64
job_reader_materialise(JobRun *run)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer job input", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Materialising m = {.run = run};
	JobStatement statement = {0};

	m.table = table_open(infer_relation_oid("job_input"), RowExclusiveLock);
	m.indexes = CatalogOpenIndexes(m.table);
	m.functions = output_functions(run->plan);
	m.context = AllocSetContextCreate(context, "infer job input batch", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < lengthof(m.last_contexts); i++)
		m.last_contexts[i] = AllocSetContextCreate(context, "infer job input key", ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < BATCH_ROWS; i++)
		m.slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(m.table), &TTSOpsHeapTuple);

	job_spi_begin();
	job_statement_prepare(&statement, query_sql(run), 0, NULL, NULL, CURSOR_OPT_NO_SCROLL);
	job_statement_query(&statement, NULL, JOB_PLANNING_FREE, NULL, receive_input, &m);
	insert_batch(&m);
	SPI_freeplan(statement.plan);
	job_spi_end();

	for (int i = 0; i < BATCH_ROWS; i++)
		ExecDropSingleTupleTableSlot(m.slots[i]);
	CatalogCloseIndexes(m.indexes);
	table_close(m.table, NoLock);
	CommandCounterIncrement();
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return m.rows;
}

/* ---- scans of the table ---- */

typedef struct InputScan
{
	Relation	table;
	Relation	index;
	Snapshot	snapshot;
	SysScanDesc scan;
	Datum		values[Natts_input];
} InputScan;

/* Rows above one number, up to another. */
static void
begin(InputScan *scan, int64 job, int64 after, int64 last)
{
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], Anum_input_job, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job));
	ScanKeyInit(&keys[1], Anum_input_number, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(after));
	ScanKeyInit(&keys[2], Anum_input_number, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(last));
	scan->table = table_open(infer_relation_oid("job_input"), AccessShareLock);
	scan->index = index_open(infer_relation_oid("job_input_pkey"), AccessShareLock);
	scan->snapshot = infer_latest_snapshot();
	scan->scan = systable_beginscan_ordered(scan->table, scan->index, scan->snapshot, 3, keys);
}

static bool
next(InputScan *scan, ScanDirection direction)
{
	HeapTuple	tuple = systable_getnext_ordered(scan->scan, direction);
	bool		nulls[Natts_input];

	if (!HeapTupleIsValid(tuple))
		return false;
	heap_deform_tuple(tuple, RelationGetDescr(scan->table), scan->values, nulls);
	return true;
}

static int64
number_of(const InputScan *scan)
{
	return DatumGetInt64(scan->values[Anum_input_number - 1]);
}

static void
end(InputScan *scan)
{
	systable_endscan_ordered(scan->scan);
	UnregisterSnapshot(scan->snapshot);
	index_close(scan->index, AccessShareLock);
	table_close(scan->table, AccessShareLock);
}

/* ---- values ---- */

static void
make_functions(JobRun *run)
{
	JobReader  *reader = run->reader;
	const JobPlan *plan = run->plan;
	int			count = plan->keys_count + plan->inputs_count;

	if (reader->functions != NULL)
		return;
	reader->parameters = MemoryContextAlloc(run->context, sizeof(Oid) * count);
	reader->typmods = MemoryContextAlloc(run->context, sizeof(int32) * count);
	reader->functions = MemoryContextAlloc(run->context, sizeof(FmgrInfo) * count);
	for (int i = 0; i < count; i++)
	{
		const JobColumn *column = i < plan->keys_count ? &plan->keys[i] : &plan->inputs[i - plan->keys_count];
		Oid			function;

		reader->typmods[i] = column->typmod;
		getTypeInputInfo(getBaseTypeAndTypmod(column->type, &reader->typmods[i]), &function, &reader->parameters[i]);
		fmgr_info_cxt(function, &reader->functions[i], run->context);
	}
}

/* Values of columns first, first + 1, ... from texts, in the current memory context; their bytes. */
static Size
values_of(JobReader *reader, Datum array, int first, int count, Datum *values, bool *nulls)
{
	ArrayType  *texts = DatumGetArrayTypeP(array);
	Datum	   *elements;
	bool	   *element_nulls;
	int			found;

	deconstruct_array(texts, TEXTOID, -1, false, TYPALIGN_INT, &elements, &element_nulls, &found);
	if (found != count)
		elog(ERROR, "a row of infer.job_input has %d values instead of %d", found, count);
	for (int i = 0; i < count; i++)
	{
		char	   *string = element_nulls[i] ? NULL : TextDatumGetCString(elements[i]);

		if (nulls != NULL)
			nulls[i] = element_nulls[i];
		values[i] = string == NULL ? (Datum) 0 :
			InputFunctionCall(&reader->functions[first + i], string, reader->parameters[first + i], reader->typmods[first + i]);
		if (string != NULL)
			pfree(string);
	}
	pfree(elements);
	pfree(element_nulls);
	return VARSIZE(texts);
}

/* ---- numbers of keys ---- */

static int64
last_number(JobRun *run)
{
	InputScan	scan;
	int64		last;

	begin(&scan, run->record->job, 0, PG_INT64_MAX);
	last = next(&scan, BackwardScanDirection) ? number_of(&scan) : 0;
	end(&scan);
	return last;
}

/* The key of a number; NULL: there is no such row. */
static Datum *
key_of_number(JobRun *run, int64 number)
{
	InputScan	scan;
	Datum	   *key = NULL;

	make_functions(run);
	begin(&scan, run->record->job, number - 1, number);
	if (next(&scan, ForwardScanDirection))
	{
		key = palloc(sizeof(Datum) * run->plan->keys_count);
		(void) values_of(run->reader, scan.values[Anum_input_key - 1], 0, run->plan->keys_count, key, NULL);
	}
	end(&scan);
	return key;
}

/* The last number whose key is not above this one, 0: there is none.  *equal: it is this one. */
static int64
number_of_key(JobRun *run, const Datum *key, int64 last, bool *equal)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer job input key", ALLOCSET_SMALL_SIZES);
	int64		low = 0;			/* not above */
	int64		high = last + 1;	/* above */

	*equal = false;
	while (high - low > 1)
	{
		int64		middle = low + (high - low) / 2;
		MemoryContext old = MemoryContextSwitchTo(context);
		Datum	   *there = key_of_number(run, middle);
		int			order = there == NULL ? 1 : job_keys_compare(run->reader->key_types, run->plan->keys_count, there, key);

		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
		if (order <= 0)
			low = middle;
		else
			high = middle;
		*equal |= order == 0;
	}
	MemoryContextDelete(context);
	return low;
}

/* ---- the reader ---- */

static int64
count_rows(JobRun *run, bool *estimated)
{
	*estimated = false;
	return last_number(run);
}

static JobKey *
find_ranges(JobRun *run, int shards, int *count)
{
	JobKey	   *bounds = palloc0(sizeof(JobKey) * Max(shards, 1));
	int64		rows = last_number(run);

	*count = 0;
	for (int i = 1; i < shards && rows >= shards; i++)
		job_key_make(run->plan, key_of_number(run, rows * i / shards), &bounds[(*count)++]);
	return bounds;
}

static void
find_place(JobRun *run)
{
	JobReader  *reader = run->reader;
	const Datum *position = run->position != NULL ? run->position : reader->low;
	int64		last;
	bool		equal;

	if (reader->placed)
		return;
	last = last_number(run);
	reader->number = position == NULL ? 0 : number_of_key(run, position, last, &equal);
	reader->number_high = reader->high == NULL ? last : number_of_key(run, reader->high, last, &equal);
	reader->placed = true;
}

/* A row's values from a scan, in the chunk's context. */
static void
fill(JobRun *run, JobChunk *chunk, JobRow *row, InputScan *scan, Size *bytes)
{
	const JobPlan *plan = run->plan;
	MemoryContext old = MemoryContextSwitchTo(chunk->context);

	*bytes += values_of(run->reader, scan->values[Anum_input_key - 1], 0, plan->keys_count, row->keys, NULL);
	*bytes += values_of(run->reader, scan->values[Anum_input_input - 1], plan->keys_count, plan->inputs_count, row->inputs,
						row->inputs_null);
	row->number = number_of(scan);
	row->outcome = JOB_ROW_READ;
	MemoryContextSwitchTo(old);
}

static void
read_rows(JobRun *run, JobChunk *chunk, int rows_max)
{
	JobReader  *reader = run->reader;
	JobFilling	filling = {.run = run,.chunk = chunk,.rows_max = rows_max};
	InputScan	scan;

	find_place(run);
	make_functions(run);
	begin(&scan, run->record->job, reader->number, reader->number_high);
	while (next(&scan, ForwardScanDirection))
	{
		JobRow	   *row = job_filling_row(&filling);

		CHECK_FOR_INTERRUPTS();
		if (row == NULL)
			break;
		fill(run, chunk, row, &scan, &filling.bytes);
		reader->number = row->number;
	}
	end(&scan);
	chunk->last = !filling.full;
	if (chunk->rows_count > 0)
		job_reader_move(run, chunk->rows[chunk->rows_count - 1].keys);
}

static void
read_items(JobRun *run, JobChunk *chunk)
{
	int64		last = last_number(run);

	make_functions(run);
	for (int i = 0; i < chunk->rows_count; i++)
	{
		JobRow	   *row = &chunk->rows[i];
		bool		equal;
		int64		number = number_of_key(run, row->keys, last, &equal);
		InputScan	scan;
		Size		bytes = 0;

		CHECK_FOR_INTERRUPTS();
		if (!equal)
			continue;
		begin(&scan, run->record->job, number - 1, number);
		if (next(&scan, ForwardScanDirection))
			fill(run, chunk, row, &scan, &bytes);
		end(&scan);
	}
}

static void
read_back(JobRun *run, const JobRow *row)
{
	run->reader->number = row->number;
}

const JobReaderOps job_reader_input_ops = {
	.count = count_rows,
	.ranges = find_ranges,
	.read = read_rows,
	.read_items = read_items,
	.read_back = read_back,
};
