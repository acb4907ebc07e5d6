/*
 * product.c
 *	  Products of matrices, and distances between vectors.  See graph.h.
 */
#include "emit.h"

#include <string.h>

int32_t
graph_matmul(struct graph *graph, int32_t a, int32_t b)
{
	struct device_op op = {.op = DEVICE_OP_MATMUL};
	int32_t		inputs[2] = {a, b};
	const struct graph_value *x, *y;
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank;

	if (a < 0 || b < 0)
		return GRAPH_FAILED;
	x = graph_value(graph, a);
	y = graph_value(graph, b);
	if (x->type != y->type)
		return emit_refuse_types(graph, x->type, y->type);
	if (!emit_is_number(x->type))
		return emit_refuse_type(graph, "a product", x->type);
	if (x->rank < 2 || y->rank < 2 || x->dims[x->rank - 1] != y->dims[y->rank - 2] ||
		!graph_broadcast(x->rank - 2, x->dims, y->rank - 2, y->dims, &rank, dims))
		return emit_refuse_shapes(graph, x, y);
	dims[rank] = x->dims[x->rank - 2];
	dims[rank + 1] = y->dims[y->rank - 1];
	return graph_emit(graph, &op, 2, inputs, x->type, rank + 2, dims);
}

int32_t
graph_gemm(struct graph *graph, int32_t x, int32_t matrix, bool transposed)
{
	struct device_op op = {.op = DEVICE_OP_GEMM, .fn = UNARY_NONE};
	int32_t		inputs[2] = {x, GRAPH_ABSENT};
	const struct graph_value *from, *weight;
	int64_t		dims[DEVICE_RANK_MAX];
	int32_t		y;

	if (x < 0 || matrix < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	weight = graph_value(graph, matrix);
	if (from->type != weight->type)
		return emit_refuse_types(graph, from->type, weight->type);
	if (!emit_is_float(from->type))
		return emit_refuse_type(graph, "a linear layer", from->type);
	if (from->rank < 1 || weight->rank != 2 || from->dims[from->rank - 1] != weight->dims[transposed ? 1 : 0])
		return emit_refuse_shapes(graph, from, weight);
	memcpy(dims, from->dims, sizeof(dims));
	dims[from->rank - 1] = weight->dims[transposed ? 0 : 1];
	y = graph_emit(graph, &op, 2, inputs, from->type, from->rank, dims);
	if (y >= 0)
	{
		graph->ops[graph_value(graph, y)->producer].matrix = matrix;
		graph->ops[graph_value(graph, y)->producer].transposed = transposed;
	}
	return y;
}

int32_t
graph_distance(struct graph *graph, int32_t x, int32_t points)
{
	struct device_op op = {.op = DEVICE_OP_DISTANCE};
	int32_t		inputs[2] = {x, points};
	const struct graph_value *from, *to;
	int64_t		dims[DEVICE_RANK_MAX];

	if (x < 0 || points < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	to = graph_value(graph, points);
	if (from->rank < 1 || to->rank != 2 || from->dims[from->rank - 1] != to->dims[1])
		return emit_refuse_shapes(graph, from, to);
	memcpy(dims, from->dims, sizeof(dims));
	dims[from->rank - 1] = to->dims[0];
	return graph_emit(graph, &op, 2, inputs, from->type, from->rank, dims);
}
