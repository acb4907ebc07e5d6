/*
 * fetch.c
 *	  A batch's rows: what of the child's columns the node needs, copied.
 *
 * Rows are arrays of Datums, as in a virtual slot: values by reference are copied into the batch's
 * context (a TOAST pointer as it is), columns that nothing above the child uses are NULL.
 */
#include "postgres.h"

#include "access/relscan.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "node.h"

enum { ROWS_ROOM = 32 };
enum { ROWS_MAX = 1 << 24 };		/* of a batch, where hardly any row calls */

void
infer_batch_alloc(InferBatchState *node, Batch *batch)
{
	memset(batch, 0, sizeof(*batch));
	batch->context = AllocSetContextCreate(node->css.ss.ps.state->es_query_cxt, "infer batch",
										   ALLOCSET_DEFAULT_SIZES);
}

void
infer_batch_clear(Batch *batch)
{
	MemoryContext context = batch->context;

	MemoryContextReset(context);
	memset(batch, 0, sizeof(*batch));
	batch->context = context;
}

/* Bytes of a row apart from its values by reference: in the arrays here and in calls.c. */
static Size
row_bytes(const InferBatchState *node)
{
	return node->columns * (sizeof(Datum) + sizeof(bool)) + sizeof(ErrorData *) + sizeof(ItemPointerData) +
		2 * sizeof(int) + sizeof(bool) + node->calls_count * (sizeof(InferRows *) + sizeof(int));
}

static Size
bytes_max(void)
{
	return (Size) work_mem * 1024 / BATCHES;
}

/* Twice as much, but no more than rows that hold nothing by reference would need. */
static int
larger_room(const InferBatchState *node, const Batch *batch)
{
	Size		most = Min(bytes_max() / row_bytes(node) + 1, ROWS_MAX);

	if (batch->rows_room == 0)
		return ROWS_ROOM;
	return Max(Min(2 * (Size) batch->rows_room, most), (Size) batch->rows_room + 1);
}

static void
make_room(InferBatchState *node, Batch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(batch->context);
	int			room = larger_room(node, batch);

	if (batch->rows_room == 0)
	{
		batch->values = palloc_extended(sizeof(Datum) * room * node->columns, MCXT_ALLOC_HUGE);
		batch->nulls = palloc_extended(sizeof(bool) * room * node->columns, MCXT_ALLOC_HUGE);
		batch->errors = palloc(sizeof(ErrorData *) * room);
		batch->failed_in = palloc(sizeof(int) * room);
		batch->tids = node->base != NULL ? palloc(sizeof(ItemPointerData) * room) : NULL;
	}
	else
	{
		batch->values = repalloc_huge(batch->values, sizeof(Datum) * room * node->columns);
		batch->nulls = repalloc_huge(batch->nulls, sizeof(bool) * room * node->columns);
		batch->errors = repalloc(batch->errors, sizeof(ErrorData *) * room);
		batch->failed_in = repalloc(batch->failed_in, sizeof(int) * room);
		if (batch->tids != NULL)
			batch->tids = repalloc(batch->tids, sizeof(ItemPointerData) * room);
	}
	batch->rows_room = room;
	MemoryContextSwitchTo(old);
}

/* Of the row that the child scanned last; invalid where it has none (the row is given by a recheck). */
static ItemPointerData
scanned_tid(ScanState *base)
{
	ItemPointerData none;

	ItemPointerSetInvalid(&none);
	if (TupIsNull(base->ss_ScanTupleSlot))
		return none;
	if (IsA(base, IndexOnlyScanState))
	{
		const struct IndexScanDescData *scan = ((IndexOnlyScanState *) base)->ioss_ScanDesc;

		return scan != NULL ? scan->xs_heaptid : none;
	}
	return base->ss_ScanTupleSlot->tts_tid;
}

/* In the batch's context. */
static void
keep_row(InferBatchState *node, Batch *batch, TupleTableSlot *slot)
{
	Datum	   *values = batch->values + (Size) batch->rows_count * node->columns;
	bool	   *nulls = batch->nulls + (Size) batch->rows_count * node->columns;

	slot_getsomeattrs(slot, node->kept_last);
	memset(nulls, true, node->columns);
	memset(values, 0, sizeof(Datum) * node->columns);
	for (int i = 0; i < node->kept_count; i++)
	{
		int			column = node->kept[i];

		if (slot->tts_isnull[column])
			continue;
		nulls[column] = false;
		if (node->byvals[column])
			values[column] = slot->tts_values[column];
		else
		{
			values[column] = datumCopy(slot->tts_values[column], false, node->lengths[column]);
			batch->bytes += datumGetSize(values[column], false, node->lengths[column]);
		}
	}
	batch->bytes += row_bytes(node);
	batch->errors[batch->rows_count] = NULL;
	if (batch->tids != NULL)
		batch->tids[batch->rows_count] = scanned_tid(node->base);
	batch->rows_count++;
}

int
infer_batch_fetch(InferBatchState *node, Batch *batch, int count)
{
	PlanState  *child = outerPlanState(node);
	int			fetched = 0;

	while (fetched < count && !node->child_ended && batch->bytes < bytes_max() && batch->rows_count < ROWS_MAX)
	{
		TupleTableSlot *slot;
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		slot = ExecProcNode(child);
		if (TupIsNull(slot))
		{
			node->child_ended = true;
			break;
		}
		if (!node->prepared)
			infer_batch_prepare(node);
		if (batch->rows_count == batch->rows_room)
			make_room(node, batch);
		old = MemoryContextSwitchTo(batch->context);
		keep_row(node, batch, slot);
		MemoryContextSwitchTo(old);
		fetched++;
	}
	return fetched;
}

void
infer_batch_load(InferBatchState *node, const Batch *batch, int row)
{
	TupleTableSlot *slot = node->css.ss.ss_ScanTupleSlot;
	Size		first = (Size) row * node->columns;

	ExecClearTuple(slot);
	memcpy(slot->tts_values, batch->values + first, sizeof(Datum) * node->columns);
	memcpy(slot->tts_isnull, batch->nulls + first, sizeof(bool) * node->columns);
	ExecStoreVirtualTuple(slot);
	if (node->base != NULL)
	{
		slot->tts_tid = batch->tids[row];
		slot->tts_tableOid = RelationGetRelid(node->base->ss_currentRelation);
	}
	node->css.ss.ps.ps_ExprContext->ecxt_scantuple = slot;
}
