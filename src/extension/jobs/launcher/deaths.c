/*
 * deaths.c
 *	  Runners that ended otherwise than in good order: their jobs wait longer each time.
 */
#include "postgres.h"

#include "scanning.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#define BACKOFF_FIRST	1000		/* ms after a runner's first fault, then twice that and so on */
#define BACKOFF_MAX		60000
#define BACKOFF_NOBODY	10000		/* ms after one that could not connect */

/* A runner that never came to its job, for a reason that will pass. */
static bool
is_nobodys_fault(const JobDeath *death)
{
	return !death->counted &&
		(death->sqlstate == ERRCODE_CANNOT_CONNECT_NOW || death->sqlstate == ERRCODE_TOO_MANY_CONNECTIONS ||
		 death->sqlstate == ERRCODE_ADMIN_SHUTDOWN || death->sqlstate == ERRCODE_CRASH_SHUTDOWN);
}

/* ms: twice as long each time.  One that an administrator has ended, for the first time, goes on at once. */
static int
delay_after(const JobDeath *death, int faults)
{
	int			delay = BACKOFF_FIRST;

	if (death->sqlstate == ERRCODE_ADMIN_SHUTDOWN && faults <= 1)
		return 0;
	if (is_nobodys_fault(death))
		return BACKOFF_NOBODY;
	for (int i = 1; i < faults && delay < BACKOFF_MAX; i++)
		delay *= 2;
	return Min(delay, BACKOFF_MAX);
}

/* The others of its shards go on. */
static void
put_off(JobRecord *record, int32 number, TimestampTz until)
{
	JobShard   *shard = number > 0 ? job_shard_get(record->job, number) : NULL;

	if (shard == NULL)
		record->resume_at = until;
	else if (!shard->completed && !job_slot_has_runner(MyDatabaseId, record->job, number))
	{
		shard->resume_at = until;
		job_shard_update(shard);
	}
}

static void
note_death(const JobDeath *death)
{
	JobRecord  *record = job_get(death->job);
	int			delay;

	if (record == NULL || job_has_ended(record->state))
		return;
	if (!death->counted && !is_nobodys_fault(death))
		record->faults++;
	delay = delay_after(death, record->faults);
	if (delay > 0)
		put_off(record, death->shard, TimestampTzPlusMilliseconds(scan_time, delay));
	if (death->message[0] != '\0' && pg_verifymbstr(death->message, strlen(death->message), true))
	{
		record->message = pstrdup(death->message);
		record->sqlstate = death->sqlstate == 0 ? NULL : pstrdup(unpack_sql_state(death->sqlstate));
	}
	job_update(record);
}

/* A death whose job is locked just now is only forgotten: the job is tried again. */
void
scan_deaths(void)
{
	int			count;
	JobDeath   *deaths = job_deaths_take(&count);

	for (int i = 0; i < count; i++)
	{
		scan_begin();
		if (scan_lock_job(deaths[i].job))
			note_death(&deaths[i]);
		scan_commit();
	}
}
