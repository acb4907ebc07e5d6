/*
 * pass.c
 *	  In the supervisor: a worker for each database of the list, one after the other.
 *
 * Nothing is tried for ever: ATTEMPTS_MAX times in a pass.
 */
#include "postgres.h"

#include "postmaster/bgworker.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "internal.h"

#define POLL_INTERVAL	50			/* ms between looks at a worker that runs */
#define RETRY_FIRST		500			/* ms, then twice that and so on */
#define RETRY_MAX		60000		/* ms */
#define ATTEMPTS_MAX	10			/* for one database in one pass: some four minutes */

typedef struct Database
{
	char		name[NAMEDATALEN];
	bool		wanted;				/* by this pass, and no worker has been started */
	int			attempts;			/* of this pass */
	TimestampTz due;
} Database;

static Database *databases = NULL;
static int	databases_count = 0;
static BackgroundWorkerHandle *running = NULL;
static Database *running_in;

/* Each database of the list once, in its order. */
static void
read_databases(void)
{
	const char *p = infer_preload;
	const char *problem;
	Entry		entry;
	bool		first = true;

	while (preload_next_entry(&p, first, &entry, &problem) == ENTRY_FOUND)
	{
		int			i = 0;

		first = false;
		while (i < databases_count && strcmp(databases[i].name, entry.database) != 0)
			i++;
		if (i < databases_count)
			continue;
		databases_count++;
		if (databases == NULL)
			databases = MemoryContextAllocZero(TopMemoryContext, sizeof(Database));
		else
			databases = repalloc(databases, databases_count * sizeof(Database));
		memset(&databases[i], 0, sizeof(Database));
		strlcpy(databases[i].name, entry.database, NAMEDATALEN);
	}
}

void
infer_preload_begin(void)
{
	if (databases == NULL)
		read_databases();
	for (int i = 0; i < databases_count; i++)
	{
		databases[i].wanted = true;
		databases[i].attempts = 0;
		databases[i].due = 0;
	}
}

/* Later again, if not too often; returns whether. */
static bool
put_off(Database *database, TimestampTz now)
{
	int			delay = RETRY_FIRST;

	for (int i = 0; i < database->attempts && delay < RETRY_MAX; i++)
		delay *= 2;
	database->wanted = ++database->attempts < ATTEMPTS_MAX;
	database->due = TimestampTzPlusMilliseconds(now, Min(delay, RETRY_MAX));
	return database->wanted;
}

static void
start_worker(Database *database, TimestampTz now)
{
	BackgroundWorker worker;
	MemoryContext old;
	bool		started;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "infer", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "infer_preload_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, WORKER_TYPE " %s", database->name);
	strlcpy(worker.bgw_type, WORKER_TYPE, BGW_MAXLEN);
	strlcpy(worker.bgw_extra, database->name, BGW_EXTRALEN);

	old = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &running);
	MemoryContextSwitchTo(old);
	database->wanted = false;
	if (started)
	{
		running_in = database;
		return;
	}
	running = NULL;
	if (!put_off(database, now))
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("infer: gave up preloading models of database \"%s\"", database->name),
				 errdetail("No background worker slot was free %d times.", ATTEMPTS_MAX),
				 errhint("Raise max_worker_processes.")));
	else if (database->attempts == 1)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("infer: models of database \"%s\" are not preloaded yet", database->name),
				 errdetail("No background worker slot is free."),
				 errhint("Raise max_worker_processes.")));
}

/* Whether the worker that ended asked for another. */
static bool
take_retry(void)
{
	bool		retry;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	retry = infer_shared->preload_retry;
	infer_shared->preload_retry = false;
	LWLockRelease(infer_shared->lock);
	return retry;
}

static bool
worker_ended(TimestampTz now)
{
	pid_t		pid;

	if (GetBackgroundWorkerPid(running, &pid) != BGWH_STOPPED)
		return false;
	pfree(running);
	running = NULL;
	if (take_retry() && !put_off(running_in, now))
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("infer: gave up preloading models of database \"%s\"", running_in->name),
				 errdetail("It was in use otherwise %d times.", ATTEMPTS_MAX),
				 errhint("Load them with infer.load_model().")));
	return true;
}

long
infer_preload_round(TimestampTz now)
{
	long		wait = -1;

	if (running != NULL && !worker_ended(now))
		return POLL_INTERVAL;
	for (int i = 0; i < databases_count; i++)
	{
		Database   *database = &databases[i];

		if (!database->wanted)
			continue;
		if (database->due <= now)
			start_worker(database, now);
		if (running != NULL)
			return POLL_INTERVAL;
		if (database->wanted)
		{
			long		left = TimestampDifferenceMilliseconds(now, database->due);

			wait = wait < 0 ? left : Min(wait, left);
		}
	}
	return wait;
}
