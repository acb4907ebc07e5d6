/*
 * gemm.c
 *	  GEMM and MATMUL: the walk over blocks of a product.
 *
 * A unit of GEMM is a block of rows times BLOCK_PANELS panels of a packed weight (see
 * weight.c); of MATMUL one matrix product.
 */
#include "ops.h"

#include <string.h>

#define BLOCK_ROWS		112			/* at most */
#define BLOCK_BYTES		(512 * 1024)	/* of x: half a second-level cache */
#define BLOCK_PANELS	4

/* Rows of a block: as many as the cache keeps while panels pass by, in whole tiles. */
static int64_t
block_rows(const struct cpu_plan *plan)
{
	int64_t		bytes = plan->k * plan->kernels->bytes;
	int64_t		tile = plan->kernels->rows;
	int64_t		rows = bytes == 0 ? BLOCK_ROWS : BLOCK_BYTES / bytes / tile * tile;

	return rows > BLOCK_ROWS ? BLOCK_ROWS : rows < 2 * tile ? 2 * tile : rows;
}

static uint64_t
panel_blocks(int64_t panels)
{
	return ((uint64_t) panels + BLOCK_PANELS - 1) / BLOCK_PANELS;
}

uint64_t
cpu_gemm_units(const struct cpu_plan *plan, uint64_t items)
{
	uint64_t	rows = items * (uint64_t) plan->m;
	uint64_t	block;

	if (plan->narrow != NULL)
		return cpu_narrow_units(plan, items);
	block = (uint64_t) block_rows(plan);
	return (rows + block - 1) / block * panel_blocks(plan->weight->panels);
}

static void
activate(const struct cpu_plan *plan, uint8_t *y, int64_t m0, int64_t m1, int64_t n0, int64_t n1)
{
	size_t		bytes = (size_t) plan->kernels->bytes;

	if (plan->fn == UNARY_NONE || n0 >= n1)
		return;
	if (n1 - n0 == plan->n)
	{
		y += (size_t) (m0 * plan->n) * bytes;
		plan->kernels->unary(plan->fn, plan->f, y, y, (m1 - m0) * plan->n);
		return;
	}
	for (int64_t m = m0; m < m1; m++)
	{
		uint8_t    *row = y + (size_t) (m * plan->n + n0) * bytes;

		plan->kernels->unary(plan->fn, plan->f, row, row, n1 - n0);
	}
}

void
cpu_run_gemm(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			 uint64_t last, int thread)
{
	const struct device_weight *weight = plan->weight;
	const struct cpu_float_kernels *kernels = plan->kernels;
	int64_t		rows = (int64_t) run->batch->items[plan->lead] * plan->m;
	int64_t		block = block_rows(plan);
	uint64_t	blocks = panel_blocks(weight->panels);
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
		int64_t		m0 = (int64_t) (u / blocks) * block;
		int64_t		m1 = m0 + block < rows ? m0 + block : rows;
		int64_t		p0 = (int64_t) (u % blocks) * BLOCK_PANELS;
		int64_t		p1 = p0 + BLOCK_PANELS < weight->panels ? p0 + BLOCK_PANELS : weight->panels;
		int64_t		n0 = p0 * kernels->panel;
		int64_t		n1 = p1 * kernels->panel < plan->n ? p1 * kernels->panel : plan->n;

		kernels->product(&product, m0, m1, p0, p1);
		activate(plan, y, m0, m1, n0, n1);
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
