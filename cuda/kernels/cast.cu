/*
 * cast.cu
 *	  CAST between numbers, and LOOKUP of numbers.
 */
#include "../cuda.h"

bool
cuda_make_cast(cuda_making *making)
{
	return false;
}

bool
cuda_make_lookup(cuda_making *making)
{
	return false;
}
