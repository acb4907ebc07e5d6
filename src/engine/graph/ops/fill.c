/*
 * fill.c
 *	  ONNX operators that put numbers around, or in the place of, some elements: Pad, Trilu,
 *	  EyeLike; and CumSum.
 */
#include "../graph.h"

#include <inttypes.h>
#include <string.h>

/* ---- Pad ---- */

enum pad_mode
{
	PAD_CONSTANT,
	PAD_REFLECT,
	PAD_EDGE,
	PAD_WRAP
};

struct pad
{
	enum pad_mode mode;
	int32_t		filler;				/* a scalar */
	int64_t		before[DEVICE_RANK_MAX];	/* of each axis; negative: elements to take off */
	int64_t		after[DEVICE_RANK_MAX];
};

static bool
pad_mode(struct graph *graph, const struct onnx_node *node, enum pad_mode *mode)
{
	static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
	const char *name;
	int			known = node->version >= 19 ? 4 : 3;

	if (!graph_attribute_string(graph, node, "mode", "constant", &name))
		return false;
	for (int i = 0; i < known; i++)
		if (strcmp(name, names[i]) == 0)
		{
			*mode = (enum pad_mode) i;
			return true;
		}
	return graph_malformed(graph, node, "has the unknown mode \"%.50s\"", name);
}

/* Numbers of elements: an attribute before version 11, then an input, from 18 on for some axes. */
static bool
pad_counts(struct graph *graph, const struct onnx_node *node, int rank, struct pad *pad)
{
	int64_t		pads[2 * DEVICE_RANK_MAX], axes[DEVICE_RANK_MAX];
	int32_t		given = node->version >= 18 ? graph_input_optional(graph, node, 3) : GRAPH_ABSENT;
	int			count = rank, pads_count;

	for (int i = 0; i < rank; i++)
		axes[i] = i;
	if (given != GRAPH_ABSENT)
		count = graph_ints(graph, given, "list of axes", axes, DEVICE_RANK_MAX);
	if (count < 0)
		return false;
	if (node->version >= 11)
		pads_count = graph_ints(graph, graph_input(graph, node, 1), "list of pads", pads, 2 * DEVICE_RANK_MAX);
	else
	{
		const struct onnx_attribute *list;

		if (!graph_attribute_list(graph, node, "pads", ONNX_ATTRIBUTE_INTS, &list))
			return false;
		pads_count = list == NULL || list->count > 2 * DEVICE_RANK_MAX ? 0 : (int) list->count;
		if (pads_count > 0)
			memcpy(pads, list->ints, (size_t) pads_count * sizeof(*pads));
	}
	if (pads_count < 0)
		return false;
	if (pads_count != 2 * count)
		return graph_malformed(graph, node, "has %d pads for %d axes", pads_count, count);
	memset(pad->before, 0, sizeof(pad->before));
	memset(pad->after, 0, sizeof(pad->after));
	for (int i = 0; i < count; i++)
	{
		int			axis;

		if (!graph_axis(graph, node, axes[i], rank, &axis))
			return false;
		if (pads[i] < -GRAPH_ELEMENTS_MAX || pads[i] > GRAPH_ELEMENTS_MAX ||
			pads[count + i] < -GRAPH_ELEMENTS_MAX || pads[count + i] > GRAPH_ELEMENTS_MAX)
			return graph_malformed(graph, node, "has pads that are out of range");
		pad->before[axis] = pads[i];
		pad->after[axis] = pads[count + i];
	}
	return true;
}

/* What is put around: an attribute before version 11, then an input; zeros, or empty strings. */
static bool
pad_filler(struct graph *graph, const struct onnx_node *node, uint8_t type, struct pad *pad)
{
	double		number;
	void	   *zero;

	if (node->version < 11)
	{
		if (!graph_attribute_float(graph, node, "value", 0, &number))
			return false;
		pad->filler = graph_constant_number(graph, type, number);
		return pad->filler >= 0;
	}
	pad->filler = graph_input_optional(graph, node, 2);
	if (pad->filler == GRAPH_ABSENT)
		pad->filler = graph_constant_make(graph, type, 0, NULL, &zero);
	else
		pad->filler = graph_view(graph, pad->filler, 0, NULL);
	return pad->filler >= 0;
}

/* Where position i of an axis of n elements, i < 0 and i ≥ n included, comes from. */
static int64_t
pad_source(enum pad_mode mode, int64_t i, int64_t n)
{
	int64_t		period = mode == PAD_REFLECT ? 2 * (n - 1) : n;

	if (mode == PAD_EDGE)
		return i < 0 ? 0 : i >= n ? n - 1 : i;
	if (n == 1)
		return 0;
	i %= period;
	i += i < 0 ? period : 0;
	return i < n ? i : period - i;
}

/* Elements of an axis by their places; by the mode. */
static int32_t
pad_by_places(struct graph *graph, int32_t x, int axis, enum pad_mode mode, int64_t before, int64_t after)
{
	int64_t		n = graph_value(graph, x)->dims[axis];
	int64_t		length = n + before + after;
	void	   *places;
	int32_t		indices;

	if (length < 0 || (n == 0 && length > 0))
	{
		graph_malformed(graph, graph->node, "pads an axis of %" PRId64 " elements to %" PRId64, n, length);
		return GRAPH_FAILED;
	}
	indices = graph_constant_make(graph, DEVICE_I64, 1, &length, &places);
	for (int64_t i = 0; indices >= 0 && i < length; i++)
		((int64_t *) places)[i] = pad_source(mode, i - before, n);
	return graph_gather(graph, x, indices, axis);
}

static int32_t
pad_with_filler(struct graph *graph, int32_t x, int axis, int32_t filler, int64_t before, int64_t after)
{
	int32_t		parts[3];
	uint32_t	count = 0;
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank = graph_value(graph, x)->rank;

	if (before < 0 || after < 0)
		x = pad_by_places(graph, x, axis, PAD_EDGE, before < 0 ? before : 0, after < 0 ? after : 0);
	if (x < 0)
		return x;
	memcpy(dims, graph_value(graph, x)->dims, sizeof(dims));
	dims[axis] = before;
	if (before > 0)
		parts[count++] = graph_expand(graph, filler, rank, dims);
	parts[count++] = x;
	dims[axis] = after;
	if (after > 0)
		parts[count++] = graph_expand(graph, filler, rank, dims);
	for (uint32_t i = 0; i < count; i++)
		if (parts[i] < 0)
			return GRAPH_FAILED;
	return graph_concat(graph, count, parts, axis);
}

static bool
lower_pad(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	struct pad	pad;
	int			rank;

	if (x < 0)
		return false;
	rank = graph_value(graph, x)->rank;
	if (!pad_mode(graph, node, &pad.mode) || !pad_counts(graph, node, rank, &pad) ||
		!pad_filler(graph, node, graph_value(graph, x)->type, &pad))
		return false;
	for (int axis = 0; axis < rank && x >= 0; axis++)
		if (pad.before[axis] == 0 && pad.after[axis] == 0)
			continue;
		else if (pad.mode == PAD_CONSTANT)
			x = pad_with_filler(graph, x, axis, pad.filler, pad.before[axis], pad.after[axis]);
		else
			x = pad_by_places(graph, x, axis, pad.mode, pad.before[axis], pad.after[axis]);
	return graph_output(graph, node, 0, x);
}

/* ---- Trilu, EyeLike ---- */

/* The upper or lower triangle of the last two dimensions; the rest becomes 0. */
static bool
lower_trilu(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		given = graph_input_optional(graph, node, 1);
	int64_t		upper, shift = 0, dims[2];
	void	   *mask, *zero;
	int32_t		condition;
	int			rank;

	if (x < 0 || !graph_attribute_int(graph, node, "upper", 1, &upper))
		return false;
	if (given != GRAPH_ABSENT && graph_ints(graph, given, "diagonal", &shift, 1) != 1)
		return false;
	rank = graph_value(graph, x)->rank;
	if (rank < 2)
		return graph_malformed(graph, node, "has an input that is no matrix");
	memcpy(dims, graph_value(graph, x)->dims + rank - 2, sizeof(dims));
	shift = shift > dims[1] ? dims[1] : shift < -dims[0] ? -dims[0] : shift;
	condition = graph_constant_make(graph, DEVICE_BOOL, 2, dims, &mask);
	for (int64_t i = 0; condition >= 0 && i < dims[0]; i++)
		for (int64_t j = 0; j < dims[1]; j++)
			((uint8_t *) mask)[i * dims[1] + j] = upper != 0 ? j >= i + shift : j <= i + shift;
	return graph_output(graph, node, 0,
						graph_where(graph, condition, x,
									graph_constant_make(graph, graph_value(graph, x)->type, 0, NULL, &zero)));
}

/* Ones on a diagonal, of the input's shape and of the type that dtype names, else the input's. */
static bool
lower_eye_like(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		type = 0, shift, dims[2];
	void	   *ones;
	int32_t		value;

	if (x < 0 || !graph_attribute_int(graph, node, "k", 0, &shift) ||
		!graph_attribute_int(graph, node, "dtype", 0, &type))
		return false;
	if (type != 0 && (onnx_device_type(type) == 0 || onnx_device_type(type) == DEVICE_STRING))
		return graph_unsupported(graph, node, "gives the type %s", onnx_type_name(type));
	if (graph_value(graph, x)->rank != 2)
		return graph_malformed(graph, node, "has an input that is no matrix");
	memcpy(dims, graph_value(graph, x)->dims, sizeof(dims));
	value = graph_constant_make(graph, DEVICE_BOOL, 2, dims, &ones);
	for (int64_t i = 0; value >= 0 && i < dims[0]; i++)
		if (shift >= -dims[0] && shift <= dims[1] && i + shift >= 0 && i + shift < dims[1])
			((uint8_t *) ones)[i * dims[1] + i + shift] = 1;
	return graph_output(graph, node, 0,
						graph_cast(graph, value, type != 0 ? onnx_device_type(type) : graph_value(graph, x)->type));
}

/* ---- CumSum ---- */

static bool
lower_cum_sum(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		given, exclusive, reverse;
	int			axis;

	if (x < 0 || graph_ints(graph, graph_input(graph, node, 1), "axis", &given, 1) != 1 ||
		!graph_axis(graph, node, given, graph_value(graph, x)->rank, &axis) ||
		!graph_attribute_int(graph, node, "exclusive", 0, &exclusive) ||
		!graph_attribute_int(graph, node, "reverse", 0, &reverse))
		return false;
	return graph_output(graph, node, 0, graph_cumsum(graph, x, axis, exclusive != 0, reverse != 0));
}

const struct graph_operator graph_fill_operators[] = {
	{"", "CumSum", 11, 25, lower_cum_sum, 0},
	{"", "EyeLike", 9, 25, lower_eye_like, 0},
	{"", "Pad", 2, 25, lower_pad, 0},
	{"", "Trilu", 14, 25, lower_trilu, 0},
	{0}
};
