/*
 * load_open.c
 *	  The model that a job asks for: its files found, verified and opened.
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

#include "../model/packed.h"
#include "../process/log.h"
#include "../process/process.h"
#include "../scheduler/run.h"
#include "packed_store.h"
#include "registry.h"
#include "residency.h"

/* ---- files ---- */

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

/* ---- the model ---- */

static void
open_model(struct engine *engine, const struct load_job *job, struct loaded *loaded)
{
	do
	{
		status_clear(&loaded->status);
		loaded->model = model_open(&loaded->files, job->options, engine->device, &loaded->status);
	}
	while (loaded->model == NULL &&
		   ((loaded->status.error == INFER_ERROR_MEMORY && loader_make_room(engine, job->entry)) ||
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
	while (loader_make_room(engine, job->entry));
	status_set(&loaded->status, INFER_ERROR_MEMORY, "the model does not fit into %s", setting);
	status_detail(&loaded->status, "It takes %llu bytes, models in use hold %llu, %s allows %llu.",
				  (unsigned long long) loaded->model->bytes, (unsigned long long) used, setting, (unsigned long long) budget);
	device_memory_hint(engine->device, &engine->info, &loaded->status);
	model_close(loaded->model);
	files_close(&loaded->files);
	free(loaded->closing);
	loaded->model = NULL;
}

void
load_open(struct engine *engine, const struct load_job *job, struct loaded *loaded)
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
