/*
 * onnx_tensor.h
 *	  What the files that read a TensorProto share; onnx.h is for everybody else.
 */
#ifndef ENGINE_GRAPH_ONNX_TENSOR_H
#define ENGINE_GRAPH_ONNX_TENSOR_H

#include "onnx.h"

enum onnx_tensor_field
{
	TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_SEGMENT = 3, TENSOR_FLOATS = 4, TENSOR_INT32S = 5,
	TENSOR_STRINGS = 6, TENSOR_INT64S = 7, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_DOUBLES = 10,
	TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14
};

struct onnx_external				/* entries of TensorProto.external_data */
{
	bool		present;
	struct protobuf_span location;
	struct protobuf_span offset;
	struct protobuf_span length;
};

/* Always false: INFER_ERROR_MODEL, "tensor "NAME" is malformed: WHAT". */
extern bool onnx_tensor_malformed(const struct onnx_tensor *tensor, struct status *status,
								  const char *what);

/* Of an element in memory and in raw data. */
extern size_t onnx_tensor_element_bytes(uint8_t type);

/* The field that holds a type's elements where raw_data does not. */
extern uint32_t onnx_tensor_typed_field(uint8_t type);

/* Takes one entry of external_data; what is wrong with it, or NULL. */
extern const char *onnx_external_entry(struct onnx_external *external, struct protobuf_span message);

/* Finds the bytes among the model's files. */
extern bool onnx_external_locate(struct onnx_tensor *tensor, const struct onnx_external *external,
								 const struct model_files *files, const struct model_file *file,
								 struct status *status);

#endif							/* ENGINE_GRAPH_ONNX_TENSOR_H */
