/*
 * weight.c
 *	  Weights: packed once, counted against the device's budget.
 *
 * A packed weight is panels of `panel` columns; in a panel the columns' values of k = 0,
 * then of k = 1, …; the last panel is filled with zeros.
 */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../../protocol/protocol.h"

#define LARGE_PAGE		((size_t) 2 << 20)

static const struct cpu_float_kernels *
float_kernels(const struct cpu_kernels *kernels, uint8_t type)
{
	return type == DEVICE_F32 ? &kernels->f32 : &kernels->f64;
}

static uint64_t
packed_bytes(const struct cpu_kernels *kernels, const struct device_weight_desc *desc)
{
	const struct cpu_float_kernels *k = float_kernels(kernels, desc->type);
	uint64_t	panels = ((uint64_t) desc->n + (uint64_t) k->panel - 1) / (uint64_t) k->panel;
	uint64_t	bytes = panels * (uint64_t) desc->k * (uint64_t) k->panel * (uint64_t) k->bytes;

	return cpu_aligned(bytes);
}

#define FILL(T) \
	do { \
		const T    *from = desc->data; \
		T		   *to = weight->owned; \
		for (int64_t p = 0; p < weight->panels; p++) \
			for (int64_t k = 0; k < desc->k; k++) \
				for (int64_t j = 0; j < panel; j++, to++) \
				{ \
					int64_t		n = p * panel + j; \
					*to = n < desc->n ? from[k * desc->stride_k + n * desc->stride_n] : 0; \
				} \
	} while (0)

/* weight->owned has packed_bytes(). */
static void
fill(struct device_weight *weight, const struct device_weight_desc *desc, int64_t panel)
{
	if (desc->type == DEVICE_F32)
		FILL(float);
	else
		FILL(double);
}

uint64_t
cpu_weight_size(struct device *base, const struct device_weight_desc *desc)
{
	return cpu_aligned(sizeof(struct device_weight)) +
		packed_bytes(((struct cpu_device *) base)->kernels, desc);
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

/* A weight without data, its bytes taken from the budget. */
static struct device_weight *
weight_new(struct cpu_device *device, const struct device_weight_desc *desc, struct status *status)
{
	struct device_weight *weight;
	uint64_t	bytes;

	if ((desc->type != DEVICE_F32 && desc->type != DEVICE_F64) || desc->k < 0 || desc->n < 0)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "weight of type %d cannot be packed", desc->type);
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
	weight->type = desc->type;
	weight->k = desc->k;
	weight->n = desc->n;
	weight->panels = (desc->n + float_kernels(device->kernels, desc->type)->panel - 1) /
		float_kernels(device->kernels, desc->type)->panel;
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
	bytes = packed_bytes(device->kernels, desc);
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
		memset((uint8_t *) weight->owned + bytes - DEVICE_ALIGN, 0, DEVICE_ALIGN);	/* panels may end before */
	fill(weight, desc, float_kernels(device->kernels, desc->type)->panel);
	weight->data = weight->owned;
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
	if (bytes != packed_bytes(device->kernels, desc) || (uintptr_t) data % DEVICE_ALIGN != 0)
	{
		cpu_weight_free(base, weight);
		status_set(status, INFER_ERROR_INPUT, "a packed weight of %llu bytes has not the size of its matrix",
				   (unsigned long long) bytes);
		return NULL;
	}
	weight->data = data;
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
