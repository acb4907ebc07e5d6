/*
 * linear.c
 *	  ONNX operators: matrix products.
 *
 * A product with a constant matrix becomes GEMM, whose matrix the device packs; every
 * other product is MATMUL.  The fusion pass adds bias and activation to a GEMM.
 */
#include "../graph.h"

#include <string.h>

static bool
is_float(const struct graph *graph, int32_t value)
{
	return graph_value(graph, value)->type == DEVICE_F32 || graph_value(graph, value)->type == DEVICE_F64;
}

/* Whether matrix can be packed for a product with x. */
static bool
can_pack(const struct graph *graph, int32_t x, int32_t matrix)
{
	return !graph_is_constant(graph, x) && graph_is_constant(graph, matrix) && is_float(graph, matrix) &&
		graph_value(graph, matrix)->rank == 2 && graph_value(graph, matrix)->elements > 0;
}

/* x · b for b of rank 2, or its transpose. */
static int32_t
product(struct graph *graph, int32_t x, int32_t b, bool transposed)
{
	static const int swap[2] = {1, 0};

	if (can_pack(graph, x, b))
		return graph_gemm(graph, x, b, transposed);
	return graph_matmul(graph, x, transposed ? graph_transpose(graph, b, swap) : b);
}

static int32_t
scaled(struct graph *graph, int32_t x, double factor)
{
	if (x < 0 || factor == 1.0)
		return x;
	return graph_binary(graph, BINARY_MUL, x,
						graph_constant_number(graph, graph_value(graph, x)->type, factor));
}

static bool
lower_gemm(struct graph *graph, const struct onnx_node *node)
{
	static const int swap[2] = {1, 0};
	int32_t		a = graph_input(graph, node, 0);
	int32_t		b = graph_input(graph, node, 1);
	int32_t		c = graph_input_optional(graph, node, 2);
	int64_t		trans_a, trans_b;
	double		alpha, beta;
	int32_t		y;

	graph_attribute_ignore(graph, node, "broadcast");	/* version 6: of C, whose shape tells */
	if (a < 0 || b < 0 || c == GRAPH_FAILED ||
		!graph_attribute_int(graph, node, "transA", 0, &trans_a) ||
		!graph_attribute_int(graph, node, "transB", 0, &trans_b) ||
		!graph_attribute_float(graph, node, "alpha", 1, &alpha) ||
		!graph_attribute_float(graph, node, "beta", 1, &beta))
		return false;
	if (graph_value(graph, a)->rank != 2 || graph_value(graph, b)->rank != 2)
		return graph_malformed(graph, node, "takes matrices, and has values of %d and %d dimensions",
							   graph_value(graph, a)->rank, graph_value(graph, b)->rank);
	if (trans_a != 0)
		a = graph_transpose(graph, a, swap);
	if (a < 0)
		return false;
	y = scaled(graph, product(graph, a, b, trans_b != 0), alpha);
	if (c != GRAPH_ABSENT && y >= 0)
	{
		int64_t		dims[2];

		memcpy(dims, graph_value(graph, y)->dims, sizeof(dims));
		y = graph_binary(graph, BINARY_ADD, y, scaled(graph, c, beta));
		if (y >= 0 && (graph_value(graph, y)->rank != 2 ||
					   memcmp(graph_value(graph, y)->dims, dims, sizeof(dims)) != 0))
			return graph_malformed(graph, node, "has an input C that does not fit the product");
	}
	return graph_output(graph, node, 0, y);
}

/* NumPy's matmul: a vector on the left is a row, on the right a column. */
static bool
lower_matmul(struct graph *graph, const struct onnx_node *node)
{
	int32_t		a = graph_input(graph, node, 0);
	int32_t		b = graph_input(graph, node, 1);
	int64_t		dims[DEVICE_RANK_MAX];
	bool		a_vector, b_vector;
	int			rank;
	int32_t		y;

	if (a < 0 || b < 0)
		return false;
	a_vector = graph_value(graph, a)->rank == 1;
	b_vector = graph_value(graph, b)->rank == 1;
	if (graph_value(graph, a)->rank == 0 || graph_value(graph, b)->rank == 0)
		return graph_malformed(graph, node, "takes matrices, and has a scalar");
	if (a_vector)
	{
		dims[0] = 1;
		dims[1] = graph_value(graph, a)->dims[0];
		a = graph_view(graph, a, 2, dims);
	}
	if (b_vector)
	{
		dims[0] = graph_value(graph, b)->dims[0];
		dims[1] = 1;
		b = graph_view(graph, b, 2, dims);
	}
	if (a < 0 || b < 0)
		return false;
	y = product(graph, a, b, false);
	if (y < 0)
		return false;
	if (a_vector || b_vector)
	{
		const struct graph_value *from = graph_value(graph, y);

		rank = 0;
		for (int i = 0; i < from->rank; i++)
			if (!(a_vector && i == from->rank - 2) && !(b_vector && i == from->rank - 1))
				dims[rank++] = from->dims[i];
		y = graph_view(graph, y, rank, dims);
	}
	return graph_output(graph, node, 0, y);
}

const struct graph_operator graph_linear_operators[] = {
	{"", "Gemm", 6, 25, lower_gemm, 0},
	{"", "MatMul", 1, 25, lower_matmul, 0},
	{0}
};
