/*
 * runner.h
 *	  What the files of a runner share.
 *
 * Nouns
 *	runner		the process, from its start until it leaves its slot
 *	session		what it has read and prepared of its shard: made anew after each error, since then nothing
 *				in memory is certain, and everything is in the tables
 *	fault		an error that may be gone next time: the session begins again after a while, from the
 *				checkpoint
 *	pipeline	chunks that were read and sent, and are not yet written, in their order
 */
#ifndef INFER_JOBS_RUNNER_H
#define INFER_JOBS_RUNNER_H

#include "../job.h"

#define RUNNER_FAULTS_MAX	10		/* in a row; one more and the job has failed */
#define RUNNER_FAILURES_SQLSTATE	"53400"
#define RUNNER_FAILURES_MESSAGE		"more items have failed than max_failures allows"
#define RUNNER_PIPELINE		3		/* chunks: one is written, one computed, one waits */

typedef struct Runner
{
	/* of the process */
	int64		job;
	int32		shard;				/* 0: its job has none yet */
	Oid			owner;
	char	   *search_path;		/* in TopMemoryContext, as the next two; NULL: not known yet */
	char	   *time_zone;			/* NULL: the role's own */
	char	   *date_style;			/* likewise; dates are written as ISO, and read in this order */
	bool		begun;				/* its start has been counted */
	bool		interruptible;		/* what runs may be ended by cancel and expiry */
	TimestampTz expires;			/* 0: never */
	int			rows_next;			/* of the next chunk */
	int			rows_careful;		/* that are to be read next: an engine died while it computed them */
	double		rows_rate;			/* per second, of the last chunks; 0: not known */
	int			faults;				/* in a row */
	int			delays;				/* in a row, of faults and locks */
	int			errors;				/* others, likewise */
	TimestampTz wait_until;
	bool		progressed;			/* and the job's record says so */
	Jsonb	   *engines;			/* that were noted, in TopMemoryContext: see job_note_engine */

	/* of the session, in run.context */
	JobRun		run;
	bool		plan_stale;			/* a table of the plan may have changed */
	bool		altered;			/* it has, which ends the session: no error of the job's */
	bool		read_all;			/* the last chunk has been sent */
	int			chunks_count;		/* the pipeline */
	JobChunk   *chunks[RUNNER_PIPELINE];
	int64		chunks_last;		/* number of the last one */
	bool		items_sent;			/* one of them is of items */
	int64		items_pending;
	TimestampTz items_due;			/* none of them is due before */
	int64		items_after;		/* the next ones are looked for behind this one */
	instr_time	written;			/* when the last chunk was; zero: none was */
} Runner;

/* ---- transaction.c ---- */

/*
 * A transaction of the runner, as the job's owner under the search_path that it was submitted with; and its
 * end.  The memory context stays what it was.
 */
extern void runner_begin_transaction(Runner *runner);
extern void runner_commit(Runner *runner);

/* ---- pipeline.c ---- */

/* Reads and sends chunks until it is full, or there is nothing to be read just now. */
extern void runner_fill_pipeline(Runner *runner);

/* Waits for its first chunk and writes it; false: the job has failed. */
extern bool runner_finish_chunk(Runner *runner);

/* ---- runner.c ---- */

/* Raises if the job is to be left or looked at anew (cancelled, expired). */
extern void runner_check(void);

/* Ends the session, and another one looks at the job anew. */
pg_noreturn extern void runner_look_anew(void);

/* ---- begin.c ---- */

/*
 * What the tables say of the job, and the session; false: there is nothing to do (any more).  In no transaction.
 */
extern bool runner_open(Runner *runner);

/* Locks what the plan is about, in a transaction: it is as the plan says until its end. */
extern void runner_lock_plan(Runner *runner, bool write);

/* ---- reading.c: as job_read and job_read_items, but rows that cannot be read have failed ---- */

extern void runner_read(Runner *runner, JobChunk *chunk, int rows_max);
extern void runner_read_items(Runner *runner, JobChunk *chunk, JobItem *items, int items_count);	/* maybe fewer */

/* ---- finish.c ---- */

/* The shard has no row left: it has ended, and if it was the last one, the job. */
extern void runner_finish(Runner *runner);

/* The job is in JOB_FINALIZING. */
extern void runner_finalize(Runner *runner);

/* Unless it has ended otherwise. */
extern void runner_end_job(Runner *runner, JobState state, const char *sqlstate, const char *message);

/* Whether more have failed than the request allows.  In a transaction. */
extern bool runner_has_failed(Runner *runner);

/* ---- items.c ---- */

/* Settles a row that was written, or not: items, counters, digests. */
extern void runner_settle_row(Runner *runner, JobRow *row, TimestampTz now);

/* The items that are due, at most so many; they lie in the current memory context. */
extern JobItem *runner_due_items(Runner *runner, int max, int *count);

#endif							/* INFER_JOBS_RUNNER_H */
