/*
 * order.cu
 *	  ARG, CUMSUM and TOPK.
 */
#include "../cuda.h"

bool
cuda_make_arg(cuda_making *making)
{
	return false;
}

bool
cuda_make_cumsum(cuda_making *making)
{
	return false;
}

bool
cuda_make_topk(cuda_making *making)
{
	return false;
}
