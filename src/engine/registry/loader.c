/*
 * loader.c
 *	  See loader.h.
 *
 * Loop
 *	close what was evicted; take a job; without the lock: map the files, verify them,
 *	open the model, making room by eviction if memory is out (load_open.c); with the lock: answer
 *	(load_finish.c).  With nothing else to do: write the packed form of a model that was packed;
 *	at the latest before it is closed, so that models that take turns are packed once.
 */
#include "loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../model/packed.h"
#include "../process/log.h"
#include "../process/process.h"
#include "load.h"
#include "packed_store.h"
#include "registry.h"

#define BUSY_NSEC	UINT64_C(100000000)		/* until something is tried again that others were in the way of */
#define ROOM_NSEC	UINT64_C(10000000000)	/* that a load waits for models in use to go */

void
loader_push(struct engine *engine, struct load_job *job)
{
	job->next = NULL;
	*engine->load_last = job;
	engine->load_last = &job->next;
	engine->loads_count++;
	pthread_cond_signal(&engine->loads);
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

/* ---- closing ---- */

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

bool
loader_make_room(struct engine *engine, const struct entry *keep)
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

/* ---- the thread ---- */

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
		load_open(engine, job, &loaded);
		load_job_close(job);	/* the mappings stay */
		pthread_mutex_lock(&engine->lock);
		if (loaded.status.error != 0)
			log_status(LOG_INFO, "a model could not be loaded", &loaded.status);
		load_finish(engine, job, &loaded);
		pthread_mutex_unlock(&engine->lock);
		load_job_free(job);
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
