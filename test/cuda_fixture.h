/*
 * cuda_fixture.h
 *	  The CUDA device (kernels/harness.h says whose library it is) for tests of models, with a look at what is compiled for it and
 *	  at what is enqueued.
 *
 * What is seen is of all threads together; cuda_seen_compile is read after a model has been opened.
 */
#ifndef TEST_CUDA_FIXTURE_H
#define TEST_CUDA_FIXTURE_H

#include "kernels/harness.h"

struct cuda_seen
{
	struct device_ops ops;			/* the device's, some of them replaced */
	const struct device_ops *own;
	char		host_ops[512];		/* of the programs compiled last, those that are left to the host: "gather 0, lookup 3": op and node */
	uint32_t	host_count;
	uint32_t	programs;
	uint64_t	runs;				/* enqueued: atomic */
};

static struct cuda_seen cuda_seen;

static inline void
cuda_seen_reset(void)
{
	cuda_seen.host_ops[0] = '\0';
	cuda_seen.host_count = 0;
	cuda_seen.programs = 0;
}

static inline struct device_program *
cuda_seen_compile(struct device *device, const struct device_graph *graph, struct status *status)
{
	for (uint32_t i = 0; i < graph->ops_count; i++)
	{
		const struct device_op *op = &graph->ops[i];
		size_t		used = strlen(cuda_seen.host_ops);

		if ((cuda_seen.own->supports(device, op, graph->tensors) & DEVICE_SUPPORTS_HOST) == 0)
			continue;
		cuda_seen.host_count++;
		snprintf(cuda_seen.host_ops + used, sizeof(cuda_seen.host_ops) - used, "%s%s %d", used == 0 ? "" : ", ", device_op_name(op), op->node);
	}
	cuda_seen.programs++;
	return cuda_seen.own->compile(device, graph, status);
}

static inline uint64_t
cuda_seen_enqueue(struct device_queue *queue, struct device_program *program, uint32_t first, uint32_t last,
				  const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	__atomic_add_fetch(&cuda_seen.runs, 1, __ATOMIC_RELAXED);
	return cuda_seen.own->enqueue(queue, program, first, last, batch, bindings, arena, status);
}

/* NULL, and said why. */
static inline struct device *
cuda_fixture_open(void)
{
	struct device *device;

	setenv("INFER_TEST_DEVICE", "cuda", 1);
	device = case_cuda_device(2);
	if (device == NULL)
		return NULL;
	cuda_seen.own = device->ops;
	cuda_seen.ops = *device->ops;
	cuda_seen.ops.compile = cuda_seen_compile;
	cuda_seen.ops.enqueue = cuda_seen_enqueue;
	device->ops = &cuda_seen.ops;
	return device;
}

static inline void
cuda_fixture_close(struct device *device)
{
	device->ops = cuda_seen.own;
	device_close(device);
}

/* Bytes of the GPU that are taken. */
static inline uint64_t
cuda_fixture_used(struct device *device)
{
	struct device_info info;

	device->ops->info(device, &info);
	return info.bytes_used;
}

#endif							/* TEST_CUDA_FIXTURE_H */
