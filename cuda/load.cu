/*
 * load.cu
 *	  Kernels come onto a GPU while a program is compiled, not while a call waits.
 *
 * CUDA puts a kernel's code there when it is first launched, which takes a part of a millisecond, and may wait for what is
 * running, such as bulk work (CUDA Programming Guide, "Lazy Loading").  So compile has each plan go through its launches for
 * batches of all sizes that a GPU's memory holds; but in place of being launched kernels are loaded (cuda_launch).
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX	(UINT32_C(1) << 22)	/* of a batch: from there on nothing is chosen otherwise */

/* What stands for memory: an address that is aligned, and that nobody looks at. */
#define NOWHERE		((uint8_t *) (uintptr_t) 4096)

static const uint32_t row_tokens[] = {1, 32, 512};	/* in a row */

/* Where a kernel is among the GPU's, or may be put; the lock is held. */
static const void **
kernel_place(cuda_gpu *gpu, const void *kernel)
{
	uint32_t	at = (uint32_t) ((uintptr_t) kernel >> 4) % CUDA_KERNELS_MAX;

	for (uint32_t i = 0; i < CUDA_KERNELS_MAX && gpu->kernels[at] != nullptr && gpu->kernels[at] != kernel; i++)
		at = (at + 1) % CUDA_KERNELS_MAX;
	return &gpu->kernels[at];
}

bool
cuda_kernel_known(cuda_gpu *gpu, const void *kernel)
{
	bool		known;

	pthread_mutex_lock(&gpu->lock);
	known = *kernel_place(gpu, kernel) == kernel;
	pthread_mutex_unlock(&gpu->lock);
	return known;
}

void
cuda_kernel_remember(cuda_gpu *gpu, const void *kernel)
{
	pthread_mutex_lock(&gpu->lock);
	*kernel_place(gpu, kernel) = kernel;
	pthread_mutex_unlock(&gpu->lock);
}

static void
load_for(const device_program *program, cuda_run *run, uint32_t rows, uint32_t tokens)
{
	const uint32_t items[DEVICE_LEADS] = {1, rows, tokens, rows};

	memcpy(run->items, items, sizeof(items));
	run->tiles = (uint64_t) tokens / GPU_ATTENTION_TILE + rows;
	for (uint32_t p = 0; p < program->plans_count; p++)
		if (program->plans[p].launch != nullptr)
			program->plans[p].launch(&program->plans[p], run);
}

/* On one GPU. */
static cudaError_t
load(const device_program *program, cuda_gpu *gpu, uint8_t *const *bindings)
{
	cuda_run	run = {};

	run.loading = true;
	run.gpu = gpu;
	run.gpu_index = (int) (gpu - program->device->gpus);
	run.batch = (const gpu_batch *) NOWHERE;
	run.arena = run.scratch = NOWHERE;
	run.bindings = bindings;
	run.constants = program->constants[run.gpu_index] != nullptr ? program->constants[run.gpu_index] : NOWHERE;
	run.error = cudaSetDevice(gpu->ordinal);
	for (uint32_t each : row_tokens)
		for (uint32_t tokens = each; tokens <= ITEMS_MAX && run.error == cudaSuccess; tokens *= 2)
		{
			const uint32_t items[DEVICE_LEADS] = {1, tokens / each, tokens, tokens / each};

			if (cuda_arena_bytes(program, items) > gpu->budget)
				break;
			load_for(program, &run, tokens / each, tokens);
		}
	return run.error;
}

static bool
load_fails(cuda_gpu *gpu, cudaError_t error, status *status)
{
	if (cuda_gpu_fails(gpu, gpu->loading, error))
		return cuda_usable(gpu->device, status);
	return status_set(status, error == cudaErrorMemoryAllocation ? INFER_ERROR_MEMORY : INFER_ERROR_DEVICE,
					  "GPU %d does not take a program's kernels: %s", gpu->ordinal, cudaGetErrorString(error));
}

bool
cuda_kernels_load(const device_program *program, status *status)
{
	cuda_device *device = program->device;
	uint8_t   **bindings = (uint8_t **) malloc(((size_t) program->bindings_count + 1) * sizeof(*bindings));
	bool		good = true;

	if (bindings == nullptr)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a program");
	for (uint32_t b = 0; b < program->bindings_count; b++)
		bindings[b] = NOWHERE;
	cuda_load_begins(device);
	for (uint32_t g = 0; good && g < device->gpus_count; g++)
	{
		cudaError_t error = load(program, &device->gpus[g], bindings);

		good = error == cudaSuccess || load_fails(&device->gpus[g], error, status);
		cuda_load_beats(device);
	}
	cuda_load_ends(device);
	free(bindings);
	return good;
}
