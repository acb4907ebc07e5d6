/*
 * core.h
 *	  What the files of the CUDA device's core share, and kernels need not know: programs, arenas, queues.
 *
 * Files
 *	device.cu	which GPUs there are		memory.cu	budget, memory, copies at load
 *	program.cu	plans and constants			host.cu		segments of the host
 *	layout.cu	where an arena's parts lie	arena.cu	buffers for runs
 *	queue.cu	enqueue, poll, wait			run.cu		what a run puts on its stream
 *	watch.cu	the watcher					estimate.cu	predictions
 */
#ifndef CUDA_CORE_H
#define CUDA_CORE_H

#include "cuda.h"

#include <time.h>

#define CUDA_ALIGN(bytes)	(((uint64_t) (bytes) + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN)

static inline uint64_t
cuda_now_nsec(void)
{
	timespec	now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static inline cuda_device *
cuda_of(device *base)
{
	return (cuda_device *) base;
}

static inline bool
cuda_is_lost(const cuda_device *device)
{
	return __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 0;
}

extern const device_ops cuda_device_ops;

/* From the first loss on the device is of no more use; the first reason stays. */
extern void cuda_lose(cuda_device *device, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* false, and the status is INFER_ERROR_DEVICE_LOST: nothing can be asked of the device any more. */
extern bool cuda_usable(const cuda_device *device, status *status);

/* Host memory that a GPU copies from and to directly, zeroed; NULL and a status. */
extern void *cuda_host_alloc(uint64_t bytes, status *status);
extern void cuda_host_free(void *memory);

#endif /* CUDA_CORE_H */
