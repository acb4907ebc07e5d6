/*
 * activity.c
 *	  See activity.h.  There is no list to keep: a request in flight is in a region, the loop
 *	  knows the regions, and what is in them is told under the engine's lock.
 */
#include "activity.h"

#include <stdlib.h>
#include <string.h>

#include "../process/process.h"
#include "../registry/registry.h"
#include "connection.h"
#include "server.h"

struct report
{
	uint8_t    *data;
	size_t		used;
	uint64_t	now;
	struct infer_activity_head head;
};

static void
put(struct report *report, const struct infer_activity *activity)
{
	if (report->used + sizeof(*activity) > INFER_FRAME_MAX)
	{
		report->head.left_out++;
		return;
	}
	memcpy(report->data + report->used, activity, sizeof(*activity));
	report->used += sizeof(*activity);
	report->head.count++;
}

static uint64_t
usec_since(const struct report *report, uint64_t then)
{
	return report->now > then ? (report->now - then) / 1000 : 0;
}

static void
put_request(struct report *report, const struct request *request)
{
	const struct connection *connection = request->region->connection;
	struct infer_activity activity = {
		.pid = connection->pid,
		.database = connection->database,
		.role = request->role,
		.model = request->model,
		.version = request->version,
		.class_ = request->batch.class_,
		.rows = request->batch.rows,
		.rows_done = request->batch.done,
		.state = request->entry->state == INFER_MODEL_LOADING ? INFER_ACTIVITY_LOADING : INFER_ACTIVITY_QUEUED,
		.queue_usec = usec_since(report, request->batch.arrived)
	};

	if (request->stage == STAGE_WAITS || request->stage == STAGE_PREPARES)
		activity.state = INFER_ACTIVITY_PREPARING;
	if (request->batch.taken > request->batch.done)
	{
		activity.state = INFER_ACTIVITY_RUNNING;
		activity.compute_usec = usec_since(report, request->began);
		activity.queue_usec -= activity.compute_usec < activity.queue_usec ? activity.compute_usec : activity.queue_usec;
	}
	memcpy(activity.key, request->entry->key, sizeof(activity.key));
	put(report, &activity);
}

/* Those that wait until a model is loaded, before their calls are sent. */
static void
put_askers(struct engine *engine, struct entry *entry, void *arg)
{
	struct report *report = arg;

	for (const struct asker *asker = entry->askers; asker != NULL; asker = asker->next)
	{
		struct infer_activity activity = {
			.pid = asker->connection->pid,
			.database = asker->connection->database,
			.role = asker->role,
			.model = asker->model,
			.version = asker->version,
			.state = INFER_ACTIVITY_LOADING,
			.queue_usec = usec_since(report, asker->since)
		};

		memcpy(activity.key, entry->key, sizeof(activity.key));
		put(report, &activity);
	}
}

const char *
activity_frame(struct connection *connection, uint64_t request, uint32_t length)
{
	struct server *server = connection->server;
	struct engine *engine = server->engine;
	struct report report = {.used = sizeof(report.head), .now = process_clock()};

	if (length != 0)
		return "an ACTIVITY frame is malformed";
	report.data = malloc(INFER_FRAME_MAX);
	if (report.data == NULL)
		return "out of memory for an ACTIVITY frame";
	pthread_mutex_lock(&engine->lock);
	for (struct region *region = server->regions; region != NULL; region = region->next)
		if (region->request.in_flight)
			put_request(&report, &region->request);
	registry_visit(engine, put_askers, &report);
	pthread_mutex_unlock(&engine->lock);
	memcpy(report.data, &report.head, sizeof(report.head));
	connection_send(connection, INFER_FRAME_ACTIVITY_REPLY, request, 0, 0, report.data, (uint32_t) report.used);
	free(report.data);
	return NULL;
}
