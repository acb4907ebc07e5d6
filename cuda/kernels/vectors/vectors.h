/*
 * vectors.h
 *	  Ops that work along an axis, or several that follow each other: their vectors.
 */
#ifndef CUDA_KERNELS_VECTORS_H
#define CUDA_KERNELS_VECTORS_H

#include "../elements/map.h"
#include "team.h"

template <class T>
struct vector_of					/* elements a step apart */
{
	const T    *x;
	int64_t		step;

	__device__ inline T
	at(int64_t i) const
	{
		return x[i * step];
	}
};

struct vectors_shape				/* of axis elements, after apart */
{
	int64_t		axis;
	int64_t		after;
	uint64_t	vectors;			/* of an item */
	gpu_divisor by_after;
	int64_t		k;					/* TOPK: of how many the place is asked */
	int32_t		fn;
	int32_t		sharers;			/* threads of a vector */
	bool		chooses;			/* TOPK: see TOPK_RANKED */
	bool		last;				/* ARG: of equals; CUMSUM: from the last on */
	uint8_t		lead;
};

/* Where vector u begins. */
static __device__ inline uint64_t
vectors_start(const vectors_shape &shape, uint64_t u, bool narrow)
{
	uint64_t	outer = narrow ? gpu_divide((uint32_t) u, shape.by_after) : u / (uint64_t) shape.after;

	return outer * (uint64_t) (shape.axis * shape.after) + (u - outer * (uint64_t) shape.after);
}

/* The axes [first, last) of x are one axis. */
static inline vectors_shape *
vectors_make(cuda_making *making, int first, int last)
{
	const device_tensor *x = cuda_input(making, 0);
	vectors_shape *shape = shape_own<vectors_shape>(making);

	if (shape == nullptr)
		return nullptr;
	shape->axis = cuda_elements(x, first, last);
	shape->after = cuda_elements(x, last, x->rank);
	shape->vectors = (uint64_t) (cuda_elements(x, 0, first) * shape->after);
	shape->by_after = gpu_divisor_make((uint64_t) shape->after);
	shape->fn = making->plan->fn;
	shape->sharers = gpu_team_choose(shape->axis, shape->after == 1);
	shape->lead = making->y->lead;
	return shape;
}

template <class T, class Y>
static inline void
vectors_launch(const cuda_plan *plan, cuda_run *run, void (*kernel)(const gpu_batch *, vectors_shape, const T *, Y *, bool))
{
	const vectors_shape *shape = (const vectors_shape *) plan->own;
	uint64_t	vectors = run->items[plan->lead] * shape->vectors;

	/* of vectors without elements there is nothing to write */
	if (shape->axis == 0)
		return;
	cuda_launch(run, kernel, dim3(cuda_blocks(gpu_team_threads(shape->sharers, vectors), TEAM_BLOCK)), dim3(TEAM_BLOCK),
				run->batch, *shape, (const T *) cuda_operand(plan, run, 0), (Y *) cuda_address(run, &plan->output),
				vectors <= INT32_MAX);
}

#endif /* CUDA_KERNELS_VECTORS_H */
