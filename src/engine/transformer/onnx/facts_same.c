/*
 * facts_same.c
 *	  Values that are one number at every place: what graphs make of a mask of ones.
 */
#include "walk.h"

#include <math.h>
#include <string.h>

#define CONSTANT_MAX	(1u << 22)	/* elements of a constant that are looked at */

/* A constant whose elements are all the same. */
static bool
constant_same(struct walk *w, const struct fact *fact, double *value)
{
	const struct onnx_tensor *tensor = fact->tensor;
	size_t		bytes = tensor->type == DEVICE_I64 ? 8 : tensor->type == DEVICE_F32 || tensor->type == DEVICE_I32 ? 4 : tensor->type == DEVICE_BOOL ? 1 : 0;
	struct status ignored = {0};
	uint8_t    *data;
	bool		same;

	if (bytes == 0 || tensor->elements > CONSTANT_MAX || !walk_may_look(w, tensor->elements))
		return false;
	data = graph_block(w->memory, (uint64_t) tensor->elements * bytes);
	if (data == NULL)
		return false;
	same = onnx_tensor_read(tensor, data, &ignored);
	for (int64_t i = 1; same && i < tensor->elements; i++)
		same = memcmp(data, data + (size_t) i * bytes, bytes) == 0;
	if (tensor->type == DEVICE_F32)
	{
		float		number;

		memcpy(&number, data, sizeof(number));
		*value = (double) number;
	}
	else if (tensor->type == DEVICE_BOOL)
		*value = data[0];
	else
	{
		int64_t		wide = 0;
		int32_t		narrow;

		memcpy(&narrow, data, sizeof(narrow));
		if (bytes == 8)
			memcpy(&wide, data, sizeof(wide));
		*value = bytes == 8 ? (double) wide : (double) narrow;
	}
	graph_block_free(w->memory, data);
	return same;
}

/* Constants are read where they are few, and where they are sliced. */
static bool
get_same(struct walk *w, int32_t name, bool large, struct fact *same)
{
	const struct fact *fact = walk_fact(w, name);

	*same = *fact;
	same->alias = -1;
	same->kind = FACT_SAME;
	if (fact->kind == FACT_SAME)
		return true;
	same->real = fact->kind == FACT_CONSTANT ? fact->tensor->type == DEVICE_F32 : fact->kind == FACT_SAME && fact->real;
	if (fact->kind == FACT_CONSTANT)
		return (large || fact->tensor->elements <= 64) && constant_same(w, fact, &same->value);
	same->rank = fact->rank;
	return fact->kind == FACT_INTS && fact->count == 1 && walk_number(w, name, &same->value);
}

static void
set_same(struct fact *result, const struct fact *shape, double value, bool times_length, bool real)
{
	result->real = real;
	result->rank = shape->rank;
	memcpy(result->dims, shape->dims, sizeof(shape->dims));
	result->kind = FACT_SAME;
	result->value = value;
	result->times_length = times_length;
}

static void
same_cast(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact a;
	int64_t		to = node_int(node, "to", 0);

	if (!get_same(w, node_input(node, 0), false, &a))
		return;
	if (to == ONNX_BOOL)
		set_same(result, &a, a.value != 0, false, false);
	else if (to == ONNX_FLOAT || ((to == ONNX_INT32 || to == ONNX_INT64) && a.value == floor(a.value) && fabs(a.value) < INT32_MAX))
		set_same(result, &a, a.value, a.times_length, to == ONNX_FLOAT);
}

/* ---- shapes ---- */

static bool
axes_of(struct walk *w, const struct onnx_node *node, uint32_t rank, bool flags[DEVICE_RANK_MAX])
{
	int64_t		axes[DEVICE_RANK_MAX];
	uint32_t	count = 0;

	memset(flags, 0, DEVICE_RANK_MAX * sizeof(*flags));
	if (rank > DEVICE_RANK_MAX || !walk_axes(w, node, 1, "axes", axes, &count))
		return false;
	for (uint32_t i = 0; i < count; i++)
	{
		int64_t		axis = axes[i] < 0 ? axes[i] + rank : axes[i];

		if (axis < 0 || axis >= rank || flags[axis])
			return false;
		flags[axis] = true;
	}
	return count > 0;
}

static bool
unsqueezed(struct walk *w, const struct onnx_node *node, const struct fact *fact, struct fact *shape)
{
	int64_t		axes[DEVICE_RANK_MAX];
	uint32_t	count = 0, from = 0;
	bool		flags[DEVICE_RANK_MAX];

	if (!walk_axes(w, node, 1, "axes", axes, &count) || fact->rank + count > DEVICE_RANK_MAX || !axes_of(w, node, fact->rank + count, flags))
		return false;
	shape->rank = (uint8_t) (fact->rank + count);
	for (uint32_t i = 0; i < shape->rank; i++)
		shape->dims[i] = flags[i] ? size_of(1) : fact->dims[from++];
	return true;
}

static bool
squeezed(struct walk *w, const struct onnx_node *node, const struct fact *fact, struct fact *shape)
{
	bool		flags[DEVICE_RANK_MAX];

	if (!axes_of(w, node, fact->rank, flags))
		return false;
	shape->rank = 0;
	for (uint32_t i = 0; i < fact->rank; i++)
	{
		if (flags[i] && !size_is(fact->dims[i], 1))
			return false;
		if (!flags[i])
			shape->dims[shape->rank++] = fact->dims[i];
	}
	return true;
}

static bool
transposed(const struct onnx_node *node, const struct fact *fact, struct fact *shape)
{
	const struct onnx_attribute *perm = node_attribute(node, "perm");

	if (perm == NULL || perm->type != ONNX_ATTRIBUTE_INTS || perm->count != fact->rank)
		return false;
	shape->rank = fact->rank;
	for (uint32_t i = 0; i < fact->rank; i++)
	{
		if (perm->ints[i] < 0 || perm->ints[i] >= fact->rank)
			return false;
		shape->dims[i] = fact->dims[perm->ints[i]];
	}
	return true;
}

static bool
expanded(struct walk *w, const struct onnx_node *node, const struct fact *fact, struct fact *shape)
{
	const struct fact *wanted = walk_fact(w, node_input(node, 1));
	struct fact other = {0};

	if (wanted->kind != FACT_INTS || wanted->rank != 1)
		return false;
	other.rank = (uint8_t) wanted->count;
	memcpy(other.dims, wanted->ints, sizeof(other.dims));
	return shape_broadcast(fact, &other, shape);
}

/* A list of sizes from a slice's inputs; what is INT64_MAX stands for the end. */
static bool
slice_list(struct walk *w, const struct onnx_node *node, uint32_t input, const char *attribute, struct size *list, uint32_t *count)
{
	const struct fact *fact = walk_fact(w, node_input(node, input));
	int64_t		axes[DEVICE_RANK_MAX];

	if (fact->kind == FACT_INTS)
	{
		*count = fact->count;
		memcpy(list, fact->ints, fact->count * sizeof(*list));
		return true;
	}
	if (!walk_axes(w, node, input, attribute, axes, count))
		return false;
	for (uint32_t i = 0; i < *count; i++)
		list[i] = size_of(axes[i]);
	return true;
}

/* From starts that are not negative, in steps of 1; *first: the start on the last axis. */
static bool
sliced(struct walk *w, const struct onnx_node *node, const struct fact *fact, struct fact *shape, int64_t *first)
{
	struct size starts[FACT_INTS_MAX], ends[FACT_INTS_MAX];
	int64_t		axes[DEVICE_RANK_MAX], steps[DEVICE_RANK_MAX];
	uint32_t	count = 0, ends_count = 0, axes_count = 0, steps_count = 0;

	if (!slice_list(w, node, 1, "starts", starts, &count) || !slice_list(w, node, 2, "ends", ends, &ends_count) || count != ends_count)
		return false;
	if (!walk_axes(w, node, 3, "axes", axes, &axes_count))
	{
		if (node_input(node, 3) >= 0)
			return false;
		for (axes_count = 0; axes_count < count; axes_count++)
			axes[axes_count] = axes_count;
	}
	if (axes_count != count || (node_input(node, 4) >= 0 && (!walk_axes(w, node, 4, "steps", steps, &steps_count) || steps_count != count)))
		return false;
	shape->rank = fact->rank;
	memcpy(shape->dims, fact->dims, sizeof(fact->dims));
	*first = 0;
	for (uint32_t i = 0; i < count; i++)
	{
		int64_t		axis = axes[i] < 0 ? axes[i] + fact->rank : axes[i], start, end;

		if (axis < 0 || axis >= fact->rank || !size_constant(starts[i], &start) || start < 0 || start > INT32_MAX ||
			(steps_count > 0 && steps[i] != 1))
			return false;
		if (size_constant(ends[i], &end) && (end < 0 || (end < INT32_MAX && !size_equal(ends[i], fact->dims[axis]))))
			return false;
		if (size_constant(ends[i], &end))
			ends[i] = fact->dims[axis];
		shape->dims[axis] = (struct size) {ends[i].constant - start, ends[i].batch, ends[i].length};
		if (axis == fact->rank - 1)
			*first = start;
		else if (start != 0)
			return false;
	}
	return true;
}

static bool
moved(struct walk *w, const struct onnx_node *node, const struct fact *fact, struct fact *shape, int64_t *first)
{
	*first = 0;
	if (node_is(node, "Unsqueeze"))
		return unsqueezed(w, node, fact, shape);
	if (node_is(node, "Squeeze"))
		return squeezed(w, node, fact, shape);
	if (node_is(node, "Transpose"))
		return transposed(node, fact, shape);
	if (node_is(node, "Expand"))
		return expanded(w, node, fact, shape);
	if (node_is(node, "Slice"))
		return sliced(w, node, fact, shape, first);
	if (node_is(node, "Reshape"))
	{
		const struct fact *wanted = walk_fact(w, node_input(node, 1));
		struct fact list = *wanted;
		double		numbers[FACT_INTS_MAX];

		if (wanted->kind == FACT_CONSTANT)
		{
			if (wanted->rank != 1 || !walk_numbers(w, node_input(node, 1), numbers, FACT_INTS_MAX, &list.count))
				return false;
			list.kind = FACT_INTS;
			for (uint32_t i = 0; i < list.count; i++)
				list.ints[i] = size_of(whole_number(numbers[i]));
		}
		return shape_reshape(fact, &list, node_int(node, "allowzero", 0) == 0, shape);
	}
	return false;
}

bool
facts_moved(struct walk *w, const struct onnx_node *node, const struct fact *fact, struct fact *shape, int64_t *first)
{
	return fact->kind != FACT_NONE && moved(w, node, fact, shape, first);
}

bool
facts_reduced(struct walk *w, const struct onnx_node *node, const struct fact *fact, bool flags[DEVICE_RANK_MAX], struct fact *shape)
{
	bool		keep = node_int(node, "keepdims", 1) != 0;

	if (fact->kind == FACT_NONE || !axes_of(w, node, fact->rank, flags))
		return false;
	shape->rank = 0;
	for (uint32_t i = 0; i < fact->rank; i++)
		if (!flags[i] || keep)
			shape->dims[shape->rank++] = flags[i] ? size_of(1) : fact->dims[i];
	return true;
}

static void
same_moved(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact a, shape = {0};
	int64_t		first;

	if (get_same(w, node_input(node, 0), node_is(node, "Slice"), &a) && facts_moved(w, node, &a, &shape, &first))
		set_same(result, &shape, a.value, a.times_length, a.real);
}

static void
same_fill(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct onnx_attribute *value = node_attribute(node, "value");
	const struct fact *shape = walk_fact(w, node_input(node, 0));
	struct fact a = {0};

	if (shape->kind != FACT_INTS || shape->rank != 1)
		return;
	if (value != NULL && value->tensor != NULL)
	{
		struct fact constant = {.kind = FACT_CONSTANT, .tensor = value->tensor};

		if (!constant_same(w, &constant, &a.value))
			return;
	}
	a.real = value == NULL || value->tensor == NULL || value->tensor->type == DEVICE_F32;
	a.rank = (uint8_t) shape->count;
	memcpy(a.dims, shape->ints, sizeof(a.dims));
	set_same(result, &a, a.value, false, a.real);
}

/* ---- arithmetic ---- */

static bool
compute(const char *op, double a, double b, double *result)
{
	static const char *const ops[] = {
		"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", NULL
	};
	double		values[] = {
		a + b, a - b, a * b, a / b, pow(a, b), fmax(a, b), fmin(a, b), a == b, a > b, a >= b, a < b, a <= b, a != 0 && b != 0,
		a != 0 || b != 0
	};

	for (int i = 0; ops[i] != NULL; i++)
		if (strcmp(op, ops[i]) == 0)
		{
			*result = (double) (float) values[i];
			return isfinite(*result);
		}
	return false;
}

/* Whether the result is true or false. */
static bool
says(const char *op)
{
	return strcmp(op, "Add") != 0 && strcmp(op, "Sub") != 0 && strcmp(op, "Mul") != 0 && strcmp(op, "Div") != 0 && strcmp(op, "Pow") != 0 &&
		strcmp(op, "Max") != 0 && strcmp(op, "Min") != 0;
}

/* Numbers without fractions have quotients without. */
static void
same_compute(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact a, b, shape = {0};
	bool		scaled = node_is(node, "Mul") || node_is(node, "Div");
	double		value;

	if (!get_same(w, node_input(node, 0), false, &a) || !get_same(w, node_input(node, 1), false, &b) ||
		!shape_broadcast(&a, &b, &shape) || b.times_length || (a.times_length && !scaled) ||
		!compute(node->op, a.value, b.value, &value) || (!(a.real && b.real) && value != floor(value)))
		return;
	set_same(result, &shape, value, a.times_length, a.real && b.real && !says(node->op));
}

static void
same_one(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact a;

	if (!get_same(w, node_input(node, 0), false, &a) || a.times_length)
		return;
	if (node_is(node, "Sqrt") && a.real && a.value >= 0)
		set_same(result, &a, (double) sqrtf((float) a.value), false, true);
	else if (node_is(node, "Neg"))
		set_same(result, &a, -a.value, false, a.real);
	else if (node_is(node, "Not"))
		set_same(result, &a, a.value == 0, false, false);
}

/* Only a lower bound, below what the value is at least. */
static void
same_clip(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact a;
	double		least = node_float(node, "min", -INFINITY);

	if (!get_same(w, node_input(node, 0), false, &a) || node_input(node, 2) >= 0 || node_attribute(node, "max") != NULL ||
		(node_input(node, 1) >= 0 && !walk_number(w, node_input(node, 1), &least)))
		return;
	if (least <= a.value)
		set_same(result, &a, a.value, a.times_length, a.real);
}

static void
same_where(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact which, a, b, shape = {0};

	if (!get_same(w, node_input(node, 0), false, &which) || which.times_length || !get_same(w, node_input(node, 1), false, &a) ||
		!get_same(w, node_input(node, 2), false, &b) || !shape_broadcast(&a, &b, &shape) || !shape_broadcast(&shape, &which, &shape))
		return;
	set_same(result, &shape, which.value != 0 ? a.value : b.value, which.value != 0 ? a.times_length : b.times_length, a.real);
}

static void
same_reduce(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact a, shape = {0};
	bool		flags[DEVICE_RANK_MAX];

	if (!get_same(w, node_input(node, 0), false, &a) || !facts_reduced(w, node, &a, flags, &shape))
		return;
	for (uint32_t i = 0; node_is(node, "ReduceSum") && i < a.rank; i++)
	{
		int64_t		constant;

		if (!flags[i])
			continue;
		if (size_constant(a.dims[i], &constant))
			a.value *= (double) constant;
		else if (size_equal(a.dims[i], size_length()) && !a.times_length)
			a.times_length = true;
		else
			return;
	}
	set_same(result, &shape, a.value, a.times_length, a.real);
}

void
facts_same(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	static const struct
	{
		const char *op;
		void		(*set) (struct walk *, const struct onnx_node *, struct fact *);
	}			ops[] = {
		{"Cast", same_cast}, {"Unsqueeze", same_moved}, {"Squeeze", same_moved}, {"Transpose", same_moved}, {"Expand", same_moved},
		{"Slice", same_moved}, {"Reshape", same_moved}, {"ConstantOfShape", same_fill}, {"Add", same_compute}, {"Sub", same_compute},
		{"Mul", same_compute}, {"Div", same_compute}, {"Pow", same_compute}, {"Max", same_compute}, {"Min", same_compute},
		{"Equal", same_compute}, {"Greater", same_compute}, {"GreaterOrEqual", same_compute}, {"Less", same_compute},
		{"LessOrEqual", same_compute}, {"And", same_compute}, {"Or", same_compute}, {"Sqrt", same_one}, {"Neg", same_one},
		{"Not", same_one}, {"Clip", same_clip}, {"Where", same_where}, {"ReduceSum", same_reduce}, {"ReduceMean", same_reduce},
		{"ReduceMax", same_reduce}
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (node_is(node, ops[i].op))
			ops[i].set(w, node, result);
}
