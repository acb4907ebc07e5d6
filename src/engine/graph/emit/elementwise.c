/*
 * elementwise.c
 *	  Ops that compute each element by itself.  See graph.h.
 */
#include "emit.h"

#include <string.h>

int32_t
graph_unary(struct graph *graph, uint16_t fn, int32_t x, double f0, double f1)
{
	struct device_op op = {.op = DEVICE_OP_UNARY, .fn = fn, .f = {f0, f1}};
	const struct graph_value *from;
	uint8_t		type;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	type = from->type;
	if (fn == UNARY_NOT ? type != DEVICE_BOOL : !emit_is_number(type))
		return emit_refuse_type(graph, device_function_name(&op), type);
	if (fn == UNARY_IS_NAN || fn == UNARY_IS_INF)
		type = DEVICE_BOOL;
	return emit_like(graph, &op, x, type);
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
		return emit_refuse_types(graph, x->type, y->type);
	if (fn >= BINARY_AND && fn <= BINARY_XOR ? type != DEVICE_BOOL :
		fn >= BINARY_BIT_AND ? type != DEVICE_I32 && type != DEVICE_I64 :
		fn != BINARY_EQUAL && !emit_is_number(type))
		return emit_refuse_type(graph, device_function_name(&op), type);
	if (fn >= BINARY_EQUAL && fn <= BINARY_GREATER_EQUAL)
		type = DEVICE_BOOL;
	if (!graph_broadcast(x->rank, x->dims, y->rank, y->dims, &rank, dims))
		return emit_refuse_shapes(graph, x, y);
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
		return emit_refuse_type(graph, "a condition", c->type);
	if (x->type != y->type)
		return emit_refuse_types(graph, x->type, y->type);
	if (!graph_broadcast(x->rank, x->dims, y->rank, y->dims, &rank, dims))
		return emit_refuse_shapes(graph, x, y);
	if (!graph_broadcast(c->rank, c->dims, rank, dims, &rank, all))
		return emit_refuse_shapes(graph, c, x);
	return graph_emit(graph, &op, 3, inputs, x->type, rank, all);
}

int32_t
graph_cast(struct graph *graph, int32_t x, uint8_t type)
{
	struct device_op op = {.op = DEVICE_OP_CAST};
	const struct graph_value *from;
	int32_t		y;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (from->type == type)
		return x;
	y = emit_like(graph, &op, x, type);
	graph_role_copy(graph, y, x);
	return y;
}

int32_t
graph_lookup(struct graph *graph, const struct device_lookup *table, int32_t x)
{
	struct device_op op = {.op = DEVICE_OP_LOOKUP, .params = table};
	const struct graph_value *from;

	if (x < 0)
		return GRAPH_FAILED;
	from = graph_value(graph, x);
	if (from->type != table->key_type)
		return emit_refuse_types(graph, from->type, table->key_type);
	return emit_like(graph, &op, x, table->value_type);
}
