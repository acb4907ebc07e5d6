/*
 * norm.c
 *	  Operators that scale by what they find along an axis, or by learned statistics:
 *	  Softmax and its kin, LpNormalization, BatchNormalization (inference), LayerNormalization,
 *	  RMSNormalization.
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

/* Refuses the training mode, in the words of each version, and statistics for each element. */
static bool
batch_norm_check_mode(struct graph *graph, const struct onnx_node *node)
{
	int64_t		flag;

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
	return true;
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
	if (!batch_norm_check_mode(graph, node))
		return false;

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

/* ---- LayerNormalization, RMSNormalization ---- */

struct layer						/* what both have in common */
{
	int32_t		x;					/* in the type that is computed in */
	uint8_t		type;				/* of the input and the output */
	uint32_t	axes;				/* axis and all that follow */
	double		epsilon;
	int64_t		count;				/* elements that are one vector */
};

static bool
layer_read(struct graph *graph, const struct onnx_node *node, struct layer *layer)
{
	int64_t		axis_given, stash;
	int			axis;
	const struct graph_value *x;

	layer->x = graph_input(graph, node, 0);
	if (layer->x < 0 || !graph_attribute_int(graph, node, "axis", -1, &axis_given) ||
		!graph_attribute_float(graph, node, "epsilon", 1e-5f, &layer->epsilon) ||
		!graph_attribute_int(graph, node, "stash_type", ONNX_FLOAT, &stash))
		return false;
	if (stash != ONNX_FLOAT && stash != ONNX_DOUBLE)
		return graph_unsupported(graph, node, "computes in the type %s", onnx_type_name(stash));
	x = graph_value(graph, layer->x);
	layer->type = x->type;
	if (!graph_axis(graph, node, axis_given, x->rank, &axis))
		return false;
	layer->axes = 0;
	layer->count = 1;
	for (int i = axis; i < x->rank; i++)
	{
		layer->axes |= 1u << i;
		layer->count *= x->dims[i];
	}
	if (stash == ONNX_DOUBLE)
		layer->x = graph_cast(graph, layer->x, DEVICE_F64);
	return layer->x >= 0;
}

/* 1 / sqrt(mean(d²) + epsilon) of each vector. */
static int32_t
layer_scale(struct graph *graph, const struct layer *layer, int32_t d)
{
	uint8_t		type = graph_value(graph, layer->x)->type;
	int32_t		sum = graph_reduce(graph, REDUCE_SUM_SQUARE, d, layer->axes, true);

	sum = graph_binary(graph, BINARY_DIV, sum, graph_constant_number(graph, type, (double) layer->count));
	sum = graph_binary(graph, BINARY_ADD, sum, graph_constant_number(graph, type, layer->epsilon));
	return graph_unary(graph, UNARY_RECIPROCAL, graph_unary(graph, UNARY_SQRT, sum, 0, 0), 0, 0);
}

static bool
lower_layer_normalization(struct graph *graph, const struct onnx_node *node)
{
	struct layer layer;
	int32_t		bias = graph_input_optional(graph, node, 2);
	int32_t		mean, scale, y;

	if (bias == GRAPH_FAILED || !layer_read(graph, node, &layer))
		return false;
	mean = graph_reduce(graph, REDUCE_MEAN, layer.x, layer.axes, true);
	y = graph_binary(graph, BINARY_SUB, layer.x, mean);
	scale = layer_scale(graph, &layer, y);
	y = graph_cast(graph, graph_binary(graph, BINARY_MUL, y, scale), layer.type);
	y = graph_binary(graph, BINARY_MUL, y, graph_input(graph, node, 1));
	if (bias != GRAPH_ABSENT)
		y = graph_binary(graph, BINARY_ADD, y, bias);
	if (!graph_output(graph, node, 0, y))
		return false;
	if (graph_output_wanted(node, 1) && !graph_output(graph, node, 1, mean))
		return false;
	return !graph_output_wanted(node, 2) || graph_output(graph, node, 2, scale);
}

static bool
lower_rms_normalization(struct graph *graph, const struct onnx_node *node)
{
	struct layer layer;
	int32_t		y;

	if (!layer_read(graph, node, &layer))
		return false;
	y = graph_binary(graph, BINARY_MUL, layer.x, layer_scale(graph, &layer, layer.x));
	return graph_output(graph, node, 0,
						graph_binary(graph, BINARY_MUL, graph_cast(graph, y, layer.type),
									 graph_input(graph, node, 1)));
}

const struct graph_operator graph_norm_operators[] = {
	{"", "Softmax", 1, 25, lower_softmax},
	{"", "LogSoftmax", 1, 25, lower_log_softmax},
	{"", "Hardmax", 1, 25, lower_hardmax},
	{"", "LpNormalization", 1, 25, lower_lp_normalization},
	{"", "BatchNormalization", 6, 25, lower_batch_normalization},
	{"", "LayerNormalization", 17, 25, lower_layer_normalization},
	{"", "RMSNormalization", 23, 25, lower_rms_normalization},
	{NULL}
};
