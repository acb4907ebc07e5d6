/*
 * device_graph.c
 *	  What every device checks of a graph that it is to compile, whatever the ops.
 *
 * It is linked into devices of a library of their own, too.
 */
#include "device.h"

#include "../protocol/errors.h"
#include "status.h"

bool
device_graph_sound(const struct device_graph *graph, struct status *status)
{
	for (uint32_t o = 0; o < graph->ops_count; o++)
	{
		const struct device_op *op = &graph->ops[o];
		bool		sound = op->output >= 0 && (uint32_t) op->output < graph->tensors_count;

		for (uint32_t i = 0; i < op->inputs_count; i++)
			if (op->inputs[i] >= 0 && (uint32_t) op->inputs[i] >= graph->tensors_count)
				sound = false;
		if (op->op == DEVICE_OP_GEMM && (op->weight < 0 || (uint32_t) op->weight >= graph->weights_count))
			sound = false;
		if (!sound)
			return status_set(status, INFER_ERROR_INTERNAL, "primitive %u of the program names a tensor that does not exist", o);
	}
	for (uint32_t t = 0; t < graph->tensors_count; t++)
		if (graph->tensors[t].binding >= 0 && (uint32_t) graph->tensors[t].binding >= graph->bindings_count)
			return status_set(status, INFER_ERROR_INTERNAL, "tensor %u of the program names a binding that does not exist", t);
	return true;
}
