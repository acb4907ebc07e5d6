/*
 * fold.h
 *	  What a team folds a vector of floating numbers to.
 */
#ifndef CUDA_KERNELS_FOLD_H
#define CUDA_KERNELS_FOLD_H

#include "elementary.h"
#include "team.h"

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

#endif /* CUDA_KERNELS_FOLD_H */
