/*
 * shape.c
 *	  ONNX operators: shapes, order and types of the same elements.
 *
 * What keeps the order of the elements becomes a view, which costs nothing.
 */
#include "../graph.h"

#include <inttypes.h>
#include <string.h>

#include "../../../protocol/protocol.h"

/* ---- views ---- */

static bool
lower_identity(struct graph *graph, const struct onnx_node *node)
{
	return graph_output(graph, node, 0, graph_input(graph, node, 0));
}

/* A 0 keeps the dimension of the input unless allowzero is set; one -1 is inferred. */
static bool
lower_reshape(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		dims[DEVICE_RANK_MAX];
	int64_t		allow_zero, known = 1;
	int			rank, inferred = -1;

	if (x < 0 || !graph_attribute_int(graph, node, "allowzero", 0, &allow_zero))
		return false;
	rank = graph_ints(graph, graph_input(graph, node, 1), "shape", dims, DEVICE_RANK_MAX);
	if (rank < 0)
		return false;
	for (int i = 0; i < rank; i++)
	{
		if (dims[i] == 0 && allow_zero == 0)
		{
			if (i >= graph_value(graph, x)->rank)
				return graph_malformed(graph, node, "keeps dimension %d, which its input does not have", i);
			dims[i] = graph_value(graph, x)->dims[i];
		}
		if (dims[i] == -1 && inferred >= 0)
			return graph_malformed(graph, node, "leaves two dimensions open");
		if (dims[i] == -1)
			inferred = i;
		else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known))
			return graph_malformed(graph, node, "has an impossible shape");
	}
	if (inferred >= 0)
	{
		int64_t		elements = graph_value(graph, x)->elements;

		if (known == 0 || elements % known != 0)
			return graph_malformed(graph, node, "cannot shape %" PRId64 " elements into rows of %" PRId64,
								   elements, known);
		dims[inferred] = elements / known;
	}
	return graph_output(graph, node, 0, graph_view(graph, x, rank, dims));
}

static bool
lower_flatten(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		dims[2] = {1, 1};
	int64_t		axis;
	const struct graph_value *from;

	if (x < 0 || !graph_attribute_int(graph, node, "axis", 1, &axis))
		return false;
	from = graph_value(graph, x);
	if (axis < 0 && node->version >= 11)
		axis += from->rank;
	if (axis < 0 || axis > from->rank)
		return graph_malformed(graph, node, "has an axis that its input does not have");
	for (int i = 0; i < from->rank; i++)
		dims[i < axis ? 0 : 1] *= from->dims[i];
	return graph_output(graph, node, 0, graph_view(graph, x, 2, dims));
}

/* The list of axes: an attribute before version 13, then an input.  -1: absent, -2: refused. */
static int
read_axes(struct graph *graph, const struct onnx_node *node, int64_t axes[DEVICE_RANK_MAX])
{
	const struct onnx_attribute *attribute;
	int32_t		input;
	int			count;

	if (node->version >= 13)
	{
		input = graph_input_optional(graph, node, 1);
		if (input == GRAPH_ABSENT)
			return -1;
		count = graph_ints(graph, input, "list of axes", axes, DEVICE_RANK_MAX);
		return count < 0 ? -2 : count;
	}
	if (!graph_attribute_list(graph, node, "axes", ONNX_ATTRIBUTE_INTS, &attribute))
		return -2;
	if (attribute == NULL)
		return -1;
	if (attribute->count > DEVICE_RANK_MAX)
	{
		graph_malformed(graph, node, "has too many axes");
		return -2;
	}
	memcpy(axes, attribute->ints, attribute->count * sizeof(*axes));
	return (int) attribute->count;
}

/* Axes as a bit set of a rank; a repeated one is refused. */
static bool
axes_bits(struct graph *graph, const struct onnx_node *node, int count, const int64_t *axes, int rank,
		  uint32_t *bits)
{
	*bits = 0;
	for (int i = 0; i < count; i++)
	{
		int			axis;

		if (!graph_axis(graph, node, axes[i], rank, &axis))
			return false;
		if ((*bits >> axis & 1) != 0)
			return graph_malformed(graph, node, "has the same axis twice");
		*bits |= 1u << axis;
	}
	return true;
}

static bool
lower_squeeze(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		axes[DEVICE_RANK_MAX], dims[DEVICE_RANK_MAX];
	uint32_t	bits = 0;
	int			rank = 0;
	int			count;
	const struct graph_value *from;

	if (x < 0)
		return false;
	count = read_axes(graph, node, axes);
	if (count == -2)
		return false;
	from = graph_value(graph, x);
	if (count >= 0 && !axes_bits(graph, node, count, axes, from->rank, &bits))
		return false;
	for (int i = 0; i < from->rank; i++)
	{
		bool		drop = count >= 0 ? (bits >> i & 1) != 0 : from->dims[i] == 1;

		if (drop && from->dims[i] != 1)
			return graph_malformed(graph, node, "squeezes dimension %d, which has %" PRId64 " elements", i,
								   from->dims[i]);
		if (!drop)
			dims[rank++] = from->dims[i];
	}
	return graph_output(graph, node, 0, graph_view(graph, x, rank, dims));
}

static bool
lower_unsqueeze(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		axes[DEVICE_RANK_MAX], dims[DEVICE_RANK_MAX];
	uint32_t	bits;
	int			count, rank, from = 0;

	if (x < 0)
		return false;
	count = read_axes(graph, node, axes);
	if (count == -1)
		return graph_malformed(graph, node, "has no axes");
	if (count < 0)
		return false;
	rank = graph_value(graph, x)->rank + count;
	if (rank > DEVICE_RANK_MAX)
		return graph_unsupported(graph, node, "gives %d dimensions; at most %d are supported", rank,
								 DEVICE_RANK_MAX);
	if (!axes_bits(graph, node, count, axes, rank, &bits))
		return false;
	for (int i = 0; i < rank; i++)
		dims[i] = (bits >> i & 1) != 0 ? 1 : graph_value(graph, x)->dims[from++];
	return graph_output(graph, node, 0, graph_view(graph, x, rank, dims));
}

/* ---- Dropout: nothing, outside training ---- */

static bool
dropout_mask(struct graph *graph, const struct onnx_node *node, int32_t x)
{
	if (!graph_output_wanted(node, 1))
		return true;
	if (node->version < 10)
		return graph_unsupported(graph, node, "is asked for its mask");
	return graph_output(graph, node, 1,
						graph_expand(graph, graph_constant_number(graph, DEVICE_BOOL, 1),
									 graph_value(graph, x)->rank, graph_value(graph, x)->dims));
}

static bool
lower_dropout(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		training = node->version >= 12 ? graph_input_optional(graph, node, 2) : GRAPH_ABSENT;	/* input 1: the ratio */
	int64_t		is_test = 1;
	double		trains = 0;

	if (x < 0 || training == GRAPH_FAILED)
		return false;
	graph_attribute_ignore(graph, node, node->version >= 12 ? "seed" : "ratio");
	if (node->version < 7 && !graph_attribute_int(graph, node, "is_test", 0, &is_test))
		return false;
	if (training != GRAPH_ABSENT && !graph_number(graph, training, "training mode", &trains))
		return false;
	if (is_test == 0 || trains != 0)
		return graph_unsupported(graph, node, "is in training mode");
	return graph_output(graph, node, 0, x) && dropout_mask(graph, node, x);
}

/* ---- order ---- */

static bool
lower_transpose(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	const struct onnx_attribute *perm;
	int			axes[DEVICE_RANK_MAX];
	uint32_t	seen = 0;
	int			rank;

	if (x < 0 || !graph_attribute_list(graph, node, "perm", ONNX_ATTRIBUTE_INTS, &perm))
		return false;
	rank = graph_value(graph, x)->rank;
	if (perm != NULL && perm->count != (uint32_t) rank)
		return graph_malformed(graph, node, "has an order of %u axes for %d", perm->count, rank);
	for (int i = 0; i < rank; i++)
	{
		if (!graph_axis(graph, node, perm == NULL ? rank - 1 - i : perm->ints[i], rank, &axes[i]))
			return false;
		seen |= 1u << axes[i];
	}
	if (seen != (1u << rank) - 1)
		return graph_malformed(graph, node, "has an order that leaves out an axis");
	return graph_output(graph, node, 0, graph_transpose(graph, x, axes));
}

/* Two-way broadcasting of the input and the wanted shape. */
static bool
lower_expand(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		wanted[DEVICE_RANK_MAX], dims[DEVICE_RANK_MAX];
	int			count, rank;

	if (x < 0)
		return false;
	count = graph_ints(graph, graph_input(graph, node, 1), "shape", wanted, DEVICE_RANK_MAX);
	if (count < 0)
		return false;
	if (!graph_broadcast(graph_value(graph, x)->rank, graph_value(graph, x)->dims, count, wanted,
						 &rank, dims))
		return graph_malformed(graph, node, "expands a shape to one that it does not fit");
	return graph_output(graph, node, 0, graph_expand(graph, x, rank, dims));
}

/* Repeats one axis: [outer, axis·inner] → [outer, repeats, axis·inner]. */
static int32_t
tile_axis(struct graph *graph, int32_t x, int axis, int64_t repeats)
{
	const struct graph_value *from = graph_value(graph, x);
	int64_t		dims[DEVICE_RANK_MAX], copy_dims[3] = {1, repeats, 1}, strides[3] = {0, 0, 1};
	int			rank = from->rank;

	memcpy(dims, from->dims, sizeof(dims));
	for (int i = 0; i < rank; i++)
		copy_dims[i < axis ? 0 : 2] *= dims[i];
	strides[0] = copy_dims[2];
	if (__builtin_mul_overflow(dims[axis], repeats, &dims[axis]))
		dims[axis] = INT64_MAX;		/* too large in any case */
	return graph_view(graph, graph_copy(graph, x, 3, copy_dims, 0, strides), rank, dims);
}

static bool
lower_tile(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		repeats[DEVICE_RANK_MAX];
	int			count;

	if (x < 0)
		return false;
	count = graph_ints(graph, graph_input(graph, node, 1), "list of repeats", repeats, DEVICE_RANK_MAX);
	if (count < 0)
		return false;
	if (count != graph_value(graph, x)->rank)
		return graph_malformed(graph, node, "has %d repeats for %d dimensions", count,
							   graph_value(graph, x)->rank);
	for (int i = 0; i < count && x >= 0; i++)
	{
		if (repeats[i] < 0)
			return graph_malformed(graph, node, "has a negative number of repeats");
		if (repeats[i] != 1)
			x = tile_axis(graph, x, i, repeats[i]);
	}
	return graph_output(graph, node, 0, x);
}

/* ---- types ---- */

static bool
lower_cast(struct graph *graph, const struct onnx_node *node)
{
	int64_t		to;

	/* these say how 8-bit floats are made, and there are none here */
	graph_attribute_ignore(graph, node, "saturate");
	graph_attribute_ignore(graph, node, "round_mode");
	if (!graph_attribute_has(node, "to"))
		return graph_malformed(graph, node, "has no attribute \"to\"");
	if (!graph_attribute_int(graph, node, "to", 0, &to))
		return false;
	if (onnx_device_type(to) == 0)
		return graph_unsupported(graph, node, "gives the type %s", onnx_type_name(to));
	return graph_output(graph, node, 0,
						graph_cast(graph, graph_input(graph, node, 0), onnx_device_type(to)));
}

static bool
lower_cast_like(struct graph *graph, const struct onnx_node *node)
{
	int32_t		like = graph_input(graph, node, 1);

	graph_attribute_ignore(graph, node, "saturate");
	graph_attribute_ignore(graph, node, "round_mode");
	if (like < 0)
		return false;
	return graph_output(graph, node, 0,
						graph_cast(graph, graph_input(graph, node, 0), graph_value(graph, like)->type));
}

const struct graph_operator graph_shape_operators[] = {
	{"", "Cast", 6, 25, lower_cast, GRAPH_MISSING_PASSES},
	{"", "CastLike", 15, 25, lower_cast_like, GRAPH_MISSING_COMPUTES},
	{"", "Dropout", 6, 25, lower_dropout, GRAPH_MISSING_PASSES},
	{"", "Expand", 8, 25, lower_expand, GRAPH_MISSING_PASSES},
	{"", "Flatten", 6, 25, lower_flatten, GRAPH_MISSING_PASSES},
	{"", "Identity", 1, 25, lower_identity, GRAPH_MISSING_PASSES},
	{"", "Reshape", 5, 25, lower_reshape, GRAPH_MISSING_PASSES},
	{"", "Squeeze", 1, 25, lower_squeeze, GRAPH_MISSING_PASSES},
	{"", "Tile", 6, 25, lower_tile, GRAPH_MISSING_PASSES},
	{"", "Transpose", 1, 25, lower_transpose, GRAPH_MISSING_PASSES},
	{"", "Unsqueeze", 1, 25, lower_unsqueeze, GRAPH_MISSING_PASSES},
	{0}
};
