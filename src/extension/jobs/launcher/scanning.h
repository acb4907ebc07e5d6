/*
 * scanning.h
 *	  What the files of a scanner share: scanner.c, fate.c, deaths.c.
 */
#ifndef INFER_JOBS_SCANNING_H
#define INFER_JOBS_SCANNING_H

#include "launcher.h"

typedef enum Fate
{
	FATE_NONE,						/* it is run, or waits */
	FATE_RESTORED,					/* of another server or installation */
	FATE_CANCELLED,
	FATE_EXPIRED,
	FATE_FAILED,					/* its role cannot run it, or it has ended too many runners */
	FATE_FORGOTTEN					/* ended longer ago than infer.job_retention */
} Fate;

/* ---- scanner.c ---- */

extern TimestampTz scan_time;		/* when it began */
extern char *scan_origin;			/* job_origin() */

/* The next scan is to be then, or earlier. */
extern void scan_again_at(TimestampTz time);

/* A transaction of its own. */
extern void scan_begin(void);
extern void scan_commit(void);

/* false: somebody has a job's lock just now; another scan follows. */
extern bool scan_lock_job(int64 job);

/* ---- fate.c ---- */

/* What becomes of a job, or of one that has ended.  problem, sqlstate: why it has failed. */
extern Fate scan_fate(const JobRecord *record, char **problem, int *sqlstate);
extern Fate scan_fate_of_ended(const JobRecord *record);

/* Has it become that.  One that is forgotten may take several times: true: it is there yet. */
extern bool scan_end_job(JobRecord *record);

/* Whether nobody needs the rows of its query any more. */
extern bool scan_is_over(int64 job);

/* ---- deaths.c ---- */

/* Counts runners' deaths in this database as faults of their jobs, or not. */
extern void scan_deaths(void);

#endif							/* INFER_JOBS_SCANNING_H */
