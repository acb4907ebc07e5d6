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
#define UPLOAD_BYTES	(UINT64_C(32) << 20)	/* at once */
#define UPLOAD_SECOND	2e9			/* bytes, of pageable memory: an old bus */

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
	status_hint(status, gpu->budget_of_free ? DEVICE_GPU_FULL :
				"Raise infer.gpu_memory, or unload a model with infer.unload_model().");
	return false;
}

void *
cuda_memory_borrow(cuda_gpu *gpu, uint64_t bytes, const char *what, status *status)
{
	void	   *memory = nullptr;
	cudaError_t error;

	if (!cuda_usable(gpu->device, status))
		return nullptr;
	error = cudaSetDevice(gpu->ordinal);
	if (error == cudaSuccess)
		error = cudaMalloc(&memory, bytes);
	if (error == cudaSuccess)
		return memory;
	cudaGetLastError();				/* an allocation's failure is no failure of what follows */
	if (error != cudaErrorMemoryAllocation)
	{
		cuda_lose(gpu->device, "GPU %d does not give memory: %s", gpu->ordinal, cudaGetErrorString(error));
		cuda_usable(gpu->device, status);
		return nullptr;
	}
	status_set(status, INFER_ERROR_MEMORY, "GPU memory exhausted: %llu bytes wanted for %s", (unsigned long long) bytes, what);
	status_detail(status, "GPU %d has not so much left, though its budget is %llu bytes: something else uses its memory.",
				  gpu->ordinal, (unsigned long long) gpu->budget);
	status_hint(status, gpu->budget_of_free ? DEVICE_GPU_FULL :
				"Lower infer.gpu_memory, or end the other programs that use the GPU.");
	return nullptr;
}

void
cuda_memory_return(cuda_gpu *gpu, void *memory)
{
	if (memory == nullptr || cuda_hangs(gpu->device))	/* cudaFree waits for the GPU */
		return;
	cudaSetDevice(gpu->ordinal);
	cudaFree(memory);
	cudaGetLastError();
}

void *
cuda_memory_alloc(cuda_gpu *gpu, uint64_t bytes, const char *what, status *status)
{
	void	   *memory;

	if (bytes > UINT64_MAX - MEMORY_GRANULE)
	{
		status_set(status, INFER_ERROR_MEMORY, "GPU memory exhausted: %llu bytes wanted for %s", (unsigned long long) bytes, what);
		return nullptr;
	}
	bytes = granules(bytes);
	if (!cuda_usable(gpu->device, status) || !budget_take(gpu, bytes, what, status))
		return nullptr;
	memory = cuda_memory_borrow(gpu, bytes, what, status);
	if (memory == nullptr)
		__atomic_sub_fetch(&gpu->used, bytes, __ATOMIC_RELAXED);
	return memory;
}

void
cuda_memory_free(cuda_gpu *gpu, void *memory, uint64_t bytes)
{
	if (memory == nullptr)
		return;
	cuda_memory_return(gpu, memory);
	__atomic_sub_fetch(&gpu->used, granules(bytes), __ATOMIC_RELAXED);
}

void
cuda_load_begins(cuda_device *device)
{
	if (device->base.load_busy != nullptr)
		__atomic_add_fetch(device->base.load_busy, 1, __ATOMIC_ACQ_REL);
}

void
cuda_load_beats(cuda_device *device)
{
	if (device->load_beat != nullptr)
		__atomic_add_fetch(device->load_beat, 1, __ATOMIC_RELAXED);
}

void
cuda_load_ends(cuda_device *device)
{
	cuda_load_beats(device);
	if (device->base.load_busy != nullptr)
		__atomic_sub_fetch(device->base.load_busy, 1, __ATOMIC_ACQ_REL);
}

static cudaError_t
upload_part(cuda_gpu *gpu, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu->loading);

	if (error == cudaSuccess)
		error = cuda_watch_stream(gpu, gpu->loading, (uint64_t) ((double) bytes / UPLOAD_SECOND * 1e9));
	cuda_load_beats(gpu->device);
	return error;
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
	cuda_load_begins(gpu->device);
	pthread_mutex_lock(&gpu->loading_lock);
	error = cudaSetDevice(gpu->ordinal);
	for (uint64_t at = 0; at < bytes && error == cudaSuccess; at += UPLOAD_BYTES)
		error = upload_part(gpu, (uint8_t *) to + at, (const uint8_t *) from + at, bytes - at < UPLOAD_BYTES ? bytes - at : UPLOAD_BYTES);
	pthread_mutex_unlock(&gpu->loading_lock);
	cuda_load_ends(gpu->device);
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
