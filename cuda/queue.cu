/*
 * queue.cu
 *	  Queues: a stream, its tickets, and the host memory of the runs in flight.
 *
 * A ticket completes when the event behind its run has happened: whoever looks first, under the queue's lock, puts the errors
 * of rows where the engine looks and writes down how it ended.  Tickets of a queue complete in order.  After
 * the device is lost all that are pending complete as lost.
 */
#include "core.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGING_FIRST	(16 * 1024)	/* bytes of a flight from the beginning on: batches of some hundred rows */

static const char *const row_messages[GPU_ROW_ERRORS] = {
	nullptr,
	"division by zero",
	"index out of range",
	"number does not fit the integer type that the model casts it to",
	"the row has more tokens than the model has places",
	"value is not among those that the model knows"
};

void
cuda_errors_merge(const uint32_t *found, uint32_t rows, uint32_t *row_error, const char **row_message)
{
	for (uint32_t r = 0; r < rows; r++)
	{
		if (found[r] == GPU_ROW_FINE || row_error[r] != INFER_OK)
			continue;
		row_error[r] = INFER_ERROR_INPUT;
		if (row_message != nullptr)
			row_message[r] = found[r] < GPU_ROW_ERRORS ? row_messages[found[r]] : "the row cannot be computed";
	}
}

/* ---- queues ---- */

static bool
queue_start(device_queue *queue, status *status)
{
	int			least = 0;
	int			greatest = 0;
	cudaError_t error = cudaSetDevice(queue->gpu->ordinal);

	if (error == cudaSuccess)
		error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
	if (error == cudaSuccess)
		error = cudaStreamCreateWithPriority(&queue->stream, cudaStreamNonBlocking, queue->use == DEVICE_CONSTANTS ? least : greatest);
	for (int f = 0; error == cudaSuccess && f < CUDA_FLIGHTS; f++)
		error = cudaEventCreateWithFlags(&queue->flights[f].event, cudaEventDisableTiming);
	if (error == cudaSuccess)
		return true;
	cudaGetLastError();
	return status_set(status, error == cudaErrorMemoryAllocation ? INFER_ERROR_MEMORY : INFER_ERROR_DEVICE,
					  "GPU %d gives no queue: %s", queue->gpu->ordinal, cudaGetErrorString(error));
}

device_queue *
cuda_queue_create(device *base, int use, status *status)
{
	cuda_device *device = cuda_of(base);
	device_queue *queue;
	uint32_t	gpu = 0;
	bool		good;

	if (!cuda_usable(device, status))
		return nullptr;
	queue = (device_queue *) calloc(1, sizeof(*queue));
	if (queue == nullptr)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*queue));
		return nullptr;
	}
	if (use == DEVICE_BATCHES)
		gpu = __atomic_fetch_add(&device->queues_made, 1, __ATOMIC_RELAXED) % device->gpus_count;
	queue->device = device;
	queue->gpu = &device->gpus[gpu];
	queue->use = use == DEVICE_CONSTANTS ? DEVICE_CONSTANTS : DEVICE_BATCHES;
	pthread_mutex_init(&queue->lock, nullptr);
	cuda_condition_init(&queue->changed);
	queue->host = base->host->ops->queue_create(base->host, use, status);
	good = queue->host != nullptr && queue_start(queue, status);
	for (int f = 0; good && f < CUDA_FLIGHTS; f++)
	{
		queue->flights[f].staging = (uint8_t *) cuda_host_alloc(queue->gpu, STAGING_FIRST, status);
		queue->flights[f].staging_bytes = STAGING_FIRST;
		good = queue->flights[f].staging != nullptr;
	}
	cuda_watcher_add(queue);
	if (good)
		return queue;
	cuda_queue_free(queue);
	return nullptr;
}

void
cuda_queue_free(device_queue *queue)
{
	status		unused;

	if (queue == nullptr)
		return;
	status_clear(&unused);
	while (queue->tickets > 0 && cuda_wait(queue, queue->tickets, 1000000, &unused) == DEVICE_PENDING)
		;
	cuda_watcher_remove(queue);
	cuda_graphs_forget(queue->gpu, nullptr, queue);
	cudaSetDevice(queue->gpu->ordinal);
	for (int f = 0; f < CUDA_FLIGHTS; f++)
	{
		if (queue->flights[f].event != nullptr)
			cudaEventDestroy(queue->flights[f].event);
		cuda_host_free(queue->gpu, queue->flights[f].staging);
	}
	if (queue->stream != nullptr)
		cudaStreamDestroy(queue->stream);
	cudaGetLastError();
	if (queue->host != nullptr)
		queue->device->base.host->ops->queue_free(queue->host);
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
	free(queue->bindings);
	free(queue->host_bindings);
	free(queue);
}

/* ---- completing ---- */

/* The lock is held: the next ticket is final. */
static void
complete(device_queue *queue, enum device_state state, uint32_t error, const char *message)
{
	uint64_t	ticket = queue->completed + 1;
	cuda_flight *flight = &queue->flights[ticket % CUDA_FLIGHTS];
	cuda_ticket *ended = &queue->ended[ticket % DEVICE_TICKETS_KEPT];
	uint64_t	now = cuda_now_nsec();
	size_t		length;

	if (state == DEVICE_DONE && flight->row_error != nullptr)
		cuda_errors_merge((const uint32_t *) (const void *) (flight->staging + flight->staging_errors), flight->rows, flight->row_error,
						  flight->row_message);
	ended->state = (uint8_t) state;
	ended->error = error;
	length = strnlen(message, sizeof(ended->message) - 1);
	memmove(ended->message, message, length);
	ended->message[length] = '\0';
	ended->elapsed = now - flight->began;
	if (state == DEVICE_DONE)
		cuda_watch_measured(queue->gpu, flight->predicted, ended->elapsed);
	queue->completed = ticket;
	if (ticket < queue->tickets)
		queue->flights[(ticket + 1) % CUDA_FLIGHTS].began = queue->flights[(ticket + 1) % CUDA_FLIGHTS].watched = now;
	pthread_cond_broadcast(&queue->changed);
}

/* By any thread: to one that has chosen no GPU, CUDA gives a context on the first, and takes memory for it. */
static void
choose_gpu(const device_queue *queue)
{
	if (queue->completed < queue->tickets && !cuda_is_lost(queue->device) && cudaSetDevice(queue->gpu->ordinal) != cudaSuccess)
		cudaGetLastError();			/* what the run's event says is what counts */
}

void
cuda_queue_progress(device_queue *queue)
{
	cuda_device *device = queue->device;

	choose_gpu(queue);
	while (queue->completed < queue->tickets)
	{
		cuda_flight *flight = &queue->flights[(queue->completed + 1) % CUDA_FLIGHTS];
		uint64_t	asked = cuda_now_nsec();
		cudaError_t error = cuda_is_lost(device) ? cudaErrorUnknown : cudaEventQuery(flight->event);

		if (error == cudaErrorNotReady)
		{
			uint64_t	now = cuda_now_nsec();

			flight->watched += now - asked; /* what the call took is not the GPU's time */
			if (!cuda_watch_hang(queue->gpu, flight->watched, flight->predicted, now))
				return;
		}
		else if (error != cudaSuccess)
		{
			cudaGetLastError();
			cuda_lose(device, "GPU %d answers errors: %s", queue->gpu->ordinal, cudaGetErrorString(error));
		}
		if (error != cudaSuccess)
			complete(queue, DEVICE_LOST, INFER_ERROR_DEVICE_LOST, cuda_lost_reason(device));
		else if (flight->error != 0)
			complete(queue, DEVICE_FAILED, flight->error, flight->message);
		else
			complete(queue, DEVICE_DONE, 0, "");
	}
}

/* The lock is held. */
static enum device_state
state_of(const device_queue *queue, uint64_t ticket, status *status)
{
	const cuda_ticket *ended = &queue->ended[ticket % DEVICE_TICKETS_KEPT];

	if (ticket == 0)				/* what enqueue says of a run that it did not start */
		return DEVICE_FAILED;
	if (ticket > queue->completed)
		return DEVICE_PENDING;
	if (ticket + DEVICE_TICKETS_KEPT <= queue->completed)
		return DEVICE_DONE;
	if (ended->error != 0)
		status_set(status, ended->error, "%s", ended->message);
	return (enum device_state) ended->state;
}

enum device_state
cuda_poll(device_queue *queue, uint64_t ticket, status *status)
{
	enum device_state state;

	pthread_mutex_lock(&queue->lock);
	cuda_queue_progress(queue);
	state = state_of(queue, ticket, status);
	pthread_mutex_unlock(&queue->lock);
	return state;
}

/* The lock is held, and is given up meanwhile. */
static void
nap(device_queue *queue, uint64_t end, uint64_t now)
{
	const cuda_flight *flight = &queue->flights[(queue->completed + 1) % CUDA_FLIGHTS];
	bool		pending = queue->completed < queue->tickets;
	uint64_t	until = pending ? now + cuda_watch_nap(queue->gpu, flight->watched, flight->predicted, now) : end;
	timespec	time;

	if (until == now)
	{
		pthread_mutex_unlock(&queue->lock);
		sched_yield();
		pthread_mutex_lock(&queue->lock);
		return;
	}
	until = until < end ? until : end;
	time.tv_sec = (time_t) (until / 1000000000u);
	time.tv_nsec = (long) (until % 1000000000u);
	pthread_cond_timedwait(&queue->changed, &queue->lock, &time);
}

/* Looks itself, so that nobody has to be woken to wake who waits; the watcher leaves the queue alone meanwhile. */
enum device_state
cuda_wait(device_queue *queue, uint64_t ticket, uint64_t usec, status *status)
{
	uint64_t	now = cuda_now_nsec();
	uint64_t	end = now + usec * 1000;
	enum device_state state = DEVICE_PENDING;

	pthread_mutex_lock(&queue->lock);
	queue->waiting++;
	for (;; now = cuda_now_nsec())
	{
		cuda_queue_progress(queue);
		state = state_of(queue, ticket, status);
		if (state != DEVICE_PENDING || now >= end)
			break;
		nap(queue, end, now);
	}
	queue->waiting--;
	pthread_mutex_unlock(&queue->lock);
	return state;
}

void
cuda_cancel(device_queue *queue, uint64_t ticket)
{
	/* all segments of a ticket that exists have begun */
}

uint64_t
cuda_elapsed_nsec(device_queue *queue, uint64_t ticket)
{
	uint64_t	elapsed;

	pthread_mutex_lock(&queue->lock);
	elapsed = ticket <= queue->completed && ticket + DEVICE_TICKETS_KEPT > queue->completed ?
		queue->ended[ticket % DEVICE_TICKETS_KEPT].elapsed : 0;
	pthread_mutex_unlock(&queue->lock);
	return elapsed;
}

/* ---- enqueue ---- */

/* Rows lie end to end, from the first token to the last. */
static bool
offsets_sound(const device_batch *batch, status *status)
{
	uint32_t	rows = batch->items[DEVICE_LEAD_ROWS];
	bool		sound = batch->row_off != nullptr && batch->row_off[0] == 0 &&
		batch->row_off[rows] == batch->items[DEVICE_LEAD_TOKENS];

	for (uint32_t row = 0; sound && row < rows; row++)
		sound = batch->row_off[row] <= batch->row_off[row + 1] &&
				(batch->row_first == nullptr || batch->row_first[row] <= batch->row_off[row + 1] - batch->row_off[row]);
	return sound || status_set(status, INFER_ERROR_INTERNAL, "the batch does not say where its rows begin");
}

static bool
grow(void *array, uint32_t *space, uint32_t wanted, status *status)
{
	void	  **place = (void **) array;
	void	   *larger;

	if (wanted <= *space)
		return true;
	larger = realloc(*place, wanted * sizeof(void *));
	if (larger == nullptr)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted for a batch", wanted * sizeof(void *));
	*place = larger;
	*space = wanted;
	return true;
}

/* Host memory at least so large; what was in it is lost. */
static bool
grow_pinned(cuda_gpu *gpu, uint8_t **memory, uint64_t *bytes, uint64_t wanted, status *status)
{
	uint8_t    *larger;

	if (wanted <= *bytes)
		return true;
	larger = (uint8_t *) cuda_host_alloc(gpu, wanted, status);
	if (larger == nullptr)
		return false;
	cuda_host_free(gpu, *memory);
	*memory = larger;
	*bytes = wanted;
	return true;
}

/* A flight for the next ticket, once the one that had it before has completed. */
static cuda_flight *
flight_take(device_queue *queue, status *status)
{
	uint64_t	ticket = queue->tickets + 1;
	cuda_flight *flight = &queue->flights[ticket % CUDA_FLIGHTS];
	struct status unused;

	status_clear(&unused);
	while (ticket > CUDA_FLIGHTS && cuda_wait(queue, ticket - CUDA_FLIGHTS, 1000000, &unused) == DEVICE_PENDING)
		;
	if (!cuda_usable(queue->device, status))
		return nullptr;
	flight->row_error = nullptr;
	flight->row_message = nullptr;
	flight->rows = 0;
	flight->error = 0;
	return flight;
}

/* All memory that a run needs. */
static bool
reserve(cuda_call *call, const void *arena, status *status)
{
	device_queue *queue = call->queue;
	const device_program *program = call->program;

	call->arena = cuda_arena_find(queue->gpu, arena, call->layout.bytes);
	if (call->arena == nullptr)
		return status_set(status, INFER_ERROR_INTERNAL, "the arena is not of the queue's GPU, or has not the %llu bytes of the batch",
						  (unsigned long long) call->layout.bytes);
	return grow(&queue->bindings, &queue->bindings_space, program->bindings_count, status) &&
		   grow(&queue->host_bindings, &queue->host_bindings_space, program->bindings_most, status) &&
		   grow_pinned(queue->gpu, &call->flight->staging, &call->flight->staging_bytes, cuda_run_staging(&call->layout), status) &&
		   (call->first > 0 ||
			grow_pinned(queue->gpu, &call->arena->host, &call->arena->host_bytes, call->layout.host_bytes, status));
}

/* The event behind the run, whatever has become of it, so that the ticket completes. */
static uint64_t
publish(cuda_call *call, status *status)
{
	device_queue *queue = call->queue;
	cudaError_t error = cudaEventRecord(call->flight->event, queue->stream);

	if (error != cudaSuccess)
	{
		cudaGetLastError();
		cuda_lose(queue->device, "GPU %d answers errors: %s", queue->gpu->ordinal, cudaGetErrorString(error));
	}
	pthread_mutex_lock(&queue->lock);
	call->flight->watched = cuda_now_nsec();
	queue->tickets = call->ticket;
	pthread_mutex_unlock(&queue->lock);
	cuda_watcher_wake(queue->gpu);
	return call->ticket;
}

uint64_t
cuda_enqueue(device_queue *queue, device_program *program, uint32_t first, uint32_t last, const device_batch *batch,
			 void *const *bindings, void *arena, status *status)
{
	cuda_call	call = {};
	cudaError_t error;

	if (!cuda_usable(queue->device, status) || (program->sequences && !offsets_sound(batch, status)))
		return 0;
	call.queue = queue;
	call.program = program;
	call.first = first;
	call.last = last < program->plans_count ? last : program->plans_count;
	call.batch = batch;
	call.bindings = bindings;
	call.ticket = queue->tickets + 1;
	cuda_layout_make(program, batch->items, &call.layout);
	error = cudaSetDevice(queue->gpu->ordinal);
	if (error != cudaSuccess)
	{
		cudaGetLastError();
		cuda_lose(queue->device, "GPU %d answers errors: %s", queue->gpu->ordinal, cudaGetErrorString(error));
	}
	call.flight = flight_take(queue, status);
	if (call.flight == nullptr || !reserve(&call, arena, status))
		return 0;
	call.flight->began = cuda_now_nsec();
	call.flight->predicted = cuda_range_nsec(program, first, call.last, batch);
	cuda_run_enqueue(&call, arena);
	return publish(&call, status);
}
