/*
 * layout.cu
 *	  Primitives that move elements.
 */
#include "../cuda.h"

bool
cuda_make_copy(cuda_making *making)
{
	return false;
}

bool
cuda_make_concat(cuda_making *making)
{
	return false;
}

bool
cuda_make_gather(cuda_making *making)
{
	return false;
}

bool
cuda_make_offset(cuda_making *making)
{
	return false;
}

bool
cuda_make_scatter(cuda_making *making)
{
	return false;
}
