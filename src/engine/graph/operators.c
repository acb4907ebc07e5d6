/*
 * operators.c
 *	  The table of ONNX operators: the families' tables end to end.
 */
#include "graph.h"

#include <string.h>

const struct graph_operator *const graph_operator_families[] = {
	graph_linear_operators,
	graph_elementwise_operators,
	graph_activation_operators,
	graph_shape_operators,
	graph_constant_operators,
	graph_select_operators,
	graph_reduce_operators,
	graph_norm_operators,
	graph_ml_operators,
	graph_index_operators,
	graph_fill_operators,
	NULL
};

const struct graph_operator *
graph_operator_find(const struct onnx_node *node, bool *name_known)
{
	*name_known = false;
	for (int i = 0; graph_operator_families[i] != NULL; i++)
		for (const struct graph_operator *op = graph_operator_families[i]; op->name != NULL; op++)
		{
			if (strcmp(op->name, node->op) != 0 || strcmp(op->domain, node->domain) != 0)
				continue;
			*name_known = true;
			if (node->version >= op->first && node->version <= op->last)
				return op;
		}
	return NULL;
}
