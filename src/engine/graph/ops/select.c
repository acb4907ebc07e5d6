/*
 * select.c
 *	  ONNX operators: parts of values, and values put together.
 */
#include "../graph.h"

#include <inttypes.h>
#include <string.h>

static bool
lower_concat(struct graph *graph, const struct onnx_node *node)
{
	int32_t    *inputs = graph_pool(graph->memory, node->inputs_count, sizeof(*inputs));
	int64_t		attribute;
	int			axis;

	if (inputs == NULL || !graph_attribute_int(graph, node, "axis", 0, &attribute))
		return false;
	if (!graph_attribute_has(node, "axis"))
		return graph_malformed(graph, node, "has no attribute \"axis\"");
	for (uint32_t i = 0; i < node->inputs_count; i++)
	{
		inputs[i] = graph_input(graph, node, i);
		if (inputs[i] < 0)
			return false;
	}
	if (node->inputs_count == 0)
		return graph_malformed(graph, node, "has no inputs");
	if (!graph_axis(graph, node, attribute, graph_value(graph, inputs[0])->rank, &axis))
		return false;
	return graph_output(graph, node, 0, graph_concat(graph, node->inputs_count, inputs, axis));
}

static bool
lower_gather(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		indices = graph_input(graph, node, 1);
	int64_t		attribute;
	int			axis;

	if (x < 0 || indices < 0 || !graph_attribute_int(graph, node, "axis", 0, &attribute) ||
		!graph_axis(graph, node, attribute, graph_value(graph, x)->rank, &axis))
		return false;
	return graph_output(graph, node, 0, graph_gather(graph, x, indices, axis));
}

/* ---- Slice ---- */

struct slice						/* as written: one entry per named axis */
{
	int			count;
	int64_t		starts[DEVICE_RANK_MAX];
	int64_t		ends[DEVICE_RANK_MAX];
	int64_t		axes[DEVICE_RANK_MAX];
	int64_t		steps[DEVICE_RANK_MAX];
};

/* Before version 10: attributes, and no steps. */
static bool
slice_attributes(struct graph *graph, const struct onnx_node *node, struct slice *slice)
{
	const struct onnx_attribute *starts, *ends, *axes;

	if (!graph_attribute_list(graph, node, "starts", ONNX_ATTRIBUTE_INTS, &starts) ||
		!graph_attribute_list(graph, node, "ends", ONNX_ATTRIBUTE_INTS, &ends) ||
		!graph_attribute_list(graph, node, "axes", ONNX_ATTRIBUTE_INTS, &axes))
		return false;
	if (starts == NULL || ends == NULL || starts->count != ends->count ||
		starts->count > DEVICE_RANK_MAX || (axes != NULL && axes->count != starts->count))
		return graph_malformed(graph, node, "has starts, ends and axes that do not match");
	slice->count = (int) starts->count;
	memcpy(slice->starts, starts->ints, starts->count * sizeof(int64_t));
	memcpy(slice->ends, ends->ints, ends->count * sizeof(int64_t));
	for (int i = 0; i < slice->count; i++)
	{
		slice->axes[i] = axes == NULL ? i : axes->ints[i];
		slice->steps[i] = 1;
	}
	return true;
}

/* One of the optional lists; absent leaves what is there. */
static bool
slice_list(struct graph *graph, const struct onnx_node *node, uint32_t input, const char *what,
		   int64_t *list, int count)
{
	int32_t		value = graph_input_optional(graph, node, input);
	int			given;

	if (value == GRAPH_ABSENT)
		return true;
	given = graph_ints(graph, value, what, list, DEVICE_RANK_MAX);
	if (given >= 0 && given != count)
		return graph_malformed(graph, node, "has a %s of %d for %d axes", what, given, count);
	return given >= 0;
}

static bool
slice_inputs(struct graph *graph, const struct onnx_node *node, struct slice *slice)
{
	slice->count = graph_ints(graph, graph_input(graph, node, 1), "list of starts", slice->starts,
							  DEVICE_RANK_MAX);
	if (slice->count < 0)
		return false;
	for (int i = 0; i < slice->count; i++)
	{
		slice->axes[i] = i;
		slice->steps[i] = 1;
	}
	if (graph_input(graph, node, 2) < 0)
		return false;
	return slice_list(graph, node, 2, "list of ends", slice->ends, slice->count) &&
		slice_list(graph, node, 3, "list of axes", slice->axes, slice->count) &&
		slice_list(graph, node, 4, "list of steps", slice->steps, slice->count);
}

static int64_t
clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* NumPy's rule: a negative place counts from the end, then both are brought into range. */
static void
slice_axis(int64_t size, int64_t *start, int64_t end, int64_t step, int64_t *length)
{
	int64_t		from = *start < 0 ? (*start < -size ? -1 : *start + size) : *start;
	int64_t		to = end < 0 ? (end < -size ? -1 : end + size) : end;

	if (step > 0)
	{
		from = clamp(*start < 0 && *start < -size ? 0 : from, 0, size);
		to = clamp(to, 0, size);
		*length = to <= from ? 0 : (to - from - 1) / step + 1;
	}
	else
	{
		from = clamp(*start < 0 && *start < -size ? -1 : from, -1, size - 1);
		to = clamp(to, -1, size - 1);
		*length = from <= to ? 0 : (from - to - 1) / (step == INT64_MIN ? INT64_MAX : -step) + 1;
	}
	*start = *length == 0 ? 0 : from;
}

static bool
lower_slice(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	struct slice slice;
	int64_t		dims[DEVICE_RANK_MAX], strides[DEVICE_RANK_MAX];
	int64_t		start = 0, stride = 1;
	uint32_t	seen = 0;
	int			rank;

	if (x < 0 || !(node->version < 10 ? slice_attributes : slice_inputs) (graph, node, &slice))
		return false;
	rank = graph_value(graph, x)->rank;
	memcpy(dims, graph_value(graph, x)->dims, sizeof(dims));
	for (int i = rank - 1; i >= 0; i--)
	{
		strides[i] = stride;
		stride *= dims[i];
	}
	for (int i = 0; i < slice.count; i++)
	{
		int			axis;
		int64_t		from = slice.starts[i];

		if (!graph_axis(graph, node, slice.axes[i], rank, &axis))
			return false;
		if (slice.steps[i] == 0 || (seen >> axis & 1) != 0)
			return graph_malformed(graph, node, "has a step of 0 or the same axis twice");
		seen |= 1u << axis;
		slice_axis(dims[axis], &from, slice.ends[i], slice.steps[i], &dims[axis]);
		start += from * strides[axis];
		strides[axis] = dims[axis] <= 1 ? 0 : strides[axis] * slice.steps[i];
	}
	return graph_output(graph, node, 0, graph_copy(graph, x, rank, dims, start, strides));
}

/* ---- Split ---- */

/* Sizes: an attribute before version 13, then an input; else equal parts. */
static bool
split_sizes(struct graph *graph, const struct onnx_node *node, int64_t size, int64_t *sizes)
{
	uint32_t	parts = node->outputs_count;
	int64_t		declared, chunk;

	if (node->version < 13)
	{
		const struct onnx_attribute *split;

		if (!graph_attribute_list(graph, node, "split", ONNX_ATTRIBUTE_INTS, &split))
			return false;
		if (split != NULL)
		{
			if (split->count != parts)
				return graph_malformed(graph, node, "has %u sizes for %u outputs", split->count, parts);
			memcpy(sizes, split->ints, parts * sizeof(*sizes));
			return true;
		}
	}
	else if (graph_input_optional(graph, node, 1) != GRAPH_ABSENT)
	{
		int			given = graph_ints(graph, graph_input(graph, node, 1), "list of sizes", sizes,
									   (int) parts);

		if (given >= 0 && given != (int) parts)
			return graph_malformed(graph, node, "has %d sizes for %u outputs", given, parts);
		return given >= 0;
	}
	if (!graph_attribute_int(graph, node, "num_outputs", parts, &declared))
		return false;
	if (declared != parts)
		return graph_malformed(graph, node, "has %u outputs and declares %" PRId64, parts, declared);
	if (node->version < 18 && size % parts != 0)
		return graph_malformed(graph, node, "splits %" PRId64 " elements into %u equal parts", size, parts);
	chunk = (size + parts - 1) / parts;		/* the last part may be smaller */
	for (uint32_t i = 0; i < parts; i++)
		sizes[i] = i + 1 < parts ? chunk : size - chunk * (parts - 1);
	return true;
}

static bool
lower_split(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t    *sizes = graph_pool(graph->memory, node->outputs_count, sizeof(*sizes));
	int64_t		dims[DEVICE_RANK_MAX], strides[DEVICE_RANK_MAX];
	int64_t		attribute, size, at = 0, stride = 1;
	int			axis, rank;

	if (x < 0 || sizes == NULL || !graph_attribute_int(graph, node, "axis", 0, &attribute))
		return false;
	if (node->outputs_count == 0)
		return graph_malformed(graph, node, "has no outputs");
	rank = graph_value(graph, x)->rank;
	if (!graph_axis(graph, node, attribute, rank, &axis))
		return false;
	memcpy(dims, graph_value(graph, x)->dims, sizeof(dims));
	size = dims[axis];
	if (!split_sizes(graph, node, size, sizes))
		return false;
	for (int i = rank - 1; i >= 0; i--)
	{
		strides[i] = stride;
		stride *= dims[i];
	}
	for (uint32_t i = 0; i < node->outputs_count; i++)
	{
		if (sizes[i] < 0 || sizes[i] > size - at)
			return graph_malformed(graph, node, "has sizes that do not add up to %" PRId64, size);
		dims[axis] = sizes[i];
		if (graph_output_wanted(node, i) &&
			!graph_output(graph, node, i, graph_copy(graph, x, rank, dims, at * strides[axis], strides)))
			return false;
		at += sizes[i];
	}
	if (at != size)
		return graph_malformed(graph, node, "has sizes that do not add up to %" PRId64, size);
	return true;
}

const struct graph_operator graph_select_operators[] = {
	{"", "Concat", 4, 25, lower_concat, GRAPH_MISSING_PASSES},
	{"", "Gather", 1, 25, lower_gather, GRAPH_MISSING_PASSES},
	{"", "Slice", 1, 25, lower_slice, GRAPH_MISSING_PASSES},
	{"", "Split", 2, 25, lower_split, GRAPH_MISSING_PASSES},
	{0}
};
