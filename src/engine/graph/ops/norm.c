/*
 * norm.c
 *	  Operators that scale by what they find along an axis, or by learned statistics:
 *	  Softmax and its kin, LpNormalization, BatchNormalization (inference).
 */
#include "../graph.h"

/*
 * Before version 13 these flatten: the axis and all that follow are one.  From 13 on
 * they work along the axis alone, and its default changed from 1 to the last.
 */
static bool
lower_softmax_kind(struct graph *graph, const struct onnx_node *node, uint16_t fn)
{
	int32_t		x = graph_input(graph, node, 0);
	bool		flattens = node->version < 13;
	int64_t		axis_given;
	int			axis;
	int			rank;

	if (x == GRAPH_FAILED || !graph_attribute_int(graph, node, "axis", flattens ? 1 : -1, &axis_given))
		return false;
	rank = graph_value(graph, x)->rank;
	if (flattens && axis_given == rank)
		return graph_unsupported(graph, node, "works along an axis behind the last dimension");
	if (!graph_axis(graph, node, axis_given, rank, &axis))
		return false;
	return graph_output(graph, node, 0,
						graph_softmax(graph, fn, x, axis, flattens ? rank - axis - 1 : 0));
}

static bool
lower_softmax(struct graph *graph, const struct onnx_node *node)
{
	return lower_softmax_kind(graph, node, SOFTMAX_PLAIN);
}

static bool
lower_log_softmax(struct graph *graph, const struct onnx_node *node)
{
	return lower_softmax_kind(graph, node, SOFTMAX_LOG);
}

static bool
lower_hardmax(struct graph *graph, const struct onnx_node *node)
{
	return lower_softmax_kind(graph, node, SOFTMAX_HARD);
}

/* x / |x|; not a number where the norm is 0. */
static bool
lower_lp_normalization(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		axis_given;
	int64_t		p;
	int			axis;

	if (x == GRAPH_FAILED ||
		!graph_attribute_int(graph, node, "axis", -1, &axis_given) ||
		!graph_attribute_int(graph, node, "p", 2, &p) ||
		!graph_axis(graph, node, axis_given, graph_value(graph, x)->rank, &axis))
		return false;
	if (p != 1 && p != 2)
		return graph_malformed(graph, node, "has p = %lld, which is not 1 or 2", (long long) p);
	return graph_output(graph, node, 0,
						graph_binary(graph, BINARY_DIV, x,
									 graph_reduce(graph, p == 1 ? REDUCE_L1 : REDUCE_L2, x, 1u << axis, true)));
}

/* One of the statistics, of type type and with a dimension of 1 for each that follows x's second. */
static int32_t
batch_norm_column(struct graph *graph, int32_t value, uint8_t type, int x_rank)
{
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank = x_rank < 2 ? 1 : x_rank - 1;

	value = graph_cast(graph, value, type);
	if (value < 0)
		return value;
	dims[0] = graph_value(graph, value)->elements;
	for (int i = 1; i < rank; i++)
		dims[i] = 1;
	return graph_view(graph, value, rank, dims);
}

/*
 * y = (x - mean) / sqrt(var + epsilon) · scale + b, as y = x · k + c: what is a constant is
 * computed in double precision once, and a linear layer before it takes both up.
 */
static bool
lower_batch_normalization(struct graph *graph, const struct onnx_node *node)
{
	int32_t		inputs[5];
	int32_t		k;
	int32_t		c;
	int32_t		deviation;
	bool		constant = true;
	double		epsilon;
	int64_t		flag;
	int64_t		channels;
	uint8_t		type;
	int			rank;

	for (uint32_t i = 0; i < 5; i++)
	{
		inputs[i] = graph_input(graph, node, i);
		if (inputs[i] == GRAPH_FAILED)
			return false;
		constant = constant && (i == 0 || graph_is_constant(graph, inputs[i]));
	}
	if (!graph_attribute_float(graph, node, "epsilon", 1e-5, &epsilon))
		return false;
	graph_attribute_ignore(graph, node, "momentum");	/* of the training mode alone */
	if (node->version < 7)
	{
		if (!graph_attribute_int(graph, node, "is_test", 0, &flag))
			return false;
		if (flag == 0)
			return graph_unsupported(graph, node, "is in training mode (is_test is 0)");
	}
	if (node->version < 9)
	{
		if (!graph_attribute_int(graph, node, "spatial", 1, &flag))
			return false;
		if (flag == 0)
			return graph_unsupported(graph, node, "has statistics for each element (spatial is 0)");
	}
	if (node->version >= 14)
	{
		if (!graph_attribute_int(graph, node, "training_mode", 0, &flag))
			return false;
		if (flag != 0)
			return graph_unsupported(graph, node, "is in training mode");
	}
	for (uint32_t i = 1; i < node->outputs_count; i++)
		if (graph_output_wanted(node, i))
			return graph_unsupported(graph, node, "has outputs of the training mode");

	type = graph_value(graph, inputs[0])->type;
	rank = graph_value(graph, inputs[0])->rank;
	channels = rank < 2 ? 1 : graph_value(graph, inputs[0])->dims[1];
	for (uint32_t i = 1; i < 5; i++)
	{
		if (graph_value(graph, inputs[i])->rank != 1 || graph_value(graph, inputs[i])->elements != channels)
			return graph_malformed(graph, node, "has statistics that are not one for each of %lld channels",
								   (long long) channels);
		inputs[i] = batch_norm_column(graph, inputs[i], constant ? DEVICE_F64 : type, rank);
	}
	deviation = graph_unary(graph, UNARY_SQRT,
							graph_binary(graph, BINARY_ADD, inputs[4],
										 graph_constant_number(graph, constant ? DEVICE_F64 : type, epsilon)), 0, 0);
	k = graph_binary(graph, BINARY_DIV, inputs[1], deviation);
	c = graph_binary(graph, BINARY_SUB, inputs[2], graph_binary(graph, BINARY_MUL, inputs[3], k));
	k = graph_cast(graph, k, type);
	c = graph_cast(graph, c, type);
	return graph_output(graph, node, 0,
						graph_binary(graph, BINARY_ADD, graph_binary(graph, BINARY_MUL, inputs[0], k), c));
}

const struct graph_operator graph_norm_operators[] = {
	{"", "Softmax", 1, 25, lower_softmax},
	{"", "LogSoftmax", 1, 25, lower_log_softmax},
	{"", "Hardmax", 1, 25, lower_hardmax},
	{"", "LpNormalization", 1, 25, lower_lp_normalization},
	{"", "BatchNormalization", 6, 25, lower_batch_normalization},
	{NULL}
};
