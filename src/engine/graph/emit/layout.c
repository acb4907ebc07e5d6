/*
 * layout.c
 *	  Ops that move elements, and the places they move to.  See graph.h.
 */
#include "emit.h"

#include <string.h>

int32_t
graph_copy(struct graph *graph, int32_t x, int rank, const int64_t *dims, int64_t start,
		   const int64_t *strides)
{
	struct device_op op = {.op = DEVICE_OP_COPY};
	int64_t		lowest = start, highest = start;
	int64_t		elements = 1;

	if (x < 0)
		return GRAPH_FAILED;
	if (rank > DEVICE_RANK_MAX)
	{
		graph_unsupported(graph, graph->node, "gives %d dimensions; at most %d are supported", rank,
						  DEVICE_RANK_MAX);
		return GRAPH_FAILED;
	}
	op.i[0] = start;
	for (int d = 0; d < rank; d++)
	{
		op.i[1 + d] = strides[d];
		elements = dims[d] == 0 ? 0 : elements;
		if (dims[d] > 0)
			*(strides[d] < 0 ? &lowest : &highest) += (dims[d] - 1) * strides[d];
	}
	if (elements > 0 && (lowest < 0 || highest >= graph_value(graph, x)->elements))
	{
		graph_malformed(graph, graph->node, "reads past the end of its input");
		return GRAPH_FAILED;
	}
	return graph_emit(graph, &op, 1, &x, graph_value(graph, x)->type, rank, dims);
}

/* Strides of a row-major shape, in elements. */
static void
shape_strides(const struct graph_value *value, int64_t *strides)
{
	int64_t		stride = 1;

	for (int i = value->rank - 1; i >= 0; i--)
	{
		strides[i] = stride;
		stride *= value->dims[i];
	}
}

int32_t
graph_transpose(struct graph *graph, int32_t x, const int *axes)
{
	const struct graph_value *from;
	int64_t		strides[DEVICE_RANK_MAX], dims[DEVICE_RANK_MAX], steps[DEVICE_RANK_MAX];
	int			last = -1;
	bool		moved = false;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	shape_strides(from, strides);
	for (int i = 0; i < from->rank; i++)
	{
		dims[i] = from->dims[axes[i]];
		steps[i] = strides[axes[i]];
		if (dims[i] == 1)
			continue;				/* moving a dimension of 1 moves nothing */
		moved = moved || axes[i] < last;
		last = axes[i];
	}
	if (!moved)
		return graph_view(graph, x, from->rank, dims);
	return graph_copy(graph, x, from->rank, dims, 0, steps);
}

int32_t
graph_expand(struct graph *graph, int32_t x, int rank, const int64_t *dims)
{
	const struct graph_value *from;
	int64_t		strides[DEVICE_RANK_MAX], steps[DEVICE_RANK_MAX] = {0};
	int			shift;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	shift = rank - from->rank;
	shape_strides(from, strides);
	for (int i = 0; i < from->rank; i++)
	{
		if (shift < 0 || (from->dims[i] != dims[i + shift] && from->dims[i] != 1))
		{
			graph_malformed(graph, graph->node, "expands a shape to one that it does not fit");
			return GRAPH_FAILED;
		}
		steps[i + shift] = from->dims[i] == 1 ? 0 : strides[i];
	}
	return graph_copy(graph, x, rank, dims, 0, steps);
}

int32_t
graph_concat(struct graph *graph, uint32_t count, const int32_t *inputs, int axis)
{
	struct device_op op = {.op = DEVICE_OP_CONCAT, .i = {axis}};
	const struct graph_value *first;
	int64_t		dims[DEVICE_RANK_MAX];

	if (count == 0 || inputs[0] < 0)
		return GRAPH_FAILED;
	first = graph_value(graph, inputs[0]);
	memcpy(dims, first->dims, sizeof(dims));
	for (uint32_t i = 1; i < count; i++)
	{
		const struct graph_value *other;

		if (inputs[i] < 0)
			return GRAPH_FAILED;
		other = graph_value(graph, inputs[i]);
		if (other->type != first->type)
			return emit_refuse_types(graph, first->type, other->type);
		if (other->rank != first->rank)
			return emit_refuse_shapes(graph, first, other);
		for (int d = 0; d < first->rank; d++)
			if (d != axis && other->dims[d] != first->dims[d])
				return emit_refuse_shapes(graph, first, other);
		if (__builtin_add_overflow(dims[axis], other->dims[axis], &dims[axis]))
			return emit_refuse_shapes(graph, first, other);
	}
	if (count == 1)
		return graph_view(graph, inputs[0], first->rank, dims);
	return graph_emit(graph, &op, count, inputs, first->type, first->rank, dims);
}

int32_t
graph_gather(struct graph *graph, int32_t x, int32_t indices, int axis)
{
	struct device_op op = {.op = DEVICE_OP_GATHER, .i = {axis}};
	int32_t		inputs[2] = {x, indices};
	const struct graph_value *from, *at;
	int64_t		dims[2 * DEVICE_RANK_MAX];
	int			rank = 0;

	if (x < 0 || indices < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	at = graph_value(graph, indices);
	if (at->type != DEVICE_I32 && at->type != DEVICE_I64)
		return emit_refuse_type(graph, "indices", at->type);
	for (int i = 0; i < axis; i++)
		dims[rank++] = from->dims[i];
	for (int i = 0; i < at->rank; i++)
		dims[rank++] = at->dims[i];
	for (int i = axis + 1; i < from->rank; i++)
		dims[rank++] = from->dims[i];
	return graph_emit(graph, &op, 2, inputs, from->type, rank, dims);
}

int32_t
graph_offset(struct graph *graph, int32_t indices, const int64_t *sizes, int64_t factor)
{
	struct device_op op = {.op = DEVICE_OP_OFFSET};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];

	if (indices < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, indices);
	if (from->type != DEVICE_I32 && from->type != DEVICE_I64)
		return emit_refuse_type(graph, "indices", from->type);
	if (from->rank < 1 || from->dims[from->rank - 1] > DEVICE_RANK_MAX)
	{
		graph_malformed(graph, graph->node, "has indices that name more dimensions than there are");
		return GRAPH_FAILED;
	}
	memcpy(op.i, sizes, (size_t) from->dims[from->rank - 1] * sizeof(*sizes));
	op.i[DEVICE_RANK_MAX] = factor;
	memcpy(dims, from->dims, sizeof(dims));
	return graph_emit(graph, &op, 1, &indices, DEVICE_I64, from->rank - 1, dims);
}

int32_t
graph_scatter(struct graph *graph, uint16_t fn, int32_t x, int32_t places, int32_t updates)
{
	struct device_op op = {.op = DEVICE_OP_SCATTER, .fn = fn};
	int32_t		inputs[3] = {x, places, updates};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];

	if (x < 0 || places < 0 || updates < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (from->type != graph_value(graph, updates)->type)
		return emit_refuse_types(graph, from->type, graph_value(graph, updates)->type);
	if (fn != SCATTER_SET && !emit_is_number(from->type))
		return emit_refuse_type(graph, "a reduction", from->type);
	memcpy(dims, from->dims, sizeof(dims));
	return graph_emit(graph, &op, 3, inputs, from->type, from->rank, dims);
}
