/*
 * device.c
 *	  The CPU device, with faults on demand (faults.h): what tests of everything above it run on.
 *
 * Runs are counted over all queues of the device.  Where there is no fault, results
 * are those of the CPU device, bit for bit, and so is numerics_id.
 */
#include "null.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../protocol/protocol.h"

static struct null_device *
null_of(struct device *base)
{
	return (struct null_device *) base;
}

static const struct null_program *
null_program_of(const struct device_program *program)
{
	return (const struct null_program *) program;
}

static struct null_queue *
null_queue_of(struct device_queue *queue)
{
	return (struct null_queue *) queue;
}

static const struct device_ops null_async_ops;

/* ---- the device ---- */

static struct device *
null_open(const struct device_options *options, struct status *status)
{
	struct null_device *device = calloc(1, sizeof(*device));
	struct device_options own = *options;

	if (device == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*device));
		return NULL;
	}
	device->base.ops = &null_device_ops;
	if (!faults_parse(&device->faults, options->faults, status))
	{
		free(device);
		return NULL;
	}
	if (device->faults.async > 0)
		own.beat = NULL;		/* who runs several batches at once gives signs of life for each */
	device->cpu = cpu_device_ops.open(&own, status);
	if (device->cpu == NULL)
	{
		free(device);
		return NULL;
	}
	if (device->faults.async == 0)
		return &device->base;
	device->base.ops = &null_async_ops;
	if (null_async_open(device, status))
		return &device->base;
	cpu_device_ops.close(device->cpu);
	free(device);
	return NULL;
}

static void
null_close(struct device *base)
{
	if (null_of(base)->faults.async > 0)
		null_async_close(null_of(base));
	cpu_device_ops.close(null_of(base)->cpu);
	free(base);
}

static void
null_info(struct device *base, struct device_info *info)
{
	cpu_device_ops.info(null_of(base)->cpu, info);
	snprintf(info->kind, sizeof(info->kind), "null");
	snprintf(info->name, sizeof(info->name), "null");
	if (null_of(base)->faults.async == 0)
		return;
	info->async = true;
	info->inflight_max = null_of(base)->faults.async;
}

/* ---- what is the CPU's ---- */

static uint32_t
null_supports(struct device *base, const struct device_op *op, const struct device_tensor *tensors)
{
	return cpu_device_ops.supports(null_of(base)->cpu, op, tensors);
}

static uint64_t
null_weight_size(struct device *base, const struct device_weight_desc *desc)
{
	return cpu_device_ops.weight_size(null_of(base)->cpu, desc);
}

static struct device_weight *
null_weight_pack(struct device *base, const struct device_weight_desc *desc, struct status *status)
{
	return cpu_device_ops.weight_pack(null_of(base)->cpu, desc, status);
}

static const void *
null_weight_data(struct device *base, const struct device_weight *weight, uint64_t *bytes)
{
	if (null_of(base)->faults.async > 0)
		return NULL;
	return cpu_device_ops.weight_data(null_of(base)->cpu, weight, bytes);
}

static struct device_weight *
null_weight_map(struct device *base, const struct device_weight_desc *desc, const void *data, uint64_t bytes,
				struct status *status)
{
	return cpu_device_ops.weight_map(null_of(base)->cpu, desc, data, bytes, status);
}

static void
null_weight_free(struct device *base, struct device_weight *weight)
{
	cpu_device_ops.weight_free(null_of(base)->cpu, weight);
}

static void
null_program_free(struct device *base, struct device_program *program)
{
	if (program == NULL)
		return;
	cpu_device_ops.program_free(null_of(base)->cpu, null_program_of(program)->cpu);
	free(program);
}

/* Whether the program has a fault as it is compiled: then with a status. */
static bool
load_fails(struct null_device *device, const struct null_program *program, struct status *status)
{
	for (int kind = 0; kind < FAULT_KINDS; kind++)
	{
		int64_t		load = device->faults.of[kind].load;

		for (uint32_t b = 0; b < program->bindings_count; b++)
		{
			if (load == 0 || load != program->elements[b])
				continue;
			fault_happens(kind, status);
			return true;
		}
	}
	return false;
}

static struct device_program *
null_compile(struct device *base, const struct device_graph *graph, struct status *status)
{
	size_t		bytes = sizeof(struct null_program) + graph->bindings_count * sizeof(int64_t);
	struct null_program *program = calloc(1, bytes);

	if (program == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted for a program", bytes);
		return NULL;
	}
	program->segments = graph->ops_count > 0 ? graph->ops_count : 1;
	program->bindings_count = graph->bindings_count;
	program->cpu = cpu_device_ops.compile(null_of(base)->cpu, graph, status);
	if (program->cpu == NULL)
	{
		free(program);
		return NULL;
	}

	/* inputs only: what no op writes */
	for (uint32_t t = 0; t < graph->tensors_count; t++)
	{
		const struct device_tensor *tensor = &graph->tensors[t];
		bool		written = false;

		program->texts = program->texts || tensor->type == DEVICE_STRING;
		for (uint32_t o = 0; o < graph->ops_count; o++)
			written = written || graph->ops[o].output == (int32_t) t;
		if (!written && tensor->constant == NULL && tensor->binding >= 0 &&
			tensor->type == DEVICE_F32 && tensor->lead == DEVICE_LEAD_ROWS)
			program->elements[tensor->binding] = device_item_elements(tensor);
	}
	if (load_fails(null_of(base), program, status))
	{
		null_program_free(base, (struct device_program *) program);
		return NULL;
	}
	return (struct device_program *) program;
}

static uint64_t
null_program_bytes(const struct device_program *program)
{
	return cpu_device_ops.program_bytes(null_program_of(program)->cpu);
}

static uint64_t
null_arena_bytes(const struct device_program *program, const uint32_t items[DEVICE_LEADS])
{
	return cpu_device_ops.arena_bytes(null_program_of(program)->cpu, items);
}

static struct device_queue *
null_queue_create(struct device *base, int use, struct status *status)
{
	struct null_queue *queue = calloc(1, sizeof(*queue));

	if (queue == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*queue));
		return NULL;
	}
	queue->device = null_of(base);
	queue->use = use;
	queue->cpu = cpu_device_ops.queue_create(queue->device->cpu, use, status);
	if (queue->cpu == NULL)
	{
		free(queue);
		return NULL;
	}
	return (struct device_queue *) queue;
}

static void
null_queue_free(struct device_queue *queue)
{
	if (queue == NULL)
		return;
	cpu_device_ops.queue_free(null_queue_of(queue)->cpu);
	free(queue);
}

/* ---- faults ---- */

static bool
rows_hold(const struct null_program *program, const struct device_batch *batch, void *const *bindings,
		  float value)
{
	for (uint32_t b = 0; b < program->bindings_count; b++)
	{
		const float *x = bindings[b];
		int64_t		count = program->elements[b] * (int64_t) batch->items[DEVICE_LEAD_ROWS];

		for (int64_t i = 0; i < count; i++)
			if (x[i] == value)
				return true;
	}
	return false;
}

/* nsec: each segment's part of the delay. */
static uint64_t
segment_delay(const struct null_device *device, const struct null_program *program)
{
	return device->faults.delay_msec * 1000000u / program->segments;
}

uint64_t
null_compute(struct null_queue *queue, struct device_program *base_program, uint32_t first, uint32_t last,
			 const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	struct null_device *device = queue->device;
	const struct null_program *program = null_program_of(base_program);
	uint32_t	end = last < program->segments ? last : program->segments;
	uint64_t	call = 0;

	if (first == 0)
		call = __atomic_add_fetch(&device->calls, 1, __ATOMIC_RELAXED);
	if (device->faults.delay_msec > 0 && first < end)
		fault_sleep(segment_delay(device, program) * (end - first));
	for (int kind = 0; first == 0 && kind < FAULT_KINDS; kind++)
	{
		const struct fault *f = &device->faults.of[kind];
		bool		now = f->at != 0 && (f->sticky ? call >= f->at : call == f->at);

		if (!now && f->on)
			now = rows_hold(program, batch, bindings, f->value);
		if (!now)
			continue;
		if (kind == FAULT_LOST)
			__atomic_store_n(&device->lost, true, __ATOMIC_RELEASE);
		fault_happens(kind, status);
		return 0;
	}
	return cpu_device_ops.enqueue(queue->cpu, program->cpu, first, last, batch, bindings, arena, status);
}

static bool
is_async(const struct null_queue *queue)
{
	return queue->device->faults.async > 0 && queue->use == DEVICE_BATCHES;
}

static uint64_t
null_enqueue(struct device_queue *base, struct device_program *program, uint32_t first, uint32_t last,
			 const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	struct null_queue *queue = null_queue_of(base);

	if (is_async(queue))
		return null_async_enqueue(queue, program, first, last, batch, bindings, arena, status);
	return null_compute(queue, program, first, last, batch, bindings, arena, status);
}

static uint32_t
null_segment_end(struct device *base, const struct device_program *base_program, uint32_t first,
				 const struct device_batch *batch, uint64_t nsec, uint64_t *predicted)
{
	const struct null_program *program = null_program_of(base_program);
	uint32_t	at = first;

	*predicted = 0;
	while (at < program->segments)
	{
		uint64_t	one;

		cpu_device_ops.segment_end(null_of(base)->cpu, program->cpu, at, batch, 0, &one);
		one += segment_delay(null_of(base), program);
		if (at > first && *predicted + one > nsec)
			break;
		*predicted += one;
		at++;
	}
	return at < program->segments ? at : UINT32_MAX;
}

static enum device_state
null_poll(struct device_queue *queue, uint64_t ticket, struct status *status)
{
	if (is_async(null_queue_of(queue)))
		return null_async_wait(null_queue_of(queue), ticket, 0, status);
	if (__atomic_load_n(&null_queue_of(queue)->device->lost, __ATOMIC_ACQUIRE))
	{
		status_set(status, INFER_ERROR_DEVICE_LOST, "the null device was lost on demand");
		return DEVICE_LOST;
	}
	return cpu_device_ops.poll(null_queue_of(queue)->cpu, ticket, status);
}

static enum device_state
null_wait(struct device_queue *queue, uint64_t ticket, uint64_t usec, struct status *status)
{
	if (is_async(null_queue_of(queue)))
		return null_async_wait(null_queue_of(queue), ticket, usec, status);
	return null_poll(queue, ticket, status);
}

static void
null_cancel(struct device_queue *queue, uint64_t ticket)
{
	cpu_device_ops.cancel(null_queue_of(queue)->cpu, ticket);
}

static uint64_t
null_estimate_nsec(struct device *base, const struct device_program *program,
				   const struct device_batch *batch)
{
	return null_of(base)->faults.delay_msec * 1000000u +
		cpu_device_ops.estimate_nsec(null_of(base)->cpu, null_program_of(program)->cpu, batch);
}

static uint64_t
null_elapsed_nsec(struct device_queue *queue, uint64_t ticket)
{
	return cpu_device_ops.elapsed_nsec(null_queue_of(queue)->cpu, ticket);
}

#define NULL_OPS \
	.kind = "null", \
	.open = null_open, \
	.close = null_close, \
	.info = null_info, \
	.supports = null_supports, \
	.weight_size = null_weight_size, \
	.weight_pack = null_weight_pack, \
	.weight_free = null_weight_free, \
	.weight_data = null_weight_data, \
	.weight_map = null_weight_map, \
	.compile = null_compile, \
	.program_free = null_program_free, \
	.program_bytes = null_program_bytes, \
	.arena_bytes = null_arena_bytes, \
	.queue_create = null_queue_create, \
	.queue_free = null_queue_free, \
	.enqueue = null_enqueue, \
	.segment_end = null_segment_end, \
	.poll = null_poll, \
	.wait = null_wait, \
	.cancel = null_cancel, \
	.estimate_nsec = null_estimate_nsec, \
	.elapsed_nsec = null_elapsed_nsec

const struct device_ops null_device_ops = {NULL_OPS};

static const struct device_ops null_async_ops = {
	NULL_OPS,
	.buffer_alloc = null_buffer_alloc,
	.buffer_free = null_buffer_free
};
