/*
 * stats.c
 *	  See stats.h.
 */
#include "stats.h"

#include <stdlib.h>
#include <string.h>

#include "../process/process.h"
#include "../registry.h"
#include "connection.h"
#include "server.h"

#define STATS_RESET		1u			/* flag of the frame */

struct report
{
	uint8_t    *data;				/* head, devices and models */
	size_t		used;
	uint32_t	models;
	uint8_t    *classes;			/* what follows them */
	size_t		classes_used;
	uint32_t	classes_count;
	uint64_t	now;
	uint64_t	wall;				/* the same moment, CLOCK_REALTIME usec */
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
	memcpy(device.arch, info.arch, sizeof(device.arch));
	device.bytes_budget = info.bytes_budget;
	device.bytes_used = info.bytes_used;
	device.busy_usec = counters_busy(engine, report->now) / 1000;
	device.threads = info.threads;
	device.in_use = 1;
	memcpy(report->data + report->used, &device, sizeof(device));
	report->used += sizeof(device);
}

static bool
has_room(const struct report *report, size_t bytes)
{
	return report->used + report->classes_used + bytes <= INFER_FRAME_MAX;
}

static void
put_class(struct report *report, uint32_t class_, const struct class_counters *c)
{
	static const double shares[INFER_PERCENTILES] = {0.50, 0.95, 0.99};
	struct infer_stats_class out = {
		.model = report->models,
		.class_ = class_,
		.calls = c->calls,
		.rows = c->rows,
		.batches = c->batches,
		.batch_rows = c->batch_rows,
		.errors = c->errors,
		.cancelled = c->cancelled,
		.queue_usec = c->queue_nsec / 1000,
		.compute_usec = c->compute_nsec / 1000,
		.inline_calls = c->inline_calls,
		.timed = histogram_percentile(&c->compute, 1) > 0
	};

	if ((c->calls == 0 && c->rows == 0) || !has_room(report, sizeof(out)))
		return;
	for (int i = 0; i < INFER_PERCENTILES; i++)
	{
		out.queue_nsec[i] = histogram_percentile(&c->queue, shares[i]);
		out.compute_nsec[i] = histogram_percentile(&c->compute, shares[i]);
	}
	memcpy(report->classes + report->classes_used, &out, sizeof(out));
	report->classes_used += sizeof(out);
	report->classes_count++;
}

static void
put_model(struct report *report, const struct entry *entry)
{
	struct infer_stats_model model = {
		.state = entry->state,
		.from_cache = entry->from_cache,
		.bytes = entry->bytes,
		.load_usec = entry->load_nsec / 1000,
		.loaded_at = entry->loaded_at,
		.last_used_at = entry->last_ran > 0 ? report->wall - (report->now - entry->last_ran) / 1000 : 0,
		.batches = entry->batches,
		.segments = entry->segments,
		.interrupted = entry->interrupted,
		.segments_long = entry->segments_long,
		.predictions = entry->latency_errors.count < LATENCY_ERRORS ? (uint32_t) entry->latency_errors.count : LATENCY_ERRORS,
		.predicted_error = latency_errors_median(&entry->latency_errors)
	};
	uint64_t	queue_nsec = 0;
	uint64_t	compute_nsec = 0;

	for (uint32_t class_ = 0; class_ < INFER_CLASSES; class_++)
	{
		const struct class_counters *c = &entry->classes[class_];

		model.calls += c->calls;
		model.rows += c->rows;
		model.errors += c->errors;
		model.cancelled += c->cancelled;
		model.inline_calls += c->inline_calls;
		queue_nsec += c->queue_nsec;
		compute_nsec += c->compute_nsec;
	}
	model.queue_usec = queue_nsec / 1000;
	model.compute_usec = compute_nsec / 1000;
	memcpy(model.key, entry->key, sizeof(model.key));
	memcpy(report->data + report->used, &model, sizeof(model));
	report->used += sizeof(model);
}

static void
put_entry(struct engine *engine, struct entry *entry, void *arg)
{
	struct report *report = arg;

	if (entry->state != 0 && has_room(report, sizeof(struct infer_stats_model)))
	{
		put_model(report, entry);
		for (uint32_t class_ = 0; class_ < INFER_CLASSES; class_++)
			put_class(report, class_, &entry->classes[class_]);
		report->models++;
	}
	if (report->reset)
		counters_reset_entry(entry);
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
	report.data = malloc(2 * INFER_FRAME_MAX);
	if (report.data == NULL)
		return "out of memory for a STATS frame";
	report.classes = report.data + INFER_FRAME_MAX;
	report.used = sizeof(head);
	report.reset = (ask.flags & STATS_RESET) != 0;

	pthread_mutex_lock(&engine->lock);
	report.now = process_clock();
	report.wall = process_time();
	put_device(engine, &report);
	registry_visit(engine, put_entry, &report);
	head.epoch = engine->epoch;
	head.since = engine->since;
	head.elapsed_usec = counters_elapsed(engine, report.now) / 1000;
	if (report.reset)
		counters_reset(engine, report.now);
	pthread_mutex_unlock(&engine->lock);

	head.devices_count = 1;
	head.models_count = report.models;
	head.classes_count = report.classes_count;
	head.connections = __atomic_load_n(&engine->connections, __ATOMIC_RELAXED);
	head.regions_bytes = __atomic_load_n(&engine->regions_bytes, __ATOMIC_RELAXED);
	memcpy(report.data, &head, sizeof(head));
	memcpy(report.data + report.used, report.classes, report.classes_used);
	connection_send(connection, INFER_FRAME_STATS_REPLY, request, 0, 0, report.data,
					(uint32_t) (report.used + report.classes_used));
	free(report.data);
	return NULL;
}
