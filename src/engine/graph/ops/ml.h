/*
 * ml.h
 *	  What the files of ai.onnx.ml's operators share.  The semantics are those of the operator
 *	  specification (onnx/Operators-ml.md) and, where that is silent, of onnxruntime, which
 *	  the exporters test against; test/conformance holds the cases.
 */
#ifndef ENGINE_GRAPH_OPS_ML_H
#define ENGINE_GRAPH_OPS_ML_H

#include "../graph.h"

/* The node's input i as F32: these operators compute in it whatever they are given. */
extern int32_t ml_float_input(struct graph *graph, const struct onnx_node *node, uint32_t i);

/* How many features a row of value has: its last dimension; 1 for a scalar. */
extern int64_t ml_features(const struct graph *graph, int32_t value);

/* ml_label.c */
extern bool lower_label_encoder(struct graph *graph, const struct onnx_node *node);
extern bool lower_category_mapper(struct graph *graph, const struct onnx_node *node);
extern bool lower_one_hot_encoder(struct graph *graph, const struct onnx_node *node);

/* ml_linear.c */
extern bool lower_linear_classifier(struct graph *graph, const struct onnx_node *node);
extern bool lower_linear_regressor(struct graph *graph, const struct onnx_node *node);
extern bool lower_zip_map(struct graph *graph, const struct onnx_node *node);

/* Labels of a classifier, from its attributes. */
struct ml_labels
{
	uint8_t		type;				/* DEVICE_I64 or DEVICE_STRING */
	uint32_t	count;
	const void *data;				/* int64_t or struct device_text */
};

/* From the attributes of these names, of which exactly one must be there. */
extern bool ml_labels_read(struct graph *graph, const struct onnx_node *node, const char *strings,
						   const char *ints, struct ml_labels *labels);

#endif							/* ENGINE_GRAPH_OPS_ML_H */
