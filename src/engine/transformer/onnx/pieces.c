/*
 * pieces.c
 *	  What encoders are made of, however a graph writes it: sums, products, matrices, norms and
 *	  activations.
 */
#include "walk.h"

#include <math.h>
#include <string.h>

/* ---- constants ---- */

bool
walk_weight(struct walk *w, int32_t name, uint32_t rank, struct encoder_tensor *tensor)
{
	const struct fact *fact = walk_fact(w, name);
	const struct onnx_tensor *constant = fact->tensor;

	if (fact->kind != FACT_CONSTANT || constant->type != DEVICE_F32 || constant->rank != rank || constant->elements < 1)
		return walk_refuse(w, name, "a constant of float32 is expected");
	tensor->storage = ENCODER_F32;
	tensor->rank = (uint8_t) rank;
	memcpy(tensor->dims, constant->dims, rank * sizeof(*tensor->dims));
	tensor->name = folder_text(w->folder, "%s", w->model->names[name]);
	if (tensor->name == NULL)
		return false;
	tensor->data = constant->raw.data;	/* as long as its shape says: onnx_tensor_parse */
	if (tensor->data == NULL)
	{
		void	   *data = graph_block(w->folder->memory, (uint64_t) constant->elements * sizeof(float));

		if (data == NULL || !onnx_tensor_read(constant, data, w->status))
			return false;
		tensor->data = data;
	}
	return true;
}

static bool
is_vector(const struct walk *w, int32_t name)
{
	const struct fact *fact = walk_fact(w, name);

	return fact->kind == FACT_CONSTANT && fact->rank == 1 && fact->tensor->type == DEVICE_F32;
}

/* ---- sums ---- */

static bool plain_norm(struct walk *w, int32_t name, int32_t *of, struct normed *normed);

/* A norm that is written out ends in a sum, too. */
static bool
is_plain_norm(struct walk *w, int32_t name)
{
	struct normed normed;
	int32_t		of;

	return plain_norm(w, name, &of, &normed);
}

static bool
sum_add(struct walk *w, int32_t name, struct sum *sum, uint32_t depth)
{
	const struct onnx_node *node = walk_maker(w, name);

	name = walk_same(w, name);
	if (is_vector(w, name))
	{
		if (sum->bias >= 0)
			return walk_refuse(w, name, "a sum has two biases");
		sum->bias = name;
		return true;
	}
	if (node_is(node, "Add") && depth < WALK_DEPTH_MAX && !is_plain_norm(w, name))
		return sum_add(w, node_input(node, 0), sum, depth + 1) && sum_add(w, node_input(node, 1), sum, depth + 1);
	if (walk_fact(w, name)->kind != FACT_DATA)
		return walk_refuse(w, name, "it is not known what it holds");
	if (sum->terms_count == WALK_TERMS_MAX)
		return walk_refuse(w, name, "a sum has too many terms");
	sum->terms[sum->terms_count++] = name;
	return true;
}

bool
walk_sum(struct walk *w, int32_t name, struct sum *sum)
{
	*sum = (struct sum) {.bias = -1};
	return sum_add(w, name, sum, 0);
}

bool
walk_sum_add(struct walk *w, int32_t name, struct sum *sum)
{
	return sum_add(w, name, sum, 0);
}

/* ---- products ---- */

static void
product_add(struct walk *w, int32_t name, struct product *product, uint32_t depth)
{
	const struct onnx_node *node = walk_maker(w, name);
	double		number;

	name = walk_same(w, name);
	if (product->terms_count > WALK_TERMS_MAX)
		return;
	if (walk_number(w, name, &number))
	{
		product->factor *= number;
		return;
	}
	if (depth < WALK_DEPTH_MAX && node_is(node, "Mul"))
	{
		product_add(w, node_input(node, 0), product, depth + 1);
		product_add(w, node_input(node, 1), product, depth + 1);
		return;
	}
	if (depth < WALK_DEPTH_MAX && node_is(node, "Div") && walk_number(w, node_input(node, 1), &number) && number != 0)
	{
		product->factor /= number;
		product_add(w, node_input(node, 0), product, depth + 1);
		return;
	}
	if (depth < WALK_DEPTH_MAX && node_is(node, "Pow") && walk_number(w, node_input(node, 1), &number) && (number == 2 || number == 3))
	{
		for (int i = 0; i < (int) number; i++)
			product_add(w, node_input(node, 0), product, depth + 1);
		return;
	}
	if (product->terms_count < WALK_TERMS_MAX)
		product->terms[product->terms_count] = name;
	product->terms_count++;
}

/* Of more terms than there is room for, terms_count is more. */
void
walk_product(struct walk *w, int32_t name, struct product *product)
{
	*product = (struct product) {.factor = 1};
	product_add(w, name, product, 0);
}

/* ---- matrices ---- */

bool
walk_times(struct walk *w, int32_t name, int32_t *input, struct encoder_tensor *weight)
{
	const struct onnx_node *node = walk_maker(w, name);
	bool		turned = false;

	if (node_is(node, "Gemm"))
	{
		if (node_float(node, "alpha", 1) != 1 || node_int(node, "transA", 0) != 0)
			return walk_refuse(w, name, "a matrix times a value is expected");
		turned = node_int(node, "transB", 0) != 0;
	}
	else if (!node_is(node, "MatMul"))
		return walk_refuse(w, name, "a matrix times a value is expected");
	if (!walk_weight(w, walk_same(w, node_input(node, 1)), 2, weight))
		return false;
	*input = walk_same(w, node_input(node, 0));
	if (turned)
		return true;
	weight->transposed = true;
	weight->dims[0] = weight->dims[1];
	weight->dims[1] = walk_fact(w, walk_same(w, node_input(node, 1)))->tensor->dims[0];
	return true;
}

/* Gemm has its bias inside. */
static int32_t
inner_bias(const struct walk *w, int32_t name)
{
	const struct onnx_node *node = walk_maker(w, name);

	return node_is(node, "Gemm") ? node_input(node, 2) : -1;
}

bool
walk_linear_of(struct walk *w, int32_t name, const struct sum *sum, int32_t *input, struct encoder_linear *linear)
{
	int32_t		bias = sum->bias, inner;

	if (sum->terms_count != 1)
		return walk_refuse(w, name, "a matrix times a value, and a bias, are expected");
	if (!walk_times(w, sum->terms[0], input, &linear->weight))
		return false;
	inner = inner_bias(w, sum->terms[0]);
	if (inner >= 0)
	{
		if (bias >= 0 || node_float(walk_maker(w, sum->terms[0]), "beta", 1) != 1)
			return walk_refuse(w, name, "one bias is expected");
		bias = walk_same(w, inner);
	}
	if (bias < 0)
		return true;
	if (!walk_weight(w, bias, 1, &linear->bias))
		return false;
	return linear->bias.dims[0] == linear->weight.dims[0] || walk_refuse(w, name, "a bias for each row of the matrix is expected");
}

bool
walk_linear(struct walk *w, int32_t name, int32_t *input, struct encoder_linear *linear)
{
	struct sum	sum;

	return walk_sum(w, name, &sum) && walk_linear_of(w, name, &sum, input, linear);
}

/* ---- norms ---- */

static bool
over_last(struct walk *w, const struct onnx_node *node, int32_t input)
{
	int64_t		axes[DEVICE_RANK_MAX];
	uint32_t	count = 0;

	return walk_axes(w, node, 1, "axes", axes, &count) && count == 1 && node_int(node, "keepdims", 1) != 0 &&
		(axes[0] == -1 || axes[0] == walk_fact(w, input)->rank - 1);
}

/* The mean of a value along its last axis. */
static bool
is_mean_of(struct walk *w, int32_t name, int32_t of)
{
	const struct onnx_node *node = walk_maker(w, name);

	return node_is(node, "ReduceMean") && walk_same(w, node_input(node, 0)) == of && over_last(w, node, of);
}

/* x less its mean: x, or −1. */
static int32_t
centred(struct walk *w, int32_t name)
{
	const struct onnx_node *node = walk_maker(w, name);
	int32_t		of;

	if (!node_is(node, "Sub"))
		return -1;
	of = walk_same(w, node_input(node, 0));
	return is_mean_of(w, node_input(node, 1), of) ? of : -1;
}

/* sqrt(mean(centred(x)²) + epsilon) */
static bool
is_deviation_of(struct walk *w, int32_t name, int32_t of, double *epsilon)
{
	const struct onnx_node *root = walk_maker(w, name), *add, *mean;
	struct product square;
	int			which;

	if (!node_is(root, "Sqrt") || !node_is(add = walk_maker(w, node_input(root, 0)), "Add"))
		return false;
	which = walk_number(w, node_input(add, 1), epsilon) ? 0 : 1;
	if (which == 1 && !walk_number(w, node_input(add, 0), epsilon))
		return false;
	mean = walk_maker(w, node_input(add, which));
	if (!node_is(mean, "ReduceMean") || !over_last(w, mean, walk_same(w, node_input(mean, 0))))
		return false;
	walk_product(w, node_input(mean, 0), &square);
	return square.factor == 1 && square.terms_count == 2 && centred(w, square.terms[0]) == of && centred(w, square.terms[1]) == of;
}

/* centred(x) / deviation(x) · weight + bias */
static bool
plain_norm(struct walk *w, int32_t name, int32_t *of, struct normed *normed)
{
	const struct onnx_node *node = walk_maker(w, name), *times, *quotient;
	int			which;

	if (!node_is(node, "Add"))
		return false;
	which = is_vector(w, walk_same(w, node_input(node, 1))) ? 0 : 1;
	normed->bias = walk_same(w, node_input(node, 1 - which));
	times = walk_maker(w, node_input(node, which));
	if (!is_vector(w, normed->bias) || !node_is(times, "Mul"))
		return false;
	which = is_vector(w, walk_same(w, node_input(times, 1))) ? 0 : 1;
	normed->weight = walk_same(w, node_input(times, 1 - which));
	quotient = walk_maker(w, node_input(times, which));
	if (!is_vector(w, normed->weight) || !node_is(quotient, "Div"))
		return false;
	*of = centred(w, node_input(quotient, 0));
	return *of >= 0 && is_deviation_of(w, node_input(quotient, 1), *of, &normed->epsilon);
}

static bool
fused_norm(struct walk *w, const struct onnx_node *node, struct normed *normed)
{
	int32_t		bias = node_input(node, 4);

	normed->weight = walk_same(w, node_input(node, 2));
	normed->bias = walk_same(w, node_input(node, 3));
	normed->epsilon = node_float(node, "epsilon", 1e-12);
	normed->sum = (struct sum) {.bias = -1};
	return sum_add(w, node_input(node, 0), &normed->sum, 0) && sum_add(w, node_input(node, 1), &normed->sum, 0) &&
		(bias < 0 || sum_add(w, bias, &normed->sum, 0));
}

bool
walk_normed(struct walk *w, int32_t name, struct normed *normed)
{
	const struct onnx_node *node = walk_maker(w, name);
	int32_t		of;

	*normed = (struct normed) {.weight = -1, .bias = -1};
	if (node_is_contrib(node, "SkipLayerNormalization"))
		return node->inputs_count >= 3 ? fused_norm(w, node, normed) : walk_refuse(w, name, "a layer norm is expected");
	if (node_is(node, "LayerNormalization"))
	{
		int64_t		axis = node_int(node, "axis", -1);

		if (axis != -1 && axis != walk_fact(w, node_input(node, 0))->rank - 1)
			return walk_refuse(w, name, "a norm along the last axis is expected");
		normed->weight = walk_same(w, node_input(node, 1));
		normed->bias = walk_same(w, node_input(node, 2));
		normed->epsilon = node_float(node, "epsilon", 1e-5);
		return walk_sum(w, node_input(node, 0), &normed->sum);
	}
	if (!plain_norm(w, name, &of, normed))
		return walk_refuse(w, name, "a layer norm is expected");
	return walk_sum(w, of, &normed->sum);
}

/* ---- activations ---- */

static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fabs(b);
}

/* The other term of 1 + x; −1: it is no such sum. */
static int32_t
one_and(struct walk *w, int32_t name)
{
	const struct onnx_node *node = walk_maker(w, name);
	double		number;

	for (uint32_t i = 0; node_is(node, "Add") && i < 2; i++)
		if (walk_number(w, node_input(node, i), &number) && number == 1)
			return walk_same(w, node_input(node, 1 - i));
	return -1;
}

/* √(2/π) · (x + 0.044715 · x³) */
static bool
is_cubic_of(struct walk *w, int32_t name, int32_t of)
{
	struct product outer, cube;
	const struct onnx_node *add;

	walk_product(w, name, &outer);
	if (outer.terms_count != 1 || !near(outer.factor, sqrt(2 / M_PI)))
		return false;
	add = walk_maker(w, outer.terms[0]);
	for (uint32_t i = 0; node_is(add, "Add") && i < 2; i++)
	{
		walk_product(w, node_input(add, 1 - i), &cube);
		if (walk_same(w, node_input(add, i)) == of && cube.terms_count == 3 && near(cube.factor, 0.044715) && cube.terms[0] == of &&
			cube.terms[1] == of && cube.terms[2] == of)
			return true;
	}
	return false;
}

/* x · (1 + erf(x / √2)) / 2, x · (1 + tanh(…)) / 2, or x · sigmoid(x) */
static bool
plain_gelu(struct walk *w, int32_t name, int32_t *of, enum encoder_activation *activation)
{
	struct product product;

	walk_product(w, name, &product);
	for (uint32_t i = 0; product.terms_count == 2 && i < 2; i++)
	{
		int32_t		inner = one_and(w, product.terms[1 - i]);
		const struct onnx_node *node = walk_maker(w, inner >= 0 ? inner : product.terms[1 - i]);
		struct product argument;

		*of = product.terms[i];
		if (inner < 0 && node_is(node, "Sigmoid") && product.factor == 1 && walk_same(w, node_input(node, 0)) == *of)
		{
			*activation = ENCODER_SILU;
			return true;
		}
		if (inner < 0 || product.factor != 0.5)
			continue;
		if (node_is(node, "Erf"))
			walk_product(w, node_input(node, 0), &argument);
		*activation = node_is(node, "Erf") ? ENCODER_GELU : ENCODER_GELU_TANH;
		if (node_is(node, "Erf") ? argument.terms_count == 1 && argument.terms[0] == *of && near(argument.factor, M_SQRT1_2) :
			node_is(node, "Tanh") && is_cubic_of(w, node_input(node, 0), *of))
			return true;
	}
	return false;
}

bool
walk_activation(struct walk *w, int32_t name, struct sum *inner, enum encoder_activation *activation)
{
	const struct onnx_node *node = walk_maker(w, name);
	const struct onnx_attribute *form = node == NULL ? NULL : node_attribute(node, "approximate");
	bool		biased = node_is_contrib(node, "BiasGelu") || node_is_contrib(node, "FastGelu");
	int32_t		of;

	if (node_is(node, "Relu") || node_is(node, "Tanh"))
		*activation = node_is(node, "Relu") ? ENCODER_RELU : ENCODER_TANH;
	else if (biased)
		*activation = node_is_contrib(node, "BiasGelu") ? ENCODER_GELU : ENCODER_GELU_TANH;
	else if (node_is_contrib(node, "Gelu") || (node_is(node, "Gelu") && (form == NULL || (form->s.length == 4 && memcmp(form->s.data, "none", 4) == 0))))
		*activation = ENCODER_GELU;
	else if (node_is(node, "Gelu") && form->s.length == 4 && memcmp(form->s.data, "tanh", 4) == 0)
		*activation = ENCODER_GELU_TANH;
	else if (plain_gelu(w, name, &of, activation))
		return walk_sum(w, of, inner);
	else
		return walk_refuse(w, name, "an activation is expected");
	return walk_sum(w, node_input(node, 0), inner) && (!biased || node_input(node, 1) < 0 || sum_add(w, node_input(node, 1), inner, 0));
}
