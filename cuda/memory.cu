/*
 * memory.cu
 *	  A GPU's memory within its budget, host memory that it reaches, and copies at load.
 *
 * The budget counts weights, programs' constants and arenas, rounded as they are allocated.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_GRANULE	256			/* bytes: what cudaMalloc aligns to at least */

static uint64_t
granules(uint64_t bytes)
{
	return bytes == 0 ? MEMORY_GRANULE : (bytes + MEMORY_GRANULE - 1) / MEMORY_GRANULE * MEMORY_GRANULE;
}

static bool
budget_take(cuda_gpu *gpu, uint64_t bytes, const char *what, status *status)
{
	uint64_t	used = __atomic_add_fetch(&gpu->used, bytes, __ATOMIC_RELAXED);

	if (used >= bytes && used <= gpu->budget)
		return true;
	__atomic_sub_fetch(&gpu->used, bytes, __ATOMIC_RELAXED);
	status_set(status, INFER_ERROR_MEMORY, "GPU memory exhausted: %llu bytes wanted for %s", (unsigned long long) bytes, what);
	status_detail(status, "GPU %d may use %llu bytes and uses %llu.", gpu->ordinal, (unsigned long long) gpu->budget,
				  (unsigned long long) (used - bytes));
	status_hint(status, "Raise infer.gpu_memory or unload a model with infer.unload_model().");
	return false;
}

void *
cuda_memory_alloc(cuda_gpu *gpu, uint64_t bytes, const char *what, status *status)
{
	void	   *memory = nullptr;
	cudaError_t error;

	if (bytes > UINT64_MAX - MEMORY_GRANULE)
	{
		status_set(status, INFER_ERROR_MEMORY, "GPU memory exhausted: %llu bytes wanted for %s", (unsigned long long) bytes, what);
		return nullptr;
	}
	bytes = granules(bytes);
	if (!cuda_usable(gpu->device, status) || !budget_take(gpu, bytes, what, status))
		return nullptr;
	error = cudaSetDevice(gpu->ordinal);
	if (error == cudaSuccess)
		error = cudaMalloc(&memory, bytes);
	if (error == cudaSuccess)
		return memory;
	cudaGetLastError();				/* an allocation's failure is no failure of what follows */
	__atomic_sub_fetch(&gpu->used, bytes, __ATOMIC_RELAXED);
	if (error != cudaErrorMemoryAllocation)
	{
		cuda_lose(gpu->device, "GPU %d does not give memory: %s", gpu->ordinal, cudaGetErrorString(error));
		cuda_usable(gpu->device, status);
		return nullptr;
	}
	status_set(status, INFER_ERROR_MEMORY, "GPU memory exhausted: %llu bytes wanted for %s", (unsigned long long) bytes, what);
	status_detail(status, "GPU %d has not so much left, though its budget is %llu bytes: something else uses its memory.",
				  gpu->ordinal, (unsigned long long) gpu->budget);
	status_hint(status, "Lower infer.gpu_memory, or end the other programs that use the GPU.");
	return nullptr;
}

void
cuda_memory_free(cuda_gpu *gpu, void *memory, uint64_t bytes)
{
	if (memory == nullptr)
		return;
	if (!cuda_hangs(gpu->device))	/* cudaFree waits for the GPU */
	{
		cudaSetDevice(gpu->ordinal);
		cudaFree(memory);
		cudaGetLastError();
	}
	__atomic_sub_fetch(&gpu->used, granules(bytes), __ATOMIC_RELAXED);
}

/* The copy has ended when this returns, so that any stream may read what it has written. */
bool
cuda_upload(cuda_gpu *gpu, void *to, const void *from, uint64_t bytes, status *status)
{
	cudaError_t error;

	if (bytes == 0)
		return true;
	if (!cuda_usable(gpu->device, status))
		return false;
	pthread_mutex_lock(&gpu->loading_lock);
	error = cudaSetDevice(gpu->ordinal);
	if (error == cudaSuccess)
		error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu->loading);
	if (error == cudaSuccess)
		error = cudaStreamSynchronize(gpu->loading);
	pthread_mutex_unlock(&gpu->loading_lock);
	if (error == cudaSuccess)
		return true;
	cudaGetLastError();
	cuda_lose(gpu->device, "a copy to GPU %d failed: %s", gpu->ordinal, cudaGetErrorString(error));
	return cuda_usable(gpu->device, status);
}

void *
cuda_host_alloc(cuda_gpu *gpu, uint64_t bytes, status *status)
{
	void	   *memory = nullptr;
	uint64_t	space = CUDA_ALIGN(bytes == 0 ? 1 : bytes);

	if (space < bytes || cudaSetDevice(gpu->ordinal) != cudaSuccess ||
		cudaHostAlloc(&memory, space, cudaHostAllocPortable) != cudaSuccess)
	{
		cudaGetLastError();
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %llu bytes of page-locked memory wanted",
				   (unsigned long long) bytes);
		return nullptr;
	}
	memset(memory, 0, space);
	return memory;
}

void
cuda_host_free(cuda_gpu *gpu, void *memory)
{
	if (memory == nullptr || cuda_hangs(gpu->device))	/* it waits for the GPU */
		return;
	cudaSetDevice(gpu->ordinal);
	cudaFreeHost(memory);
	cudaGetLastError();
}
