/*
 * stats.c
 *	  See stats.h.
 *
 * Loop of a page
 *	for one bucket of the registry after the other: copy its entries with the lock held; work
 *	out what is told of them without.  A page ends before the bucket that may not fit.
 *
 * So calls wait for the copy of a few entries at most, however many models there are, and a
 * model is told once, also while others come and go.
 */
#include "stats.h"

#include <stdlib.h>
#include <string.h>

#include "../process/process.h"
#include "../registry/registry.h"
#include "connection.h"
#include "server.h"

#define STATS_RESET		1u			/* flag of the frame */
#define PAGE_MODELS		256			/* after so many a page ends: the loop has others to serve */
#define ENTRY_BYTES		(sizeof(struct infer_stats_model) + INFER_CLASSES * sizeof(struct infer_stats_class))

struct report
{
	uint8_t    *data;				/* head, devices and models */
	size_t		used;
	uint32_t	devices;
	uint32_t	models;
	uint8_t    *classes;			/* what follows them */
	size_t		classes_used;
	uint32_t	classes_count;
	uint64_t	now;
	uint64_t	wall;				/* the same moment, CLOCK_REALTIME usec */
	uint32_t	left_out;
	struct entry *copies;			/* of a bucket's entries; only what is counted is looked at */
	uint32_t	copies_count;
	uint32_t	copies_room;
};

static void
put_device_entry(struct report *report, const struct infer_stats_device *device)
{
	memcpy(report->data + report->used, device, sizeof(*device));
	report->used += sizeof(*device);
	report->devices++;
}

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
	device.bytes_used = engine->device->host != NULL ? info.bytes_used :
		registry_bytes(engine, NULL);	/* what infer.memory bounds: buffers too */
	device.busy_usec = counters_busy(engine, report->now) / 1000;
	device.threads = info.threads;
	device.in_use = 1;
	memcpy(device.detail, info.detail, sizeof(device.detail));
	device.host_copies = info.host_copies;
	device.host_bytes = info.host_bytes;
	put_device_entry(report, &device);
}

/* What is not there, and why. */
static void
put_passed_over(struct engine *engine, struct report *report)
{
	struct infer_stats_device device = {.name = "cuda"};

	if (engine->passed_over.error == 0)
		return;
	memcpy(device.detail, engine->passed_over.message, strnlen(engine->passed_over.message, sizeof(device.detail) - 1));
	put_device_entry(report, &device);
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
		.tokens = c->tokens,
		.filled = c->filled,
		.room = c->room,
		.prepare_usec = c->prepare_nsec / 1000
	};

	if (c->calls == 0 && c->rows == 0)
		return;
	histogram_percentiles(&c->queue, shares, INFER_PERCENTILES, out.queue_nsec);
	out.timed = histogram_percentiles(&c->compute, shares, INFER_PERCENTILES, out.compute_nsec) > 0;
	memcpy(report->classes + report->classes_used, &out, sizeof(out));
	report->classes_used += sizeof(out);
	report->classes_count++;
}

/* CLOCK_REALTIME usec of a moment; it may have come since the report was begun. */
static uint64_t
wall_time(const struct report *report, uint64_t nsec)
{
	if (nsec == 0)
		return 0;
	return nsec < report->now ? report->wall - (report->now - nsec) / 1000 : report->wall;
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
		.last_used_at = wall_time(report, entry->last_ran),
		.batches = entry->batches,
		.segments = entry->segments,
		.interrupted = entry->interrupted,
		.segments_long = entry->segments_long,
		.predictions = entry->latency_errors.count < LATENCY_ERRORS ? (uint32_t) entry->latency_errors.count : LATENCY_ERRORS,
		.predicted_error = latency_errors_median(&entry->latency_errors)
	};
	uint64_t	queue_nsec = 0;
	uint64_t	compute_nsec = 0;
	uint64_t	prepare_nsec = 0;

	for (uint32_t class_ = 0; class_ < INFER_CLASSES; class_++)
	{
		const struct class_counters *c = &entry->classes[class_];

		model.calls += c->calls;
		model.rows += c->rows;
		model.errors += c->errors;
		model.cancelled += c->cancelled;
		model.inline_calls += c->inline_calls;
		model.tokens += c->tokens;
		prepare_nsec += c->prepare_nsec;
		queue_nsec += c->queue_nsec;
		compute_nsec += c->compute_nsec;
	}
	model.queue_usec = queue_nsec / 1000;
	model.compute_usec = compute_nsec / 1000;
	model.prepare_usec = prepare_nsec / 1000;
	memcpy(model.key, entry->key, sizeof(model.key));
	memcpy(report->data + report->used, &model, sizeof(model));
	report->used += sizeof(model);
}

static void
put_entry(struct report *report, const struct entry *entry)
{
	if (!has_room(report, ENTRY_BYTES))
	{
		report->left_out++;
		return;
	}
	put_model(report, entry);
	for (uint32_t class_ = 0; class_ < INFER_CLASSES; class_++)
		put_class(report, class_, &entry->classes[class_]);
	report->models++;
}

/* Lock held.  The entries of a bucket that there is something to tell of; false: there is no room for so many copies. */
static bool
copy_bucket(struct engine *engine, uint32_t bucket, struct report *report)
{
	report->copies_count = 0;
	for (const struct entry *entry = engine->buckets[bucket]; entry != NULL; entry = entry->next)
	{
		if (entry->state == 0)
			continue;
		if (report->copies_count < report->copies_room)
			report->copies[report->copies_count] = *entry;
		report->copies_count++;
	}
	return report->copies_count <= report->copies_room;
}

/* false: out of memory. */
static bool
read_bucket(struct engine *engine, uint32_t bucket, struct report *report)
{
	for (;;)
	{
		struct entry *grown;
		bool		copied;

		pthread_mutex_lock(&engine->lock);
		copied = copy_bucket(engine, bucket, report);
		pthread_mutex_unlock(&engine->lock);
		if (copied)
			return true;
		grown = realloc(report->copies, 2 * report->copies_count * sizeof(*grown));
		if (grown == NULL)
			return false;
		report->copies = grown;
		report->copies_room = 2 * report->copies_count;
	}
}

/* The models from a bucket on, as far as the page has room; next: where the next one begins, or 0.  false: out of memory. */
static bool
put_models(struct engine *engine, uint32_t from, struct report *report, uint32_t *next)
{
	for (uint32_t bucket = from; bucket < ENGINE_BUCKETS; bucket++)
	{
		if (!read_bucket(engine, bucket, report))
			return false;
		*next = bucket;
		if (report->models > 0 && (report->models + report->copies_count > PAGE_MODELS ||
								   !has_room(report, report->copies_count * ENTRY_BYTES)))
			return true;
		for (uint32_t i = 0; i < report->copies_count; i++)
			put_entry(report, &report->copies[i]);
	}
	*next = 0;
	return true;
}

/* A bucket at a time, too.  Calls that end meanwhile may count for the time before or after. */
static void
reset(struct engine *engine)
{
	for (uint32_t bucket = 0; bucket < ENGINE_BUCKETS; bucket++)
	{
		pthread_mutex_lock(&engine->lock);
		for (struct entry *entry = engine->buckets[bucket]; entry != NULL; entry = entry->next)
			counters_reset_entry(entry);
		pthread_mutex_unlock(&engine->lock);
	}
	pthread_mutex_lock(&engine->lock);
	counters_reset(engine, process_clock());
	pthread_mutex_unlock(&engine->lock);
}

static void
put_head(struct engine *engine, struct report *report, struct infer_stats_head *head)
{
	report->used = sizeof(*head);
	pthread_mutex_lock(&engine->lock);
	report->now = process_clock();
	report->wall = process_time();
	put_device(engine, report);
	put_passed_over(engine, report);
	head->since = engine->since;
	head->elapsed_usec = counters_elapsed(engine, report->now) / 1000;
	pthread_mutex_unlock(&engine->lock);
	head->epoch = engine->epoch;
	head->devices_count = report->devices;
	head->connections = __atomic_load_n(&engine->connections, __ATOMIC_RELAXED);
	head->regions_bytes = __atomic_load_n(&engine->regions_bytes, __ATOMIC_RELAXED);
}

const char *
stats_frame(struct connection *connection, uint64_t request, const uint8_t *payload, uint32_t length)
{
	struct engine *engine = connection->server->engine;
	struct infer_stats_ask ask;
	struct infer_stats_head head = {0};
	struct report report = {0};
	const char *wrong = NULL;

	if (length != sizeof(ask))
		return "a STATS frame is malformed";
	memcpy(&ask, payload, sizeof(ask));
	report.data = malloc(2 * INFER_FRAME_MAX);
	if (report.data == NULL)
		return "out of memory for a STATS frame";
	report.classes = report.data + INFER_FRAME_MAX;
	put_head(engine, &report, &head);
	if (!put_models(engine, ask.from, &report, &head.next))
		wrong = "out of memory for a STATS frame";
	if ((ask.flags & STATS_RESET) != 0)
		reset(engine);
	head.models_count = report.models;
	head.classes_count = report.classes_count;
	head.left_out = report.left_out;
	memcpy(report.data, &head, sizeof(head));
	memcpy(report.data + report.used, report.classes, report.classes_used);
	if (wrong == NULL)
		connection_send(connection, INFER_FRAME_STATS_REPLY, request, 0, 0, report.data,
						(uint32_t) (report.used + report.classes_used));
	free(report.copies);
	free(report.data);
	return wrong;
}
