/*
 * sample.c
 *	  How many rows a scan has, and where ranges of them end.
 *
 * Up to COUNT_MAX rows by the planner's estimate are counted; more are estimated.  Ranges come from keys
 * in order: all of them where they were few enough to count, else those of blocks that are taken at random.
 *
 * A condition that fails for a row is that row's error when it is read.  Here it only keeps the rows from being
 * counted, and the ranges are those of the whole table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/rel.h"

#include "rows.h"

#define COUNT_MAX		1000000
#define SAMPLE_ALL		100000			/* rows: so many are sorted rather than sampled */
#define SAMPLE_BLOCKS	300
#define SAMPLE_OFFSETS	64			/* rows of a block */
#define SAMPLE_MIN		20			/* keys for a range: fewer are no sample */

/* ---- how many ---- */

static double
estimate(const char *sql)
{
	MemoryContext context = CurrentMemoryContext;
	SPIPlanPtr	plan = SPI_prepare(sql, 0, NULL);
	CachedPlan *cached;
	double		rows;

	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	cached = SPI_plan_get_cached_plan(plan);
	rows = linitial_node(PlannedStmt, cached->stmt_list)->planTree->plan_rows;
	ReleaseCachedPlan(cached, NULL);
	SPI_freeplan(plan);
	MemoryContextSwitchTo(context);
	return rows;
}

static int64
get_number(const char *sql)
{
	bool		null;

	job_spi_execute(sql);
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
}

/* Runs a step that evaluates the condition; false: that failed for a row. */
static bool
is_done(void (*step) (void *arg), void *arg)
{
	ErrorData  *error = job_attempt(step, arg);

	if (error != NULL && !job_error_may_be_of_row(error->sqlerrcode))
		ReThrowError(error);
	return error == NULL;
}

static bool
receive_null(TupleTableSlot *slot, void *arg)
{
	*(bool *) arg = true;
	return false;
}

typedef struct Nulls
{
	const char *from;
	const char *key;
	bool		found;
} Nulls;

/* By the index, so that the condition is evaluated for rows without a key only. */
static void
look_for_null(void *arg)
{
	Nulls	   *nulls = arg;
	JobStatement statement = {0};

	job_spi_begin();
	job_statement_prepare(&statement, psprintf("SELECT%s\n AND %s IS NULL LIMIT 1", nulls->from, nulls->key), 0, NULL,
						  NULL, CURSOR_OPT_NO_SCROLL);
	job_statement_query(&statement, NULL, JOB_PLANNING_BY_INDEX, NULL, receive_null, &nulls->found);
	SPI_freeplan(statement.plan);
	job_spi_end();
}

/*
 * A unique index lets NULLs pass, and a read by key passes over them: they are an error rather than left out
 * in silence.  So are those for which the condition fails, which could be told of by no key.
 */
static void
check_keys(JobRun *run, const char *from)
{
	const JobPlan *plan = run->plan;

	for (int i = 0; i < plan->keys_count; i++)
	{
		Nulls		nulls = {.from = from,.key = plan->keys[i].sql};

		if (!is_done(look_for_null, &nulls))
		{
			nulls.from = job_sql_from_all(plan);
			look_for_null(&nulls);
		}
		if (nulls.found)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("key column %s is NULL in some rows", nulls.key),
					 errhint("Leave these rows out by a condition: %s IS NOT NULL.", nulls.key)));
	}
}

typedef struct Count
{
	const char *from;
	int64		rows;
} Count;

static void
count_rows(void *arg)
{
	Count	   *count = arg;

	job_spi_begin();
	count->rows = get_number(psprintf("SELECT pg_catalog.count(*) FROM (SELECT%s\n LIMIT %d) AS infer_job_source",
									  count->from, 2 * COUNT_MAX));
	job_spi_end();
}

int64
job_scan_count(JobRun *run, bool *estimated)
{
	MemoryContext old = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(old, "infer job count", ALLOCSET_SMALL_SIZES);
	double		guess;
	Count		count = {0};

	job_spi_begin();
	MemoryContextSwitchTo(context);
	count.from = job_sql_from(run->plan);
	check_keys(run, count.from);
	guess = estimate(psprintf("SELECT%s", count.from));
	*estimated = guess > COUNT_MAX || !is_done(count_rows, &count);
	if (*estimated)
		count.rows = (int64) guess;
	else
		*estimated = count.rows >= 2 * COUNT_MAX;
	MemoryContextSwitchTo(old);
	job_spi_end();
	MemoryContextDelete(context);
	return count.rows;
}

/* ---- ranges ---- */

typedef struct Sample
{
	JobRun	   *run;
	MemoryContext context;
	char	   *from;
	Datum	  **keys;
	int			count;
	int			space;
} Sample;

static bool
receive_key(TupleTableSlot *slot, void *arg)
{
	Sample	   *sample = arg;
	int			keys_count = sample->run->plan->keys_count;
	const JobKeyType *types = sample->run->reader->key_types;
	MemoryContext old = MemoryContextSwitchTo(sample->context);
	Datum	   *keys = palloc(sizeof(Datum) * keys_count);

	slot_getallattrs(slot);
	for (int i = 0; i < keys_count; i++)
		keys[i] = datumCopy(slot->tts_values[i], types[i].by_value, types[i].length);
	if (sample->count == sample->space)
		sample->keys = repalloc_huge(sample->keys, sizeof(Datum *) * (sample->space *= 2));
	sample->keys[sample->count++] = keys;
	MemoryContextSwitchTo(old);
	return true;
}

static int
compare_samples(const void *a, const void *b, void *arg)
{
	Sample	   *sample = arg;

	return job_keys_compare(sample->run->reader->key_types, sample->run->plan->keys_count,
							*(Datum *const *) a, *(Datum *const *) b);
}

/* The blocks of the largest part of the table. */
static BlockNumber
blocks_of(Oid table)
{
	List	   *parts = find_all_inheritors(table, AccessShareLock, NULL);
	BlockNumber blocks = 0;
	ListCell   *cell;

	foreach(cell, parts)
	{
		Relation	part = table_open(lfirst_oid(cell), NoLock);

		if (RELKIND_HAS_STORAGE(part->rd_rel->relkind))
			blocks = Max(blocks, RelationGetNumberOfBlocks(part));
		table_close(part, NoLock);
	}
	return blocks;
}

/* Places of rows in blocks taken at random. */
static ArrayType *
places(Oid table)
{
	BlockNumber blocks = blocks_of(table);
	int			blocks_count = Min(blocks, SAMPLE_BLOCKS);
	Datum	   *tids = palloc(sizeof(Datum) * Max(blocks_count, 1) * SAMPLE_OFFSETS);
	int			count = 0;
	pg_prng_state state;

	pg_prng_seed(&state, table);
	for (int i = 0; i < blocks_count; i++)
	{
		/* one of each stretch of as many blocks */
		BlockNumber first = (uint64) blocks * i / blocks_count;
		BlockNumber end = (uint64) blocks * (i + 1) / blocks_count;
		BlockNumber block = first + pg_prng_uint64_range(&state, 0, end - first - 1);

		for (int offset = 1; offset <= SAMPLE_OFFSETS; offset++)
		{
			ItemPointer tid = palloc(sizeof(ItemPointerData));

			ItemPointerSet(tid, block, offset);
			tids[count++] = PointerGetDatum(tid);
		}
	}
	return construct_array(tids, count, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT);
}

static void
take_sample_of(void *arg)
{
	Sample	   *sample = arg;
	const JobPlan *plan = sample->run->plan;
	JobStatement statement = {0};
	Oid			type = TIDARRAYOID;
	Datum		tids;
	bool		estimated;
	StringInfoData sql;

	job_spi_begin();
	sample->count = 0;
	estimated = estimate(psprintf("SELECT%s", sample->from)) > SAMPLE_ALL;
	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	for (int i = 0; i < plan->keys_count; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? "" : ", ", plan->keys[i].sql);
	appendStringInfoString(&sql, sample->from);
	if (estimated)
		appendStringInfoString(&sql, "\n AND ctid OPERATOR(pg_catalog.=) ANY ($1)");
	job_statement_prepare(&statement, sql.data, estimated ? 1 : 0, &type, NULL, CURSOR_OPT_CUSTOM_PLAN);
	tids = estimated ? PointerGetDatum(places(plan->table)) : (Datum) 0;
	job_statement_query(&statement, estimated ? &tids : NULL, JOB_PLANNING_FREE, NULL, receive_key, sample);
	SPI_freeplan(statement.plan);
	job_spi_end();
	qsort_arg(sample->keys, sample->count, sizeof(Datum *), compare_samples, sample);
}

static void
take_sample(Sample *sample)
{
	sample->from = job_sql_from(sample->run->plan);
	if (is_done(take_sample_of, sample))
		return;
	sample->from = job_sql_from_all(sample->run->plan);
	take_sample_of(sample);
}

JobKey *
job_scan_ranges(JobRun *run, int shards, int *count)
{
	JobKey	   *bounds = palloc0(sizeof(JobKey) * Max(shards, 1));
	MemoryContext context = CurrentMemoryContext;
	Sample		sample = {.run = run,.space = 1024};
	const Datum *last = NULL;

	*count = 0;
	if (shards <= 1)
		return bounds;
	sample.context = AllocSetContextCreate(CurrentMemoryContext, "infer job sample", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(sample.context);
	sample.keys = palloc(sizeof(Datum *) * sample.space);
	take_sample(&sample);
	MemoryContextSwitchTo(context);
	if (sample.count >= shards * SAMPLE_MIN)
		for (int i = 1; i < shards; i++)
		{
			const Datum *bound = sample.keys[(int64) sample.count * i / shards];

			if (last == NULL || job_keys_compare(run->reader->key_types, run->plan->keys_count, last, bound) != 0)
				job_key_make(run->plan, last = bound, &bounds[(*count)++]);
		}
	MemoryContextDelete(sample.context);
	return bounds;
}
