/*
 * product.c
 *	  Plans of matrix products.
 */
#include "plan.h"

/* Whether x's type is one of products, and y's goes with it; the kernels of fewer bits. */
static bool
gemm_types(struct plan_making *making, uint8_t x, uint8_t y)
{
	const struct cpu_device *device = making->device;
	uint8_t		precision = x == DEVICE_BF16 ? DEVICE_PRECISION_BF16 : DEVICE_PRECISION_INT8;

	if (plan_is_float(x))
		return y == x;
	making->plan->narrow = device->narrow[precision];
	return (x == DEVICE_BF16 || x == DEVICE_Q8) && (y == DEVICE_F32 || y == DEVICE_BF16);
}

/* Of one multiply-add, and of reading one number of a weight. */
static void
gemm_costs(const struct cpu_device *device, uint8_t type, double *nsec_flop, double *nsec_read)
{
	switch (type)
	{
		case DEVICE_F64:
			*nsec_flop = device->nsec_flop * 2;
			*nsec_read = device->nsec_byte * 8;
			break;
		case DEVICE_BF16:
			*nsec_flop = device->nsec_narrow[DEVICE_PRECISION_BF16];
			*nsec_read = device->nsec_byte * 2;
			break;
		case DEVICE_Q8:
			*nsec_flop = device->nsec_narrow[DEVICE_PRECISION_INT8];
			*nsec_read = device->nsec_byte;
			break;
		default:
			*nsec_flop = device->nsec_flop;
			*nsec_read = device->nsec_byte * 4;
	}
}

bool
plan_make_gemm(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *b = plan_input(making, 1);
	const struct device_tensor *y = making->y;
	double		nsec_flop;
	double		nsec_read;

	if (x == NULL || x->rank < 1 || y->rank < 1 || !gemm_types(making, x->type, y->type))
		return plan_refuse(making, "x and y must be of types that go together and of rank 1 or more");
	if (making->op->fn > UNARY_PROBIT)
		return plan_refuse(making, "no such activation");
	if (x->lead != y->lead)
		return plan_refuse(making, "y must have one row per row of x");
	plan->m = plan_elements(x, 0, x->rank - 1);
	plan->k = x->dims[x->rank - 1] - (x->type == DEVICE_Q8 ? DEVICE_Q8_SCALE : 0);
	plan->n = y->dims[y->rank - 1];
	if (plan->k < 0)
		return plan_refuse(making, "a quantised vector has no scale");
	if (plan_elements(y, 0, y->rank - 1) != plan->m)
		return plan_refuse(making, "x and y differ in their leading dimensions");
	if (b != NULL)
	{
		int64_t		count = device_item_elements(b);

		if (b->type != (plan->narrow != NULL ? DEVICE_F32 : x->type) || b->lead != DEVICE_LEAD_NONE || (count != 1 && count != plan->n))
			return plan_refuse(making, "the bias must be N constants or one");
		plan->axis = count == 1 ? 0 : 1;
	}
	else
		plan->inputs_count = 1;
	if (making->weights != NULL)
	{
		plan->weight = making->weights[making->op->weight];
		if (plan->weight->type != x->type || plan->weight->k != plan->k || plan->weight->n != plan->n)
			return plan_refuse(making, "the weight's shape is not K × N");
	}
	plan->run = plan->narrow != NULL ? cpu_run_narrow : cpu_run_gemm;
	plan->scratch = plan->narrow != NULL ? cpu_narrow_scratch(plan) : 0;
	gemm_costs(making->device, x->type, &nsec_flop, &nsec_read);
	plan->nsec_item = 2.0 * (double) plan->m * (double) plan->k * (double) plan->n * nsec_flop;
	plan->nsec_run = (double) plan->k * (double) plan->n * nsec_read;
	return true;
}

bool
plan_make_quantise(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *y = making->y;

	if (x == NULL || x->type != DEVICE_F32 || y->type != DEVICE_Q8 || x->lead != y->lead || x->rank < 1 ||
		y->rank < 1 || y->dims[y->rank - 1] != x->dims[x->rank - 1] + DEVICE_Q8_SCALE ||
		plan_elements(x, 0, x->rank - 1) != plan_elements(y, 0, y->rank - 1))
		return plan_refuse(making, "types or shapes do not fit");
	plan->k = x->dims[x->rank - 1];
	plan->units_item = plan_elements(x, 0, x->rank - 1);
	plan->nsec_item = (double) plan->units_item * (double) plan->k * 0.1;
	plan->run = cpu_run_quantise;
	return true;
}

bool
plan_make_matmul(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *a = plan_input(making, 0);
	const struct device_tensor *b = plan_input(making, 1);
	struct device_tensor lead_a;
	struct device_tensor lead_b;
	struct device_tensor lead_y = *making->y;
	const struct device_tensor *operands[2] = {&lead_a, &lead_b};

	if (a == NULL || b == NULL || a->type != b->type || making->y->type != a->type ||
		!(plan_is_float(a->type) || plan_is_integer(a->type)))
		return plan_refuse(making, "a, b and y must be of one numeric type");
	if (a->rank < 2 || b->rank < 2 || making->y->rank < 2)
		return plan_refuse(making, "ranks must be 2 or more");
	lead_a = *a;
	lead_b = *b;
	lead_a.rank -= 2;
	lead_b.rank -= 2;
	lead_y.rank -= 2;
	plan->m = a->dims[a->rank - 2];
	plan->k = a->dims[a->rank - 1];
	plan->n = b->dims[b->rank - 1];
	if (b->dims[b->rank - 2] != plan->k || lead_y.dims[lead_y.rank] != plan->m ||
		lead_y.dims[lead_y.rank + 1] != plan->n ||
		!cpu_loops_make(&plan->loops, &lead_y, operands, 2))
		return plan_refuse(making, "shapes do not agree");
	for (int d = 0; d < plan->loops.rank; d++)
	{
		plan->loops.steps[0][d] *= plan->m * plan->k;
		plan->loops.steps[1][d] *= plan->k * plan->n;
	}
	plan->units_item = device_item_elements(&lead_y);
	plan->run = cpu_run_matmul;
	plan->nsec_item = (double) plan->units_item *
		(20 + 2.0 * (double) plan->m * (double) plan->k * (double) plan->n *
		 making->device->nsec_flop * (plan_is_integer(a->type) ? 8 : a->type == DEVICE_F64 ? 2 : 1));
	return true;
}
