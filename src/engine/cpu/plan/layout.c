/*
 * layout.c
 *	  Plans of primitives that move elements, and of the places they move to.
 */
#include "plan.h"

bool
plan_make_copy(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *y = making->y;
	int64_t		sizes[CPU_LOOPS_MAX];
	int64_t		steps[1][CPU_LOOPS_MAX];
	int64_t		low = making->op->i[0];
	int64_t		high = making->op->i[0];
	int64_t		elements;

	if (x == NULL || x->type != y->type || !plan_same_lead(making, x))
		return plan_refuse(making, "x and y differ in type or lead");
	elements = device_item_elements(x);
	sizes[0] = 1;
	steps[0][0] = x->lead == DEVICE_LEAD_NONE ? 0 : elements;
	for (int d = 0; d < y->rank; d++)
	{
		int64_t		step = making->op->i[1 + d];

		if (step > PLAN_ELEMENTS_MAX || step < -PLAN_ELEMENTS_MAX)
			return plan_refuse(making, "a step is out of range");
		sizes[d + 1] = y->dims[d];
		steps[0][d + 1] = step;
		if (y->dims[d] > 1)
		{
			int64_t		reach;

			if (__builtin_mul_overflow(step, y->dims[d] - 1, &reach) ||
				__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
				return plan_refuse(making, "a step is out of range");
		}
	}
	plan->units_item = device_item_elements(y);
	if (plan->units_item > 0 && (low < 0 || high >= elements))
		return plan_refuse(making, "an element lies outside of x");
	cpu_loops_join(&plan->loops, y->rank + 1, sizes, steps, 1);
	plan->run = cpu_run_copy;
	plan->nsec_item = (double) plan->units_item * 0.5;
	return true;
}

bool
plan_make_concat(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *y = making->y;
	int64_t		axis = making->op->i[0];
	int64_t		sum = 0;

	if (axis < 0 || axis >= y->rank || plan->inputs_count == 0)
		return plan_refuse(making, "no such axis");
	plan->outer = plan_elements(y, 0, (int) axis);
	plan->axis = y->dims[axis];
	plan->after = plan_elements(y, (int) axis + 1, y->rank);
	for (uint32_t p = 0; p < plan->inputs_count; p++)
	{
		const struct device_tensor *x = plan_input(making, p);

		if (x == NULL || x->type != y->type || x->rank != y->rank || !plan_same_lead(making, x))
			return plan_refuse(making, "an input differs in type, rank or lead");
		for (int d = 0; d < y->rank; d++)
			if (d != axis && x->dims[d] != y->dims[d])
				return plan_refuse(making, "shapes do not agree");
		plan->parts[p] = x->dims[axis] * plan->after;
		sum += x->dims[axis];
	}
	if (sum != plan->axis)
		return plan_refuse(making, "the output's axis is not the sum of the inputs'");
	plan->units_item = plan->outer;
	plan->run = cpu_run_concat;
	plan->nsec_item = (double) device_item_elements(y) * 0.3 +
		(double) plan->outer * 5 * plan->inputs_count;
	return true;
}

bool
plan_make_gather(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *indices = plan_input(making, 1);
	int64_t		axis = making->op->i[0];

	if (x == NULL || indices == NULL || x->type != making->y->type || !plan_is_integer(indices->type) ||
		!plan_same_lead(making, x) || !plan_same_lead(making, indices))
		return plan_refuse(making, "types or leads do not fit");
	if (axis < 0 || axis >= x->rank)
		return plan_refuse(making, "no such axis");
	plan->outer = plan_elements(x, 0, (int) axis);
	plan->axis = x->dims[axis];
	plan->after = plan_elements(x, (int) axis + 1, x->rank);
	if (device_item_elements(making->y) != plan->outer * device_item_elements(indices) * plan->after)
		return plan_refuse(making, "the output's shape does not fit");
	plan->units_item = plan->outer;
	plan->run = cpu_run_gather;
	plan->nsec_item = (double) device_item_elements(making->y) * 1.5;
	return true;
}

bool
plan_make_offset(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	int64_t		places = making->op->i[DEVICE_RANK_MAX];

	if (x == NULL || !plan_is_integer(x->type) || making->y->type != DEVICE_I64 || x->rank < 1 ||
		x->lead != making->y->lead)
		return plan_refuse(making, "types or leads do not fit");
	plan->k = x->dims[x->rank - 1];
	plan->units_item = plan_elements(x, 0, x->rank - 1);
	if (plan->k > DEVICE_RANK_MAX || plan->units_item != device_item_elements(making->y))
		return plan_refuse(making, "shapes do not fit");
	for (int64_t j = 0; j < plan->k; j++)
		if (making->op->i[j] < 0 || __builtin_mul_overflow(places, making->op->i[j], &places) ||
			places > PLAN_ELEMENTS_MAX)
			return plan_refuse(making, "a size is out of range");
	plan->run = cpu_run_offset;
	plan->nsec_item = (double) plan->units_item * (2 + 2 * (double) plan->k);
	return true;
}

bool
plan_make_scatter(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *places = plan_input(making, 1);
	const struct device_tensor *updates = plan_input(making, 2);

	if (x == NULL || places == NULL || updates == NULL || x->type != making->y->type ||
		updates->type != x->type || places->type != DEVICE_I64 ||
		making->op->fn < SCATTER_SET || making->op->fn > SCATTER_MIN ||
		(making->op->fn != SCATTER_SET && !plan_is_float(x->type) && !plan_is_integer(x->type)))
		return plan_refuse(making, "not for these types");
	if (!plan_same_lead(making, x) || !plan_same_lead(making, places) || !plan_same_lead(making, updates))
		return plan_refuse(making, "an input differs in lead");
	plan->k = device_item_elements(places);
	plan->after = plan->k == 0 ? 0 : device_item_elements(updates) / plan->k;
	if (device_item_elements(x) != device_item_elements(making->y) ||
		plan->after * plan->k != device_item_elements(updates) ||
		(plan->after > 0 && device_item_elements(x) % plan->after != 0))
		return plan_refuse(making, "shapes do not fit");
	plan->axis = plan->after == 0 ? 0 : device_item_elements(x) / plan->after;
	plan->units_item = 1;
	plan->run = cpu_run_scatter;
	plan->nsec_item = 20 + (double) device_item_elements(x) * 0.5 + (double) device_item_elements(updates) * 2 +
		(double) plan->k * 4;
	return true;
}
