/*
 * slot.c
 *	  A runner's own slot.
 */
#include "postgres.h"

#include "launcher.h"

#include "catalog/pg_database.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "utils/elog.h"
#include "utils/timestamp.h"

#define DATABASE_INTERVAL	250		/* ms between looks at the database's lock */

static JobSlot *my_slot = NULL;
static int	my_sqlstate = 0;		/* of the last error that went to the log */
static char my_message[JOB_DEATH_MESSAGE];
static emit_log_hook_type prev_emit_log_hook = NULL;

/* What ends a runner is told by its last error. */
static void
note_error(ErrorData *edata)
{
	int			length;

	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
	if (edata->elevel < ERROR || edata->message == NULL)
		return;
	length = pg_mbcliplen(edata->message, strlen(edata->message), JOB_DEATH_MESSAGE - 1);
	memcpy(my_message, edata->message, length);
	my_message[length] = '\0';
	my_sqlstate = edata->sqlerrcode;
}

static void
slot_exit(int code, Datum arg)
{
	job_slot_give_back(my_slot, code != 0, my_sqlstate, my_message);
	my_slot = NULL;
}

void
job_slot_attach(Datum arg, Oid *database, Oid *owner, int64 *job, int32 *shard)
{
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = note_error;

	my_slot = job_slot_take(arg);
	if (my_slot == NULL)			/* the launcher has given it up */
		proc_exit(0);
	before_shmem_exit(slot_exit, (Datum) 0);

	/* nobody else changes these */
	*database = my_slot->database;
	*owner = my_slot->owner;
	*job = my_slot->job;
	*shard = my_slot->shard;
}

void
job_slot_shard(int32 shard)
{
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	my_slot->shard = shard;
	LWLockRelease(jobs_shared->lock);
	job_flag_database(my_slot->database);
}

void
job_slot_phase(JobPhase phase, int64 chunk, int rows)
{
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	my_slot->phase = phase;
	my_slot->chunk = chunk;
	my_slot->rows = rows;
	LWLockRelease(jobs_shared->lock);
}

bool
job_slot_is_cancelled(void)
{
	return pg_atomic_read_u32(&my_slot->cancelled) != 0;
}

bool
job_slot_is_wanted(void)
{
	return job_slot_must_leave() || pg_atomic_read_u32(&jobs_shared->waiting) > 0;
}

bool
job_slot_must_leave(void)
{
	return pg_atomic_read_u32(&my_slot->leave) != 0 || job_database_is_wanted();
}

bool
job_slot_makes_way(void)
{
	return pg_atomic_read_u32(&my_slot->make_way) != 0;
}

void
job_slot_made_way(void)
{
	pg_atomic_write_u32(&my_slot->make_way, 0);
}

/*
 * A lock that somebody holds who wants the database for himself cannot be had; he waits no longer than a few
 * seconds for us to go.
 */
bool
job_database_is_wanted(void)
{
	static TimestampTz looked_at = 0;
	static bool wanted = false;
	TimestampTz now = GetCurrentTimestamp();
	LOCKTAG		tag;

	if (now >= looked_at && now < TimestampTzPlusMilliseconds(looked_at, DATABASE_INTERVAL))
		return wanted;
	looked_at = now;
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	wanted = LockAcquire(&tag, RowExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL;
	if (!wanted)
		LockRelease(&tag, RowExclusiveLock, true);
	return wanted;
}
