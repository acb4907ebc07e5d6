/*
 * kernel.h
 *	  What all kernels share: the batch as the GPU sees it, errors of rows, and how threads take the items.
 *
 * elements/	ops that make each element of a tensor by itself, or move it: map.h
 * vectors/		ops along an axis: team.h
 * encoders/	ops of text encoders over packed rows
 * math/		the functions of numbers that they apply
 *
 * A kernel is launched for run->items, which a captured graph rounds up, and computes batch->items, which it reads
 * in device memory: so a graph that was captured once serves all batches of its bucket.  It may read and
 * write its tensors' memory beyond the last item, but what stands there is never data.
 *
 * Rule 4 in a kernel: what one item's element is computed from, and in which order, follows from the op and the item's
 * shape alone.  Blocks and warps may be cut by the number of items as long as no sum is.  Reductions go in fixed blocks
 * from the item's (the row's) own first element.  Nothing is added by atomics.  Contraction is off (-fmad=false): a
 * fused multiply-add is written fmaf().
 */
#ifndef CUDA_KERNELS_KERNEL_H
#define CUDA_KERNELS_KERNEL_H

#include <stdint.h>

#include <gpu_platform.h>

extern "C"
{
#include "../../src/engine/device.h"
}

/* Queries of a block of attention; tile_off counts in it. */
#define GPU_ATTENTION_TILE	64

enum gpu_row_error					/* what batch->row_error holds: row_messages of queue.cu */
{
	GPU_ROW_FINE = 0,
	GPU_ROW_DIVISION,				/* division by zero */
	GPU_ROW_INDEX,					/* index out of range */
	GPU_ROW_INTEGER,				/* number does not fit the integer type that the model casts it to */
	GPU_ROW_PLACES,					/* the row has more tokens than the model has places */
	GPU_ROW_LOOKUP,					/* value is not among those that the model knows */
	GPU_ROW_ERRORS
};

struct gpu_batch					/* device memory, as are the arrays */
{
	uint32_t	items[DEVICE_LEADS];	/* [NONE] is 1 */
	uint32_t	max_len;
	const uint32_t *row_off;		/* items[ROWS] + 1, or NULL */
	const uint32_t *row_first;		/* items[ROWS], or NULL */
	const uint32_t *tile_off;		/* items[ROWS] + 1, with row_off: tiles of GPU_ATTENTION_TILE tokens before the row */
	uint32_t   *row_error;			/* items[ROWS] of enum gpu_row_error; or NULL */
};

/* The row of a token, of which there is one at least: the last whose first token is at most that. */
static __device__ inline uint32_t
gpu_search(const uint32_t *offsets, uint32_t count, uint32_t token)
{
	uint32_t	low = 0, high = count;

	while (high - low > 1)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (offsets[middle] <= token)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Marks the row of an item as failed; an item of lead NONE is everybody's.  The first error of a row stays. */
static __device__ inline void
gpu_fail(const gpu_batch *batch, uint8_t lead, uint64_t item, uint32_t error)
{
	uint32_t	rows = batch->items[DEVICE_LEAD_ROWS];

	if (batch->row_error == nullptr)
		return;
	if (lead == DEVICE_LEAD_NONE)
		for (uint32_t row = 0; row < rows; row++)
			atomicCAS(&batch->row_error[row], (uint32_t) GPU_ROW_FINE, error);
	else if (lead == DEVICE_LEAD_TOKENS && batch->row_off != nullptr)
		atomicCAS(&batch->row_error[gpu_search(batch->row_off, rows, (uint32_t) item)], (uint32_t) GPU_ROW_FINE, error);
	else if (item < rows)
		atomicCAS(&batch->row_error[item], (uint32_t) GPU_ROW_FINE, error);
}

/* The thread's place in the grid, and how many there are (one dimension). */
static __device__ inline uint64_t
gpu_thread()
{
	return (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline uint64_t
gpu_threads()
{
	return (uint64_t) gridDim.x * blockDim.x;
}

/* NaNs that arithmetic makes are stored as the one quiet NaN (device.h). */
static __device__ inline float
gpu_canonical(float x)
{
	return x != x ? __int_as_float(0x7FC00000) : x;
}

static __device__ inline double
gpu_canonical(double x)
{
	return x != x ? __longlong_as_double(0x7FF8000000000000LL) : x;
}

#endif /* CUDA_KERNELS_KERNEL_H */
