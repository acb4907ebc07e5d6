/*
 * facts_ints.c
 *	  Short lists of whole numbers: shapes, and what is computed with them.
 */
#include "walk.h"

#include <string.h>

static void
set_list(struct fact *result, bool scalar, uint32_t count)
{
	result->kind = FACT_INTS;
	result->rank = scalar ? 0 : 1;
	result->dims[0] = size_of(count);
	result->count = count;
}

/* A value as such a list, constants too. */
static bool
get_list(struct walk *w, int32_t name, struct fact *list)
{
	const struct fact *fact = walk_fact(w, name);
	double		numbers[FACT_INTS_MAX];
	uint32_t	count;

	if (fact->kind == FACT_INTS)
	{
		*list = *fact;
		return true;
	}
	if (fact->kind != FACT_CONSTANT || fact->rank > 1 || (fact->tensor->type != DEVICE_I64 && fact->tensor->type != DEVICE_I32) ||
		!walk_numbers(w, name, numbers, FACT_INTS_MAX, &count))
		return false;
	*list = (struct fact) {0};
	set_list(list, fact->rank == 0, count);
	for (uint32_t i = 0; i < count; i++)
		list->ints[i] = size_of(whole_number(numbers[i]));
	return true;
}

/* A slice's border: from the end if it is negative; what is outside is the border next to it. */
static int64_t
list_place(int64_t place, int64_t count)
{
	if (place < 0)
		return place < -count ? 0 : place + count;
	return place > count ? count : place;
}

static void
list_shape(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *fact = walk_fact(w, node_input(node, 0));
	int64_t		start = node_int(node, "start", 0), end = node_int(node, "end", INT64_MAX);
	int64_t		rank = fact->rank;

	start = list_place(start, rank);
	end = list_place(end, rank);
	if (fact->kind == FACT_NONE || start > end)
		return;
	set_list(result, false, (uint32_t) (end - start));
	memcpy(result->ints, fact->dims + start, (size_t) (end - start) * sizeof(struct size));
}

static void
list_gather(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact list, which;

	if (node_int(node, "axis", 0) != 0 || !get_list(w, node_input(node, 0), &list) || list.rank != 1 ||
		!get_list(w, node_input(node, 1), &which))
		return;
	for (uint32_t i = 0; i < which.count; i++)
	{
		int64_t		at;

		if (!size_constant(which.ints[i], &at) || at < -(int64_t) list.count || at >= (int64_t) list.count)
			return;
		result->ints[i] = list.ints[at < 0 ? at + list.count : at];
	}
	set_list(result, which.rank == 0, which.count);
}

static void
list_concat(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	uint32_t	count = 0;

	for (uint32_t i = 0; i < node->inputs_count; i++)
	{
		struct fact list;

		if (!get_list(w, node_input(node, i), &list) || list.rank != 1 || count + list.count > FACT_INTS_MAX)
			return;
		memcpy(result->ints + count, list.ints, list.count * sizeof(struct size));
		count += list.count;
	}
	set_list(result, false, count);
}

static void
list_slice(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact list;
	int64_t		start, end;
	uint32_t	count = 0, ends = 0;
	double		number;

	if (!get_list(w, node_input(node, 0), &list) || list.rank != 1 || !walk_axes(w, node, 1, "starts", &start, &count) ||
		!walk_axes(w, node, 2, "ends", &end, &ends) || count != 1 || ends != 1)
		return;
	if (node_input(node, 4) >= 0 && (!walk_number(w, node_input(node, 4), &number) || number != 1))
		return;
	start = list_place(start, list.count);
	end = list_place(end, list.count);
	if (start > end)
		return;
	memcpy(result->ints, list.ints + start, (size_t) (end - start) * sizeof(struct size));
	set_list(result, false, (uint32_t) (end - start));
}

static void
list_fill(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct onnx_attribute *value = node_attribute(node, "value");
	const struct fact *shape = walk_fact(w, node_input(node, 0));
	struct status ignored = {0};
	int64_t		count, number = 0;

	if (shape->kind != FACT_INTS || shape->count != 1 || !size_constant(shape->ints[0], &count) || count < 0 || count > FACT_INTS_MAX ||
		value == NULL || value->tensor == NULL || value->tensor->type != DEVICE_I64 || value->tensor->elements != 1 ||
		!onnx_tensor_read(value->tensor, &number, &ignored))
		return;
	set_list(result, false, (uint32_t) count);
	for (int64_t i = 0; i < count; i++)
		result->ints[i] = size_of(number);
}

/* The same list with another rank. */
static void
list_reshape(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact list;
	double		shape[2];
	int64_t		axis = 0;
	uint32_t	count = 0;

	if (!get_list(w, node_input(node, 0), &list))
		return;
	if (node_is(node, "Reshape"))
	{
		if (!walk_numbers(w, node_input(node, 1), shape, 2, &count) || count > 1 || (count == 0 && list.count != 1) ||
			(count == 1 && shape[0] != -1 && shape[0] != list.count))
			return;
		list.rank = (uint8_t) count;
	}
	else if (!walk_axes(w, node, 1, "axes", &axis, &count) || count != 1 || (axis != 0 && axis != -1) ||
			 (node_is(node, "Unsqueeze") ? list.rank != 0 : list.count != 1 || list.rank != 1))
		return;
	else
		list.rank = node_is(node, "Unsqueeze") ? 1 : 0;
	memcpy(result->ints, list.ints, sizeof(list.ints));
	set_list(result, list.rank == 0, list.count);
}

/* ---- arithmetic ---- */

static bool
known_equal(struct size a, struct size b, bool *equal)
{
	struct size less = {a.constant - b.constant, a.batch - b.batch, a.length - b.length};

	*equal = less.constant == 0 && less.batch == 0 && less.length == 0;
	if (*equal || (less.batch == 0 && less.length == 0))
		return true;
	/* B and L are at least 1: a sum of what is not negative, and of something positive, is not 0 */
	return (less.batch >= 0 && less.length >= 0 && less.constant + less.batch + less.length > 0) ||
		(less.batch <= 0 && less.length <= 0 && less.constant + less.batch + less.length < 0);
}

static bool
compute(const char *op, struct size a, struct size b, struct size *result)
{
	int64_t		x, y;
	bool		constant = size_constant(a, &x) && size_constant(b, &y), equal;

	if (!size_small(a) || !size_small(b))
		return false;
	if (strcmp(op, "Add") == 0)
		*result = (struct size) {a.constant + b.constant, a.batch + b.batch, a.length + b.length};
	else if (strcmp(op, "Sub") == 0)
		*result = (struct size) {a.constant - b.constant, a.batch - b.batch, a.length - b.length};
	else if (strcmp(op, "Mul") == 0 && size_constant(b, &y))
		*result = (struct size) {a.constant * y, a.batch * y, a.length * y};
	else if (strcmp(op, "Mul") == 0 && size_constant(a, &x))
		*result = (struct size) {b.constant * x, b.batch * x, b.length * x};
	else if (strcmp(op, "Div") == 0 && constant && y > 0 && x >= 0)
		*result = size_of(x / y);
	else if (strcmp(op, "Equal") == 0 && known_equal(a, b, &equal))
		*result = size_of(equal);
	else
		return false;
	return true;
}

static void
list_compute(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact a, b;
	uint32_t	count;

	if (!get_list(w, node_input(node, 0), &a) || !get_list(w, node_input(node, 1), &b))
		return;
	if (a.count != b.count && a.count != 1 && b.count != 1)
		return;
	count = a.count > b.count ? a.count : b.count;
	for (uint32_t i = 0; i < count; i++)
		if (!compute(node->op, a.ints[a.count == 1 ? 0 : i], b.ints[b.count == 1 ? 0 : i], &result->ints[i]))
			return;
	set_list(result, a.rank == 0 && b.rank == 0, count);
}

static void
list_where(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct fact which, a, b;

	if (!get_list(w, node_input(node, 0), &which) || !get_list(w, node_input(node, 1), &a) || !get_list(w, node_input(node, 2), &b) ||
		a.count != which.count || b.count != which.count)
		return;
	for (uint32_t i = 0; i < which.count; i++)
	{
		int64_t		yes;

		if (!size_constant(which.ints[i], &yes))
			return;
		result->ints[i] = yes != 0 ? a.ints[i] : b.ints[i];
	}
	set_list(result, which.rank == 0, which.count);
}

static void
list_cast(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *fact = walk_fact(w, node_input(node, 0));
	int64_t		to = node_int(node, "to", 0), constant;

	if (fact->kind != FACT_INTS)
		return;
	if (to == ONNX_INT64 || to == ONNX_INT32)
	{
		memcpy(result->ints, fact->ints, sizeof(fact->ints));
		set_list(result, fact->rank == 0, fact->count);
	}
	else if (to == ONNX_FLOAT && fact->count == 1 && size_constant(fact->ints[0], &constant))
	{
		result->kind = FACT_SAME;
		result->rank = fact->rank;
		result->dims[0] = size_of(1);
		result->value = (double) (float) constant;
		result->real = true;
	}
}

void
facts_ints(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	static const struct
	{
		const char *op;
		void		(*set) (struct walk *, const struct onnx_node *, struct fact *);
	}			ops[] = {
		{"Shape", list_shape}, {"Gather", list_gather}, {"Concat", list_concat}, {"Slice", list_slice}, {"ConstantOfShape", list_fill},
		{"Reshape", list_reshape}, {"Squeeze", list_reshape}, {"Unsqueeze", list_reshape}, {"Add", list_compute}, {"Sub", list_compute},
		{"Mul", list_compute}, {"Div", list_compute}, {"Equal", list_compute}, {"Where", list_where}, {"Cast", list_cast}
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (node_is(node, ops[i].op))
			ops[i].set(w, node, result);
}
