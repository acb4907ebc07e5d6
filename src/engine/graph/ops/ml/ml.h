/*
 * ml.h
 *	  What the files of ai.onnx.ml's operators share.  The semantics are those of the operator
 *	  specification (onnx/Operators-ml.md) and, where that is silent, of onnxruntime, which
 *	  the exporters test against; test/conformance holds the cases.
 */
#ifndef ENGINE_GRAPH_OPS_ML_H
#define ENGINE_GRAPH_OPS_ML_H

#include "../../graph.h"

/* The node's input i as F32: these operators compute in it whatever they are given. */
extern int32_t ml_float_input(struct graph *graph, const struct onnx_node *node, uint32_t i);

/* How many features a row of value has: its last dimension; 1 for a scalar. */
extern int64_t ml_features(const struct graph *graph, int32_t value);

/* label.c */
extern bool lower_label_encoder(struct graph *graph, const struct onnx_node *node);
extern bool lower_category_mapper(struct graph *graph, const struct onnx_node *node);
extern bool lower_one_hot_encoder(struct graph *graph, const struct onnx_node *node);

/* linear.c */
extern bool lower_linear_classifier(struct graph *graph, const struct onnx_node *node);
extern bool lower_linear_regressor(struct graph *graph, const struct onnx_node *node);
extern bool lower_zip_map(struct graph *graph, const struct onnx_node *node);

/* trees.c */
extern bool lower_tree_ensemble(struct graph *graph, const struct onnx_node *node);
extern bool lower_tree_ensemble_classifier(struct graph *graph, const struct onnx_node *node);
extern bool lower_tree_ensemble_regressor(struct graph *graph, const struct onnx_node *node);

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

/* The labels at places (I64 [N]); integers that are their own places stay. */
extern int32_t ml_labels_at(struct graph *graph, const struct ml_labels *labels, int32_t places);

/*
 * The attribute post_transform, and what it makes of scores [N, C], C ≥ 2; by the numbers of
 * TreeEnsemble 5.
 */
enum ml_post
{
	ML_POST_NONE,
	ML_POST_SOFTMAX,
	ML_POST_LOGISTIC,
	ML_POST_SOFTMAX_ZERO,
	ML_POST_PROBIT
};

extern bool ml_post_read(struct graph *graph, const struct onnx_node *node, enum ml_post *post);
extern int32_t ml_post_apply(struct graph *graph, enum ml_post post, int32_t scores);

/* Input 0 as F32 [N, features]; one of one dimension is one row. */
extern int32_t ml_matrix_input(struct graph *graph, const struct onnx_node *node);

/* x [N, features] · coefficientsᵀ: [N, rows]. */
extern int32_t ml_product(struct graph *graph, int32_t x, int64_t rows, int64_t features,
						  const float *coefficients);
extern int32_t ml_product_with(struct graph *graph, int32_t x, int32_t matrix);	/* [rows, features] */

/* svm.c */
extern bool lower_svm_classifier(struct graph *graph, const struct onnx_node *node);
extern bool lower_svm_regressor(struct graph *graph, const struct onnx_node *node);

#endif							/* ENGINE_GRAPH_OPS_ML_H */
