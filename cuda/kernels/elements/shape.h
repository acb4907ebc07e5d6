/*
 * shape.h
 *	  What makers ask of tensors' shapes, on the host.
 */
#ifndef CUDA_KERNELS_SHAPE_H
#define CUDA_KERNELS_SHAPE_H

#include "../../cuda.h"

/* Bytes of an element, of types that lie in device memory; 0: of others. */
static inline int64_t
shape_bytes(uint8_t type)
{
	return type == DEVICE_STRING ? 0 : (int64_t) device_type_bytes(type);
}

static inline int64_t
shape_item(const device_tensor *t)
{
	return device_item_elements(t);
}

template <class T>
static inline T *
shape_own(cuda_making *making)
{
	return (T *) cuda_own(making, sizeof(T));
}

/* What a plan costs that reads its inputs once and writes its output, with so many operations an element of the latter. */
static inline void
shape_cost(cuda_making *making, double flops)
{
	cuda_plan  *plan = making->plan;

	for (uint32_t i = 0; i < making->op->inputs_count; i++)
	{
		const device_tensor *t = cuda_input(making, i);

		if (t != nullptr)
			(t->lead == DEVICE_LEAD_NONE ? plan->bytes_run : plan->bytes_item) += (double) (shape_item(t) * shape_bytes(t->type));
	}
	plan->bytes_item += (double) (shape_item(making->y) * shape_bytes(making->y->type));
	plan->flops_item += flops * (double) shape_item(making->y);
}

#endif /* CUDA_KERNELS_SHAPE_H */
