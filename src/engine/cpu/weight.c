/*
 * weight.c
 *	  Weights: packed once, counted against the device's budget.
 *
 * A packed weight is panels of `panel` columns; in a panel the columns' values of k = 0,
 * then of k = 1, …; the last panel is filled with zeros.  In fewer bits it is groups of k instead, see
 * kernels/narrow/narrow.h; behind the panels of INT8 lie each column's scale and offset.
 */
#include "cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../protocol/protocol.h"
#include "../half.h"

#define LARGE_PAGE		((size_t) 2 << 20)
#define PANEL_MAX		32

static const struct cpu_float_kernels *
float_kernels(const struct cpu_kernels *kernels, uint8_t type)
{
	return type == DEVICE_F64 ? &kernels->f64 : &kernels->f32;
}

/* ---- sizes ---- */

static int64_t
panel_columns(const struct cpu_device *device, const struct device_weight_desc *desc)
{
	return desc->precision == DEVICE_PRECISION_FULL ? float_kernels(device->kernels, desc->type)->panel :
		device->narrow[desc->precision]->panel;
}

static int64_t
panels_count(const struct cpu_device *device, const struct device_weight_desc *desc)
{
	int64_t		panel = panel_columns(device, desc);

	return (desc->n + panel - 1) / panel;
}

static uint64_t
panel_bytes(const struct cpu_device *device, const struct device_weight_desc *desc)
{
	uint64_t	panel = (uint64_t) panel_columns(device, desc);
	uint64_t	fill;

	if (desc->precision == DEVICE_PRECISION_FULL)
		return (uint64_t) desc->k * panel * (uint64_t) float_kernels(device->kernels, desc->type)->bytes;
	fill = (uint64_t) device->narrow[desc->precision]->fill;
	return ((uint64_t) desc->k + fill - 1) / fill * fill * panel * (desc->precision == DEVICE_PRECISION_BF16 ? 2 : 1);
}

static uint64_t
packed_bytes(const struct cpu_device *device, const struct device_weight_desc *desc)
{
	uint64_t	panels = (uint64_t) panels_count(device, desc);
	uint64_t	bytes = cpu_aligned(panels * panel_bytes(device, desc));

	if (desc->precision == DEVICE_PRECISION_INT8)
		bytes += 2 * cpu_aligned(panels * (uint64_t) panel_columns(device, desc) * sizeof(float));
	return bytes;
}

/* ---- packing ---- */

#define FILL(T) \
	do { \
		const T    *from = desc->data; \
		T		   *to = weight->owned; \
		for (int64_t p = 0; p < weight->panels; p++) \
			for (int64_t k = 0; k < desc->k; k++) \
				for (int64_t j = 0; j < weight->panel; j++, to++) \
				{ \
					int64_t		n = p * weight->panel + j; \
					*to = n < desc->n ? from[k * desc->stride_k + n * desc->stride_n] : 0; \
				} \
	} while (0)

#define FETCH(T, expression) \
	do { \
		const T    *from = (const T *) desc->data + k * desc->stride_k + n0 * desc->stride_n; \
		for (int64_t j = 0; j < columns; j++) \
		{ \
			T			v = from[j * desc->stride_n]; \
			row[j] = expression; \
		} \
	} while (0)

/* The numbers of W[k] in the columns [n0, n0 + panel); zeros where there are none. */
static void
fetch(const struct device_weight_desc *desc, int64_t k, int64_t n0, int64_t panel, float *row)
{
	int64_t		columns = k >= desc->k ? 0 : desc->n - n0 < panel ? desc->n - n0 : panel;

	memset(row, 0, (size_t) panel * sizeof(*row));
	if (columns == 0)
		return;
	if (desc->type == DEVICE_F32)
		FETCH(float, v);
	else if (desc->type == DEVICE_F16)
		FETCH(uint16_t, half_f32_of_f16(v));
	else
		FETCH(uint16_t, half_f32_of_bf16(v));
}

static void
fill_f32(struct device_weight *weight, const struct device_weight_desc *desc)
{
	float	   *to = weight->owned;

	for (int64_t p = 0; p < weight->panels; p++)
		for (int64_t k = 0; k < desc->k; k++, to += weight->panel)
			fetch(desc, k, p * weight->panel, weight->panel, to);
}

static void
fill_bf16(struct device_weight *weight, const struct device_weight_desc *desc)
{
	uint16_t   *to = weight->owned;
	int64_t		filled = (int64_t) weight->panel_bytes / weight->panel / 2;
	float		row[PANEL_MAX];

	for (int64_t p = 0; p < weight->panels; p++)
		for (int64_t k = 0; k < filled; k++)
		{
			uint16_t   *pairs = to + (p * filled + k / 2 * 2) * weight->panel + k % 2;

			fetch(desc, k, p * weight->panel, weight->panel, row);
			for (int64_t j = 0; j < weight->panel; j++)
				pairs[j * 2] = half_bf16_of_f32(row[j]);
		}
}

/* false: a number of the panel is not finite. */
static bool
fill_int8_panel(struct device_weight *weight, const struct device_weight_desc *desc, int64_t p, int8_t *to)
{
	int64_t		filled = (int64_t) weight->panel_bytes / weight->panel;
	float	   *scales = (float *) weight->scales + p * weight->panel;
	int32_t    *offsets = (int32_t *) weight->offsets + p * weight->panel;
	float		row[PANEL_MAX];
	float		most[PANEL_MAX] = {0};
	float		factors[PANEL_MAX];

	for (int64_t k = 0; k < desc->k; k++)
	{
		fetch(desc, k, p * weight->panel, weight->panel, row);
		for (int64_t j = 0; j < weight->panel; j++)
			if (!(fabsf(row[j]) <= most[j]))
				most[j] = fabsf(row[j]) <= FLT_MAX ? fabsf(row[j]) : INFINITY;
	}
	for (int64_t j = 0; j < weight->panel; j++)
	{
		if (most[j] > FLT_MAX)
			return false;
		cpu_q8_scale(most[j], &factors[j], &scales[j]);
		offsets[j] = 0;
	}
	for (int64_t k = 0; k < filled; k++)
	{
		int8_t	   *groups = to + k / NARROW_GROUP * NARROW_GROUP * weight->panel + k % NARROW_GROUP;

		fetch(desc, k, p * weight->panel, weight->panel, row);
		for (int64_t j = 0; j < weight->panel; j++)
		{
			int8_t		q = (int8_t) rintf(row[j] * factors[j]);

			groups[j * NARROW_GROUP] = q;
			offsets[j] -= DEVICE_Q8_ZERO * q;
		}
	}
	return true;
}

/* weight->owned has packed_bytes(). */
static bool
fill(struct device_weight *weight, const struct device_weight_desc *desc)
{
	if (desc->precision == DEVICE_PRECISION_BF16)
		fill_bf16(weight, desc);
	else if (desc->precision == DEVICE_PRECISION_INT8)
	{
		for (int64_t p = 0; p < weight->panels; p++)
			if (!fill_int8_panel(weight, desc, p, (int8_t *) weight->owned + (uint64_t) p * weight->panel_bytes))
				return false;
	}
	else if (desc->type == DEVICE_F64)
		FILL(double);
	else if (desc->type == DEVICE_F32)
		FILL(float);
	else
		fill_f32(weight, desc);
	return true;
}

/* ---- weights ---- */

uint64_t
cpu_weight_size(struct device *base, const struct device_weight_desc *desc)
{
	return cpu_aligned(sizeof(struct device_weight)) + packed_bytes((struct cpu_device *) base, desc);
}

static bool
budget_take(struct cpu_device *device, uint64_t bytes, const char *what, struct status *status)
{
	uint64_t	used = __atomic_add_fetch(&device->used, bytes, __ATOMIC_RELAXED);

	if (device->budget == 0 || used <= device->budget)
		return true;
	__atomic_sub_fetch(&device->used, bytes, __ATOMIC_RELAXED);
	status_set(status, INFER_ERROR_MEMORY, "device memory exhausted: %llu bytes wanted for %s",
			   (unsigned long long) bytes, what);
	status_detail(status, "The device may use %llu bytes and uses %llu.",
				  (unsigned long long) device->budget, (unsigned long long) (used - bytes));
	status_hint(status, "Raise infer.memory or unload a model with infer.unload_model().");
	return false;
}

/* The places in its data, once it has them. */
static void
weight_place(struct device_weight *weight, const void *data)
{
	uint64_t	panels = cpu_aligned((uint64_t) weight->panels * weight->panel_bytes);
	uint64_t	columns = cpu_aligned((uint64_t) (weight->panels * weight->panel) * sizeof(float));

	weight->data = data;
	if (weight->precision != DEVICE_PRECISION_INT8)
		return;
	weight->scales = (const float *) ((const uint8_t *) data + panels);
	weight->offsets = (const int32_t *) ((const uint8_t *) data + panels + columns);
}

/* A weight without data, its bytes taken from the budget. */
static struct device_weight *
weight_new(struct cpu_device *device, const struct device_weight_desc *desc, struct status *status)
{
	const char *refusal = device_weight_refusal(desc);
	struct device_weight *weight;
	uint64_t	bytes;

	if (refusal != NULL)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "a weight of %s cannot be packed in %s: %s",
				   device_type_name(desc->type), device_precision_name(desc->precision), refusal);
		return NULL;
	}
	bytes = cpu_weight_size(&device->base, desc);
	if (!budget_take(device, bytes, "a weight", status))
		return NULL;
	weight = calloc(1, sizeof(*weight));
	if (weight == NULL)
	{
		__atomic_sub_fetch(&device->used, bytes, __ATOMIC_RELAXED);
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a weight");
		return NULL;
	}
	weight->bytes = bytes;
	weight->type = desc->precision == DEVICE_PRECISION_BF16 ? DEVICE_BF16 :
		desc->precision == DEVICE_PRECISION_INT8 ? DEVICE_Q8 : desc->type == DEVICE_F64 ? DEVICE_F64 : DEVICE_F32;
	weight->precision = desc->precision;
	weight->k = desc->k;
	weight->n = desc->n;
	weight->panel = panel_columns(device, desc);
	weight->panels = panels_count(device, desc);
	weight->panel_bytes = panel_bytes(device, desc);
	return weight;
}

/* Large weights lie in large pages, so that a product does not wait for address translation. */
struct device_weight *
cpu_weight_pack(struct device *base, const struct device_weight_desc *desc, struct status *status)
{
	struct cpu_device *device = (struct cpu_device *) base;
	struct device_weight *weight = weight_new(device, desc, status);
	uint64_t	bytes;

	if (weight == NULL)
		return NULL;
	bytes = packed_bytes(device, desc);
	if (bytes > 0 && posix_memalign(&weight->owned, bytes >= LARGE_PAGE ? LARGE_PAGE : DEVICE_ALIGN, bytes) != 0)
	{
		weight->owned = NULL;
		cpu_weight_free(base, weight);
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %llu bytes wanted for a weight",
				   (unsigned long long) bytes);
		return NULL;
	}
	if (bytes >= LARGE_PAGE)
		madvise(weight->owned, bytes, MADV_HUGEPAGE);
	if (bytes > 0)
		memset((uint8_t *) weight->owned + bytes - DEVICE_ALIGN, 0, DEVICE_ALIGN);	/* what is packed may end before */
	weight_place(weight, weight->owned);
	if (!fill(weight, desc))
	{
		cpu_weight_free(base, weight);
		status_set(status, INFER_ERROR_UNSUPPORTED,
				   "a weight of %s cannot be packed in int8: a number of it is not finite", device_type_name(desc->type));
		return NULL;
	}
	return weight;
}

const void *
cpu_weight_data(struct device *base, const struct device_weight *weight, uint64_t *bytes)
{
	*bytes = weight->bytes - cpu_aligned(sizeof(*weight));
	return weight->data;
}

struct device_weight *
cpu_weight_map(struct device *base, const struct device_weight_desc *desc, const void *data, uint64_t bytes,
			   struct status *status)
{
	struct cpu_device *device = (struct cpu_device *) base;
	struct device_weight *weight = weight_new(device, desc, status);

	if (weight == NULL)
		return NULL;
	if (bytes != packed_bytes(device, desc) || (uintptr_t) data % DEVICE_ALIGN != 0)
	{
		cpu_weight_free(base, weight);
		status_set(status, INFER_ERROR_INPUT, "a packed weight of %llu bytes has not the size of its matrix",
				   (unsigned long long) bytes);
		return NULL;
	}
	weight_place(weight, data);
	return weight;
}

void
cpu_weight_free(struct device *base, struct device_weight *weight)
{
	struct cpu_device *device = (struct cpu_device *) base;

	if (weight == NULL)
		return;
	__atomic_sub_fetch(&device->used, weight->bytes, __ATOMIC_RELAXED);
	free(weight->owned);
	free(weight);
}
