/*
 * finish.h
 *	  From sums to results: bias, activation, rounding, and how they are written.
 *
 * Nouns
 *	end			what becomes of a product's sums: the op's, the same for all of its elements
 *	stage		sums of a block in shared memory, from where its threads take four columns each, so that results are
 *				written side by side, whatever lanes had the sums
 *	SUM			how a sum becomes a number: start(row) once, then value(column, sum), with the bias
 */
#ifndef CUDA_PRODUCTS_FINISH_H
#define CUDA_PRODUCTS_FINISH_H

#include <string.h>

#include "../kernels/math/function.h"
#include "../kernels/math/half.h"

template <class T>
struct product_end
{
	void	   *y;
	const T    *bias;				/* or NULL */
	int64_t		bias_step;			/* 1, or 0: a scalar */
	int64_t		n;
	int			fn;					/* enum device_unary */
	bool		rounded;			/* y is BF16; of F32 */
	T			f0;
	T			f1;
};

/* N numbers side by side, moved at once. */
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) product_vector
{
	T			v[N];
};

/* Which elements of y a stage holds. */
struct product_place
{
	int64_t		row0;
	int64_t		rows_end;
	int64_t		column0;
};

/* The functions that are rare are not in every kernel's own code. */
template <class T>
static __device__ __attribute__((noinline)) T
product_rare(int fn, T x, T f0, T f1)
{
	return gpu_unary(fn, x, f0, f1);
}

template <class T>
static __device__ inline void
product_activate(const product_end<T> &end, T v[4])
{
	switch (end.fn)
	{
		case UNARY_NONE:
			break;
		case UNARY_RELU:
			for (int j = 0; j < 4; j++)
				v[j] = gpu_unary((int) UNARY_RELU, v[j], end.f0, end.f1);
			break;
		case UNARY_GELU:
			for (int j = 0; j < 4; j++)
				v[j] = gpu_unary((int) UNARY_GELU, v[j], end.f0, end.f1);
			break;
		case UNARY_GELU_TANH:
			for (int j = 0; j < 4; j++)
				v[j] = gpu_unary((int) UNARY_GELU_TANH, v[j], end.f0, end.f1);
			break;
		default:
			for (int j = 0; j < 4; j++)
				v[j] = product_rare(end.fn, v[j], end.f0, end.f1);
	}
}

template <class T, class Y>
static __device__ inline void
product_write(Y *y, const product_end<T> &end, int64_t row, int64_t column, const Y v[4])
{
	Y		   *at = y + row * end.n + column;

	if (end.n % 4 == 0)
		*(product_vector<Y, 4> *) at = *(const product_vector<Y, 4> *) v;
	else
		for (int j = 0; j < 4; j++)
			if (column + j < end.n)
				at[j] = v[j];
}

/* Four columns of a row. */
template <class T>
static __device__ inline void
product_finish_four(const product_end<T> &end, int64_t row, int64_t column, T v[4])
{
	product_activate(end, v);
	if (end.rounded)
	{
		alignas(8) uint16_t half[4];

		for (int j = 0; j < 4; j++)
			half[j] = gpu_bf16_of_f32((float) v[j]);
		product_write((uint16_t *) end.y, end, row, column, half);
	}
	else
		product_write((T *) end.y, end, row, column, v);
}

/* ROWS × COLUMNS of a stage, whose rows are `stride` apart; by all threads of the block. */
template <int ROWS, int COLUMNS, class T, class S, class SUM>
static __device__ inline void
product_finish(const product_end<T> &end, const product_place &place, const S *stage, int stride, SUM sum)
{
	constexpr int quads = COLUMNS / 4;

	for (int e = (int) threadIdx.x; e < ROWS * quads; e += (int) blockDim.x)
	{
		int64_t		row = place.row0 + e / quads;
		int64_t		column = place.column0 + e % quads * 4;
		alignas(16) T v[4];

		if (row >= place.rows_end || column >= end.n)
			continue;
		sum.start(row);
		for (int j = 0; j < 4; j++)
			v[j] = column + j < end.n ? sum.value(column + j, stage[e / quads * stride + e % quads * 4 + j]) : (T) 0;
		product_finish_four(end, row, column, v);
	}
}

/* A sum that is the number, but for the bias. */
template <class T>
struct product_plain_sum
{
	const T    *bias;
	int64_t		bias_step;

	__device__ inline void
	start(int64_t row)
	{
	}

	__device__ inline T
	value(int64_t column, T sum) const
	{
		return gpu_canonical(bias == nullptr ? sum : sum + bias[column * bias_step]);
	}
};

#endif /* CUDA_PRODUCTS_FINISH_H */
