/*
 * onnx_reader.h
 *	  What the files of the ONNX reader share; onnx.h is for everybody else.
 */
#ifndef ENGINE_GRAPH_ONNX_READER_H
#define ENGINE_GRAPH_ONNX_READER_H

#include "onnx.h"

struct onnx_reference					/* a use or definition of a name, as it is met */
{
	struct protobuf_span text;
	uint32_t	order;				/* where it was met */
};

struct onnx_function;				/* function.c */
struct onnx_scope;

struct onnx_reader
{
	const struct model_files *files;
	const struct model_file *file;
	struct graph_memory *memory;
	struct onnx_model *model;
	struct status *status;
	struct onnx_reference *references;
	uint32_t	references_count;
	uint32_t	references_space;
	uint32_t	nodes_space;
	uint32_t	tensors_space;
	uint32_t	inputs_space;
	uint32_t	outputs_space;
	int32_t    *tensors_names;		/* parallel to model->tensors */
	uint32_t	tensors_names_space;
	struct onnx_function **functions;
	uint32_t	functions_count;
	uint32_t	functions_space;
	const struct onnx_scope *scope;	/* the call that is being inlined, or NULL */
	uint32_t	calls;
	uint64_t	calls_bytes;
};

/* Always false: INFER_ERROR_MODEL, "the ONNX file is malformed: WHERE: WHAT". */
extern bool onnx_malformed(struct onnx_reader *r, const char *where, const char *what);

/* Whether a field is a string or message; else malformed. */
extern bool onnx_is_bytes(struct onnx_reader *r, const struct protobuf_field *field, const char *where);

/* A terminated copy; NULL and a status if it is too long or has a zero byte. */
extern const char *onnx_text_copy(struct onnx_reader *r, struct protobuf_span span, uint64_t limit,
								  const char *where);

/* Notes a name; its number stands in *place until onnx_names_resolve replaces it. */
extern bool onnx_name_reference(struct onnx_reader *r, struct protobuf_span span, int32_t *place);
extern bool onnx_names_resolve(struct onnx_reader *r);

extern bool onnx_value_parse(struct onnx_reader *r, struct protobuf_span span, struct onnx_value *value,
							 const char *where);
extern bool onnx_node_parse(struct onnx_reader *r, struct protobuf_span span, struct onnx_node *node);
extern bool onnx_attribute_parse(struct onnx_reader *r, struct protobuf_span span,
								 struct onnx_attribute *attribute);

/* OperatorSetIdProto: sets one of the two; other domains are passed over. */
extern bool onnx_opset_parse(struct onnx_reader *r, struct protobuf_span span, uint32_t *main_version,
							 uint32_t *ml_version);

/* function.c: a FunctionProto; a node, or what the function that it calls consists of. */
extern bool onnx_function_parse(struct onnx_reader *r, struct protobuf_span span);
extern bool onnx_node_add(struct onnx_reader *r, struct protobuf_span span);

/* What a name, and an attribute that is a reference, mean where the reader is; type 0: nothing. */
extern bool onnx_scope_name(struct onnx_reader *r, struct protobuf_span *span);
extern bool onnx_scope_attribute(struct onnx_reader *r, struct onnx_attribute *attribute);

#endif							/* ENGINE_GRAPH_ONNX_READER_H */
