/*
 * turn.c
 *	  See turn.h.
 *
 * Loop
 *	begin; run (run.c), between whose segments others may have a turn; learn; end the
 *	requests that are complete.
 *
 * A batch predicted to take longer than infer.slice is cut into segments where the model can
 * be, and gives way between them: a batch of a higher class runs then and there, on this thread, in
 * the next of its lane's turns.  Only runners do so; the loop's batches are
 * short.  Other lanes go on beside: rows of one request may be in several of their batches.
 *
 * Nothing here allocates: a batch's slices and rings lie in arrays made at the start.
 */
#include "turn.h"

#include <stddef.h>

#include "../process/process.h"
#include "../registry/registry.h"
#include "../server/region.h"
#include "lane.h"
#include "outbox.h"
#include "predict.h"
#include "run.h"

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

struct ring
turn_finish(struct request *request)
{
	static const struct status late = {
		.error = INFER_ERROR_DEADLINE,
		.message = "the deadline passed before the model could run"
	};

	if (request->batch.cancelled)
		return request_finish(request, INFER_ERROR_CANCELLED, NULL);
	if (request->batch.late)
		return request_finish(request, INFER_ERROR_DEADLINE, &late);
	return request_finish(request, INFER_OK, NULL);
}

/* ---- beginning ---- */

/* Of a slice's rows, the first that is something to compute. */
static uint32_t
first_computed(const struct batch_slice *slice)
{
	const uint32_t *units = slice->request->units;
	uint32_t	row = slice->first;

	while (units != NULL && units[row] == 0)
		row++;
	return row;
}

/* Lock held: what waits is for another lane, if there is one; who looks after that may sleep. */
static void
wake_others(struct engine *engine)
{
	bool		waits = false;

	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		waits = waits || engine->policy.rows_class[c] > 0;
	if (waits && engine->lanes_taken < engine->lanes_count)
		pthread_cond_signal(&engine->work);
}

/* Lock held: from the policy's slices to the model's, and what the clients may see of it. */
static void
begin(struct turn *turn, uint64_t now)
{
	struct engine *engine = turn->engine;
	struct batch *batch = &turn->batch;
	struct entry *entry = entry_of(batch->model);

	for (uint32_t i = 0; i < batch->slices_count; i++)
	{
		const struct batch_slice *slice = &batch->slices[i];
		struct request *request = request_of(slice->request);
		uint64_t	queued = request->batch.arrived + request->prepare_nsec;
		uint64_t	waited = now > queued ? now - queued : 0;

		turn->slices[i] = (struct model_slice) {
			.request = &request->work, .first = slice->first, .count = slice->count
		};
		counters_rows_waited(request, slice->rows, waited);
		request->queue_nsec = waited;
		request->began = now;
		__atomic_store_n(&request->turns_alone, request->turns++ == 0, __ATOMIC_RELAXED);
		request->batches++;
		if (batch->rows > request->batch_rows)
			request->batch_rows = batch->rows;
		if (batch->marked)
			infer_store_release32(&request->region->map->running_row, first_computed(slice));
		infer_store_release32(&request->region->map->run_state, INFER_RUN_RUNNING);
	}
	turn->began = now;
	counters_segment_begins(turn->lane->unit, now);
	turn->nsec = 0;
	turn->interrupted = 0;
	turn->predicted = predict_batch(entry, batch);
	entry->last_used = entry->last_ran = now;
	turn->lane->ends = now + turn->predicted;
	engine->alone = batch->marked;
	infer_store_release32(&engine->page->device_busy, 1);
	wake_others(engine);
	scheduler_publish(engine, now);
}

/* ---- between two segments ---- */

/* Lock held: a segment has ended; more: others follow. */
static void
end_segment(struct turn *turn, uint64_t now, bool more)
{
	uint64_t	nsec = counters_segment_ends(turn->lane->unit, entry_of(turn->batch.model), turn->began, now);

	turn->nsec += nsec;
	batch_charge_segment(&turn->engine->policy, &turn->batch, nsec, more);
}

/* Lock held.  Runs one batch that may go first; whether there was one. */
static bool
let_one_pass(struct turn *turn, uint64_t now)
{
	struct engine *engine = turn->engine;
	struct turn *next = turn + 1;

	if (next == turn->lane->turns + BATCH_DEPTH ||
		!batch_interrupt(&engine->policy, now, &turn->batch, turn->interrupted, &next->batch))
		return false;
	entry_of(turn->batch.model)->interrupted++;
	turn->interrupted++;
	turn_run(engine, turn->runner, turn->lane, (uint32_t) (next - turn->lane->turns), now);
	batch_resume(&engine->policy, &turn->batch);
	return true;
}

static bool
between(struct model_yield *yield)
{
	struct turn *turn = (struct turn *) ((char *) yield - offsetof(struct turn, yield));
	struct engine *engine = turn->engine;
	uint64_t	now;
	uint64_t	left;
	bool		answers;
	bool		wanted;

	lane_beat(engine, turn->lane);
	pthread_mutex_lock(&engine->lock);
	now = process_clock();		/* with the lock: calls arrive and counters are reset meanwhile */
	end_segment(turn, now, true);
	turn->interrupted = 0;
	for (;;)
	{
		bool		passed;

		runner_expire(engine, turn->runner, now);
		wanted = batch_wanted(&turn->batch, now);
		passed = wanted && let_one_pass(turn, now);	/* what nobody wants need not wait for its turn */
		if (turn->runner->rings_count > 0 && !outbox_put(engine, turn->runner))
		{
			pthread_mutex_unlock(&engine->lock);
			runner_send(engine, turn->runner);
			pthread_mutex_lock(&engine->lock);
		}
		now = process_clock();
		if (!passed)
			break;
	}
	left = turn->predicted > turn->nsec ? turn->predicted - turn->nsec : 0;
	turn->lane->ends = now + left;
	turn->began = now;
	counters_segment_begins(turn->lane->unit, now);
	answers = outbox_is_new(engine);
	pthread_mutex_unlock(&engine->lock);
	if (answers)
		outbox_wake(engine);
	return wanted;
}

/* Lock held: how the model is to be cut.  The model's own clock may be off. */
static void
prepare_yield(struct turn *turn)
{
	struct entry *entry = entry_of(turn->batch.model);
	uint64_t	slice = turn->engine->policy.slice;
	uint64_t	prior = predict_prior(entry, &turn->batch);
	double		nsec = (double) slice;

	if (prior > 0 && turn->predicted > 0)
		nsec *= (double) prior / (double) turn->predicted;
	turn->yield = (struct model_yield) {.segment_nsec = nsec < 1e15 ? (uint64_t) nsec : UINT64_MAX, .between = between};
}

/* ---- ending ---- */

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
learn(struct turn *turn, struct entry *entry, enum run_result result)
{
	struct engine *engine = turn->engine;
	uint64_t	bytes = __atomic_load_n(&entry->model->bytes, __ATOMIC_RELAXED);

	batch_charge(&engine->policy, &turn->batch, turn->nsec);
	if (result == RUN_WHOLE)
		predict_learn(engine, entry, turn->batch.cost, turn->predicted, turn->nsec);
	__atomic_store_n(&engine->batches_refused, result == RUN_REFUSED ? engine->batches_refused + 1 : 0,
					 __ATOMIC_RELAXED);
	counters_batch_ends(entry, &turn->batch, turn->nsec, result != RUN_UNWANTED);
	entry->segments_long += turn->yield.segments_long;
	if (entry->bytes != bytes)
	{
		entry->bytes = bytes;
		registry_keep_budget(engine, entry);	/* buffers grow with the batches */
	}
}

/* Lock held. */
static void
end(struct turn *turn, enum run_result result, uint64_t now)
{
	struct engine *engine = turn->engine;
	struct batch *batch = &turn->batch;
	struct entry *entry = entry_of(batch->model);

	end_segment(turn, now, false);
	learn(turn, entry, result);
	for (uint32_t i = 0; i < batch->slices_count; i++)
	{
		const struct batch_slice *slice = &batch->slices[i];
		struct request *request = request_of(slice->request);
		uint32_t	failed = count_failed(slice, request);

		request->compute_nsec += turn->nsec;
		request->rows_failed += failed;
		if (result != RUN_UNWANTED && slice->request->units != NULL)
			request->tokens += slice->units;
		counters_rows_done(request, failed, turn->runner->inline_ && slice->count == request->batch.rows);
		if (--request->turns == 0)
			infer_store_release32(&request->region->map->run_state, INFER_RUN_QUEUED);
		if (batch_done(&engine->policy, slice->request, slice->count))
			runner_add(turn->runner, turn_finish(request));
	}
	if (turn == turn->lane->turns)
	{
		engine->alone = false;
		lane_give(engine, turn->lane);
		infer_store_release32(&engine->page->device_busy, engine->lanes_taken > 0);
	}
	scheduler_publish(engine, now);
}

void
turn_run(struct engine *engine, struct runner *runner, struct lane *lane, uint32_t depth, uint64_t now)
{
	struct turn *turn = &lane->turns[depth];
	enum run_result result;
	bool		answers;

	turn->engine = engine;
	turn->lane = lane;
	turn->runner = runner;
	begin(turn, now);
	turn->yield.segments_long = 0;
	if (!runner->inline_)
		prepare_yield(turn);
	answers = !runner->inline_ && outbox_is_new(engine);
	pthread_mutex_unlock(&engine->lock);
	if (answers)
		outbox_wake(engine);
	result = run_slices(turn);
	pthread_mutex_lock(&engine->lock);
	end(turn, result, process_clock());
}
