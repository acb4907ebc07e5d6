/*
 * emit.h
 *	  What the files that emit ops share: refusals, which give GRAPH_FAILED, and kinds of types.
 */
#ifndef ENGINE_GRAPH_EMIT_H
#define ENGINE_GRAPH_EMIT_H

#include "../graph_internal.h"

/* The node asks for something of a type that has none. */
extern int32_t emit_refuse_type(struct graph *graph, const char *what, uint8_t type);
extern int32_t emit_refuse_types(struct graph *graph, uint8_t a, uint8_t b);
extern int32_t emit_refuse_shapes(struct graph *graph, const struct graph_value *a,
								  const struct graph_value *b);

/* An op that gives a value of x's shape, of that type. */
extern int32_t emit_like(struct graph *graph, const struct device_op *op, int32_t x, uint8_t type);

static inline bool
emit_is_float(uint8_t type)
{
	return type == DEVICE_F32 || type == DEVICE_F64;
}

static inline bool
emit_is_number(uint8_t type)
{
	return emit_is_float(type) || type == DEVICE_I32 || type == DEVICE_I64;
}

#endif							/* ENGINE_GRAPH_EMIT_H */
