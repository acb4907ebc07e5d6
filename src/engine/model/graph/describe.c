/*
 * describe.c
 *	  What a graph does, node by node, for people: the part of infer-engine check PATH that
 *	  the signature does not tell.
 */
#include "graph_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../graph/graph_internal.h"

static void
print_shape(uint32_t rank, const int64_t *dims)
{
	printf("[");
	for (uint32_t i = 0; i < rank; i++)
		printf("%s%" PRId64, i == 0 ? "" : ",", dims[i]);
	printf("]");
}

static void
print_op(const struct graph_model *m, const struct graph_op *op)
{
	const struct graph *graph = &m->graph;
	const struct graph_value *output = graph_value(graph, op->device.output);
	const char *function = device_function_name(&op->device);

	printf("      %s", device_op_name(&op->device));
	if (op->device.op == DEVICE_OP_GEMM && op->scale != NULL)
		printf(" with folded normalisation");
	if (op->device.op == DEVICE_OP_GEMM && op->device.inputs[1] >= 0)
		printf(" + bias");
	if (function[0] != '\0')
		printf("%s%s", op->device.op == DEVICE_OP_GEMM ? " + " : " ", function);
	printf(" ");
	for (uint32_t i = 0; i < op->device.inputs_count && i < 3; i++)
		if (op->device.inputs[i] >= 0 && (op->device.op != DEVICE_OP_GEMM || i == 0))
		{
			const struct graph_value *input = graph_value(graph, op->device.inputs[i]);

			if (!input->rows)
				printf("constant ");
			print_shape(input->rank, input->dims);
			printf(" ");
		}
	if (op->device.inputs_count > 3)
		printf("… ");
	if (op->matrix >= 0)
	{
		printf("packed ");
		print_shape(2, graph_value(graph, op->matrix)->dims);
		printf(op->transposed ? " transposed " : " ");
	}
	printf("-> %s ", infer_type_name(output->type));
	print_shape(output->rank, output->dims);
	printf(", one per row\n");
}

/* For each node, the node of the op that took it up, or -1. */
static int32_t *
fused_hosts(const struct graph *graph)
{
	int32_t    *hosts = malloc((graph->model->nodes_count + 1) * sizeof(*hosts));

	if (hosts == NULL)
		return NULL;
	for (uint32_t i = 0; i < graph->model->nodes_count; i++)
		hosts[i] = -1;
	for (uint32_t i = 0; i < graph->program_ops_count; i++)
	{
		const struct graph_op *op = &graph->ops[graph->program_ops[i]];

		for (uint32_t j = 0; j < op->fused_count; j++)
			hosts[op->fused[j]] = op->device.node;
	}
	return hosts;
}

static bool
outputs_constant(const struct graph *graph, const struct onnx_node *node)
{
	for (uint32_t i = 0; i < node->outputs_count; i++)
		if (node->outputs[i] >= 0 && graph->by_name[node->outputs[i]] >= 0 &&
			graph_value(graph, graph->by_name[node->outputs[i]])->rows)
			return false;
	return true;
}

/* A node and its ops, which begin at *next: ops are in the order of their nodes. */
static void
print_node(const struct graph_model *m, const struct onnx_node *node, int32_t host, uint32_t *next)
{
	const struct graph *graph = &m->graph;
	char		label[512];
	bool		any = false, removed = false;

	printf("  %s:", graph_node_label(graph, (int32_t) node->index, label, sizeof(label)));
	for (; *next < graph->ops_count && graph->ops[*next].device.node <= (int32_t) node->index; (*next)++)
	{
		const struct graph_op *op = &graph->ops[*next];

		removed = removed || op->removed;
		if (op->removed)
			continue;
		if (!any)
			printf("\n");
		any = true;
		print_op(m, op);
	}
	if (host >= 0)
		printf("%sfused into %s\n", any ? "      " : " ", graph_node_label(graph, host, label, sizeof(label)));
	else if (!any)
		printf(" %s\n", removed ? "not needed" : outputs_constant(graph, node) ? "constant, computed at load" :
			   "a view of its input");
}

void
graph_model_describe(struct model *model)
{
	const struct graph_model *m = (const struct graph_model *) model;
	int32_t    *hosts = fused_hosts(&m->graph);
	uint32_t	next = 0;

	printf("\nproducer	%s\n", m->onnx.producer);
	printf("per row	%" PRIu64 " bytes of activations\n", m->row_bytes);
	printf("on the host	%" PRIu64 " bytes of graph and constants\n", m->memory.used);
	printf("nodes	%u, lowered to %u ops that run for each row; %u were computed at load\n", m->onnx.nodes_count,
		   m->graph.program_ops_count, m->graph.folded);
	for (uint32_t i = 0; i < m->onnx.nodes_count; i++)
		print_node(m, &m->onnx.nodes[i], hosts == NULL ? -1 : hosts[i], &next);
	free(hosts);
}
