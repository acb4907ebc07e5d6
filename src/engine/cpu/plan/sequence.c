/*
 * sequence.c
 *	  Plans of the primitives of encoders.
 */
#include "plan.h"

#include <math.h>

#define HEAD_SIZE_MAX	1024		/* bounds a thread's scratch */
#define POWER_FLOPS		36			/* what a score's power costs, in operations of a product */

static bool
is_shared(const struct device_tensor *t, int64_t elements)
{
	return t->type == DEVICE_F32 && t->lead == DEVICE_LEAD_NONE && device_item_elements(t) == elements;
}

bool
plan_make_norm(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *r = plan_input(making, 1);
	int64_t		elements;

	if (x == NULL || x->type != DEVICE_F32 || making->y->type != DEVICE_F32 || making->op->fn < NORM_LAYER ||
		making->op->fn > NORM_RMS)
		return plan_refuse(making, "not for these types");
	elements = device_item_elements(x);
	if (x->rank < 1 || x->lead != making->y->lead || device_item_elements(making->y) != elements ||
		(r != NULL && (r->type != DEVICE_F32 || r->lead != x->lead || device_item_elements(r) != elements)))
		return plan_refuse(making, "x, what is added and y differ in shape or lead");
	plan->axis = x->dims[x->rank - 1];
	for (uint32_t i = 2; i < 4; i++)
		if (plan_input(making, i) != NULL && !is_shared(plan_input(making, i), plan->axis))
			return plan_refuse(making, "factors and terms must be as many constants as x is long");
	plan->units_item = plan->axis == 0 ? 0 : elements / plan->axis;
	plan->run = cpu_run_norm;
	plan->nsec_item = (double) plan->units_item * 15 + (double) elements * 0.27;
	return true;
}

bool
plan_make_attention(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *bias = plan_input(making, 1);
	int64_t		heads = making->op->i[0];
	int64_t		size = making->op->i[1];
	int64_t		window = making->op->i[2];
	int64_t		reach = making->op->i[3];

	if (x == NULL || making->y->type != x->type || x->lead != DEVICE_LEAD_TOKENS ||
		making->y->lead != DEVICE_LEAD_TOKENS ||
		(x->type != DEVICE_F32 && (x->type != DEVICE_BF16 || making->device->attention_bf16 == NULL)))
		return plan_refuse(making, "x and y must be float32 (or where this is faster bf16), one per token");
	if (heads < 1 || heads > PLAN_ELEMENTS_MAX || size < 1 || size > HEAD_SIZE_MAX ||
		device_item_elements(x) != 3 * heads * size || device_item_elements(making->y) != heads * size)
		return plan_refuse(making, "shapes are not those of the heads");
	if (window < 0 || reach < 0 || reach > PLAN_ELEMENTS_MAX / heads || !isfinite(making->op->f[0]))
		return plan_refuse(making, "the scale, the window or the reach of biases is out of range");
	if (bias != NULL && !is_shared(bias, heads * (2 * reach + 1)))
		return plan_refuse(making, "biases must be constants, one per head and distance");
	plan->outer = heads;
	plan->axis = size;
	plan->scratch = cpu_attention_scratch(size);
	plan->run = cpu_run_attention;
	plan->window = window == 0 ? 0 : 2 * window + 1;
	plan->nsec_item = (double) (heads * size) * 0.6;
	plan->nsec_pair = (double) heads * (4.0 * (double) size / (x->type == DEVICE_BF16 ? 2 : 1) + POWER_FLOPS) *
		making->device->nsec_flop;
	return true;
}

bool
plan_make_rotary(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *table = plan_input(making, 1);
	int64_t		heads = making->op->i[0];
	int64_t		size = making->op->i[1];
	int64_t		turned = making->op->i[2];

	if (x == NULL || table == NULL || x->type != DEVICE_F32 || making->y->type != DEVICE_F32 ||
		x->lead != DEVICE_LEAD_TOKENS || making->y->lead != DEVICE_LEAD_TOKENS)
		return plan_refuse(making, "x and y must be float32, one per token");
	plan->axis = device_item_elements(x);
	if (device_item_elements(making->y) != plan->axis || size < 1 || size > plan->axis || heads < 0 ||
		heads > plan->axis / size || turned < 2 || turned > size || turned % 2 != 0)
		return plan_refuse(making, "shapes are not those of the heads");
	plan->k = device_item_elements(table) / turned;
	if (!is_shared(table, plan->k * turned))
		return plan_refuse(making, "the table must be constants, an angle's cosines and sines per place");
	plan->units_item = 1;
	plan->run = cpu_run_rotary;
	plan->nsec_item = 10 + (double) plan->axis * 0.05 + (double) (heads * turned) * (making->op->i[3] != 0 ? 1 : 0.15);
	return true;
}

bool
plan_make_gate(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *y = making->y;

	if (x == NULL || x->type != DEVICE_F32 || y->type != DEVICE_F32 || x->lead != y->lead ||
		making->op->fn > UNARY_PROBIT)
		return plan_refuse(making, "not for these types");
	if (x->rank < 1 || y->rank < 1 || x->dims[x->rank - 1] != 2 * y->dims[y->rank - 1] ||
		plan_elements(x, 0, x->rank - 1) != plan_elements(y, 0, y->rank - 1))
		return plan_refuse(making, "x must be twice as long as y");
	plan->axis = y->dims[y->rank - 1];
	plan->units_item = plan_elements(y, 0, y->rank - 1);
	plan->run = cpu_run_gate;
	plan->nsec_item = (double) device_item_elements(y) * 0.45;
	return true;
}

bool
plan_make_pool(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);

	bool		one = making->op->fn == POOL_FIRST || making->op->fn == POOL_LAST;

	if (x == NULL || making->y->type != x->type || (x->type != DEVICE_F32 && (x->type != DEVICE_BF16 || !one)) ||
		x->lead != DEVICE_LEAD_TOKENS || making->y->lead != DEVICE_LEAD_ROWS || making->op->fn < POOL_FIRST ||
		making->op->fn >= POOL_FUNCTIONS)
		return plan_refuse(making, "x must be float32 (to take one token, or bf16), one per token, and y one per row");
	plan->axis = device_item_elements(x);
	if (device_item_elements(making->y) != plan->axis)
		return plan_refuse(making, "x and y differ in shape");
	plan->units_item = 1;
	plan->run = cpu_run_pool;
	plan->nsec_item = 20;
	plan->nsec_token = one ? 0 : (double) plan->axis * 0.1;
	return true;
}
