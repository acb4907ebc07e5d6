/*
 * integer.h
 *	  The unary and binary functions of device.h for I32, I64 and BOOL.
 *
 * Integers wrap around.  What has no value (a division by zero, zero to a negative power) is an error and gives 0.
 */
#ifndef CUDA_KERNELS_INTEGER_H
#define CUDA_KERNELS_INTEGER_H

#include "../kernel.h"

template <class T>
struct gpu_unsigned;

template <>
struct gpu_unsigned<int32_t>
{
	typedef uint32_t type;
};

template <>
struct gpu_unsigned<int64_t>
{
	typedef uint64_t type;
};

/* low, high: of UNARY_CLIP */
template <class T>
__device__ inline T
gpu_integer_unary(int fn, T x, T low, T high)
{
	typedef typename gpu_unsigned<T>::type U;

	switch (fn)
	{
		case UNARY_ABS:
			return x < 0 ? (T) ((U) 0 - (U) x) : x;
		case UNARY_NEG:
			return (T) ((U) 0 - (U) x);
		case UNARY_SIGN:
			return (T) ((x > 0) - (x < 0));
		case UNARY_RELU:
			return x > 0 ? x : 0;
		case UNARY_CLIP:
			x = x < low ? low : x;
			return x > high ? high : x;
	}
	return x;
}

template <class T>
__device__ inline T
gpu_integer_power(T a, T b, uint32_t *error)
{
	typedef typename gpu_unsigned<T>::type U;
	U			result = 1;
	U			base = (U) a;

	if (b < 0)
	{
		if (a == 0)
			*error = GPU_ROW_DIVISION;
		return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
	}
	for (; b != 0; b >>= 1, base *= base)
		if ((b & 1) != 0)
			result *= base;
	return (T) result;
}

/* fn: BINARY_DIV, BINARY_MOD or BINARY_FMOD */
template <class T>
__device__ inline T
gpu_integer_divide(int fn, T a, T b, uint32_t *error)
{
	typedef typename gpu_unsigned<T>::type U;
	T			r;

	if (b == 0)
	{
		*error = GPU_ROW_DIVISION;
		return 0;
	}
	if (b == -1)
		return fn == BINARY_DIV ? (T) ((U) 0 - (U) a) : 0;
	if (fn == BINARY_DIV)
		return a / b;
	r = a % b;
	return fn == BINARY_MOD && r != 0 && (r < 0) != (b < 0) ? (T) (r + b) : r;
}

template <class T>
__device__ inline T
gpu_integer_binary(int fn, T a, T b, uint32_t *error)
{
	typedef typename gpu_unsigned<T>::type U;

	switch (fn)
	{
		case BINARY_ADD:
			return (T) ((U) a + (U) b);
		case BINARY_SUB:
			return (T) ((U) a - (U) b);
		case BINARY_MUL:
			return (T) ((U) a * (U) b);
		case BINARY_DIV:
		case BINARY_MOD:
		case BINARY_FMOD:
			return gpu_integer_divide(fn, a, b, error);
		case BINARY_POW:
			return gpu_integer_power(a, b, error);
		case BINARY_MIN:
			return a < b ? a : b;
		case BINARY_MAX:
			return a > b ? a : b;
		case BINARY_PRELU:
			return a < 0 ? (T) ((U) a * (U) b) : a;
		case BINARY_BIT_AND:
			return a & b;
		case BINARY_BIT_OR:
			return a | b;
		case BINARY_BIT_XOR:
			return a ^ b;
	}
	return a;
}

/* Any bytes but zero are true. */
static __device__ inline bool
gpu_logic(int fn, bool a, bool b)
{
	switch (fn)
	{
		case BINARY_AND:
			return a && b;
		case BINARY_OR:
			return a || b;
		case BINARY_XOR:
			return a != b;
	}
	return a == b;
}

#endif /* CUDA_KERNELS_INTEGER_H */
