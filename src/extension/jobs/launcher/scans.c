/*
 * scans.c
 *	  The launcher's scanners: one at a time, databases take turns.
 *
 * What is flagged before a scanner starts, it sees; what is flagged afterwards asks for another one.
 */
#include "postgres.h"

#include "launching.h"

#include "utils/memutils.h"

#define PREPARED_INTERVAL	10000		/* ms between scans while a prepared transaction waits */
#define RETRY_FIRST			1000		/* ms after a scan that failed, then twice that and so on */
#define RETRY_MAX			60000
#define SCAN_TIME			20000		/* ms that a scanner may take, whatever it waits for */

static struct
{
	BackgroundWorkerHandle *handle;	/* NULL: none runs */
	Oid			database;
	uint64		number;
	uint64		prepared_serial;	/* when it was started */
	TimestampTz end_at;				/* then it is told to; 0: it has been */
	uint32		next;				/* of the databases, to begin with */
} scanner;

static void
start_scanner(JobDatabase *database, TimestampTz now)
{
	uint64		number;
	char		name[BGW_MAXLEN];

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	number = ++jobs_shared->scans;
	LWLockRelease(jobs_shared->lock);
	scanner.prepared_serial = job_prepared_serial();

	snprintf(name, sizeof(name), "infer job scanner of database %u", database->oid);
	scanner.handle = launcher_start_process(name, "infer job scanner", "infer_job_scanner_main",
											ObjectIdGetDatum(database->oid), &number, sizeof(number), now);
	if (scanner.handle == NULL)
		return;
	scanner.database = database->oid;
	scanner.number = number;
	scanner.end_at = after_ms(now, SCAN_TIME);
	database->scan = false;
	database->scan_at = 0;
}

/* Copies the report of the scan that has ended, in a context that goes with this round; NULL: it left none. */
static JobReport *
take_report(void)
{
	JobReport  *report = palloc(sizeof(JobReport));
	bool		found;

	LWLockAcquire(jobs_shared->lock, LW_SHARED);
	*report = jobs_shared->report;
	found = report->scan == scanner.number;
	LWLockRelease(jobs_shared->lock);
	return found ? report : NULL;
}

static void
use_report(JobDatabase *database, const JobReport *report, TimestampTz now)
{
	size_t		size = sizeof(JobCandidate) * report->candidates_count;

	database->failures = 0;
	database->due = 0;
	database->truncated = report->truncated;
	database->scan_at = report->scan_at;
	if (report->prepared)
		database->scan_at = earlier(database->scan_at, after_ms(now, PREPARED_INTERVAL));
	job_keep_prepared(database->oid, report->prepared, scanner.prepared_serial);

	launcher_forget_candidates(database);
	if (report->candidates_count == 0)
		return;
	database->candidates = MemoryContextAlloc(TopMemoryContext, size);
	memcpy(database->candidates, report->candidates, size);
	database->candidates_count = report->candidates_count;
}

/* Later again; the database may be gone, or closed. */
static void
scan_failed(JobDatabase *database, TimestampTz now)
{
	int			delay = RETRY_FIRST;

	for (int i = 0; i < database->failures && delay < RETRY_MAX; i++)
		delay *= 2;
	database->failures++;
	database->scan = true;
	database->due = after_ms(now, Min(delay, RETRY_MAX));
	launcher_read_databases(false, now);
}

void
launcher_look_at_scanner(TimestampTz now)
{
	JobDatabase *database;
	JobReport  *report;

	if (scanner.handle == NULL)
		return;
	if (!launcher_has_stopped(scanner.handle))
	{
		if (scanner.end_at != 0 && scanner.end_at <= now)
		{
			TerminateBackgroundWorker(scanner.handle);
			scanner.end_at = 0;
		}
		return;
	}
	pfree(scanner.handle);
	scanner.handle = NULL;
	database = launcher_database(scanner.database);
	report = take_report();
	if (report != NULL)
		use_report(database, report, now);
	else
		scan_failed(database, now);
}

static bool
is_due(const JobDatabase *database, TimestampTz now)
{
	return database->scan && database->due <= now;
}

void
launcher_start_scans(TimestampTz now)
{
	if (scanner.handle != NULL || launcher_process_due() > now)
		return;
	for (int i = 0; i < launcher_databases_count; i++)
		if (launcher_databases[i].closed && is_due(&launcher_databases[i], now))
		{
			launcher_read_databases(false, now);
			break;
		}
	for (int i = 0; i < launcher_databases_count; i++)
	{
		JobDatabase *database = &launcher_databases[scanner.next++ % launcher_databases_count];

		if (!is_due(database, now))
			continue;
		start_scanner(database, now);
		return;
	}
}

bool
launcher_is_scanning(void)
{
	return scanner.handle != NULL;
}

bool
launcher_scan_is_near(TimestampTz now)
{
	bool		near = scanner.handle != NULL && scanner.end_at != 0;

	for (int i = 0; i < launcher_databases_count && !near; i++)
		near = is_due(&launcher_databases[i], now);
	return near;
}

TimestampTz
launcher_next_scan(TimestampTz now)
{
	TimestampTz next = scanner.handle != NULL ? scanner.end_at : 0;

	for (int i = 0; i < launcher_databases_count; i++)
	{
		const JobDatabase *database = &launcher_databases[i];

		if (database->scan && scanner.handle == NULL)
			next = earlier(next, Max(Max(database->due, launcher_process_due()), now));
		next = earlier(next, database->scan_at);
	}
	return next;
}
