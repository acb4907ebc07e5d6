/*
 * arena.cu
 *	  Buffers for runs: arenas in a GPU's memory, each with host memory for programs that have host segments, and STAGING.
 *
 * An arena is of the GPU of the queue that it was asked for.
 */
#include "core.h"

#include <stdlib.h>

static cuda_arena *
arena_new(cuda_gpu *gpu, uint64_t bytes, status *status)
{
	cuda_arena *arena = (cuda_arena *) calloc(1, sizeof(*arena));

	if (arena == nullptr)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*arena));
		return nullptr;
	}
	arena->memory = (uint8_t *) cuda_memory_alloc(gpu, bytes, "a batch", status);
	if (arena->memory == nullptr)
	{
		free(arena);
		return nullptr;
	}
	arena->bytes = bytes;
	pthread_mutex_lock(&gpu->lock);
	arena->next = gpu->arenas;
	gpu->arenas = arena;
	pthread_mutex_unlock(&gpu->lock);
	return arena;
}

/* Takes it out of the list; NULL: it is not of this GPU. */
static cuda_arena *
arena_remove(cuda_gpu *gpu, const void *memory)
{
	cuda_arena *arena = nullptr;

	pthread_mutex_lock(&gpu->lock);
	for (cuda_arena **at = &gpu->arenas; arena == nullptr && *at != nullptr;)
		if ((*at)->memory == memory)
		{
			arena = *at;
			*at = arena->next;
		}
		else
			at = &(*at)->next;
	pthread_mutex_unlock(&gpu->lock);
	return arena;
}

cuda_arena *
cuda_arena_find(cuda_gpu *gpu, const void *address, uint64_t bytes)
{
	const uint8_t *at = (const uint8_t *) address;
	cuda_arena *arena;

	pthread_mutex_lock(&gpu->lock);
	arena = gpu->arenas;
	while (arena != nullptr && !(at >= arena->memory && (uint64_t) (at - arena->memory) < arena->bytes))
		arena = arena->next;
	pthread_mutex_unlock(&gpu->lock);
	return arena == nullptr || bytes > arena->bytes - (uint64_t) (at - arena->memory) ? nullptr : arena;
}

void *
cuda_buffer_alloc(device *base, device_queue *queue, int kind, uint64_t bytes, status *status)
{
	cuda_gpu   *gpu = queue == nullptr ? &cuda_of(base)->gpus[0] : queue->gpu;
	cuda_arena *arena;

	if (kind == DEVICE_BUFFER_STAGING)
		return cuda_host_alloc(gpu, bytes, status);
	arena = arena_new(gpu, bytes, status);
	return arena == nullptr ? nullptr : arena->memory;
}

void
cuda_buffer_free(device *base, int kind, void *buffer)
{
	cuda_device *device = cuda_of(base);

	if (buffer == nullptr)
		return;
	if (kind == DEVICE_BUFFER_STAGING)
	{
		cuda_host_free(&device->gpus[0], buffer);
		return;
	}
	for (uint32_t g = 0; g < device->gpus_count; g++)
	{
		cuda_arena *arena = arena_remove(&device->gpus[g], buffer);

		if (arena == nullptr)
			continue;
		cuda_memory_free(&device->gpus[g], arena->memory, arena->bytes);
		cuda_host_free(&device->gpus[g], arena->host);
		free(arena);
		return;
	}
}
