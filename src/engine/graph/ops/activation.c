/*
 * activation.c
 *	  ONNX operators: functions of one operand.
 *
 * Formulas and defaults: the operator specification, domain ai.onnx.
 */
#include "../graph.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static bool
unary(struct graph *graph, const struct onnx_node *node, uint16_t fn, double f0, double f1)
{
	return graph_output(graph, node, 0, graph_unary(graph, fn, graph_input(graph, node, 0), f0, f1));
}

#define UNARY_OPERATOR(name, fn) \
static bool \
name(struct graph *graph, const struct onnx_node *node) \
{ \
	return unary(graph, node, fn, 0, 0); \
}

UNARY_OPERATOR(lower_abs, UNARY_ABS)
UNARY_OPERATOR(lower_neg, UNARY_NEG)
UNARY_OPERATOR(lower_sign, UNARY_SIGN)
UNARY_OPERATOR(lower_reciprocal, UNARY_RECIPROCAL)
UNARY_OPERATOR(lower_sqrt, UNARY_SQRT)
UNARY_OPERATOR(lower_exp, UNARY_EXP)
UNARY_OPERATOR(lower_log, UNARY_LOG)
UNARY_OPERATOR(lower_floor, UNARY_FLOOR)
UNARY_OPERATOR(lower_ceil, UNARY_CEIL)
UNARY_OPERATOR(lower_round, UNARY_ROUND)
UNARY_OPERATOR(lower_erf, UNARY_ERF)
UNARY_OPERATOR(lower_tanh, UNARY_TANH)
UNARY_OPERATOR(lower_sigmoid, UNARY_SIGMOID)
UNARY_OPERATOR(lower_sin, UNARY_SIN)
UNARY_OPERATOR(lower_cos, UNARY_COS)
UNARY_OPERATOR(lower_tan, UNARY_TAN)
UNARY_OPERATOR(lower_asin, UNARY_ASIN)
UNARY_OPERATOR(lower_acos, UNARY_ACOS)
UNARY_OPERATOR(lower_atan, UNARY_ATAN)
UNARY_OPERATOR(lower_sinh, UNARY_SINH)
UNARY_OPERATOR(lower_cosh, UNARY_COSH)
UNARY_OPERATOR(lower_asinh, UNARY_ASINH)
UNARY_OPERATOR(lower_acosh, UNARY_ACOSH)
UNARY_OPERATOR(lower_atanh, UNARY_ATANH)
UNARY_OPERATOR(lower_relu, UNARY_RELU)
UNARY_OPERATOR(lower_hard_swish, UNARY_HARD_SWISH)
UNARY_OPERATOR(lower_softplus, UNARY_SOFTPLUS)
UNARY_OPERATOR(lower_softsign, UNARY_SOFTSIGN)
UNARY_OPERATOR(lower_mish, UNARY_MISH)

/* With one attribute, or two, that the function takes as they are. */
static bool
unary_with(struct graph *graph, const struct onnx_node *node, uint16_t fn,
		   const char *name0, double fallback0, const char *name1, double fallback1)
{
	double		f0, f1 = 0;

	if (!graph_attribute_float(graph, node, name0, fallback0, &f0) ||
		(name1 != NULL && !graph_attribute_float(graph, node, name1, fallback1, &f1)))
		return false;
	return unary(graph, node, fn, f0, f1);
}

static bool
lower_leaky_relu(struct graph *graph, const struct onnx_node *node)
{
	return unary_with(graph, node, UNARY_LEAKY_RELU, "alpha", 0.01f, NULL, 0);
}

static bool
lower_elu(struct graph *graph, const struct onnx_node *node)
{
	return unary_with(graph, node, UNARY_ELU, "alpha", 1, NULL, 0);
}

static bool
lower_selu(struct graph *graph, const struct onnx_node *node)
{
	return unary_with(graph, node, UNARY_SELU, "alpha", 1.67326319217681884765625f,
					  "gamma", 1.05070102214813232421875f);
}

static bool
lower_celu(struct graph *graph, const struct onnx_node *node)
{
	return unary_with(graph, node, UNARY_CELU, "alpha", 1, NULL, 0);
}

static bool
lower_thresholded_relu(struct graph *graph, const struct onnx_node *node)
{
	return unary_with(graph, node, UNARY_THRESHOLDED_RELU, "alpha", 1, NULL, 0);
}

static bool
lower_hard_sigmoid(struct graph *graph, const struct onnx_node *node)
{
	return unary_with(graph, node, UNARY_HARD_SIGMOID, "alpha", 0.2f, "beta", 0.5);
}

static bool
lower_shrink(struct graph *graph, const struct onnx_node *node)
{
	return unary_with(graph, node, UNARY_SHRINK, "lambd", 0.5, "bias", 0);
}

static bool
lower_swish(struct graph *graph, const struct onnx_node *node)
{
	return unary_with(graph, node, UNARY_SWISH, "alpha", 1, NULL, 0);
}

static bool
lower_gelu(struct graph *graph, const struct onnx_node *node)
{
	const char *approximate;

	if (!graph_attribute_string(graph, node, "approximate", "none", &approximate))
		return false;
	if (strcmp(approximate, "none") == 0)
		return unary(graph, node, UNARY_GELU, 0, 0);
	if (strcmp(approximate, "tanh") == 0)
		return unary(graph, node, UNARY_GELU_TANH, 0, 0);
	return graph_unsupported(graph, node, "has the approximation \"%s\"", approximate);
}

static bool
lower_is_nan(struct graph *graph, const struct onnx_node *node)
{
	return unary(graph, node, UNARY_IS_NAN, 0, 0);
}

static bool
lower_is_inf(struct graph *graph, const struct onnx_node *node)
{
	int64_t		negative, positive;

	if (!graph_attribute_int(graph, node, "detect_negative", 1, &negative) ||
		!graph_attribute_int(graph, node, "detect_positive", 1, &positive))
		return false;
	return unary(graph, node, UNARY_IS_INF, negative != 0, positive != 0);
}

/* ---- Clip: bounds are attributes before version 11, then inputs ---- */

/* Bounds that are not numbers known at load, or integers: min(max(x, low), high). */
static bool
clip_by_operands(struct graph *graph, const struct onnx_node *node, int32_t x, int32_t low, int32_t high)
{
	if (low != GRAPH_ABSENT)
		x = graph_binary(graph, BINARY_MAX, x, low);
	if (high != GRAPH_ABSENT)
		x = graph_binary(graph, BINARY_MIN, x, high);
	return graph_output(graph, node, 0, x);
}

static bool
clip_bounds(struct graph *graph, const struct onnx_node *node, int32_t x)
{
	int32_t		low = graph_input_optional(graph, node, 1);
	int32_t		high = graph_input_optional(graph, node, 2);
	uint8_t		type = graph_value(graph, x)->type;
	double		f0 = -INFINITY, f1 = INFINITY;

	if (low == GRAPH_FAILED || high == GRAPH_FAILED)
		return false;
	if ((low >= 0 && graph_value(graph, low)->elements != 1) ||
		(high >= 0 && graph_value(graph, high)->elements != 1))
		return graph_malformed(graph, node, "has a bound that is not one number");
	if ((type != DEVICE_F32 && type != DEVICE_F64) ||
		(low >= 0 && !graph_is_constant(graph, low)) || (high >= 0 && !graph_is_constant(graph, high)))
		return clip_by_operands(graph, node, x, low, high);
	if ((low >= 0 && !graph_number(graph, low, "lower bound", &f0)) ||
		(high >= 0 && !graph_number(graph, high, "upper bound", &f1)))
		return false;
	return graph_output(graph, node, 0, graph_unary(graph, UNARY_CLIP, x, f0, f1));
}

static bool
lower_clip(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	double		f0, f1;

	if (x < 0)
		return false;
	if (node->version >= 11)
		return clip_bounds(graph, node, x);
	if (!graph_attribute_float(graph, node, "min", -FLT_MAX, &f0) ||
		!graph_attribute_float(graph, node, "max", FLT_MAX, &f1))
		return false;
	return unary(graph, node, UNARY_CLIP, f0, f1);
}

const struct graph_operator graph_activation_operators[] = {
	{"", "Abs", 6, 25, lower_abs, GRAPH_MISSING_PASSES},
	{"", "Acos", 7, 25, lower_acos, 0},
	{"", "Acosh", 9, 25, lower_acosh, 0},
	{"", "Asin", 7, 25, lower_asin, 0},
	{"", "Asinh", 9, 25, lower_asinh, 0},
	{"", "Atan", 7, 25, lower_atan, 0},
	{"", "Atanh", 9, 25, lower_atanh, 0},
	{"", "Ceil", 6, 25, lower_ceil, 0},
	{"", "Celu", 12, 25, lower_celu, 0},
	{"", "Clip", 6, 25, lower_clip, 0},
	{"", "Cos", 7, 25, lower_cos, 0},
	{"", "Cosh", 9, 25, lower_cosh, 0},
	{"", "Elu", 6, 25, lower_elu, 0},
	{"", "Erf", 9, 25, lower_erf, 0},
	{"", "Exp", 6, 25, lower_exp, GRAPH_MISSING_PASSES},
	{"", "Floor", 6, 25, lower_floor, 0},
	{"", "Gelu", 20, 25, lower_gelu, 0},
	{"", "HardSigmoid", 6, 25, lower_hard_sigmoid, 0},
	{"", "HardSwish", 14, 25, lower_hard_swish, 0},
	{"", "IsInf", 10, 25, lower_is_inf, 0},
	{"", "IsNaN", 9, 25, lower_is_nan, GRAPH_MISSING_TAKES},
	{"", "LeakyRelu", 6, 25, lower_leaky_relu, 0},
	{"", "Log", 6, 25, lower_log, GRAPH_MISSING_PASSES},
	{"", "Mish", 18, 25, lower_mish, 0},
	{"", "Neg", 6, 25, lower_neg, GRAPH_MISSING_PASSES},
	{"", "Reciprocal", 6, 25, lower_reciprocal, 0},
	{"", "Relu", 6, 25, lower_relu, 0},
	{"", "Round", 11, 25, lower_round, 0},
	{"", "Selu", 6, 25, lower_selu, 0},
	{"", "Shrink", 9, 25, lower_shrink, 0},
	{"", "Sigmoid", 6, 25, lower_sigmoid, 0},
	{"", "Sign", 9, 25, lower_sign, 0},
	{"", "Sin", 7, 25, lower_sin, 0},
	{"", "Sinh", 9, 25, lower_sinh, 0},
	{"", "Softplus", 1, 25, lower_softplus, 0},
	{"", "Softsign", 1, 25, lower_softsign, 0},
	{"", "Sqrt", 6, 25, lower_sqrt, GRAPH_MISSING_PASSES},
	{"", "Swish", 24, 25, lower_swish, 0},
	{"", "Tan", 7, 25, lower_tan, 0},
	{"", "Tanh", 6, 25, lower_tanh, 0},
	{"", "ThresholdedRelu", 10, 25, lower_thresholded_relu, 0},
	{0}
};
