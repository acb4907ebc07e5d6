/*
 * facts_data.c
 *	  Shapes of the numbers that an encoder computes, and the steps that change nothing.
 */
#include "walk.h"

#include <string.h>

static void
set_data(struct fact *result, const struct fact *shape)
{
	result->kind = FACT_DATA;
	result->rank = shape->rank;
	memcpy(result->dims, shape->dims, sizeof(shape->dims));
}

/* A result that equals one of the inputs, if it has its shape too. */
static void
set_alias(struct walk *w, struct fact *result, int32_t name)
{
	const struct fact *fact = walk_fact(w, name);

	if (result->kind == FACT_DATA && fact->kind == FACT_DATA && shape_is(result, fact->rank, fact->dims))
		result->alias = name;
}

static bool
is_number(const struct fact *fact)
{
	return fact->kind == FACT_DATA || (fact->kind == FACT_CONSTANT && fact->tensor->type == DEVICE_F32) ||
		(fact->kind == FACT_SAME && fact->real) || fact->kind == FACT_BIAS;
}

static void
data_gather(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *table = walk_fact(w, node_input(node, 0)), *which = walk_fact(w, node_input(node, 1));
	int64_t		axis = node_int(node, "axis", 0);
	struct fact shape = {0};
	double		number;

	if (table->kind == FACT_CONSTANT && table->tensor->type == DEVICE_F32 && table->rank == 2 && axis == 0 && which->rank < DEVICE_RANK_MAX &&
		(which->kind == FACT_IDS || which->kind == FACT_TYPES || which->kind == FACT_POSITIONS || which->kind == FACT_SAME))
	{
		shape = *which;
		shape.dims[shape.rank++] = table->dims[1];
		set_data(result, &shape);
	}
	else if (table->kind == FACT_DATA && walk_number(w, node_input(node, 1), &number) && which->rank == 0)
	{
		axis = axis < 0 ? axis + table->rank : axis;
		if (axis < 0 || axis >= table->rank)
			return;
		for (int64_t i = 0; i < table->rank; i++)
			if (i != axis)
				shape.dims[shape.rank++] = table->dims[i];
		set_data(result, &shape);
	}
}

static void
data_compute(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0)), *b = walk_fact(w, node_input(node, 1));
	struct fact shape = {0};
	bool		sum = node_is(node, "Add") || node_is(node, "Sub");
	double		neutral = sum ? 0 : 1, number;

	if (!is_number(a) || !is_number(b) || (a->kind != FACT_DATA && b->kind != FACT_DATA) || !shape_broadcast(a, b, &shape))
		return;
	set_data(result, &shape);
	if (b->kind != FACT_DATA && walk_number(w, node_input(node, 1), &number) && number == neutral && !node_is(node, "Pow"))
		set_alias(w, result, node_input(node, 0));
	else if (a->kind != FACT_DATA && walk_number(w, node_input(node, 0), &number) && number == neutral &&
			 (node_is(node, "Add") || node_is(node, "Mul")))
		set_alias(w, result, node_input(node, 1));
}

static void
data_where(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *which = walk_fact(w, node_input(node, 0));
	const struct fact *a = walk_fact(w, node_input(node, 1)), *b = walk_fact(w, node_input(node, 2));
	struct fact shape = {0};

	if (which->kind != FACT_SAME || which->times_length || !is_number(a) || !is_number(b) || !shape_broadcast(a, b, &shape) ||
		!shape_broadcast(&shape, which, &shape))
		return;
	set_data(result, &shape);
	set_alias(w, result, node_input(node, which->value != 0 ? 1 : 2));
}

static void
data_product(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0)), *b = walk_fact(w, node_input(node, 1));
	struct fact x, y, shape = {0};
	struct size inner, rows, columns;
	bool		turned = node_int(node, "transB", 0) != 0;

	if (!is_number(a) || !is_number(b) || (a->kind != FACT_DATA && b->kind != FACT_DATA) || a->rank < 2 || b->rank < 2)
		return;
	if (node_int(node, "transA", 0) != 0 || node_int(node, "transBatchA", 0) != 0 || node_int(node, "transBatchB", 0) != 0)
		return;
	x = *a;
	y = *b;
	rows = a->dims[a->rank - 2];
	inner = b->dims[b->rank - (turned ? 1 : 2)];
	columns = b->dims[b->rank - (turned ? 2 : 1)];
	if (!size_equal(a->dims[a->rank - 1], inner))
		return;
	x.rank = (uint8_t) (a->rank - 2);
	y.rank = (uint8_t) (b->rank - 2);
	if (!shape_broadcast(&x, &y, &shape))
		return;
	shape.dims[shape.rank++] = rows;
	shape.dims[shape.rank++] = columns;
	set_data(result, &shape);
}

/* The same shape; of the nodes that change nothing, the same value. */
static void
data_like(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));

	if (a->kind != FACT_DATA || (node_is(node, "Cast") && node_int(node, "to", 0) != ONNX_FLOAT))
		return;
	set_data(result, a);
	if (node_is(node, "Cast"))
		set_alias(w, result, node_input(node, 0));
}

static void
data_moved(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));
	struct fact shape = {0};
	int64_t		start;

	if (a->kind != FACT_DATA || !facts_moved(w, node, a, &shape, &start) || start != 0)
		return;
	set_data(result, &shape);
	if (!node_is(node, "Transpose"))
		set_alias(w, result, node_input(node, 0));
}

static void
data_reduce(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));
	struct fact shape = {0};
	bool		flags[DEVICE_RANK_MAX];

	if (a->kind == FACT_DATA && facts_reduced(w, node, a, flags, &shape))
		set_data(result, &shape);
}

/* ---- fused operators ---- */

/* One vector for each token; width: what the operator's weights say. */
static void
set_tokens(struct fact *result, struct size width)
{
	struct fact shape = {.rank = 3};

	shape.dims[0] = size_batch();
	shape.dims[1] = size_length();
	shape.dims[2] = width;
	set_data(result, &shape);
}

static void
data_fused(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));

	if (node_is_contrib(node, "EmbedLayerNormalization"))
	{
		const struct fact *words = walk_fact(w, node_input(node, 2));

		if (words->kind == FACT_CONSTANT && words->rank == 2)
			set_tokens(result, words->dims[1]);
	}
	else if (node_is_contrib(node, "Attention"))
	{
		const struct fact *weight = walk_fact(w, node_input(node, 1));
		int64_t		width;

		if (a->kind == FACT_DATA && weight->kind == FACT_CONSTANT && weight->rank == 2 && size_constant(weight->dims[1], &width) && width % 3 == 0)
			set_tokens(result, size_of(width / 3));
	}
	else if (node_is_contrib(node, "FusedMatMul"))
		data_product(w, node, result);
	else if (a->kind == FACT_DATA && (node_is_contrib(node, "SkipLayerNormalization") || node_is_contrib(node, "BiasGelu") ||
									  node_is_contrib(node, "FastGelu") || node_is_contrib(node, "Gelu")))
		set_data(result, a);
}

void
facts_data(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	static const struct
	{
		const char *op;
		void		(*set) (struct walk *, const struct onnx_node *, struct fact *);
	}			ops[] = {
		{"Gather", data_gather}, {"Add", data_compute}, {"Sub", data_compute}, {"Mul", data_compute}, {"Div", data_compute},
		{"Pow", data_compute}, {"Where", data_where}, {"MatMul", data_product}, {"Gemm", data_product}, {"Erf", data_like},
		{"Tanh", data_like}, {"Sqrt", data_like}, {"Softmax", data_like}, {"Relu", data_like}, {"Sigmoid", data_like},
		{"Gelu", data_like}, {"LayerNormalization", data_like}, {"Cast", data_like}, {"Clip", data_like}, {"ReduceMean", data_reduce},
		{"ReduceSum", data_reduce}, {"ReduceL2", data_reduce}, {"Transpose", data_moved}, {"Reshape", data_moved},
		{"Expand", data_moved}, {"Unsqueeze", data_moved}, {"Squeeze", data_moved}, {"Slice", data_moved}
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (node_is(node, ops[i].op))
			ops[i].set(w, node, result);
	if (node->domain[0] != '\0')
		data_fused(w, node, result);
}
