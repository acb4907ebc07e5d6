/*
 * ml.c
 *	  ONNX operators: the domain ai.onnx.ml.
 */
#include "../graph.h"

const struct graph_operator graph_ml_operators[] = {
	{0}
};
