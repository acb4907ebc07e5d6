/*
 * library.h
 *	  Products by cuBLASLt, opened at run time, where that may be and pays.
 *
 * Nouns
 *	form		a product but for its number of rows: types, K, N, what is done with the sums
 *	choice		of a form: the algorithm that computes it for any number of rows, or that own kernels do
 *	agreement	what is checked of an algorithm before it is chosen: rows have the same bits at any place in any number
 *				of rows (rule 4), and they are the product
 *
 * Loop
 *	open: the library is found and asked for its version, a part of numerics_id.  compile: for each GEMM the form is looked up
 *	among the choices; a new one is asked of the library's heuristics for as many rows as are checked, and what they give is
 *	tried until one agrees.  enqueue: the algorithm runs, on at most as many rows at once as were checked.
 *
 * Invariants
 *	- A choice depends on the form, the library and the kind of GPU: all of them in numerics_id and the model.  What fails
 *	  for want of memory is an error, not a choice.  A check takes 64 MB of what the budget leaves free (more where a weight
 *	  alone has 32), one at a time: no model goes for it.
 *	- No algorithm with a workspace is taken, or with K in several parts: what is left keeps no state between runs.
 *	- A handle is used by several threads at once, as cuBLASLt allows.
 */
#ifndef CUDA_PRODUCTS_LIBRARY_H
#define CUDA_PRODUCTS_LIBRARY_H

#include "product.h"

#if defined(__has_include) && __has_include(<cublasLt.h>)
#define LIBRARY_BUILT	1
#include <cublasLt.h>
#include <gpu_library.h>
#else
#define LIBRARY_BUILT	0			/* the toolkit came without it */
#endif

struct library_form
{
	uint8_t		type;				/* of x and w: DEVICE_F32, DEVICE_BF16 */
	uint8_t		y_type;				/* DEVICE_F32, DEVICE_BF16 */
	bool		bias;				/* N of them, F32 */
	bool		gelu_tanh;
	int64_t		k;
	int64_t		n;
	int64_t		w_step;				/* elements from one line of w to the next: see weight.cu */
};

struct library_operands				/* device memory */
{
	const void *x;
	const void *w;
	const float *bias;
	void	   *y;
};

#if LIBRARY_BUILT

#define LIBRARY_CALLS(X) \
	X(GetVersion) X(Create) X(Destroy) X(Matmul) X(MatmulDescInit_internal) X(MatmulDescSetAttribute) \
	X(MatrixLayoutInit_internal) X(MatmulPreferenceInit_internal) X(MatmulPreferenceSetAttribute) \
	X(MatmulAlgoGetHeuristic) X(MatmulAlgoConfigGetAttribute)

struct library_calls
{
#define LIBRARY_CALL(name)	decltype(&cublasLt##name) name;
	LIBRARY_CALLS(LIBRARY_CALL)
#undef LIBRARY_CALL
};

struct library_choice
{
	library_choice *next;
	library_form form;
	bool		own;				/* own kernels */
	int64_t		rows_most;			/* at once */
	cublasLtMatmulAlgo_t algorithm;
};

struct cuda_library
{
	void	   *module;
	library_calls calls;
	cublasLtHandle_t handles[CUDA_GPUS_MAX];
	pthread_mutex_t lock;			/* of choices, and while one is made */
	library_choice *choices;
};

/* Descriptors of a product of so many rows; false: the library refuses. */
struct library_product
{
	cublasLtMatmulDescOpaque_t operation;
	cublasLtMatrixLayoutOpaque_t w;
	cublasLtMatrixLayoutOpaque_t x;
	cublasLtMatrixLayoutOpaque_t y;
};

extern bool library_describe(const cuda_library *library, const library_form *form, const float *bias, int64_t rows,
							 library_product *product);

enum library_result
{
	LIBRARY_DONE,
	LIBRARY_REFUSES,				/* it does not compute that, ever */
	LIBRARY_FAILS					/* this time: memory, the GPU */
};

/* Algorithms that may be chosen, most promising first; their number, which may be 0.  -1: the library failed. */
#define LIBRARY_CANDIDATES	4
extern int library_candidates(cuda_library *library, const library_form *form, int64_t rows,
							  cublasLtMatmulAlgo_t candidates[LIBRARY_CANDIDATES]);

/* y = x · w of any number of rows. */
extern library_result library_multiply(const cuda_library *library, uint32_t gpu, const library_choice *choice,
									   const library_operands *operands, int64_t rows, cudaStream_t stream);

enum library_agreement
{
	LIBRARY_AGREES,
	LIBRARY_DIFFERS,				/* or refuses some numbers of rows */
	LIBRARY_UNKNOWN					/* and a status: it could not be checked */
};

/* Of the choice's algorithm; up to rows_most rows. */
extern library_agreement library_agree(cuda_device *device, const library_choice *choice, status *status);

#endif

/* At open, when the GPUs are known: finds the library; device->library and device->products say what came of it. */
extern void cuda_library_open(cuda_device *device);
extern void cuda_library_close(cuda_device *device);

/*
 * At compile: whether the library computes this GEMM; then plan->launch and the shape's library parts are set.  What it has no
 * algorithm for stays with own kernels.  false: a status.
 */
extern bool cuda_library_take(cuda_making *making);

#endif /* CUDA_PRODUCTS_LIBRARY_H */
