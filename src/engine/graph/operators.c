/*
 * operators.c
 *	  The table of ONNX operators: the families' tables end to end.
 */
#include "graph.h"

#include <string.h>

static const struct graph_operator *const families[] = {
	graph_linear_operators,
	graph_elementwise_operators,
	graph_activation_operators,
	graph_shape_operators,
	graph_constant_operators,
	graph_select_operators,
	graph_reduce_operators,
	graph_norm_operators,
	graph_ml_operators
};

const struct graph_operator *
graph_operator_find(const struct onnx_node *node, bool *name_known)
{
	*name_known = false;
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		for (const struct graph_operator *op = families[i]; op->name != NULL; op++)
		{
			if (strcmp(op->name, node->op) != 0 || strcmp(op->domain, node->domain) != 0)
				continue;
			*name_known = true;
			if (node->version >= op->first && node->version <= op->last)
				return op;
		}
	return NULL;
}
