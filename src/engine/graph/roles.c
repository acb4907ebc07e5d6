/*
 * roles.c
 *	  Classifiers that do not say so: labels picked by the place of the largest score.
 *
 * Exporters write the choice of a class as labels[ArgMax(scores)].  Where an output is
 * that, it is the label, and has these classes: an output of as many numbers that is computed
 * from those scores (raw scores made probabilities), or else is those scores.
 */
#include "graph_internal.h"

#include <string.h>

#include "../../protocol/protocol.h"

/* The op that computes a value, seen through casts; NULL for inputs and constants. */
static const struct graph_op *
producer_through_casts(const struct graph *graph, int32_t value)
{
	for (uint32_t steps = 0; steps < graph->ops_count; steps++)
	{
		int32_t		producer = graph_value(graph, value)->producer;
		const struct graph_op *op;

		if (producer < 0)
			return NULL;
		op = &graph->ops[producer];
		if (op->device.op != DEVICE_OP_CAST)
			return op;
		value = op->device.inputs[0];
	}
	return NULL;
}

/* Marks the roots of what is computed from scores; NULL and a status if there is no memory. */
static const bool *
dependents(struct graph *graph, int32_t scores)
{
	bool	   *marked = graph_pool(graph->memory, graph->values_count, sizeof(*marked));

	if (marked == NULL)
		return NULL;
	marked[graph_root(graph, scores)] = true;
	for (uint32_t i = 0; i < graph->ops_count; i++)
	{
		const struct device_op *op = &graph->ops[i].device;

		for (uint32_t k = 0; k < op->inputs_count; k++)
			if (op->inputs[k] >= 0 && marked[graph_root(graph, op->inputs[k])])
				marked[graph_root(graph, op->output)] = true;
	}
	return marked;
}

static bool
scores_mark(struct graph *graph, int32_t scores, int32_t labels)
{
	int32_t		list = graph_value(graph, labels)->type == DEVICE_I32 ?
		graph_cast(graph, labels, DEVICE_I64) : labels;
	const void *data = graph_data(graph, list);
	uint32_t	count = (uint32_t) graph_value(graph, labels)->elements;
	int32_t		root = graph_root(graph, scores);
	const bool *marked = dependents(graph, scores);
	int32_t		found = GRAPH_ABSENT;

	if (data == NULL || marked == NULL)
		return false;
	for (uint32_t i = 0; i < graph->outputs_count; i++)
	{
		int32_t		value = graph->outputs[i];
		const struct graph_value *output = graph_value(graph, value);

		/* Scores that their own operator named have the classes of an inner model, by number. */
		if ((output->role != INFER_ROLE_VALUE && output->role != INFER_ROLE_SCORES) || output->elements != count ||
			(output->type != DEVICE_F32 && output->type != DEVICE_F64) || !marked[graph_root(graph, value)])
			continue;
		if (found == GRAPH_ABSENT || graph_root(graph, found) == root)
			found = value;
	}
	return found == GRAPH_ABSENT ||
		graph_role_scores(graph, found, graph_value(graph, list)->type, count, data, false);
}

void
graph_roles(struct graph *graph)
{
	for (uint32_t i = 0; i < graph->outputs_count; i++)
	{
		struct graph_value *output = graph_value(graph, graph->outputs[i]);
		const struct graph_op *gather, *arg;
		const struct graph_value *labels;
		int32_t		scores;

		if (output->role != INFER_ROLE_VALUE || output->elements != 1 || !output->rows)
			continue;
		gather = producer_through_casts(graph, graph->outputs[i]);
		if (gather == NULL || gather->device.op != DEVICE_OP_GATHER ||
			!graph_is_constant(graph, gather->device.inputs[0]))
			continue;
		labels = graph_value(graph, gather->device.inputs[0]);
		if (labels->type != DEVICE_STRING && labels->type != DEVICE_I64 && labels->type != DEVICE_I32)
			continue;
		arg = producer_through_casts(graph, gather->device.inputs[1]);
		if (arg == NULL || arg->device.op != DEVICE_OP_ARG || arg->device.fn != ARG_MAX)
			continue;
		scores = arg->device.inputs[0];
		if (graph_value(graph, scores)->elements != labels->elements)
			continue;
		output->role = INFER_ROLE_LABEL;
		if (!scores_mark(graph, scores, gather->device.inputs[0]))
			return;
	}
}
