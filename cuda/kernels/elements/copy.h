/*
 * copy.h
 *	  A copy of elements in units, for COPY and for ops that begin with one: layout.cu, transpose.cu.
 */
#ifndef CUDA_KERNELS_COPY_H
#define CUDA_KERNELS_COPY_H

#include "map.h"

/*
 * A copy whose neighbours in y lie far apart in x, where others lie side by side: `down` lines of x, `across` elements long, become
 * the columns of a matrix of y.
 */
struct copy_turn
{
	gpu_loops<2> loops;				/* over matrices: of x, of y */
	uint64_t	matrices;			/* of an item; 0: the copy is another */
	int64_t		across;
	int64_t		down;
	int64_t		x_across;			/* steps: 1 or −1 */
	int64_t		x_down;
	int64_t		y_across;			/* that of down is 1 */
	gpu_divisor tiles_across;
	gpu_divisor tiles_down;
};

struct copy_own
{
	gpu_loops<1> loops;				/* of units */
	int64_t		first;				/* of x */
	uint64_t	units;				/* of an item of y, */
	uint64_t	units_x;			/* and of x */
	int64_t		unit;				/* bytes */
	copy_turn	turn;				/* of elements, which units then are */
};

/* From loops, steps and first in elements to units; of bytes an element. */
extern void copy_unite(copy_own *own, int64_t bytes, int64_t elements_y, int64_t elements_x);

/* Finds out whether it is a copy to turn; before units are made. */
extern void copy_turn_make(copy_own *own);

/* What copy_launch does with one. */
extern void copy_turn_launch(const cuda_plan *plan, cuda_run *run, const copy_own *own);

/* Whether a run's indices of units are below 2^31. */
static inline bool
copy_narrow(const cuda_plan *plan, const cuda_run *run, const copy_own *own)
{
	return run->items[plan->lead] * own->units <= INT32_MAX && run->items[plan->lead] * own->units_x <= INT32_MAX;
}

/* Of the plan's first operand to its output. */
extern void copy_launch(const cuda_plan *plan, cuda_run *run, const copy_own *own);

#endif /* CUDA_KERNELS_COPY_H */
