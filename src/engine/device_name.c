/*
 * device_name.c
 *	  What the primitives of device.h are called in messages and in infer-engine check.
 */
#include "device.h"

static const char *const op_names[DEVICE_OPCODES] = {
	[DEVICE_OP_GEMM] = "gemm", [DEVICE_OP_MATMUL] = "matmul", [DEVICE_OP_UNARY] = "unary",
	[DEVICE_OP_BINARY] = "binary", [DEVICE_OP_WHERE] = "where", [DEVICE_OP_CAST] = "cast",
	[DEVICE_OP_COPY] = "copy", [DEVICE_OP_CONCAT] = "concat", [DEVICE_OP_GATHER] = "gather",
	[DEVICE_OP_REDUCE] = "reduce", [DEVICE_OP_SOFTMAX] = "softmax", [DEVICE_OP_ARG] = "arg",
	[DEVICE_OP_NORMALIZE] = "normalize", [DEVICE_OP_LOOKUP] = "lookup",
	[DEVICE_OP_CUMSUM] = "cumulative sum", [DEVICE_OP_TOPK] = "top k", [DEVICE_OP_OFFSET] = "offset",
	[DEVICE_OP_SCATTER] = "scatter", [DEVICE_OP_DISTANCE] = "distance", [DEVICE_OP_COUPLE] = "couple",
	[DEVICE_OP_TREES] = "trees", [DEVICE_OP_NORM] = "norm", [DEVICE_OP_ATTENTION] = "attention",
	[DEVICE_OP_ROTARY] = "rotary", [DEVICE_OP_GATE] = "gate", [DEVICE_OP_POOL] = "pool",
	[DEVICE_OP_QUANTISE] = "quantise"
};

static const char *const unary_names[UNARY_FUNCTIONS] = {
	[UNARY_ABS] = "abs", [UNARY_NEG] = "neg", [UNARY_SIGN] = "sign", [UNARY_RECIPROCAL] = "reciprocal",
	[UNARY_SQRT] = "sqrt", [UNARY_EXP] = "exp", [UNARY_LOG] = "log", [UNARY_FLOOR] = "floor",
	[UNARY_CEIL] = "ceil", [UNARY_ROUND] = "round", [UNARY_ERF] = "erf", [UNARY_TANH] = "tanh",
	[UNARY_SIGMOID] = "sigmoid", [UNARY_SIN] = "sin", [UNARY_COS] = "cos", [UNARY_TAN] = "tan",
	[UNARY_ASIN] = "asin", [UNARY_ACOS] = "acos", [UNARY_ATAN] = "atan", [UNARY_SINH] = "sinh",
	[UNARY_COSH] = "cosh", [UNARY_ASINH] = "asinh", [UNARY_ACOSH] = "acosh", [UNARY_ATANH] = "atanh",
	[UNARY_RELU] = "relu", [UNARY_LEAKY_RELU] = "leaky relu", [UNARY_ELU] = "elu",
	[UNARY_SELU] = "selu", [UNARY_CELU] = "celu", [UNARY_THRESHOLDED_RELU] = "thresholded relu",
	[UNARY_HARD_SIGMOID] = "hard sigmoid", [UNARY_HARD_SWISH] = "hard swish",
	[UNARY_SOFTPLUS] = "softplus", [UNARY_SOFTSIGN] = "softsign", [UNARY_MISH] = "mish",
	[UNARY_GELU] = "gelu", [UNARY_GELU_TANH] = "gelu by tanh", [UNARY_SWISH] = "swish",
	[UNARY_SHRINK] = "shrink", [UNARY_CLIP] = "clip", [UNARY_PROBIT] = "probit",
	[UNARY_NOT] = "not", [UNARY_IS_NAN] = "is nan", [UNARY_IS_INF] = "is inf"
};

static const char *const binary_names[BINARY_FUNCTIONS] = {
	[BINARY_ADD] = "add", [BINARY_SUB] = "subtract", [BINARY_MUL] = "multiply", [BINARY_DIV] = "divide",
	[BINARY_POW] = "power", [BINARY_MIN] = "min", [BINARY_MAX] = "max", [BINARY_MOD] = "mod",
	[BINARY_FMOD] = "fmod", [BINARY_PRELU] = "prelu", [BINARY_EQUAL] = "equal", [BINARY_LESS] = "less",
	[BINARY_LESS_EQUAL] = "less or equal", [BINARY_GREATER] = "greater",
	[BINARY_GREATER_EQUAL] = "greater or equal", [BINARY_AND] = "and", [BINARY_OR] = "or",
	[BINARY_XOR] = "xor", [BINARY_BIT_AND] = "bitwise and", [BINARY_BIT_OR] = "bitwise or",
	[BINARY_BIT_XOR] = "bitwise xor"
};

static const char *const reduce_names[REDUCE_FUNCTIONS] = {
	[REDUCE_SUM] = "sum", [REDUCE_MEAN] = "mean", [REDUCE_MAX] = "max", [REDUCE_MIN] = "min",
	[REDUCE_PROD] = "product", [REDUCE_L1] = "l1", [REDUCE_L2] = "l2", [REDUCE_LOG_SUM] = "log sum",
	[REDUCE_LOG_SUM_EXP] = "log sum exp", [REDUCE_SUM_SQUARE] = "sum of squares"
};

static const char *const softmax_names[] = {"", "plain", "log", "hard", "of what is not zero"};
static const char *const arg_names[] = {"", "max", "min"};
static const char *const normalize_names[] = {"", "max", "l1", "l2"};
static const char *const topk_names[] = {"", "largest", "smallest"};
static const char *const scatter_names[] = {"", "set", "add", "multiply", "max", "min"};
static const char *const trees_names[] = {"", "sum", "min", "max"};
static const char *const norm_names[] = {"", "layer", "rms"};
static const char *const pool_names[] = {"", "first", "mean", "max", "mean by root of length", "last", "mean weighted by place"};

#define NAME_IN(names, fn) \
	((fn) < sizeof(names) / sizeof((names)[0]) && (names)[fn] != NULL ? (names)[fn] : "")

const char *
device_op_name(const struct device_op *op)
{
	return NAME_IN(op_names, op->op);
}

const char *
device_function_name(const struct device_op *op)
{
	switch (op->op)
	{
		case DEVICE_OP_GEMM:
		case DEVICE_OP_UNARY:
		case DEVICE_OP_GATE:
			return NAME_IN(unary_names, op->fn);
		case DEVICE_OP_BINARY:
			return NAME_IN(binary_names, op->fn);
		case DEVICE_OP_REDUCE:
			return NAME_IN(reduce_names, op->fn);
		case DEVICE_OP_SOFTMAX:
			return NAME_IN(softmax_names, op->fn);
		case DEVICE_OP_ARG:
			return NAME_IN(arg_names, op->fn);
		case DEVICE_OP_NORMALIZE:
			return NAME_IN(normalize_names, op->fn);
		case DEVICE_OP_TOPK:
			return NAME_IN(topk_names, op->fn);
		case DEVICE_OP_SCATTER:
			return NAME_IN(scatter_names, op->fn);
		case DEVICE_OP_TREES:
			return NAME_IN(trees_names, op->fn);
		case DEVICE_OP_NORM:
			return NAME_IN(norm_names, op->fn);
		case DEVICE_OP_POOL:
			return NAME_IN(pool_names, op->fn);
		default:
			return "";
	}
}
