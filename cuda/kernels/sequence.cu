/*
 * sequence.cu
 *	  NORM, ROTARY, GATE and POOL of encoders.
 */
#include "../cuda.h"

bool
cuda_make_norm(cuda_making *making)
{
	return false;
}

bool
cuda_make_rotary(cuda_making *making)
{
	return false;
}

bool
cuda_make_gate(cuda_making *making)
{
	return false;
}

bool
cuda_make_pool(cuda_making *making)
{
	return false;
}
