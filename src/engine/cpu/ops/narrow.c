/*
 * narrow.c
 *	  GEMM in bf16 and int8, and QUANTISE.
 *
 * A unit of GEMM is a block of rows times BLOCK_PANELS panels, as in gemm.c.  Its sums, bias and
 * activation are float32: in y itself, or in the thread's scratch if y is BF16.
 */
#include "ops.h"

#define BLOCK_ROWS		112			/* at most */
#define BLOCK_BYTES		(256 * 1024)	/* of x */
#define BLOCK_PANELS	4

static int64_t
block_rows(const struct cpu_plan *plan)
{
	int64_t		bytes = plan->k * (plan->type == DEVICE_BF16 ? 2 : 1);
	int64_t		tile = plan->narrow->rows;
	int64_t		most = BLOCK_ROWS / tile * tile;
	int64_t		rows = bytes == 0 ? most : BLOCK_BYTES / bytes / tile * tile;

	return rows > most ? most : rows < tile ? tile : rows;
}

static uint64_t
panel_blocks(int64_t panels)
{
	return ((uint64_t) panels + BLOCK_PANELS - 1) / BLOCK_PANELS;
}

uint64_t
cpu_narrow_units(const struct cpu_plan *plan, uint64_t items)
{
	uint64_t	rows = items * (uint64_t) plan->m;
	uint64_t	block = (uint64_t) block_rows(plan);

	return (rows + block - 1) / block * panel_blocks(plan->weight->panels);
}

uint64_t
cpu_narrow_scratch(const struct cpu_plan *plan)
{
	if (plan->output.type != DEVICE_BF16)
		return 0;
	return (uint64_t) (block_rows(plan) * BLOCK_PANELS * plan->narrow->panel) * sizeof(float);
}

/* A block of float32, row by row: the activation, and into y if that is BF16. */
static void
finish(const struct cpu_plan *plan, const struct cpu_run *run, float *sums, int64_t step, uint16_t *y,
	   int64_t rows, int64_t columns)
{
	const struct cpu_float_kernels *kernels = &run->device->kernels->f32;

	for (int64_t m = 0; m < rows; m++)
	{
		float	   *row = sums + m * step;

		if (plan->fn != UNARY_NONE)
			kernels->unary(plan->fn, plan->f, row, row, columns);
		if (y != NULL)
			run->device->casts->bf16_of_f32(row, y + m * plan->n, columns);
	}
}

void
cpu_run_narrow(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	const struct device_weight *weight = plan->weight;
	int64_t		rows = (int64_t) run->batch->items[plan->lead] * plan->m;
	int64_t		block = block_rows(plan);
	uint64_t	blocks = panel_blocks(weight->panels);
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
		int64_t		m0 = (int64_t) (u / blocks) * block;
		int64_t		m1 = m0 + block < rows ? m0 + block : rows;
		int64_t		p0 = (int64_t) (u % blocks) * BLOCK_PANELS;
		int64_t		p1 = p0 + BLOCK_PANELS < weight->panels ? p0 + BLOCK_PANELS : weight->panels;
		int64_t		n0 = p0 * weight->panel;
		int64_t		n1 = p1 * weight->panel < plan->n ? p1 * weight->panel : plan->n;

		product.y = rounded ? cpu_scratch(run, thread) : (float *) y + m0 * plan->n + n0;
		plan->narrow->product(&product, m0, m1, p0, p1);
		if (rounded || plan->fn != UNARY_NONE)
			finish(plan, run, product.y, product.y_step,
				   rounded ? (uint16_t *) y + m0 * plan->n + n0 : NULL, m1 - m0, n1 - n0);
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
