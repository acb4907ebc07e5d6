/*
 * launching.h
 *	  What the files of the launcher itself share: launcher.c, databases.c, scans.c, starts.c, process.c.
 *
 * Nouns
 *	database	one that has been flagged, or that was there when the launcher started, and what the last
 *				scan found: candidates, and when the next scan is due
 *	round		what the launcher does each time that it wakes up
 *
 * Times are the wall's; 0 is none.  Everything lies in TopMemoryContext.
 */
#ifndef INFER_JOBS_LAUNCHING_H
#define INFER_JOBS_LAUNCHING_H

#include "launcher.h"

#include "postmaster/bgworker.h"
#include "utils/timestamp.h"

typedef struct JobDatabase
{
	Oid			oid;
	bool		known;				/* by the list that is just being read */
	bool		closed;				/* to connections, when that was read */
	bool		scan;				/* to be scanned, not before due */
	TimestampTz due;
	int			failures;			/* of scans, in a row */
	TimestampTz scan_at;			/* the next scan by the clock */
	bool		truncated;			/* the last one left candidates out */
	int			candidates_count;
	int			candidates_next;	/* those before it have been started */
	JobCandidate *candidates;
} JobDatabase;

static inline TimestampTz
after_ms(TimestampTz from, int ms)
{
	return TimestampTzPlusMilliseconds(from, ms);
}

static inline TimestampTz
earlier(TimestampTz a, TimestampTz b)
{
	return a == 0 ? b : b == 0 ? a : Min(a, b);
}

/* ---- databases.c ---- */

extern JobDatabase *launcher_databases;	/* moves when one is added, or is gone */
extern int	launcher_databases_count;

extern JobDatabase *launcher_database(Oid oid);	/* a new one if need be */
extern void launcher_forget_candidates(JobDatabase *database);

/*
 * Reads pg_database.  Those that are gone are forgotten.  all: those that can be connected to are to be
 * scanned; others wait until they can, as those do whose scan failed.
 */
extern void launcher_read_databases(bool all, TimestampTz now);

/* Fetches what has been flagged, and looks at the clock. */
extern void launcher_look_at_databases(TimestampTz now);

/* ---- process.c: background workers ---- */

/* Starts one that is told to us when it starts and ends; NULL: none was free. */
extern BackgroundWorkerHandle *launcher_start_process(const char *name, const char *type, const char *function, Datum arg,
													  const void *extra, size_t extra_bytes, TimestampTz now);
extern bool launcher_has_stopped(BackgroundWorkerHandle *handle);

/* Until when none is tried to be started, since none was free. */
extern TimestampTz launcher_process_due(void);

/* One may be free. */
extern void launcher_process_freed(void);

/* Nothing waits for one. */
extern void launcher_process_unwanted(void);

/* ---- scans.c ---- */

extern void launcher_look_at_scanner(TimestampTz now);
extern void launcher_start_scans(TimestampTz now);
extern bool launcher_is_scanning(void);
extern bool launcher_scan_is_near(TimestampTz now);	/* one runs, or is to be started at once */
extern TimestampTz launcher_next_scan(TimestampTz now);

/* ---- starts.c: of runners ---- */

extern void launcher_look_at_starting(void);
extern void launcher_start_runners(TimestampTz now);
extern TimestampTz launcher_next_start(TimestampTz now);

#endif							/* INFER_JOBS_LAUNCHING_H */
