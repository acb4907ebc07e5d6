/*
 * constant.c
 *	  ONNX operators: constants, and shapes as values.
 *
 * Shapes are those at batch 1, all of them known, so Shape and Size are constants too.
 */
#include "../graph.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static int32_t
constant_numbers(struct graph *graph, const struct onnx_attribute *attribute)
{
	int64_t		dims[1] = {attribute->count};

	switch (attribute->type)
	{
		case ONNX_ATTRIBUTE_FLOATS:
			return graph_constant(graph, DEVICE_F32, 1, dims, attribute->floats);
		case ONNX_ATTRIBUTE_INTS:
			return graph_constant(graph, DEVICE_I64, 1, dims, attribute->ints);
		case ONNX_ATTRIBUTE_STRINGS:
			return graph_constant(graph, DEVICE_STRING, 1, dims, attribute->strings);
		case ONNX_ATTRIBUTE_FLOAT:
			return graph_constant(graph, DEVICE_F32, 0, NULL, &attribute->f);
		case ONNX_ATTRIBUTE_INT:
			return graph_constant(graph, DEVICE_I64, 0, NULL, &attribute->i);
		default:
			return graph_constant(graph, DEVICE_STRING, 0, NULL, &attribute->s);
	}
}

/* A copy of a tensor attribute's elements. */
static int32_t
constant_tensor(struct graph *graph, const struct onnx_tensor *tensor)
{
	void	   *data;
	int32_t		value = graph_constant_make(graph, tensor->type, tensor->rank, tensor->dims, &data);

	if (value >= 0 && !onnx_tensor_read(tensor, data, graph->status))
		return GRAPH_FAILED;
	return value;
}

static bool
lower_constant(struct graph *graph, const struct onnx_node *node)
{
	static const struct
	{
		const char *name;
		uint32_t	type;
	}			forms[] = {
		{"value", ONNX_ATTRIBUTE_TENSOR},
		{"value_float", ONNX_ATTRIBUTE_FLOAT}, {"value_floats", ONNX_ATTRIBUTE_FLOATS},
		{"value_int", ONNX_ATTRIBUTE_INT}, {"value_ints", ONNX_ATTRIBUTE_INTS},
		{"value_string", ONNX_ATTRIBUTE_STRING}, {"value_strings", ONNX_ATTRIBUTE_STRINGS}
	};

	if (node->attributes_count != 1)
		return graph_malformed(graph, node, "has not exactly one value");
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
	{
		const struct onnx_attribute *attribute;

		if (!graph_attribute_list(graph, node, forms[i].name, forms[i].type, &attribute))
			return false;
		if (attribute != NULL)
			return graph_output(graph, node, 0,
								attribute->tensor != NULL ? constant_tensor(graph, attribute->tensor) :
								constant_numbers(graph, attribute));
	}
	return graph_unsupported(graph, node, "has its value in \"%s\"", node->attributes[0].name);
}

static bool
lower_constant_of_shape(struct graph *graph, const struct onnx_node *node)
{
	const struct onnx_attribute *attribute;
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank = graph_ints(graph, graph_input(graph, node, 0), "shape", dims, DEVICE_RANK_MAX);
	int32_t		value;

	if (rank < 0 || !graph_attribute_list(graph, node, "value", ONNX_ATTRIBUTE_TENSOR, &attribute))
		return false;
	if (attribute != NULL && attribute->tensor->elements != 1)
		return graph_malformed(graph, node, "has a value that is not one element");
	value = attribute == NULL ? graph_constant_number(graph, DEVICE_F32, 0) :
		graph_view(graph, constant_tensor(graph, attribute->tensor), 0, NULL);
	return graph_output(graph, node, 0, graph_expand(graph, value, rank, dims));
}

/* [start, end) of the dimensions from version 15 on; all of them before. */
static bool
lower_shape(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		start, end;
	int			rank;

	if (x < 0)
		return false;
	rank = graph_value(graph, x)->rank;
	if (!graph_attribute_int(graph, node, "start", 0, &start) ||
		!graph_attribute_int(graph, node, "end", rank, &end))
		return false;
	start += start < 0 ? rank : 0;
	end += end < 0 ? rank : 0;
	start = start < 0 ? 0 : start > rank ? rank : start;
	end = end < start ? start : end > rank ? rank : end;
	return graph_output(graph, node, 0,
						graph_constant_ints(graph, (uint32_t) (end - start),
											graph_value(graph, x)->dims + start));
}

static bool
lower_size(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);

	if (x < 0)
		return false;
	return graph_output(graph, node, 0,
						graph_constant(graph, DEVICE_I64, 0, NULL, &graph_value(graph, x)->elements));
}

/* Element i of a range, in its type: integers exactly, floats as start + i · delta in double. */
static void
range_fill(uint8_t type, void *data, int64_t count, double start, double delta, int64_t start_int,
		   int64_t delta_int)
{
	for (int64_t i = 0; i < count; i++)
		switch (type)
		{
			case DEVICE_F32:
				((float *) data)[i] = (float) (start + (double) i * delta);
				break;
			case DEVICE_F64:
				((double *) data)[i] = start + (double) i * delta;
				break;
			case DEVICE_I32:
				((int32_t *) data)[i] = (int32_t) (start_int + i * delta_int);
				break;
			default:
				((int64_t *) data)[i] = start_int + i * delta_int;
				break;
		}
}

/* How many elements, which may be more than can be; -1: without end. */
static int64_t
range_count_ints(int64_t start, int64_t limit, int64_t delta)
{
	__int128	gap = delta > 0 ? (__int128) limit - start : (__int128) start - limit;
	__int128	step = delta > 0 ? delta : -(__int128) delta;
	__int128	count = delta == 0 ? -1 : gap <= 0 ? 0 : (gap + step - 1) / step;

	return count > INT64_MAX ? INT64_MAX : (int64_t) count;
}

static int64_t
range_count_floats(double start, double limit, double delta)
{
	double		count = ceil((limit - start) / delta);

	if (isnan(count))
		return -1;
	return count < 0 ? 0 : count >= (double) GRAPH_ELEMENTS_MAX ? GRAPH_ELEMENTS_MAX : (int64_t) count;
}

/* start, start + delta, … before limit; all three constants. */
static bool
lower_range(struct graph *graph, const struct onnx_node *node)
{
	static const char *const what[3] = {"start", "limit", "delta"};
	int32_t		inputs[3];
	double		numbers[3];
	int64_t		ints[3] = {0, 0, 0};
	int64_t		count;
	int32_t		value;
	void	   *data;
	uint8_t		type;

	for (uint32_t i = 0; i < 3; i++)
	{
		inputs[i] = graph_input(graph, node, i);
		if (!graph_number(graph, inputs[i], what[i], &numbers[i]))
			return false;
		if (graph_value(graph, inputs[i])->type == DEVICE_I64 &&
			graph_ints(graph, inputs[i], what[i], &ints[i], 1) != 1)
			return false;
		if (graph_value(graph, inputs[i])->type == DEVICE_I32)
			ints[i] = (int64_t) numbers[i];
	}
	type = graph_value(graph, inputs[0])->type;
	if (type != graph_value(graph, inputs[1])->type || type != graph_value(graph, inputs[2])->type ||
		type == DEVICE_BOOL)
		return graph_malformed(graph, node, "has a start, limit and delta that are not numbers of one type");
	count = type == DEVICE_F32 || type == DEVICE_F64 ? range_count_floats(numbers[0], numbers[1], numbers[2]) :
		range_count_ints(ints[0], ints[1], ints[2]);
	if (count < 0 || count >= GRAPH_ELEMENTS_MAX)
		return graph_malformed(graph, node, "has no end");
	value = graph_constant_make(graph, type, 1, &count, &data);
	if (value >= 0)
		range_fill(type, data, count, numbers[0], numbers[2], ints[0], ints[2]);
	return graph_output(graph, node, 0, value);
}

const struct graph_operator graph_constant_operators[] = {
	{"", "Constant", 1, 25, lower_constant, 0},
	{"", "ConstantOfShape", 9, 25, lower_constant_of_shape, 0},
	{"", "Range", 11, 25, lower_range, 0},
	{"", "Shape", 1, 25, lower_shape, 0},
	{"", "Size", 1, 25, lower_size, 0},
	{0}
};
