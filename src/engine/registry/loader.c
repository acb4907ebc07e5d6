/*
 * loader.c
 *	  See loader.h.
 *
 * Loop
 *	close what was evicted; take a job; without the lock: map the files, verify them,
 *	open the model, making room by eviction if memory is out; with the lock: answer.  With
 *	nothing else to do: write the packed form of a model that was packed; at the latest
 *	before it is closed, so that models that take turns are packed once.
 *
 * Files are verified by their digest.  Where a packed file was made of them, its sum over those of
 * their bytes that are still read is enough: that was taken when the digest had been right.
 *
 * Files of the cache that are missing and files whose digest is wrong are one case: they
 * have to be written.  Files by reference whose digest is wrong are the user's.
 */
#include "loader.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../model/packed.h"
#include "../process/log.h"
#include "../process/process.h"
#include "../scheduler/predict.h"
#include "../scheduler/run.h"
#include "../scheduler/scheduler.h"
#include "../server/region.h"
#include "load.h"
#include "packed_store.h"
#include "registry.h"
#include "residency.h"

#define BUSY_NSEC	UINT64_C(100000000)		/* until something is tried again that others were in the way of */
#define ROOM_NSEC	UINT64_C(10000000000)	/* that a load waits for models in use to go */

struct loaded						/* what a job has come to */
{
	enum files_result result;		/* FILES_OK: model is set, or status */
	struct model *model;
	struct model_files files;
	struct close_job *closing;
	uint64_t	nsec;				/* that it took */
	struct status status;
};

static void
close_descriptors(struct load_job *job)
{
	for (uint32_t i = 0; i < job->files_count && job->fds != NULL; i++)
	{
		if (job->fds[i] >= 0)
			close(job->fds[i]);
		job->fds[i] = -1;
	}
}

void
loader_job_free(struct load_job *job)
{
	close_descriptors(job);
	for (uint32_t i = 0; i < job->files_count && job->names != NULL; i++)
		free(job->names[i]);
	free(job->names);
	free(job->sizes);
	free(job->fds);
	free(job->options);
	free(job);
}

void
loader_push(struct engine *engine, struct load_job *job)
{
	job->next = NULL;
	*engine->load_last = job;
	engine->load_last = &job->next;
	engine->loads_count++;
	pthread_cond_signal(&engine->loads);
}

/* ---- without the lock ---- */

/* By path each time: the cache's folder may be removed and made again at any time. */
static bool
cache_folder(const struct engine *engine, const uint8_t *digest, char path[PATH_MAX])
{
	int			used;

	if (engine->cache == NULL)
		return false;
	used = snprintf(path, PATH_MAX, "%s/", engine->cache);
	if (used + 2 * INFER_KEY_BYTES >= PATH_MAX)
		return false;
	for (int i = 0; i < INFER_KEY_BYTES; i++)
		used += sprintf(path + used, "%02x", digest[i]);
	return true;
}

/* FILES_OK leaves the files open.  A file by reference may have been changed on purpose, so its digest counts. */
static enum files_result
verify_files(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	struct packed *packed = loaded->files.packed;
	uint8_t		digest[INFER_KEY_BYTES];

	if (job->files_count == 0 && packed != NULL && packed_files_sum(&loaded->files, &packed->form) == packed->files_sum)
		return FILES_OK;
	files_digest(&loaded->files, digest);
	if (memcmp(digest, job->digest, sizeof(digest)) == 0)
		return FILES_OK;
	files_close(&loaded->files);
	if (job->files_count == 0)
		return FILES_MISSING;
	status_set(&loaded->status, INFER_ERROR_MODEL, "the model's files have changed since the model was created");
	status_hint(&loaded->status, "Put them back and call infer.load_model(), or make a new version with infer.create_model().");
	return FILES_FAILED;
}

static enum files_result
open_files(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	char		folder[PATH_MAX];
	enum files_result result;

	if (job->files_count > 0)
		result = files_open_descriptors(job->files_count, (const char *const *) job->names, job->sizes,
										job->fds, &loaded->files, &loaded->status);
	else if (cache_folder(engine, job->digest, folder))
		result = files_open_folder(folder, &loaded->files, &loaded->status);
	else
		result = FILES_MISSING;
	if (result != FILES_OK)
		return result;
	if ((job->flags & INFER_LOAD_CHECK) == 0)
		loaded->files.packed = packed_store_read(engine, job->key);
	result = verify_files(engine, job, loaded);
	if (result == FILES_OK && job->files_count == 0)
		utimensat(AT_FDCWD, folder, NULL, 0);	/* used now: the oldest go first */
	return result;
}

/* The packed weights are not what this engine makes of the model: packs anew. */
static bool
leave_packed(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	if (loaded->files.packed == NULL || !loaded->files.packed->stale)
		return false;
	log_write(LOG_INFO, "a packed model in the cache is out of date: it is packed anew");
	packed_store_remove(engine, job->key);
	packed_close(loaded->files.packed);
	loaded->files.packed = NULL;
	status_clear(&loaded->status);
	loaded->result = verify_files(engine, job, loaded);
	return loaded->result == FILES_OK;
}

/* ---- the packed form ---- */

/* Whether there is something better to do than to write a file. */
static bool
is_wanted(struct engine *engine)
{
	bool		wanted;

	pthread_mutex_lock(&engine->lock);
	wanted = engine->load_first != NULL || engine->close_first != NULL;
	pthread_mutex_unlock(&engine->lock);
	return wanted;
}

static enum packed_result
write_packed(struct engine *engine, const uint8_t *key, const struct model *model, const struct model_files *files,
			 bool (*stop) (struct engine *engine))
{
	struct packed_form form;

	if (model->ops->packed_form == NULL || !model->ops->packed_form(model, &form))
		return PACKED_REFUSED;
	return packed_store_write(engine, key, files, &form, stop);
}

static void
find_unwritten(struct engine *engine, struct entry *entry, void *arg)
{
	struct entry **found = arg;

	if (entry->packed == ENTRY_PACKED_WANTED && entry->state == INFER_MODEL_LOADED)
		*found = entry;
}

/*
 * Lock held on entry and on return, not in between: nobody but this thread closes a model and
 * its files.  false: there is nothing to write.
 */
static bool
write_one(struct engine *engine, bool *busy)
{
	struct entry *entry = NULL;
	uint8_t		key[INFER_KEY_BYTES];
	struct model *model;
	struct model_files files;
	enum packed_result result;

	registry_visit(engine, find_unwritten, &entry);
	if (entry == NULL)
		return false;
	memcpy(key, entry->key, sizeof(key));
	model = entry->model;
	files = entry->files;
	pthread_mutex_unlock(&engine->lock);
	result = write_packed(engine, key, model, &files, is_wanted);
	pthread_mutex_lock(&engine->lock);
	*busy = result == PACKED_BUSY;
	entry = registry_find(engine, key);
	if (entry != NULL && entry->model == model && (result == PACKED_WRITTEN || result == PACKED_REFUSED))
		entry->packed = result == PACKED_WRITTEN ? ENTRY_PACKED_WRITTEN : ENTRY_PACKED_NONE;
	return true;
}

/* Closes what was evicted; lock held on entry and on return, not in between. */
static void
close_evicted(struct engine *engine)
{
	struct close_job *job;

	while ((job = engine->close_first) != NULL)
	{
		pthread_mutex_unlock(&engine->lock);
		if (job->packed_wanted)
			write_packed(engine, job->key, job->model, &job->files, NULL);
		model_close(job->model);
		files_close(&job->files);
		pthread_mutex_lock(&engine->lock);
		load_answer_unloaded(job->askers);
		for (struct close_job **link = &engine->close_first; *link != NULL; link = &(*link)->next)
		{
			if (*link == job)
			{
				*link = job->next;
				break;
			}
		}
		free(job);
		pthread_cond_broadcast(&engine->closed);
	}
}

/*
 * Out of memory: lets the least recently used model go, an idle one if there is any; of one in
 * use the calls in flight are awaited, and its next caller loads it again.  false: there is none, or none that
 * its callers let go.
 */
static bool
make_room(struct engine *engine, const struct entry *keep)
{
	uint64_t	deadline = process_clock() + ROOM_NSEC;
	bool		made;

	pthread_mutex_lock(&engine->lock);
	while (!(made = registry_evict_one(engine, keep) || engine->close_first != NULL) &&
		   registry_evict_busy(engine, keep) && process_clock() < deadline)
	{
		struct timespec until = process_time_after(BUSY_NSEC);

		pthread_cond_timedwait(&engine->loads, &engine->lock, &until);
	}
	close_evicted(engine);
	pthread_mutex_unlock(&engine->lock);
	return made;
}

static void
open_model(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	do
	{
		status_clear(&loaded->status);
		loaded->model = model_open(&loaded->files, job->options, engine->device, &loaded->status);
	}
	while (loaded->model == NULL &&
		   ((loaded->status.error == INFER_ERROR_MEMORY && make_room(engine, job->entry)) ||
			leave_packed(engine, job, loaded)));
	if (loaded->model != NULL && (loaded->closing = calloc(1, sizeof(*loaded->closing))) == NULL)
	{
		model_close(loaded->model);
		loaded->model = NULL;
		status_set(&loaded->status, INFER_ERROR_MEMORY, "out of memory for a model");
	}
	if (loaded->model == NULL)
		files_close(&loaded->files);
}

/* The device's memory (infer.memory, infer.gpu_memory), for all models together. */
static void
keep_budget(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	uint64_t	budget = engine->info.bytes_budget;
	const char *setting = device_memory_setting(engine->device);
	uint64_t	used;

	do
	{
		pthread_mutex_lock(&engine->lock);
		used = registry_bytes(engine, job->entry);
		pthread_mutex_unlock(&engine->lock);
		if (residency_excess(used, loaded->model->bytes, budget) == 0)
			return;
	}
	while (make_room(engine, job->entry));
	status_set(&loaded->status, INFER_ERROR_MEMORY, "the model does not fit into %s", setting);
	status_detail(&loaded->status, "It takes %llu bytes, models in use hold %llu, %s allows %llu.",
				  (unsigned long long) loaded->model->bytes, (unsigned long long) used, setting, (unsigned long long) budget);
	status_hint(&loaded->status, "Raise %s, or unload a model with infer.unload_model().", setting);
	model_close(loaded->model);
	files_close(&loaded->files);
	free(loaded->closing);
	loaded->model = NULL;
}

static void
do_job(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	uint64_t	began = process_clock();

	memset(loaded, 0, sizeof(*loaded));
	loaded->result = open_files(engine, job, loaded);
	if (loaded->result != FILES_OK)
		return;
	open_model(engine, job, loaded);
	run_lost(&loaded->status);
	if (loaded->model != NULL)
	{
		files_rest(&loaded->files);
		keep_budget(engine, job, loaded);
	}
	loaded->nsec = process_clock() - began;
}

/* ---- with the lock ---- */

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

static void
finish(struct engine *engine, struct load_job *job, struct loaded *loaded)
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

/* Lock held.  Returns when there may be something to do. */
static void
wait_for_work(struct engine *engine)
{
	struct timespec until;
	bool		busy = false;

	if (engine->load_first != NULL)
		return;
	if (engine->close_first == NULL && write_one(engine, &busy) && !busy)
		return;
	if (engine->load_first != NULL || engine->close_first != NULL)
		return;
	if (!busy)
	{
		pthread_cond_wait(&engine->loads, &engine->lock);
		return;
	}
	until = process_time_after(BUSY_NSEC);
	pthread_cond_timedwait(&engine->loads, &engine->lock, &until);
}

static void *
loader_main(void *arg)
{
	static struct loaded loaded;
	struct engine *engine = arg;

	pthread_mutex_lock(&engine->lock);
	for (;;)
	{
		struct load_job *job = engine->load_first;

		close_evicted(engine);
		if (job == NULL)
		{
			wait_for_work(engine);
			continue;
		}
		engine->load_first = job->next;
		if (engine->load_first == NULL)
			engine->load_last = &engine->load_first;
		engine->loads_count--;
		pthread_mutex_unlock(&engine->lock);
		do_job(engine, job, &loaded);
		close_descriptors(job);	/* the mappings stay */
		pthread_mutex_lock(&engine->lock);
		if (loaded.status.error != 0)
			log_status(LOG_INFO, "a model could not be loaded", &loaded.status);
		finish(engine, job, &loaded);
		pthread_mutex_unlock(&engine->lock);
		loader_job_free(job);
		pthread_mutex_lock(&engine->lock);
	}
	return NULL;
}

bool
load_start(struct engine *engine, struct status *status)
{
	pthread_t	thread;
	int			failed = pthread_create(&thread, NULL, loader_main, engine);

	if (failed != 0)
		return status_set(status, INFER_ERROR_INTERNAL, "could not start a thread: %s", strerror(failed));
	pthread_detach(thread);
	return true;
}
