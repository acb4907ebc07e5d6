/*
 * write_lock.c
 *	  What became of rows since they were read, and locks on them.
 *
 * A row is known by the place and the inserting transaction of its version: as long as that version is the
 * latest, nothing about the row has changed.  A table that has been rewritten (VACUUM FULL, CLUSTER, TRUNCATE, some
 * ALTERs) has other rows in the same places, of the same transactions: its file is compared as well.  A version
 * that was frozen when it was read has lost its transaction; what is frozen there now is the same one if it was
 * inserted before the read.  All that is told without SQL, row by row, by looking there.  For an
 * UPDATE the row is locked, too; or, as that costs a good part of the UPDATE itself, taken for free where
 * nobody has written a lock into it, if the statement that follows finds out who comes in between.  Rows that
 * have another version by now are looked up by their key, together, and their inputs compared with those that
 * were read.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "rows.h"

/* ---- by place ---- */

typedef struct Place
{
	Oid			tableoid;
	Relation	table;				/* NULL: none is open */
	TupleTableSlot *slot;			/* keeps the row's page as it is, while */
	TupleTableSlot *locked;			/* takes what is locked */
	LockTupleMode mode;
	bool		is_heap;
	BlockNumber blocks;				/* of a heap: VACUUM may have cut its end off */
	List	   *parts;				/* that belong to the plan's table */
} Place;

static void
leave(Place *place)
{
	if (place->table == NULL)
		return;
	ExecDropSingleTupleTableSlot(place->slot);
	ExecDropSingleTupleTableSlot(place->locked);
	table_close(place->table, NoLock);
	place->table = NULL;
}

/* The lock that an UPDATE of these columns takes. */
static LockTupleMode
mode_for(Relation table, const JobPlan *plan)
{
	Bitmapset  *keys = RelationGetIndexAttrBitmap(table, INDEX_ATTR_BITMAP_KEY);
	const JobColumn *columns[] = {&plan->output, plan->version_column};
	bool		is_key = false;

	for (int i = 0; i < lengthof(columns); i++)
		if (columns[i] != NULL)
			is_key |= bms_is_member(get_attnum(RelationGetRelid(table), columns[i]->name) -
									FirstLowInvalidHeapAttributeNumber, keys);
	bms_free(keys);
	return is_key ? LockTupleExclusive : LockTupleNoKeyExclusive;
}

/* The plan's table, or a part of it that has not been detached. */
static bool
belongs(Place *place, const JobPlan *plan, Oid tableoid)
{
	if (tableoid == plan->table || list_member_oid(place->parts, tableoid))
		return true;
	if (!place->table->rd_rel->relispartition || !list_member_oid(get_partition_ancestors(tableoid), plan->table))
		return false;
	place->parts = lappend_oid(place->parts, tableoid);
	return true;
}

/* false: there is no such table any more, or it is not the plan's. */
static bool
go(Place *place, const JobPlan *plan, Oid tableoid, JobLook how)
{
	if (place->table != NULL && place->tableoid == tableoid)
		return true;
	leave(place);
	job_table_lock(tableoid, how == JOB_LOOK_ONLY ? AccessShareLock : RowExclusiveLock);
	place->table = try_table_open(tableoid, NoLock);
	if (place->table == NULL)
		return false;
	if (!belongs(place, plan, tableoid))
	{
		table_close(place->table, NoLock);
		place->table = NULL;
		return false;
	}
	place->tableoid = tableoid;
	place->slot = table_slot_create(place->table, NULL);
	place->locked = table_slot_create(place->table, NULL);
	place->mode = how == JOB_LOOK_ONLY ? LockTupleNoKeyExclusive : mode_for(place->table, plan);
	place->is_heap = place->table->rd_tableam == GetHeapamTableAmRoutine() && TTS_IS_BUFFERTUPLE(place->slot);
	place->blocks = place->is_heap ? RelationGetNumberOfBlocks(place->table) : 0;
	return true;
}

/* Nobody has ever tried to change or lock this version, or it is known that he failed. */
static bool
is_free(const Place *place)
{
	const BufferHeapTupleTableSlot *slot = (const BufferHeapTupleTableSlot *) place->slot;

	return place->is_heap && (slot->base.tuple->t_data->t_infomask & HEAP_XMAX_INVALID) != 0;
}

/* Whether what the slot has is the version that was read. */
static bool
is_same(const Place *place, const JobRow *row)
{
	const BufferHeapTupleTableSlot *slot = (const BufferHeapTupleTableSlot *) place->slot;
	bool		null;

	if (DatumGetTransactionId(slot_getsysattr(place->slot, MinTransactionIdAttributeNumber, &null)) != row->xmin)
		return false;
	return row->xmin != FrozenTransactionId ||
		(place->is_heap && TransactionIdPrecedes(HeapTupleHeaderGetRawXmin(slot->base.tuple->t_data), row->horizon));
}

/* Fetches the version that was read; false: it is not there any more. */
static bool
fetch(Place *place, const JobRow *row, Snapshot snapshot)
{
	ItemPointerData tid = row->tid;

	return infer_file_number(place->table) == row->file &&
		(!place->is_heap || ItemPointerGetBlockNumber(&tid) < place->blocks) &&
		table_tuple_fetch_row_version(place->table, &tid, snapshot, place->slot) &&
		is_same(place, row);
}

/* false: the version that was read is not the latest one. */
static bool
look(Place *place, JobRow *row, Snapshot snapshot, JobLook how)
{
	TM_FailureData failure;

	if (!fetch(place, row, how == JOB_LOOK_ONLY ? snapshot : SnapshotAny))
		return false;
	if (how == JOB_LOOK_ONLY || (how == JOB_LOOK_FREE && is_free(place)))
		return true;
	switch (table_tuple_lock(place->table, &row->tid, snapshot, place->locked, GetCurrentCommandId(false),
							 place->mode, LockWaitSkip, 0, &failure))
	{
		case TM_Ok:
			return true;
		case TM_WouldBlock:
			row->outcome = JOB_ROW_LOCKED;
			return true;
		default:
			return false;
	}
}

bool
job_row_stays(const JobPlan *plan, const JobRow *row)
{
	Place		place = {0};
	bool		stays = go(&place, plan, row->tableoid, JOB_LOOK_ONLY) && fetch(&place, row, GetActiveSnapshot());

	leave(&place);
	return stays;
}

/* ---- by key ---- */

static bool
receive_now(TupleTableSlot *slot, void *arg)
{
	JobRow	   *row;

	slot_getallattrs(slot);
	row = ((JobRow **) arg)[DatumGetInt32(slot->tts_values[0])];
	if (!DatumGetBool(slot->tts_values[3]))
	{
		row->outcome = JOB_ROW_CHANGED;
		return true;
	}
	row->outcome = JOB_ROW_COMPUTED;
	row->tableoid = DatumGetObjectId(slot->tts_values[1]);
	row->tid = *(ItemPointer) DatumGetPointer(slot->tts_values[2]);
	return true;
}

static bool
receive_there(TupleTableSlot *slot, void *arg)
{
	JobRow	   *row;

	slot_getallattrs(slot);
	row = ((JobRow **) arg)[DatumGetInt32(slot->tts_values[0])];
	if (row->outcome == JOB_ROW_GONE)
		row->outcome = JOB_ROW_LOCKED;
	return true;
}

/* Number, keys, and inputs if there are any. */
static TupleDesc
given_columns(JobRun *run, bool with_inputs)
{
	const JobPlan *plan = run->plan;
	int			count = 1 + plan->keys_count + (with_inputs ? plan->inputs_count : 0);
	Oid		   *types = palloc(sizeof(Oid) * count);
	MemoryContext old;
	TupleDesc	columns;

	types[0] = INT4OID;
	for (int i = 0; i < plan->keys_count; i++)
		types[1 + i] = run->writer->key_types[i].type;
	for (int i = 0; with_inputs && i < plan->inputs_count; i++)
		types[1 + plan->keys_count + i] = plan->inputs[i].type;
	old = MemoryContextSwitchTo(run->context);
	columns = job_given_columns(count, types);
	MemoryContextSwitchTo(old);
	return columns;
}

static void
prepare_now(JobRun *run, bool lock)
{
	const JobPlan *plan = run->plan;
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT " JOB_GIVEN ".c1, infer_job_source.* FROM " JOB_GIVEN
						   ",\n LATERAL (SELECT tableoid, ctid, (ROW(");
	for (int i = 0; i < plan->inputs_count; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? "" : ", ", plan->inputs[i].sql);
	appendStringInfoString(&sql, "))::pg_catalog.record OPERATOR(pg_catalog.*=) (ROW(");
	for (int i = 0; i < plan->inputs_count; i++)
		appendStringInfo(&sql, "%s" JOB_GIVEN ".c%d", i == 0 ? "" : ", ", 2 + plan->keys_count + i);
	appendStringInfo(&sql, "))::pg_catalog.record%s", job_sql_from(plan));
	job_sql_equal_given(&sql, plan->keys_count, plan->keys, "", run->writer->key_types, 2, false);
	if (lock)
		appendStringInfoString(&sql, "\n FOR NO KEY UPDATE SKIP LOCKED");
	appendStringInfoString(&sql, ") AS infer_job_source");
	job_statement_prepare(&run->writer->statements[JOB_WRITE_NOW], sql.data, 0, NULL, given_columns(run, true), CURSOR_OPT_NO_SCROLL);
}

static void
prepare_there(JobRun *run)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT " JOB_GIVEN ".c1 FROM " JOB_GIVEN "\n WHERE EXISTS (SELECT%s", job_sql_from(run->plan));
	job_sql_equal_given(&sql, run->plan->keys_count, run->plan->keys, "", run->writer->key_types, 2, false);
	appendStringInfoString(&sql, ")");
	job_statement_prepare(&run->writer->statements[JOB_WRITE_THERE], sql.data, 0, NULL, given_columns(run, false), CURSOR_OPT_NO_SCROLL);
}

static void
prepare_target(JobRun *run, JobStatement *statement, bool lock)
{
	const JobPlan *plan = run->plan;
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT " JOB_GIVEN ".c1 FROM " JOB_GIVEN
					 ",\n LATERAL (SELECT FROM %s AS infer_job_target\n WHERE true", plan->target_sql);
	job_sql_equal_given(&sql, plan->keys_count, plan->target_keys, "infer_job_target.", run->writer->target_key_types, 2,
						true);
	appendStringInfo(&sql, "%s) AS infer_job_found", lock ? "\n FOR NO KEY UPDATE SKIP LOCKED" : "");
	job_statement_prepare(statement, sql.data, 0, NULL, given_columns(run, false), CURSOR_OPT_NO_SCROLL);
}

/* Runs a statement for the rows of that outcome. */
static void
ask(JobRun *run, const JobStatement *statement, JobRow **rows, int count, JobOutcome outcome, Oid table,
	JobReceive receive)
{
	const JobPlan *plan = run->plan;
	int			columns = statement->given->natts;
	Datum	   *values = palloc(sizeof(Datum) * columns);
	bool	   *nulls = palloc0(sizeof(bool) * columns);
	Tuplestorestate *given = tuplestore_begin_heap(false, false, work_mem);
	/* with policies, the index may not be of use for what is not leakproof */
	JobPlanning planning = check_enable_rls(table, InvalidOid, true) == RLS_ENABLED ? JOB_PLANNING_FREE :
		JOB_PLANNING_BY_ROW;

	for (int i = 0; i < count; i++)
	{
		if (rows[i]->outcome != outcome)
			continue;
		values[0] = Int32GetDatum(i);
		memcpy(values + 1, rows[i]->keys, sizeof(Datum) * plan->keys_count);
		if (columns > 1 + plan->keys_count)
		{
			memcpy(values + 1 + plan->keys_count, rows[i]->inputs, sizeof(Datum) * plan->inputs_count);
			memcpy(nulls + 1 + plan->keys_count, rows[i]->inputs_null, sizeof(bool) * plan->inputs_count);
		}
		tuplestore_putvalues(given, statement->given, values, nulls);
	}
	job_statement_give(statement, given);
	job_statement_query(statement, NULL, planning, NULL, receive, rows);
	job_statement_take();
	tuplestore_end(given);
	pfree(values);
	pfree(nulls);
}

void
job_rows_look(JobRun *run, JobRow **rows, int count, JobLook how)
{
	JobWriter  *writer = run->writer;
	Place		place = {0};
	Snapshot	snapshot = GetActiveSnapshot();
	int			others = 0;
	bool		lock = how != JOB_LOOK_ONLY;
	bool		gone = false;

	for (int i = 0; i < count; i++)
	{
		if (go(&place, run->plan, rows[i]->tableoid, how) && look(&place, rows[i], snapshot, how))
			continue;
		rows[i]->outcome = JOB_ROW_GONE;
		others++;
	}
	leave(&place);
	if (others == 0)
		return;

	if (writer->statements[JOB_WRITE_NOW].plan == NULL)
		prepare_now(run, lock);
	ask(run, &writer->statements[JOB_WRITE_NOW], rows, count, JOB_ROW_GONE, run->plan->table, receive_now);
	for (int i = 0; lock && i < count && !gone; i++)
		gone = rows[i]->outcome == JOB_ROW_GONE;
	if (!gone)
		return;
	if (writer->statements[JOB_WRITE_THERE].plan == NULL)
		prepare_there(run);
	ask(run, &writer->statements[JOB_WRITE_THERE], rows, count, JOB_ROW_GONE, run->plan->table, receive_there);
}

/* ---- rows of another table ---- */

static bool
receive_target_there(TupleTableSlot *slot, void *arg)
{
	slot_getallattrs(slot);
	((JobRow **) arg)[DatumGetInt32(slot->tts_values[0])]->outcome = JOB_ROW_LOCKED;
	return true;
}

static bool
receive_target_locked(TupleTableSlot *slot, void *arg)
{
	slot_getallattrs(slot);
	((JobRow **) arg)[DatumGetInt32(slot->tts_values[0])]->outcome = JOB_ROW_COMPUTED;
	return true;
}

void
job_rows_lock_target(JobRun *run, JobRow **rows, int count)
{
	JobWriter  *writer = run->writer;
	Oid			target = run->plan->target_table;
	JobRow	  **there = palloc(sizeof(JobRow *) * count);
	int			there_count = 0;

	if (writer->statements[JOB_WRITE_TARGET_THERE].plan == NULL)
	{
		prepare_target(run, &writer->statements[JOB_WRITE_TARGET_THERE], false);
		prepare_target(run, &writer->statements[JOB_WRITE_TARGET_LOCK], true);
	}
	for (int i = 0; i < count; i++)
		if (rows[i]->outcome == JOB_ROW_COMPUTED)
			there[there_count++] = rows[i];
	ask(run, &writer->statements[JOB_WRITE_TARGET_THERE], there, there_count, JOB_ROW_COMPUTED, target, receive_target_there);
	for (int i = 0; i < there_count; i++)
		if (there[i]->outcome == JOB_ROW_LOCKED)
		{
			ask(run, &writer->statements[JOB_WRITE_TARGET_LOCK], there, there_count, JOB_ROW_LOCKED, target, receive_target_locked);
			break;
		}
	pfree(there);
}
