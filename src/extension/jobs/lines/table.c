/*
 * table.c
 *	  infer.job_request as structs.
 *
 * Opened by its own, whatever search_path, row security or privileges: the callers have checked what the user
 * may.  A row's request never changes; its response is set by the job's runner alone.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../../catalog/internal.h"
#include "lines.h"

enum								/* columns of infer.job_request */
{
	Anum_request_job = 1,
	Anum_request_line,
	Anum_request_custom_id,
	Anum_request_url,
	Anum_request_model,
	Anum_request_body,
	Anum_request_sqlstate,
	Anum_request_message,
	Anum_request_response,
	Natts_request = Anum_request_response
};

struct LineTable
{
	Relation	table;
	Relation	index;
	Snapshot	snapshot;
	CatalogIndexState indexes;		/* NULL: for reading */
	MemoryContext scratch;			/* of a row that is written */
};

LineTable *
line_table_open(bool for_writing)
{
	LineTable  *table = palloc0(sizeof(LineTable));
	LOCKMODE	lock = for_writing ? RowExclusiveLock : AccessShareLock;

	table->table = table_open(infer_relation_oid("job_request"), lock);
	table->index = index_open(infer_relation_oid("job_request_pkey"), lock);
	table->snapshot = infer_latest_snapshot();
	if (for_writing)
		table->indexes = CatalogOpenIndexes(table->table);
	table->scratch = AllocSetContextCreate(CurrentMemoryContext, "infer line", ALLOCSET_DEFAULT_SIZES);
	return table;
}

void
line_table_close(LineTable *table)
{
	if (table->indexes != NULL)
	{
		CatalogCloseIndexes(table->indexes);
		CommandCounterIncrement();
	}
	UnregisterSnapshot(table->snapshot);
	index_close(table->index, NoLock);
	table_close(table->table, NoLock);
	MemoryContextDelete(table->scratch);
	pfree(table);
}

/* ---- writing ---- */

static void
set_text(Datum *values, bool *nulls, int attribute, const char *text)
{
	nulls[attribute - 1] = text == NULL;
	if (text != NULL)
		values[attribute - 1] = CStringGetTextDatum(text);
}

static void
set_pointer(Datum *values, bool *nulls, int attribute, const void *pointer)
{
	nulls[attribute - 1] = pointer == NULL;
	values[attribute - 1] = PointerGetDatum(pointer);
}

void
line_insert(LineTable *table, const JobLine *line)
{
	MemoryContext old = MemoryContextSwitchTo(table->scratch);
	Datum		values[Natts_request] = {0};
	bool		nulls[Natts_request] = {0};
	HeapTuple	tuple;

	values[Anum_request_job - 1] = Int64GetDatum(line->job);
	values[Anum_request_line - 1] = Int64GetDatum(line->line);
	set_text(values, nulls, Anum_request_custom_id, line->custom_id);
	set_text(values, nulls, Anum_request_url, line->url);
	set_text(values, nulls, Anum_request_model, line->model);
	set_pointer(values, nulls, Anum_request_body, line->body);
	set_text(values, nulls, Anum_request_sqlstate, line->sqlstate);
	set_text(values, nulls, Anum_request_message, line->message);
	set_pointer(values, nulls, Anum_request_response, line->response);
	tuple = heap_form_tuple(RelationGetDescr(table->table), values, nulls);
	CatalogTupleInsertWithInfo(table->table, tuple, table->indexes);
	MemoryContextSwitchTo(old);
	MemoryContextReset(table->scratch);
}

/* ---- reading ---- */

static SysScanDesc
begin(LineTable *table, int64 job, int64 after, int64 upto)
{
	ScanKeyData keys[3];

	ScanKeyInit(&keys[0], Anum_request_job, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(job));
	ScanKeyInit(&keys[1], Anum_request_line, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(after));
	ScanKeyInit(&keys[2], Anum_request_line, BTLessEqualStrategyNumber, F_INT8LE, Int64GetDatum(upto));
	return systable_beginscan_ordered(table->table, table->index, table->snapshot, 3, keys);
}

static char *
get_text(const Datum *values, const bool *nulls, int attribute)
{
	return nulls[attribute - 1] ? NULL : TextDatumGetCString(values[attribute - 1]);
}

static JobLine *
read_line(const LineTable *table, HeapTuple tuple)
{
	JobLine    *line = palloc0(sizeof(JobLine));
	Datum		values[Natts_request];
	bool		nulls[Natts_request];

	heap_deform_tuple(tuple, RelationGetDescr(table->table), values, nulls);
	line->job = DatumGetInt64(values[Anum_request_job - 1]);
	line->line = DatumGetInt64(values[Anum_request_line - 1]);
	line->custom_id = get_text(values, nulls, Anum_request_custom_id);
	line->url = get_text(values, nulls, Anum_request_url);
	line->model = get_text(values, nulls, Anum_request_model);
	if (!nulls[Anum_request_body - 1])
		line->body = DatumGetJsonbPCopy(values[Anum_request_body - 1]);
	line->sqlstate = get_text(values, nulls, Anum_request_sqlstate);
	line->message = get_text(values, nulls, Anum_request_message);
	if (!nulls[Anum_request_response - 1])
		line->response = DatumGetTextPCopy(values[Anum_request_response - 1]);
	return line;
}

int64
line_each(LineTable *table, int64 job, int64 after, int64 upto, MemoryContext context,
		  bool (*each) (JobLine *line, void *arg), void *arg)
{
	SysScanDesc scan = begin(table, job, after, upto);
	HeapTuple	tuple;
	bool		more = true;
	int64		count = 0;

	while (more && HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		CHECK_FOR_INTERRUPTS();
		count++;
		more = each(read_line(table, tuple), arg);
		MemoryContextSwitchTo(old);
	}
	systable_endscan_ordered(scan);
	return count;
}

JobLine *
line_get(LineTable *table, int64 job, int64 line)
{
	SysScanDesc scan = begin(table, job, line - 1, line);
	HeapTuple	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	JobLine    *found = HeapTupleIsValid(tuple) ? read_line(table, tuple) : NULL;

	systable_endscan_ordered(scan);
	return found;
}

bool
line_respond(LineTable *table, int64 job, int64 line, text *response)
{
	MemoryContext old = MemoryContextSwitchTo(table->scratch);
	SysScanDesc scan = begin(table, job, line - 1, line);
	HeapTuple	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	bool		found = HeapTupleIsValid(tuple);

	if (found)
	{
		Datum		values[Natts_request] = {0};
		bool		nulls[Natts_request] = {0};
		bool		replace[Natts_request] = {0};
		ItemPointerData tid = tuple->t_self;

		values[Anum_request_response - 1] = PointerGetDatum(response);
		replace[Anum_request_response - 1] = true;
		tuple = heap_modify_tuple(tuple, RelationGetDescr(table->table), values, nulls, replace);
		CatalogTupleUpdateWithInfo(table->table, &tid, tuple, table->indexes);
	}
	systable_endscan_ordered(scan);
	MemoryContextSwitchTo(old);
	MemoryContextReset(table->scratch);
	return found;
}
