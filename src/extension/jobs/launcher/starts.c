/*
 * starts.c
 *	  The launcher's runners: which are started, and when.
 *
 * Nouns
 *	starting	a runner that has been started and has not attached its slot yet; from then on it is on its own
 *	restart		a shard that was started lately.  Its runner may leave it again and again without a word:
 *				then the next one is not started each time at once
 *	hold		runners are not started while a scan is about to tell of more jobs, since the highest priority
 *				goes first; but for no longer than HOLD_TIME, or nothing would start on a busy server
 */
#include "postgres.h"

#include "launching.h"

#define RESTART_INTERVAL	2000		/* ms */
#define RESTARTS_MAX		5			/* so near to one another; then each waits RESTART_DELAY */
#define RESTART_DELAY		1000
#define HOLD_TIME			500			/* ms */

static TimestampTz hold_since = 0;

/* ---- runners that are not there yet ---- */

typedef struct Starting
{
	BackgroundWorkerHandle *handle;	/* NULL: none */
	Datum		slot;
} Starting;

static Starting starting[JOB_SLOTS_MAX];

/* Of those that never came, the slot is taken back. */
void
launcher_look_at_starting(void)
{
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
	{
		Starting   *start = &starting[i];
		pid_t		pid;

		if (start->handle == NULL || GetBackgroundWorkerPid(start->handle, &pid) == BGWH_NOT_YET_STARTED)
			continue;
		if (!job_slot_is_reserved(start->slot) || launcher_has_stopped(start->handle))
		{
			job_slot_release(start->slot, true);
			pfree(start->handle);
			start->handle = NULL;
		}
	}
}

/* ---- shards that are started again ---- */

typedef struct Restart
{
	Oid			database;
	int64		job;
	int32		shard;
	int			times;				/* within RESTART_INTERVAL of one another */
	TimestampTz started;			/* the last time */
} Restart;

static Restart restarts[JOB_SLOTS_MAX];
static uint32 restarts_next = 0;	/* the oldest */

static Restart *
find_restart(Oid database, const JobCandidate *candidate)
{
	for (int i = 0; i < JOB_SLOTS_MAX; i++)
		if (restarts[i].database == database && restarts[i].job == candidate->job && restarts[i].shard == candidate->shard)
			return &restarts[i];
	return NULL;
}

static void
note_start(Oid database, const JobCandidate *candidate, TimestampTz now)
{
	Restart    *restart = find_restart(database, candidate);

	if (restart == NULL)
	{
		restart = &restarts[restarts_next++ % JOB_SLOTS_MAX];
		*restart = (Restart) {.database = database, .job = candidate->job, .shard = candidate->shard};
	}
	restart->times = now < after_ms(restart->started, RESTART_INTERVAL) ? restart->times + 1 : 0;
	restart->started = now;
}

/* When the next start of this candidate may be; 0: at once. */
static TimestampTz
start_due(Oid database, const JobCandidate *candidate)
{
	const Restart *restart = find_restart(database, candidate);

	return restart == NULL || restart->times < RESTARTS_MAX ? 0 : after_ms(restart->started, RESTART_DELAY);
}

/* ---- which is next ---- */

/* Whether a is to start before b. */
static bool
starts_before(const JobCandidate *a, const JobCandidate *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return a->submitted < b->submitted;
}

/* The next candidate of a database; NULL: none. */
static JobCandidate *
next_candidate(JobDatabase *database)
{
	for (; database->candidates_next < database->candidates_count; database->candidates_next++)
	{
		JobCandidate *candidate = &database->candidates[database->candidates_next];

		if (!job_slot_has_runner(database->oid, candidate->job, candidate->shard))
			return candidate;
	}
	if (database->truncated)
	{
		database->truncated = false;
		database->scan = true;
	}
	return NULL;
}

/* The database whose next candidate is to start before all others'; NULL: there is none. */
static JobDatabase *
next_to_start(JobCandidate **candidate, TimestampTz now)
{
	JobDatabase *first = NULL;

	*candidate = NULL;
	for (int i = 0; i < launcher_databases_count; i++)
	{
		JobCandidate *next = next_candidate(&launcher_databases[i]);

		if (next == NULL || start_due(launcher_databases[i].oid, next) > now ||
			(*candidate != NULL && !starts_before(next, *candidate)))
			continue;
		*candidate = next;
		first = &launcher_databases[i];
	}
	return first;
}

/* false: no slot, or no background worker. */
static bool
start_runner(JobDatabase *database, const JobCandidate *candidate, TimestampTz now)
{
	char		name[BGW_MAXLEN];
	Datum		slot;
	int			i = 0;

	while (i < JOB_SLOTS_MAX && starting[i].handle != NULL)
		i++;
	if (i == JOB_SLOTS_MAX || !job_slot_reserve(database->oid, candidate, &slot))
		return false;
	snprintf(name, sizeof(name), "infer job " INT64_FORMAT, candidate->job);
	starting[i].slot = slot;
	starting[i].handle = launcher_start_process(name, "infer job", "infer_job_runner_main", slot, NULL, 0, now);
	if (starting[i].handle == NULL)
	{
		job_slot_release(slot, false);
		return false;
	}
	note_start(database->oid, candidate, now);
	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	jobs_shared->starts++;
	LWLockRelease(jobs_shared->lock);
	return true;
}

/* ---- in a round ---- */

static bool
is_held(TimestampTz now)
{
	bool		near = launcher_scan_is_near(now);

	if (!near)
		hold_since = 0;
	else if (hold_since == 0)
		hold_since = now;
	return near && now < after_ms(hold_since, HOLD_TIME);
}

void
launcher_start_runners(TimestampTz now)
{
	JobDatabase *database;
	JobCandidate *candidate;
	int			waiting = 0;

	if (launcher_process_due() <= now && !is_held(now))
		while (job_slots_taken() < infer_max_job_workers &&
			   (database = next_to_start(&candidate, now)) != NULL &&
			   start_runner(database, candidate, now))
			database->candidates_next++;

	for (int i = 0; i < launcher_databases_count; i++)
		if (next_candidate(&launcher_databases[i]) != NULL)
			waiting += launcher_databases[i].candidates_count - launcher_databases[i].candidates_next;
	pg_atomic_write_u32(&jobs_shared->waiting, waiting);
}

TimestampTz
launcher_next_start(TimestampTz now)
{
	TimestampTz next = 0;

	if (pg_atomic_read_u32(&jobs_shared->waiting) == 0)
		return 0;
	if (launcher_process_due() > now)
		next = launcher_process_due();
	if (hold_since != 0 && after_ms(hold_since, HOLD_TIME) > now)
		next = earlier(next, after_ms(hold_since, HOLD_TIME));
	for (int i = 0; i < launcher_databases_count; i++)
	{
		const JobDatabase *database = &launcher_databases[i];
		TimestampTz due;

		if (database->candidates_next == database->candidates_count)
			continue;
		due = start_due(database->oid, &database->candidates[database->candidates_next]);
		if (due > now)
			next = earlier(next, due);
	}
	return next;
}
