/*
 * fuse.c
 *	  Fewer ops for the same function: what nobody wants is removed, and a product takes up
 *	  the bias, normalisation and activation behind it.
 *
 * Invariants
 *	- An op is fused into a product only if it alone reads the product's result.
 *	- Bias and activation change no bit: the product's epilogue computes the same sums.
 *	- A BatchNormalization is folded into matrix and bias in double precision, which
 *	  changes the last bits (and is what the product's packed weights then mean).
 *	- A value that an op gave before it was fused becomes a view of the product's.
 */
#include "graph_internal.h"

#include <string.h>

#include "../../protocol/protocol.h"

/* Counts how often each root is read, and by which op last. */
static void
count_uses(struct graph *graph)
{
	for (uint32_t i = 0; i < graph->values_count; i++)
	{
		graph->values[i].uses = 0;
		graph->values[i].last = -1;
	}
	for (uint32_t i = 0; i < graph->outputs_count; i++)
		graph_value(graph, graph_root(graph, graph->outputs[i]))->uses++;
	for (uint32_t i = graph->ops_count; i-- > 0;)
	{
		struct graph_op *op = &graph->ops[i];

		/* ops are in order, so all that could read this one's output has been seen */
		op->removed = op->removed || graph_value(graph, graph_root(graph, op->device.output))->uses == 0;
		if (op->removed)
			continue;
		for (uint32_t j = 0; j < op->device.inputs_count; j++)
			if (op->device.inputs[j] >= 0)
			{
				struct graph_value *root = graph_value(graph, graph_root(graph, op->device.inputs[j]));

				root->uses++;
				if (root->last < (int32_t) i)
					root->last = (int32_t) i;
			}
	}
}

/* The constant operand of a binary op whose other operand is (a view of) the product. */
static int32_t
constant_operand(const struct graph *graph, const struct graph_op *op, int32_t product)
{
	for (int i = 0; i < 2; i++)
		if (graph_is_constant(graph, op->device.inputs[i]) && op->device.inputs[1 - i] >= 0 &&
			graph_root(graph, op->device.inputs[1 - i]) == product)
			return op->device.inputs[i];
	return GRAPH_ABSENT;
}

/*
 * Whether a constant holds one number per column of the product, or one for all, as the
 * op that reads it sees the two.
 */
static bool
is_per_column(const struct graph *graph, const struct graph_op *op, int32_t constant, int64_t columns)
{
	const struct graph_value *value = graph_value(graph, constant);
	const struct graph_value *output = graph_value(graph, op->device.output);

	if (value->elements == 1)
		return value->rank <= output->rank;
	return value->elements == columns && value->dims[value->rank - 1] == columns &&
		output->rank > 0 && output->dims[output->rank - 1] == columns;
}

static double
number_at(uint8_t type, const void *data, int64_t i)
{
	return type == DEVICE_F32 ? ((const float *) data)[i] : ((const double *) data)[i];
}

/* Bias as the product's epilogue takes it: [N] or a scalar. */
static bool
fuse_bias(struct graph *graph, struct graph_op *product, int32_t constant)
{
	int64_t		dims[1] = {graph_value(graph, constant)->elements};
	int32_t		bias = graph_view(graph, constant, dims[0] == 1 ? 0 : 1, dims);

	if (bias < 0)
		return false;
	((int32_t *) product->device.inputs)[1] = bias;
	return true;
}

/* A factor per column: into scale, and into what was the bias. */
static bool
fuse_scale(struct graph *graph, struct graph_op *product, int32_t constant, int64_t columns)
{
	const struct graph_value *factor = graph_value(graph, constant);
	int32_t		bias = product->device.inputs[1];
	const void *factors = graph_data(graph, constant);
	const void *biases = bias < 0 ? NULL : graph_data(graph, bias);

	if (factors == NULL || (bias >= 0 && biases == NULL))
		return false;
	if (product->scale == NULL)
	{
		product->scale = graph_pool(graph->memory, columns, sizeof(double));
		product->shift = graph_pool(graph->memory, columns, sizeof(double));
		if (product->scale == NULL || product->shift == NULL)
			return false;
		for (int64_t n = 0; n < columns; n++)
		{
			product->scale[n] = 1;
			if (bias >= 0)
				product->shift[n] = number_at(factor->type, biases,
											  graph_value(graph, bias)->elements == 1 ? 0 : n);
		}
	}
	for (int64_t n = 0; n < columns; n++)
	{
		double		by = number_at(factor->type, factors, factor->elements == 1 ? 0 : n);

		product->scale[n] *= by;
		product->shift[n] *= by;
	}
	return true;
}

static bool
fuse_shift(struct graph *graph, struct graph_op *product, int32_t constant, int64_t columns)
{
	const struct graph_value *term = graph_value(graph, constant);
	const void *terms = graph_data(graph, constant);

	if (terms == NULL)
		return false;
	for (int64_t n = 0; n < columns; n++)
		product->shift[n] += number_at(term->type, terms, term->elements == 1 ? 0 : n);
	return true;
}

/* What the folding left as bias becomes a constant. */
static bool
finish_shift(struct graph *graph, struct graph_op *product, int64_t columns)
{
	uint8_t		type = graph_value(graph, product->device.output)->type;
	int64_t		dims[1] = {columns};
	void	   *data;
	int32_t		bias;

	if (product->shift == NULL)
		return true;
	bias = graph_constant_make(graph, type, 1, dims, &data);
	if (bias < 0)
		return false;
	for (int64_t n = 0; n < columns; n++)
	{
		if (type == DEVICE_F32)
			((float *) data)[n] = (float) product->shift[n];
		else
			((double *) data)[n] = product->shift[n];
	}
	((int32_t *) product->device.inputs)[1] = bias;
	return true;
}

static bool
node_is(const struct graph *graph, const struct graph_op *op, const char *name)
{
	return op->device.node >= 0 && strcmp(graph->model->nodes[op->device.node].op, name) == 0;
}

/* Functions of a number that gives a number of the same type. */
static bool
is_activation(const struct device_op *op)
{
	return op->op == DEVICE_OP_UNARY && op->fn != UNARY_NOT && op->fn != UNARY_IS_NAN &&
		op->fn != UNARY_IS_INF;
}

/*
 * Takes the next op into the product, if it can be; *fused says whether.  False: status.
 */
static bool
fuse_next(struct graph *graph, struct graph_op *product, const struct graph_op *next, int64_t columns,
		  bool *fused)
{
	int32_t		constant;
	bool		normalisation = node_is(graph, next, "BatchNormalization");

	*fused = false;
	if (product->device.fn != UNARY_NONE ||
		graph_value(graph, next->device.output)->elements != graph_value(graph, product->device.output)->elements)
		return true;
	if (is_activation(&next->device))
	{
		product->device.fn = next->device.fn;
		memcpy(product->device.f, next->device.f, sizeof(product->device.f));
		*fused = true;
		return true;
	}
	if (next->device.op != DEVICE_OP_BINARY)
		return true;
	constant = constant_operand(graph, next, product->device.output);
	if (constant < 0 || !is_per_column(graph, next, constant, columns))
		return true;
	if (next->device.fn == BINARY_ADD && product->scale == NULL && product->device.inputs[1] < 0)
	{
		*fused = true;
		return fuse_bias(graph, product, constant);
	}
	if (!normalisation)
		return true;
	if (next->device.fn == BINARY_MUL)
	{
		*fused = true;
		return fuse_scale(graph, product, constant, columns);
	}
	if (next->device.fn == BINARY_ADD && product->scale != NULL)
	{
		*fused = true;
		return fuse_shift(graph, product, constant, columns);
	}
	return true;
}

static void
note_fused(struct graph_op *product, int32_t node)
{
	for (uint32_t i = 0; i < product->fused_count; i++)
		if (product->fused[i] == node)
			return;
	if (node >= 0 && node != product->device.node &&
		product->fused_count < sizeof(product->fused) / sizeof(product->fused[0]))
		product->fused[product->fused_count++] = node;
}

static bool
fuse_product(struct graph *graph, uint32_t index)
{
	struct graph_op *product = &graph->ops[index];
	int32_t		output = product->device.output;
	const struct graph_value *shape = graph_value(graph, output);
	int64_t		columns = shape->dims[shape->rank - 1];

	for (;;)
	{
		struct graph_value *root = graph_value(graph, output);
		struct graph_op *next;
		struct graph_value *given;
		bool		fused;

		if (root->uses != 1 || root->last < 0)
			break;					/* read by several, or an output of the model */
		next = &graph->ops[root->last];
		if (!fuse_next(graph, product, next, columns, &fused))
			return false;
		if (!fused)
			break;
		next->removed = true;
		note_fused(product, next->device.node);
		given = graph_value(graph, next->device.output);
		root = graph_value(graph, output);		/* fusing made values */
		root->uses = given->uses;
		root->last = given->last;
		given->root = output;
	}
	return finish_shift(graph, product, columns);
}

bool
graph_fuse(struct graph *graph)
{
	count_uses(graph);
	for (uint32_t i = 0; i < graph->ops_count; i++)
		if (!graph->ops[i].removed && graph->ops[i].device.op == DEVICE_OP_GEMM &&
			!fuse_product(graph, i))
			return false;
	count_uses(graph);
	return true;
}
