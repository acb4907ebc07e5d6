/*
 * tabular.cu
 *	  What models of machine learning want: distances, pairs of classes, trees.
 */
#include "../cuda.h"

bool
cuda_make_distance(cuda_making *making)
{
	return false;
}

bool
cuda_make_couple(cuda_making *making)
{
	return false;
}

bool
cuda_make_trees(cuda_making *making)
{
	return false;
}
