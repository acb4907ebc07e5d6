/*
 * run.cu
 *	  What enqueue puts on its queue's stream: up, plans, down.
 *
 * Up, with a run's first segment: the batch and its arrays as one block, then the bindings that plans of the GPU read.  Down,
 * with its last: the bindings that they wrote, and the errors of rows.  In between nothing is waited for, but at
 * a host segment: the host computes on the thread that enqueues, once the GPU has done what comes before.  So the ticket of
 * a run is given out when all of its segments have begun, and there is nothing left of it to cancel.
 *
 * The block is built in the flight's staging, which is its own until it has completed.
 */
#include "core.h"

#include <stdio.h>
#include <string.h>

uint64_t
cuda_run_staging(const cuda_layout *layout)
{
	return layout->prefix + CUDA_ALIGN((uint64_t) layout->items[DEVICE_LEAD_ROWS] * sizeof(uint32_t));
}

/* ---- errors ---- */

static bool
flight_fails(cuda_flight *flight, uint32_t error, const char *what, const char *why)
{
	if (flight->error == 0)
	{
		flight->error = error;
		snprintf(flight->message, sizeof(flight->message), "%.80s: %.100s", what, why);
	}
	return false;
}

/* Of a call that failed: an error of the GPU's, or this run's alone. */
static bool
call_fails(cuda_call *call, cudaError_t error, const char *what)
{
	cuda_gpu_fails(call->queue->gpu, call->queue->stream, error);
	return flight_fails(call->flight, error == cudaErrorMemoryAllocation ? INFER_ERROR_MEMORY : INFER_ERROR_DEVICE, what,
						cudaGetErrorString(error));
}

/* ---- up ---- */

static void
copy_array(uint8_t *to, const uint32_t *from, uint32_t count)
{
	if (from != nullptr)
		memcpy(to, from, count * sizeof(*from));
}

/* Tiles before each row. */
static void
fill_tiles(uint32_t *tile_off, const uint32_t *row_off, uint32_t rows)
{
	tile_off[0] = 0;
	for (uint32_t r = 0; r < rows; r++)
		tile_off[r + 1] = tile_off[r] + (row_off[r + 1] - row_off[r] + GPU_ATTENTION_TILE - 1) / GPU_ATTENTION_TILE;
}

/* The batch as the GPU sees it, in the staging; its pointers are the arena's. */
static void
fill_prefix(cuda_call *call)
{
	const device_batch *batch = call->batch;
	const cuda_layout *layout = &call->layout;
	uint8_t    *to = call->flight->staging;
	uint8_t    *arena = call->run.arena;
	uint32_t	rows = batch->items[DEVICE_LEAD_ROWS];
	gpu_batch	header = {};

	memcpy(header.items, batch->items, sizeof(header.items));
	header.items[DEVICE_LEAD_NONE] = 1;
	header.max_len = batch->max_len;
	copy_array(to + layout->row_off, batch->row_off, rows + 1);
	copy_array(to + layout->row_first, batch->row_first, rows);
	memset(to + layout->row_error, 0, rows * sizeof(uint32_t));
	if (batch->row_off != nullptr)
	{
		header.row_off = (const uint32_t *) (arena + layout->row_off);
		header.tile_off = (const uint32_t *) (arena + layout->tile_off);
		fill_tiles((uint32_t *) (void *) (to + layout->tile_off), batch->row_off, rows);
	}
	if (batch->row_first != nullptr)
		header.row_first = (const uint32_t *) (arena + layout->row_first);
	if (batch->row_error != nullptr)
		header.row_error = (uint32_t *) (arena + layout->row_error);
	memcpy(to, &header, sizeof(header));
}

static bool
copy(cuda_call *call, void *to, const void *from, uint64_t bytes, cudaMemcpyKind kind)
{
	cudaError_t error = bytes == 0 ? cudaSuccess : cudaMemcpyAsync(to, from, bytes, kind, call->queue->stream);

	return error == cudaSuccess ||
		   call_fails(call, error, kind == cudaMemcpyHostToDevice ? "a copy to the GPU failed" : "a copy from the GPU failed");
}

static uint64_t
items_bytes(const cuda_call *call, uint8_t lead, uint64_t bytes)
{
	return bytes * (lead == DEVICE_LEAD_NONE ? 1 : call->batch->items[lead]);
}

static bool
run_up(cuda_call *call)
{
	const device_program *program = call->program;

	fill_prefix(call);
	if (!copy(call, call->run.arena, call->flight->staging, call->layout.prefix, cudaMemcpyHostToDevice))
		return false;
	for (uint32_t b = 0; b < program->bindings_count; b++)
	{
		const cuda_binding *binding = &program->bindings[b];

		if (binding->up && !copy(call, call->queue->bindings[b], call->bindings[b],
								 items_bytes(call, binding->lead, binding->bytes), cudaMemcpyHostToDevice))
			return false;
	}
	return true;
}

/* ---- down ---- */

static bool
errors_down(cuda_call *call)
{
	if (call->batch->row_error == nullptr)
		return true;
	return copy(call, call->flight->staging + call->layout.prefix, call->run.arena + call->layout.row_error,
				call->batch->items[DEVICE_LEAD_ROWS] * sizeof(uint32_t), cudaMemcpyDeviceToHost);
}

static bool
run_down(cuda_call *call)
{
	const device_program *program = call->program;
	cuda_flight *flight = call->flight;

	for (uint32_t b = 0; b < program->bindings_count; b++)
	{
		const cuda_binding *binding = &program->bindings[b];

		if (binding->down && !copy(call, call->bindings[b], call->queue->bindings[b],
								   items_bytes(call, binding->lead, binding->bytes), cudaMemcpyDeviceToHost))
			return false;
	}
	if (!errors_down(call))
		return false;
	flight->staging_errors = call->layout.prefix;
	flight->rows = call->batch->items[DEVICE_LEAD_ROWS];
	flight->row_error = call->batch->row_error;
	flight->row_message = call->batch->row_message;
	return true;
}

/* ---- the host's part ---- */

/* Where the host has a tensor: a binding, or a mirror. */
static uint8_t *
host_address(const cuda_call *call, const cuda_place *place)
{
	const cuda_layout *layout = &call->layout;

	if (place->kind == CUDA_BINDING)
		return (uint8_t *) call->bindings[place->binding];
	return call->arena->host + layout->mirror_base[place->lead] + place->offset * layout->items[place->lead];
}

static bool
cross(cuda_call *call, const cuda_copy *copies, uint32_t count, bool down)
{
	for (uint32_t c = 0; c < count; c++)
	{
		const cuda_place *place = &copies[c].place;
		uint64_t	bytes = items_bytes(call, place->lead, copies[c].bytes);
		void	   *device = cuda_address(&call->run, place);
		void	   *host = host_address(call, &copies[c].host);

		if (!(down ? copy(call, host, device, bytes, cudaMemcpyDeviceToHost) :
			  copy(call, device, host, bytes, cudaMemcpyHostToDevice)))
			return false;
		__atomic_fetch_add(&call->queue->gpu->device->host_copies, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&call->queue->gpu->device->host_bytes, bytes, __ATOMIC_RELAXED);
	}
	return true;
}

/* Until the stream has run to here.  What rows have failed of so far is merged, so that the first error stays. */
static bool
stream_wait(cuda_call *call)
{
	cuda_flight *flight = call->flight;
	cudaError_t error;

	if (!errors_down(call))
		return false;
	error = cudaEventRecord(flight->event, call->queue->stream);
	if (error != cudaSuccess)
		return call_fails(call, error, "an event was not recorded");
	if (!cuda_watch_event(call->queue->gpu, flight->event, flight->predicted))
		return false;
	if (call->batch->row_error != nullptr)
		cuda_errors_merge((const uint32_t *) (const void *) (flight->staging + call->layout.prefix),
						  call->batch->items[DEVICE_LEAD_ROWS], call->batch->row_error, call->batch->row_message);
	return true;
}

/* The arena of a host segment. */
static uint8_t *
host_arena(const cuda_call *call, uint32_t h)
{
	device	   *host = call->program->device->base.host;
	uint64_t	at = call->layout.host_arenas;

	for (uint32_t i = 0; i < h; i++)
		at += CUDA_ALIGN(host->ops->arena_bytes(call->program->hosts[i].program, call->batch->items));
	return call->arena->host + at;
}

/* Ops [first, last) of a host segment. */
static bool
host_run(cuda_call *call, uint32_t h, uint32_t first, uint32_t last)
{
	device_queue *queue = call->queue;
	const device_program *program = call->program;
	const cuda_host *host = &program->hosts[h];
	const device_ops *ops = program->device->base.host->ops;
	device_state state = DEVICE_PENDING;
	status		status;
	uint64_t	ticket;

	for (uint32_t b = 0; b < program->bindings_count; b++)
		queue->host_bindings[b] = call->bindings[b];
	for (uint32_t m = 0; m < host->mirrors_count; m++)
		queue->host_bindings[program->bindings_count + m] = host_address(call, &host->mirrors[m]);
	status_clear(&status);
	ticket = ops->enqueue(queue->host, host->program, first - host->first, last - host->first, call->batch, queue->host_bindings,
						  host_arena(call, h), &status);
	while (ticket != 0 && state == DEVICE_PENDING)
		state = ops->wait(queue->host, ticket, 1000000, &status);
	return state == DEVICE_DONE ||
		   flight_fails(call->flight, status.error == 0 ? (uint32_t) INFER_ERROR_DEVICE : status.error,
						"the host's part of the program failed", status.message);
}

/* From op first on, as far as its host segment and the range reach; *next: the op behind. */
static bool
run_host(cuda_call *call, uint32_t first, uint32_t *next)
{
	uint32_t	h = call->program->host_of[first] - 1;
	const cuda_host *host = &call->program->hosts[h];
	uint32_t	last = host->last < call->last ? host->last : call->last;

	*next = last;
	if (first == host->first && !cross(call, host->down, host->down_count, true))
		return false;
	return stream_wait(call) && host_run(call, h, first, last) &&
		   (last < host->last || cross(call, host->up, host->up_count, false));
}

/* ---- the GPU's part ---- */

static bool
run_plan(cuda_call *call, const cuda_plan *plan)
{
	char		what[80];

	plan->launch(plan, &call->run);
	if (call->run.error == cudaSuccess)
		return true;
	snprintf(what, sizeof(what), "a kernel of primitive %u was not started", plan->op);
	return call_fails(call, call->run.error, what);
}

/* As plans see it.  bindings: an array for the addresses of the bindings' copies. */
void
cuda_run_start(cuda_run *run, const device_queue *queue, const device_program *program, const cuda_layout *layout, void *arena,
			   uint8_t **bindings)
{
	uint8_t    *at = (uint8_t *) arena + layout->bindings;

	memset(run, 0, sizeof(*run));
	run->gpu = queue->gpu;
	run->gpu_index = (int) (queue->gpu - queue->device->gpus);
	run->stream = queue->stream;
	run->arena = (uint8_t *) arena;
	memcpy(run->items, layout->items, sizeof(run->items));
	run->tiles = (uint64_t) run->items[DEVICE_LEAD_TOKENS] / GPU_ATTENTION_TILE + run->items[DEVICE_LEAD_ROWS];
	run->batch = (const gpu_batch *) arena;
	run->constants = program->constants[run->gpu_index];
	run->scratch = run->arena + layout->scratch;
	memcpy(run->lead_base, layout->lead_base, sizeof(run->lead_base));
	for (uint32_t b = 0; b < program->bindings_count; b++)
	{
		bindings[b] = at;
		at += cuda_layout_binding(layout, &program->bindings[b]);
	}
	run->bindings = bindings;
}

bool
cuda_run_enqueue(cuda_call *call, void *arena)
{
	const device_program *program = call->program;

	cuda_run_start(&call->run, call->queue, program, &call->layout, arena, call->queue->bindings);
	if (call->first == 0 && !run_up(call))
		return false;
	if (cuda_graph_launch(call))
		return call->last < program->plans_count || run_down(call);
	for (uint32_t p = call->first; p < call->last;)
	{
		if (program->plans[p].launch == nullptr)
		{
			if (!run_host(call, p, &p))
				return false;
		}
		else if (!run_plan(call, &program->plans[p++]))
			return false;
	}
	return call->last < program->plans_count || run_down(call);
}
