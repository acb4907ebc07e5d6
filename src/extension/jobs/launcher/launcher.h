/*
 * launcher.h
 *	  The shared memory of jobs: what launcher, scanner, runners and sessions tell one another.
 *
 * Nouns
 *	slot		a runner's place: reserved by the launcher, attached by the runner, freed as it ends
 *	candidate	a shard that could be run at once
 *	flag		a database that is to be scanned
 *	death		a runner that ended otherwise than in good order, for the scanner to judge
 *	delay		of a job whose runners end before they have begun with it
 *	report		what the scanner found, for the launcher to fetch when it has ended
 *
 * Who may touch what: everything under jobs_shared->lock, but the atomics.  While it is held nothing raises
 * and nothing waits: memory is copied and latches are set.
 */
#ifndef INFER_JOBS_LAUNCHER_H
#define INFER_JOBS_LAUNCHER_H

#include "../job.h"

#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#define JOB_FAULTS_MAX		10			/* in a row; one more and the job has failed */
#define JOB_CANDIDATES_MAX	JOB_SLOTS_MAX	/* of a report: no more could be started */
#define JOB_FLAGS_MAX		128			/* databases; beyond them all are scanned */
#define JOB_DEATHS_MAX		JOB_SLOTS_MAX
#define JOB_DEATH_MESSAGE	256
#define JOB_DELAYS_MAX		256
#define JOB_DELAY_ALL		0			/* instead of a job: those of the database that have no delay of their own */

typedef enum JobSlotState
{
	JOB_SLOT_FREE,
	JOB_SLOT_RESERVED,				/* its runner has been asked for, and is not there yet */
	JOB_SLOT_ATTACHED
} JobSlotState;

typedef struct JobSlot
{
	JobSlotState state;
	uint32		generation;			/* of the reservation: a runner that comes too late knows by it */
	Oid			database;
	Oid			owner;
	int64		job;
	int32		shard;				/* 0: prepares the job, and no other runner of it may start */
	int32		priority;
	TimestampTz submitted;
	TimestampTz started;
	pid_t		pid;				/* of an attached one, and so the following */
	Latch	   *latch;
	JobPhase	phase;
	int64		chunk;
	int			rows;
	pg_atomic_uint32 cancelled;		/* infer.cancel_job has been called */
	pg_atomic_uint32 leave;			/* the slot is wanted back: infer.max_job_workers has been lowered */
	pg_atomic_uint32 make_way;		/* somebody is about to want its database for himself */
} JobSlot;

typedef struct JobCandidate
{
	int64		job;
	int32		shard;
	Oid			owner;
	int32		priority;
	TimestampTz submitted;
} JobCandidate;

typedef struct JobReport
{
	uint64		scan;				/* its number */
	Oid			database;
	bool		prepared;			/* a prepared transaction may bring jobs yet */
	bool		truncated;			/* there were more candidates */
	TimestampTz scan_at;			/* earliest time that changes something; 0: none */
	int			candidates_count;	/* in the order in which they are to start */
	JobCandidate candidates[JOB_CANDIDATES_MAX];
} JobReport;

typedef struct JobPrepared			/* a database where a transaction with jobs has been prepared */
{
	Oid			database;
	uint64		serial;				/* of the last one */
} JobPrepared;

typedef struct JobDeath
{
	Oid			database;
	int64		job;
	int32		shard;
	int32		sqlstate;			/* of the last error that it told the log; 0: none */
	bool		counted;			/* job.faults has it already: the runner had begun */
	char		message[JOB_DEATH_MESSAGE];
} JobDeath;

typedef struct JobDelay
{
	Oid			database;
	int64		job;				/* or JOB_DELAY_ALL */
	int			times;				/* that its runner did not begin, in a row */
	TimestampTz until;
} JobDelay;

typedef struct JobsShared
{
	LWLock	   *lock;
	pid_t		launcher_pid;		/* 0: does not run */
	Latch	   *launcher_latch;
	bool		scan_all;
	int			flags_count;
	Oid			flags[JOB_FLAGS_MAX];
	uint64		prepared_serial;	/* the last one given */
	int			prepared_count;
	JobPrepared prepared[JOB_FLAGS_MAX];	/* those that do not fit are polled only */
	uint64		scans;				/* that were begun since the server's start */
	uint64		starts;				/* of runners, likewise */
	bool		no_worker;			/* max_worker_processes are in use: something waits for one */
	pg_atomic_uint32 waiting;		/* candidates without a slot */
	JobReport	report;				/* of the last scan that ended */
	int			deaths_count;
	JobDeath	deaths[JOB_DEATHS_MAX];
	int			delays_count;
	JobDelay	delays[JOB_DELAYS_MAX];
	JobSlot		slots[JOB_SLOTS_MAX];
} JobsShared;

extern JobsShared *jobs_shared;		/* NULL: not preloaded */

/* ---- notify.c ---- */

extern void infer_jobs_notify_init(void);	/* ProcessUtility hook */

/* The lock that a prepared transaction with jobs holds; false: somebody has it, and wait is false. */
extern bool job_prepared_lock(LOCKMODE mode, bool wait);

/* ---- launcher.c ---- */

extern void infer_job_launcher_init(void);	/* registers it */

/* ---- shared.c: for the launcher ---- */

/* Has the database scanned.  Never raises; sets the launcher's latch. */
extern void job_flag_database(Oid database);

/* A transaction with jobs has been prepared there; one, with jobs or without, has been committed. */
extern void job_flag_prepared(Oid database);
extern void job_prepared_committed(Oid database);

/* What a scan found: whether there are any; if not, none is remembered but those since that serial. */
extern uint64 job_prepared_serial(void);
extern void job_keep_prepared(Oid database, bool prepared, uint64 serial);

/* Slots that are not free. */
extern int	job_slots_taken(void);

/* Whether this shard may not be started: it has a runner, or the job has one that prepares it. */
extern bool job_slot_has_runner(Oid database, int64 job, int32 shard);

/* Whether the job has any. */
extern bool job_has_runner(Oid database, int64 job);

/* A slot for a runner, as the argument of its background worker; false: all are taken. */
extern bool job_slot_reserve(Oid database, const JobCandidate *candidate, Datum *arg);

/* Whether its runner has not come yet. */
extern bool job_slot_is_reserved(Datum arg);

/* Takes it back, unless its runner has come; flagged: and has its database scanned. */
extern void job_slot_release(Datum arg, bool flagged);

/* A new launcher knows nothing of what the last one has started. */
extern void job_slots_release_reserved(void);

/* Has the runners leave that are more than max, those that would start last. */
extern void job_slots_limit(int max);

/* ---- shared.c: for slot.c ---- */

/* The slot of a reservation becomes this process's; NULL: it has been taken back. */
extern JobSlot *job_slot_take(Datum arg);

/* Frees it, and has its database scanned.  died: a death is noted, with that error. */
extern void job_slot_give_back(JobSlot *slot, bool died, int sqlstate, const char *message);

/* ---- shared.c: deaths ---- */

/* A database that is gone. */
extern void job_forget_database(Oid database);

/* The deaths in this database, which are then forgotten. */
extern JobDeath *job_deaths_take(int *count);

/* ---- delays.c ---- */

/* With the lock: a runner has ended before it began with the job; one got on; the database is gone. */
extern void job_delay_note(Oid database, int64 job, TimestampTz now);
extern void job_delay_forget(Oid database, int64 job);
extern void job_delays_forget(Oid database);

/* Without it: before then no runner is to be started for the job; 0, or past: at once. */
extern TimestampTz job_delayed_until(Oid database, int64 job);

/* The jobs that have a delay (or JOB_DELAY_ALL), palloc'd; and one of them has ended, or is gone. */
extern int64 *job_delays_of(Oid database, int *count);
extern void job_delay_is_over(Oid database, int64 job);

#endif							/* INFER_JOBS_LAUNCHER_H */
