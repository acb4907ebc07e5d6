/*
 * cublasLt.h
 *	  What cuda/products/ uses of cuBLASLt, declared as in NVIDIA's header ("cuBLAS Library", chapter "cuBLASLt Datatypes
 *	  Reference" and "cuBLASLt API Reference"); cublaslt.cc does it on the CPU.
 */
#ifndef EMULATION_CUBLASLT_H
#define EMULATION_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_runtime.h"

#define CUBLAS_VER_MAJOR	13

enum cublasStatus_t
{
	CUBLAS_STATUS_SUCCESS = 0,
	CUBLAS_STATUS_NOT_INITIALIZED = 1,
	CUBLAS_STATUS_INVALID_VALUE = 7,
	CUBLAS_STATUS_ARCH_MISMATCH = 8,
	CUBLAS_STATUS_EXECUTION_FAILED = 13,
	CUBLAS_STATUS_NOT_SUPPORTED = 15
};

enum cublasOperation_t
{
	CUBLAS_OP_N = 0,
	CUBLAS_OP_T = 1
};

enum cublasComputeType_t
{
	CUBLAS_COMPUTE_32F = 68,
	CUBLAS_COMPUTE_32F_PEDANTIC = 69
};

enum cudaDataType_t
{
	CUDA_R_32F = 0,
	CUDA_R_16BF = 14
};

enum cublasLtEpilogue_t
{
	CUBLASLT_EPILOGUE_DEFAULT = 1,
	CUBLASLT_EPILOGUE_BIAS = 4,
	CUBLASLT_EPILOGUE_GELU = 32,
	CUBLASLT_EPILOGUE_GELU_BIAS = 36
};

enum cublasLtReductionScheme_t
{
	CUBLASLT_REDUCTION_SCHEME_NONE = 0,
	CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
	CUBLASLT_REDUCTION_SCHEME_MASK = 7
};

enum cublasLtMatmulDescAttributes_t
{
	CUBLASLT_MATMUL_DESC_TRANSA = 3,
	CUBLASLT_MATMUL_DESC_TRANSB = 4,
	CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
	CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,
	CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26
};

enum cublasLtMatmulPreferenceAttributes_t
{
	CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
	CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
	CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

enum cublasLtMatmulAlgoConfigAttributes_t
{
	CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,
	CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3
};

typedef struct
{
	uint64_t	data[8];
}			cublasLtMatrixLayoutOpaque_t,
			cublasLtMatmulAlgo_t,
			cublasLtMatmulPreferenceOpaque_t;

typedef struct
{
	uint64_t	data[32];
}			cublasLtMatmulDescOpaque_t;

typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef struct cublasLtContext *cublasLtHandle_t;

typedef struct
{
	cublasLtMatmulAlgo_t algo;
	size_t		workspaceSize;
	cublasStatus_t state;
	float		wavesCount;
	int			reserved[4];
}			cublasLtMatmulHeuristicResult_t;

extern "C"
{
extern size_t cublasLtGetVersion(void);
extern cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
extern cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
extern cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
									 cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
									 const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
									 cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
									 size_t workspace_bytes, cudaStream_t stream);
extern cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, size_t size, cublasComputeType_t compute,
													  cudaDataType_t scale);
extern cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
													 const void *value, size_t size);
extern cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType_t type,
														uint64_t rows, uint64_t columns, int64_t step);
extern cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size);
extern cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
														   cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
														   size_t size);
extern cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
													 cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
													 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
													 cublasLtMatmulPreference_t preference, int wanted,
													 cublasLtMatmulHeuristicResult_t *results, int *count);
extern cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
														   cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
														   size_t size, size_t *written);
}

#endif /* EMULATION_CUBLASLT_H */
