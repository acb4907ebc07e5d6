/*
 * elementwise.c
 *	  ONNX operators: arithmetic, comparison and logic with broadcasting.
 *
 * Before version 7 the second operand of a binary operator had to have the shape of
 * the first, or with broadcast = 1 that of a run of its dimensions beginning at axis.
 */
#include "../graph.h"

#include <string.h>

#include "../../../protocol/protocol.h"

/* The second operand of a version before 7, under the shape that broadcasts as it meant. */
static int32_t
legacy_operand(struct graph *graph, const struct onnx_node *node, int32_t a, int32_t b)
{
	const struct graph_value *x, *y;
	int64_t		broadcast, axis;
	int64_t		dims[DEVICE_RANK_MAX];

	if (node->version >= 7)
		return b;
	if (!graph_attribute_int(graph, node, "broadcast", 0, &broadcast) ||
		!graph_attribute_int(graph, node, "axis", -1, &axis) || a < 0 || b < 0)
		return GRAPH_FAILED;
	x = graph_value(graph, a);
	y = graph_value(graph, b);
	if (broadcast == 0)
	{
		if (x->rank == y->rank && memcmp(x->dims, y->dims, x->rank * sizeof(*dims)) == 0)
			return b;
		graph_malformed(graph, node, "has operands of different shapes without broadcast");
		return GRAPH_FAILED;
	}
	if (!graph_attribute_has(node, "axis"))
		axis = x->rank - y->rank;
	else if (axis < 0)
		axis += x->rank;
	if (axis < 0 || axis + y->rank > x->rank)
	{
		graph_malformed(graph, node, "has a broadcast axis that does not fit");
		return GRAPH_FAILED;
	}
	for (int i = 0; i < x->rank - axis; i++)
		dims[i] = i < y->rank ? y->dims[i] : 1;
	return graph_view(graph, b, (int) (x->rank - axis), dims);
}

/*
 * Whether x times y is x, and no other shape: y is a constant of ones.  Exporters end probabilities
 * so, which would then be of no known classes.
 */
static bool
is_times_one(struct graph *graph, int32_t x, int32_t y)
{
	const struct graph_value *value = graph_value(graph, x);
	const struct graph_value *ones = graph_value(graph, y);
	const void *data;

	if (ones->type != value->type || (ones->type != DEVICE_F32 && ones->type != DEVICE_F64) ||
		ones->rank > value->rank || ones->elements != 1 || !graph_is_constant(graph, y))
		return false;
	data = graph_data(graph, y);
	return data != NULL && (ones->type == DEVICE_F32 ? *(const float *) data == 1 : *(const double *) data == 1);
}

static bool
lower_mul(struct graph *graph, const struct onnx_node *node)
{
	int32_t		a = graph_input(graph, node, 0);
	int32_t		b = legacy_operand(graph, node, a, graph_input(graph, node, 1));

	if (a >= 0 && b >= 0 && is_times_one(graph, a, b))
		return graph_output(graph, node, 0, a);
	return graph_output(graph, node, 0, graph_binary(graph, BINARY_MUL, a, b));
}

static bool
lower_binary(struct graph *graph, const struct onnx_node *node, uint16_t fn)
{
	int32_t		a = graph_input(graph, node, 0);
	int32_t		b = legacy_operand(graph, node, a, graph_input(graph, node, 1));

	return graph_output(graph, node, 0, graph_binary(graph, fn, a, b));
}

#define BINARY_OPERATOR(name, fn) \
static bool \
name(struct graph *graph, const struct onnx_node *node) \
{ \
	return lower_binary(graph, node, fn); \
}

BINARY_OPERATOR(lower_add, BINARY_ADD)
BINARY_OPERATOR(lower_sub, BINARY_SUB)
BINARY_OPERATOR(lower_div, BINARY_DIV)
BINARY_OPERATOR(lower_equal, BINARY_EQUAL)
BINARY_OPERATOR(lower_less, BINARY_LESS)
BINARY_OPERATOR(lower_less_equal, BINARY_LESS_EQUAL)
BINARY_OPERATOR(lower_greater, BINARY_GREATER)
BINARY_OPERATOR(lower_greater_equal, BINARY_GREATER_EQUAL)
BINARY_OPERATOR(lower_and, BINARY_AND)
BINARY_OPERATOR(lower_or, BINARY_OR)
BINARY_OPERATOR(lower_xor, BINARY_XOR)
BINARY_OPERATOR(lower_bitwise_and, BINARY_BIT_AND)
BINARY_OPERATOR(lower_bitwise_or, BINARY_BIT_OR)
BINARY_OPERATOR(lower_bitwise_xor, BINARY_BIT_XOR)

/* The result has the type of the base; other exponents are computed in float64. */
static bool
lower_pow(struct graph *graph, const struct onnx_node *node)
{
	int32_t		a = graph_input(graph, node, 0);
	int32_t		b = legacy_operand(graph, node, a, graph_input(graph, node, 1));
	uint8_t		type;

	if (a < 0 || b < 0)
		return false;
	type = graph_value(graph, a)->type;
	if (type == graph_value(graph, b)->type)
		return graph_output(graph, node, 0, graph_binary(graph, BINARY_POW, a, b));
	if (type == DEVICE_BOOL || type == DEVICE_STRING || graph_value(graph, b)->type == DEVICE_BOOL ||
		graph_value(graph, b)->type == DEVICE_STRING)
		return graph_unsupported(graph, node, "asks for a power of type %s", infer_type_name(type));
	a = graph_binary(graph, BINARY_POW, graph_cast(graph, a, DEVICE_F64), graph_cast(graph, b, DEVICE_F64));
	return graph_output(graph, node, 0, graph_cast(graph, a, type));
}

static bool
lower_mod(struct graph *graph, const struct onnx_node *node)
{
	int32_t		a = graph_input(graph, node, 0);
	int64_t		fmod;

	if (a < 0 || !graph_attribute_int(graph, node, "fmod", 0, &fmod))
		return false;
	if (fmod == 0 && (graph_value(graph, a)->type == DEVICE_F32 || graph_value(graph, a)->type == DEVICE_F64))
		return graph_malformed(graph, node, "needs fmod = 1 for floating-point numbers");
	return lower_binary(graph, node, fmod != 0 ? BINARY_FMOD : BINARY_MOD);
}

/* A slope before version 7 is one per channel (axis 1) or one for all. */
static bool
lower_prelu(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		slope = graph_input(graph, node, 1);
	int32_t		y;

	if (x < 0 || slope < 0)
		return false;
	if (node->version < 7 && graph_value(graph, slope)->elements > 1 && graph_value(graph, x)->rank > 2)
	{
		int64_t		dims[DEVICE_RANK_MAX];
		int			rank = graph_value(graph, x)->rank - 1;

		for (int i = 0; i < rank; i++)
			dims[i] = i == 0 ? graph_value(graph, slope)->elements : 1;
		slope = graph_view(graph, slope, rank, dims);
	}
	y = graph_binary(graph, BINARY_PRELU, x, slope);
	if (y >= 0 && graph_value(graph, y)->elements != graph_value(graph, x)->elements)
		return graph_malformed(graph, node, "has a slope that is larger than its input");
	return graph_output(graph, node, 0, y);
}

/* Sum, Mean, Max, Min of any number of operands, from the left. */
static int32_t
fold_left(struct graph *graph, const struct onnx_node *node, uint16_t fn)
{
	int32_t		y = graph_input(graph, node, 0);

	for (uint32_t i = 1; i < node->inputs_count && y >= 0; i++)
		y = graph_binary(graph, fn, y, graph_input(graph, node, i));
	return y;
}

static bool
lower_sum(struct graph *graph, const struct onnx_node *node)
{
	return graph_output(graph, node, 0, fold_left(graph, node, BINARY_ADD));
}

static bool
lower_mean(struct graph *graph, const struct onnx_node *node)
{
	int32_t		sum = fold_left(graph, node, BINARY_ADD);

	if (sum < 0)
		return false;
	return graph_output(graph, node, 0,
						graph_binary(graph, BINARY_DIV, sum,
									 graph_constant_number(graph, graph_value(graph, sum)->type,
														   node->inputs_count)));
}

static bool
lower_max(struct graph *graph, const struct onnx_node *node)
{
	return graph_output(graph, node, 0, fold_left(graph, node, BINARY_MAX));
}

static bool
lower_min(struct graph *graph, const struct onnx_node *node)
{
	return graph_output(graph, node, 0, fold_left(graph, node, BINARY_MIN));
}

static bool
lower_where(struct graph *graph, const struct onnx_node *node)
{
	return graph_output(graph, node, 0, graph_where(graph, graph_input(graph, node, 0),
													graph_input(graph, node, 1),
													graph_input(graph, node, 2)));
}

static bool
lower_not(struct graph *graph, const struct onnx_node *node)
{
	return graph_output(graph, node, 0,
						graph_unary(graph, UNARY_NOT, graph_input(graph, node, 0), 0, 0));
}

/* All bits flipped are those that differ from -1's. */
static bool
lower_bitwise_not(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);

	if (x < 0)
		return false;
	return graph_output(graph, node, 0,
						graph_binary(graph, BINARY_BIT_XOR, x,
									 graph_constant_number(graph, graph_value(graph, x)->type, -1)));
}

const struct graph_operator graph_elementwise_operators[] = {
	{"", "Add", 6, 25, lower_add, GRAPH_MISSING_PASSES},
	{"", "And", 1, 25, lower_and, 0},
	{"", "Div", 6, 25, lower_div, GRAPH_MISSING_PASSES},
	{"", "Equal", 1, 25, lower_equal, 0},
	{"", "Greater", 1, 25, lower_greater, 0},
	{"", "GreaterOrEqual", 12, 25, lower_greater_equal, 0},
	{"", "Less", 1, 25, lower_less, 0},
	{"", "LessOrEqual", 12, 25, lower_less_equal, 0},
	{"", "Max", 6, 25, lower_max, 0},
	{"", "Mean", 6, 25, lower_mean, 0},
	{"", "Min", 6, 25, lower_min, 0},
	{"", "Mod", 10, 25, lower_mod, 0},
	{"", "Mul", 6, 25, lower_mul, GRAPH_MISSING_PASSES},
	{"", "Not", 1, 25, lower_not, 0},
	{"", "Or", 1, 25, lower_or, 0},
	{"", "Pow", 6, 25, lower_pow, 0},
	{"", "PRelu", 6, 25, lower_prelu, 0},
	{"", "Sub", 6, 25, lower_sub, GRAPH_MISSING_PASSES},
	{"", "Sum", 6, 25, lower_sum, 0},
	{"", "Where", 9, 25, lower_where, 0},
	{"", "Xor", 1, 25, lower_xor, 0},
	{"", "BitwiseAnd", 18, 25, lower_bitwise_and, 0},
	{"", "BitwiseNot", 18, 25, lower_bitwise_not, 0},
	{"", "BitwiseOr", 18, 25, lower_bitwise_or, 0},
	{"", "BitwiseXor", 18, 25, lower_bitwise_xor, 0},
	{0}
};
