/*
 * library_calls.cu
 *	  What is said to cuBLASLt ("cuBLAS Library", chapter "Using the cuBLASLt API").
 *
 * cuBLASLt counts columns first, so that it is asked for the transpose of y: N × rows, from w as N × K and x as K × rows.
 * A weight of bf16 lies with K first and goes in transposed; one of float32 does not (weight.cu).
 *
 * Libraries of version 12 and 13 are both opened, whichever the header is of (library.cu): so what is said must mean the same to
 * both.  Descriptors may differ in size, which the library is told.
 */
#include "library.h"

#if LIBRARY_BUILT

static_assert(CUBLAS_COMPUTE_32F == 68 && CUBLAS_COMPUTE_32F_PEDANTIC == 69 && CUDA_R_32F == 0 && CUDA_R_16BF == 14 &&
			  CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1 && CUBLASLT_EPILOGUE_DEFAULT == 1 && CUBLASLT_EPILOGUE_BIAS == 4 &&
			  CUBLASLT_EPILOGUE_GELU == 32 && CUBLASLT_EPILOGUE_GELU_BIAS == 36 && CUBLASLT_REDUCTION_SCHEME_NONE == 0 &&
			  CUBLASLT_MATMUL_DESC_TRANSA == 3 && CUBLASLT_MATMUL_DESC_TRANSB == 4 && CUBLASLT_MATMUL_DESC_EPILOGUE == 7 &&
			  CUBLASLT_MATMUL_DESC_BIAS_POINTER == 8 && CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE == 26 &&
			  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == 1 && CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK == 3 &&
			  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES == 5 && CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES == 6 &&
			  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES == 7 && CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES == 8 &&
			  CUBLASLT_ALGO_CONFIG_SPLITK_NUM == 2 && CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME == 3 &&
			  CUBLAS_STATUS_SUCCESS == 0 && CUBLAS_STATUS_INVALID_VALUE == 7 && CUBLAS_STATUS_ARCH_MISMATCH == 8 &&
			  CUBLAS_STATUS_NOT_SUPPORTED == 15, "this header names things by other numbers than cuBLASLt 12 and 13");
static_assert(sizeof(cublasLtMatmulAlgo_t) == 64 && sizeof(cublasLtMatrixLayoutOpaque_t) == 64 &&
			  sizeof(cublasLtMatmulPreferenceOpaque_t) == 64 && sizeof(cublasLtMatmulHeuristicResult_t) == 96 &&
			  sizeof(cublasLtMatmulDescOpaque_t) >= 184, "this header has other structs than cuBLASLt 12 and 13");

/* What is aligned how, at least: weights by themselves, rows of x and y by K and N. */
#define ALIGNED_W		256
#define ALIGNED_ROWS	16

static cudaDataType_t
data_type(uint8_t type)
{
	return type == DEVICE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

bool
library_describe(const cuda_library *library, const library_form *form, const float *bias, int64_t rows, library_product *product)
{
	const library_calls *calls = &library->calls;
	bool		turned = form->type == DEVICE_BF16;
	/* float32 is not to be taken for less */
	cublasComputeType_t compute = form->type == DEVICE_F32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
	cublasOperation_t of_w = turned ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasOperation_t of_x = CUBLAS_OP_N;
	cublasLtEpilogue_t epilogue = form->gelu_tanh ? (form->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU) :
		form->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
	cudaDataType_t bias_type = CUDA_R_32F;
	const void *bias_pointer = bias;
	uint64_t	w_rows = (uint64_t) (turned ? form->k : form->n);
	uint64_t	w_columns = (uint64_t) (turned ? form->n : form->k);
	cublasLtMatmulDesc_t operation = &product->operation;

	if (calls->MatmulDescInit_internal(operation, sizeof(*operation), compute, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS ||
		calls->MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &of_w, sizeof(of_w)) != CUBLAS_STATUS_SUCCESS ||
		calls->MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &of_x, sizeof(of_x)) != CUBLAS_STATUS_SUCCESS ||
		calls->MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)) !=
			CUBLAS_STATUS_SUCCESS)
		return false;
	if (form->bias &&
		(calls->MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias_pointer, sizeof(bias_pointer)) !=
			 CUBLAS_STATUS_SUCCESS ||
		 calls->MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof(bias_type)) !=
			 CUBLAS_STATUS_SUCCESS))
		return false;
	return calls->MatrixLayoutInit_internal(&product->w, sizeof(product->w), data_type(form->type), w_rows, w_columns,
											form->w_step) == CUBLAS_STATUS_SUCCESS &&
		   calls->MatrixLayoutInit_internal(&product->x, sizeof(product->x), data_type(form->type), (uint64_t) form->k,
											(uint64_t) rows, form->k) == CUBLAS_STATUS_SUCCESS &&
		   calls->MatrixLayoutInit_internal(&product->y, sizeof(product->y), data_type(form->y_type), (uint64_t) form->n,
											(uint64_t) rows, form->n) == CUBLAS_STATUS_SUCCESS;
}

/* No workspace, no reduction between blocks, and memory that is aligned no better than it is. */
static bool
preference_make(const library_calls *calls, cublasLtMatmulPreferenceOpaque_t *preference)
{
	uint64_t	workspace = 0;
	uint32_t	reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
	const struct
	{
		cublasLtMatmulPreferenceAttributes_t attribute;
		uint32_t	bytes;
	}			alignments[] = {
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, ALIGNED_W}, {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, ALIGNED_ROWS},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, ALIGNED_ROWS}, {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, ALIGNED_ROWS}
	};

	if (calls->MatmulPreferenceInit_internal(preference, sizeof(*preference)) != CUBLAS_STATUS_SUCCESS ||
		calls->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
											sizeof(workspace)) != CUBLAS_STATUS_SUCCESS ||
		calls->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
											sizeof(reduction)) != CUBLAS_STATUS_SUCCESS)
		return false;
	for (const auto &a : alignments)
		if (calls->MatmulPreferenceSetAttribute(preference, a.attribute, &a.bytes, sizeof(a.bytes)) != CUBLAS_STATUS_SUCCESS)
			return false;
	return true;
}

/* Whether one block sums up all of K.  Streams of K want a workspace, of which there is none. */
static bool
sums_whole(const library_calls *calls, const cublasLtMatmulHeuristicResult_t *result)
{
	int32_t		parts = 0;
	uint32_t	reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
	size_t		written;

	return result->state == CUBLAS_STATUS_SUCCESS && result->workspaceSize == 0 &&
		   calls->MatmulAlgoConfigGetAttribute(&result->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof(parts), &written) ==
			   CUBLAS_STATUS_SUCCESS &&
		   calls->MatmulAlgoConfigGetAttribute(&result->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
											   sizeof(reduction), &written) == CUBLAS_STATUS_SUCCESS &&
		   parts <= 1 && reduction == CUBLASLT_REDUCTION_SCHEME_NONE;
}

static library_result
result_of(cublasStatus_t status)
{
	switch (status)
	{
		case CUBLAS_STATUS_SUCCESS:
			return LIBRARY_DONE;
		case CUBLAS_STATUS_INVALID_VALUE:
		case CUBLAS_STATUS_ARCH_MISMATCH:
		case CUBLAS_STATUS_NOT_SUPPORTED:
			return LIBRARY_REFUSES;
		default:
			return LIBRARY_FAILS;
	}
}

int
library_candidates(cuda_library *library, const library_form *form, int64_t rows,
				   cublasLtMatmulAlgo_t candidates[LIBRARY_CANDIDATES])
{
	cublasLtMatmulHeuristicResult_t results[4 * LIBRARY_CANDIDATES];
	cublasLtMatmulPreferenceOpaque_t preference;
	library_product product;
	library_result result;
	int			found = 0;
	int			count = 0;

	if (!preference_make(&library->calls, &preference) ||
		!library_describe(library, form, (const float *) ALIGNED_W, rows, &product))
		return 0;
	result = result_of(library->calls.MatmulAlgoGetHeuristic(library->handles[0], &product.operation, &product.w, &product.x,
															 &product.y, &product.y, &preference, 4 * LIBRARY_CANDIDATES,
															 results, &found));
	if (result != LIBRARY_DONE)
		return result == LIBRARY_FAILS ? -1 : 0;
	for (int r = 0; r < found && count < LIBRARY_CANDIDATES; r++)
		if (sums_whole(&library->calls, &results[r]))
			candidates[count++] = results[r].algo;
	return count;
}

library_result
library_multiply(const cuda_library *library, uint32_t gpu, const library_choice *choice, const library_operands *operands,
				 int64_t rows, cudaStream_t stream)
{
	const library_form *form = &choice->form;
	const float one = 1;
	const float zero = 0;

	for (int64_t row0 = 0; row0 < rows; row0 += choice->rows_most)
	{
		int64_t		count = rows - row0 < choice->rows_most ? rows - row0 : choice->rows_most;
		const void *x = (const uint8_t *) operands->x + row0 * form->k * (form->type == DEVICE_BF16 ? 2 : 4);
		void	   *y = (uint8_t *) operands->y + row0 * form->n * (form->y_type == DEVICE_BF16 ? 2 : 4);
		library_product product;
		library_result result;

		if (!library_describe(library, form, operands->bias, count, &product))
			return LIBRARY_REFUSES;
		result = result_of(library->calls.Matmul(library->handles[gpu], &product.operation, &one, operands->w, &product.w, x,
												 &product.x, &zero, y, &product.y, y, &product.y, &choice->algorithm, nullptr, 0,
												 stream));
		if (result != LIBRARY_DONE)
			return result;
	}
	return LIBRARY_DONE;
}

#endif
