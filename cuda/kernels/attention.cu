/*
 * attention.cu
 *	  ATTENTION over packed rows.
 */
#include "../cuda.h"

bool
cuda_make_attention(cuda_making *making)
{
	return false;
}
