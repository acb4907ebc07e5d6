/*
 * graph_internal.h
 *	  What the stages of the graph share and operators do not need.
 */
#ifndef ENGINE_GRAPH_INTERNAL_H
#define ENGINE_GRAPH_INTERNAL_H

#include "graph.h"

/* operators.c: one error that names every operator that the model needs and nobody has written. */
extern bool graph_operators_check(struct graph *graph);

/* lower/inputs.c: the inputs become values, or the constants that they are for one length. */
extern bool graph_lower_inputs(struct graph *graph);

/* A computed value (rows) or an empty constant that the caller fills at once. */
extern int32_t graph_value_new(struct graph *graph, uint8_t type, int rank, const int64_t *dims, bool rows);

/* A constant whose elements stay in the file until they are needed. */
extern int32_t graph_constant_tensor(struct graph *graph, const struct onnx_tensor *tensor);

/* Computes an op on constants now, on the device; the constant it gives. */
extern int32_t graph_fold(struct graph *graph, const struct device_op *op, uint8_t type, int rank,
						  const int64_t *dims);

/* A constant's elements, for what packs them and reads nothing else: not counted as read. */
extern const void *graph_matrix_data(struct graph *graph, int32_t value);

/*
 * undefined.c: of a constant that op made of constants, which elements are no numbers.  failed: the device
 * says that some are not.  False: status; message says why the device failed.
 */
extern bool graph_undefined(struct graph *graph, const struct device_op *op, int32_t result, bool failed, const char *message);

/* Always false: something reads an element of that root which is no number. */
extern bool graph_undefined_read(struct graph *graph, const struct graph_value *root);

/* weights.c: the op's matrix as a new weight of the graph, packed or from the packed file. */
extern bool graph_weight(struct graph *graph, const struct graph_op *op, int32_t *weight);

/* What of the graph a packed file is to hold, after everything has been read that will be. */
extern bool graph_packed_form(struct graph *graph);

/* "node 3 (Gemm \"dense_1\")" into text. */
extern const char *graph_node_label(const struct graph *graph, int32_t node, char *text, size_t size);

#endif							/* ENGINE_GRAPH_INTERNAL_H */
