/*
 * product.c
 *	  Plans of matrix products.
 */
#include "plan.h"

bool
plan_make_gemm(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *b = plan_input(making, 1);
	const struct device_tensor *y = making->y;

	if (x == NULL || !plan_is_float(x->type) || y->type != x->type || x->rank < 1 || y->rank < 1)
		return plan_refuse(making, "x and y must be of one floating type and of rank 1 or more");
	if (making->op->fn > UNARY_PROBIT)
		return plan_refuse(making, "no such activation");
	if (x->lead != y->lead)
		return plan_refuse(making, "y must have one row per row of x");
	plan->m = plan_elements(x, 0, x->rank - 1);
	plan->k = x->dims[x->rank - 1];
	plan->n = y->dims[y->rank - 1];
	if (plan_elements(y, 0, y->rank - 1) != plan->m)
		return plan_refuse(making, "x and y differ in their leading dimensions");
	if (b != NULL)
	{
		int64_t		count = device_item_elements(b);

		if (b->type != x->type || b->lead != DEVICE_LEAD_NONE || (count != 1 && count != plan->n))
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
	plan->run = cpu_run_gemm;
	plan->nsec_item = 2.0 * (double) plan->m * (double) plan->k * (double) plan->n *
		making->device->nsec_flop * (x->type == DEVICE_F64 ? 2 : 1);
	plan->nsec_run = (double) plan->k * (double) plan->n *
		(x->type == DEVICE_F64 ? 2 : 1) * 4 * making->device->nsec_byte;
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
