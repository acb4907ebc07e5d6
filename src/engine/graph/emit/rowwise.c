/*
 * rowwise.c
 *	  Ops that work along an axis.  See graph.h.
 */
#include "emit.h"

#include <inttypes.h>
#include <string.h>

int32_t
graph_reduce(struct graph *graph, uint16_t fn, int32_t x, uint32_t axes, bool keep)
{
	struct device_op op = {.op = DEVICE_OP_REDUCE, .fn = fn, .i = {axes, keep}};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank = 0;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!emit_is_number(from->type))
		return emit_refuse_type(graph, "a reduction", from->type);
	for (int i = 0; i < from->rank; i++)
	{
		if ((axes >> i & 1) == 0)
			dims[rank++] = from->dims[i];
		else if (keep)
			dims[rank++] = 1;
	}
	return graph_emit(graph, &op, 1, &x, from->type, rank, dims);
}

int32_t
graph_softmax(struct graph *graph, uint16_t fn, int32_t x, int axis, int following)
{
	struct device_op op = {.op = DEVICE_OP_SOFTMAX, .fn = fn, .i = {axis, following}};
	const struct graph_value *from;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!emit_is_float(from->type))
		return emit_refuse_type(graph, "softmax", from->type);
	return emit_like(graph, &op, x, from->type);
}

int32_t
graph_arg(struct graph *graph, uint16_t fn, int32_t x, int axis, bool keep, bool last)
{
	struct device_op op = {.op = DEVICE_OP_ARG, .fn = fn, .i = {axis, keep, last}};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank = 0;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!emit_is_number(from->type))
		return emit_refuse_type(graph, "the place of an extreme", from->type);
	if (axis < from->rank && from->dims[axis] == 0)
	{
		graph_malformed(graph, graph->node, "looks for an extreme among no elements");
		return GRAPH_FAILED;
	}
	for (int i = 0; i < from->rank; i++)
	{
		if (i != axis)
			dims[rank++] = from->dims[i];
		else if (keep)
			dims[rank++] = 1;
	}
	return graph_emit(graph, &op, 1, &x, DEVICE_I64, rank, dims);
}

int32_t
graph_normalize(struct graph *graph, uint16_t fn, int32_t x)
{
	struct device_op op = {.op = DEVICE_OP_NORMALIZE, .fn = fn};
	const struct graph_value *from;
	int32_t		y;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!emit_is_float(from->type))
		return emit_refuse_type(graph, "normalisation", from->type);
	y = emit_like(graph, &op, x, from->type);
	graph_role_copy(graph, y, x);
	return y;
}

int32_t
graph_cumsum(struct graph *graph, int32_t x, int axis, bool exclusive, bool reverse)
{
	struct device_op op = {.op = DEVICE_OP_CUMSUM, .i = {axis, exclusive, reverse}};
	const struct graph_value *from;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!emit_is_number(from->type))
		return emit_refuse_type(graph, "running sums", from->type);
	return emit_like(graph, &op, x, from->type);
}

int32_t
graph_topk(struct graph *graph, uint16_t fn, int32_t x, int axis, int64_t k)
{
	struct device_op op = {.op = DEVICE_OP_TOPK, .fn = fn, .i = {axis}};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!emit_is_number(from->type))
		return emit_refuse_type(graph, "the greatest elements", from->type);
	if (k < 0 || k > from->dims[axis])
	{
		graph_malformed(graph, graph->node, "asks for %" PRId64 " of %" PRId64 " elements", k, from->dims[axis]);
		return GRAPH_FAILED;
	}
	memcpy(dims, from->dims, sizeof(dims));
	dims[axis] = k;
	return graph_emit(graph, &op, 1, &x, DEVICE_I64, from->rank, dims);
}

int32_t
graph_couple(struct graph *graph, int32_t pairs, int64_t classes)
{
	struct device_op op = {.op = DEVICE_OP_COUPLE, .i = {classes}};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];

	if (pairs < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, pairs);
	memcpy(dims, from->dims, sizeof(dims));
	dims[from->rank - 1] = classes;
	return graph_emit(graph, &op, 1, &pairs, from->type, from->rank, dims);
}
