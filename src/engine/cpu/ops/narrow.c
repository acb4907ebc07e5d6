/*
 * narrow.c
 *	  GEMM in bf16 and int8, and QUANTISE.
 *
 * A unit of GEMM is a block, as in gemm.c.  Its sums, bias and
 * activation are float32: in y itself, or in the thread's scratch if y is BF16.
 */
#include "ops.h"

#include "block.h"

#define BLOCK_BYTES		(512 * 1024)	/* of x: half a second-level cache */

static int64_t
rows_most(const struct cpu_plan *plan)
{
	return block_rows_most(plan->k * (plan->type == DEVICE_BF16 ? 2 : 1), BLOCK_BYTES, plan->narrow->rows);
}

static struct blocks
narrow_blocks(const struct cpu_plan *plan, uint64_t items)
{
	return blocks_of(plan->weight, (int64_t) items * plan->m, rows_most(plan), plan->narrow->rows_step);
}

uint64_t
cpu_narrow_units(const struct cpu_plan *plan, uint64_t items)
{
	struct blocks blocks = narrow_blocks(plan, items);

	return (uint64_t) (blocks.down * blocks.across);
}

uint64_t
cpu_narrow_scratch(const struct cpu_plan *plan)
{
	if (plan->output.type != DEVICE_BF16)
		return 0;
	return (uint64_t) ((rows_most(plan) + plan->narrow->rows_step) * BLOCK_PANELS * plan->narrow->panel) * sizeof(float);
}

/* A block of float32: the activation, and into y if that is BF16. */
static void
finish(const struct cpu_plan *plan, const struct cpu_run *run, float *sums, int64_t step, uint16_t *y,
	   int64_t rows, int64_t columns)
{
	if (plan->fn != UNARY_NONE)
		run->device->kernels->f32.unary_rows(plan->fn, plan->f, sums, step, rows, columns);
	for (int64_t m = 0; m < rows && y != NULL; m++)
		run->device->casts->bf16_of_f32(sums + m * step, y + m * plan->n, columns);
}

void
cpu_run_narrow(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	const struct device_weight *weight = plan->weight;
	struct blocks blocks = narrow_blocks(plan, run->batch->items[plan->lead]);
	bool		rounded = plan->output.type == DEVICE_BF16;
	void	   *y = cpu_address(run, &plan->output);
	struct cpu_narrow_product product = {
		.x = cpu_address(run, &plan->inputs[0]),
		.x_step = plan->type == DEVICE_BF16 ? plan->k * 2 : plan->k + DEVICE_Q8_SCALE,
		.b = weight->data,
		.b_panel = (int64_t) weight->panel_bytes,
		.y_step = rounded ? BLOCK_PANELS * weight->panel : plan->n,
		.bias = plan->inputs_count > 1 ? cpu_address(run, &plan->inputs[1]) : NULL,
		.bias_step = plan->axis,
		.scales = weight->scales,
		.offsets = weight->offsets,
		.k = plan->k,
		.n = plan->n
	};

	for (uint64_t u = first; u < last; u++)
	{
		struct block b = block_at(&blocks, weight, u);
		int64_t		at = b.m0 * plan->n + b.n0;

		product.y = rounded ? cpu_scratch(run, thread) : (float *) y + at;
		plan->narrow->product(&product, b.m0, b.m1, b.p0, b.p1);
		if (rounded || plan->fn != UNARY_NONE)
			finish(plan, run, product.y, product.y_step, rounded ? (uint16_t *) y + at : NULL, b.m1 - b.m0, b.n1 - b.n0);
	}
}

/* A unit is a vector. */
void
cpu_run_quantise(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
				 uint64_t last, int thread)
{
	const float *x = cpu_address(run, &plan->inputs[0]);
	uint8_t    *y = cpu_address(run, &plan->output);

	for (uint64_t u = first; u < last; u++)
		run->device->casts->quantise(x + (int64_t) u * plan->k, y + (int64_t) u * (plan->k + DEVICE_Q8_SCALE), plan->k);
}
