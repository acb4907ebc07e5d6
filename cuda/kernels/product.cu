/*
 * product.cu
 *	  GEMM, MATMUL and QUANTISE.
 */
#include "../cuda.h"

bool
cuda_make_gemm(cuda_making *making)
{
	return false;
}

bool
cuda_make_matmul(cuda_making *making)
{
	return false;
}

bool
cuda_make_quantise(cuda_making *making)
{
	return false;
}
