/*
 * pipeline.c
 *	  Chunks on their way: read and sent, computed, written.
 *
 * A chunk is read and its rows are put into the engine's memory in one short transaction, sent and waited for in
 * none, and written in another one, with what became of each row, the shard's counters and its checkpoint.  Rows
 * that came back are a chunk like others.
 *
 * Engines that die
 *	Rows that an engine computed as it died are sent again in small chunks (rows_careful), so that few of
 *	them need run one at a time to find one that ends engines.  Most of the time none does.
 *
 * Invariants
 *	- Memory is of the chunks in the pipeline, each with a context of its own, and of nothing that grows
 *	  with rows.
 *	- A chunk takes about a second from one commit to the next, or has ROWS_MAX rows: its rows follow the rate
 *	  of those before.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "runner.h"

#define ROWS_MAX			2048	/* more take memory and are no faster */
#define CHUNK_SECONDS		1.0
#define RATE_NEW			0.3		/* weight of the last chunk's rate */
#define ITEMS_MAX			1000	/* of a chunk */
#define ITEMS_PENDING_MAX	10000	/* beyond, nothing new is read */

/* ---- reading ---- */

static JobChunk *
make_chunk(Runner *runner, bool of_items)
{
	MemoryContext context = AllocSetContextCreate(runner->run.context, "infer job chunk", ALLOCSET_DEFAULT_SIZES);
	JobChunk   *chunk = MemoryContextAllocZero(context, sizeof(JobChunk));

	chunk->context = context;
	chunk->number = ++runner->chunks_last;
	chunk->of_items = of_items;
	chunk->careful = runner->rows_careful > 0;
	INSTR_TIME_SET_CURRENT(chunk->begun);
	return chunk;
}

static void
read_rows(Runner *runner, JobChunk *chunk)
{
	int			count;
	JobItem    *items;
	int			rows_max = chunk->careful ? Min(runner->rows_next, INFER_ROWS_MARKED) : runner->rows_next;

	if (!chunk->of_items)
	{
		runner_read(runner, chunk, rows_max);
		return;
	}
	items = runner_due_items(runner, Min(rows_max, ITEMS_MAX), &count);
	runner_read_items(runner, chunk, items, count);
}

static JobChunk *
read_chunk(Runner *runner, bool of_items)
{
	JobChunk   *chunk = make_chunk(runner, of_items);

	job_slot_phase(JOB_PHASE_READING, chunk->number, 0);
	runner_begin_transaction(runner);
	runner_lock_plan(runner, false);
	job_model_check(runner->run.plan);
	MemoryContextSwitchTo(chunk->context);
	read_rows(runner, chunk);
	INSTR_TIME_SET_CURRENT(chunk->read_time);
	INSTR_TIME_SUBTRACT(chunk->read_time, chunk->begun);
	job_compute_fill(&runner->run, chunk);
	if (chunk->is_cut && !of_items)
		job_read_back(&runner->run, &chunk->rows[chunk->rows_count - 1]);
	MemoryContextSwitchTo(runner->run.context);
	runner_commit(runner);
	runner->rows_careful -= Min(runner->rows_careful, chunk->rows_count);
	return chunk;
}

static bool
may_read_on(Runner *runner)
{
	return !runner->read_all && runner->items_pending < ITEMS_PENDING_MAX;
}

static bool
items_are_due(Runner *runner)
{
	return runner->items_pending > 0 && !runner->items_sent && runner->items_due <= GetCurrentTimestamp();
}

static void
push(Runner *runner, JobChunk *chunk)
{
	runner->chunks[runner->chunks_count++] = chunk;
	if (chunk->of_items)
		runner->items_sent = true;
	else
		runner->read_all = chunk->last;
	pgstat_report_activity(STATE_IDLE, NULL);	/* it may have to wait for the engine */
	job_compute_send(&runner->run, chunk);
	pgstat_report_activity(STATE_RUNNING, NULL);
}

void
runner_fill_pipeline(Runner *runner)
{
	while (runner->chunks_count < RUNNER_PIPELINE)
	{
		bool		of_items = items_are_due(runner);
		JobChunk   *chunk;

		if (!of_items && !may_read_on(runner))
			return;
		runner_check();
		chunk = read_chunk(runner, of_items);
		if (chunk->rows_count > 0 || (chunk->last && !of_items))
			push(runner, chunk);
		else
		{
			MemoryContextDelete(chunk->context);
			if (runner->chunks_count > 0)
				return;				/* what was computed waits to be written */
		}
	}
}

/* ---- computing ---- */

/* Those of the shard may lie in the session's context, which ends before the process does. */
static void
note_engine(Runner *runner)
{
	JobShard   *shard = runner->run.shard;
	const Jsonb *known = shard->engines;

	job_note_engine(shard, TopMemoryContext);
	if (shard->engines != known)
		runner->engines = shard->engines;
}

static void
wait_for(Runner *runner, JobChunk *chunk)
{
	InferSiteCounters before;
	InferSiteCounters after;

	job_slot_phase(JOB_PHASE_COMPUTING, chunk->number, chunk->rows_count);
	job_compute_counters(&runner->run, &before);
	pgstat_report_activity(STATE_IDLE, NULL);
	job_compute_wait(&runner->run, chunk);
	pgstat_report_activity(STATE_RUNNING, NULL);
	job_compute_counters(&runner->run, &after);
	chunk->used.tokens = after.tokens - before.tokens;
	chunk->used.prepare_nsec = after.prepare_nsec - before.prepare_nsec;
	chunk->used.queue_nsec = after.queue_nsec - before.queue_nsec;
	chunk->used.device_nsec = after.device_nsec - before.device_nsec;
	if (chunk->requests_count > 0)
		note_engine(runner);
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
check_computed(Runner *runner, const JobChunk *chunk)
{
	const JobRow *failed = NULL;
	int			rows = rows_lost(chunk);

	if (rows > 0 && !chunk->careful)
	{
		runner->rows_careful = Max(runner->rows_careful, rows);
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
check_state(Runner *runner)
{
	JobRecord  *record = job_get(runner->job);

	if (record == NULL || record->state != JOB_IN_PROGRESS)
		runner_look_anew();
}

static void
set_checkpoint(Runner *runner, const JobChunk *chunk)
{
	JobKey	   *checkpoint = &runner->run.shard->checkpoint;
	MemoryContext old = MemoryContextSwitchTo(runner->run.context);

	for (int i = 0; i < checkpoint->count; i++)
		pfree(checkpoint->texts[i]);
	if (checkpoint->count > 0)
		pfree(checkpoint->texts);
	job_key_make(runner->run.plan, chunk->rows[chunk->rows_count - 1].keys, checkpoint);
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
settle(Runner *runner, JobChunk *chunk)
{
	JobShard   *shard = runner->run.shard;
	int64		failed = shard->failed;
	TimestampTz now = GetCurrentTimestamp();

	for (int i = 0; i < chunk->rows_count; i++)
		runner_settle_row(runner, &chunk->rows[i], now);
	if (!chunk->of_items)
	{
		if (chunk->rows_count > 0)
			set_checkpoint(runner, chunk);
		shard->read_to_end = chunk->last;
	}
	shard->chunks++;
	shard->rows_per_second = runner->rows_rate > 0 ? runner->rows_rate : -1;
	count_times(shard, chunk);
	shard->faults = 0;
	shard->resume_at = 0;
	shard->updated = now;
	job_shard_update(shard);
	return shard->failed > failed;
}

/* Whatever kept the job from getting on does not any more. */
static void
note_progress(Runner *runner)
{
	JobRecord  *record;

	if (runner->progressed || !job_lock(runner->job, false))
		return;
	record = job_get(runner->job);
	if (record != NULL && (record->faults != 0 || record->message != NULL))
	{
		record->faults = 0;
		record->sqlstate = record->message = NULL;
		job_update(record);
	}
	runner->progressed = true;
}

/* Whether so many rows have failed that the job has. */
static bool
write_chunk(Runner *runner, JobChunk *chunk)
{
	instr_time	begun;
	bool		too_many = false;

	job_slot_phase(JOB_PHASE_WRITING, chunk->number, chunk->rows_count);
	INSTR_TIME_SET_CURRENT(begun);
	runner_begin_transaction(runner);
	MemoryContextSwitchTo(chunk->context);
	runner_lock_plan(runner, true);
	check_state(runner);
	job_compute_collect(&runner->run, chunk);
	check_computed(runner, chunk);
	job_write(&runner->run, chunk);
	INSTR_TIME_SET_CURRENT(chunk->write_time);
	INSTR_TIME_SUBTRACT(chunk->write_time, begun);
	if (settle(runner, chunk))
	{
		job_fresh_failed(&runner->run, chunk);
		too_many = runner_has_failed(runner);
	}
	note_progress(runner);
	MemoryContextSwitchTo(runner->run.context);
	runner_commit(runner);
	runner->faults = runner->delays = runner->errors = 0;
	return too_many;
}

static void
shift(Runner *runner)
{
	runner->chunks_count--;
	memmove(runner->chunks, runner->chunks + 1, sizeof(JobChunk *) * runner->chunks_count);
}

/* With nothing else left, many items (of infer.retry_job) are to come in chunks that are worth it. */
static void
adapt_to_items(Runner *runner, const JobChunk *chunk, double seconds)
{
	if (runner->read_all && chunk->rows_count >= runner->rows_next && seconds < CHUNK_SECONDS / 2)
		runner->rows_next *= 2;
}

/* How many rows the next chunk is to have, after this one has been written. */
static void
adapt(Runner *runner, const JobChunk *chunk)
{
	instr_time	now;
	instr_time	taken;
	double		rate;

	INSTR_TIME_SET_CURRENT(now);
	taken = now;
	if (INSTR_TIME_GET_DOUBLE(chunk->begun) > INSTR_TIME_GET_DOUBLE(runner->written))
		INSTR_TIME_SUBTRACT(taken, chunk->begun);
	else
		INSTR_TIME_SUBTRACT(taken, runner->written);
	runner->written = now;
	if (chunk->of_items)
		adapt_to_items(runner, chunk, INSTR_TIME_GET_DOUBLE(taken));
	if (chunk->of_items || chunk->rows_count == 0)
		return;
	rate = chunk->rows_count / Max(INSTR_TIME_GET_DOUBLE(taken), 1e-6);
	if (runner->rows_rate > 0)
		rate = runner->rows_rate + RATE_NEW * (rate - runner->rows_rate);
	runner->rows_rate = rate;
	runner->rows_next = Max(Min(Min(rate * CHUNK_SECONDS, runner->rows_next * 2.0), ROWS_MAX), 1);
}

/* ---- a chunk, to its end ---- */

bool
runner_finish_chunk(Runner *runner)
{
	JobChunk   *chunk = runner->chunks[0];

	wait_for(runner, chunk);
	if (write_chunk(runner, chunk))
	{
		runner->interruptible = false;
		runner_end_job(runner, JOB_FAILED, RUNNER_FAILURES_SQLSTATE, RUNNER_FAILURES_MESSAGE);
		return false;
	}
	shift(runner);
	if (chunk->of_items)
		runner->items_sent = false;
	adapt(runner, chunk);
	MemoryContextDelete(chunk->context);
	return true;
}
