/*
 * reduce.cu
 *	  REDUCE, SOFTMAX and NORMALIZE: functions of a vector of one item's elements.
 */
#include "../cuda.h"

bool
cuda_make_reduce(cuda_making *making)
{
	return false;
}

bool
cuda_make_softmax(cuda_making *making)
{
	return false;
}

bool
cuda_make_normalize(cuda_making *making)
{
	return false;
}
