/*
 * region.c
 *	  See region.h.
 *
 * Hand-over of a region (the two orders that matter)
 *	- Taking: submit_seq is read (acquire) before in_flight.  So whoever sees the number of
 *	  a request also sees that the one before it has been given back.
 *	- Giving back: the reply is written, in_flight is cleared, and only then is done_seq
 *	  published; a client cannot submit again before the loop would take it.  All of it
 *	  happens under the engine's lock, so who finds in_flight cleared with the lock held may
 *	  unmap the region.
 *
 * Invariants
 *	- A request's description is copied before it is looked at; the copies alone are used.
 *	- A mapping cannot shrink (sealed), so reading it never faults.
 */
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../process/process.h"
#include "../registry/registry.h"
#include "../scheduler/scheduler.h"
#include "connection.h"
#include "server.h"

#define POPULATE_MAX	(4u << 20)	/* bytes: regions up to this are faulted in at once */
#define REPLY_TEXT_AT	64			/* a whole request's error lies here in the reply */
#define SEALS_NEEDED	(F_SEAL_SHRINK | F_SEAL_SEAL)

/* ---- mapping ---- */

static bool
check_memfd(int fd, uint64_t size, struct status *status)
{
	struct stat st;
	int			seals = fcntl(fd, F_GET_SEALS);

	if (size < INFER_REGION_MIN || size > INFER_REGION_MAX)
		return status_set(status, INFER_ERROR_PROTOCOL, "a region of %llu bytes is not allowed", (unsigned long long) size);
	if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED)
		return status_set(status, INFER_ERROR_PROTOCOL, "a region must be a memfd sealed against shrinking and further seals");
	if (fstat(fd, &st) < 0 || (uint64_t) st.st_size != size)
		return status_set(status, INFER_ERROR_PROTOCOL, "a region does not have the size that was announced");
	return true;
}

static bool
check_payload_limit(struct engine *engine, uint64_t size, struct status *status)
{
	uint64_t	limit = __atomic_load_n(&engine->settings.payload_limit, __ATOMIC_RELAXED);
	uint64_t	used = __atomic_load_n(&engine->regions_bytes, __ATOMIC_RELAXED);

	if (used + size <= limit)
		return true;
	status_set(status, INFER_ERROR_BUSY, "the inference engine's payload memory is full");
	status_detail(status, "All clients together hold %llu bytes, this one wants %llu more, infer.payload_limit allows %llu.",
				  (unsigned long long) used, (unsigned long long) size, (unsigned long long) limit);
	status_hint(status, "Try again later, send fewer rows at once, or raise infer.payload_limit.");
	return false;
}

static void
list_push(struct server *server, struct region *region)
{
	region->prev = NULL;
	region->next = server->regions;
	if (region->next != NULL)
		region->next->prev = region;
	server->regions = region;
}

static void
list_remove(struct server *server, struct region *region)
{
	if (region->prev != NULL)
		region->prev->next = region->next;
	else
		server->regions = region->next;
	if (region->next != NULL)
		region->next->prev = region->prev;
	region->next = region->prev = NULL;
}

struct region *
region_open(struct connection *connection, uint32_t slot, uint64_t size, int fd, struct status *status)
{
	struct engine *engine = connection->server->engine;
	struct region *region;

	if (!check_memfd(fd, size, status) || !check_payload_limit(engine, size, status))
		return NULL;
	region = calloc(1, sizeof(*region));
	if (region == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a region");
		return NULL;
	}
	region->map = mmap(NULL, size, PROT_READ | PROT_WRITE,
					   MAP_SHARED | (size <= POPULATE_MAX ? MAP_POPULATE : 0), fd, 0);
	if (region->map == MAP_FAILED)
	{
		status_set(status, INFER_ERROR_MEMORY, "could not map a region of %llu bytes: %s",
				   (unsigned long long) size, strerror(errno));
		free(region);
		return NULL;
	}
	region->connection = connection;
	region->slot = slot;
	region->size = size;
	region->used_at = connection->server->now;
	region->request.region = region;
	__atomic_fetch_add(&engine->regions_bytes, size, __ATOMIC_RELAXED);
	list_push(connection->server, region);
	return region;
}

void
region_forget(struct region *region)
{
	list_remove(region->connection->server, region);
}

void
region_free(struct engine *engine, struct region *region)
{
	munmap(region->map, region->size);
	__atomic_fetch_sub(&engine->regions_bytes, region->size, __ATOMIC_RELAXED);
	free(region->request.columns);
	free(region->request.outputs);
	free(region);
}

/* ---- taking a request ---- */

static bool
columns_room(struct infer_column **columns, uint32_t *room, uint32_t count)
{
	struct infer_column *grown;

	if (count <= *room)
		return true;
	grown = realloc(*columns, count * sizeof(**columns));
	if (grown == NULL)
		return false;
	*columns = grown;
	*room = count;
	return true;
}

/* Copies the description out and checks what can be checked without the model. */
static const char *
copy_request(struct region *region, struct infer_request *head)
{
	struct request *request = &region->request;
	const uint8_t *base = (const uint8_t *) region->map;
	const char *wrong;

	memcpy(head, &region->map->request, sizeof(*head));
	wrong = infer_request_check(head, region->size);
	if (wrong != NULL)
		return wrong;
	if (!columns_room(&request->columns, &request->columns_room, head->columns))
		return "out of memory for a request's columns";
	if (head->columns > 0)
		memcpy(request->columns, base + head->columns_offset, head->columns * sizeof(struct infer_column));
	for (uint32_t i = 0; i < head->columns && wrong == NULL; i++)
		wrong = infer_column_check(&request->columns[i], head->rows, region->size);
	return wrong;
}

static void
init_request(struct region *region, const struct infer_request *head)
{
	struct request *request = &region->request;

	request->seq = region->seen;
	request->flags = head->flags;
	request->laid_out = false;
	request->stage = STAGE_NONE;
	request->unwanted = false;
	request->entry = NULL;
	request->reply_offset = head->reply_offset;
	request->role = head->role;
	request->model = head->model;
	request->version = head->version;
	request->queue_nsec = request->compute_nsec = request->prepare_nsec = request->tokens = 0;
	request->batches = request->batch_rows = request->rows_failed = request->turns = 0;
	request->batch = (struct batch_request) {
		.rows = head->rows,
		.deadline = head->deadline,
		.class_ = head->class_,
		.role = head->role,
		.priority = head->class_ == INFER_CLASS_JOB ? head->priority : 0,
		.session = &region->connection->session,
		/* a profile is of one row with nothing beside it */
		.marked = (head->flags & (INFER_REQUEST_MARKED | INFER_REQUEST_PROFILE)) != 0
	};
	request->work = (struct model_request) {
		.rows = head->rows,
		.columns_count = head->columns,
		.columns = request->columns,
		.region = (const uint8_t *) region->map,
		.region_bytes = region->size,
		.outputs_wanted = head->outputs,
		.shared = region->connection->server->engine->lanes_count > 1,
		.reply = (uint8_t *) region->map + head->reply_offset,
		.reply_bytes = head->reply_bytes,
		.profile = (head->flags & INFER_REQUEST_PROFILE) != 0
	};
}

static bool
check_column(const struct infer_tensor *tensor, const struct infer_column *column, struct status *status)
{
	uint64_t	width = infer_tensor_width(tensor);

	if (column->type != tensor->type)
		return status_set(status, INFER_ERROR_PROTOCOL, "input \"%s\" is of type %s, not %s", tensor->name,
						  infer_type_name(tensor->type), infer_type_name(column->type));
	if (column->width == INFER_WIDTH_VARIES && column->rows_offset == 0)
		return status_set(status, INFER_ERROR_PROTOCOL, "input \"%s\" has no row ends", tensor->name);
	if (width != INFER_WIDTH_VARIES && column->width != width)
		return status_set(status, INFER_ERROR_PROTOCOL, "input \"%s\" has %llu elements in a row, not %llu", tensor->name,
						  (unsigned long long) width, (unsigned long long) column->width);
	return true;
}

bool
request_lay_out(struct request *request, struct status *status)
{
	const struct infer_signature *signature = &request->entry->model->signature;
	uint64_t	wanted;

	if (request->work.columns_count != signature->inputs_count)
		return status_set(status, INFER_ERROR_PROTOCOL, "the model has %u inputs, the request %u",
						  signature->inputs_count, request->work.columns_count);
	for (uint32_t i = 0; i < signature->inputs_count; i++)
	{
		if (!check_column(&signature->inputs[i], &request->columns[i], status))
			return false;
	}
	if (!columns_room(&request->outputs, &request->outputs_room, signature->outputs_count))
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a request's columns");
	request->work.outputs = request->outputs;
	if (!model_reply_layout(&request->work, signature, &wanted))
	{
		request->work.overflow_bytes = wanted - request->work.reply_bytes;
		return status_set(status, INFER_ERROR_NEED_SPACE, "the reply does not fit");
	}
	request->laid_out = true;
	return true;
}

/*
 * Engine lock held, and let go if the request is prepared here.  false: refused, status says why.
 * It may have ended: its ring.
 */
static bool
admit(struct engine *engine, struct request *request, const uint8_t *key, uint64_t now, struct ring *ring, struct status *status)
{
	struct entry *entry = registry_find(engine, key);

	if (entry == NULL || entry->state == 0 || entry->state == INFER_MODEL_EVICTED)
		return status_set(status, INFER_ERROR_NEED_LOAD, "the model is not loaded");
	request->entry = entry;
	entry->pending++;
	entry->last_used = now;
	if (entry->state == INFER_MODEL_FAILED)
	{
		*status = *entry->failure;
		return false;
	}
	if (entry->state == INFER_MODEL_LOADED && !request_lay_out(request, status))
		return false;
	if (!batch_admit(&engine->policy, &entry->queue, &request->batch, now))
	{
		status_set(status, INFER_ERROR_BUSY, "the inference engine's queue is full");
		status_detail(status, "%u calls wait or run, infer.queue_limit allows %u.",
					  engine->policy.requests_class[INFER_CLASS_INTERACTIVE], engine->policy.requests_max);
		status_hint(status, "Try again later, raise infer.queue_limit, or wait with infer.request_class = 'statement'.");
		return false;
	}
	if (request->laid_out && entry->queue.weighed)
		*ring = prepare_enter(engine, request, now);
	else
		batch_queue(&engine->policy, &request->batch, now);
	return true;
}

bool
region_pick_up(struct region *region, uint64_t now)
{
	struct engine *engine = region->connection->server->engine;
	uint64_t	seq = infer_load_acquire64(&region->map->submit_seq);
	struct request *request = &region->request;
	struct infer_request head;
	struct status status;
	struct ring ring = {0};
	const char *wrong;

	if (seq == region->seen || __atomic_load_n(&request->in_flight, __ATOMIC_ACQUIRE))
		return false;
	region->seen = seq;
	region->used_at = now;
	if (region->prev != NULL)
	{
		list_remove(region->connection->server, region);
		list_push(region->connection->server, region);
	}
	wrong = copy_request(region, &head);
	if (wrong != NULL)
	{
		connection_refuse(region->connection, INFER_ERROR_PROTOCOL, wrong, NULL);
		return true;
	}
	init_request(region, &head);
	status.error = 0;
	pthread_mutex_lock(&engine->lock);
	connection_ref(region->connection);
	__atomic_store_n(&request->in_flight, true, __ATOMIC_RELAXED);
	infer_store_release32(&region->map->run_state, INFER_RUN_QUEUED);
	if (!admit(engine, request, head.key, now, &ring, &status))
		ring = request_finish(request, status.error, &status);
	scheduler_publish(engine, now);
	pthread_mutex_unlock(&engine->lock);
	ring_send(&ring);
	return true;
}

/* Engine lock held. */
static struct ring
cancel(struct engine *engine, struct request *request)
{
	bool		ended = batch_cancel(&engine->policy, &request->batch);

	if (request->stage == STAGE_PREPARES)
		__atomic_store_n(&request->unwanted, true, __ATOMIC_RELAXED);	/* its preparer ends it */
	if (request->stage == STAGE_WAITS)
	{
		prepare_forget(engine, request);
		ended = true;
	}
	return ended ? request_finish(request, INFER_ERROR_CANCELLED, NULL) : (struct ring) {0};
}

void
region_cancel(struct region *region, uint32_t generation)
{
	struct engine *engine = region->connection->server->engine;
	struct request *request = &region->request;
	struct ring ring = {0};

	pthread_mutex_lock(&engine->lock);
	if (request->in_flight && (uint32_t) request->seq == generation)
		ring = cancel(engine, request);
	pthread_mutex_unlock(&engine->lock);
	ring_send(&ring);
}

/* ---- giving it back ---- */

/* The error's text goes to the start of the reply: there are no results beside it. */
static void
write_error(struct request *request, struct infer_reply *reply, const struct status *status)
{
	struct model_request *work = &request->work;
	struct infer_writer w;

	if (status == NULL || work->reply_bytes <= REPLY_TEXT_AT)
		return;
	w = (struct infer_writer) {.data = work->reply + REPLY_TEXT_AT, .size = work->reply_bytes - REPLY_TEXT_AT};
	infer_put_error(&w, reply->error, status->message, status->detail, status->hint);
	if (!w.failed)
		reply->error_offset = REPLY_TEXT_AT;
}

static void
write_columns(struct request *request, struct infer_reply *reply)
{
	struct model_request *work = &request->work;
	uint64_t	rows_bytes = (uint64_t) work->rows * sizeof(uint32_t);
	uint64_t	at = (2 * rows_bytes + 63) & ~63ull;
	uint32_t	count = request->entry->model->signature.outputs_count;

	reply->columns = count;
	reply->row_status_offset = request->reply_offset;
	reply->row_message_offset = request->reply_offset + rows_bytes;
	reply->columns_offset = request->reply_offset + at;
	for (uint32_t i = 0; i < count; i++)
	{
		if (request->outputs[i].spans_offset != 0)
			request->outputs[i].data_bytes = work->reply_used;
	}
	memcpy(work->reply + at, request->outputs, count * sizeof(struct infer_column));
}

static void
count_end(struct engine *engine, struct request *request, uint32_t error)
{
	struct entry *entry = request->entry;

	entry->pending--;
	if (error == INFER_ERROR_NEED_SPACE || error == INFER_ERROR_NEED_LOAD)
		return;					/* the client sends it again: one call */
	counters_call(request, error);
	if (engine->settings.log_requests)
		request_log_note(&engine->request_log, request, error, process_clock());
}

struct ring
request_finish(struct request *request, uint32_t error, const struct status *status)
{
	struct region *region = request->region;
	struct infer_region *map = region->map;
	struct infer_reply reply = {0};
	uint64_t	seq = request->seq;	/* the request is the loop's again once in_flight is cleared */
	struct ring ring = {
		.connection = region->connection,
		.slot = region->slot,
		.generation = (uint32_t) seq,
		.cancelled = error == INFER_ERROR_CANCELLED
	};

	if (error == INFER_OK && request->work.overflow)
		error = INFER_ERROR_NEED_SPACE;
	reply.error = error;
	if (error == INFER_ERROR_NEED_SPACE)
		reply.bytes_wanted = request->work.reply_bytes + request->work.overflow_bytes + REPLY_TEXT_AT;
	if (error == INFER_OK)
		write_columns(request, &reply);
	else
		write_error(request, &reply, status);
	reply.rows_failed = request->rows_failed;
	reply.batches = request->batches;
	reply.batch_rows = request->batch_rows;
	reply.queue_nsec = request->queue_nsec;
	reply.compute_nsec = request->compute_nsec;
	reply.prepare_nsec = request->prepare_nsec;
	reply.tokens = request->tokens;
	if (error == INFER_OK && request->work.profile_bytes > 0)
	{
		reply.profile_offset = request->reply_offset + request->work.profile_offset;
		reply.profile_bytes = request->work.profile_bytes;
	}
	memcpy(&map->reply, &reply, sizeof(reply));
	if (request->entry != NULL)
	{
		prepare_release(region->connection->server->engine, request);
		count_end(region->connection->server->engine, request, error);
		registry_drained(region->connection->server->engine, request->entry);
	}
	infer_store_release32(&map->run_state, INFER_RUN_DONE);
	__atomic_store_n(&request->in_flight, false, __ATOMIC_RELEASE);
	ring.wanted = infer_publish(&map->done_seq, seq, &map->client_asleep) || ring.cancelled;
	return ring;
}

void
ring_send(const struct ring *ring)
{
	if (ring->connection == NULL)
		return;
	if (ring->wanted)
		connection_send(ring->connection, ring->cancelled ? INFER_FRAME_CANCELLED : INFER_FRAME_RESULT, 0,
						ring->slot, ring->generation, NULL, 0);
	connection_unref(ring->connection);
}
