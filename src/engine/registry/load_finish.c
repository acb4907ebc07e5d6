/*
 * load_finish.c
 *	  A load has ended: the entry, those who asked for it, and the requests that wait for it.
 *
 * A check keeps nothing.  A model that was loaded meets the requests that came meanwhile: their
 * rows can be laid out only now.  A failure that is the model's own is remembered, one of the
 * moment is not; files that are missing are asked of the next who waits.
 */
#include "loader.h"

#include <stdlib.h>

#include "../model/packed.h"
#include "../process/process.h"
#include "../scheduler/predict.h"
#include "../scheduler/scheduler.h"
#include "../server/region.h"
#include "registry.h"

static void
finish_check(struct engine *engine, struct load_job *job, struct loaded *loaded)
{
	struct asker *asker = job->asker;

	if (loaded->model != NULL)
	{
		load_answer_loaded(asker, &loaded->model->signature);
		pthread_mutex_unlock(&engine->lock);
		model_close(loaded->model);
		files_close(&loaded->files);
		free(loaded->closing);
		pthread_mutex_lock(&engine->lock);
	}
	else if (loaded->result == FILES_MISSING)
		load_answer_need_files(asker);
	else
		load_answer_error(asker, &loaded->status);
}

/* Requests that came while the model was loading meet its signature only now; false: it has ended. */
static bool
lay_out_waiting(struct engine *engine, struct request *request)
{
	struct status status;
	struct ring ring;

	status_clear(&status);
	if (request->laid_out || request_lay_out(request, &status))
		return true;
	if (request->batch.held)
		batch_end(&engine->policy, &request->batch);
	else
		batch_cancel(&engine->policy, &request->batch);
	ring = request_finish(request, status.error, &status);
	ring_send(&ring);
	return false;
}

static void
lay_out_all(struct engine *engine, struct entry *entry)
{
	struct batch_request *next;

	for (struct batch_request *r = batch_waiting(&entry->queue, NULL); r != NULL; r = next)
	{
		next = batch_waiting(&entry->queue, r);
		lay_out_waiting(engine, (struct request *) r);
	}
}

/* Where the kind prepares they leave the queue, in their order, and come back when they are weighed. */
static struct request *
hold_all(struct engine *engine, struct entry *entry)
{
	struct request *first = NULL;
	struct request **last = &first;
	struct batch_request *r;

	while ((r = batch_waiting(&entry->queue, NULL)) != NULL)
	{
		batch_hold(&engine->policy, r);
		*last = (struct request *) r;
		last = &(*last)->stage_next;
	}
	*last = NULL;
	return first;
}

static void
prepare_all(struct engine *engine, struct request *request)
{
	struct request *next;

	for (; request != NULL; request = next)
	{
		next = request->stage_next;
		if (lay_out_waiting(engine, request))
			prepare_push(engine, request, process_clock());
	}
}

static void
finish_loaded(struct engine *engine, struct entry *entry, struct loaded *loaded)
{
	struct asker *askers = entry->askers;
	struct request *held = NULL;
	struct packed_form form;

	entry->model = loaded->model;
	entry->files = loaded->files;
	entry->closing = loaded->closing;
	entry->load_nsec = loaded->nsec;
	entry->from_cache = loaded->files.packed != NULL;
	entry->packed = loaded->files.packed != NULL ? ENTRY_PACKED_READ :
		loaded->model->ops->packed_form != NULL && loaded->model->ops->packed_form(loaded->model, &form) ?
		ENTRY_PACKED_WANTED : ENTRY_PACKED_NONE;
	entry->state = INFER_MODEL_LOADED;
	entry->bytes = loaded->model->bytes;
	entry->loaded_at = process_time();
	entry->last_used = process_clock();
	entry->queue.rows_max = loaded->model->batch_rows_max > 0 ? loaded->model->batch_rows_max : 1;
	if (entry->model->ops->prepare != NULL)
		held = hold_all(engine, entry);
	predict_reset(engine, entry);
	lay_out_all(engine, entry);
	prepare_all(engine, held);
	entry->queue.ready = true;
	entry->askers = NULL;
	load_answer_loaded(askers, &entry->model->signature);
	pthread_cond_signal(&engine->work);
	if (entry->unloaders != NULL)
		registry_evict(engine, entry);
}

static void
finish_failed(struct engine *engine, struct entry *entry, const struct status *status, bool remember)
{
	struct asker *asker;

	entry->failure = remember ? malloc(sizeof(*status)) : NULL;
	if (entry->failure != NULL)
		*entry->failure = *status;
	entry->state = entry->failure != NULL ? INFER_MODEL_FAILED : 0;
	while ((asker = entry->askers) != NULL)
	{
		entry->askers = asker->next;
		load_answer_error(asker, status);
	}
	scheduler_drain(engine, entry, status);
}

/* Who has just written the files cannot be asked to write them again. */
static void
finish_missing(struct engine *engine, struct entry *entry)
{
	struct status status;

	status_clear(&status);
	status_set(&status, INFER_ERROR_INTERNAL, "the model's files are missing from the cache or damaged, although they have just been written");
	for (struct asker **link = &entry->askers; *link != NULL;)
	{
		struct asker *asker = *link;

		if ((asker->flags & INFER_LOAD_WROTE) == 0)
		{
			link = &asker->next;
			continue;
		}
		*link = asker->next;
		load_answer_error(asker, &status);
	}
	load_next_writer(engine, entry);
}

void
load_finish(struct engine *engine, struct load_job *job, struct loaded *loaded)
{
	struct entry *entry = job->entry;
	uint32_t	error = loaded->status.error;

	if (entry == NULL)
	{
		finish_check(engine, job, loaded);
		return;
	}
	entry->loading = false;
	if (loaded->model != NULL)
	{
		finish_loaded(engine, entry, loaded);
		return;
	}
	load_answer_unloaded(entry->unloaders);
	entry->unloaders = NULL;
	if (loaded->result == FILES_MISSING)
		finish_missing(engine, entry);
	else
		finish_failed(engine, entry, &loaded->status, loaded->result == FILES_OK &&
					  (error == INFER_ERROR_MODEL || error == INFER_ERROR_UNSUPPORTED));
}
