/*
 * runner.c
 *	  The loop of a shard: read, compute, write, chunk by chunk.
 *
 * Loop
 *	A session (begin.c) reads chunks and sends them, each in a short transaction, until the pipeline is
 *	full; waits, in no transaction, for the first one; and writes it, with what became of each row, the
 *	shard's counters and its checkpoint, in one transaction.  Rows that came back (items.c) are a chunk
 *	like others whenever they are due.  With nothing left the shard ends (finish.c).
 *
 * Errors
 *	Any error ends the session: what was computed and not written is forgotten, and another session
 *	begins at the checkpoint.  After a fault it waits first, twice as long each time, also where the fault
 *	cannot be noted (a full disk) or was in ending the job.  RUNNER_FAULTS_MAX
 *	faults in a row are one too few to fail the job; locks of others, which a job waits for as long as it
 *	takes, are none.  Other errors are tried once more at once, for they may come of a table that was just
 *	altered, and then fail the job.
 *
 * Invariants
 *	- No transaction, no snapshot and no lock while the engine is waited for, nor while a delay passes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "runner.h"

#define ROWS_FIRST			64
#define DELAY_MAX			60		/* seconds */
#define WATCH_INTERVAL		500		/* ms */

extern PGDLLEXPORT void infer_job_runner_main(Datum arg);

typedef enum Next
{
	NEXT_SESSION,					/* at once */
	NEXT_WAIT,						/* for a session, as long as delay says */
	NEXT_LEAVE						/* the slot */
} Next;

static Runner runner;
static volatile sig_atomic_t interrupted;	/* by runner_check, or interrupt_statement */
static bool was_to_end;				/* when the last session began, which has not ended it */

/* ---- being ended ---- */

static bool
is_to_end(void)
{
	return job_slot_is_cancelled() || (runner.expires != 0 && GetCurrentTimestamp() >= runner.expires);
}

void
runner_look_anew(void)
{
	interrupted = true;
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("job " INT64_FORMAT " is to be looked at anew", runner.job)));
	pg_unreachable();
}

void
runner_check(void)
{
	CHECK_FOR_INTERRUPTS();
	if (runner.interruptible && (is_to_end() || job_database_is_wanted()))
		runner_look_anew();
}

/* Not at once: whoever wants the database has its lock by the next time, and then a session does not begin again. */
static bool
is_to_make_way(void)
{
	static volatile bool seen = false;

	if (!job_slot_makes_way())
		return false;
	seen = !seen;
	if (seen)
		return false;
	job_slot_made_way();
	return true;
}

/* The same for statements that run long; from a signal handler. */
static void
interrupt_statement(void)
{
	if (proc_exit_inprogress)
		return;						/* the slot may have been given back */
	if (!runner.interruptible || !(is_to_end() || is_to_make_way()))
		return;
	interrupted = true;
	QueryCancelPending = true;
	InterruptPending = true;
}

/* ---- the shard ---- */

/* What infer.jobs says why it waits, or has failed. */
static char *
explain(const ErrorData *error)
{
	return error->detail != NULL ? psprintf("%s (%s)", error->message, error->detail) : pstrdup(error->message);
}

/* What is known of the shard when it is taken up again, by this runner or another one. */
static void
note_shard(TimestampTz until)
{
	JobShard   *shard = job_shard_get(runner.job, runner.shard);

	if (shard == NULL || shard->completed || (shard->faults == runner.faults && shard->resume_at == until))
		return;
	shard->faults = runner.faults;
	shard->resume_at = until;
	job_shard_update(shard);
}

/* Unless the job has ended or is about to, says what it waits for; until: nothing is to be done before, if it leaves. */
static void
note_wait(const ErrorData *error, TimestampTz until)
{
	JobRecord  *record;

	runner_begin_transaction(&runner);
	if (job_lock(runner.job, false) && (record = job_get(runner.job)) != NULL &&
		(record->state == JOB_VALIDATING || record->state == JOB_IN_PROGRESS))
	{
		if (error != NULL)
		{
			record->sqlstate = pstrdup(unpack_sql_state(error->sqlerrcode));
			record->message = explain(error);
		}
		record->faults = runner.shard > 0 ? 0 : runner.faults;
		record->resume_at = runner.shard > 0 ? 0 : until;
		job_update(record);
		note_shard(until);
		runner.progressed = false;
	}
	infer_jobs_changed();
	runner_commit(&runner);
}

static void
reload(void)
{
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
}

/* In good order: that it has not got on yet is no fault. */
static Next
leave(void)
{
	runner.interruptible = false;
	if (runner.begun && !runner.progressed)
		note_wait(NULL, 0);
	return NEXT_LEAVE;
}

static Next
run_shard(void)
{
	runner.interruptible = true;
	for (;;)
	{
		reload();
		if (job_slot_must_leave())
			return leave();			/* before what would have a new session begin for that */
		runner_check();
		runner_fill_pipeline(&runner);
		if (runner.chunks_count > 0)
		{
			if (!runner_finish_chunk(&runner))
				return NEXT_LEAVE;
		}
		else if (runner.items_pending > 0)
		{
			runner.wait_until = runner.items_due;
			return NEXT_WAIT;
		}
		else
		{
			runner.interruptible = false;
			runner_finish(&runner);
			return NEXT_LEAVE;
		}
	}
}

/* ---- sessions ---- */

static void
begin_session(void)
{
	memset(&runner.run, 0, sizeof(runner.run));
	runner.run.context = AllocSetContextCreate(TopMemoryContext, "infer job", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(runner.run.context);
	runner.interruptible = false;
	runner.read_all = runner.items_sent = false;
	runner.chunks_count = 0;
	runner.items_due = 0;
	runner.items_after = 0;
	INSTR_TIME_SET_ZERO(runner.written);
}

static void
end_session(void)
{
	MemoryContext context = runner.run.context;

	runner.interruptible = false;
	QueryCancelPending = false;
	for (int i = 0; i < runner.chunks_count; i++)
		if (runner.chunks[i]->careful)
			runner.rows_careful += runner.chunks[i]->rows_count;
	runner.chunks_count = 0;
	MemoryContextSwitchTo(TopMemoryContext);
	memset(&runner.run, 0, sizeof(runner.run));
	MemoryContextDelete(context);
}

static Next
fail_job(const ErrorData *error)
{
	runner_end_job(&runner, JOB_FAILED, pstrdup(unpack_sql_state(error->sqlerrcode)), explain(error));
	return NEXT_LEAVE;
}

/* Twice as long as the last time; how many seconds. */
static int
wait_longer(void)
{
	int			delay = 1;

	for (int i = 0; i < runner.delays && delay < DELAY_MAX; i++)
		delay *= 2;
	delay = Min(delay, DELAY_MAX);
	runner.delays++;
	runner.wait_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay * 1000);
	return delay;
}

static Next
put_off(const ErrorData *error)
{
	int			delay;

	if (!job_error_is_of_others(error) && ++runner.faults > RUNNER_FAULTS_MAX)
		return fail_job(error);
	delay = wait_longer();
	runner.rows_next = Max(runner.rows_next / 4, 1);
	ereport(LOG,
			(errcode(error->sqlerrcode),
			 errmsg("infer: job " INT64_FORMAT " waits %d s: %s", runner.job, delay, error->message),
			 error->detail != NULL ? errdetail("%s", error->detail) : 0));
	note_wait(error, 0);
	return NEXT_WAIT;
}

static Next
after_error(const ErrorData *error)
{
	if (interrupted || runner.altered)
		return NEXT_SESSION;
	if (error->sqlerrcode == ERRCODE_INFER_MODEL_DISABLED)
		return fail_job(error);
	if (job_error_is_transient(error->sqlerrcode))
		return put_off(error);
	return runner.errors++ == 0 ? NEXT_SESSION : fail_job(error);
}

/* A session, from its begin to its end; its error is returned, in TopMemoryContext. */
static Next
run_session(ErrorData **error)
{
	volatile Next next = NEXT_LEAVE;

	*error = NULL;
	interrupted = 0;				/* judge() asks for both */
	runner.altered = false;
	runner.wait_until = 0;
	was_to_end = is_to_end();
	begin_session();
	PG_TRY();
	{
		if (job_slot_must_leave())
			next = leave();
		else if (runner_open(&runner))
			next = run_shard();
	}
	PG_CATCH();
	{
		runner.interruptible = false;
		MemoryContextSwitchTo(TopMemoryContext);
		*error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	end_session();
	return next;
}

/* ---- waiting ---- */

/* false: the slot is wanted for somebody else, and there is time. */
static bool
sleep_on(void)
{
	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		long		left = runner.wait_until > now ? (runner.wait_until - now) / 1000 + 1 : 0;

		CHECK_FOR_INTERRUPTS();
		reload();
		if (left == 0 || (is_to_end() && !was_to_end))
			return true;
		if (job_slot_must_leave() || (left > 1000 && job_slot_is_wanted()))
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, Min(left, 1000),
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

/* Whether to go on here. */
static bool
sit_out(void)
{
	bool		go_on;

	if (runner.begun)
		job_slot_phase(JOB_PHASE_READING, 0, 0);	/* of no chunk */
	pgstat_report_activity(STATE_IDLE, NULL);
	infer_client_stay(false);
	go_on = sleep_on();
	infer_client_stay(true);
	if (go_on)
		return true;
	note_wait(NULL, runner.wait_until);
	return false;
}

/* ---- the process ---- */

static void
begin_process(Datum arg)
{
	Oid			database;
	char	   *title;

	job_slot_attach(arg, &database, &runner.owner, &runner.job, &runner.shard);
	pqsignal(SIGTERM, die);
	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, runner.owner, INFER_WORKER_FLAGS);

	title = psprintf("infer job " INT64_FORMAT, runner.job);
	SetConfigOption("application_name", title, PGC_USERSET, PGC_S_SESSION);
	pgstat_report_appname(title);
	enable_timeout_every(RegisterTimeout(USER_TIMEOUT, interrupt_statement), GetCurrentTimestamp(), WATCH_INTERVAL);
	infer_client_watch(runner_check);
	infer_client_stay(true);
	runner.rows_next = ROWS_FIRST;
}

/* The session's error becomes what is to be done about it, which may fail itself. */
static Next
judge(const ErrorData *error)
{
	volatile Next next = NEXT_WAIT;

	begin_session();
	PG_TRY();
	{
		next = after_error(error);
	}
	PG_CATCH();
	{
		/* the job is locked, or its tables cannot be read, or written for want of room: later again */
		MemoryContextSwitchTo(runner.run.context);
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		if (runner.wait_until == 0)
			(void) wait_longer();
	}
	PG_END_TRY();
	end_session();
	return next;
}

void
infer_job_runner_main(Datum arg)
{
	Next		next;

	begin_process(arg);
	for (;;)
	{
		ErrorData  *error;

		next = run_session(&error);
		if (error != NULL)
		{
			next = judge(error);
			FreeErrorData(error);
		}
		if (next == NEXT_LEAVE || (next == NEXT_WAIT && !sit_out()))
			break;
	}
	proc_exit(0);
}
