/*
 * plan.c
 *	  From an op of the graph to a plan: everything about types and shapes is checked here,
 *	  once, so that running checks values only.
 */
#include "cpu.h"

#include <string.h>

#include "../../protocol/protocol.h"

#define ELEMENTS_MAX	((int64_t) 1 << 40)	/* of one item; keeps products of sizes in range */

struct making						/* of one plan */
{
	struct cpu_plan *plan;
	const struct cpu_device *device;
	const struct device_op *op;
	const struct device_tensor *tensors;
	const struct device_tensor *y;
	struct device_weight *const *weights;	/* NULL at placement */
	struct status *status;
};

static bool
refuse(const struct making *making, const char *why)
{
	return status_set(making->status, INFER_ERROR_UNSUPPORTED,
					  "the cpu device cannot compute primitive %u, \"%s %s\", of type %s: %s",
					  making->op->op, device_op_name(making->op), device_function_name(making->op),
					  infer_type_name(making->plan->type), why);
}

static const struct device_tensor *
input(const struct making *making, uint32_t i)
{
	if (i >= making->op->inputs_count || making->op->inputs[i] < 0)
		return NULL;
	return &making->tensors[making->op->inputs[i]];
}

static bool
is_float(uint8_t type)
{
	return type == DEVICE_F32 || type == DEVICE_F64;
}

static bool
is_integer(uint8_t type)
{
	return type == DEVICE_I32 || type == DEVICE_I64;
}

static bool
tensor_sound(const struct device_tensor *t)
{
	int64_t		elements = 1;

	if (device_type_bytes(t->type) == 0 || t->lead >= DEVICE_LEADS || t->rank > DEVICE_RANK_MAX)
		return false;
	for (int d = 0; d < t->rank; d++)
	{
		if (t->dims[d] < 0 || t->dims[d] > ELEMENTS_MAX)
			return false;
		if (t->dims[d] > 0 && elements > ELEMENTS_MAX / t->dims[d])
			return false;
		elements *= t->dims[d];
	}
	return true;
}

static struct cpu_place
place_of(const struct device_tensor *t)
{
	struct cpu_place place = {
		.type = t->type,
		.lead = t->lead,
		.elements = device_item_elements(t)
	};

	if (t->constant != NULL)
	{
		place.kind = CPU_CONSTANT;
		place.constant = t->constant;
	}
	else if (t->binding >= 0)
	{
		place.kind = CPU_BINDING;
		place.binding = (uint32_t) t->binding;
	}
	else
	{
		place.kind = CPU_ARENA;
		place.offset = t->offset;
	}
	return place;
}

static int64_t
elements_between(const struct device_tensor *t, int first, int last)
{
	int64_t		elements = 1;

	for (int d = first; d < last; d++)
		elements *= t->dims[d];
	return elements;
}

static bool
same_lead(const struct making *making, const struct device_tensor *t)
{
	return t->lead == DEVICE_LEAD_NONE || t->lead == making->y->lead;
}

/* ---- one function per primitive ---- */

static bool
make_gemm(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	const struct device_tensor *b = input(making, 1);
	const struct device_tensor *y = making->y;

	if (x == NULL || !is_float(x->type) || y->type != x->type || x->rank < 1 || y->rank < 1)
		return refuse(making, "x and y must be of one floating type and of rank 1 or more");
	if (making->op->fn > UNARY_PROBIT)
		return refuse(making, "no such activation");
	if (x->lead != y->lead)
		return refuse(making, "y must have one row per row of x");
	plan->m = elements_between(x, 0, x->rank - 1);
	plan->k = x->dims[x->rank - 1];
	plan->n = y->dims[y->rank - 1];
	if (elements_between(y, 0, y->rank - 1) != plan->m)
		return refuse(making, "x and y differ in their leading dimensions");
	if (b != NULL)
	{
		int64_t		count = device_item_elements(b);

		if (b->type != x->type || b->lead != DEVICE_LEAD_NONE || (count != 1 && count != plan->n))
			return refuse(making, "the bias must be N constants or one");
		plan->axis = count == 1 ? 0 : 1;
	}
	else
		plan->inputs_count = 1;
	if (making->weights != NULL)
	{
		plan->weight = making->weights[making->op->weight];
		if (plan->weight->type != x->type || plan->weight->k != plan->k || plan->weight->n != plan->n)
			return refuse(making, "the weight's shape is not K × N");
	}
	plan->run = cpu_run_gemm;
	plan->nsec_item = 2.0 * (double) plan->m * (double) plan->k * (double) plan->n *
		making->device->nsec_flop * (x->type == DEVICE_F64 ? 2 : 1);
	plan->nsec_run = (double) plan->k * (double) plan->n *
		(x->type == DEVICE_F64 ? 2 : 1) * 4 * making->device->nsec_byte;
	return true;
}

static bool
make_matmul(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *a = input(making, 0);
	const struct device_tensor *b = input(making, 1);
	struct device_tensor lead_a;
	struct device_tensor lead_b;
	struct device_tensor lead_y = *making->y;
	const struct device_tensor *operands[2] = {&lead_a, &lead_b};

	if (a == NULL || b == NULL || a->type != b->type || making->y->type != a->type ||
		!(is_float(a->type) || is_integer(a->type)))
		return refuse(making, "a, b and y must be of one numeric type");
	if (a->rank < 2 || b->rank < 2 || making->y->rank < 2)
		return refuse(making, "ranks must be 2 or more");
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
		return refuse(making, "shapes do not agree");
	for (int d = 0; d < plan->loops.rank; d++)
	{
		plan->loops.steps[0][d] *= plan->m * plan->k;
		plan->loops.steps[1][d] *= plan->k * plan->n;
	}
	plan->units_item = device_item_elements(&lead_y);
	plan->run = cpu_run_matmul;
	plan->nsec_item = (double) plan->units_item *
		(20 + 2.0 * (double) plan->m * (double) plan->k * (double) plan->n *
		 making->device->nsec_flop * (is_integer(a->type) ? 8 : a->type == DEVICE_F64 ? 2 : 1));
	return true;
}

static bool
make_elementwise(struct making *making, int operands_count)
{
	const struct device_tensor *operands[CPU_OPERANDS_MAX];

	for (int i = 0; i < operands_count; i++)
		operands[i] = input(making, (uint32_t) i);
	if (!cpu_loops_make(&making->plan->loops, making->y, operands, operands_count))
		return refuse(making, "shapes do not broadcast to the output's");
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

static bool
make_unary(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	uint16_t	fn = making->op->fn;
	bool		tests = fn == UNARY_IS_NAN || fn == UNARY_IS_INF;

	if (x == NULL || fn >= UNARY_FUNCTIONS)
		return refuse(making, "no such function");
	if (making->y->type != (tests ? DEVICE_BOOL : x->type))
		return refuse(making, "the output's type does not fit");
	if (is_float(x->type) ? fn == UNARY_NOT : !cpu_integer_unary_supports(x->type, fn))
		return refuse(making, "not for this type");
	plan->run = cpu_run_unary;
	plan->nsec_item = (double) device_item_elements(making->y) * unary_nsec(fn);
	return make_elementwise(making, 1);
}

static bool
make_binary(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *a = input(making, 0);
	const struct device_tensor *b = input(making, 1);
	uint16_t	fn = making->op->fn;
	bool		tests = fn >= BINARY_EQUAL && fn <= BINARY_XOR;
	bool		supported;

	if (a == NULL || b == NULL || fn < BINARY_ADD || fn >= BINARY_FUNCTIONS)
		return refuse(making, "no such function");
	if (a->type != b->type || making->y->type != (tests ? DEVICE_BOOL : a->type))
		return refuse(making, "types do not fit");
	if (is_float(a->type))
		supported = fn < BINARY_AND;
	else if (a->type == DEVICE_STRING)
		supported = fn == BINARY_EQUAL;
	else
		supported = cpu_integer_binary_supports(a->type, fn);
	if (!supported)
		return refuse(making, "not for this type");
	plan->run = cpu_run_binary;
	plan->nsec_item = (double) device_item_elements(making->y) *
		(fn == BINARY_POW || fn == BINARY_MOD || fn == BINARY_FMOD ? 10 : 0.3);
	return make_elementwise(making, 2);
}

static bool
make_where(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *c = input(making, 0);
	const struct device_tensor *a = input(making, 1);
	const struct device_tensor *b = input(making, 2);

	if (c == NULL || a == NULL || b == NULL || c->type != DEVICE_BOOL || a->type != b->type ||
		making->y->type != a->type)
		return refuse(making, "types do not fit");
	plan->type = a->type;
	plan->kernels = NULL;
	plan->run = cpu_run_where;
	plan->nsec_item = (double) device_item_elements(making->y) * 0.5;
	return make_elementwise(making, 3);
}

/* An element-wise op whose output has the shape of its input. */
static bool
make_same(struct making *making, double nsec)
{
	const struct device_tensor *x = input(making, 0);

	if (device_item_elements(x) != device_item_elements(making->y) || x->lead != making->y->lead)
		return refuse(making, "shapes differ");
	making->plan->units_item = device_item_elements(making->y);
	making->plan->nsec_item = (double) making->plan->units_item * nsec;
	return true;
}

static bool
make_cast(struct making *making)
{
	const struct device_tensor *x = input(making, 0);

	if (x == NULL || !cpu_cast_supports(x->type, making->y->type))
		return refuse(making, "no such cast");
	making->plan->run = cpu_run_cast;
	return make_same(making, x->type == DEVICE_STRING || making->y->type == DEVICE_STRING ? 200 : 0.5);
}

static bool
make_lookup(struct making *making)
{
	const struct device_lookup *table = making->op->params;
	const struct device_tensor *x = input(making, 0);

	if (x == NULL || table == NULL || x->type != table->key_type ||
		making->y->type != table->value_type ||
		x->type == DEVICE_I32 || x->type == DEVICE_BOOL ||
		making->y->type == DEVICE_I32 || making->y->type == DEVICE_BOOL)
		return refuse(making, "types do not fit the table");
	making->plan->run = cpu_run_lookup;
	return make_same(making, 40);
}

static bool
make_copy(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	const struct device_tensor *y = making->y;
	int64_t		sizes[CPU_LOOPS_MAX];
	int64_t		steps[1][CPU_LOOPS_MAX];
	int64_t		low = making->op->i[0];
	int64_t		high = making->op->i[0];
	int64_t		elements;

	if (x == NULL || x->type != y->type || !same_lead(making, x))
		return refuse(making, "x and y differ in type or lead");
	elements = device_item_elements(x);
	sizes[0] = 1;
	steps[0][0] = x->lead == DEVICE_LEAD_NONE ? 0 : elements;
	for (int d = 0; d < y->rank; d++)
	{
		int64_t		step = making->op->i[1 + d];

		if (step > ELEMENTS_MAX || step < -ELEMENTS_MAX)
			return refuse(making, "a step is out of range");
		sizes[d + 1] = y->dims[d];
		steps[0][d + 1] = step;
		if (y->dims[d] > 1)
		{
			int64_t		reach;

			if (__builtin_mul_overflow(step, y->dims[d] - 1, &reach) ||
				__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
				return refuse(making, "a step is out of range");
		}
	}
	plan->units_item = device_item_elements(y);
	if (plan->units_item > 0 && (low < 0 || high >= elements))
		return refuse(making, "an element lies outside of x");
	cpu_loops_join(&plan->loops, y->rank + 1, sizes, steps, 1);
	plan->run = cpu_run_copy;
	plan->nsec_item = (double) plan->units_item * 0.5;
	return true;
}

static bool
make_concat(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *y = making->y;
	int64_t		axis = making->op->i[0];
	int64_t		sum = 0;

	if (axis < 0 || axis >= y->rank || plan->inputs_count == 0)
		return refuse(making, "no such axis");
	plan->outer = elements_between(y, 0, (int) axis);
	plan->axis = y->dims[axis];
	plan->after = elements_between(y, (int) axis + 1, y->rank);
	for (uint32_t p = 0; p < plan->inputs_count; p++)
	{
		const struct device_tensor *x = input(making, p);

		if (x == NULL || x->type != y->type || x->rank != y->rank || !same_lead(making, x))
			return refuse(making, "an input differs in type, rank or lead");
		for (int d = 0; d < y->rank; d++)
			if (d != axis && x->dims[d] != y->dims[d])
				return refuse(making, "shapes do not agree");
		plan->parts[p] = x->dims[axis] * plan->after;
		sum += x->dims[axis];
	}
	if (sum != plan->axis)
		return refuse(making, "the output's axis is not the sum of the inputs'");
	plan->units_item = plan->outer;
	plan->run = cpu_run_concat;
	plan->nsec_item = (double) device_item_elements(y) * 0.3 +
		(double) plan->outer * 5 * plan->inputs_count;
	return true;
}

static bool
make_gather(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	const struct device_tensor *indices = input(making, 1);
	int64_t		axis = making->op->i[0];

	if (x == NULL || indices == NULL || x->type != making->y->type || !is_integer(indices->type) ||
		!same_lead(making, x) || !same_lead(making, indices))
		return refuse(making, "types or leads do not fit");
	if (axis < 0 || axis >= x->rank)
		return refuse(making, "no such axis");
	plan->outer = elements_between(x, 0, (int) axis);
	plan->axis = x->dims[axis];
	plan->after = elements_between(x, (int) axis + 1, x->rank);
	if (device_item_elements(making->y) != plan->outer * device_item_elements(indices) * plan->after)
		return refuse(making, "the output's shape does not fit");
	plan->units_item = plan->outer;
	plan->run = cpu_run_gather;
	plan->nsec_item = (double) device_item_elements(making->y) * 1.5;
	return true;
}

static bool
make_reduce(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
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
		return refuse(making, "not for this type");
	kept_sizes[0] = 1;
	kept_steps[0][0] = device_item_elements(x);
	plan->axis = 1;
	for (int d = 0; d < x->rank; d++)
	{
		int64_t		step = elements_between(x, d + 1, x->rank);

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
		return refuse(making, "the output's shape does not fit");
	plan->run = cpu_run_reduce;
	plan->nsec_item = (double) plan->units_item *
		(15 + (double) plan->axis * (plan->inner.rank == 1 && plan->inner.steps[0][0] == 1 ? 0.15 : 3));
	return true;
}

/* The axis i[0] of x, together with `joined` axes behind it. */
static bool
make_axis(struct making *making, int64_t joined)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	int64_t		axis = making->op->i[0];

	if (axis < 0 || axis >= x->rank || joined < 0 || axis + joined >= x->rank)
		return refuse(making, "no such axis");
	plan->outer = elements_between(x, 0, (int) axis);
	plan->axis = elements_between(x, (int) axis, (int) (axis + joined) + 1);
	plan->after = elements_between(x, (int) (axis + joined) + 1, x->rank);
	plan->units_item = plan->outer * plan->after;
	if (x->lead != making->y->lead)
		return refuse(making, "x and y differ in lead");
	return true;
}

static bool
make_softmax(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);

	if (x == NULL || !is_float(x->type) || making->y->type != x->type ||
		making->op->fn < SOFTMAX_PLAIN || making->op->fn > SOFTMAX_ZERO ||
		device_item_elements(x) != device_item_elements(making->y))
		return refuse(making, "types or shapes do not fit");
	if (!make_axis(making, making->op->i[1]))
		return false;
	if (plan->after != 1)
		plan->scratch = (uint64_t) plan->axis * device_type_bytes(x->type);
	plan->run = cpu_run_softmax;
	plan->nsec_item = (double) plan->units_item * (40 + 1.0 * (double) plan->axis);
	return true;
}

static bool
make_arg(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);

	if (x == NULL || !(is_float(x->type) || is_integer(x->type)) || making->y->type != DEVICE_I64 ||
		(making->op->fn != ARG_MAX && making->op->fn != ARG_MIN))
		return refuse(making, "not for these types");
	if (!make_axis(making, 0))
		return false;
	if (plan->units_item != device_item_elements(making->y) || (plan->axis == 0 && plan->units_item > 0))
		return refuse(making, "shapes do not fit");
	plan->run = cpu_run_arg;
	plan->nsec_item = (double) plan->units_item * (5 + (double) plan->axis);
	return true;
}

static bool
make_normalize(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);

	if (x == NULL || !is_float(x->type) || making->y->type != x->type || x->rank < 1 ||
		making->op->fn < NORMALIZE_MAX || making->op->fn > NORMALIZE_L2 ||
		x->lead != making->y->lead ||
		device_item_elements(x) != device_item_elements(making->y))
		return refuse(making, "types or shapes do not fit");
	plan->axis = x->dims[x->rank - 1];
	plan->units_item = elements_between(x, 0, x->rank - 1);
	plan->run = cpu_run_normalize;
	plan->nsec_item = (double) plan->units_item * (30 + (double) plan->axis * 0.5);
	return true;
}

static bool
make_cumsum(struct making *making)
{
	const struct device_tensor *x = input(making, 0);

	if (x == NULL || !(is_float(x->type) || is_integer(x->type)) || making->y->type != x->type ||
		device_item_elements(x) != device_item_elements(making->y))
		return refuse(making, "types or shapes do not fit");
	if (!make_axis(making, 0))
		return false;
	making->plan->run = cpu_run_cumsum;
	making->plan->nsec_item = (double) making->plan->units_item * (5 + 1.5 * (double) making->plan->axis);
	return true;
}

static bool
make_topk(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	int64_t		axis = making->op->i[0];

	if (x == NULL || !(is_float(x->type) || is_integer(x->type)) || making->y->type != DEVICE_I64 ||
		(making->op->fn != TOPK_LARGEST && making->op->fn != TOPK_SMALLEST) || x->rank != making->y->rank)
		return refuse(making, "not for these types");
	if (!make_axis(making, 0))
		return false;
	plan->k = making->y->dims[axis];
	if (plan->k > plan->axis || plan->units_item * plan->k != device_item_elements(making->y))
		return refuse(making, "shapes do not fit");
	plan->scratch = (uint64_t) plan->k * sizeof(int64_t);
	plan->run = cpu_run_topk;
	plan->nsec_item = (double) plan->units_item * (20 + 4 * (double) plan->axis + 20 * (double) plan->k);
	return true;
}

static bool
make_offset(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	int64_t		places = making->op->i[DEVICE_RANK_MAX];

	if (x == NULL || !is_integer(x->type) || making->y->type != DEVICE_I64 || x->rank < 1 ||
		x->lead != making->y->lead)
		return refuse(making, "types or leads do not fit");
	plan->k = x->dims[x->rank - 1];
	plan->units_item = elements_between(x, 0, x->rank - 1);
	if (plan->k > DEVICE_RANK_MAX || plan->units_item != device_item_elements(making->y))
		return refuse(making, "shapes do not fit");
	for (int64_t j = 0; j < plan->k; j++)
		if (making->op->i[j] < 0 || __builtin_mul_overflow(places, making->op->i[j], &places) ||
			places > ELEMENTS_MAX)
			return refuse(making, "a size is out of range");
	plan->run = cpu_run_offset;
	plan->nsec_item = (double) plan->units_item * (2 + 2 * (double) plan->k);
	return true;
}

static bool
make_scatter(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	const struct device_tensor *places = input(making, 1);
	const struct device_tensor *updates = input(making, 2);

	if (x == NULL || places == NULL || updates == NULL || x->type != making->y->type ||
		updates->type != x->type || places->type != DEVICE_I64 ||
		making->op->fn < SCATTER_SET || making->op->fn > SCATTER_MIN ||
		(making->op->fn != SCATTER_SET && !is_float(x->type) && !is_integer(x->type)))
		return refuse(making, "not for these types");
	if (!same_lead(making, x) || !same_lead(making, places) || !same_lead(making, updates))
		return refuse(making, "an input differs in lead");
	plan->k = device_item_elements(places);
	plan->after = plan->k == 0 ? 0 : device_item_elements(updates) / plan->k;
	if (device_item_elements(x) != device_item_elements(making->y) ||
		plan->after * plan->k != device_item_elements(updates) ||
		(plan->after > 0 && device_item_elements(x) % plan->after != 0))
		return refuse(making, "shapes do not fit");
	plan->axis = plan->after == 0 ? 0 : device_item_elements(x) / plan->after;
	plan->units_item = 1;
	plan->run = cpu_run_scatter;
	plan->nsec_item = 20 + (double) device_item_elements(x) * 0.5 + (double) device_item_elements(updates) * 2 +
		(double) plan->k * 4;
	return true;
}

static bool
make_distance(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	const struct device_tensor *c = input(making, 1);

	if (x == NULL || c == NULL || !is_float(x->type) || c->type != x->type || making->y->type != x->type ||
		x->rank < 1 || c->rank != 2 || c->lead != DEVICE_LEAD_NONE || x->lead != making->y->lead)
		return refuse(making, "types, ranks or leads do not fit");
	plan->axis = x->dims[x->rank - 1];
	plan->n = c->dims[0];
	plan->units_item = device_item_elements(making->y);
	if (c->dims[1] != plan->axis || elements_between(x, 0, x->rank - 1) * plan->n != plan->units_item)
		return refuse(making, "shapes do not fit");
	plan->scratch = (uint64_t) plan->axis * device_type_bytes(x->type);
	plan->run = cpu_run_distance;
	plan->nsec_item = (double) plan->units_item * (15 + 0.4 * (double) plan->axis);
	return true;
}

static bool
make_couple(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = input(making, 0);
	int64_t		classes = making->op->i[0];

	if (x == NULL || x->type != DEVICE_F32 || making->y->type != DEVICE_F32 || x->rank < 1 ||
		making->y->rank != x->rank || x->lead != making->y->lead || classes < 2 || classes > CPU_COUPLE_MAX)
		return refuse(making, "not for this type or number of classes");
	plan->axis = x->dims[x->rank - 1];
	plan->n = classes;
	plan->units_item = elements_between(x, 0, x->rank - 1);
	if (plan->axis != classes * (classes - 1) / 2 ||
		device_item_elements(making->y) != plan->units_item * classes)
		return refuse(making, "shapes do not fit");
	plan->scratch = (uint64_t) (classes * (classes + 1)) * sizeof(float);
	plan->run = cpu_run_couple;
	plan->nsec_item = (double) plan->units_item * 20 * (double) (classes * classes);
	return true;
}

static bool
make_trees(struct making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_trees *trees = making->op->params;
	const struct device_tensor *x = input(making, 0);
	const struct device_tensor *y = making->y;
	double		steps = 0;

	if (x == NULL || trees == NULL || x->type != trees->type || y->type != trees->type ||
		x->lead != y->lead || making->op->fn < TREES_SUM || making->op->fn > TREES_MAX)
		return refuse(making, "types do not fit the trees");
	if (x->rank < 1 || y->rank < 1 || x->dims[x->rank - 1] != trees->features ||
		y->dims[y->rank - 1] != trees->targets)
		return refuse(making, "x and y do not have the features and targets of the trees");
	plan->units_item = elements_between(y, 0, y->rank - 1);
	if (elements_between(x, 0, x->rank - 1) != plan->units_item)
		return refuse(making, "x and y differ in their leading dimensions");
	for (uint32_t t = 0; t < trees->trees_count; t++)
		steps += 2 + trees->depths[t];
	plan->run = cpu_run_trees;
	plan->scratch = cpu_trees_scratch(trees);
	plan->nsec_item = (double) plan->units_item * (20 + steps * CPU_TREES_STEP_NSEC + trees->features);
	return true;
}

bool
cpu_plan_make(struct cpu_plan *plan, const struct cpu_device *device, const struct device_op *op,
			  const struct device_tensor *tensors, struct device_weight *const *weights,
			  struct cpu_place *places, int64_t *parts, struct status *status)
{
	struct making making = {plan, device, op, tensors, &tensors[op->output], weights, status};

	memset(plan, 0, sizeof(*plan));
	plan->op = op->op;
	plan->fn = op->fn;
	plan->node = op->node;
	memcpy(plan->f, op->f, sizeof(plan->f));
	memcpy(plan->i, op->i, sizeof(plan->i));
	plan->params = op->params;
	plan->inputs = places;
	plan->inputs_count = op->inputs_count;
	plan->parts = parts;
	plan->lead = making.y->lead;
	plan->output = place_of(making.y);
	if (!tensor_sound(making.y) || making.y->constant != NULL)
		return refuse(&making, "the output is not a sound tensor");
	for (uint32_t i = 0; i < op->inputs_count; i++)
	{
		const struct device_tensor *t = input(&making, i);

		if (t == NULL)
			memset(&places[i], 0, sizeof(places[i]));
		else if (!tensor_sound(t))
			return refuse(&making, "an input is not a sound tensor");
		else
			places[i] = place_of(t);
	}
	if (op->inputs_count > 0 && input(&making, 0) != NULL)
		plan->type = input(&making, 0)->type;
	if (is_float(plan->type))
		plan->kernels = plan->type == DEVICE_F32 ? &device->kernels->f32 : &device->kernels->f64;

	switch (op->op)
	{
		case DEVICE_OP_GEMM:
			return make_gemm(&making);
		case DEVICE_OP_MATMUL:
			return make_matmul(&making);
		case DEVICE_OP_UNARY:
			return make_unary(&making);
		case DEVICE_OP_BINARY:
			return make_binary(&making);
		case DEVICE_OP_WHERE:
			return make_where(&making);
		case DEVICE_OP_CAST:
			return make_cast(&making);
		case DEVICE_OP_COPY:
			return make_copy(&making);
		case DEVICE_OP_CONCAT:
			return make_concat(&making);
		case DEVICE_OP_GATHER:
			return make_gather(&making);
		case DEVICE_OP_REDUCE:
			return make_reduce(&making);
		case DEVICE_OP_SOFTMAX:
			return make_softmax(&making);
		case DEVICE_OP_ARG:
			return make_arg(&making);
		case DEVICE_OP_NORMALIZE:
			return make_normalize(&making);
		case DEVICE_OP_LOOKUP:
			return make_lookup(&making);
		case DEVICE_OP_CUMSUM:
			return make_cumsum(&making);
		case DEVICE_OP_TOPK:
			return make_topk(&making);
		case DEVICE_OP_OFFSET:
			return make_offset(&making);
		case DEVICE_OP_SCATTER:
			return make_scatter(&making);
		case DEVICE_OP_DISTANCE:
			return make_distance(&making);
		case DEVICE_OP_COUPLE:
			return make_couple(&making);
		case DEVICE_OP_TREES:
			return make_trees(&making);
	}
	return refuse(&making, "no such primitive");
}

uint64_t
cpu_plan_units(const struct cpu_plan *plan, const uint32_t items[DEVICE_LEADS])
{
	if (plan->op == DEVICE_OP_GEMM)
		return cpu_gemm_units(plan, items[plan->lead]);
	return (uint64_t) plan->units_item * items[plan->lead];
}

/* Predicted time on one thread. */
double
cpu_plan_nsec(const struct cpu_plan *plan, const uint32_t items[DEVICE_LEADS])
{
	double		computing = plan->nsec_item * items[plan->lead];

	return 30 + (computing > plan->nsec_run ? computing : plan->nsec_run);
}
