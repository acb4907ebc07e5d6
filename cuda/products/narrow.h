/*
 * narrow.h
 *	  What kernels of products in bf16 and int8 are given, with tensor cores and without.
 */
#ifndef CUDA_PRODUCTS_NARROW_H
#define CUDA_PRODUCTS_NARROW_H

#include "product.h"

struct narrow_product
{
	const uint8_t *x;				/* rows of bf16, or Q8; x_step bytes apart */
	int64_t		x_step;
	const uint8_t *w;				/* columns, w_step bytes apart, filled with zeros */
	int64_t		w_step;
	const float *scales;			/* INT8: of each column, */
	const int32_t *sums;			/* and the sum of its numbers */
	int64_t		m;					/* rows of an item */
	int64_t		k_bytes;			/* of a row's numbers */
	int64_t		n_padded;
	uint8_t		lead;
	product_end<float> end;

	__device__ inline
	operator product_plain_sum<float>() const
	{
		return {end.bias, end.bias_step};
	}
};

/* Whole numbers, times the scale of the row and of the column, with the bias: the roundings of device.h. */
struct narrow_scaled_sum
{
	const narrow_product &p;
	float		scale;				/* of the row */

	explicit __device__ inline
	narrow_scaled_sum(const narrow_product &p) : p(p), scale(0)
	{
	}

	__device__ inline void
	start(int64_t row)
	{
		const uint8_t *at = p.x + row * p.x_step + p.k_bytes;

		if (p.k_bytes % 4 == 0)
			scale = *(const float *) at;
		else
			scale = gpu_f32_of_bits(at[0] | (uint32_t) at[1] << 8 | (uint32_t) at[2] << 16 | (uint32_t) at[3] << 24);
	}

	__device__ inline float
	value(int64_t column, int32_t sum) const
	{
		int32_t		exact = (int32_t) ((uint32_t) sum - (uint32_t) DEVICE_Q8_ZERO * (uint32_t) p.sums[column]);

		return gpu_canonical(fmaf((float) exact * scale, p.scales[column],
								  p.end.bias == nullptr ? -0.0f : p.end.bias[column * p.end.bias_step]));
	}
};

static inline narrow_product
narrow_product_of(const cuda_plan *plan, const cuda_run *run)
{
	const product_shape *shape = (const product_shape *) plan->own;
	const device_weight *weight = plan->weight;
	const uint8_t *data = weight->data[run->gpu_index];
	int64_t		bytes = plan->type == DEVICE_BF16 ? 2 : 1;
	narrow_product p = {.x = (const uint8_t *) cuda_operand(plan, run, 0),
						.x_step = shape->k * bytes + (plan->type == DEVICE_BF16 ? 0 : DEVICE_Q8_SCALE),
						.w = data, .w_step = weight->k_padded * bytes,
						.scales = (const float *) (data + weight->scales_offset),
						.sums = (const int32_t *) (data + weight->sums_offset),
						.m = shape->m, .k_bytes = shape->k * bytes, .n_padded = weight->n_padded, .lead = plan->lead};

	p.end = product_end_of<float>(plan, run);
	return p;
}

extern void narrow_plain(const cuda_plan *plan, cuda_run *run, const narrow_product &p, int64_t rows);

#endif /* CUDA_PRODUCTS_NARROW_H */
