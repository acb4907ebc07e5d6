/*
 * undefined.c
 *	  Elements of constants that are no numbers: what a float that does not fit becomes when it is cast to
 *	  an integer.
 *
 * Exporters write Where(near, distance, Cast(Log(distance))) for buckets of distances: the logarithm of 0 is
 * cast, and Where passes over it.  So such an element is an error only if something reads it.
 *
 * Rules
 *	- What an element-wise op makes of an undefined element is undefined; Where's is what it takes.
 *	- Any other reader is refused: graph_data does not give a constant that has such elements.
 */
#include "graph_internal.h"

#include <math.h>
#include <string.h>

#include "../../protocol/protocol.h"

static const uint8_t *
flags_of(const struct graph *graph, int32_t value)
{
	return value < 0 ? NULL : graph_value(graph, graph_root(graph, value))->undefined;
}

/* The element of an input that element i of the result is made of: ONNX's broadcasting. */
static int64_t
element_of(const struct graph_value *input, const struct graph_value *result, int64_t i)
{
	int64_t		at = 0, stride = 1;

	for (int d = 0; d < result->rank; d++)
	{
		int64_t		size = result->dims[result->rank - 1 - d], place = i % size;

		i /= size;
		if (d >= input->rank)
			continue;
		at += input->dims[input->rank - 1 - d] == 1 ? 0 : place * stride;
		stride *= input->dims[input->rank - 1 - d];
	}
	return at;
}

static bool
input_undefined(const struct graph *graph, int32_t value, const struct graph_value *result, int64_t i)
{
	const uint8_t *flags = flags_of(graph, value);

	return flags != NULL && flags[element_of(graph_value(graph, value), result, i)] != 0;
}

static double
float_at(const struct graph_value *root, int64_t i)
{
	return root->type == DEVICE_F32 ? (double) ((const float *) root->data)[i] : ((const double *) root->data)[i];
}

/* Whether a cast of that element has no result. */
static bool
cast_fails(const struct graph *graph, const struct device_op *op, const struct graph_value *result, int64_t i)
{
	double		limit = result->type == DEVICE_I32 ? 2147483648.0 : 9223372036854775808.0;
	double		x = trunc(float_at(graph_value(graph, graph_root(graph, op->inputs[0])), i));

	return !(x >= -limit && x < limit);
}

static bool
element_undefined(const struct graph *graph, const struct device_op *op, const struct graph_value *result, int64_t i, bool failed)
{
	const struct graph_value *condition;
	const uint8_t *chosen;

	if (op->op == DEVICE_OP_WHERE)
	{
		condition = graph_value(graph, op->inputs[0]);
		chosen = graph_value(graph, graph_root(graph, op->inputs[0]))->data;
		return input_undefined(graph, op->inputs[0], result, i) ||
			input_undefined(graph, op->inputs[chosen[element_of(condition, result, i)] ? 1 : 2], result, i);
	}
	for (uint32_t k = 0; k < op->inputs_count; k++)
		if (input_undefined(graph, op->inputs[k], result, i))
			return true;
	return failed && cast_fails(graph, op, result, i);
}

static bool
is_element_wise(const struct device_op *op)
{
	return op->op == DEVICE_OP_UNARY || op->op == DEVICE_OP_BINARY || op->op == DEVICE_OP_WHERE || op->op == DEVICE_OP_CAST;
}

/* Whether elements that failed can be told from those that did not. */
static bool
is_cast(const struct graph *graph, const struct device_op *op, const struct graph_value *result)
{
	uint8_t		from = op->inputs_count > 0 && op->inputs[0] >= 0 ? graph_value(graph, op->inputs[0])->type : 0;

	return op->op == DEVICE_OP_CAST && (from == DEVICE_F32 || from == DEVICE_F64) &&
		(result->type == DEVICE_I32 || result->type == DEVICE_I64);
}

bool
graph_undefined_read(struct graph *graph, const struct graph_value *root)
{
	return graph_malformed(graph, root->undefined_by,
						   "cannot be computed on its constants: a number does not fit the integer type that the model casts it to, and is read");
}

bool
graph_undefined(struct graph *graph, const struct device_op *op, int32_t value, bool failed, const char *message)
{
	struct graph_value *result = graph_value(graph, value);
	const struct graph_value *from = NULL;
	bool		any = false;
	uint8_t    *flags;

	for (uint32_t k = 0; k < op->inputs_count; k++)
		if (flags_of(graph, op->inputs[k]) != NULL)
			from = graph_value(graph, graph_root(graph, op->inputs[k]));
	if (from != NULL && !is_element_wise(op))
		return graph_undefined_read(graph, from);
	if (failed && !is_cast(graph, op, result))
		return graph_malformed(graph, graph->node, "cannot be computed on its constants: %s", message);
	if (from == NULL && !failed)
		return true;
	flags = graph_pool(graph->memory, (uint64_t) result->elements, 1);
	if (flags == NULL)
		return false;
	for (int64_t i = 0; i < result->elements; i++)
	{
		flags[i] = element_undefined(graph, op, result, i, failed);
		any = any || flags[i] != 0;
	}
	result->undefined = any ? flags : NULL;
	result->undefined_by = from != NULL ? from->undefined_by : graph->node;
	return any || !failed || graph_malformed(graph, graph->node, "cannot be computed on its constants: %s", message);
}
