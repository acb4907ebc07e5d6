/*
 * delays.c
 *	  Jobs that could not be begun: when the next runner of each may start.
 *
 * A runner that waits notes in its job's row when the next one is to come.  One that cannot read or write that
 * row (somebody has it locked, the disk is full), or ends before the job is prepared, leaves no such note; its
 * delay is kept here, where it needs nobody's room.  Scanners leave such a job out until then, and put it
 * behind those of its priority that were submitted before: however many there are, all others get their turn.
 *
 * Invariants
 *	- The memory is bounded.  Where there is no room, the delays of a database become one, of all its jobs.
 *	- A delay is forgotten when its job gets on, has ended or is gone, and when nobody asked for it for long.
 *
 * Everything here is under jobs_shared->lock.
 */
#include "postgres.h"

#include "launcher.h"

#include "utils/timestamp.h"

#define DELAY_FIRST		1000		/* ms, then twice that and so on */
#define DELAY_MAX		60000		/* or, of many jobs, DELAY_EACH for each: they are not to take all slots */
#define DELAY_EACH		10000		/* ms: a few times what a runner takes to find that it cannot begin */
#define FORGET_AFTER	600000		/* ms after the delay has passed */

/* ---- with the lock ---- */

static JobDelay *
find(Oid database, int64 job)
{
	for (int i = 0; i < jobs_shared->delays_count; i++)
		if (jobs_shared->delays[i].database == database && jobs_shared->delays[i].job == job)
			return &jobs_shared->delays[i];
	return NULL;
}

/* The job's own, or that of all jobs there. */
static JobDelay *
find_any(Oid database, int64 job)
{
	JobDelay   *delay = find(database, job);

	return delay != NULL ? delay : find(database, JOB_DELAY_ALL);
}

static bool
is_old(const JobDelay *delay, TimestampTz now)
{
	return TimestampTzPlusMilliseconds(delay->until, FORGET_AFTER) <= now;
}

static void
forget(int number)
{
	jobs_shared->delays[number] = jobs_shared->delays[--jobs_shared->delays_count];
}

static void
forget_old(TimestampTz now)
{
	for (int i = jobs_shared->delays_count - 1; i >= 0; i--)
		if (is_old(&jobs_shared->delays[i], now))
			forget(i);
}

/* Whether there were any. */
static bool
forget_all_of(Oid database)
{
	bool		found = false;

	for (int i = jobs_shared->delays_count - 1; i >= 0; i--)
		if (jobs_shared->delays[i].database == database)
		{
			forget(i);
			found = true;
		}
	return found;
}

static void
forget_soonest(void)
{
	int			soonest = 0;

	for (int i = 1; i < jobs_shared->delays_count; i++)
		if (jobs_shared->delays[i].until < jobs_shared->delays[soonest].until)
			soonest = i;
	forget(soonest);
}

static JobDelay *
add(Oid database, int64 job, TimestampTz now)
{
	JobDelay   *delay;

	if (jobs_shared->delays_count == JOB_DELAYS_MAX)
		forget_old(now);
	if (jobs_shared->delays_count == JOB_DELAYS_MAX)
	{
		if (forget_all_of(database))
			job = JOB_DELAY_ALL;
		else
			forget_soonest();
	}
	delay = &jobs_shared->delays[jobs_shared->delays_count++];
	*delay = (JobDelay) {.database = database, .job = job};
	return delay;
}

/* ms */
static int64
length(int times)
{
	int64		longest = Max(DELAY_MAX, (int64) DELAY_EACH * jobs_shared->delays_count);
	int64		delay = DELAY_FIRST;

	for (int i = 1; i < times && delay < longest; i++)
		delay *= 2;
	return Min(delay, longest);
}

void
job_delay_note(Oid database, int64 job, TimestampTz now)
{
	JobDelay   *delay = find_any(database, job);

	if (delay == NULL)
		delay = add(database, job, now);
	delay->times = is_old(delay, now) ? 1 : delay->times + 1;
	delay->until = TimestampTzPlusMilliseconds(now, length(delay->times));
}

void
job_delay_forget(Oid database, int64 job)
{
	JobDelay   *delay = find_any(database, job);

	if (delay != NULL)
		forget(delay - jobs_shared->delays);
}

void
job_delays_forget(Oid database)
{
	(void) forget_all_of(database);
}

/* ---- without ---- */

TimestampTz
job_delayed_until(Oid database, int64 job)
{
	JobDelay   *delay;
	TimestampTz until;

	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	delay = find_any(database, job);
	until = delay == NULL ? 0 : delay->until;
	LWLockRelease(jobs_shared->lock);
	return until;
}

int64 *
job_delays_of(Oid database, int *count)
{
	int64	   *jobs = palloc(sizeof(int64) * JOB_DELAYS_MAX);

	*count = 0;
	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	for (int i = 0; i < jobs_shared->delays_count; i++)
		if (jobs_shared->delays[i].database == database)
			jobs[(*count)++] = jobs_shared->delays[i].job;
	LWLockRelease(jobs_shared->lock);
	return jobs;
}

void
job_delay_is_over(Oid database, int64 job)
{
	JobDelay   *delay;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	delay = find(database, job);
	if (delay != NULL)
		forget(delay - jobs_shared->delays);
	LWLockRelease(jobs_shared->lock);
}
