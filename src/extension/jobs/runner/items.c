/*
 * items.c
 *	  Rows that are not simply written: they come back, or have failed.
 *
 *	LOCKED, CHANGED		by other transactions: comes back, however often that happens
 *	TRANSIENT			comes back, ITEM_ATTEMPTS times in all; then it has failed, and may be retried.  One
 *						that ended an engine has a second chance, for the engine may have been killed
 *	FAILED				its own error
 *
 * Each time it waits twice as long, from a second to ITEM_DELAY_MAX.  A row that changed is read again at
 * once, the first time.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/elog.h"
#include "utils/timestamp.h"

#include "runner.h"

#define ITEM_ATTEMPTS		5
#define ITEM_KILLS			2		/* attempts of a row that ends the engine */
#define ITEM_DELAY_MAX		60		/* seconds */

static char *
sqlstate_text(int sqlerrcode)
{
	return pstrdup(unpack_sql_state(sqlerrcode));
}

/* The item of a row that has none is made. */
static JobItem *
item_of(Runner *runner, JobRow *row)
{
	const JobRun *run = &runner->run;
	JobItem    *item;

	if (row->item != NULL)
		return row->item;
	item = palloc0(sizeof(JobItem));
	item->job = runner->job;
	item->shard = runner->shard;
	job_key_make(run->plan, row->keys, &item->key);
	return item;
}

static void
put_item(Runner *runner, JobRow *row, JobItem *item, TimestampTz now)
{
	item->updated = now;
	if (row->item == NULL)
		job_item_insert(item);
	else
		job_item_update(item);
	if (item->state == JOB_ITEM_PENDING)
		runner->items_pending += row->item == NULL;
	else
		runner->items_pending -= row->item != NULL;
}

static void
remove_item(Runner *runner, JobRow *row)
{
	if (row->item == NULL)
		return;
	job_item_delete(row->item);
	runner->items_pending--;
}

/* error NULL: others have the row, which is none of it. */
static void
put_off(Runner *runner, JobRow *row, const ErrorData *error, const char *message, bool at_once, TimestampTz now)
{
	JobItem    *item = item_of(runner, row);
	int			delay = 1;

	if ((item->sqlstate != NULL) != (error != NULL))
		item->attempts = 0;			/* counted for each */
	item->attempts++;
	for (int i = 1; i < item->attempts && delay < ITEM_DELAY_MAX; i++)
		delay *= 2;
	if (at_once && item->attempts == 1)
		delay = 0;
	item->state = JOB_ITEM_PENDING;
	item->retryable = true;
	item->sqlstate = error != NULL ? sqlstate_text(error->sqlerrcode) : NULL;
	item->message = unconstify(char *, message);
	item->due = TimestampTzPlusMilliseconds(now, Min(delay, ITEM_DELAY_MAX) * 1000);
	if (runner->items_pending == 0 || item->due < runner->items_due)
		runner->items_due = item->due;
	put_item(runner, row, item, now);
}

static void
fail(Runner *runner, JobRow *row, bool retryable, TimestampTz now)
{
	JobItem    *item = item_of(runner, row);

	item->state = JOB_ITEM_FAILED;
	item->attempts++;
	item->sqlstate = sqlstate_text(row->error->sqlerrcode);
	item->message = row->error->message;
	item->retryable = retryable;
	item->due = 0;
	put_item(runner, row, item, now);
	runner->run.shard->failed++;
	if (!retryable)
		row->outcome = JOB_ROW_FAILED;
}

static void
fail_for_now(Runner *runner, JobRow *row, TimestampTz now)
{
	bool		killed = row->error->sqlerrcode == ERRCODE_INFER_ROW_KILLED_ENGINE;

	if (row->item != NULL && row->item->sqlstate != NULL &&
		row->item->attempts + 1 >= (killed ? ITEM_KILLS : ITEM_ATTEMPTS))
		fail(runner, row, !killed, now);
	else
		put_off(runner, row, row->error, row->error->message, false, now);
}

void
runner_settle_row(Runner *runner, JobRow *row, TimestampTz now)
{
	JobShard   *shard = runner->run.shard;

	switch (row->outcome)
	{
		case JOB_ROW_WRITTEN:
			job_digest_add(runner->run.plan, row, shard);
			remove_item(runner, row);
			shard->done++;
			return;
		case JOB_ROW_GONE:
			remove_item(runner, row);
			shard->gone++;
			return;
		case JOB_ROW_LOCKED:
			shard->recomputed++;
			put_off(runner, row, NULL, "another transaction has locked the row", false, now);
			return;
		case JOB_ROW_CHANGED:
			shard->recomputed++;
			put_off(runner, row, NULL, "the row was changed while it was computed", true, now);
			return;
		case JOB_ROW_TRANSIENT:
			fail_for_now(runner, row, now);
			return;
		case JOB_ROW_FAILED:
			fail(runner, row, false, now);
			return;
		case JOB_ROW_READ:
		case JOB_ROW_COMPUTED:
			break;
	}
	elog(ERROR, "a row was left in state %d", row->outcome);
}

/* Goes on behind those found last, so that many items are looked at once; then from the first again. */
JobItem *
runner_due_items(Runner *runner, int max, int *count)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next_due;
	int64		after = runner->items_after;
	JobItem    *items = job_items(runner->job, runner->shard, JOB_ITEM_PENDING, after, max, now, count, &next_due);

	runner->items_after = *count == max ? items[max - 1].item : 0;
	if (*count == max || after > 0)
		runner->items_due = now;	/* there may be more of them */
	else if (*count > 0 || next_due != 0)
		runner->items_due = next_due;
	else
		runner->items_pending = 0;	/* infer.retry_job or infer.cancel_job had them */
	return items;
}
