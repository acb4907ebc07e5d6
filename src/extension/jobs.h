/*
 * jobs.h
 *	  Bulk jobs: tables scored in the background, and what the rest of the extension sees of them.
 *
 * Nouns
 *	job			a row of infer.job: what is to be computed for which rows, and where it goes
 *	shard		a range of a job's keys, that one runner takes from its first key to its last
 *	runner		a background worker that runs a shard, connected as the role that submitted the job
 *	scanner		a short-lived background worker that reads a database's jobs for the launcher
 *	launcher	the background worker that starts scanners and runners
 *	slot		a runner's place in shared memory
 *
 * jobs/job.h has what the files of jobs/ share.
 */
#ifndef INFER_JOBS_H
#define INFER_JOBS_H

#include "postgres.h"

#include "utils/uuid.h"

extern void infer_jobs_init(void);		/* hooks for shared memory, registers the launcher */

/*
 * At the commit of the current transaction, have the launcher look at this database's jobs (also at
 * those that are to be cancelled).  Cheap, and may be called often.
 */
extern void infer_jobs_changed(void);

/* Columns that are kept fresh: hooks for shared memory and for the ends of transactions. */
extern void infer_fresh_init(void);

/* Another version of a model is active from this transaction's commit on. */
extern void infer_fresh_activated(const pg_uuid_t *model_id);

#endif							/* INFER_JOBS_H */
