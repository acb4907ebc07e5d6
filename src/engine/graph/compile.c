/*
 * compile.c
 *	  From the graph to the device's program: what the device does not compute is refused,
 *	  matrices are packed (weights.c), tensors get their places, and constants that only the packing
 *	  needed are given back.
 */
#include "graph_internal.h"

#include <stdio.h>
#include <string.h>

#include "../../protocol/protocol.h"

struct compiler
{
	struct graph *graph;
	struct device_tensor *tensors;
	uint32_t	tensors_count;
	struct device_op *ops;
	uint32_t	ops_count;
	int32_t    *packed;				/* by root of a matrix, and transposed: its weight, or -1 */
};

/* ---- tensors ---- */

static bool
compile_tensor(struct compiler *c, int32_t value)
{
	struct graph *graph = c->graph;
	struct graph_value *v = graph_value(graph, value);
	struct device_tensor *tensor;
	const struct graph_value *root;

	if (v->tensor_index >= 0)
		return true;
	tensor = &c->tensors[c->tensors_count];
	root = graph_value(graph, graph_root(graph, value));
	memset(tensor, 0, sizeof(*tensor));
	tensor->type = v->type;
	tensor->lead = v->rows ? DEVICE_LEAD_ROWS : DEVICE_LEAD_NONE;
	tensor->rank = v->rank;
	memcpy(tensor->dims, v->dims, sizeof(tensor->dims));
	tensor->binding = v->rows ? root->binding : -1;
	tensor->offset = root->offset;
	if (!v->rows)
	{
		tensor->constant = graph_data(graph, value);
		if (tensor->constant == NULL)
			return false;
	}
	v->tensor_index = (int32_t) c->tensors_count++;
	return true;
}

static bool
compile_op(struct compiler *c, const struct graph_op *op)
{
	struct graph *graph = c->graph;
	struct device_op *out = &c->ops[c->ops_count];
	int32_t    *inputs = graph_pool(graph->memory, op->device.inputs_count, sizeof(*inputs));

	if (inputs == NULL)
		return false;
	*out = op->device;
	out->inputs = inputs;
	for (uint32_t i = 0; i < op->device.inputs_count; i++)
	{
		inputs[i] = -1;
		if (op->device.inputs[i] < 0)
			continue;
		if (!compile_tensor(c, op->device.inputs[i]))
			return false;
		inputs[i] = graph_value(graph, op->device.inputs[i])->tensor_index;
	}
	if (!compile_tensor(c, op->device.output))
		return false;
	out->output = graph_value(graph, op->device.output)->tensor_index;
	graph->program_ops[c->ops_count++] = (uint32_t) (op - graph->ops);
	return true;
}

/* One error for all ops that the device does not compute. */
static bool
check_support(struct compiler *c)
{
	struct graph *graph = c->graph;
	char		list[STATUS_TEXT_MAX - 128] = "";
	size_t		used = 0;
	uint32_t	count = 0;

	for (uint32_t i = 0; i < c->ops_count; i++)
	{
		const struct device_op *op = &c->ops[i];
		const char *function = device_function_name(op);
		uint32_t	kernel = graph->device->ops->supports(graph->device, op, c->tensors);
		char		label[512];

		graph->ops[graph->program_ops[i]].on_host = (kernel & DEVICE_SUPPORTS_HOST) != 0;
		if (kernel != 0)
			continue;
		count++;
		graph_node_label(graph, op->node, label, sizeof(label));
		if (used < sizeof(list))
			used += (size_t) snprintf(list + used, sizeof(list) - used, "%s%s needs %s%s%s of %s",
									  count == 1 ? "" : ", ", label, device_op_name(op),
									  function[0] == '\0' ? "" : " ", function,
									  infer_type_name(c->tensors[op->output].type));
	}
	if (count == 0)
		return true;
	return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
					  "the device does not compute what the model needs: %s", list);
}

/* ---- weights ---- */

/* Packs each matrix once; one that two products share is shared. */
static bool
pack_weights(struct compiler *c)
{
	struct graph *graph = c->graph;

	for (uint32_t i = 0; i < c->ops_count; i++)
	{
		const struct graph_op *op = &graph->ops[graph->program_ops[i]];
		int32_t    *known;

		if (c->ops[i].op != DEVICE_OP_GEMM)
			continue;
		known = &c->packed[2 * graph_root(graph, op->matrix) + op->transposed];
		if (op->scale == NULL && *known >= 0)
		{
			c->ops[i].weight = *known;
			continue;
		}
		if (!graph_weight(graph, op, &c->ops[i].weight))
			return false;
		if (op->scale == NULL)
			*known = c->ops[i].weight;
	}
	return true;
}

/* Gives back the constants that neither an op nor an output reads; of a base, those that can be decoded again. */
static void
release_constants(struct graph *graph)
{
	bool	   *needed = graph_pool(graph->memory, graph->values_count, sizeof(*needed));

	if (needed == NULL)
		return;
	for (uint32_t i = 0; i < graph->values_count; i++)
		if (graph->values[i].tensor_index >= 0)
			needed[graph_root(graph, (int32_t) i)] = true;
	for (uint32_t i = 0; i < graph->outputs_count; i++)
		needed[graph_root(graph, graph->outputs[i])] = true;
	for (uint32_t i = 0; i < graph->values_count; i++)
	{
		struct graph_value *value = &graph->values[i];

		if (value->owned != NULL && !needed[i] && (value->tensor != NULL || !graph->keeps))
		{
			graph_block_free(graph->memory, value->owned);
			value->owned = NULL;
			value->data = NULL;
		}
	}
}

static bool
compile_arrays(struct compiler *c)
{
	struct graph *graph = c->graph;
	uint64_t	arguments = 0;

	for (uint32_t i = 0; i < graph->ops_count; i++)
		arguments += graph->ops[i].device.inputs_count + 1;
	c->tensors = graph_pool(graph->memory, arguments, sizeof(*c->tensors));
	c->ops = graph_pool(graph->memory, graph->ops_count, sizeof(*c->ops));
	c->packed = graph_pool(graph->memory, (uint64_t) graph->values_count * 2, sizeof(*c->packed));
	graph->program_ops = graph_pool(graph->memory, graph->ops_count, sizeof(*graph->program_ops));
	graph->weights = graph_pool(graph->memory, graph->ops_count, sizeof(*graph->weights));
	graph->sources = graph_pool(graph->memory, graph->ops_count, sizeof(*graph->sources));
	if (c->tensors == NULL || c->ops == NULL || c->packed == NULL || graph->program_ops == NULL ||
		graph->weights == NULL || graph->sources == NULL)
		return false;
	memset(c->packed, 0xFF, (size_t) graph->values_count * 2 * sizeof(*c->packed));
	return true;
}

bool
graph_compile(struct graph *graph)
{
	struct compiler c = {.graph = graph};
	struct device_graph program = {0};

	if (!graph_plan(graph) || !compile_arrays(&c))
		return false;
	for (uint32_t i = 0; i < graph->ops_count; i++)
		if (!graph->ops[i].removed && !compile_op(&c, &graph->ops[i]))
			return false;
	graph->program_ops_count = c.ops_count;
	for (uint32_t i = 0; i < graph->outputs_count; i++)
		if (!graph_value(graph, graph->outputs[i])->rows && graph_data(graph, graph->outputs[i]) == NULL)
			return false;
	if (!check_support(&c) || !pack_weights(&c))
		return false;
	program.tensors_count = c.tensors_count;
	program.tensors = c.tensors;
	program.ops_count = c.ops_count;
	program.ops = c.ops;
	program.weights_count = graph->weights_count;
	program.weights = graph->weights;
	program.bindings_count = graph->bindings_count;
	program.arena_item_bytes[DEVICE_LEAD_ROWS] = graph->arena_item_bytes;
	graph->constants_bytes = device_constants_bytes(c.tensors, c.tensors_count);
	graph->program = graph->device->ops->compile(graph->device, &program, graph->status);
	if (graph->program == NULL)
		return status_set(graph->status, INFER_ERROR_DEVICE, "the device could not compile the model");
	release_constants(graph);
	return graph_packed_form(graph);
}

void
graph_queue_free(struct graph *graph)
{
	if (graph->queue != NULL)
		graph_folds(graph)->ops->queue_free(graph->queue);
	graph->queue = NULL;
}

void
graph_release(struct graph *graph)
{
	const struct device_ops *device = graph->device == NULL ? NULL : graph->device->ops;

	if (device == NULL)
		return;
	if (graph->program != NULL)
		device->program_free(graph->device, graph->program);
	for (uint32_t i = 0; i < graph->weights_count; i++)
		if (!graph->sources[i].borrowed)
			device->weight_free(graph->device, graph->weights[i]);
	graph_queue_free(graph);
	graph->program = NULL;
	graph->weights_count = 0;
}
