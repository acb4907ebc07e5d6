/*
 * gemm.c
 *	  GEMM and MATMUL: the walk over blocks of a product.
 *
 * A unit of GEMM is a block (see block.h) of a packed weight's (see weight.c); of MATMUL one
 * matrix product.
 */
#include "ops.h"

#include <string.h>

#include "block.h"

#define BLOCK_BYTES		(512 * 1024)	/* of x: half a second-level cache */

static struct blocks
gemm_blocks(const struct cpu_plan *plan, uint64_t items)
{
	int64_t		most = block_rows_most(plan->k * plan->kernels->bytes, BLOCK_BYTES, plan->kernels->rows);

	return blocks_of(plan->weight, (int64_t) items * plan->m, most, 1);
}

uint64_t
cpu_gemm_units(const struct cpu_plan *plan, uint64_t items)
{
	struct blocks blocks;

	if (plan->narrow != NULL)
		return cpu_narrow_units(plan, items);
	blocks = gemm_blocks(plan, items);
	return (uint64_t) (blocks.down * blocks.across);
}

void
cpu_run_gemm(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			 uint64_t last, int thread)
{
	const struct device_weight *weight = plan->weight;
	const struct cpu_float_kernels *kernels = plan->kernels;
	struct blocks blocks = gemm_blocks(plan, run->batch->items[plan->lead]);
	uint8_t    *y = cpu_address(run, &plan->output);
	struct cpu_product product = {
		.x = cpu_address(run, &plan->inputs[0]),
		.x_step = plan->k,
		.b = weight->data,
		.b_step = kernels->panel,
		.b_panel = plan->k * kernels->panel,
		.y = y,
		.y_step = plan->n,
		.bias = plan->inputs_count > 1 ? cpu_address(run, &plan->inputs[1]) : NULL,
		.bias_step = plan->axis,
		.k = plan->k,
		.n = plan->n,
		.padded = true
	};

	for (uint64_t u = first; u < last; u++)
	{
		struct block b = block_at(&blocks, weight, u);

		kernels->product(&product, b.m0, b.m1, b.p0, b.p1);
		if (plan->fn != UNARY_NONE)
			kernels->unary_rows(plan->fn, plan->f, y + (b.m0 * plan->n + b.n0) * kernels->bytes, plan->n,
								b.m1 - b.m0, b.n1 - b.n0);
	}
}

#define INTEGER_PRODUCT(T, U) \
	do { \
		const T    *pa = (const T *) a; \
		const T    *pb = (const T *) b; \
		T		   *py = (T *) y; \
		memset(py, 0, (size_t) (plan->m * plan->n) * sizeof(T)); \
		for (int64_t m = 0; m < plan->m; m++) \
			for (int64_t k = 0; k < plan->k; k++) \
				for (int64_t n = 0; n < plan->n; n++) \
					py[m * plan->n + n] = (T) ((U) py[m * plan->n + n] + \
											   (U) pa[m * plan->k + k] * (U) pb[k * plan->n + n]); \
	} while (0)

/* Rows of a, one after the other, by a matrix that is not packed. */
static void
float_product(const struct cpu_plan *plan, const void *a, const void *b, void *y, int64_t rows)
{
	int64_t		panel = plan->kernels->panel;
	struct cpu_product product = {
		.x = a,
		.x_step = plan->k,
		.b = b,
		.b_step = plan->n,
		.b_panel = panel,
		.y = y,
		.y_step = plan->n,
		.k = plan->k,
		.n = plan->n
	};

	plan->kernels->product(&product, 0, rows, 0, (plan->n + panel - 1) / panel);
}

/* loops: over items and leading dimensions, steps in elements of a and b. */
void
cpu_run_matmul(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	const struct cpu_loops *loops = &plan->loops;
	size_t		bytes = device_type_bytes(plan->type);
	const uint8_t *x0 = cpu_address(run, &plan->inputs[0]);
	const uint8_t *x1 = cpu_address(run, &plan->inputs[1]);
	uint8_t    *y0 = cpu_address(run, &plan->output);

	if (plan->kernels != NULL && loops->rank == 1 && loops->steps[1][0] == 0 &&
		loops->steps[0][0] == plan->m * plan->k)
	{
		/* one b for all: their rows as one product */
		float_product(plan, x0 + first * (uint64_t) (plan->m * plan->k) * bytes, x1,
					  y0 + first * (uint64_t) (plan->m * plan->n) * bytes,
					  (int64_t) (last - first) * plan->m);
		return;
	}
	for (uint64_t u = first; u < last; u++)
	{
		uint64_t	rest = u;
		int64_t		offsets[2] = {0, 0};
		const uint8_t *a;
		const uint8_t *b;
		uint8_t    *y = y0 + u * (uint64_t) (plan->m * plan->n) * bytes;

		for (int d = loops->rank - 1; d >= 0; d--)
		{
			uint64_t	index = d == 0 ? rest : rest % (uint64_t) loops->dims[d];

			if (d > 0)
				rest /= (uint64_t) loops->dims[d];
			offsets[0] += (int64_t) index * loops->steps[0][d];
			offsets[1] += (int64_t) index * loops->steps[1][d];
		}
		a = x0 + offsets[0] * (int64_t) bytes;
		b = x1 + offsets[1] * (int64_t) bytes;
		if (plan->kernels != NULL)
			float_product(plan, a, b, y, plan->m);
		else if (plan->type == DEVICE_I32)
			INTEGER_PRODUCT(int32_t, uint32_t);
		else
			INTEGER_PRODUCT(int64_t, uint64_t);
	}
}
