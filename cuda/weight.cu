/*
 * weight.cu
 *	  Weights: packed on the host a slice at a time, and copied to every GPU.
 *
 * Nouns
 *	line		what lies end to end in a packed weight.  FULL: a line is a k, [K][n_padded].  In fewer bits it is a column,
 *				[n_padded][k_padded], as tensor cores take it; behind the columns of INT8 lie each one's scale (float32)
 *				and the sum of its numbers (int32)
 *	slice		as many lines as are packed and copied at once
 *
 * What is filled up is zeros.  No packed form is kept: packing is as fast as reading.
 */
#include "cuda.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/math/half.h"

#define SLICE_BYTES			((uint64_t) 8 << 20)
#define COLUMNS_AT_ONCE		16			/* whose numbers of one k are read together */

static uint64_t
rounded(uint64_t number, uint64_t to)
{
	return (number + to - 1) / to * to;
}

/* ---- the layout ---- */

/* Type, sizes and places of a packed weight, without memory; of a well-formed desc. */
static void
weight_lay_out(device_weight *weight, const device_weight_desc *desc)
{
	uint64_t	lines;

	memset(weight, 0, sizeof(*weight));
	weight->precision = desc->precision;
	weight->k = desc->k;
	weight->n = desc->n;
	if (desc->precision == DEVICE_PRECISION_FULL)
	{
		weight->type = desc->type == DEVICE_F64 ? DEVICE_F64 : DEVICE_F32;
		weight->k_padded = desc->k;
		weight->n_padded = (int64_t) rounded((uint64_t) desc->n, 32);
		lines = (uint64_t) (weight->k_padded * weight->n_padded) * (weight->type == DEVICE_F64 ? 8 : 4);
	}
	else
	{
		weight->type = desc->precision == DEVICE_PRECISION_BF16 ? DEVICE_BF16 : DEVICE_Q8;
		weight->k_padded = (int64_t) rounded((uint64_t) desc->k, desc->precision == DEVICE_PRECISION_BF16 ? 16 : 32);
		weight->n_padded = (int64_t) rounded((uint64_t) desc->n, 8);
		lines = (uint64_t) (weight->k_padded * weight->n_padded) * (desc->precision == DEVICE_PRECISION_BF16 ? 2 : 1);
	}
	weight->bytes = rounded(lines, DEVICE_ALIGN);
	if (desc->precision != DEVICE_PRECISION_INT8)
		return;
	weight->scales_offset = weight->bytes;
	weight->sums_offset = weight->scales_offset + rounded((uint64_t) weight->n_padded * sizeof(float), DEVICE_ALIGN);
	weight->bytes = weight->sums_offset + rounded((uint64_t) weight->n_padded * sizeof(int32_t), DEVICE_ALIGN);
}

/* ---- packing ---- */

/* W[k][n] as float32: of a desc that is not F64. */
static inline float
number_at(const device_weight_desc *desc, int64_t k, int64_t n)
{
	int64_t		at = k * desc->stride_k + n * desc->stride_n;

	switch (desc->type)
	{
		case DEVICE_F32:
			return ((const float *) desc->data)[at];
		case DEVICE_F16:
			return gpu_f32_of_f16(((const uint16_t *) desc->data)[at]);
		default:
			return gpu_f32_of_bf16(((const uint16_t *) desc->data)[at]);
	}
}

/* The lines [first, last) of FULL. */
static void
pack_full(const device_weight *weight, const device_weight_desc *desc, int64_t first, int64_t last, void *to)
{
	for (int64_t k = first; k < last; k++)
		if (weight->type == DEVICE_F64)
		{
			const double *from = (const double *) desc->data + k * desc->stride_k;
			double	   *line = (double *) to + (k - first) * weight->n_padded;

			for (int64_t n = 0; n < weight->n; n++)
				line[n] = from[n * desc->stride_n];
		}
		else
		{
			float	   *line = (float *) to + (k - first) * weight->n_padded;

			for (int64_t n = 0; n < weight->n; n++)
				line[n] = number_at(desc, k, n);
		}
}

static void
pack_bf16(const device_weight *weight, const device_weight_desc *desc, int64_t first, int64_t last, uint16_t *to)
{
	for (int64_t n0 = first; n0 < last && n0 < weight->n; n0 += COLUMNS_AT_ONCE)
	{
		int64_t		n1 = n0 + COLUMNS_AT_ONCE;

		n1 = n1 < last ? n1 : last;
		n1 = n1 < weight->n ? n1 : weight->n;
		for (int64_t k = 0; k < weight->k; k++)
			for (int64_t n = n0; n < n1; n++)
				to[(n - first) * weight->k_padded + k] = gpu_bf16_of_f32(number_at(desc, k, n));
	}
}

/* What a column is multiplied by to be whole numbers, and their scale: QUANTISE's, of finite numbers. */
static float
column_factor(float most, float *scale)
{
	*scale = most < 0x1p-100f ? 0 : most / 127;
	return most < 0x1p-100f ? 0 : 127 / most;
}

/* false: a number is not finite.  scales, sums: of all columns. */
static bool
pack_int8(const device_weight *weight, const device_weight_desc *desc, int64_t first, int64_t last, int8_t *to,
		  float *scales, int32_t *sums)
{
	for (int64_t n0 = first; n0 < last && n0 < weight->n; n0 += COLUMNS_AT_ONCE)
	{
		int64_t		n1 = n0 + COLUMNS_AT_ONCE;
		float		most[COLUMNS_AT_ONCE] = {0};
		float		factors[COLUMNS_AT_ONCE];

		n1 = n1 < last ? n1 : last;
		n1 = n1 < weight->n ? n1 : weight->n;
		for (int64_t k = 0; k < weight->k; k++)
			for (int64_t n = n0; n < n1; n++)
			{
				float		magnitude = fabsf(number_at(desc, k, n));

				if (!(magnitude <= FLT_MAX))
					return false;
				if (magnitude > most[n - n0])
					most[n - n0] = magnitude;
			}
		for (int64_t n = n0; n < n1; n++)
			factors[n - n0] = column_factor(most[n - n0], &scales[n]);
		for (int64_t k = 0; k < weight->k; k++)
			for (int64_t n = n0; n < n1; n++)
			{
				int8_t		q = (int8_t) rintf(number_at(desc, k, n) * factors[n - n0]);

				to[(n - first) * weight->k_padded + k] = q;
				sums[n] += q;
			}
	}
	return true;
}

/* ---- weights ---- */

uint64_t
cuda_weight_size(device *base, const device_weight_desc *desc)
{
	device_weight weight;

	weight_lay_out(&weight, desc);
	return weight.bytes;
}

static bool
upload_everywhere(cuda_device *device, device_weight *weight, uint64_t offset, const void *from, uint64_t bytes,
				  status *status)
{
	for (uint32_t g = 0; g < device->gpus_count; g++)
		if (!cuda_upload(&device->gpus[g], weight->data[g] + offset, from, bytes, status))
			return false;
	return true;
}

/* slice: memory for as many lines as fit, columns: for the scales and sums of INT8. */
static bool
pack_slices(cuda_device *device, device_weight *weight, const device_weight_desc *desc, void *slice, uint64_t slice_bytes,
			void *columns, status *status)
{
	bool		full = weight->precision == DEVICE_PRECISION_FULL;
	int64_t		lines = full ? weight->k_padded : weight->n_padded;
	uint64_t	line = (uint64_t) (full ? weight->n_padded * (weight->type == DEVICE_F64 ? 8 : 4) :
								   weight->k_padded * (weight->type == DEVICE_BF16 ? 2 : 1));
	int64_t		most = line == 0 ? lines : (int64_t) (slice_bytes / line);
	float	   *scales = (float *) columns;
	int32_t    *sums = (int32_t *) columns + weight->n_padded;

	for (int64_t first = 0; first < lines && line > 0; first += most)
	{
		int64_t		last = first + most < lines ? first + most : lines;
		uint64_t	bytes = (uint64_t) (last - first) * line;

		memset(slice, 0, bytes);
		if (full)
			pack_full(weight, desc, first, last, slice);
		else if (weight->type == DEVICE_BF16)
			pack_bf16(weight, desc, first, last, (uint16_t *) slice);
		else if (!pack_int8(weight, desc, first, last, (int8_t *) slice, scales, sums))
		{
			status_set(status, INFER_ERROR_UNSUPPORTED, "a weight of %s cannot be packed in int8: a number of it is not finite",
					   device_type_name(desc->type));
			return false;
		}
		if (!upload_everywhere(device, weight, (uint64_t) first * line, slice, bytes, status))
			return false;
	}
	if (weight->type != DEVICE_Q8 || weight->n_padded == 0)
		return true;
	return upload_everywhere(device, weight, weight->scales_offset, scales, (uint64_t) weight->n_padded * 4, status) &&
		upload_everywhere(device, weight, weight->sums_offset, sums, (uint64_t) weight->n_padded * 4, status);
}

static bool
pack(cuda_device *device, device_weight *weight, const device_weight_desc *desc, status *status)
{
	bool		full = weight->precision == DEVICE_PRECISION_FULL;
	uint64_t	line = (uint64_t) (full ? weight->n_padded : weight->k_padded) * (weight->type == DEVICE_F64 ? 8 : 4);
	uint64_t	slice_bytes = line > SLICE_BYTES ? line : SLICE_BYTES < weight->bytes ? SLICE_BYTES : weight->bytes + line;
	void	   *slice = malloc(slice_bytes + 1);
	void	   *columns = calloc((size_t) weight->n_padded + 1, 8);
	bool		done = false;

	if (slice == nullptr || columns == nullptr)
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %llu bytes wanted to pack a weight",
				   (unsigned long long) slice_bytes);
	else
		done = pack_slices(device, weight, desc, slice, slice_bytes, columns, status);
	free(slice);
	free(columns);
	return done;
}

device_weight *
cuda_weight_pack(device *base, const device_weight_desc *desc, status *status)
{
	cuda_device *device = (cuda_device *) base;
	const char *refusal = device_weight_refusal(desc);
	device_weight *weight;

	if (refusal != nullptr)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "a weight of %s cannot be packed in %s: %s", device_type_name(desc->type),
				   device_precision_name(desc->precision), refusal);
		return nullptr;
	}
	weight = (device_weight *) malloc(sizeof(*weight));
	if (weight == nullptr)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a weight");
		return nullptr;
	}
	weight_lay_out(weight, desc);
	for (uint32_t g = 0; g < device->gpus_count && weight->bytes > 0; g++)
	{
		weight->data[g] = (uint8_t *) cuda_memory_alloc(&device->gpus[g], weight->bytes, "a weight", status);
		if (weight->data[g] == nullptr)
		{
			cuda_weight_free(base, weight);
			return nullptr;
		}
	}
	if (!pack(device, weight, desc, status))
	{
		cuda_weight_free(base, weight);
		return nullptr;
	}
	return weight;
}

void
cuda_weight_free(device *base, device_weight *weight)
{
	cuda_device *device = (cuda_device *) base;

	if (weight == nullptr)
		return;
	for (uint32_t g = 0; g < device->gpus_count; g++)
		if (weight->data[g] != nullptr)
			cuda_memory_free(&device->gpus[g], weight->data[g], weight->bytes);
	free(weight);
}

const void *
cuda_weight_data(device *base, const device_weight *weight, uint64_t *bytes)
{
	*bytes = 0;
	return nullptr;
}

device_weight *
cuda_weight_map(device *base, const device_weight_desc *desc, const void *data, uint64_t bytes, status *status)
{
	status_set(status, INFER_ERROR_UNSUPPORTED, "a CUDA device keeps no packed weights");
	return nullptr;
}
