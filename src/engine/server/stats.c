/*
 * stats.c
 *	  See stats.h.
 */
#include "stats.h"

#include <stdlib.h>
#include <string.h>

#include "../process.h"
#include "../registry.h"
#include "connection.h"
#include "server.h"

#define STATS_RESET		1u			/* flag of the frame */

struct report
{
	uint8_t    *data;
	size_t		used;
	uint32_t	models;
	uint32_t	models_max;
	bool		reset;
};

static void
put_device(struct engine *engine, struct report *report)
{
	struct device_info info = {0};
	struct infer_stats_device device = {0};

	engine->device->ops->info(engine->device, &info);
	memcpy(device.name, info.name, sizeof(device.name));
	memcpy(device.description, info.description, sizeof(device.description));
	memcpy(device.numerics_id, info.numerics_id, sizeof(device.numerics_id));
	device.bytes_budget = info.bytes_budget;
	device.bytes_used = info.bytes_used;
	device.busy_usec = engine->busy_nsec / 1000;
	device.threads = info.threads;
	device.in_use = 1;
	memcpy(report->data + report->used, &device, sizeof(device));
	report->used += sizeof(device);
}

static void
reset_entry(struct entry *entry)
{
	entry->calls = entry->rows = entry->batches = entry->errors = entry->cancelled = 0;
	entry->queue_nsec = entry->compute_nsec = entry->inline_calls = 0;
}

static void
put_entry(struct engine *engine, struct entry *entry, void *arg)
{
	struct report *report = arg;
	struct infer_stats_model model = {
		.state = entry->state,
		.bytes = entry->bytes,
		.loaded_at = entry->loaded_at,
		.last_used_at = entry->last_used_at,
		.calls = entry->calls,
		.rows = entry->rows,
		.batches = entry->batches,
		.errors = entry->errors,
		.cancelled = entry->cancelled,
		.queue_usec = entry->queue_nsec / 1000,
		.compute_usec = entry->compute_nsec / 1000,
		.inline_calls = entry->inline_calls
	};

	if (entry->state != 0 && report->models < report->models_max)
	{
		memcpy(model.key, entry->key, sizeof(model.key));
		memcpy(report->data + report->used, &model, sizeof(model));
		report->used += sizeof(model);
		report->models++;
	}
	if (report->reset)
		reset_entry(entry);
}

const char *
stats_frame(struct connection *connection, uint64_t request, const uint8_t *payload, uint32_t length)
{
	struct engine *engine = connection->server->engine;
	struct infer_stats_ask ask;
	struct infer_stats_head head = {0};
	struct report report = {0};

	if (length != sizeof(ask))
		return "a STATS frame is malformed";
	memcpy(&ask, payload, sizeof(ask));
	report.data = malloc(INFER_FRAME_MAX);
	if (report.data == NULL)
		return "out of memory for a STATS frame";
	report.used = sizeof(head);
	report.models_max = (INFER_FRAME_MAX - sizeof(head) - sizeof(struct infer_stats_device)) / sizeof(struct infer_stats_model);
	report.reset = (ask.flags & STATS_RESET) != 0;

	pthread_mutex_lock(&engine->lock);
	put_device(engine, &report);
	registry_visit(engine, put_entry, &report);
	head.epoch = engine->epoch;
	head.since = engine->since;
	if (report.reset)
	{
		engine->since = process_time();
		engine->busy_nsec = 0;
	}
	pthread_mutex_unlock(&engine->lock);

	head.devices_count = 1;
	head.models_count = report.models;
	head.connections = __atomic_load_n(&engine->connections, __ATOMIC_RELAXED);
	head.regions_bytes = __atomic_load_n(&engine->regions_bytes, __ATOMIC_RELAXED);
	memcpy(report.data, &head, sizeof(head));
	connection_send(connection, INFER_FRAME_STATS_REPLY, request, 0, 0, report.data, (uint32_t) report.used);
	free(report.data);
	return NULL;
}
