/*
 * elementwise.cu
 *	  Primitives that compute each element by itself.
 */
#include "../cuda.h"

bool
cuda_make_unary(cuda_making *making)
{
	return false;
}

bool
cuda_make_binary(cuda_making *making)
{
	return false;
}

bool
cuda_make_where(cuda_making *making)
{
	return false;
}
