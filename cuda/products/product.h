/*
 * product.h
 *	  Own kernels of matrix products: what plans hand to them.
 *
 * Nouns
 *	product		y[row][n] = Σk x[row][k] · w[k][n] for the rows of all items, end to end
 *	unit		a product of its own among several of one shape: MATMUL's leading dimensions and items
 *	tile		the rows and columns of one block of threads
 *
 * Rule 4: an element's arithmetic (which instruction, which k together, in which order) is the same in every tile of a
 * kernel; which tile is taken may thus depend on the number of rows.
 */
#ifndef CUDA_PRODUCTS_PRODUCT_H
#define CUDA_PRODUCTS_PRODUCT_H

#include "../cuda.h"
#include "finish.h"

#define PRODUCT_UNIT_DIMS	(DEVICE_RANK_MAX - 1)

struct product_units
{
	int			rank;				/* of dims; dims[0] are the items, as many as there are */
	int64_t		dims[PRODUCT_UNIT_DIMS];
	int64_t		steps[2][PRODUCT_UNIT_DIMS];	/* of the operands, elements */
};

struct product_shape				/* a plan's own */
{
	int64_t		m;					/* rows of an item, or of a unit */
	int64_t		k;
	int64_t		n;
	int64_t		units_item;			/* MATMUL: units of an item; 0: rows of all items are one product */
	int			bias_step;
	product_units units;
	const struct library_choice *choice;	/* of library.h: what computes it, or NULL: own kernels */
	bool		separate;			/* whose sums alone are the library's */
};

/* Blocks for `work` tiles; no more than a grid's first dimension holds: kernels loop. */
static inline dim3
product_grid(uint64_t tiles)
{
	return dim3(tiles > 0x7FFFFFFF ? 0x7FFFFFFFu : (unsigned) tiles);
}

static inline uint64_t
product_tiles(int64_t rows, int64_t columns, int tile_rows, int tile_columns)
{
	return (uint64_t) ((rows + tile_rows - 1) / tile_rows) * (uint64_t) ((columns + tile_columns - 1) / tile_columns);
}

/* The rows of a run of GEMM, as many as the arena is laid out for. */
static inline int64_t
product_rows(const cuda_plan *plan, const cuda_run *run)
{
	return (int64_t) run->items[plan->lead] * ((const product_shape *) plan->own)->m;
}

template <class T>
static inline product_end<T>
product_end_of(const cuda_plan *plan, const cuda_run *run)
{
	const product_shape *shape = (const product_shape *) plan->own;

	return {.y = cuda_address(run, &plan->output), .bias = (const T *) cuda_operand(plan, run, 1),
			.bias_step = shape->bias_step, .n = shape->n, .fn = plan->fn, .rounded = plan->output.type == DEVICE_BF16,
			.f0 = (T) plan->f[0], .f1 = (T) plan->f[1]};
}

/* Launchers: x and y as the weight has it. */
extern void product_float(const cuda_plan *plan, cuda_run *run);	/* F32, F64 */
extern void product_bf16(const cuda_plan *plan, cuda_run *run);
extern void product_int8(const cuda_plan *plan, cuda_run *run);
extern void product_matmul(const cuda_plan *plan, cuda_run *run);
extern void product_quantise(const cuda_plan *plan, cuda_run *run);

#endif /* CUDA_PRODUCTS_PRODUCT_H */
