/*
 * fold.h
 *	  What a team folds a vector of floating numbers to.
 */
#ifndef CUDA_KERNELS_FOLD_H
#define CUDA_KERNELS_FOLD_H

#include "../math/elementary.h"
#include "team.h"
#include "vectors.h"

/* fn: REDUCE_SUM, REDUCE_L1, REDUCE_SUM_SQUARE, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD; others are sums */
template <class T, class V>
struct fold_float
{
	V			vector;
	int			fn;

	__device__ inline T
	start() const
	{
		return fn == REDUCE_MAX ? -gpu_terms<T>::infinity : fn == REDUCE_MIN ? gpu_terms<T>::infinity :
			fn == REDUCE_PROD ? (T) 1 : (T) 0;
	}

	__device__ inline T
	step(T sum, int64_t i) const
	{
		T			v = vector.at(i);

		switch (fn)
		{
			case REDUCE_L1:
				return sum + gpu_abs(v);
			case REDUCE_L2:
			case REDUCE_SUM_SQUARE:
				return gpu_fma(v, v, sum);
		}
		return join(sum, v);
	}

	__device__ inline T
	join(T a, T b) const
	{
		switch (fn)
		{
			case REDUCE_MAX:
				return gpu_max(a, b);
			case REDUCE_MIN:
				return gpu_min(a, b);
			case REDUCE_PROD:
				return a * b;
		}
		return a + b;
	}
};

/* The place of the greatest or least; a NaN comes before all numbers. */
template <class T>
struct fold_arg						/* places; −1: none */
{
	vector_of<T> vector;
	bool		greatest;
	bool		last;				/* of equals */

	__device__ inline int64_t
	start() const
	{
		return -1;
	}

	__device__ inline int64_t
	step(int64_t a, int64_t i) const
	{
		return join(a, i);
	}

	/* The first NaN comes before all. */
	__device__ inline int64_t
	join(int64_t a, int64_t b) const
	{
		T			va;
		T			vb;

		if (a < 0 || b < 0)
			return a < 0 ? b : a;
		va = vector.at(a);
		vb = vector.at(b);
		if (va != va || vb != vb)
			return va != va && (vb == vb || a < b) ? a : b;
		if (va == vb)
			return last == (a > b) ? a : b;
		return greatest == (va > vb) ? a : b;
	}
};

#endif /* CUDA_KERNELS_FOLD_H */
