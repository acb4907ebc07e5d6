/*
 * shared.c
 *	  Slots of runners, and the launcher's mail-box.
 *
 * A slot goes from FREE to RESERVED by the launcher, to ATTACHED by its runner, and to FREE by the runner's
 * exit callback, which runs after the session's own (its transaction is aborted, its locks are released).  A
 * reservation whose runner never came is taken back by the launcher; the generation then keeps a runner that
 * comes after all from taking it.
 *
 * launcher.h says what the lock protects.
 */
#include "postgres.h"

#include "launcher.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

JobsShared *jobs_shared = NULL;

/* ---- the memory ---- */

static void
init_shared(void *memory, LWLock *lock)
{
	JobsShared *shared = memory;

	shared->lock = lock;
	pg_atomic_init_u32(&shared->waiting, 0);
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
	{
		pg_atomic_init_u32(&shared->slots[i].cancelled, 0);
		pg_atomic_init_u32(&shared->slots[i].leave, 0);
		pg_atomic_init_u32(&shared->slots[i].make_way, 0);
	}
}

void
infer_jobs_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	infer_shared_add("infer jobs", sizeof(JobsShared), (void **) &jobs_shared, init_shared);
	infer_jobs_notify_init();
	infer_job_launcher_init();
}

/* ---- flags ---- */

/* With the lock. */
static void
wake_launcher(void)
{
	if (jobs_shared->launcher_latch != NULL)
		SetLatch(jobs_shared->launcher_latch);
}

/* With the lock. */
static void
flag(Oid database)
{
	int			i = 0;

	while (i < jobs_shared->flags_count && jobs_shared->flags[i] != database)
		i++;
	if (i == JOB_FLAGS_MAX)
		jobs_shared->scan_all = true;
	else if (i == jobs_shared->flags_count)
		jobs_shared->flags[jobs_shared->flags_count++] = database;
	wake_launcher();
}

void
job_flag_database(Oid database)
{
	if (jobs_shared == NULL)
		return;
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	flag(database);
	LWLockRelease(jobs_shared->lock);
}

/* Where the database is, or would be, among those with prepared transactions.  With the lock. */
static int
find_prepared(Oid database)
{
	int			i = 0;

	while (i < jobs_shared->prepared_count && jobs_shared->prepared[i].database != database)
		i++;
	return i;
}

/* With the lock. */
static void
note_prepared(Oid database)
{
	int			i = find_prepared(database);

	if (i == JOB_FLAGS_MAX)
		return;
	jobs_shared->prepared_count = Max(jobs_shared->prepared_count, i + 1);
	jobs_shared->prepared[i] = (JobPrepared) {.database = database, .serial = ++jobs_shared->prepared_serial};
}

void
job_flag_prepared(Oid database)
{
	if (jobs_shared == NULL)
		return;
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	note_prepared(database);
	flag(database);
	LWLockRelease(jobs_shared->lock);
}

void
job_prepared_committed(Oid database)
{
	if (jobs_shared == NULL)
		return;
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	if (find_prepared(database) < jobs_shared->prepared_count)
		flag(database);
	LWLockRelease(jobs_shared->lock);
}

uint64
job_prepared_serial(void)
{
	uint64		serial;

	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	serial = jobs_shared->prepared_serial;
	LWLockRelease(jobs_shared->lock);
	return serial;
}

void
job_keep_prepared(Oid database, bool prepared, uint64 serial)
{
	int			i;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	i = find_prepared(database);
	if (prepared && i == jobs_shared->prepared_count)
		note_prepared(database);
	else if (!prepared && i < jobs_shared->prepared_count && jobs_shared->prepared[i].serial <= serial)
		jobs_shared->prepared[i] = jobs_shared->prepared[--jobs_shared->prepared_count];
	LWLockRelease(jobs_shared->lock);
}

/* ---- slots, seen by others ---- */

int
job_slots_taken(void)
{
	int			taken = 0;

	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
		taken += jobs_shared->slots[i].state != JOB_SLOT_FREE;
	LWLockRelease(jobs_shared->lock);
	return taken;
}

/* With the lock. */
static bool
is_of(const JobSlot *slot, Oid database, int64 job)
{
	return slot->state != JOB_SLOT_FREE && slot->database == database && slot->job == job;
}

/* With the lock. */
static bool
blocks(const JobSlot *slot, Oid database, int64 job, int32 shard)
{
	return is_of(slot, database, job) && (slot->shard == shard || slot->shard == 0 || shard == 0);
}

bool
job_slot_has_runner(Oid database, int64 job, int32 shard)
{
	bool		found = false;

	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	for (int i = 0; i < JOB_SLOTS_MAX && !found; i++)
		found = blocks(&jobs_shared->slots[i], database, job, shard);
	LWLockRelease(jobs_shared->lock);
	return found;
}

bool
job_has_runner(Oid database, int64 job)
{
	bool		found = false;

	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	for (int i = 0; i < JOB_SLOTS_MAX && !found; i++)
		found = is_of(&jobs_shared->slots[i], database, job);
	LWLockRelease(jobs_shared->lock);
	return found;
}

void
job_slots_cancel(Oid database, int64 job)
{
	if (jobs_shared == NULL)
		return;
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
	{
		JobSlot    *slot = &jobs_shared->slots[i];

		if (!is_of(slot, database, job))
			continue;
		pg_atomic_write_u32(&slot->cancelled, 1);
		if (slot->latch != NULL)
			SetLatch(slot->latch);
	}
	LWLockRelease(jobs_shared->lock);
}

void
job_slots_make_way(Oid database)
{
	if (jobs_shared == NULL)
		return;
	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
		if (jobs_shared->slots[i].state != JOB_SLOT_FREE && jobs_shared->slots[i].database == database)
			pg_atomic_write_u32(&jobs_shared->slots[i].make_way, 1);
	LWLockRelease(jobs_shared->lock);
}

/* ---- slots, by the launcher ---- */

static Datum
slot_argument(int number, uint32 generation)
{
	return Int64GetDatum((int64) generation << 8 | number);
}

/* The slot of a reservation; NULL: it is not that one's any more.  With the lock. */
static JobSlot *
slot_of(Datum arg)
{
	JobSlot    *slot = &jobs_shared->slots[DatumGetInt64(arg) & 0xff];

	return slot->generation == (uint32) (DatumGetInt64(arg) >> 8) ? slot : NULL;
}

/* With the lock. */
static void
free_slot(JobSlot *slot)
{
	slot->state = JOB_SLOT_FREE;
	slot->generation++;
	slot->pid = 0;
	slot->latch = NULL;
}

bool
job_slot_reserve(Oid database, const JobCandidate *candidate, Datum *arg)
{
	bool		reserved = false;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < JOB_SLOTS_MAX && !reserved; i++)
	{
		JobSlot    *slot = &jobs_shared->slots[i];

		if (slot->state != JOB_SLOT_FREE)
			continue;
		slot->state = JOB_SLOT_RESERVED;
		slot->database = database;
		slot->owner = candidate->owner;
		slot->job = candidate->job;
		slot->shard = candidate->shard;
		slot->priority = candidate->priority;
		slot->submitted = candidate->submitted;
		slot->started = GetCurrentTimestamp();
		slot->phase = JOB_PHASE_STARTING;
		slot->chunk = 0;
		slot->rows = 0;
		pg_atomic_write_u32(&slot->cancelled, 0);
		pg_atomic_write_u32(&slot->leave, 0);
		pg_atomic_write_u32(&slot->make_way, 0);
		*arg = slot_argument(i, slot->generation);
		reserved = true;
	}
	LWLockRelease(jobs_shared->lock);
	return reserved;
}

bool
job_slot_is_reserved(Datum arg)
{
	JobSlot    *slot;
	bool		reserved;

	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	slot = slot_of(arg);
	reserved = slot != NULL && slot->state == JOB_SLOT_RESERVED;
	LWLockRelease(jobs_shared->lock);
	return reserved;
}

void
job_slot_release(Datum arg, bool flagged)
{
	JobSlot    *slot;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	slot = slot_of(arg);
	if (slot != NULL && slot->state == JOB_SLOT_RESERVED)
	{
		if (flagged)
			flag(slot->database);
		free_slot(slot);
	}
	LWLockRelease(jobs_shared->lock);
}

void
job_slots_release_reserved(void)
{
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
		if (jobs_shared->slots[i].state == JOB_SLOT_RESERVED)
			free_slot(&jobs_shared->slots[i]);
	LWLockRelease(jobs_shared->lock);
}

/* Whether a is to leave before b. */
static bool
leaves_before(const JobSlot *a, const JobSlot *b)
{
	if (a->priority != b->priority)
		return a->priority < b->priority;
	if (a->submitted != b->submitted)
		return a->submitted > b->submitted;
	return a->shard > b->shard;
}

void
job_slots_limit(int max)
{
	int			taken = 0;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
	{
		taken += jobs_shared->slots[i].state != JOB_SLOT_FREE;
		pg_atomic_write_u32(&jobs_shared->slots[i].leave, 0);
	}
	for (; taken > max; taken--)
	{
		JobSlot    *last = NULL;

		for (int i = 0; i < JOB_SLOTS_MAX; i++)
		{
			JobSlot    *slot = &jobs_shared->slots[i];

			if (slot->state != JOB_SLOT_FREE && pg_atomic_read_u32(&slot->leave) == 0 &&
				(last == NULL || leaves_before(slot, last)))
				last = slot;
		}
		pg_atomic_write_u32(&last->leave, 1);
		if (last->latch != NULL)
			SetLatch(last->latch);
	}
	LWLockRelease(jobs_shared->lock);
}

/* ---- slots, by their runners ---- */

JobSlot *
job_slot_take(Datum arg)
{
	JobSlot    *slot;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	slot = slot_of(arg);
	if (slot != NULL && slot->state != JOB_SLOT_RESERVED)
		slot = NULL;
	if (slot != NULL)
	{
		slot->state = JOB_SLOT_ATTACHED;
		slot->pid = MyProcPid;
		slot->latch = MyLatch;
	}
	LWLockRelease(jobs_shared->lock);
	return slot;
}

/* With the lock.  Where there is no room, it is only tried again. */
static void
note_death(const JobSlot *slot, int sqlstate, const char *message)
{
	JobDeath   *death = &jobs_shared->deaths[jobs_shared->deaths_count];

	if (jobs_shared->deaths_count == JOB_DEATHS_MAX)
		return;
	jobs_shared->deaths_count++;
	death->database = slot->database;
	death->job = slot->job;
	death->shard = slot->shard;
	death->sqlstate = sqlstate;
	death->counted = slot->phase != JOB_PHASE_STARTING;
	strlcpy(death->message, message, JOB_DEATH_MESSAGE);
}

/* With the lock.  Where it has not begun with its job, the next one waits; one that was told to leave says nothing of it. */
static void
note_delay(JobSlot *slot, bool died, int sqlstate)
{
	bool		begun = slot->phase != JOB_PHASE_STARTING && slot->shard > 0;

	if (begun && (!died || sqlstate == ERRCODE_ADMIN_SHUTDOWN))
		job_delay_forget(slot->database, slot->job);
	else if (pg_atomic_read_u32(&slot->leave) == 0)
		job_delay_note(slot->database, slot->job, GetCurrentTimestamp());
}

void
job_slot_give_back(JobSlot *slot, bool died, int sqlstate, const char *message)
{
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	if (died)
		note_death(slot, sqlstate, message);
	note_delay(slot, died, sqlstate);
	flag(slot->database);
	free_slot(slot);
	LWLockRelease(jobs_shared->lock);
}

/* ---- deaths ---- */

/* With the lock. */
static void
forget_deaths(Oid database, JobDeath *taken, int *taken_count)
{
	int			kept = 0;

	for (int i = 0; i < jobs_shared->deaths_count; i++)
	{
		if (jobs_shared->deaths[i].database != database)
			jobs_shared->deaths[kept++] = jobs_shared->deaths[i];
		else if (taken != NULL)
			taken[(*taken_count)++] = jobs_shared->deaths[i];
	}
	jobs_shared->deaths_count = kept;
}

JobDeath *
job_deaths_take(int *count)
{
	JobDeath   *deaths = palloc(sizeof(JobDeath) * JOB_DEATHS_MAX);

	*count = 0;
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	forget_deaths(MyDatabaseId, deaths, count);
	LWLockRelease(jobs_shared->lock);
	return deaths;
}

void
job_forget_database(Oid database)
{
	int			i;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	forget_deaths(database, NULL, NULL);
	job_delays_forget(database);
	i = find_prepared(database);
	if (i < jobs_shared->prepared_count)
		jobs_shared->prepared[i] = jobs_shared->prepared[--jobs_shared->prepared_count];
	LWLockRelease(jobs_shared->lock);
}
