/*
 * item.c
 *	  infer.job_item as structs.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "tables.h"

enum								/* columns of infer.job_item */
{
	Anum_item_job = 1,
	Anum_item_shard,
	Anum_item_item,
	Anum_item_key,
	Anum_item_state,
	Anum_item_attempts,
	Anum_item_sqlstate,
	Anum_item_message,
	Anum_item_retryable,
	Anum_item_due,
	Anum_item_updated,
	Natts_item = Anum_item_updated
};

static const char *const item_state_names[] = {
	[JOB_ITEM_PENDING] = "pending",
	[JOB_ITEM_FAILED] = "failed",
	[JOB_ITEM_EXPIRED] = "expired",
	[JOB_ITEM_CANCELLED] = "cancelled",
};

static void
put_item(JobItem *item, bool is_new)
{
	TablesValues values = {0};

	tables_set(&values, Anum_item_job, Int64GetDatum(item->job));
	tables_set(&values, Anum_item_shard, Int32GetDatum(item->shard));
	tables_set(&values, Anum_item_item, Int64GetDatum(item->item));
	tables_set_key(&values, Anum_item_key, &item->key);
	tables_set_text(&values, Anum_item_state, item_state_names[item->state]);
	tables_set(&values, Anum_item_attempts, Int32GetDatum(item->attempts));
	tables_set_text(&values, Anum_item_sqlstate, item->sqlstate);
	tables_set_text(&values, Anum_item_message, item->message);
	tables_set(&values, Anum_item_retryable, BoolGetDatum(item->retryable));
	tables_set_time(&values, Anum_item_due, item->due);
	tables_set(&values, Anum_item_updated, TimestampTzGetDatum(item->updated));
	tables_put("job_item", &values, &item->tid, is_new);
}

static void
read_item(const TablesValues *values, ItemPointer tid, JobItem *item)
{
	item->job = tables_get_int64(values, Anum_item_job);
	item->shard = tables_get_int32(values, Anum_item_shard);
	item->item = tables_get_int64(values, Anum_item_item);
	tables_get_key(values, Anum_item_key, &item->key);
	item->state = tables_number_of_name(item_state_names, lengthof(item_state_names), tables_get_text(values, Anum_item_state));
	item->attempts = tables_get_int32(values, Anum_item_attempts);
	item->sqlstate = tables_get_text(values, Anum_item_sqlstate);
	item->message = tables_get_text(values, Anum_item_message);
	item->retryable = tables_get_bool(values, Anum_item_retryable);
	item->due = tables_get_time(values, Anum_item_due);
	item->updated = tables_get_time(values, Anum_item_updated);
	item->tid = *tid;
}

/* The greatest number of a shard's items, 0: there are none. */
static int64
last_item(int64 job, int32 shard)
{
	ScanKeyData keys[2];

	tables_key_int64(&keys[0], Anum_item_job, job);
	tables_key_int32(&keys[1], Anum_item_shard, shard);
	return tables_edge("job_item", "job_item_pkey", keys, 2, Anum_item_item, BackwardScanDirection);
}

void
job_item_insert(JobItem *item)
{
	item->item = last_item(item->job, item->shard) + 1;
	put_item(item, true);
}

void
job_item_update(JobItem *item)
{
	put_item(item, false);
}

void
job_item_delete(JobItem *item)
{
	tables_delete_at("job_item", &item->tid);
}

/*
 * Scans a job's items in that state, or those of one of its shards above the item after, by shard and number: many
 * more may be in another state.
 */
static void
begin_items(TablesScan *scan, int64 job, int32 shard, JobItemState state, int64 after)
{
	ScanKeyData keys[4];

	tables_key_int64(&keys[0], Anum_item_job, job);
	ScanKeyEntryInitialize(&keys[1], 0, Anum_item_state, BTEqualStrategyNumber, InvalidOid, DEFAULT_COLLATION_OID,
						   F_TEXTEQ, CStringGetTextDatum(item_state_names[state]));
	tables_key_int32(&keys[2], Anum_item_shard, shard);
	ScanKeyInit(&keys[3], Anum_item_item, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(after));
	tables_begin_by(scan, "job_item", "job_item_state", AccessShareLock, keys, shard > 0 ? 4 : 2);
}

JobItem *
job_items(int64 job, int32 shard, JobItemState state, int64 after, int max, TimestampTz due, int *count,
		  TimestampTz *next_due)
{
	TablesScan	scan;
	TablesValues values;
	ItemPointerData tid;
	JobItem    *items = palloc(sizeof(JobItem) * Max(max, 1));

	*count = 0;
	*next_due = 0;
	begin_items(&scan, job, shard, state, after);
	while (tables_next(&scan, &values, &tid, NULL))
	{
		JobItem    *item = &items[*count];

		read_item(&values, &tid, item);
		if (state == JOB_ITEM_PENDING && due != 0 && item->due > due)
		{
			if (*next_due == 0 || item->due < *next_due)
				*next_due = item->due;
		}
		else if (++*count >= max)
			break;
	}
	tables_end(&scan);
	return items;
}

int64
job_items_count(int64 job, int32 shard, JobItemState state)
{
	TablesScan	scan;
	TablesValues values;
	ItemPointerData tid;
	int64		count = 0;

	begin_items(&scan, job, shard, state, 0);
	while (tables_next(&scan, &values, &tid, NULL))
		count++;
	tables_end(&scan);
	return count;
}
