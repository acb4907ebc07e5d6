/*
 * emit.c
 *	  Ops: their place in the graph, whatever they are; the shape that each gives is in the
 *	  other files here.  See graph.h.
 */
#include "emit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../../protocol/protocol.h"

/* ---- the general form ---- */

int32_t
graph_emit(struct graph *graph, const struct device_op *template, uint32_t count,
		   const int32_t *inputs, uint8_t type, int rank, const int64_t *dims)
{
	struct graph_op *op;
	int32_t    *copy;
	int32_t		value;
	bool		rows = false;

	for (uint32_t i = 0; i < count; i++)
	{
		if (inputs[i] == GRAPH_FAILED)
			return GRAPH_FAILED;
		rows = rows || (inputs[i] >= 0 && graph_value(graph, inputs[i])->rows);
	}
	if (!rows)
	{
		struct device_op one = *template;

		one.inputs = inputs;
		one.inputs_count = count;
		return graph_fold(graph, &one, type, rank, dims);
	}
	value = graph_value_new(graph, type, rank, dims, true);
	copy = graph_pool(graph->memory, count, sizeof(*copy));
	if (value < 0 || copy == NULL ||
		!graph_pool_grow(graph->memory, &graph->ops, graph->ops_count, &graph->ops_space,
						 sizeof(*graph->ops), GRAPH_OPS_MAX, "ops"))
		return GRAPH_FAILED;
	memcpy(copy, inputs, count * sizeof(*copy));
	op = &graph->ops[graph->ops_count];
	memset(op, 0, sizeof(*op));
	op->device = *template;
	op->device.inputs = copy;
	op->device.inputs_count = count;
	op->device.output = value;
	op->device.weight = -1;
	op->device.node = graph->node == NULL ? -1 : (int32_t) graph->node->index;
	op->matrix = -1;
	graph_value(graph, value)->producer = (int32_t) graph->ops_count++;
	return value;
}

bool
graph_broadcast(int rank_a, const int64_t *dims_a, int rank_b, const int64_t *dims_b,
				int *rank, int64_t *dims)
{
	int			larger = rank_a > rank_b ? rank_a : rank_b;

	for (int i = 0; i < larger; i++)
	{
		int			at_a = i - (larger - rank_a);
		int			at_b = i - (larger - rank_b);
		int64_t		a = at_a < 0 ? 1 : dims_a[at_a];
		int64_t		b = at_b < 0 ? 1 : dims_b[at_b];

		if (a != b && a != 1 && b != 1)
			return false;
		dims[i] = a == 1 ? b : a;
	}
	*rank = larger;
	return true;
}

/* ---- refusals ---- */

static const char *
type_name(uint8_t type)
{
	return infer_type_name(type);
}

/* "[3,4]" for messages. */
static const char *
shape_text(const struct graph_value *value, char *text, size_t size)
{
	size_t		used = 0;

	text[0] = '\0';
	for (int i = 0; i <= value->rank && used < size; i++)
		used += (size_t) (i == value->rank ? snprintf(text + used, size - used, "%s]", i == 0 ? "[" : "") :
						  snprintf(text + used, size - used, "%s%" PRId64, i == 0 ? "[" : ",",
								   value->dims[i]));
	return text;
}

int32_t
emit_refuse_type(struct graph *graph, const char *what, uint8_t type)
{
	graph_unsupported(graph, graph->node, "asks for %s of type %s", what, type_name(type));
	return GRAPH_FAILED;
}

int32_t
emit_refuse_types(struct graph *graph, uint8_t a, uint8_t b)
{
	graph_malformed(graph, graph->node, "mixes the types %s and %s", type_name(a), type_name(b));
	return GRAPH_FAILED;
}

int32_t
emit_refuse_shapes(struct graph *graph, const struct graph_value *a, const struct graph_value *b)
{
	char		text_a[128], text_b[128];

	graph_malformed(graph, graph->node, "has shapes that do not fit: %s and %s",
					shape_text(a, text_a, sizeof(text_a)), shape_text(b, text_b, sizeof(text_b)));
	return GRAPH_FAILED;
}

int32_t
emit_like(struct graph *graph, const struct device_op *op, int32_t x, uint8_t type)
{
	const struct graph_value *from = graph_value(graph, x);
	int64_t		dims[DEVICE_RANK_MAX];	/* the values may move */

	memcpy(dims, from->dims, sizeof(dims));
	return graph_emit(graph, op, 1, &x, type, from->rank, dims);
}
