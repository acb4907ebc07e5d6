/*
 * scheduler.c
 *	  See scheduler.h.
 *
 * Loop
 *	lock; expire; form a batch; unlock; run (turn.c); lock; end the requests that are
 *	complete; unlock; ring their clients; again.
 */
#include "scheduler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../process/log.h"
#include "../process/process.h"
#include "../process/thread.h"
#include "../registry/registry.h"
#include "../server/region.h"
#include "lane.h"
#include "outbox.h"
#include "predict.h"
#include "turn.h"

#define SLICE_CPU		10000000		/* nsec; infer.slice = 0 */
#define SLICE_ASYNC		2000000		/* of a device that is not the caller's thread: a GPU */

static struct entry *
entry_of(struct batch_model *queue)
{
	return (struct entry *) queue;				/* its first member */
}

/* ---- what others see ---- */

/* Predicted time of all that waits for a model, in batches of the size it allows. */
static uint64_t
estimate_queue(struct engine *engine, struct batch_model *queue)
{
	struct entry *entry = entry_of(queue);
	uint32_t	room = queue->rows_max < engine->policy.rows_max ? queue->rows_max : engine->policy.rows_max;

	if (!queue->ready || queue->rows_waiting == 0)
		return 0;
	if (queue->weighed)
	{
		uint64_t	nsec = batch_nsec(queue, queue->cost_waiting);

		return nsec + nsec / engine->policy.slice * queue->nsec_batch;
	}
	if (queue->rows_waiting <= room)
		return predict_nsec(entry, (uint32_t) queue->rows_waiting);
	return predict_nsec(entry, room) * (queue->rows_waiting / room + 1);
}

void
scheduler_publish(struct engine *engine, uint64_t now)
{
	uint64_t	free_at = lanes_free_at(engine, now);

	for (struct batch_model *m = engine->policy.models.next; m != &engine->policy.models; m = m->next)
		free_at += estimate_queue(engine, m) / engine->units_count;
	infer_store_release32(&engine->page->requests, engine->policy.requests);
	infer_store_release64(&engine->page->free_at, free_at);
}

/* Lanes that share a unit have segments on it at once, all of them ahead of a new call: together they are a slice. */
static uint64_t
slice_of_lane(const struct engine *engine)
{
	uint64_t	usual = engine->info.async ? SLICE_ASYNC : SLICE_CPU;
	uint64_t	slice = engine->settings.slice > 0 ? engine->settings.slice * 1000 : usual;

	return engine->lanes_count > engine->units_count ? slice * engine->units_count / engine->lanes_count : slice;
}

void
scheduler_settings(struct engine *engine)
{
	const struct settings *settings = &engine->settings;

	engine->policy.rows_max = settings->batch_rows;
	engine->policy.units_max = settings->batch_tokens;
	engine->policy.delay = settings->batch_delay * 1000;
	engine->policy.slice = slice_of_lane(engine);
	engine->policy.share = settings->job_share;
	engine->policy.requests_max = settings->queue_limit;
}

/* ---- ends ---- */

uint64_t
scheduler_deadline(const struct engine *engine)
{
	uint64_t	waiting = engine->policy.deadline_next;
	uint64_t	preparing = engine->prepare.deadline_next;

	return waiting == 0 || (preparing != 0 && preparing < waiting) ? preparing : waiting;
}

uint64_t
scheduler_expire(struct engine *engine, struct runner *runner, uint64_t now)
{
	uint64_t	next;

	pthread_mutex_lock(&engine->lock);
	runner_expire(engine, runner, now);
	next = scheduler_deadline(engine);
	scheduler_publish(engine, now);
	pthread_mutex_unlock(&engine->lock);
	runner_send(engine, runner);
	return next;
}

void
scheduler_drain(struct engine *engine, struct entry *entry, const struct status *status)
{
	struct batch_request *waiting;

	while ((waiting = batch_drain(&engine->policy, &entry->queue)) != NULL)
	{
		struct ring ring = request_finish((struct request *) waiting, status->error, status);

		ring_send(&ring);		/* only when a load fails: the lock is not contended then */
	}
}

/* ---- on the loop ---- */

/*
 * Lock held: whether the batch that was chosen is one for the loop: predicted to be short, and
 * no longer than a slice, for the loop does not give way; of a model that has run since it was
 * loaded.  A model that hangs does so on a runner's thread, and the loop goes on serving.
 * A marked row is a runner's, too, which sees to it that nothing else is prepared meanwhile.
 */
static bool
is_small(struct engine *engine, const struct batch *batch)
{
	struct entry *entry = entry_of(batch->model);
	uint64_t	most = engine->policy.slice < ENGINE_INLINE_NSEC ? engine->policy.slice : ENGINE_INLINE_NSEC;

	return latency_has_run(&entry->latency) && !batch_head(batch)->marked && predict_nsec(entry, batch->cost) < most;
}

/* Lock held.  Runs the next batch if it is one for the loop; otherwise wakes a runner. */
static bool
run_small(struct engine *engine, struct runner *runner, uint64_t now)
{
	struct lane *lane = lane_free(engine);
	struct batch *batch;
	uint32_t	rows;
	uint64_t	wake;
	enum batch_next next;

	if (lane == NULL || engine->policy.requests == 0)
		return false;
	batch = &lane->turns[0].batch;
	next = batch_choose(&engine->policy, now, batch, &rows, &wake);
	if (next == BATCH_NOW && engine->lanes_taken == 0 && is_small(engine, batch) && batch_take(&engine->policy, now, batch))
	{
		lane_take(engine, lane);
		turn_run(engine, runner, lane, 0, now);
		return true;
	}
	if (next != BATCH_NOTHING)
		pthread_cond_signal(&engine->work);
	return false;
}

bool
scheduler_dispatch(struct engine *engine, struct runner *runner)
{
	uint64_t	now = process_clock();
	bool		ran;

	pthread_mutex_lock(&engine->lock);
	runner_expire(engine, runner, now);
	ran = run_small(engine, runner, now);
	pthread_mutex_unlock(&engine->lock);
	runner_send(engine, runner);
	return ran;
}

/* ---- on runners' threads ---- */

static void
wait_for_work(struct engine *engine, enum batch_next next, uint64_t wake)
{
	struct timespec until = {.tv_sec = (time_t) (wake / 1000000000u), .tv_nsec = (long) (wake % 1000000000u)};

	if (next == BATCH_LATER)
		pthread_cond_timedwait(&engine->work, &engine->lock, &until);
	else
		pthread_cond_wait(&engine->work, &engine->lock);
}

/*
 * Lock held.  As batch_form; but a marked request waits until nothing is prepared and no other lane is taken (who
 * gives the last one back looks again), and is then prepared itself, if that is due: the lock is let go meanwhile.
 */
static enum batch_next
form(struct engine *engine, struct runner *runner, struct lane *lane, uint64_t now, uint64_t *wake)
{
	struct batch *batch = &lane->turns[0].batch;
	uint32_t	rows;
	enum batch_next next = batch_choose(&engine->policy, now, batch, &rows, wake);
	struct request *head = next == BATCH_NOW ? (struct request *) batch_head(batch) : NULL;

	if (head == NULL || !head->batch.marked)
		prepare_go_on(engine);
	else if (!prepare_stop(engine) || engine->lanes_taken > 0)
		return BATCH_NOTHING;
	if (head == NULL)
		return next;
	*wake = now;				/* with BATCH_LATER: to be asked again */
	if (head->batch.marked && head->entry->queue.weighed && head->stage == STAGE_NONE)
	{
		lane_take(engine, lane);
		engine->alone = true;
		runner_add(runner, prepare_marked(engine, head));
		engine->alone = false;
		lane_give(engine, lane);
		return BATCH_LATER;
	}
	return batch_take(&engine->policy, now, batch) ? BATCH_NOW : BATCH_LATER;
}

static void *
runner_main(void *arg)
{
	struct runner *runner = arg;
	struct engine *engine = runner->engine;

	if (!engine->info.async)		/* the device computes on this thread */
		thread_computes();
	pthread_mutex_lock(&engine->lock);
	for (;;)
	{
		uint64_t	now = process_clock();
		uint64_t	wake = 0;
		enum batch_next next = BATCH_NOTHING;
		struct lane *lane = lane_free(engine);
		bool		answers;

		runner_expire(engine, runner, now);
		if (lane != NULL)
			next = form(engine, runner, lane, now, &wake);
		else if (!engine->alone)
			prepare_go_on(engine);
		if (next == BATCH_NOW)
		{
			lane_take(engine, lane);
			turn_run(engine, runner, lane, 0, now);
		}
		if (runner->rings_count > 0 && outbox_put(engine, runner))
			continue;			/* the loop is woken when the next batch has begun, */
		answers = outbox_is_new(engine);
		if (answers || runner->rings_count > 0)
		{
			pthread_mutex_unlock(&engine->lock);
			if (answers)
				outbox_wake(engine);	/* or here, if there is none */
			runner_send(engine, runner);
			pthread_mutex_lock(&engine->lock);
		}
		else if (next != BATCH_NOW)	/* the lock was never free: no signal was missed */
			wait_for_work(engine, next, wake);
	}
	return NULL;
}

static bool
runner_start(struct engine *engine, struct status *status)
{
	struct runner *runner = calloc(1, sizeof(*runner));
	pthread_t	thread;
	int			failed;

	if (runner == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a thread");
	runner->engine = engine;
	failed = pthread_create(&thread, NULL, runner_main, runner);
	if (failed != 0)
		return status_set(status, INFER_ERROR_INTERNAL, "could not start a thread: %s", strerror(failed));
	pthread_detach(thread);
	return true;
}

bool
scheduler_start(struct engine *engine, struct status *status)
{
	if (!lanes_open(engine, status))
		return false;
	scheduler_settings(engine);	/* what is usual depends on the device */
	for (uint32_t i = 0; i < engine->lanes_count; i++)
		if (!runner_start(engine, status))
			return false;
	return true;
}
