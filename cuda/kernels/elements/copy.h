/*
 * copy.h
 *	  A copy of elements in units, for COPY and for ops that begin with one: layout.cu.
 */
#ifndef CUDA_KERNELS_COPY_H
#define CUDA_KERNELS_COPY_H

#include "map.h"

struct copy_own
{
	gpu_loops<1> loops;				/* of units */
	int64_t		first;				/* of x */
	uint64_t	units;				/* of an item of y, */
	uint64_t	units_x;			/* and of x */
	int64_t		unit;				/* bytes */
};

/* From loops, steps and first in elements to units; of bytes an element. */
extern void copy_unite(copy_own *own, int64_t bytes, int64_t elements_y, int64_t elements_x);

/* Of the plan's first operand to its output. */
extern void copy_launch(const cuda_plan *plan, cuda_run *run, const copy_own *own);

#endif /* CUDA_KERNELS_COPY_H */
