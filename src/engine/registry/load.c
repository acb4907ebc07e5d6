/*
 * load.c
 *	  See load.h; the thread itself is in loader.c.
 *
 * Loop of a key
 *	LOAD → the loader looks for the files.  They are good: LOADED to all that wait.  They are
 *	missing or damaged: NEED_FILES to the one that has waited longest, which is the writer
 *	now; the others go on waiting, and so do requests.  The writer's LOAD with WROTE starts
 *	the loader again.  A writer that dies, gives up (UNLOAD), or takes longer than
 *	load_writer_nsec while others wait is followed by the next, or, if only requests wait, by
 *	who of them asks to load first; two writers do no harm, since
 *	files are renamed into place.
 *	UNLOAD while the loader has the key waits for it: the model goes as soon as it has come, and
 *	those who waited for it learn the signature and have their calls computed.  An UNLOAD that
 *	is not carried out yet when LOAD comes is answered and forgotten: the model stays.
 *	A load that fails answers its error to all, and to everybody who asks later, until a
 *	LOAD with RETRY; want of memory is not remembered.
 *
 * All of it runs with engine.lock held, taken by the four entry points.
 */
#include "load.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../process/process.h"
#include "../scheduler/scheduler.h"
#include "../server/connection.h"
#include "../server/server.h"
#include "loader.h"
#include "registry.h"

uint64_t	load_writer_nsec = 30ull * 1000000000u;

/* ---- askers ---- */

/* NULL: too many of this connection's, or out of memory. */
static struct asker *
asker_new(struct connection *connection, uint64_t request, uint32_t flags)
{
	struct asker *asker;

	if (__atomic_load_n(&connection->asks, __ATOMIC_RELAXED) >= CONNECTION_ASKS_MAX)
		return NULL;
	asker = calloc(1, sizeof(*asker));
	if (asker == NULL)
		return NULL;
	connection_ref(connection);
	__atomic_fetch_add(&connection->asks, 1, __ATOMIC_RELAXED);
	*asker = (struct asker) {.connection = connection, .request = request, .flags = flags};
	return asker;
}

/* For infer.activity: what the LOAD frame says of itself. */
static void
display(struct asker *asker, const uint8_t *payload)
{
	struct infer_load load;

	memcpy(&load, payload, sizeof(load));
	asker->since = process_clock();
	asker->model = load.model;
	asker->version = load.version;
	asker->role = load.role;
}

static void
asker_free(struct asker *asker)
{
	__atomic_fetch_sub(&asker->connection->asks, 1, __ATOMIC_RELAXED);
	connection_unref(asker->connection);
	free(asker);
}

static void
asker_append(struct asker **list, struct asker *asker)
{
	while (*list != NULL)
		list = &(*list)->next;
	*list = asker;
}

static struct asker *
asker_pop(struct asker **list)
{
	struct asker *asker = *list;

	if (asker != NULL)
		*list = asker->next;
	return asker;
}

void
load_answer_error(struct asker *asker, const struct status *status)
{
	connection_send_error(asker->connection, asker->request, status);
	asker_free(asker);
}

void
load_answer_unloaded(struct asker *askers)
{
	struct asker *asker;

	while ((asker = asker_pop(&askers)) != NULL)
	{
		connection_send(asker->connection, INFER_FRAME_UNLOADED, asker->request, 0, 0, NULL, 0);
		asker_free(asker);
	}
}

/* The signature, encoded once for all that wait. */
void
load_answer_loaded(struct asker *askers, const struct infer_signature *signature)
{
	struct infer_writer w = {.data = malloc(INFER_FRAME_MAX), .size = INFER_FRAME_MAX};
	struct asker *asker;
	struct status status;

	status_clear(&status);
	if (w.data == NULL)
		status_set(&status, INFER_ERROR_MEMORY, "out of memory for a model's signature");
	else
		infer_put_signature(&w, signature);
	if (w.failed)
		status_set(&status, INFER_ERROR_UNSUPPORTED, "the model's signature is larger than %u bytes", INFER_FRAME_MAX);
	while ((asker = asker_pop(&askers)) != NULL)
	{
		if (status.error != 0)
			connection_send_error(asker->connection, asker->request, &status);
		else
			connection_send(asker->connection, INFER_FRAME_LOADED, asker->request, 0, 0, w.data, (uint32_t) w.used);
		asker_free(asker);
	}
	free(w.data);
}

void
load_answer_need_files(struct asker *asker)
{
	struct status status;

	status_clear(&status);
	status_set(&status, INFER_ERROR_NEED_FILES, "the model's files are missing from the cache, or damaged");
	load_answer_error(asker, &status);
}

/* ---- the writer ---- */

static void
writer_clear(struct entry *entry)
{
	if (entry->writer != NULL)
		connection_unref(entry->writer);
	entry->writer = NULL;
}

void
load_next_writer(struct engine *engine, struct entry *entry)
{
	struct asker *asker = asker_pop(&entry->askers);
	struct status status;

	writer_clear(entry);
	if (asker != NULL)
	{
		entry->writer = asker->connection;
		connection_ref(entry->writer);
		entry->writer_until = process_clock() + load_writer_nsec;
		load_answer_need_files(asker);
		return;
	}
	entry->state = 0;
	status_clear(&status);
	status_set(&status, INFER_ERROR_NEED_LOAD, "the model is not loaded");
	scheduler_drain(engine, entry, &status);
}

static bool
awaits_writer(const struct entry *entry)
{
	return entry->state == INFER_MODEL_LOADING && !entry->loading;
}

/* ---- LOAD ---- */

static void
answer_busy(struct asker *asker, const char *message)
{
	struct status status;

	status_clear(&status);
	status_set(&status, INFER_ERROR_BUSY, "%s", message);
	load_answer_error(asker, &status);
}

/* Whether the loader takes one more; otherwise the asker has its answer. */
static bool
loader_has_room(struct engine *engine, struct asker *asker)
{
	if (engine->loads_count < ENGINE_LOADS_MAX)
		return true;
	answer_busy(asker, "too many models wait to be loaded");
	return false;
}

static bool
start_job(struct engine *engine, struct entry *entry, struct load_job *job)
{
	writer_clear(entry);
	free(entry->failure);
	entry->failure = NULL;
	entry->state = INFER_MODEL_LOADING;
	entry->loading = true;
	job->entry = entry;
	loader_push(engine, job);
	return true;
}

/* Somebody wants a model that was to be unloaded: it stays after all. */
static void
keep(struct entry *entry)
{
	struct asker *unloaders = entry->unloaders;

	entry->unloaders = NULL;
	load_answer_unloaded(unloaders);
}

/* Whether the job was taken; otherwise the asker has its answer, or waits. */
static bool
ask(struct engine *engine, struct entry *entry, struct load_job *job, struct asker *asker)
{
	bool		is_writer = entry->writer == asker->connection;

	switch (entry->state)
	{
		case INFER_MODEL_LOADED:
			load_answer_loaded(asker, &entry->model->signature);
			return false;
		case INFER_MODEL_FAILED:
			if ((job->flags & INFER_LOAD_RETRY) == 0)
			{
				load_answer_error(asker, entry->failure);
				return false;
			}
			break;
		case INFER_MODEL_EVICTED:
			if (entry->model != NULL)	/* not yet drained */
			{
				entry->state = INFER_MODEL_LOADED;
				keep(entry);
				load_answer_loaded(asker, &entry->model->signature);
				return false;
			}
			break;
		case INFER_MODEL_LOADING:
			keep(entry);
			if (entry->loading || (!is_writer && (job->flags & INFER_LOAD_WROTE) == 0 && job->files_count == 0))
			{
				asker_append(&entry->askers, asker);
				return false;
			}
			if ((job->flags & INFER_LOAD_WROTE) == 0 && job->files_count == 0)
			{
				load_answer_need_files(asker);
				return false;
			}
			break;
	}
	if (!loader_has_room(engine, asker))
		return false;
	asker_append(&entry->askers, asker);
	return start_job(engine, entry, job);
}

/* ---- the frame ---- */

const char *
load_frame(struct connection *connection, uint64_t request, const uint8_t *payload, uint32_t length,
		   int *fds, uint32_t *fds_count)
{
	struct engine *engine = connection->server->engine;
	struct load_job *job = load_parse(payload, length);
	struct entry *entry;
	struct asker *asker;

	if (job == NULL)
		return "a LOAD frame is malformed";
	if (job->files_count > *fds_count)
	{
		load_job_free(job);
		return "a LOAD frame came without its descriptors";
	}
	if (job->files_count > 0)
		memcpy(job->fds, fds, job->files_count * sizeof(*fds));
	*fds_count -= job->files_count;
	memmove(fds, fds + job->files_count, *fds_count * sizeof(*fds));
	asker = asker_new(connection, request, job->flags);
	if (asker == NULL)
	{
		load_job_free(job);
		return "too many LOAD frames wait for an answer";
	}
	display(asker, payload);

	pthread_mutex_lock(&engine->lock);
	if ((job->flags & INFER_LOAD_CHECK) != 0)
	{
		if (loader_has_room(engine, asker))
		{
			job->asker = asker;
			loader_push(engine, job);
			job = NULL;
		}
	}
	else if ((entry = registry_find_or_add(engine, job->key)) == NULL)
		answer_busy(asker, "too many models are in use");
	else if (ask(engine, entry, job, asker))
		job = NULL;
	pthread_mutex_unlock(&engine->lock);
	if (job != NULL)
		load_job_free(job);
	return NULL;
}

/* ---- UNLOAD ---- */

/* Whether the asker has to wait until the model is gone. */
static bool
unload(struct engine *engine, struct entry *entry, struct asker *asker)
{
	if (entry->model == NULL && !entry->loading)
	{
		if (entry->state == INFER_MODEL_FAILED)
			entry->state = 0;
		return false;
	}
	asker_append(&entry->unloaders, asker);
	if (entry->model != NULL)
		registry_evict(engine, entry);
	return true;
}

/* Request 0 only gives up writing the files: another one may have written them. */
const char *
load_unload_frame(struct connection *connection, uint64_t request, const uint8_t *payload, uint32_t length)
{
	struct engine *engine = connection->server->engine;
	struct infer_unload frame;
	struct asker *asker;
	struct entry *entry;

	if (length != sizeof(frame))
		return "an UNLOAD frame is malformed";
	memcpy(&frame, payload, sizeof(frame));
	asker = asker_new(connection, request, 0);
	if (asker == NULL)
		return "too many UNLOAD frames wait for an answer";
	pthread_mutex_lock(&engine->lock);
	entry = registry_find(engine, frame.key);
	if (entry != NULL && awaits_writer(entry) && entry->writer == connection)
		load_next_writer(engine, entry);
	else if (entry != NULL && request != 0 && unload(engine, entry, asker))
		asker = NULL;
	pthread_mutex_unlock(&engine->lock);
	if (asker != NULL && request == 0)
		asker_free(asker);
	else if (asker != NULL)
		load_answer_unloaded(asker);
	return NULL;
}

/* ---- connections that go, writers that dawdle ---- */

static void
forget_askers(struct asker **list, const struct connection *connection)
{
	while (*list != NULL)
	{
		struct asker *asker = *list;

		if (asker->connection == connection)
		{
			*list = asker->next;
			asker_free(asker);
		}
		else
			list = &asker->next;
	}
}

static void
forget_in_entry(struct engine *engine, struct entry *entry, void *arg)
{
	struct connection *connection = arg;

	forget_askers(&entry->askers, connection);
	forget_askers(&entry->unloaders, connection);
	if (entry->writer == connection)
	{
		if (awaits_writer(entry))
			load_next_writer(engine, entry);
		else
			writer_clear(entry);
	}
}

void
load_forget(struct engine *engine, struct connection *connection)
{
	pthread_mutex_lock(&engine->lock);
	registry_visit(engine, forget_in_entry, connection);
	pthread_mutex_unlock(&engine->lock);
}

static void
tick_entry(struct engine *engine, struct entry *entry, void *arg)
{
	uint64_t	now = *(uint64_t *) arg;

	if (awaits_writer(entry) && now >= entry->writer_until && (entry->askers != NULL || entry->pending > 0))
		load_next_writer(engine, entry);
}

void
load_tick(struct engine *engine, uint64_t now)
{
	pthread_mutex_lock(&engine->lock);
	registry_visit(engine, tick_entry, &now);
	pthread_mutex_unlock(&engine->lock);
}
