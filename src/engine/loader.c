/*
 * loader.c
 *	  See loader.h.
 *
 * Loop
 *	close what was evicted; take a job; without the lock: map the files, verify the digest,
 *	open the model, making room by eviction if memory is out; with the lock: answer.
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

#include "load.h"
#include "process/log.h"
#include "process/process.h"
#include "registry.h"
#include "scheduler/predict.h"
#include "scheduler/residency.h"
#include "scheduler/scheduler.h"
#include "server/region.h"

struct loaded						/* what a job has come to */
{
	enum files_result result;		/* FILES_OK: model is set, or status */
	struct model *model;
	struct model_files files;
	struct close_job *closing;
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

static enum files_result
open_files(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	char		folder[PATH_MAX];
	uint8_t		digest[INFER_KEY_BYTES];
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
	files_digest(&loaded->files, digest);
	if (memcmp(digest, job->digest, sizeof(digest)) == 0)
	{
		if (job->files_count == 0)
			utimensat(AT_FDCWD, folder, NULL, 0);	/* used now: the oldest go first */
		return FILES_OK;
	}
	files_close(&loaded->files);
	if (job->files_count == 0)
		return FILES_MISSING;
	status_set(&loaded->status, INFER_ERROR_MODEL, "the model's files have changed since the model was created");
	status_hint(&loaded->status, "Create a new version of the model with infer.create_model().");
	return FILES_FAILED;
}

/* Closes what was evicted; lock held on entry and on return, not in between. */
static void
close_evicted(struct engine *engine)
{
	struct close_job *job;

	while ((job = engine->close_first) != NULL)
	{
		pthread_mutex_unlock(&engine->lock);
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

/* Out of memory: lets the least recently used model go; false: none can. */
static bool
make_room(struct engine *engine, const struct entry *keep)
{
	bool		evicted;

	pthread_mutex_lock(&engine->lock);
	evicted = registry_evict_one(engine, keep);
	close_evicted(engine);
	pthread_mutex_unlock(&engine->lock);
	return evicted;
}

static void
open_model(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	do
	{
		status_clear(&loaded->status);
		loaded->model = model_open(&loaded->files, job->options, engine->device, &loaded->status);
	}
	while (loaded->model == NULL && loaded->status.error == INFER_ERROR_MEMORY && make_room(engine, job->entry));
	if (loaded->model != NULL && (loaded->closing = calloc(1, sizeof(*loaded->closing))) == NULL)
	{
		model_close(loaded->model);
		loaded->model = NULL;
		status_set(&loaded->status, INFER_ERROR_MEMORY, "out of memory for a model");
	}
	if (loaded->model == NULL)
		files_close(&loaded->files);
}

/* infer.memory, for all models together. */
static void
keep_budget(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	uint64_t	budget = engine->settings.memory;
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
	status_set(&loaded->status, INFER_ERROR_MEMORY, "the model does not fit into infer.memory");
	status_detail(&loaded->status, "It takes %llu bytes, models in use hold %llu, infer.memory allows %llu.",
				  (unsigned long long) loaded->model->bytes, (unsigned long long) used, (unsigned long long) budget);
	status_hint(&loaded->status, "Raise infer.memory, or unload a model with infer.unload_model().");
	model_close(loaded->model);
	files_close(&loaded->files);
	free(loaded->closing);
	loaded->model = NULL;
}

static void
do_job(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	memset(loaded, 0, sizeof(*loaded));
	loaded->result = open_files(engine, job, loaded);
	if (loaded->result != FILES_OK)
		return;
	open_model(engine, job, loaded);
	if (loaded->model != NULL)
		keep_budget(engine, job, loaded);
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

/* Requests that came while the model was loading meet its signature only now. */
static void
prepare_waiting(struct engine *engine, struct entry *entry)
{
	struct batch_request *next;

	for (struct batch_request *r = batch_waiting(&entry->queue, NULL); r != NULL; r = next)
	{
		struct request *request = (struct request *) r;
		struct status status;
		struct ring ring;

		next = batch_waiting(&entry->queue, r);
		status_clear(&status);
		if (request->prepared || request_prepare(request, &status))
			continue;
		batch_cancel(&engine->policy, r);
		ring = request_finish(request, status.error, &status);
		ring_send(&ring);
	}
}

static void
finish_loaded(struct engine *engine, struct entry *entry, struct loaded *loaded)
{
	struct asker *askers = entry->askers;

	entry->model = loaded->model;
	entry->files = loaded->files;
	entry->closing = loaded->closing;
	entry->state = INFER_MODEL_LOADED;
	entry->bytes = loaded->model->bytes;
	entry->loaded_at = process_time();
	entry->last_used = process_clock();
	entry->queue.rows_max = loaded->model->batch_rows_max > 0 ? loaded->model->batch_rows_max : 1;
	predict_reset(engine, entry);
	prepare_waiting(engine, entry);
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
			if (engine->load_first == NULL)
				pthread_cond_wait(&engine->loads, &engine->lock);
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
