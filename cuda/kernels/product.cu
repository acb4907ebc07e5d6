/*
 * product.cu
 *	  GEMM, MATMUL and QUANTISE: which kernel of products/ computes them, and what that needs to know.
 */
#include "../products/library.h"

static void
product_costs(cuda_plan *plan, const product_shape *shape, double units, bool weight)
{
	double		m = (double) shape->m;
	double		k = (double) shape->k;
	double		n = (double) shape->n;

	plan->flops_item = 2 * units * m * n * k;
	plan->bytes_item = units * (m * k * (double) device_type_bytes(plan->type) + m * n * (double) device_type_bytes(plan->output.type));
	if (weight)
		plan->bytes_run = k * n * (double) device_type_bytes(plan->type);
	else
		plan->bytes_item += units * k * n * (double) device_type_bytes(plan->type);
}

bool
cuda_make_gemm(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	const device_tensor *b = cuda_input(making, 1);
	product_shape *shape = (product_shape *) cuda_own(making, sizeof(product_shape));

	if (shape == nullptr)
		return false;
	shape->m = cuda_elements(x, 0, x->rank - 1);
	shape->k = x->dims[x->rank - 1] - (x->type == DEVICE_Q8 ? DEVICE_Q8_SCALE : 0);
	shape->n = making->y->dims[making->y->rank - 1];
	shape->bias_step = b != nullptr && cuda_elements(b, 0, b->rank) != 1;
	plan->launch = x->type == DEVICE_BF16 ? product_bf16 : x->type == DEVICE_Q8 ? product_int8 : product_float;
	product_costs(plan, shape, 1, true);
	return cuda_library_take(making);
}

/*
 * The units of a MATMUL, from the leading dimensions of y and of the operands, those of the items first.  One b for all: then
 * their rows are those of one product.
 */
static void
matmul_units(product_shape *shape, const device_tensor *y, const device_tensor *const operands[2])
{
	product_units *units = &shape->units;
	int			leading = y->rank - 2;
	int64_t		sizes[2] = {shape->m * shape->k, shape->k * shape->n};

	units->rank = leading + 1;
	shape->units_item = cuda_elements(y, 0, leading);
	for (int d = 0; d < leading; d++)
		units->dims[d + 1] = y->dims[d];
	for (int o = 0; o < 2; o++)
	{
		const device_tensor *t = operands[o];
		int64_t		step = sizes[o];

		for (int d = leading - 1; d >= 0; d--)
		{
			int			own = d - (y->rank - t->rank);

			units->steps[o][d + 1] = own < 0 || t->dims[own] == 1 ? 0 : step;
			step *= own < 0 ? 1 : t->dims[own];
		}
		units->steps[o][0] = t->lead == DEVICE_LEAD_NONE ? 0 : step;
	}
}

/* Whether one b meets all units, whose matrices a lie end to end. */
static bool
matmul_joins(const product_shape *shape)
{
	const product_units *units = &shape->units;
	int64_t		step = shape->m * shape->k;

	for (int d = units->rank - 1; d >= 0; d--)
	{
		if (d > 0 && units->dims[d] == 1)
			continue;
		if (units->steps[1][d] != 0 || units->steps[0][d] != step)
			return false;
		step *= d > 0 ? units->dims[d] : 1;
	}
	return true;
}

bool
cuda_make_matmul(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *operands[2] = {cuda_input(making, 0), cuda_input(making, 1)};
	product_shape *shape = (product_shape *) cuda_own(making, sizeof(product_shape));

	if (shape == nullptr)
		return false;
	shape->m = operands[0]->dims[operands[0]->rank - 2];
	shape->k = operands[0]->dims[operands[0]->rank - 1];
	shape->n = operands[1]->dims[operands[1]->rank - 1];
	matmul_units(shape, making->y, operands);
	product_costs(plan, shape, (double) shape->units_item, false);
	if (shape->units_item == 0 || matmul_joins(shape))
	{
		shape->m *= shape->units_item;
		shape->units_item = 0;
	}
	plan->launch = product_matmul;
	return true;
}

bool
cuda_make_quantise(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	product_shape *shape = (product_shape *) cuda_own(making, sizeof(product_shape));

	if (shape == nullptr)
		return false;
	shape->m = cuda_elements(x, 0, x->rank - 1);
	shape->k = x->dims[x->rank - 1];
	plan->flops_item = 2 * (double) shape->m * (double) shape->k;
	plan->bytes_item = 9 * (double) shape->m * (double) shape->k;
	plan->launch = product_quantise;
	return true;
}
