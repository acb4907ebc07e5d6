/*
 * emit.c
 *	  Ops: the shape each gives, and its place in the graph.  See graph.h.
 */
#include "graph_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../protocol/protocol.h"

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

/* ---- helpers ---- */

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

static int32_t
refuse_type(struct graph *graph, const char *what, uint8_t type)
{
	graph_unsupported(graph, graph->node, "asks for %s of type %s", what, type_name(type));
	return GRAPH_FAILED;
}

static int32_t
refuse_types(struct graph *graph, uint8_t a, uint8_t b)
{
	graph_malformed(graph, graph->node, "mixes the types %s and %s", type_name(a), type_name(b));
	return GRAPH_FAILED;
}

static int32_t
refuse_shapes(struct graph *graph, const struct graph_value *a, const struct graph_value *b)
{
	char		text_a[128], text_b[128];

	graph_malformed(graph, graph->node, "has shapes that do not fit: %s and %s",
					shape_text(a, text_a, sizeof(text_a)), shape_text(b, text_b, sizeof(text_b)));
	return GRAPH_FAILED;
}

static bool
type_is_float(uint8_t type)
{
	return type == DEVICE_F32 || type == DEVICE_F64;
}

static bool
type_is_number(uint8_t type)
{
	return type_is_float(type) || type == DEVICE_I32 || type == DEVICE_I64;
}

/* ---- element-wise ---- */

int32_t
graph_unary(struct graph *graph, uint16_t fn, int32_t x, double f0, double f1)
{
	struct device_op op = {.op = DEVICE_OP_UNARY, .fn = fn, .f = {f0, f1}};
	const struct graph_value *from;
	uint8_t		type;
	int64_t		dims[DEVICE_RANK_MAX];

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	type = from->type;
	if (fn == UNARY_NOT ? type != DEVICE_BOOL : !type_is_number(type))
		return refuse_type(graph, device_function_name(&op), type);
	if (fn == UNARY_IS_NAN || fn == UNARY_IS_INF)
		type = DEVICE_BOOL;
	memcpy(dims, from->dims, sizeof(dims));
	return graph_emit(graph, &op, 1, &x, type, from->rank, dims);
}

int32_t
graph_binary(struct graph *graph, uint16_t fn, int32_t a, int32_t b)
{
	struct device_op op = {.op = DEVICE_OP_BINARY, .fn = fn};
	int32_t		inputs[2] = {a, b};
	const struct graph_value *x, *y;
	uint8_t		type;
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank;

	if (a < 0 || b < 0)
		return GRAPH_FAILED;
	x = graph_value(graph, a);
	y = graph_value(graph, b);
	type = x->type;
	if (type != y->type)
		return refuse_types(graph, x->type, y->type);
	if (fn >= BINARY_AND && fn <= BINARY_XOR ? type != DEVICE_BOOL :
		fn >= BINARY_BIT_AND ? type != DEVICE_I32 && type != DEVICE_I64 :
		fn != BINARY_EQUAL && !type_is_number(type))
		return refuse_type(graph, device_function_name(&op), type);
	if (fn >= BINARY_EQUAL && fn <= BINARY_GREATER_EQUAL)
		type = DEVICE_BOOL;
	if (!graph_broadcast(x->rank, x->dims, y->rank, y->dims, &rank, dims))
		return refuse_shapes(graph, x, y);
	return graph_emit(graph, &op, 2, inputs, type, rank, dims);
}

int32_t
graph_where(struct graph *graph, int32_t condition, int32_t a, int32_t b)
{
	struct device_op op = {.op = DEVICE_OP_WHERE};
	int32_t		inputs[3] = {condition, a, b};
	const struct graph_value *c, *x, *y;
	int64_t		dims[DEVICE_RANK_MAX], all[DEVICE_RANK_MAX];
	int			rank;

	if (condition < 0 || a < 0 || b < 0)
		return GRAPH_FAILED;
	c = graph_value(graph, condition);
	x = graph_value(graph, a);
	y = graph_value(graph, b);
	if (c->type != DEVICE_BOOL)
		return refuse_type(graph, "a condition", c->type);
	if (x->type != y->type)
		return refuse_types(graph, x->type, y->type);
	if (!graph_broadcast(x->rank, x->dims, y->rank, y->dims, &rank, dims))
		return refuse_shapes(graph, x, y);
	if (!graph_broadcast(c->rank, c->dims, rank, dims, &rank, all))
		return refuse_shapes(graph, c, x);
	return graph_emit(graph, &op, 3, inputs, x->type, rank, all);
}

int32_t
graph_cast(struct graph *graph, int32_t x, uint8_t type)
{
	struct device_op op = {.op = DEVICE_OP_CAST};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];
	int32_t		y;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (from->type == type)
		return x;
	memcpy(dims, from->dims, sizeof(dims));
	y = graph_emit(graph, &op, 1, &x, type, from->rank, dims);
	graph_role_copy(graph, y, x);
	return y;
}

/* ---- moving elements ---- */

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
			return refuse_types(graph, first->type, other->type);
		if (other->rank != first->rank)
			return refuse_shapes(graph, first, other);
		for (int d = 0; d < first->rank; d++)
			if (d != axis && other->dims[d] != first->dims[d])
				return refuse_shapes(graph, first, other);
		if (__builtin_add_overflow(dims[axis], other->dims[axis], &dims[axis]))
			return refuse_shapes(graph, first, other);
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
		return refuse_type(graph, "indices", at->type);
	for (int i = 0; i < axis; i++)
		dims[rank++] = from->dims[i];
	for (int i = 0; i < at->rank; i++)
		dims[rank++] = at->dims[i];
	for (int i = axis + 1; i < from->rank; i++)
		dims[rank++] = from->dims[i];
	return graph_emit(graph, &op, 2, inputs, from->type, rank, dims);
}

/* ---- products ---- */

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
		return refuse_types(graph, x->type, y->type);
	if (!type_is_number(x->type))
		return refuse_type(graph, "a product", x->type);
	if (x->rank < 2 || y->rank < 2 || x->dims[x->rank - 1] != y->dims[y->rank - 2] ||
		!graph_broadcast(x->rank - 2, x->dims, y->rank - 2, y->dims, &rank, dims))
		return refuse_shapes(graph, x, y);
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
		return refuse_types(graph, from->type, weight->type);
	if (!type_is_float(from->type))
		return refuse_type(graph, "a linear layer", from->type);
	if (from->rank < 1 || weight->rank != 2 || from->dims[from->rank - 1] != weight->dims[transposed ? 1 : 0])
		return refuse_shapes(graph, from, weight);
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

/* ---- along axes ---- */

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
	if (!type_is_number(from->type))
		return refuse_type(graph, "a reduction", from->type);
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
	int64_t		dims[DEVICE_RANK_MAX];

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!type_is_float(from->type))
		return refuse_type(graph, "softmax", from->type);
	memcpy(dims, from->dims, sizeof(dims));
	return graph_emit(graph, &op, 1, &x, from->type, from->rank, dims);
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
	if (!type_is_number(from->type))
		return refuse_type(graph, "the place of an extreme", from->type);
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
	int64_t		dims[DEVICE_RANK_MAX];
	int32_t		y;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!type_is_float(from->type))
		return refuse_type(graph, "normalisation", from->type);
	memcpy(dims, from->dims, sizeof(dims));
	y = graph_emit(graph, &op, 1, &x, from->type, from->rank, dims);
	graph_role_copy(graph, y, x);
	return y;
}

int32_t
graph_lookup(struct graph *graph, const struct device_lookup *table, int32_t x)
{
	struct device_op op = {.op = DEVICE_OP_LOOKUP, .params = table};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (from->type != table->key_type)
		return refuse_types(graph, from->type, table->key_type);
	memcpy(dims, from->dims, sizeof(dims));
	return graph_emit(graph, &op, 1, &x, table->value_type, from->rank, dims);
}

int32_t
graph_cumsum(struct graph *graph, int32_t x, int axis, bool exclusive, bool reverse)
{
	struct device_op op = {.op = DEVICE_OP_CUMSUM, .i = {axis, exclusive, reverse}};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!type_is_number(from->type))
		return refuse_type(graph, "running sums", from->type);
	memcpy(dims, from->dims, sizeof(dims));
	return graph_emit(graph, &op, 1, &x, from->type, from->rank, dims);
}

/* ---- places ---- */

int32_t
graph_topk(struct graph *graph, uint16_t fn, int32_t x, int axis, int64_t k)
{
	struct device_op op = {.op = DEVICE_OP_TOPK, .fn = fn, .i = {axis}};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (!type_is_number(from->type))
		return refuse_type(graph, "the greatest elements", from->type);
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
graph_offset(struct graph *graph, int32_t indices, const int64_t *sizes, int64_t factor)
{
	struct device_op op = {.op = DEVICE_OP_OFFSET};
	const struct graph_value *from;
	int64_t		dims[DEVICE_RANK_MAX];

	if (indices < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, indices);
	if (from->type != DEVICE_I32 && from->type != DEVICE_I64)
		return refuse_type(graph, "indices", from->type);
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
		return refuse_types(graph, from->type, graph_value(graph, updates)->type);
	if (fn != SCATTER_SET && !type_is_number(from->type))
		return refuse_type(graph, "a reduction", from->type);
	memcpy(dims, from->dims, sizeof(dims));
	return graph_emit(graph, &op, 3, inputs, from->type, from->rank, dims);
}

/* ---- distances and probabilities ---- */

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
		return refuse_shapes(graph, from, to);
	memcpy(dims, from->dims, sizeof(dims));
	dims[from->rank - 1] = to->dims[0];
	return graph_emit(graph, &op, 2, inputs, from->type, from->rank, dims);
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
