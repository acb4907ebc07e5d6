/*
 * missing.c
 *	  Which inputs may have missing values (NaN).
 *
 * A name may carry a missing value if every node that takes it either knows what to do
 * with one or hands it on to such nodes only, and if it is no output.
 */
#include "../graph_internal.h"

#include <string.h>

/*
 * skl2onnx writes the trees of scikit-learn's own decision trees and forests with every missing
 * value on the right, wherever training had sent it.  Such a file does not know.
 */
static bool
trees_know_missing(const struct onnx_model *model, const struct onnx_node *node)
{
	if (strcmp(model->producer, "skl2onnx") != 0)
		return true;
	for (uint32_t a = 0; a < node->attributes_count; a++)
		if (node->attributes[a].type == ONNX_ATTRIBUTE_INTS &&
			strcmp(node->attributes[a].name, "nodes_missing_value_tracks_true") == 0)
			for (uint32_t i = 0; i < node->attributes[a].count; i++)
				if (node->attributes[a].ints[i] != 0)
					return true;
	return false;
}

static bool
node_accepts_missing(const struct onnx_model *model, const struct onnx_node *node, const bool *accepts)
{
	bool		name_known;
	const struct graph_operator *op = graph_operator_find(node, &name_known);

	if (op == NULL || op->missing == GRAPH_MISSING_COMPUTES)
		return false;
	if (op->missing == GRAPH_MISSING_TAKES)
		return strncmp(op->name, "TreeEnsemble", 12) != 0 || trees_know_missing(model, node);
	for (uint32_t i = 0; i < node->outputs_count; i++)
		if (node->outputs[i] >= 0 && !accepts[node->outputs[i]])
			return false;
	return true;
}

static bool
node_is(const struct onnx_node *node, const char *op, uint32_t inputs_count)
{
	return node->domain[0] == '\0' && strcmp(node->op, op) == 0 && node->inputs_count == inputs_count;
}

/*
 * Of each name, what it says "is missing" of, or -1: what IsNaN gives.  NULL if there is no
 * memory.
 */
static const int32_t *
names_tested(struct graph *graph)
{
	const struct onnx_model *model = graph->model;
	int32_t    *tested = graph_pool(graph->memory, model->names_count, sizeof(*tested));

	if (tested == NULL)
		return NULL;
	for (uint32_t i = 0; i < model->names_count; i++)
		tested[i] = -1;
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		const struct onnx_node *node = &model->nodes[i];

		if (node_is(node, "IsNaN", 1) && node->outputs_count == 1 && node->outputs[0] >= 0)
			tested[node->outputs[0]] = node->inputs[0];
	}
	return tested;
}

/* Where(IsNaN(x), …, x) puts something in the place of what is missing. */
static bool
input_is_filled(const struct onnx_node *node, uint32_t input, const int32_t *tested)
{
	return input == 2 && node_is(node, "Where", 3) && node->inputs[0] >= 0 &&
		tested[node->inputs[0]] == node->inputs[2];
}

void
graph_missing_inputs(struct graph *graph)
{
	const struct onnx_model *model = graph->model;
	bool	   *accepts = graph_pool(graph->memory, model->names_count, sizeof(*accepts));
	bool	   *taken = graph_pool(graph->memory, model->names_count, sizeof(*taken));
	const int32_t *tested = names_tested(graph);

	if (accepts == NULL || taken == NULL || tested == NULL)
		return;
	for (uint32_t i = 0; i < model->names_count; i++)
		accepts[i] = true;
	for (uint32_t i = 0; i < model->outputs_count; i++)
		accepts[model->outputs[i].name] = false;
	for (uint32_t i = model->nodes_count; i-- > 0;)		/* users come before makers */
	{
		const struct onnx_node *node = &model->nodes[i];
		bool		fine = node_accepts_missing(model, node, accepts);

		for (uint32_t j = 0; j < node->inputs_count; j++)
			if (node->inputs[j] >= 0)
			{
				taken[node->inputs[j]] = true;
				accepts[node->inputs[j]] = accepts[node->inputs[j]] && (fine || input_is_filled(node, j, tested));
			}
	}
	for (uint32_t i = 0; i < graph->inputs_count; i++)
	{
		int32_t		name = model->inputs[i].name;

		graph->inputs[i].missing = taken[name] && accepts[name];
	}
}
