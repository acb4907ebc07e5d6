/*
 * node.c
 *	  What an operator asks of its node: inputs, outputs, attributes, refusals.  See graph.h.
 */
#include "graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "graph_internal.h"

static const char *const attribute_type_names[] = {
	"nothing", "a number", "an integer", "a string", "a tensor", "a graph", "numbers", "integers",
	"strings", "tensors", "graphs", "a sparse tensor", "sparse tensors", "a type", "types"
};

/* ---- refusals ---- */

static bool
refuse(struct graph *graph, const struct onnx_node *node, uint32_t error, const char *format,
	   va_list args)
{
	char		text[STATUS_TEXT_MAX / 2];

	vsnprintf(text, sizeof(text), format, args);
	if (node == NULL)
		return status_set(graph->status, error, "the graph %s", text);
	if (node->name[0] == '\0')
		return status_set(graph->status, error, "operator %s (node %u) %s", node->op, node->index, text);
	return status_set(graph->status, error, "operator %s (node %u, \"%.200s\") %s", node->op,
					  node->index, node->name, text);
}

bool
graph_malformed(struct graph *graph, const struct onnx_node *node, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	refuse(graph, node, INFER_ERROR_MODEL, format, args);
	va_end(args);
	return false;
}

bool
graph_unsupported(struct graph *graph, const struct onnx_node *node, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	refuse(graph, node, INFER_ERROR_UNSUPPORTED, format, args);
	va_end(args);
	return false;
}

const char *
graph_node_label(const struct graph *graph, int32_t node, char *text, size_t size)
{
	const struct onnx_node *n;

	if (node < 0 || (uint32_t) node >= graph->model->nodes_count)
	{
		snprintf(text, size, "a constant");
		return text;
	}
	n = &graph->model->nodes[node];
	if (n->name[0] == '\0')
		snprintf(text, size, "%s (node %d)", n->op, node);
	else
		snprintf(text, size, "%s (node %d, \"%.100s\")", n->op, node, n->name);
	return text;
}

/* ---- inputs and outputs ---- */

int32_t
graph_input_optional(struct graph *graph, const struct onnx_node *node, uint32_t i)
{
	int32_t		value;

	if (i >= graph->inputs_read)
		graph->inputs_read = i + 1;
	if (i >= node->inputs_count || node->inputs[i] < 0)
		return GRAPH_ABSENT;
	value = graph->by_name[node->inputs[i]];
	if (value < 0)
	{
		graph_malformed(graph, node, "takes \"%s\", an output that its operator does not give here",
						graph->model->names[node->inputs[i]]);
		return GRAPH_FAILED;
	}
	if (graph_value(graph, value)->map && strcmp(node->op, "DictVectorizer") != 0)
	{
		graph_unsupported(graph, node, "takes a map");
		return GRAPH_FAILED;
	}
	if (graph_value(graph, value)->maps)
	{
		graph_unsupported(graph, node, "takes a sequence of maps");
		return GRAPH_FAILED;
	}
	return value;
}

int32_t
graph_input(struct graph *graph, const struct onnx_node *node, uint32_t i)
{
	int32_t		value = graph_input_optional(graph, node, i);

	if (value != GRAPH_ABSENT)
		return value;
	graph_malformed(graph, node, "has no input %u", i);
	return GRAPH_FAILED;
}

bool
graph_output_wanted(const struct onnx_node *node, uint32_t i)
{
	return i < node->outputs_count && node->outputs[i] >= 0;
}

bool
graph_output(struct graph *graph, const struct onnx_node *node, uint32_t i, int32_t value)
{
	if (value < 0)
		return graph->status->error == 0 ?
			status_set(graph->status, INFER_ERROR_INTERNAL, "operator %s gave nothing", node->op) : false;
	if (!graph_output_wanted(node, i))
		return true;

	/* an input handed on unchanged gets a name of its own, so that each output is one value */
	if (graph_value(graph, value)->name != NULL)
	{
		int64_t		dims[DEVICE_RANK_MAX];
		int			rank = graph_value(graph, value)->rank;

		memcpy(dims, graph_value(graph, value)->dims, sizeof(dims));
		value = graph_view(graph, value, rank, dims);
		if (value < 0)
			return false;
	}
	graph_value(graph, value)->name = graph->model->names[node->outputs[i]];
	graph->by_name[node->outputs[i]] = value;
	return true;
}

/* ---- attributes ---- */

static const struct onnx_attribute *
attribute_find(struct graph *graph, const struct onnx_node *node, const char *name)
{
	for (uint32_t i = 0; i < node->attributes_count; i++)
		if (strcmp(node->attributes[i].name, name) == 0)
		{
			if (graph != NULL)
				graph->attributes_read |= UINT64_C(1) << i;
			return &node->attributes[i];
		}
	return NULL;
}

static bool
attribute_check(struct graph *graph, const struct onnx_node *node,
				const struct onnx_attribute *attribute, uint32_t type)
{
	if (attribute->type == type)
		return true;
	return graph_malformed(graph, node, "has %s in its attribute \"%s\", not %s",
						   attribute_type_names[attribute->type], attribute->name,
						   attribute_type_names[type]);
}

bool
graph_attribute_has(const struct onnx_node *node, const char *name)
{
	return attribute_find(NULL, node, name) != NULL;
}

void
graph_attribute_ignore(struct graph *graph, const struct onnx_node *node, const char *name)
{
	attribute_find(graph, node, name);
}

bool
graph_attribute_int(struct graph *graph, const struct onnx_node *node, const char *name,
					int64_t fallback, int64_t *out)
{
	const struct onnx_attribute *attribute = attribute_find(graph, node, name);

	*out = fallback;
	if (attribute == NULL)
		return true;
	if (!attribute_check(graph, node, attribute, ONNX_ATTRIBUTE_INT))
		return false;
	*out = attribute->i;
	return true;
}

bool
graph_attribute_float(struct graph *graph, const struct onnx_node *node, const char *name,
					  double fallback, double *out)
{
	const struct onnx_attribute *attribute = attribute_find(graph, node, name);

	*out = fallback;
	if (attribute == NULL)
		return true;
	if (!attribute_check(graph, node, attribute, ONNX_ATTRIBUTE_FLOAT))
		return false;
	*out = attribute->f;
	return true;
}

bool
graph_attribute_string(struct graph *graph, const struct onnx_node *node, const char *name,
					   const char *fallback, const char **out)
{
	const struct onnx_attribute *attribute = attribute_find(graph, node, name);

	*out = fallback;
	if (attribute == NULL)
		return true;
	if (!attribute_check(graph, node, attribute, ONNX_ATTRIBUTE_STRING))
		return false;
	*out = graph_pool_text(graph->memory, attribute->s.data, attribute->s.length);
	return *out != NULL;
}

bool
graph_attribute_list(struct graph *graph, const struct onnx_node *node, const char *name,
					 uint32_t type, const struct onnx_attribute **out)
{
	*out = attribute_find(graph, node, name);
	if (*out == NULL)
		return true;
	if (!attribute_check(graph, node, *out, type))
		return false;
	if (type == ONNX_ATTRIBUTE_TENSOR && (*out)->tensor->type == ONNX_TENSOR_BYTES)
		return graph_unsupported(graph, node, "has the attribute \"%s\" of type uint8", name);
	return true;
}

bool
graph_attribute_numbers(struct graph *graph, const struct onnx_node *node, const char *name,
						uint8_t *type, uint32_t *count, const void **data)
{
	const struct onnx_attribute *attribute = attribute_find(graph, node, name);
	void	   *copy;

	*type = 0;
	*count = 0;
	*data = NULL;
	if (attribute == NULL)
		return true;
	if (!attribute_check(graph, node, attribute, ONNX_ATTRIBUTE_TENSOR))
		return false;
	if (attribute->tensor->elements > INT32_MAX)
		return graph_unsupported(graph, node, "has the attribute \"%s\" of more than %d elements", name, INT32_MAX);
	if (attribute->tensor->type == DEVICE_STRING)
		return graph_malformed(graph, node, "has texts in the attribute \"%s\"", name);
	*type = attribute->tensor->type;
	*count = (uint32_t) attribute->tensor->elements;
	copy = graph_pool(graph->memory, *count, *type == ONNX_TENSOR_BYTES ? 1 : device_type_bytes(*type));
	*data = copy;
	return copy != NULL && onnx_tensor_read(attribute->tensor, copy, graph->status);
}
