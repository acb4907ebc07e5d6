/*
 * registry.c
 *	  See registry.h.  A hash table by the key's first bytes (keys are SHA-256 sums).
 *
 * An entry stays when its model goes, with its counters, until the table is full.
 */
#include "registry.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../process/process.h"
#include "residency.h"

#define EVICTION_WAIT	2			/* seconds that a failed batch waits for an evicted model's memory */

static struct entry **
bucket_of(struct engine *engine, const uint8_t *key)
{
	uint32_t	hash;

	memcpy(&hash, key, sizeof(hash));
	return &engine->buckets[hash % ENGINE_BUCKETS];
}

struct entry *
registry_find(struct engine *engine, const uint8_t *key)
{
	struct entry *entry = *bucket_of(engine, key);

	while (entry != NULL && memcmp(entry->key, key, INFER_KEY_BYTES) != 0)
		entry = entry->next;
	return entry;
}

static bool
is_forgettable(const struct entry *entry)
{
	return entry->model == NULL && entry->state != INFER_MODEL_LOADING && entry->pending == 0 &&
		entry->askers == NULL && entry->unloaders == NULL && entry->writer == NULL;
}

/* Forgets the entry without a model that was used longest ago. */
static bool
forget_one(struct engine *engine)
{
	struct entry **oldest = NULL;
	struct entry *gone;

	for (uint32_t b = 0; b < ENGINE_BUCKETS; b++)
	{
		for (struct entry **link = &engine->buckets[b]; *link != NULL; link = &(*link)->next)
		{
			if (is_forgettable(*link) && (oldest == NULL || (*link)->last_used < (*oldest)->last_used))
				oldest = link;
		}
	}
	if (oldest == NULL)
		return false;
	gone = *oldest;
	*oldest = gone->next;
	free(gone->failure);
	free(gone);
	engine->entries_count--;
	return true;
}

struct entry *
registry_find_or_add(struct engine *engine, const uint8_t *key)
{
	struct entry *entry = registry_find(engine, key);
	struct entry **bucket = bucket_of(engine, key);

	if (entry != NULL)
		return entry;
	if (engine->entries_count >= ENGINE_ENTRIES_MAX && !forget_one(engine))
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (entry == NULL)
		return NULL;
	batch_model_init(&entry->queue);
	memcpy(entry->key, key, INFER_KEY_BYTES);
	entry->last_used = process_clock();
	entry->next = *bucket;
	*bucket = entry;
	engine->entries_count++;
	return entry;
}

void
registry_visit(struct engine *engine, void (*visit) (struct engine *engine, struct entry *entry, void *arg), void *arg)
{
	for (uint32_t b = 0; b < ENGINE_BUCKETS; b++)
	{
		for (struct entry *entry = engine->buckets[b]; entry != NULL; entry = entry->next)
			visit(engine, entry, arg);
	}
}

void
registry_drained(struct engine *engine, struct entry *entry)
{
	struct close_job *job = entry->closing;

	if (entry->state != INFER_MODEL_EVICTED || entry->model == NULL || entry->pending > 0)
		return;
	job->model = entry->model;
	job->files = entry->files;
	memcpy(job->key, entry->key, sizeof(job->key));
	job->packed_wanted = entry->packed == ENTRY_PACKED_WANTED;
	job->askers = entry->unloaders;
	job->next = engine->close_first;
	engine->close_first = job;
	entry->closing = NULL;
	entry->model = NULL;
	entry->files = (struct model_files) {0};
	entry->packed = ENTRY_PACKED_NONE;
	entry->unloaders = NULL;
	entry->queue.ready = false;
	entry->bytes = 0;
	pthread_cond_signal(&engine->loads);
}

void
registry_evict(struct engine *engine, struct entry *entry)
{
	entry->state = INFER_MODEL_EVICTED;
	registry_drained(engine, entry);
}

bool
registry_evict_one(struct engine *engine, const struct entry *keep)
{
	struct entry *best = NULL;

	for (uint32_t b = 0; b < ENGINE_BUCKETS; b++)
	{
		for (struct entry *entry = engine->buckets[b]; entry != NULL; entry = entry->next)
		{
			struct resident pair[2];

			if (entry == keep || entry->state != INFER_MODEL_LOADED)
				continue;
			pair[0] = (struct resident) {entry->bytes, entry->last_used, entry->pending > 0};
			if (best != NULL)
				pair[1] = (struct resident) {best->bytes, best->last_used, false};
			if (residency_victim(pair, best != NULL ? 2 : 1) == 0)
				best = entry;
		}
	}
	if (best == NULL)
		return false;
	registry_evict(engine, best);
	return true;
}

bool
registry_evict_busy(struct engine *engine, const struct entry *keep)
{
	struct entry *best = NULL;

	for (uint32_t b = 0; b < ENGINE_BUCKETS; b++)
	{
		for (struct entry *entry = engine->buckets[b]; entry != NULL; entry = entry->next)
		{
			if (entry == keep || entry->model == NULL)
				continue;
			if (entry->state == INFER_MODEL_EVICTED)
				return true;
			if (best == NULL || entry->last_used < best->last_used)
				best = entry;
		}
	}
	if (best == NULL)
		return false;
	registry_evict(engine, best);
	return true;
}

uint64_t
registry_bytes(struct engine *engine, const struct entry *except)
{
	uint64_t	bytes = 0;

	for (uint32_t b = 0; b < ENGINE_BUCKETS; b++)
	{
		for (struct entry *entry = engine->buckets[b]; entry != NULL; entry = entry->next)
			bytes += entry != except && entry->model != NULL ? entry->bytes : 0;
	}
	return bytes;
}

void
registry_keep_budget(struct engine *engine, const struct entry *keep)
{
	while (residency_excess(registry_bytes(engine, NULL), 0, engine->info.bytes_budget) > 0)
	{
		if (!registry_evict_one(engine, keep))
			return;
	}
}

bool
registry_evict_idle(struct engine *engine, const struct entry *keep)
{
	struct timespec until;
	bool		evicted;

	pthread_mutex_lock(&engine->lock);
	evicted = registry_evict_one(engine, keep);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += EVICTION_WAIT;
	while (evicted && engine->close_first != NULL)
	{
		if (pthread_cond_timedwait(&engine->closed, &engine->lock, &until) != 0)
			break;
	}
	pthread_mutex_unlock(&engine->lock);
	return evicted;
}
