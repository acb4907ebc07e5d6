/*
 * operators.c
 *	  The table of ONNX operators, the families' tables end to end; and what of a model's is not in it.
 */
#include "graph_internal.h"

#include <stdio.h>
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

/* ---- operators that are missing ---- */

struct missing
{
	char		text[2][STATUS_TEXT_MAX - 128];	/* the message's list, and what did not fit */
	size_t		used[2];
	uint32_t	count;
	uint32_t	omitted;
};

static void
missing_add(struct missing *missing, const struct onnx_node *node, bool name_known)
{
	char		entry[512];
	char		version[16] = "";
	int			part;
	size_t		length;

	if (node->version > 0)
		snprintf(version, sizeof(version), " %u", node->version);
	snprintf(entry, sizeof(entry), "%.200s (%.200s%s%s)", node->op,
			 node->domain[0] == '\0' ? "ai.onnx" : node->domain, version,
			 name_known ? ", a version that is not supported" : "");
	length = strlen(entry);
	missing->count++;
	for (part = 0; part < 2; part++)
		if (missing->used[part] + length + 3 < sizeof(missing->text[part]) &&
			(part == 1 || missing->used[1] == 0))
			break;
	if (part == 2)
	{
		missing->omitted++;
		return;
	}
	missing->used[part] += (size_t) snprintf(missing->text[part] + missing->used[part],
											 sizeof(missing->text[part]) - missing->used[part],
											 "%s%s", missing->used[part] == 0 ? "" : ", ", entry);
}

static bool
same_operator(const struct onnx_node *a, const struct onnx_node *b)
{
	return strcmp(a->op, b->op) == 0 && strcmp(a->domain, b->domain) == 0;
}

bool
graph_operators_check(struct graph *graph)
{
	const struct onnx_model *model = graph->model;
	const struct onnx_node **seen = graph_pool(graph->memory, model->nodes_count, sizeof(*seen));
	uint32_t	seen_count = 0;
	struct missing missing = {0};

	if (seen == NULL)
		return false;
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		const struct onnx_node *node = &model->nodes[i];
		bool		name_known;
		uint32_t	j = 0;

		if (graph_operator_find(node, &name_known) != NULL)
			continue;
		while (j < seen_count && !same_operator(seen[j], node))
			j++;
		if (j < seen_count)
			continue;
		if (seen_count < 1000)		/* more cannot be shown, and need not be told apart */
			seen[seen_count++] = node;
		missing_add(&missing, node, name_known);
	}
	if (missing.count == 0)
		return true;
	status_set(graph->status, INFER_ERROR_UNSUPPORTED, "the model uses %s not supported: %s",
			   missing.count == 1 ? "an operator that is" : "operators that are", missing.text[0]);
	if (missing.omitted > 0)
		status_detail(graph->status, "Further: %s, and %u more.", missing.text[1], missing.omitted);
	else if (missing.used[1] > 0)
		status_detail(graph->status, "Further: %s.", missing.text[1]);
	status_hint(graph->status, "Use what docs/models.md lists for infer " INFER_VERSION ", or export to other operators.");
	return false;
}
