/*
 * reduce.c
 *	  Operators that make one number of many: the Reduce family, ArgMax and ArgMin.
 *
 * Where the axes stand changed with the version: an attribute at first, an input from 13
 * (ReduceSum) or 18 (the others) on.
 */
#include "../graph.h"

/*
 * The axes as a bit mask; all of them if none are given.  *none says that none were.
 */
static bool
reduce_axes(struct graph *graph, const struct onnx_node *node, bool by_input, int rank,
			uint32_t *axes, bool *none)
{
	int64_t		list[DEVICE_RANK_MAX];
	const int64_t *ints = list;
	int			count = 0;

	if (by_input)
	{
		int32_t		input = graph_input_optional(graph, node, 1);

		if (input == GRAPH_FAILED)
			return false;
		if (input != GRAPH_ABSENT)
			count = graph_ints(graph, input, "axes", list, DEVICE_RANK_MAX);
		if (count < 0)
			return false;
	}
	else
	{
		const struct onnx_attribute *attribute;

		if (!graph_attribute_list(graph, node, "axes", ONNX_ATTRIBUTE_INTS, &attribute))
			return false;
		if (attribute != NULL)
		{
			ints = attribute->ints;
			count = (int) attribute->count;
		}
	}
	*none = count == 0;
	*axes = count == 0 ? (1u << rank) - 1 : 0;
	for (int i = 0; i < count; i++)
	{
		int			axis;

		if (!graph_axis(graph, node, ints[i], rank, &axis))
			return false;
		*axes |= 1u << axis;
	}
	return true;
}

static bool
lower_reduce(struct graph *graph, const struct onnx_node *node, uint16_t fn, uint32_t input_since)
{
	int32_t		x = graph_input(graph, node, 0);
	bool		by_input = node->version >= input_since;
	int64_t		keep;
	int64_t		noop = 0;
	uint32_t	axes;
	bool		none;
	uint8_t		type;

	if (x == GRAPH_FAILED ||
		!graph_attribute_int(graph, node, "keepdims", 1, &keep) ||
		(by_input && !graph_attribute_int(graph, node, "noop_with_empty_axes", 0, &noop)) ||
		!reduce_axes(graph, node, by_input, graph_value(graph, x)->rank, &axes, &none))
		return false;
	if (none && noop != 0)
		axes = 0;				/* each element alone: what the function makes of one */
	type = graph_value(graph, x)->type;
	if (type == DEVICE_BOOL)
		x = graph_cast(graph, x, DEVICE_I32);
	x = graph_reduce(graph, fn, x, axes, keep != 0);
	if (type == DEVICE_BOOL)
		x = graph_cast(graph, x, DEVICE_BOOL);
	return graph_output(graph, node, 0, x);
}

#define REDUCE(name, fn, since) \
static bool \
lower_##name(struct graph *graph, const struct onnx_node *node) \
{ \
	return lower_reduce(graph, node, fn, since); \
}

REDUCE(reduce_sum, REDUCE_SUM, 13)
REDUCE(reduce_mean, REDUCE_MEAN, 18)
REDUCE(reduce_max, REDUCE_MAX, 18)
REDUCE(reduce_min, REDUCE_MIN, 18)
REDUCE(reduce_prod, REDUCE_PROD, 18)
REDUCE(reduce_l1, REDUCE_L1, 18)
REDUCE(reduce_l2, REDUCE_L2, 18)
REDUCE(reduce_log_sum, REDUCE_LOG_SUM, 18)
REDUCE(reduce_log_sum_exp, REDUCE_LOG_SUM_EXP, 18)
REDUCE(reduce_sum_square, REDUCE_SUM_SQUARE, 18)

static bool
lower_arg(struct graph *graph, const struct onnx_node *node, uint16_t fn)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		axis_given;
	int64_t		keep;
	int64_t		last = 0;
	int			axis;

	if (x == GRAPH_FAILED ||
		!graph_attribute_int(graph, node, "axis", 0, &axis_given) ||
		!graph_attribute_int(graph, node, "keepdims", 1, &keep) ||
		(node->version >= 12 && !graph_attribute_int(graph, node, "select_last_index", 0, &last)) ||
		!graph_axis(graph, node, axis_given, graph_value(graph, x)->rank, &axis))
		return false;
	return graph_output(graph, node, 0, graph_arg(graph, fn, x, axis, keep != 0, last != 0));
}

static bool
lower_arg_max(struct graph *graph, const struct onnx_node *node)
{
	return lower_arg(graph, node, ARG_MAX);
}

static bool
lower_arg_min(struct graph *graph, const struct onnx_node *node)
{
	return lower_arg(graph, node, ARG_MIN);
}

const struct graph_operator graph_reduce_operators[] = {
	{"", "ReduceSum", 1, 25, lower_reduce_sum},
	{"", "ReduceMean", 1, 25, lower_reduce_mean},
	{"", "ReduceMax", 1, 25, lower_reduce_max},
	{"", "ReduceMin", 1, 25, lower_reduce_min},
	{"", "ReduceProd", 1, 25, lower_reduce_prod},
	{"", "ReduceL1", 1, 25, lower_reduce_l1},
	{"", "ReduceL2", 1, 25, lower_reduce_l2},
	{"", "ReduceLogSum", 1, 25, lower_reduce_log_sum},
	{"", "ReduceLogSumExp", 1, 25, lower_reduce_log_sum_exp},
	{"", "ReduceSumSquare", 1, 25, lower_reduce_sum_square},
	{"", "ArgMax", 1, 25, lower_arg_max},
	{"", "ArgMin", 1, 25, lower_arg_min},
	{NULL}
};
