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
 *	begins at the checkpoint.  After a fault it waits first, twice as long each time.  RUNNER_FAULTS_MAX
 *	faults in a row are one too few to fail the job; locks of others, which a job waits for as long as it
 *	takes, are none.  Other errors are tried once more at once, for they may come of a table that was just
 *	altered, and then fail the job.
 *
 * Engines that die
 *	Rows that an engine computed as it died are sent again in small chunks (rows_careful), so that few of
 *	them need run one at a time to find one that ends engines.  Most of the time none does.
 *
 * Invariants
 *	- No transaction, no snapshot and no lock while the engine is waited for, nor while a delay passes.
 *	- Memory is of the chunks in the pipeline, each with a context of its own, and of nothing that grows
 *	  with rows.
 *	- A chunk takes about a second from one commit to the next, or has ROWS_MAX rows: its rows follow the rate
 *	  of those before.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "runner.h"

#define ROWS_FIRST			64
#define ROWS_MAX			2048	/* more take memory and are no faster */
#define CHUNK_SECONDS		1.0
#define RATE_NEW			0.3		/* weight of the last chunk's rate */
#define ITEMS_MAX			1000	/* of a chunk */
#define ITEMS_PENDING_MAX	10000	/* beyond, nothing new is read */
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

/* The same for statements that run long; from a signal handler. */
static void
interrupt_statement(void)
{
	if (!runner.interruptible || !is_to_end())
		return;
	interrupted = true;
	QueryCancelPending = true;
	InterruptPending = true;
}

/* ---- transactions ---- */

typedef struct Setting
{
	const char *name;
	const char *value;
} Setting;

/* Whatever the role's settings say, and triggers leave behind. */
static const Setting settings[] = {
	{"bytea_output", "hex"},
	{"datestyle", "ISO"},
	{"default_transaction_deferrable", "off"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"extra_float_digits", "1"},
	{"infer.on_error", "error"},
	{"infer.request_class", "job"},
	{"infer.timeout", "0"},
	{"intervalstyle", "postgres"},
	{"jit", "off"},
	{"lock_timeout", "1s"},
	{"row_security", "on"},
	{"statement_timeout", "0"},
#ifdef INFER_HAS_TRANSACTION_TIMEOUT
	{"transaction_timeout", "0"},
#endif
};

static void
set_option(const char *name, const char *value)
{
	SetConfigOption(name, value, PGC_USERSET, PGC_S_SESSION);
}

static void
set_options(void)
{
	for (int i = 0; i < lengthof(settings); i++)
		set_option(settings[i].name, settings[i].value);
}

/* In a transaction. */
static void
set_identity(const Runner *of)
{
	if (GetSessionUserId() != of->owner)
		SetSessionAuthorization(of->owner, superuser_arg(of->owner));
	if (GetUserId() != of->owner)
		set_option("role", "none");
	if (of->search_path != NULL && strcmp(of->search_path, namespace_search_path) != 0)
		set_option("search_path", of->search_path);
	if (of->time_zone != NULL && strcmp(of->time_zone, GetConfigOption("timezone", false, false)) != 0)
		set_option("timezone", of->time_zone);
	if (of->date_style != NULL)
		set_option("datestyle", of->date_style);
}

void
runner_begin_transaction(Runner *of)
{
	MemoryContext context = CurrentMemoryContext;

	set_options();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	set_identity(of);
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(context);
}

void
runner_commit(Runner *of)
{
	MemoryContext context = CurrentMemoryContext;

	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	(void) pgstat_report_stat(false);
}

/* ---- reading ---- */

static JobChunk *
make_chunk(bool of_items)
{
	MemoryContext context = AllocSetContextCreate(runner.run.context, "infer job chunk", ALLOCSET_DEFAULT_SIZES);
	JobChunk   *chunk = MemoryContextAllocZero(context, sizeof(JobChunk));

	chunk->context = context;
	chunk->number = ++runner.chunks_last;
	chunk->of_items = of_items;
	chunk->careful = runner.rows_careful > 0;
	INSTR_TIME_SET_CURRENT(chunk->begun);
	return chunk;
}

static void
read_rows(JobChunk *chunk)
{
	int			count;
	JobItem    *items;

	int			rows_max = chunk->careful ? Min(runner.rows_next, INFER_ROWS_MARKED) : runner.rows_next;

	if (!chunk->of_items)
	{
		runner_read(&runner, chunk, rows_max);
		return;
	}
	items = runner_due_items(&runner, Min(rows_max, ITEMS_MAX), &count);
	runner_read_items(&runner, chunk, items, count);
}

static JobChunk *
read_chunk(bool of_items)
{
	JobChunk   *chunk = make_chunk(of_items);

	job_slot_phase(JOB_PHASE_READING, chunk->number, 0);
	runner_begin_transaction(&runner);
	runner_lock_plan(&runner, false);
	job_model_check(runner.run.plan);
	MemoryContextSwitchTo(chunk->context);
	read_rows(chunk);
	INSTR_TIME_SET_CURRENT(chunk->read_time);
	INSTR_TIME_SUBTRACT(chunk->read_time, chunk->begun);
	job_compute_fill(&runner.run, chunk);
	if (chunk->is_cut && !of_items)
		job_read_back(&runner.run, &chunk->rows[chunk->rows_count - 1]);
	MemoryContextSwitchTo(runner.run.context);
	runner_commit(&runner);
	runner.rows_careful -= Min(runner.rows_careful, chunk->rows_count);
	return chunk;
}

static bool
may_read_on(void)
{
	return !runner.read_all && runner.items_pending < ITEMS_PENDING_MAX;
}

static bool
items_are_due(void)
{
	return runner.items_pending > 0 && !runner.items_sent && runner.items_due <= GetCurrentTimestamp();
}

static void
push(JobChunk *chunk)
{
	runner.chunks[runner.chunks_count++] = chunk;
	if (chunk->of_items)
		runner.items_sent = true;
	else
		runner.read_all = chunk->last;
	pgstat_report_activity(STATE_IDLE, NULL);	/* it may have to wait for the engine */
	job_compute_send(&runner.run, chunk);
	pgstat_report_activity(STATE_RUNNING, NULL);
}

static void
fill_pipeline(void)
{
	while (runner.chunks_count < RUNNER_PIPELINE)
	{
		bool		of_items = items_are_due();
		JobChunk   *chunk;

		if (!of_items && !may_read_on())
			return;
		runner_check();
		chunk = read_chunk(of_items);
		if (chunk->rows_count > 0 || (chunk->last && !of_items))
			push(chunk);
		else
		{
			MemoryContextDelete(chunk->context);
			if (runner.chunks_count > 0)
				return;				/* what was computed waits to be written */
		}
	}
}

/* ---- computing ---- */

/* Those of the shard may lie in the session's context, which ends before the process does. */
static void
note_engine(void)
{
	JobShard   *shard = runner.run.shard;
	const Jsonb *known = shard->engines;

	job_note_engine(shard, TopMemoryContext);
	if (shard->engines != known)
		runner.engines = shard->engines;
}

static void
wait_for(JobChunk *chunk)
{
	InferSiteCounters before;
	InferSiteCounters after;

	job_slot_phase(JOB_PHASE_COMPUTING, chunk->number, chunk->rows_count);
	job_compute_counters(&runner.run, &before);
	pgstat_report_activity(STATE_IDLE, NULL);
	job_compute_wait(&runner.run, chunk);
	pgstat_report_activity(STATE_RUNNING, NULL);
	job_compute_counters(&runner.run, &after);
	chunk->used.tokens = after.tokens - before.tokens;
	chunk->used.prepare_nsec = after.prepare_nsec - before.prepare_nsec;
	chunk->used.queue_nsec = after.queue_nsec - before.queue_nsec;
	chunk->used.device_nsec = after.device_nsec - before.device_nsec;
	if (chunk->requests_count > 0)
		note_engine();
}

/* Of the engine rather than of a row. */
static bool
is_of_engine(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_INFER_ENGINE_UNAVAILABLE || error->sqlerrcode == ERRCODE_INFER_BUSY;
}

/* Of the chunk's rows, how many there are up to the last that an engine computed as it died. */
static int
rows_lost(const JobChunk *chunk)
{
	int			rows = chunk->rows_count;

	while (rows > 0 && (chunk->rows[rows - 1].outcome != JOB_ROW_TRANSIENT ||
						chunk->rows[rows - 1].error->sqlerrcode != ERRCODE_INFER_ENGINE_UNAVAILABLE))
		rows--;
	return rows;
}

/*
 * A chunk none of whose rows could be computed, for reasons that will pass, is one fault, and nothing is
 * recorded of its rows.  A row by itself, or one that has come back, may be the reason: it is recorded.
 */
static void
check_computed(const JobChunk *chunk)
{
	const JobRow *failed = NULL;
	int			rows = rows_lost(chunk);

	if (rows > 0 && !chunk->careful)
	{
		runner.rows_careful = Max(runner.rows_careful, rows);
		ReThrowError(chunk->rows[rows - 1].error);
	}
	rows = 0;
	for (int i = 0; i < chunk->rows_count; i++)
	{
		const JobRow *row = &chunk->rows[i];

		if (row->outcome == JOB_ROW_COMPUTED || row->outcome == JOB_ROW_FAILED)
			return;
		if (row->outcome != JOB_ROW_TRANSIENT)
			continue;
		failed = row;
		rows++;
	}
	if (failed != NULL && (is_of_engine(failed->error) || (rows > 1 && !chunk->of_items)))
		ReThrowError(failed->error);
}

/* ---- writing ---- */

/* The job is still to be done; others end it without asking. */
static void
check_state(void)
{
	JobRecord  *record = job_get(runner.job);

	if (record == NULL || record->state != JOB_IN_PROGRESS)
		runner_look_anew();
}

static void
set_checkpoint(const JobChunk *chunk)
{
	JobKey	   *checkpoint = &runner.run.shard->checkpoint;
	MemoryContext old = MemoryContextSwitchTo(runner.run.context);

	for (int i = 0; i < checkpoint->count; i++)
		pfree(checkpoint->texts[i]);
	if (checkpoint->count > 0)
		pfree(checkpoint->texts);
	job_key_make(runner.run.plan, chunk->rows[chunk->rows_count - 1].keys, checkpoint);
	MemoryContextSwitchTo(old);
}

static void
count_times(JobShard *shard, const JobChunk *chunk)
{
	shard->tokens += chunk->used.tokens;
	shard->read_time += INSTR_TIME_GET_MILLISEC(chunk->read_time);
	shard->prepare_time += chunk->used.prepare_nsec / 1e6;
	shard->queue_time += chunk->used.queue_nsec / 1e6;
	shard->compute_time += chunk->used.device_nsec / 1e6;
	shard->write_time += INSTR_TIME_GET_MILLISEC(chunk->write_time);
}

/* Returns whether rows of it have failed. */
static bool
settle(JobChunk *chunk)
{
	JobShard   *shard = runner.run.shard;
	int64		failed = shard->failed;
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < chunk->rows_count; i++)
		runner_settle_row(&runner, &chunk->rows[i], now);
	if (!chunk->of_items)
	{
		if (chunk->rows_count > 0)
			set_checkpoint(chunk);
		shard->read_to_end = chunk->last;
	}
	shard->chunks++;
	shard->rows_per_second = runner.rows_rate > 0 ? runner.rows_rate : -1;
	count_times(shard, chunk);
	shard->updated = now;
	job_shard_update(shard);
	return shard->failed > failed;
}

/* Whatever kept the job from getting on does not any more. */
static void
note_progress(void)
{
	JobRecord  *record;

	if (runner.progressed || !job_lock(runner.job, false))
		return;
	record = job_get(runner.job);
	if (record != NULL && (record->faults != 0 || record->message != NULL))
	{
		record->faults = 0;
		record->sqlstate = record->message = NULL;
		job_update(record);
	}
	runner.progressed = true;
}

/* Whether so many rows have failed that the job has. */
static bool
write_chunk(JobChunk *chunk)
{
	instr_time	begun;
	bool		too_many = false;

	job_slot_phase(JOB_PHASE_WRITING, chunk->number, chunk->rows_count);
	INSTR_TIME_SET_CURRENT(begun);
	runner_begin_transaction(&runner);
	MemoryContextSwitchTo(chunk->context);
	runner_lock_plan(&runner, true);
	check_state();
	job_compute_collect(&runner.run, chunk);
	check_computed(chunk);
	job_write(&runner.run, chunk);
	INSTR_TIME_SET_CURRENT(chunk->write_time);
	INSTR_TIME_SUBTRACT(chunk->write_time, begun);
	if (settle(chunk))
	{
		job_fresh_failed(&runner.run, chunk);
		too_many = runner_has_failed(&runner);
	}
	note_progress();
	MemoryContextSwitchTo(runner.run.context);
	runner_commit(&runner);
	runner.faults = runner.delays = runner.errors = 0;
	return too_many;
}

static JobChunk *
shift(void)
{
	JobChunk   *chunk = runner.chunks[0];

	runner.chunks_count--;
	memmove(runner.chunks, runner.chunks + 1, sizeof(JobChunk *) * runner.chunks_count);
	return chunk;
}

/* With nothing else left, many items (of infer.retry_job) are to come in chunks that are worth it. */
static void
adapt_to_items(const JobChunk *chunk, double seconds)
{
	if (runner.read_all && chunk->rows_count >= runner.rows_next && seconds < CHUNK_SECONDS / 2)
		runner.rows_next *= 2;
}

/* How many rows the next chunk is to have, after this one has been written. */
static void
adapt(const JobChunk *chunk)
{
	instr_time	now;
	instr_time	taken;
	double		rate;

	INSTR_TIME_SET_CURRENT(now);
	taken = now;
	if (INSTR_TIME_GET_DOUBLE(chunk->begun) > INSTR_TIME_GET_DOUBLE(runner.written))
		INSTR_TIME_SUBTRACT(taken, chunk->begun);
	else
		INSTR_TIME_SUBTRACT(taken, runner.written);
	runner.written = now;
	if (chunk->of_items)
		adapt_to_items(chunk, INSTR_TIME_GET_DOUBLE(taken));
	if (chunk->of_items || chunk->rows_count == 0)
		return;
	rate = chunk->rows_count / Max(INSTR_TIME_GET_DOUBLE(taken), 1e-6);
	if (runner.rows_rate > 0)
		rate = runner.rows_rate + RATE_NEW * (rate - runner.rows_rate);
	runner.rows_rate = rate;
	runner.rows_next = Max(Min(Min(rate * CHUNK_SECONDS, runner.rows_next * 2.0), ROWS_MAX), 1);
}

/* ---- the shard ---- */

/* For the first chunk in the pipeline; false: the job has failed. */
static bool
finish_chunk(void)
{
	JobChunk   *chunk = runner.chunks[0];

	wait_for(chunk);
	if (write_chunk(chunk))
	{
		runner.interruptible = false;
		runner_end_job(&runner, JOB_FAILED, RUNNER_FAILURES_SQLSTATE, RUNNER_FAILURES_MESSAGE);
		return false;
	}
	(void) shift();
	if (chunk->of_items)
		runner.items_sent = false;
	adapt(chunk);
	MemoryContextDelete(chunk->context);
	return true;
}

/* What infer.jobs says why it waits, or has failed. */
static char *
explain(const ErrorData *error)
{
	return error->detail != NULL ? psprintf("%s (%s)", error->message, error->detail) : pstrdup(error->message);
}

/* With the job in progress, says what it waits for; until: nothing is to be done before, if it leaves. */
static void
note_wait(const ErrorData *error, TimestampTz until)
{
	JobRecord  *record;

	runner_begin_transaction(&runner);
	if (job_lock(runner.job, false) && (record = job_get(runner.job)) != NULL && record->state == JOB_IN_PROGRESS)
	{
		if (error != NULL)
		{
			record->sqlstate = pstrdup(unpack_sql_state(error->sqlerrcode));
			record->message = explain(error);
		}
		record->faults = runner.faults;
		record->resume_at = until;
		job_update(record);
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
	if (!runner.progressed)
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
		fill_pipeline();
		if (runner.chunks_count > 0)
		{
			if (!finish_chunk())
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
	runner.run_of_keys = NULL;
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

static bool
is_of_locks(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE || sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ||
		sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE || sqlerrcode == ERRCODE_OBJECT_IN_USE;
}

static Next
fail_job(const ErrorData *error)
{
	runner_end_job(&runner, JOB_FAILED, pstrdup(unpack_sql_state(error->sqlerrcode)), explain(error));
	return NEXT_LEAVE;
}

static Next
put_off(const ErrorData *error)
{
	int			delay = 1;

	if (!is_of_locks(error->sqlerrcode) && ++runner.faults > RUNNER_FAULTS_MAX)
		return fail_job(error);
	for (int i = 0; i < runner.delays && delay < DELAY_MAX; i++)
		delay *= 2;
	runner.delays++;
	runner.rows_next = Max(runner.rows_next / 4, 1);
	runner.wait_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), Min(delay, DELAY_MAX) * 1000);
	ereport(LOG,
			(errcode(error->sqlerrcode),
			 errmsg("infer: job " INT64_FORMAT " waits %d s: %s", runner.job, Min(delay, DELAY_MAX), error->message),
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
	begin_session();
	PG_TRY();
	{
		if (runner_open(&runner))
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
		if (left == 0 || is_to_end())
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
	set_option("application_name", title);
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
		/* the catalogue cannot be read, or the job is locked: later again */
		MemoryContextSwitchTo(runner.run.context);
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		runner.wait_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 1000);
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
