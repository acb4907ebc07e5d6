/*
 * async.c
 *	  See null.h.
 */
#include "null.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../protocol/protocol.h"
#include "../process/process.h"

#define MEET_SECONDS	5			/* that runs wait for each other */

/* ---- memory ---- */

static uint64_t
pages(uint64_t bytes)
{
	uint64_t	page = (uint64_t) sysconf(_SC_PAGESIZE);

	return (bytes + page) / page * page;
}

static void *
arena_alloc(struct null_device *device, uint64_t bytes)
{
	struct null_arena *arena = malloc(sizeof(*arena));
	void	   *data = mmap(NULL, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (arena == NULL || data == MAP_FAILED)
	{
		free(arena);
		return NULL;
	}
	pthread_mutex_lock(&device->lock);
	*arena = (struct null_arena) {.next = device->arenas, .data = data, .bytes = pages(bytes)};
	device->arenas = arena;
	pthread_mutex_unlock(&device->lock);
	return data;
}

void *
null_buffer_alloc(struct device *base, struct device_queue *queue, int kind, uint64_t bytes, struct status *status)
{
	void	   *data = kind == DEVICE_BUFFER_ARENA ? arena_alloc((struct null_device *) base, bytes) :
		aligned_alloc(DEVICE_ALIGN, pages(bytes));

	if (data == NULL)
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %llu bytes wanted for a batch", (unsigned long long) bytes);
	else if (kind == DEVICE_BUFFER_STAGING)
		memset(data, 0, pages(bytes));
	return data;
}

void
null_buffer_free(struct device *base, int kind, void *buffer)
{
	struct null_device *device = (struct null_device *) base;
	struct null_arena **link = &device->arenas, *arena;

	if (kind == DEVICE_BUFFER_STAGING)
	{
		free(buffer);
		return;
	}
	pthread_mutex_lock(&device->lock);
	while (*link != NULL && (*link)->data != buffer)
		link = &(*link)->next;
	arena = *link;
	if (arena != NULL)
		*link = arena->next;
	pthread_mutex_unlock(&device->lock);
	if (arena != NULL)
		munmap(arena->data, arena->bytes);
	free(arena);
}

static void
arena_open(struct null_device *device, void *data, int protection)
{
	uint64_t	bytes = 0;

	pthread_mutex_lock(&device->lock);
	for (struct null_arena *arena = device->arenas; arena != NULL; arena = arena->next)
		if (arena->data == data)
			bytes = arena->bytes;
	pthread_mutex_unlock(&device->lock);
	if (bytes > 0)
		mprotect(data, bytes, protection);
}

/* ---- the thread ---- */

/* Lock held: the first runs begin when so many are in flight.  false: they have waited in vain. */
static bool
meet(struct null_device *device)
{
	struct timespec until = process_time_after(MEET_SECONDS * UINT64_C(1000000000));

	while (device->met < device->faults.meet && !device->stopping)
	{
		if (device->inflight > device->met)
			device->met = device->inflight;
		if (device->met < device->faults.meet && pthread_cond_timedwait(&device->changed, &device->lock, &until) != 0)
			return false;
	}
	return true;
}

static void
run(struct null_device *device, struct null_queue *queue)
{
	struct null_flight *flight = &queue->flight;
	const struct null_program *program = (const struct null_program *) flight->program;
	bool		good;

	arena_open(device, flight->arena, PROT_READ | PROT_WRITE);
	good = null_compute(queue, flight->program, flight->first, flight->last, &flight->batch, flight->bindings,
						flight->arena, &flight->status) != 0;
	if (!program->texts)
		arena_open(device, flight->arena, PROT_NONE);
	pthread_mutex_lock(&device->lock);
	flight->state = __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) ? DEVICE_LOST : good ? DEVICE_DONE : DEVICE_FAILED;
	device->inflight--;
	pthread_cond_broadcast(&device->changed);
	pthread_mutex_unlock(&device->lock);
}

static void *
thread_main(void *arg)
{
	struct null_device *device = arg;

	pthread_mutex_lock(&device->lock);
	for (;;)
	{
		struct null_queue *queue = device->first;

		if (device->stopping)
			break;
		if (queue == NULL)
		{
			pthread_cond_wait(&device->changed, &device->lock);
			continue;
		}
		if (!meet(device))
		{
			status_set(&queue->flight.status, INFER_ERROR_DEVICE_LOST, "the null device has waited in vain for %u runs at once",
					   device->faults.meet);
			device->faults.meet = 0;
			__atomic_store_n(&device->lost, true, __ATOMIC_RELEASE);
		}
		device->first = queue->next;
		if (device->first == NULL)
			device->last = &device->first;
		pthread_mutex_unlock(&device->lock);
		run(device, queue);
		pthread_mutex_lock(&device->lock);
	}
	pthread_mutex_unlock(&device->lock);
	return NULL;
}

bool
null_async_open(struct null_device *device, struct status *status)
{
	pthread_condattr_t attr;

	device->last = &device->first;
	pthread_mutex_init(&device->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&device->changed, &attr);
	pthread_condattr_destroy(&attr);
	if (pthread_create(&device->thread, NULL, thread_main, device) == 0)
		return true;
	return status_set(status, INFER_ERROR_INTERNAL, "could not start a thread for the null device");
}

void
null_async_close(struct null_device *device)
{
	pthread_mutex_lock(&device->lock);
	device->stopping = true;
	pthread_cond_broadcast(&device->changed);
	pthread_mutex_unlock(&device->lock);
	pthread_join(device->thread, NULL);
	while (device->arenas != NULL)
		null_buffer_free(&device->base, DEVICE_BUFFER_ARENA, device->arenas->data);
	pthread_cond_destroy(&device->changed);
	pthread_mutex_destroy(&device->lock);
}

/* ---- tickets ---- */

uint64_t
null_async_enqueue(struct null_queue *queue, struct device_program *program, uint32_t first, uint32_t last,
				   const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	struct null_device *device = queue->device;
	uint64_t	ticket = 0;

	pthread_mutex_lock(&device->lock);
	if (device->inflight == device->faults.async || (queue->tickets > 0 && queue->flight.state == DEVICE_PENDING))
		status_set(status, INFER_ERROR_DEVICE, "more runs are in flight than the null device is for");
	else
	{
		queue->flight = (struct null_flight) {program, first, last, *batch, (void **) bindings, arena};
		ticket = ++queue->tickets;
		device->inflight++;
		queue->next = NULL;
		*device->last = queue;
		device->last = &queue->next;
		pthread_cond_broadcast(&device->changed);
	}
	pthread_mutex_unlock(&device->lock);
	return ticket;
}

enum device_state
null_async_wait(struct null_queue *queue, uint64_t ticket, uint64_t usec, struct status *status)
{
	struct null_device *device = queue->device;
	struct timespec until = process_time_after(usec * 1000);
	enum device_state state = DEVICE_DONE;

	pthread_mutex_lock(&device->lock);
	while (ticket == queue->tickets && (state = queue->flight.state) == DEVICE_PENDING)
		if (usec == 0 || pthread_cond_timedwait(&device->changed, &device->lock, &until) != 0)
			break;
	if (state == DEVICE_FAILED || state == DEVICE_LOST)
	{
		status_clear(status);
		*status = queue->flight.status;
	}
	pthread_mutex_unlock(&device->lock);
	return state;
}
