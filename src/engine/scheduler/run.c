/*
 * run.c
 *	  See run.h.
 *
 * A part is a range of the batch's rows, counted through its slices.  The parts still to
 * run lie on a small stack: halving never makes it deeper than the number of bits of a
 * batch's size.
 */
#include "run.h"

#include <stddef.h>

#include "../process/log.h"
#include "../process/process.h"
#include "../registry/registry.h"
#include "lane.h"
#include "scheduler.h"

#define PARTS_MAX	34

struct part
{
	uint32_t	first;
	uint32_t	count;
};

static struct request *
request_of(struct model_request *work)
{
	return (struct request *) ((char *) work - offsetof(struct request, work));
}

/* Others have failed, or are answered, since they were prepared. */
static bool
is_computed(const struct model_request *work, uint32_t row)
{
	return work->units == NULL || work->units[row] > 0;
}

static bool
has_computed(const struct model_slice *slices, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t row = slices[i].first; row < slices[i].first + slices[i].count; row++)
			if (is_computed(slices[i].request, row))
				return true;
	return false;
}

/* The slices of a part, into the runner's second array; returns their number. */
static uint32_t
cut(const struct model_slice *slices, uint32_t slices_count, struct part part, struct model_slice *out)
{
	uint32_t	at = 0;
	uint32_t	count = 0;
	uint32_t	end = part.first + part.count;

	for (uint32_t i = 0; i < slices_count && at < end; at += slices[i].count, i++)
	{
		uint32_t	from = at > part.first ? at : part.first;
		uint32_t	to = at + slices[i].count < end ? at + slices[i].count : end;

		if (from >= to)
			continue;
		out[count++] = (struct model_slice) {
			.request = slices[i].request, .first = slices[i].first + (from - at), .count = to - from
		};
	}
	return count;
}

/*
 * What a failed run may have written is taken back.  Behind what another lane has written of the request meanwhile it
 * stays, and takes room in the reply until the request ends.
 */
static void
mark(const struct model_slice *slices, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
	{
		struct request *request = request_of(slices[i].request);

		if (!__atomic_load_n(&request->turns_alone, __ATOMIC_RELAXED))
			continue;
		model_reply_lock(&request->work);
		request->reply_mark = request->work.reply_used;
		request->overflow_mark = request->work.overflow ? request->work.overflow_bytes + 1 : 0;
		model_reply_unlock(&request->work);
	}
}

/* Lock held: no other lane begins with the request now. */
static void
restore_reply(struct request *request)
{
	if (!__atomic_load_n(&request->turns_alone, __ATOMIC_RELAXED))
		return;
	model_reply_lock(&request->work);
	request->work.reply_used = request->reply_mark;
	request->work.overflow = request->overflow_mark > 0;
	request->work.overflow_bytes = request->overflow_mark > 0 ? request->overflow_mark - 1 : 0;
	model_reply_unlock(&request->work);
}

static void
restore(struct engine *engine, const struct model_slice *slices, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
	{
		struct request *request = request_of(slices[i].request);

		pthread_mutex_lock(&engine->lock);
		restore_reply(request);
		pthread_mutex_unlock(&engine->lock);
		for (uint32_t row = slices[i].first; row < slices[i].first + slices[i].count; row++)
			if (is_computed(&request->work, row))
				request->work.row_status[row] = request->work.row_message[row] = 0;
	}
}

void
run_lost(const struct status *status)
{
	if (status->error != INFER_ERROR_DEVICE_LOST)
		return;
	log_status(LOG_FATAL, "the device is lost", status);
	process_exit_device_lost();
}

static bool
run_once(struct turn *turn, struct entry *entry, const struct model_slice *slices, uint32_t count, struct status *status)
{
	struct engine *engine = turn->engine;
	struct model_yield *yield = turn->runner->inline_ ? NULL : &turn->yield;

	status_clear(status);
	mark(slices, count);
	lane_beat(engine, turn->lane);	/* many small parts are alive, too */
	if (entry->model->ops->run(entry->model, turn->lane->queue, yield, slices, count, status))
		return true;
	run_lost(status);
	if (status->error == 0)
		status_set(status, INFER_ERROR_INTERNAL, "the model failed without saying why");
	restore(engine, slices, count);
	return false;
}

static void
fail_row(const struct model_slice *slice, const struct status *status)
{
	model_row_error(slice->request, slice->first, status->error, status->message,
					status->detail[0] != '\0' ? status->detail : NULL,
					status->hint[0] != '\0' ? status->hint : NULL);
}

enum run_result
run_slices(struct turn *turn)
{
	struct engine *engine = turn->engine;
	struct entry *entry = (struct entry *) turn->batch.model;	/* its first member */
	const struct model_slice *slices = turn->slices;
	uint32_t	slices_count = turn->batch.slices_count;
	struct model_slice *cut_slices = turn->parts;
	struct part parts[PARTS_MAX];
	uint32_t	parts_count = 0;
	uint32_t	rows = 0;
	bool		evicted = false;
	enum run_result result = RUN_REFUSED;
	struct status status;

	if (run_once(turn, entry, slices, slices_count, &status))
		return RUN_WHOLE;
	if (status.error == INFER_ERROR_CANCELLED)
		return RUN_UNWANTED;
	for (uint32_t i = 0; i < slices_count; i++)
		rows += slices[i].count;
	log_status(LOG_DEBUG, "a batch failed and runs again in parts", &status);
	if (status.error == INFER_ERROR_MEMORY)
		evicted = registry_evict_idle(engine, entry);
	if (rows == 1 && !evicted)
	{
		fail_row(&slices[0], &status);
		return status.error == INFER_ERROR_DEVICE ? RUN_REFUSED : RUN_PARTS;
	}
	if (evicted)
		parts[parts_count++] = (struct part) {0, rows};
	else
	{
		parts[parts_count++] = (struct part) {rows / 2, rows - rows / 2};
		parts[parts_count++] = (struct part) {0, rows / 2};
	}
	while (parts_count > 0)
	{
		struct part part = parts[--parts_count];
		uint32_t	count = cut(slices, slices_count, part, cut_slices);
		bool		ran = !has_computed(cut_slices, count) || run_once(turn, entry, cut_slices, count, &status);

		if (!ran && status.error == INFER_ERROR_CANCELLED)
			return RUN_UNWANTED;
		if (ran || status.error != INFER_ERROR_DEVICE)
			result = RUN_PARTS;		/* other errors are not the device's */
		if (ran)
			continue;
		if (part.count == 1)
			fail_row(&cut_slices[0], &status);
		else
		{
			parts[parts_count++] = (struct part) {part.first + part.count / 2, part.count - part.count / 2};
			parts[parts_count++] = (struct part) {part.first, part.count / 2};
		}
	}
	return result;
}
