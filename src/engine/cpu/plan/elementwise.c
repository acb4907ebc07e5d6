/*
 * elementwise.c
 *	  Plans of primitives that compute each element by itself.
 */
#include "plan.h"

static bool
make_elementwise(struct plan_making *making, int operands_count)
{
	const struct device_tensor *operands[CPU_OPERANDS_MAX];

	for (int i = 0; i < operands_count; i++)
		operands[i] = plan_input(making, (uint32_t) i);
	if (!cpu_loops_make(&making->plan->loops, making->y, operands, operands_count))
		return plan_refuse(making, "shapes do not broadcast to the output's");
	making->plan->units_item = device_item_elements(making->y);
	return true;
}

static double
unary_nsec(uint16_t fn)
{
	if (fn <= UNARY_SQRT || (fn >= UNARY_FLOOR && fn <= UNARY_ROUND) || fn == UNARY_RELU ||
		fn == UNARY_CLIP)
		return 0.15;
	if (fn >= UNARY_SIN && fn <= UNARY_ATANH)
		return 10;
	return 1;
}

bool
plan_make_unary(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	uint16_t	fn = making->op->fn;
	bool		tests = fn == UNARY_IS_NAN || fn == UNARY_IS_INF;

	if (x == NULL || fn >= UNARY_FUNCTIONS)
		return plan_refuse(making, "no such function");
	if (making->y->type != (tests ? DEVICE_BOOL : x->type))
		return plan_refuse(making, "the output's type does not fit");
	if (plan_is_float(x->type) ? fn == UNARY_NOT : !cpu_integer_unary_supports(x->type, fn))
		return plan_refuse(making, "not for this type");
	plan->run = cpu_run_unary;
	plan->nsec_item = (double) device_item_elements(making->y) * unary_nsec(fn);
	return make_elementwise(making, 1);
}

bool
plan_make_binary(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *a = plan_input(making, 0);
	const struct device_tensor *b = plan_input(making, 1);
	uint16_t	fn = making->op->fn;
	bool		tests = fn >= BINARY_EQUAL && fn <= BINARY_XOR;
	bool		supported;

	if (a == NULL || b == NULL || fn < BINARY_ADD || fn >= BINARY_FUNCTIONS)
		return plan_refuse(making, "no such function");
	if (a->type != b->type || making->y->type != (tests ? DEVICE_BOOL : a->type))
		return plan_refuse(making, "types do not fit");
	if (plan_is_float(a->type))
		supported = fn < BINARY_AND;
	else if (a->type == DEVICE_STRING)
		supported = fn == BINARY_EQUAL;
	else
		supported = cpu_integer_binary_supports(a->type, fn);
	if (!supported)
		return plan_refuse(making, "not for this type");
	plan->run = cpu_run_binary;
	plan->nsec_item = (double) device_item_elements(making->y) *
		(fn == BINARY_POW || fn == BINARY_MOD || fn == BINARY_FMOD ? 10 : 0.3);
	return make_elementwise(making, 2);
}

bool
plan_make_where(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *c = plan_input(making, 0);
	const struct device_tensor *a = plan_input(making, 1);
	const struct device_tensor *b = plan_input(making, 2);

	if (c == NULL || a == NULL || b == NULL || c->type != DEVICE_BOOL || a->type != b->type ||
		making->y->type != a->type)
		return plan_refuse(making, "types do not fit");
	plan->type = a->type;
	plan->kernels = NULL;
	plan->run = cpu_run_where;
	plan->nsec_item = (double) device_item_elements(making->y) * 0.5;
	return make_elementwise(making, 3);
}

/* An element-wise op whose output has the shape of its input. */
static bool
make_same(struct plan_making *making, double nsec)
{
	const struct device_tensor *x = plan_input(making, 0);

	if (device_item_elements(x) != device_item_elements(making->y) || x->lead != making->y->lead)
		return plan_refuse(making, "shapes differ");
	making->plan->units_item = device_item_elements(making->y);
	making->plan->nsec_item = (double) making->plan->units_item * nsec;
	return true;
}

bool
plan_make_cast(struct plan_making *making)
{
	const struct device_tensor *x = plan_input(making, 0);

	if (x == NULL || !cpu_cast_supports(x->type, making->y->type))
		return plan_refuse(making, "no such cast");
	making->plan->run = cpu_run_cast;
	return make_same(making, x->type == DEVICE_STRING || making->y->type == DEVICE_STRING ? 200 : 0.5);
}

bool
plan_make_lookup(struct plan_making *making)
{
	const struct device_lookup *table = making->op->params;
	const struct device_tensor *x = plan_input(making, 0);

	if (x == NULL || table == NULL || x->type != table->key_type ||
		making->y->type != table->value_type ||
		x->type == DEVICE_I32 || x->type == DEVICE_BOOL ||
		making->y->type == DEVICE_I32 || making->y->type == DEVICE_BOOL)
		return plan_refuse(making, "types do not fit the table");
	making->plan->run = cpu_run_lookup;
	return make_same(making, 40);
}
