/*
 * begin.c
 *	  What a runner does first: what the tables say of its job, preparing a job that has no shards, its
 *	  session.
 *
 * Preparing
 *	The plan is made anew, as the owner, and the job is in progress.  Then, in a transaction that holds
 *	no lock on the job, so that it can be cancelled meanwhile: a query's rows are put into
 *	infer.job_input, the rows are counted, the keys cut into ranges.  With its end there are shards.
 *	A runner that ends before leaves a job in progress without shards, which another one prepares.  A job
 *	that was taken up again has its shards, and is only looked at anew.
 *
 * Stale plans
 *	A session's plan knows types and columns.  What may have changed one of its tables raises
 *	plan_stale; the next transaction, once it has the tables' locks, makes the plan anew, and if it is
 *	another one the session begins again.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "../../client.h"
#include "runner.h"

/* ---- plans ---- */

static Runner *watched = NULL;		/* by the callback */

static void
table_changed(Datum arg, Oid table)
{
	const JobPlan *plan = watched != NULL ? watched->run.plan : NULL;

	if (plan != NULL && (!OidIsValid(table) || table == plan->table || table == plan->target_table))
		watched->plan_stale = true;
}

static void
watch_tables(Runner *runner)
{
	if (watched == NULL)
		CacheRegisterRelcacheCallback(table_changed, (Datum) 0);
	watched = runner;
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool
same_columns(const JobColumn *a, const JobColumn *b, int count)
{
	for (int i = 0; i < count; i++)
		if (!same_text(a[i].sql, b[i].sql) || a[i].type != b[i].type || a[i].typmod != b[i].typmod ||
			a[i].collation != b[i].collation || a[i].number != b[i].number)
			return false;
	return true;
}

static bool
same_plan(const JobPlan *a, const JobPlan *b)
{
	return a->source == b->source && a->target == b->target &&
		a->table == b->table && a->target_table == b->target_table &&
		same_text(a->from_sql, b->from_sql) && same_text(a->target_sql, b->target_sql) &&
		a->keys_count == b->keys_count && a->inputs_count == b->inputs_count && a->as_row == b->as_row &&
		same_columns(a->keys, b->keys, a->keys_count) && same_columns(a->inputs, b->inputs, a->inputs_count) &&
		same_columns(a->target_keys, b->target_keys, a->target_keys != NULL ? a->keys_count : 0) &&
		same_columns(&a->output, &b->output, 1) && a->result_type == b->result_type &&
		(a->version_column == NULL) == (b->version_column == NULL) &&
		(a->version_column == NULL || same_columns(a->version_column, b->version_column, 1)) &&
		memcmp(a->model->key, b->model->key, INFER_KEY_BYTES) == 0;
}

void
runner_lock_plan(Runner *runner, bool write)
{
	const JobPlan *plan = runner->run.plan;
	MemoryContext scratch;

	if (OidIsValid(plan->table))
		LockRelationOid(plan->table, AccessShareLock);
	if (OidIsValid(plan->target_table) && write)
		LockRelationOid(plan->target_table, RowExclusiveLock);
	AcceptInvalidationMessages();
	if (!runner->plan_stale)
		return;
	runner->plan_stale = false;
	scratch = AllocSetContextCreate(CurrentMemoryContext, "infer job plan", ALLOCSET_DEFAULT_SIZES);
	if (!same_plan(plan, job_plan_make(plan->request, scratch)))
	{
		runner->altered = true;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("what job " INT64_FORMAT " reads or writes has been altered", runner->job)));
	}
	MemoryContextDelete(scratch);
}

/* In a transaction. */
static void
make_plan(Runner *runner)
{
	JobRun	   *run = &runner->run;
	JobRequest *request = job_request_from_jsonb(run->record->request, run->context);

	if (!request->requests)
		request->model = MemoryContextStrdup(run->context, job_model_now(run->record));	/* of the version that was active then */
	runner->plan_stale = false;
	run->plan = job_plan_make(request, run->context);
	job_facts_check(run->record, run->plan);
}

/* ---- what the tables say ---- */

typedef enum Standing
{
	STANDING_ENDED,					/* nothing to do */
	STANDING_CANCELLED,
	STANDING_EXPIRED,
	STANDING_FINALIZING,
	STANDING_UNPREPARED,
	STANDING_READY
} Standing;

/* What users' expressions mean depends on, from the session that submitted the job. */
static void
note_session(Runner *runner)
{
	JobRequest *request = job_request_from_jsonb(runner->run.record->request, runner->run.context);

	if (runner->search_path != NULL || request->search_path == NULL)
		return;
	runner->search_path = MemoryContextStrdup(TopMemoryContext, request->search_path);
	if (request->time_zone != NULL)
		runner->time_zone = MemoryContextStrdup(TopMemoryContext, request->time_zone);
	if (request->date_order != NULL)
		runner->date_style = MemoryContextStrdup(TopMemoryContext, psprintf("ISO, %s", request->date_order));
}

/* The first run of this process is counted: one that ends without having got on is a fault. */
static void
count_start(Runner *runner)
{
	JobRun	   *run = &runner->run;

	if (runner->begun)
		return;
	if (run->shard != NULL)
		runner->faults = run->shard->faults;	/* of the runner that left it until now */
	else if (run->record->resume_at != 0)
		runner->faults = run->record->faults;
	run->record->faults++;
	run->record->resume_at = 0;
	if (run->record->started == 0)
		run->record->started = GetCurrentTimestamp();
	job_update(run->record);
	if (run->shard == NULL)
		return;
	run->shard->starts++;
	if (run->shard->started == 0)
		run->shard->started = GetCurrentTimestamp();
	run->shard->resume_at = 0;
	run->shard->updated = GetCurrentTimestamp();
	job_shard_update(run->shard);
}

static Standing
standing(Runner *runner)
{
	const JobRun *run = &runner->run;
	char	   *origin;
	int			shards;

	if (run->record == NULL || job_has_ended(run->record->state))
		return STANDING_ENDED;
	origin = job_origin();
	if (strcmp(run->record->origin, origin) != 0 || run->record->owner != runner->owner)
		return STANDING_ENDED;
	if (run->record->state == JOB_CANCELLING)
		return STANDING_CANCELLED;
	if (run->record->state == JOB_FINALIZING)
		return STANDING_FINALIZING;
	if (run->record->expires != 0 && run->record->expires <= GetCurrentTimestamp())
		return STANDING_EXPIRED;
	(void) job_shards(runner->job, &shards);
	if (shards == 0)
	{
		runner->shard = 0;
		return STANDING_UNPREPARED;
	}
	return run->shard == NULL || run->shard->completed ? STANDING_ENDED : STANDING_READY;
}

/* Reads the job and its shard, in a transaction of its own. */
static Standing
look(Runner *runner)
{
	JobRun	   *run = &runner->run;
	Standing	found;

	runner_begin_transaction(runner);
	if (!OidIsValid(get_extension_oid("infer", true)))
	{
		runner_commit(runner);
		return STANDING_ENDED;		/* dropped, with its jobs */
	}
	(void) job_lock(runner->job, true);
	run->record = job_get(runner->job);
	run->shard = runner->shard > 0 && run->record != NULL ? job_shard_get(runner->job, runner->shard) : NULL;
	found = standing(runner);
	if (found == STANDING_READY || found == STANDING_UNPREPARED)
	{
		note_session(runner);
		runner->expires = run->record->expires;
		infer_client_set_priority(run->record->priority);
		count_start(runner);
	}
	runner_commit(runner);
	if (!runner->begun)
		job_slot_phase(JOB_PHASE_READING, 0, 0);
	runner->begun = true;
	return found;
}

/* ---- preparing ---- */

/* The plan again, as the owner, who may have lost what it takes; then the job is in progress. */
static void
begin_job(Runner *runner)
{
	JobRun	   *run = &runner->run;

	runner_begin_transaction(runner);
	make_plan(runner);
	(void) job_lock(runner->job, true);
	run->record = job_get(runner->job);
	if (run->record == NULL || (run->record->state != JOB_VALIDATING && run->record->state != JOB_IN_PROGRESS))
		runner_look_anew();
	if (run->record->state == JOB_VALIDATING)
	{
		if (run->plan->request->fresh != 0)
			job_fresh_begin(run->plan->request->fresh, runner->job);
		if (run->record->facts == NULL)
			run->record->facts = job_facts(run->plan);	/* submitted by the scanner, which makes no plans */
		run->record->state = JOB_IN_PROGRESS;
		job_update(run->record);
		ereport(LOG,
				(errmsg("infer: job " INT64_FORMAT " of role \"%s\" begins: model %s", runner->job, run->record->owner_name,
						run->record->model)));
	}
	runner_commit(runner);
}

static void
insert_shard(Runner *runner, int number, const JobKey *low, const JobKey *high)
{
	JobShard	shard = {
		.job = runner->job,
		.shard = number,
		.rows_per_second = -1,
		.updated = GetCurrentTimestamp()
	};

	if (low != NULL)
		shard.low = *low;
	if (high != NULL)
		shard.high = *high;
	if (number == 1)
	{
		shard.starts = 1;
		shard.started = GetCurrentTimestamp();
	}
	job_shard_insert(&shard);
}

static void
insert_shards(Runner *runner, const JobKey *highs, int highs_count)
{
	for (int i = 0; i <= highs_count; i++)
		insert_shard(runner, i + 1, i > 0 ? &highs[i - 1] : NULL, i < highs_count ? &highs[i] : NULL);
}

/* Ranges have bounds between them: one less than there are of them. */
static void
make_shards(Runner *runner)
{
	JobRun	   *run = &runner->run;
	int			shards = Max(run->plan->request->shards, 1);
	JobKey	   *highs = NULL;
	int			highs_count = 0;
	JobShard	whole = {.job = runner->job, .rows_per_second = -1};
	bool		estimated = false;
	int64		total;

	runner_begin_transaction(runner);
	runner_lock_plan(runner, false);
	run->shard = &whole;
	run->reader = job_reader_make(run);
	total = run->plan->source == JOB_SOURCE_INPUT ? job_reader_materialise(run) : job_reader_count(run, &estimated);
	if (shards > 1)
		highs = job_reader_ranges(run, shards, &highs_count);

	(void) job_lock(runner->job, true);
	run->record = job_get(runner->job);
	if (run->record == NULL || run->record->state != JOB_IN_PROGRESS)
		runner_look_anew();
	run->record->total = total;
	run->record->total_estimated = estimated;
	job_update(run->record);
	insert_shards(runner, highs, highs_count);
	infer_jobs_changed();
	runner_commit(runner);
}

static void
prepare(Runner *runner)
{
	runner->interruptible = true;
	make_shards(runner);
	runner->interruptible = false;
	runner->shard = 1;
	job_slot_shard(1);
}

/* ---- the session ---- */

#define FIRST_NSEC	UINT64CONST(1000000000)	/* of the first chunk, if the model's rows have been timed */

/* Before anything is known of the job's own rate: a slow model's first chunk is small. */
static void
guess_rows(Runner *runner)
{
	const InferModel *model = runner->run.plan->model;
	uint64		row_nsec = model != NULL ? infer_client_row_nsec(model->key, INFER_ROW_OF_MANY) : 0;

	if (runner->rows_rate == 0 && row_nsec > 0)
		runner->rows_next = Max(Min((uint64) runner->rows_next, FIRST_NSEC / row_nsec), 1);
}

static void
open_session(Runner *runner)
{
	JobRun	   *run = &runner->run;
	MemoryContext old;

	runner_begin_transaction(runner);
	if (run->plan == NULL)
		make_plan(runner);
	runner_lock_plan(runner, false);
	old = MemoryContextSwitchTo(run->context);
	run->shard = job_shard_get(runner->job, runner->shard);
	run->shard->engines = job_engines_add(run->shard->engines, runner->engines);
	job_compute_begin(run);
	run->reader = job_reader_make(run);
	run->writer = job_writer_make(run);
	run->position = job_key_values(run->plan, &run->shard->checkpoint);
	guess_rows(runner);
	runner->items_pending = job_items_count(runner->job, runner->shard, JOB_ITEM_PENDING);
	MemoryContextSwitchTo(old);
	runner_commit(runner);
	runner->read_all = run->shard->read_to_end;
}

bool
runner_open(Runner *runner)
{
	watch_tables(runner);
	switch (look(runner))
	{
		case STANDING_ENDED:
			return false;
		case STANDING_CANCELLED:
			runner_end_job(runner, JOB_CANCELLED, NULL, NULL);
			return false;
		case STANDING_EXPIRED:
			runner_end_job(runner, JOB_EXPIRED, NULL, "its completion window has passed");
			return false;
		case STANDING_FINALIZING:
			runner_finalize(runner);
			return false;
		case STANDING_UNPREPARED:
		case STANDING_READY:
			break;
	}
	if (job_slot_is_cancelled())
		return false;			/* and taken up again since: by a runner that knows nothing of it */
	if (runner->shard == 0 || runner->run.record->state == JOB_VALIDATING)
		begin_job(runner);
	if (runner->shard == 0)
		prepare(runner);
	open_session(runner);
	return true;
}
