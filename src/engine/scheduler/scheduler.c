/*
 * scheduler.c
 *	  See scheduler.h.
 *
 * Loop
 *	lock; expire; form a batch; unlock; run (run.c); lock; end the requests that are
 *	complete; unlock; ring their clients; again.
 *
 * Nothing here allocates: a batch's slices and rings lie in arrays made at the start.
 */
#include "scheduler.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "../log.h"
#include "../process.h"
#include "../registry.h"
#include "../server/region.h"
#include "run.h"

#define REFUSED_MAX		16			/* batches of which the device took nothing, in a row */

static struct request *
request_of(struct batch_request *batch_request)
{
	return (struct request *) batch_request;	/* its first member */
}

static struct entry *
entry_of(struct batch_model *queue)
{
	return (struct entry *) queue;				/* its first member */
}

/* ---- what others see ---- */

static uint64_t
estimate(struct entry *entry, uint32_t rows)
{
	uint64_t	prior = 0;
	struct model_cost cost = {.rows = rows};

	if (!latency_is_known(&entry->latency, rows) && entry->model->ops->estimate_nsec != NULL)
		prior = entry->model->ops->estimate_nsec(entry->model, &cost);
	return latency_estimate(&entry->latency, rows, prior);
}

/* Predicted time of all that waits for a model, in batches of the size it allows. */
static uint64_t
estimate_queue(struct engine *engine, struct batch_model *queue)
{
	struct entry *entry = entry_of(queue);
	uint32_t	room = queue->rows_max < engine->policy.rows_max ? queue->rows_max : engine->policy.rows_max;

	if (!queue->ready || queue->rows_waiting == 0)
		return 0;
	if (queue->rows_waiting <= room)
		return estimate(entry, (uint32_t) queue->rows_waiting);
	return estimate(entry, room) * (queue->rows_waiting / room + 1);
}

void
scheduler_publish(struct engine *engine, uint64_t now)
{
	uint64_t	free_at = engine->running && engine->batch_ends > now ? engine->batch_ends : now;

	for (struct batch_model *m = engine->policy.models.next; m != &engine->policy.models; m = m->next)
		free_at += estimate_queue(engine, m);
	infer_store_release32(&engine->page->requests, engine->policy.requests);
	infer_store_release64(&engine->page->free_at, free_at);
}

/* ---- ends ---- */

static void
add_ring(struct runner *runner, struct ring ring)
{
	runner->rings[runner->rings_count++] = ring;
}

/* Lock not held.  After the answers: a device that answers nothing but errors ends the process. */
static void
send_rings(struct engine *engine, struct runner *runner)
{
	for (uint32_t i = 0; i < runner->rings_count; i++)
		ring_send(&runner->rings[i]);
	runner->rings_count = 0;
	request_log_flush(engine);
	if (__atomic_load_n(&engine->batches_refused, __ATOMIC_RELAXED) < REFUSED_MAX)
		return;
	log_write(LOG_FATAL, "the device failed %d batches one after the other: it is given up", REFUSED_MAX);
	process_exit(1);
}

static uint32_t
error_of(const struct request *request)
{
	if (request->batch.cancelled)
		return INFER_ERROR_CANCELLED;
	return request->batch.late ? INFER_ERROR_DEADLINE : INFER_OK;
}

static const struct status *
deadline_status(uint32_t error)
{
	static const struct status late = {
		.error = INFER_ERROR_DEADLINE,
		.message = "the deadline passed before the model could run"
	};

	return error == INFER_ERROR_DEADLINE ? &late : NULL;
}

/* Lock held.  Leaves room for the rings of a batch; the rest expires next time. */
static void
expire(struct engine *engine, struct runner *runner, uint64_t now)
{
	struct batch_request *late;

	while (runner->rings_count < RUNNER_RINGS - BATCH_SLICES_MAX &&
		   (late = batch_expire(&engine->policy, now)) != NULL)
		add_ring(runner, request_finish(request_of(late), INFER_ERROR_DEADLINE, deadline_status(INFER_ERROR_DEADLINE)));
}

uint64_t
scheduler_expire(struct engine *engine, struct runner *runner, uint64_t now)
{
	uint64_t	next;

	pthread_mutex_lock(&engine->lock);
	expire(engine, runner, now);
	next = engine->policy.deadline_next;
	scheduler_publish(engine, now);
	pthread_mutex_unlock(&engine->lock);
	send_rings(engine, runner);
	return next;
}

void
scheduler_drain(struct engine *engine, struct entry *entry, const struct status *status)
{
	struct batch_request *waiting;

	while ((waiting = batch_drain(&engine->policy, &entry->queue)) != NULL)
	{
		struct ring ring = request_finish(request_of(waiting), status->error, status);

		ring_send(&ring);		/* only when a load fails: the lock is not contended then */
	}
}

/* ---- one batch ---- */

/* Lock held: from the policy's slices to the model's, and what the clients may see of it. */
static void
begin_batch(struct engine *engine, uint64_t now)
{
	struct batch *batch = &engine->batch;
	struct entry *entry = entry_of(batch->model);

	for (uint32_t i = 0; i < batch->slices_count; i++)
	{
		const struct batch_slice *slice = &batch->slices[i];
		struct request *request = request_of(slice->request);
		uint64_t	waited = now - request->batch.arrived;

		engine->slices[i] = (struct model_slice) {
			.request = &request->work, .first = slice->first, .count = slice->count
		};
		counters_rows_waited(request, slice->count, waited);
		request->queue_nsec = waited;
		request->batches++;
		if (batch->rows > request->batch_rows)
			request->batch_rows = batch->rows;
		if (batch->marked)
			infer_store_release32(&request->region->map->running_row, slice->first);
		infer_store_release32(&request->region->map->run_state, INFER_RUN_RUNNING);
	}
	entry->last_used = now;
	counters_batch_begins(engine, now);
	engine->batch_ends = now + estimate(entry, batch->rows);
	infer_store_release32(&engine->page->device_busy, 1);
	scheduler_publish(engine, now);
}

static uint32_t
count_failed(const struct batch_slice *slice, const struct request *request)
{
	uint32_t	failed = 0;

	for (uint32_t row = slice->first; row < slice->first + slice->count; row++)
		failed += request->work.row_status[row] != INFER_OK;
	return failed;
}

/* Lock held: what the run teaches about model and device. */
static void
learn(struct engine *engine, struct entry *entry, enum run_result result, uint64_t elapsed, uint64_t now)
{
	if (result == RUN_WHOLE)
		latency_record(&entry->latency, engine->batch.rows, elapsed);
	__atomic_store_n(&engine->batches_refused, result == RUN_REFUSED ? engine->batches_refused + 1 : 0,
					 __ATOMIC_RELAXED);
	counters_batch_ends(engine, entry, elapsed, now);
}

/* Lock held. */
static void
end_batch(struct engine *engine, struct runner *runner, enum run_result result, uint64_t began, uint64_t now)
{
	struct batch *batch = &engine->batch;
	struct entry *entry = entry_of(batch->model);
	uint64_t	elapsed = now - began;

	learn(engine, entry, result, elapsed, now);
	if (entry->bytes != entry->model->bytes)
	{
		entry->bytes = entry->model->bytes;
		registry_keep_budget(engine, entry);	/* buffers grow with the batches */
	}
	for (uint32_t i = 0; i < batch->slices_count; i++)
	{
		const struct batch_slice *slice = &batch->slices[i];
		struct request *request = request_of(slice->request);
		uint32_t	failed = count_failed(slice, request);
		uint32_t	error;

		request->compute_nsec += elapsed;
		request->rows_failed += failed;
		counters_rows_done(request, failed, runner->inline_ && slice->count == request->batch.rows);
		infer_store_release32(&request->region->map->run_state, INFER_RUN_QUEUED);
		if (!batch_done(&engine->policy, slice->request, slice->count))
			continue;
		error = error_of(request);
		add_ring(runner, request_finish(request, error, deadline_status(error)));
	}
	engine->running = false;
	infer_store_release32(&engine->page->device_busy, 0);
	scheduler_publish(engine, now);
}

/* Lock held at the start and at the end, not in between; running is ours, a batch is formed. */
static void
run_batch(struct engine *engine, struct runner *runner, uint64_t now)
{
	struct entry *entry = entry_of(engine->batch.model);
	enum run_result result;

	begin_batch(engine, now);
	pthread_mutex_unlock(&engine->lock);
	result = run_slices(engine, entry, engine->slices, engine->batch.slices_count);
	pthread_mutex_lock(&engine->lock);
	end_batch(engine, runner, result, now, process_clock());
}

/* ---- on the loop ---- */

/*
 * Lock held: whether the next batch is one for the loop: predicted to be short, of a model
 * that has run since it was loaded.  A model that hangs does so on the scheduler's thread,
 * and the loop goes on serving.
 */
static bool
is_small(struct engine *engine, uint64_t now, enum batch_next *next)
{
	struct batch_model *queue;
	uint32_t	rows;
	uint64_t	wake;

	*next = BATCH_NOTHING;
	if (engine->running || engine->policy.requests == 0)
		return false;
	*next = batch_peek(&engine->policy, now, &queue, &rows, &wake);
	return *next == BATCH_NOW && latency_has_run(&entry_of(queue)->latency) &&
		estimate(entry_of(queue), rows) < ENGINE_INLINE_NSEC;
}

bool
scheduler_dispatch(struct engine *engine, struct runner *runner)
{
	uint64_t	now = process_clock();
	uint64_t	wake;
	enum batch_next next;
	bool		ran = false;

	pthread_mutex_lock(&engine->lock);
	expire(engine, runner, now);
	if (is_small(engine, now, &next) &&
		batch_form(&engine->policy, now, &engine->batch, &wake) == BATCH_NOW)
	{
		engine->running = true;
		run_batch(engine, runner, now);
		ran = true;
	}
	else if (next != BATCH_NOTHING)
		pthread_cond_signal(&engine->work);
	pthread_mutex_unlock(&engine->lock);
	send_rings(engine, runner);
	return ran;
}

/* ---- on a thread of its own ---- */

static void
wait_for_work(struct engine *engine, enum batch_next next, uint64_t wake)
{
	struct timespec until = {.tv_sec = (time_t) (wake / 1000000000u), .tv_nsec = (long) (wake % 1000000000u)};

	if (next == BATCH_LATER)
		pthread_cond_timedwait(&engine->work, &engine->lock, &until);
	else
		pthread_cond_wait(&engine->work, &engine->lock);
}

static void *
scheduler_main(void *arg)
{
	static struct runner runner;
	struct engine *engine = arg;

	pthread_mutex_lock(&engine->lock);
	for (;;)
	{
		uint64_t	now = process_clock();
		uint64_t	wake = 0;
		enum batch_next next = BATCH_NOTHING;

		expire(engine, &runner, now);
		if (!engine->running)
			next = batch_form(&engine->policy, now, &engine->batch, &wake);
		if (next == BATCH_NOW)
		{
			engine->running = true;
			run_batch(engine, &runner, now);
		}
		if (runner.rings_count > 0)
		{
			pthread_mutex_unlock(&engine->lock);
			send_rings(engine, &runner);
			pthread_mutex_lock(&engine->lock);
		}
		else if (next != BATCH_NOW)	/* the lock was never free: no signal was missed */
			wait_for_work(engine, next, wake);
	}
	return NULL;
}

bool
scheduler_start(struct engine *engine, struct status *status)
{
	pthread_t	thread;
	int			failed = pthread_create(&thread, NULL, scheduler_main, engine);

	if (failed != 0)
		return status_set(status, INFER_ERROR_INTERNAL, "could not start a thread: %s", strerror(failed));
	pthread_detach(thread);
	return true;
}
