/*
 * function.h
 *	  The unary and binary functions of device.h for float and double.
 *
 * gpu_unary(fn, x, f0, f1)		what UNARY, GATE and products' activations compute; where fn is a constant, its code alone
 * gpu_unary_test(fn, x, f)		UNARY_IS_NAN, UNARY_IS_INF
 * gpu_binary(fn, a, b)			up to BINARY_PRELU; gpu_compare(fn, a, b): from BINARY_EQUAL to BINARY_GREATER_EQUAL
 *
 * What elementary.h has is computed by it, with the CPU device's bits; the others (trigonometric functions, powers) are
 * CUDA's, within a few ulps.
 */
#ifndef CUDA_KERNELS_FUNCTION_H
#define CUDA_KERNELS_FUNCTION_H

#include "elementary.h"

/* ---- CUDA's own functions; kept out of line, since most need a stack ---- */

static __device__ __attribute__((noinline)) inline float
gpu_library(int fn, float x)
{
	switch (fn)
	{
		case UNARY_SIN:
			return sinf(x);
		case UNARY_COS:
			return cosf(x);
		case UNARY_TAN:
			return tanf(x);
		case UNARY_ASIN:
			return asinf(x);
		case UNARY_ACOS:
			return acosf(x);
		case UNARY_ATAN:
			return atanf(x);
		case UNARY_SINH:
			return sinhf(x);
		case UNARY_COSH:
			return coshf(x);
		case UNARY_ASINH:
			return asinhf(x);
		case UNARY_ACOSH:
			return acoshf(x);
		case UNARY_ATANH:
			return atanhf(x);
		case UNARY_PROBIT:
			return (float) gpu_probit((double) x);
	}
	return x;
}

static __device__ __attribute__((noinline)) inline double
gpu_library(int fn, double x)
{
	switch (fn)
	{
		case UNARY_SIN:
			return sin(x);
		case UNARY_COS:
			return cos(x);
		case UNARY_TAN:
			return tan(x);
		case UNARY_ASIN:
			return asin(x);
		case UNARY_ACOS:
			return acos(x);
		case UNARY_ATAN:
			return atan(x);
		case UNARY_SINH:
			return sinh(x);
		case UNARY_COSH:
			return cosh(x);
		case UNARY_ASINH:
			return asinh(x);
		case UNARY_ACOSH:
			return acosh(x);
		case UNARY_ATANH:
			return atanh(x);
		case UNARY_PROBIT:
			return gpu_probit(x);
	}
	return x;
}

/* ---- the functions of device.h ---- */

/* But for UNARY_NONE; NaNs are not yet the one NaN. */
template <class T>
__device__ inline T
gpu_unary_value(int fn, T x, T f0, T f1)
{
	switch (fn)
	{
		case UNARY_ABS:
			return gpu_abs(x);
		case UNARY_NEG:
			return -x;
		case UNARY_SIGN:
			return x > 0 ? (T) 1 : x < 0 ? (T) -1 : x == 0 ? (T) 0 : x;
		case UNARY_RECIPROCAL:
			return (T) 1 / x;
		case UNARY_SQRT:
			return gpu_sqrt(x);
		case UNARY_EXP:
			return gpu_exp(x);
		case UNARY_LOG:
			return gpu_log(x);
		case UNARY_FLOOR:
			return gpu_floor(x);
		case UNARY_CEIL:
			return -gpu_floor(-x);
		case UNARY_ROUND:
			return gpu_rint(x);
		case UNARY_ERF:
			return gpu_erf(x);
		case UNARY_TANH:
			return gpu_tanh(x);
		case UNARY_SIGMOID:
			return gpu_sigmoid(x);
		case UNARY_RELU:
			return x < 0 ? (T) 0 : x;
		case UNARY_LEAKY_RELU:
			return x < 0 ? f0 * x : x;
		case UNARY_ELU:
			return x < 0 ? f0 * gpu_expm1(x) : x;
		case UNARY_SELU:
			return f1 * (x > 0 ? x : f0 * gpu_expm1(x));
		case UNARY_CELU:
			return gpu_max(x, (T) 0) + gpu_min(f0 * gpu_expm1(x / f0), (T) 0);
		case UNARY_THRESHOLDED_RELU:
			return f0 < x ? x : (T) 0;
		case UNARY_HARD_SIGMOID:
			return gpu_max(gpu_min(f0 * x + f1, (T) 1), (T) 0);
		case UNARY_HARD_SWISH:
			return x * gpu_max(gpu_min((T) (1.0 / 6) * x + (T) 0.5, (T) 1), (T) 0);
		case UNARY_SOFTPLUS:
			return gpu_softplus(x);
		case UNARY_SOFTSIGN:
			return x / ((T) 1 + gpu_abs(x));
		case UNARY_MISH:
			return x * gpu_tanh(gpu_softplus(x));
		case UNARY_GELU:
			return gpu_gelu(x);
		case UNARY_GELU_TANH:
			return gpu_gelu_tanh(x);
		case UNARY_SWISH:
			return x * gpu_sigmoid(f0 * x);
		case UNARY_SHRINK:
			return x < -f0 ? x + f1 : f0 < x ? x - f1 : x != x ? x : (T) 0;
		case UNARY_CLIP:
			return gpu_min(gpu_max(x, f0), f1);
	}
	return gpu_library(fn, x);
}

template <class T>
__device__ inline T
gpu_unary(int fn, T x, T f0, T f1)
{
	return fn == UNARY_NONE ? x : gpu_canonical(gpu_unary_value(fn, x, f0, f1));
}

/* negative, positive: which infinities UNARY_IS_INF finds */
template <class T>
__device__ inline bool
gpu_unary_test(int fn, T x, bool negative, bool positive)
{
	if (fn == UNARY_IS_NAN)
		return x != x;
	return (negative && x == -gpu_terms<T>::infinity) || (positive && x == gpu_terms<T>::infinity);
}

/* A power, and a remainder of the dividend's sign. */
static __device__ __attribute__((noinline)) inline float
gpu_library2(int fn, float a, float b)
{
	return fn == BINARY_POW ? powf(a, b) : fmodf(a, b);
}

static __device__ __attribute__((noinline)) inline double
gpu_library2(int fn, double a, double b)
{
	return fn == BINARY_POW ? pow(a, b) : fmod(a, b);
}

template <class T>
__device__ inline T
gpu_binary_value(int fn, T a, T b)
{
	switch (fn)
	{
		case BINARY_ADD:
			return a + b;
		case BINARY_SUB:
			return a - b;
		case BINARY_MUL:
			return a * b;
		case BINARY_DIV:
			return a / b;
		case BINARY_POW:
			return b == 2 ? a * a : gpu_library2(BINARY_POW, a, b);
		case BINARY_MIN:
			return gpu_min(a, b);
		case BINARY_MAX:
			return gpu_max(a, b);
		case BINARY_MOD:
		{
			T			r = gpu_library2(BINARY_FMOD, a, b);

			return r != 0 && (r < 0) != (b < 0) ? r + b : r;
		}
		case BINARY_FMOD:
			return gpu_library2(BINARY_FMOD, a, b);
		case BINARY_PRELU:
			return a < 0 ? b * a : a;
	}
	return a;
}

template <class T>
__device__ inline T
gpu_binary(int fn, T a, T b)
{
	return gpu_canonical(gpu_binary_value(fn, a, b));
}

template <class T>
__device__ inline bool
gpu_compare(int fn, T a, T b)
{
	switch (fn)
	{
		case BINARY_EQUAL:
			return a == b;
		case BINARY_LESS:
			return a < b;
		case BINARY_LESS_EQUAL:
			return a <= b;
		case BINARY_GREATER:
			return a > b;
	}
	return a >= b;
}

#endif /* CUDA_KERNELS_FUNCTION_H */
