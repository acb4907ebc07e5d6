/*
 * prepare.c
 *	  See prepare.h.
 */
#include "prepare.h"

#include <stddef.h>
#include <string.h>

#include "../engine.h"
#include "../process/process.h"
#include "../server/region.h"
#include "scheduler.h"
#include "turn.h"

#define NSEC_BYTE		100			/* that prepare is taken to need, for the order alone */
#define NSEC_CLASS		100000000	/* that a class counts as come later than the one above it */

uint64_t	prepare_short_bytes = 1 << 20;

/* ---- how much there is to do ---- */

/* Bytes of a column's values; of strings what the spans say, which prepare will check. */
static uint64_t
column_bytes(const struct model_request *work, const struct infer_column *column)
{
	const struct infer_span *spans = (const struct infer_span *) (work->region + column->spans_offset);
	uint64_t	bytes = 0;

	if (column->type != INFER_TYPE_STRING)
		return column->data_bytes;
	for (uint64_t i = 0; i < column->width * work->rows; i++)
		bytes += spans[i].length;
	return bytes;
}

static uint64_t
input_bytes(const struct model_request *work)
{
	uint64_t	bytes = 0;

	for (uint32_t i = 0; i < work->columns_count; i++)
		bytes += column_bytes(work, &work->columns[i]);
	return bytes;
}

/* ---- those that wait ---- */

static void
waiting_insert(struct preparer *preparer, struct request *request)
{
	struct request *before = preparer->last;

	while (before != NULL && before->prepare_after > request->prepare_after)
		before = before->stage_prev;
	request->stage_prev = before;
	request->stage_next = before != NULL ? before->stage_next : preparer->first;
	*(before != NULL ? &before->stage_next : &preparer->first) = request;
	*(request->stage_next != NULL ? &request->stage_next->stage_prev : &preparer->last) = request;
}

static void
waiting_remove(struct preparer *preparer, struct request *request)
{
	*(request->stage_prev != NULL ? &request->stage_prev->stage_next : &preparer->first) = request->stage_next;
	*(request->stage_next != NULL ? &request->stage_next->stage_prev : &preparer->last) = request->stage_prev;
}

static void
push(struct engine *engine, struct request *request, uint64_t bytes, uint64_t now)
{
	struct prepare *prepare = &engine->prepare;
	struct preparer *preparer = &prepare->preparers[bytes > prepare_short_bytes];
	uint64_t	deadline = request->batch.deadline;

	request->stage = STAGE_WAITS;
	request->preparer = preparer;
	request->prepare_after = now + bytes * NSEC_BYTE + request->batch.class_ * (uint64_t) NSEC_CLASS;
	waiting_insert(preparer, request);
	if (deadline != 0 && (prepare->deadline_next == 0 || deadline < prepare->deadline_next))
		prepare->deadline_next = deadline;
	pthread_cond_signal(&preparer->wake);
}

void
prepare_push(struct engine *engine, struct request *request, uint64_t now)
{
	uint64_t	bytes = 0;

	if (request->batch.marked)
	{
		batch_queue(&engine->policy, &request->batch, now);
		return;
	}
	for (uint32_t i = 0; i < request->work.columns_count; i++)	/* an upper bound: the lock is held */
		bytes += request->work.columns[i].data_bytes;
	push(engine, request, bytes, now);
}

void
prepare_forget(struct engine *engine, struct request *request)
{
	waiting_remove(request->preparer, request);
	request->stage = STAGE_NONE;
	batch_end(&engine->policy, &request->batch);
}

/* Those of one preparer; the earliest deadline of what is left, if it is earlier than that. */
static uint64_t
expire(struct preparer *preparer, struct runner *runner, uint64_t now, uint64_t earliest)
{
	struct request *next;

	for (struct request *r = preparer->first; r != NULL; r = next)
	{
		uint64_t	deadline = r->batch.deadline;

		next = r->stage_next;
		if (deadline == 0)
			continue;
		if (now >= deadline && runner->rings_count < RUNNER_RINGS - BATCH_SLICES_MAX)
		{
			r->batch.late = true;
			prepare_forget(preparer->engine, r);
			runner_add(runner, turn_finish(r));
		}
		else if (earliest == 0 || deadline < earliest)
			earliest = deadline;
	}
	return earliest;
}

void
prepare_expire(struct engine *engine, struct runner *runner, uint64_t now)
{
	struct prepare *prepare = &engine->prepare;
	uint64_t	earliest = 0;

	if (prepare->deadline_next == 0 || now < prepare->deadline_next)
		return;
	for (int i = 0; i < PREPARERS; i++)
		earliest = expire(&prepare->preparers[i], runner, now, earliest);
	prepare->deadline_next = earliest;
}

/* ---- preparing ---- */

struct watch
{
	struct model_watch watch;
	struct engine *engine;
	struct request *request;
	struct preparer *gives_way;		/* who may be made to wait between two rows; NULL: the loop, a runner */
};

static bool
is_late(const struct request *request, uint64_t now)
{
	return request->batch.deadline != 0 && now >= request->batch.deadline;
}

/* A marked request is to be alone: waits until it has been. */
static void
give_way(struct preparer *preparer, struct request *request)
{
	struct engine *engine = preparer->engine;

	pthread_mutex_lock(&engine->lock);
	if (engine->prepare.alone)
	{
		infer_store_release32(&request->region->map->run_state, INFER_RUN_QUEUED);
		engine->prepare.active--;
		pthread_cond_signal(&engine->work);
		while (engine->prepare.alone)
			pthread_cond_wait(&preparer->wake, &engine->lock);
		engine->prepare.active++;
		infer_store_release32(&request->region->map->run_state, INFER_RUN_RUNNING);
	}
	pthread_mutex_unlock(&engine->lock);
}

static bool
watch_row(struct model_watch *model_watch, uint32_t row)
{
	struct watch *watch = (struct watch *) ((char *) model_watch - offsetof(struct watch, watch));
	struct request *request = watch->request;

	if (watch->gives_way != NULL && __atomic_load_n(&watch->engine->prepare.alone, __ATOMIC_RELAXED))
		give_way(watch->gives_way, request);
	infer_store_release32(&request->region->map->running_row, row);
	return !__atomic_load_n(&request->unwanted, __ATOMIC_RELAXED) && !is_late(request, process_clock());
}

static uint32_t
count_failed(const struct model_request *work)
{
	uint32_t	failed = 0;

	for (uint32_t row = 0; row < work->rows; row++)
		failed += work->row_status[row] != INFER_OK;
	return failed;
}

static bool
has_units(const struct model_request *work)
{
	if (work->units == NULL)
		return true;
	for (uint32_t row = 0; row < work->rows; row++)
		if (work->units[row] > 0)
			return true;
	return false;
}

/* Lock held: all rows have been answered or have failed; the device is not needed. */
static struct ring
finish_answered(struct engine *engine, struct request *request, bool inline_)
{
	request->rows_failed = count_failed(&request->work);
	counters_rows_answered(request, request->rows_failed, inline_);
	return request_finish(request, INFER_OK, NULL);
}

/* Lock held: what becomes of a request that has been prepared. */
static struct ring
settle(struct engine *engine, struct request *request, const struct status *status, bool inline_)
{
	struct model_request *work = &request->work;
	uint64_t	now = process_clock();

	request->batch.late = is_late(request, now);
	if (request->batch.cancelled || request->batch.late)
	{
		batch_end(&engine->policy, &request->batch);
		return turn_finish(request);
	}
	if (status->error == 0 && !work->overflow && has_units(work))
	{
		request->batch.units = work->units;
		request->batch.costs = work->costs;
		batch_queue(&engine->policy, &request->batch, now);
		return (struct ring) {0};
	}
	batch_end(&engine->policy, &request->batch);
	if (status->error != 0)
		return request_finish(request, status->error, status);
	if (work->overflow)
		return request_finish(request, INFER_OK, NULL);	/* which asks for more space */
	return finish_answered(engine, request, inline_);
}

/* Lock held, but not while it is prepared. */
static struct ring
run(struct engine *engine, struct request *request, struct preparer *gives_way, bool inline_)
{
	struct model *model = request->entry->model;
	struct watch watch = {.watch = {.row = watch_row}, .engine = engine, .request = request, .gives_way = gives_way};
	uint64_t	began = process_clock();
	struct status status;
	bool		good;

	status_clear(&status);
	request->stage = STAGE_PREPARES;
	engine->prepare.active++;
	infer_store_release32(&request->region->map->run_state, INFER_RUN_RUNNING);
	pthread_mutex_unlock(&engine->lock);
	request->work.watch = &watch.watch;
	good = model->ops->prepare(model, &request->work, &status);
	request->work.watch = NULL;
	if (!good && status.error == 0)
		status_set(&status, INFER_ERROR_INTERNAL, "the model failed without saying why");
	pthread_mutex_lock(&engine->lock);
	if (--engine->prepare.active == 0 && engine->prepare.alone)
		pthread_cond_signal(&engine->work);
	infer_store_release32(&request->region->map->run_state, INFER_RUN_QUEUED);
	request->stage = STAGE_PREPARED;
	request->prepare_nsec = process_clock() - began;
	engine->prepare.held_bytes[request->batch.class_] += request->work.prepared_bytes;
	counters_prepared(request, request->prepare_nsec);
	return settle(engine, request, &status, inline_);
}

struct ring
prepare_enter(struct engine *engine, struct request *request, uint64_t now)
{
	uint64_t	bytes;

	if (request->batch.marked)
	{
		batch_queue(&engine->policy, &request->batch, now);
		return (struct ring) {0};
	}
	pthread_mutex_unlock(&engine->lock);	/* nobody but the loop knows the request */
	bytes = input_bytes(&request->work);
	pthread_mutex_lock(&engine->lock);
	if (request->work.rows <= PREPARE_SMALL_ROWS && bytes <= PREPARE_SMALL_BYTES && !engine->prepare.alone)
		return run(engine, request, NULL, true);
	push(engine, request, bytes, now);
	return (struct ring) {0};
}

void
prepare_release(struct engine *engine, struct request *request)
{
	struct model *model;

	if (request->stage != STAGE_PREPARED)
		return;
	model = request->entry->model;
	request->stage = STAGE_NONE;
	engine->prepare.held_bytes[request->batch.class_] -= request->work.prepared_bytes;
	request->batch.units = request->batch.costs = NULL;
	model->ops->release(model, &request->work);
	for (int i = 0; i < PREPARERS; i++)
		if (engine->prepare.preparers[i].first != NULL)
			pthread_cond_signal(&engine->prepare.preparers[i].wake);
}

/* ---- marked requests ---- */

bool
prepare_stop(struct engine *engine)
{
	__atomic_store_n(&engine->prepare.alone, true, __ATOMIC_RELAXED);
	return engine->prepare.active == 0;
}

void
prepare_go_on(struct engine *engine)
{
	if (!engine->prepare.alone)
		return;
	__atomic_store_n(&engine->prepare.alone, false, __ATOMIC_RELAXED);
	for (int i = 0; i < PREPARERS; i++)
		pthread_cond_signal(&engine->prepare.preparers[i].wake);
}

struct ring
prepare_marked(struct engine *engine, struct request *request)
{
	batch_hold(&engine->policy, &request->batch);
	return run(engine, request, NULL, false);
}

/* ---- the thread ---- */

/* The first that waits and whose class has room for more ahead of the device. */
static struct request *
next_request(const struct preparer *preparer)
{
	const struct prepare *prepare = &preparer->engine->prepare;
	struct request *request = preparer->first;

	if (prepare->alone)
		return NULL;
	while (request != NULL && prepare->held_bytes[request->batch.class_] >= PREPARE_AHEAD_BYTES)
		request = request->stage_next;
	return request;
}

static void *
preparer_main(void *arg)
{
	struct preparer *preparer = arg;
	struct engine *engine = preparer->engine;

	pthread_mutex_lock(&engine->lock);
	for (;;)
	{
		struct request *request = next_request(preparer);
		struct ring ring;

		if (request == NULL)
		{
			pthread_cond_wait(&preparer->wake, &engine->lock);
			continue;
		}
		waiting_remove(preparer, request);
		ring = run(engine, request, preparer, false);
		scheduler_publish(engine, process_clock());
		pthread_cond_signal(&engine->work);
		pthread_mutex_unlock(&engine->lock);
		ring_send(&ring);
		request_log_flush(engine);
		pthread_mutex_lock(&engine->lock);
	}
	return NULL;
}

bool
prepare_start(struct engine *engine, struct status *status)
{
	for (int i = 0; i < PREPARERS; i++)
	{
		struct preparer *preparer = &engine->prepare.preparers[i];
		pthread_t	thread;
		int			failed;

		preparer->engine = engine;
		pthread_cond_init(&preparer->wake, NULL);
		failed = pthread_create(&thread, NULL, preparer_main, preparer);
		if (failed != 0)
			return status_set(status, INFER_ERROR_INTERNAL, "could not start a thread: %s", strerror(failed));
		pthread_detach(thread);
	}
	return true;
}
