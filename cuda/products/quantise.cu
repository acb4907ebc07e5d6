/*
 * quantise.cu
 *	  QUANTISE: a warp a vector; its lane l has the numbers l, l + 32, …  The bits are the CPU's: the greatest magnitude
 *	  is exact, and the rest is a number's own.
 */
#include "product.h"

#include <float.h>

#define WARPS	8

struct quantise_vectors
{
	const float *x;
	uint8_t    *y;
	int64_t		m;					/* of an item */
	int64_t		k;
	uint8_t		lead;
};

/* The greatest magnitude; infinity if a number is not finite. */
static __device__ inline float
greatest(const float *x, int64_t k, int lane)
{
	float		most = 0;

	for (int64_t i = lane; i < k; i += 32)
		if (!(fabsf(x[i]) <= most))
			most = fabsf(x[i]) <= FLT_MAX ? fabsf(x[i]) : __int_as_float(0x7F800000);
	for (int by = 16; by > 0; by /= 2)
	{
		float		other = __shfl_xor_sync(0xFFFFFFFF, most, by);

		most = other > most ? other : most;
	}
	return most;
}

static __global__ void
quantise_kernel(quantise_vectors p, const gpu_batch *batch)
{
	int64_t		vectors = batch->items[p.lead] * p.m;
	int			lane = (int) threadIdx.x % 32;

	for (int64_t v = (int64_t) blockIdx.x * WARPS + threadIdx.x / 32; v < vectors; v += (int64_t) gridDim.x * WARPS)
	{
		const float *x = p.x + v * p.k;
		uint8_t    *y = p.y + v * (p.k + DEVICE_Q8_SCALE);
		float		most = greatest(x, p.k, lane);
		bool		finite = most <= FLT_MAX;
		float		factor = finite && most >= 0x1p-100f ? 127 / most : 0;
		uint32_t	scale = !finite ? 0x7FC00000u : most < 0x1p-100f ? 0 : gpu_bits_of_f32(most / 127);

		for (int64_t i = lane; i < p.k; i += 32)
			y[i] = factor == 0 ? (uint8_t) DEVICE_Q8_ZERO : (uint8_t) (DEVICE_Q8_ZERO + (int) rintf(x[i] * factor));
		if (lane < DEVICE_Q8_SCALE)
			y[p.k + lane] = (uint8_t) (scale >> lane * 8);
	}
}

void
product_quantise(const cuda_plan *plan, cuda_run *run)
{
	const product_shape *shape = (const product_shape *) plan->own;
	quantise_vectors p = {.x = (const float *) cuda_operand(plan, run, 0), .y = (uint8_t *) cuda_address(run, &plan->output),
						  .m = shape->m, .k = shape->k, .lead = plan->lead};
	int64_t		vectors = product_rows(plan, run);

	if (vectors > 0)
		cuda_launch(run, quantise_kernel, dim3(cuda_blocks((uint64_t) vectors, WARPS)), dim3(WARPS * 32), p, run->batch);
}

CUDA_MODULE
