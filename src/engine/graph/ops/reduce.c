/*
 * reduce.c
 *	  ONNX operators: reductions, ArgMax and ArgMin, Softmax and its kin.
 */
#include "../graph.h"

const struct graph_operator graph_reduce_operators[] = {
	{0}
};
