/*
 * lower.c
 *	  From nodes to ops: the model's inputs and constants become values, each node's operator
 *	  lowers it, and what an operator did not look at is refused.
 *
 * A graph that has a base (the same model for another length) borrows what the base has made of
 * constants alone.
 */
#include "../graph_internal.h"

#include <string.h>

#include "../../../protocol/protocol.h"

void
graph_init(struct graph *graph, struct graph_memory *memory, const struct onnx_model *model,
		   struct device *device, struct status *status)
{
	memset(graph, 0, sizeof(*graph));
	graph->memory = memory;
	graph->status = status;
	graph->model = model;
	graph->device = device;
}

/* ---- constants ---- */

/* The base's constant of that name, whose elements stay where they are; GRAPH_ABSENT: there is none. */
static int32_t
borrow_value(struct graph *graph, int32_t name)
{
	int32_t		there = graph->base == NULL ? GRAPH_ABSENT : graph->base->by_name[name], value;
	const struct graph_value *from, *root;

	if (!graph_is_constant(graph->base, there))
		return GRAPH_ABSENT;
	from = graph_value(graph->base, there);
	root = graph_value(graph->base, graph_root(graph->base, there));
	if (root->data == NULL && root->tensor == NULL)
		return GRAPH_ABSENT;
	value = graph_value_new(graph, from->type, from->rank, from->dims, false);
	if (value >= 0)
	{
		graph_value(graph, value)->name = from->name;
		graph_value(graph, value)->data = root->data;
		graph_value(graph, value)->tensor = root->tensor;
		graph_value(graph, value)->undefined = root->undefined;
		graph_value(graph, value)->undefined_by = root->undefined_by;
	}
	return value;
}

static bool
lower_constants(struct graph *graph)
{
	const struct onnx_model *model = graph->model;

	for (uint32_t i = 0; i < model->tensors_count; i++)
	{
		int32_t		name = model->tensors_names[i];
		int32_t		value = borrow_value(graph, name);

		if (value == GRAPH_ABSENT)
			value = graph_constant_tensor(graph, &model->tensors[i]);
		if (value < 0)
			return false;
		graph_value(graph, value)->name = model->names[name];
		graph->by_name[name] = value;
		graph->fixed[name] = true;
	}
	return true;
}

/* ---- nodes ---- */

static bool
check_attributes(struct graph *graph, const struct onnx_node *node)
{
	for (uint32_t i = 0; i < node->attributes_count; i++)
		if ((graph->attributes_read >> i & 1) == 0)
			return graph_unsupported(graph, node, "has the attribute \"%s\", which is not supported in version %u",
									 node->attributes[i].name, node->version);
	return true;
}

static bool
check_inputs(struct graph *graph, const struct onnx_node *node)
{
	for (uint32_t i = graph->inputs_read; i < node->inputs_count; i++)
		if (node->inputs[i] >= 0)
			return graph_unsupported(graph, node, "has the input %u (\"%.200s\"), which is not supported in version %u",
									 i, graph->model->names[node->inputs[i]], node->version);
	return true;
}

/* Whether a node depends on no input. */
static bool
node_is_fixed(const struct graph *graph, const struct onnx_node *node)
{
	for (uint32_t i = 0; i < node->inputs_count; i++)
		if (node->inputs[i] >= 0 && !graph->fixed[node->inputs[i]])
			return false;
	return true;
}

/* What the base has computed of a node that depends on no input; *borrowed: all of it.  False: status. */
static bool
borrow_node(struct graph *graph, const struct onnx_node *node, bool *borrowed)
{
	bool		fixed = node_is_fixed(graph, node);

	*borrowed = fixed && graph->base != NULL;
	for (uint32_t i = 0; i < node->outputs_count; i++)
	{
		int32_t		value;

		if (node->outputs[i] < 0)
			continue;
		graph->fixed[node->outputs[i]] = fixed;
		value = *borrowed ? borrow_value(graph, node->outputs[i]) : GRAPH_ABSENT;
		if (value == GRAPH_FAILED)
			return false;
		*borrowed = *borrowed && value >= 0;
		graph->by_name[node->outputs[i]] = value;
	}
	return true;
}

static bool
lower_node(struct graph *graph, const struct onnx_node *node)
{
	bool		name_known;
	const struct graph_operator *op = graph_operator_find(node, &name_known);
	bool		fine;

	graph->node = node;
	graph->attributes_read = 0;
	graph->inputs_read = 0;
	fine = op->lower(graph, node);
	if (!fine && graph->status->error == 0)
		status_set(graph->status, INFER_ERROR_INTERNAL, "operator %s failed and did not say why", node->op);
	fine = fine && graph->status->error == 0 && check_attributes(graph, node) &&
		check_inputs(graph, node);
	graph->node = NULL;
	return fine;
}

static bool
lower_outputs(struct graph *graph)
{
	const struct onnx_model *model = graph->model;

	graph->outputs = graph_pool(graph->memory, model->outputs_count, sizeof(*graph->outputs));
	if (graph->outputs == NULL)
		return false;
	for (uint32_t i = 0; i < model->outputs_count; i++)
	{
		const struct onnx_value *output = &model->outputs[i];
		const char *name = model->names[output->name];
		int32_t		value = graph->by_name[output->name];

		if (value < 0)
			return status_set(graph->status, INFER_ERROR_MODEL,
							  "the output \"%s\" is not given by the operator that should", name);
		if (output->kind == ONNX_VALUE_MAP || graph_value(graph, value)->map)
			return status_set(graph->status, INFER_ERROR_UNSUPPORTED, "the output \"%s\" is a map", name);
		if (strlen(name) >= INFER_NAME_MAX)
			return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
							  "an output's name is longer than %d bytes", INFER_NAME_MAX - 1);
		if (output->kind == ONNX_VALUE_TENSOR && output->type != 0 &&
			output->type != graph_value(graph, value)->type)
			return status_set(graph->status, INFER_ERROR_MODEL,
							  "the output \"%s\" is declared as %s and computed as %s", name,
							  infer_type_name(output->type),
							  infer_type_name(graph_value(graph, value)->type));
		graph->outputs[graph->outputs_count++] = value;
	}
	return true;
}

bool
graph_lower(struct graph *graph)
{
	const struct onnx_model *model = graph->model;

	if (!graph_operators_check(graph))
		return false;
	graph->by_name = graph_pool(graph->memory, model->names_count, sizeof(*graph->by_name));
	graph->fixed = graph_pool(graph->memory, model->names_count, sizeof(*graph->fixed));
	if (graph->queue == NULL)
		graph->queue = graph_folds(graph)->ops->queue_create(graph_folds(graph), DEVICE_CONSTANTS, graph->status);
	if (graph->by_name == NULL || graph->fixed == NULL || graph->queue == NULL)
		return false;
	for (uint32_t i = 0; i < model->names_count; i++)
		graph->by_name[i] = GRAPH_ABSENT;
	if (!graph_lower_inputs(graph) || !lower_constants(graph))
		return false;
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		bool		borrowed;

		if (!borrow_node(graph, &model->nodes[i], &borrowed) || (!borrowed && !lower_node(graph, &model->nodes[i])))
			return false;
	}
	return lower_outputs(graph);
}
