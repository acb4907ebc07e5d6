/*
 * rowwise.c
 *	  Plans of primitives that work along an axis.
 */
#include "plan.h"

bool
plan_make_reduce(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	int64_t		kept_sizes[CPU_LOOPS_MAX];
	int64_t		kept_steps[1][CPU_LOOPS_MAX];
	int64_t		inner_sizes[CPU_LOOPS_MAX];
	int64_t		inner_steps[1][CPU_LOOPS_MAX];
	int			kept = 1;
	int			inner = 0;
	uint16_t	fn = making->op->fn;

	if (x == NULL || fn < REDUCE_SUM || fn >= REDUCE_FUNCTIONS || x->type != making->y->type ||
		x->type == DEVICE_STRING || x->lead != making->y->lead ||
		(x->type == DEVICE_BOOL && fn != REDUCE_MAX && fn != REDUCE_MIN))
		return plan_refuse(making, "not for this type");
	kept_sizes[0] = 1;
	kept_steps[0][0] = device_item_elements(x);
	plan->axis = 1;
	for (int d = 0; d < x->rank; d++)
	{
		int64_t		step = plan_elements(x, d + 1, x->rank);

		if (making->op->i[0] >> d & 1)
		{
			plan->axis *= x->dims[d];
			if (x->dims[d] == 1)
				continue;
			inner_sizes[inner] = x->dims[d];
			inner_steps[0][inner++] = step;
		}
		else
		{
			kept_sizes[kept] = x->dims[d];
			kept_steps[0][kept++] = step;
		}
	}
	if (inner == 0)
	{
		inner_sizes[0] = 1;
		inner_steps[0][inner++] = 1;
	}
	cpu_loops_join(&plan->loops, kept, kept_sizes, kept_steps, 1);
	cpu_loops_join(&plan->inner, inner, inner_sizes, inner_steps, 1);
	plan->units_item = 1;
	for (int a = 1; a < kept; a++)
		plan->units_item *= kept_sizes[a];
	if (plan->units_item != device_item_elements(making->y))
		return plan_refuse(making, "the output's shape does not fit");
	plan->run = cpu_run_reduce;
	plan->nsec_item = (double) plan->units_item *
		(15 + (double) plan->axis * (plan->inner.rank == 1 && plan->inner.steps[0][0] == 1 ? 0.15 : 3));
	return true;
}

/* The axis i[0] of x, together with `joined` axes behind it. */
static bool
make_axis(struct plan_making *making, int64_t joined)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	int64_t		axis = making->op->i[0];

	if (axis < 0 || axis >= x->rank || joined < 0 || axis + joined >= x->rank)
		return plan_refuse(making, "no such axis");
	plan->outer = plan_elements(x, 0, (int) axis);
	plan->axis = plan_elements(x, (int) axis, (int) (axis + joined) + 1);
	plan->after = plan_elements(x, (int) (axis + joined) + 1, x->rank);
	plan->units_item = plan->outer * plan->after;
	if (x->lead != making->y->lead)
		return plan_refuse(making, "x and y differ in lead");
	return true;
}

bool
plan_make_softmax(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);

	if (x == NULL || !plan_is_float(x->type) || making->y->type != x->type ||
		making->op->fn < SOFTMAX_PLAIN || making->op->fn > SOFTMAX_ZERO ||
		device_item_elements(x) != device_item_elements(making->y))
		return plan_refuse(making, "types or shapes do not fit");
	if (!make_axis(making, making->op->i[1]))
		return false;
	if (plan->after != 1)
		plan->scratch = (uint64_t) plan->axis * device_type_bytes(x->type);
	plan->run = cpu_run_softmax;
	plan->nsec_item = (double) plan->units_item * (40 + 1.0 * (double) plan->axis);
	return true;
}

bool
plan_make_arg(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);

	if (x == NULL || !(plan_is_float(x->type) || plan_is_integer(x->type)) || making->y->type != DEVICE_I64 ||
		(making->op->fn != ARG_MAX && making->op->fn != ARG_MIN))
		return plan_refuse(making, "not for these types");
	if (!make_axis(making, 0))
		return false;
	if (plan->units_item != device_item_elements(making->y) || (plan->axis == 0 && plan->units_item > 0))
		return plan_refuse(making, "shapes do not fit");
	plan->run = cpu_run_arg;
	plan->nsec_item = (double) plan->units_item * (5 + (double) plan->axis);
	return true;
}

bool
plan_make_normalize(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);

	if (x == NULL || !plan_is_float(x->type) || making->y->type != x->type || x->rank < 1 ||
		making->op->fn < NORMALIZE_MAX || making->op->fn > NORMALIZE_L2 ||
		x->lead != making->y->lead ||
		device_item_elements(x) != device_item_elements(making->y))
		return plan_refuse(making, "types or shapes do not fit");
	plan->axis = x->dims[x->rank - 1];
	plan->units_item = plan_elements(x, 0, x->rank - 1);
	plan->run = cpu_run_normalize;
	plan->nsec_item = (double) plan->units_item * (30 + (double) plan->axis * 0.5);
	return true;
}

bool
plan_make_cumsum(struct plan_making *making)
{
	const struct device_tensor *x = plan_input(making, 0);

	if (x == NULL || !(plan_is_float(x->type) || plan_is_integer(x->type)) || making->y->type != x->type ||
		device_item_elements(x) != device_item_elements(making->y))
		return plan_refuse(making, "types or shapes do not fit");
	if (!make_axis(making, 0))
		return false;
	making->plan->run = cpu_run_cumsum;
	making->plan->nsec_item = (double) making->plan->units_item * (5 + 1.5 * (double) making->plan->axis);
	return true;
}

bool
plan_make_topk(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	int64_t		axis = making->op->i[0];

	if (x == NULL || !(plan_is_float(x->type) || plan_is_integer(x->type)) || making->y->type != DEVICE_I64 ||
		(making->op->fn != TOPK_LARGEST && making->op->fn != TOPK_SMALLEST) || x->rank != making->y->rank)
		return plan_refuse(making, "not for these types");
	if (!make_axis(making, 0))
		return false;
	plan->k = making->y->dims[axis];
	if (plan->k > plan->axis || plan->units_item * plan->k != device_item_elements(making->y))
		return plan_refuse(making, "shapes do not fit");
	plan->scratch = (uint64_t) plan->k * sizeof(int64_t);
	plan->run = cpu_run_topk;
	plan->nsec_item = (double) plan->units_item * (20 + 4 * (double) plan->axis + 20 * (double) plan->k);
	return true;
}
