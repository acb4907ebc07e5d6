/*
 * onnx.h
 *	  An ONNX file as data: parsed, bounded and checked for form, nothing computed.
 *
 * Field numbers and meanings: onnx.proto of the ONNX project (onnx/onnx.proto, IR version
 * 13).  Claimed: IR versions 3 to 13, operator sets "" (6 to 25) and "ai.onnx.ml" (1 to 5).
 * Functions local to a model are put in the place of their calls.  Refused by name: other
 * domains, functions that call themselves, sparse tensors, strings with a zero byte in names.
 *
 * Nouns
 *	name		a value's name, interned: an index into names; -1 is the empty name, which
 *				marks an absent optional input or output
 *	tensor		an initialiser or attribute; its bytes stay where they are in the file (or
 *				in the model's file of external data) until onnx_tensor_read
 *
 * Invariants
 *	- Counts are bounded by the limits below, sizes by what the files hold.
 *	- A name is defined once: by an input, an initialiser, or a node's output; an input
 *	  that also has an initialiser is that constant.
 *	- Every name that a node or an output uses is defined earlier (nodes are in order).
 */
#ifndef ENGINE_GRAPH_ONNX_H
#define ENGINE_GRAPH_ONNX_H

#include <stdbool.h>
#include <stdint.h>

#include "../../device.h"
#include "../../model/model.h"
#include "../memory.h"
#include "protobuf.h"

#define ONNX_IR_FIRST		3
#define ONNX_IR_LAST		13
#define ONNX_MAIN_FIRST		1			/* claimed from 6; before, operators that did not change until then */
#define ONNX_MAIN_LAST		25
#define ONNX_ML_FIRST		1
#define ONNX_ML_LAST		5
#define ONNX_DOMAIN_ML		"ai.onnx.ml"

#define ONNX_NODES_MAX		65536
#define ONNX_TENSORS_MAX	65536
#define ONNX_ATTRIBUTES_MAX	64			/* of one node */
#define ONNX_ARGUMENTS_MAX	4096		/* inputs or outputs of one node */
#define ONNX_TEXT_MAX		4096		/* bytes of a name */

enum onnx_type						/* TensorProto.DataType */
{
	ONNX_FLOAT = 1, ONNX_UINT8, ONNX_INT8, ONNX_UINT16, ONNX_INT16, ONNX_INT32, ONNX_INT64,
	ONNX_STRING, ONNX_BOOL, ONNX_FLOAT16, ONNX_DOUBLE
};

enum onnx_attribute_type			/* AttributeProto.AttributeType */
{
	ONNX_ATTRIBUTE_FLOAT = 1, ONNX_ATTRIBUTE_INT, ONNX_ATTRIBUTE_STRING, ONNX_ATTRIBUTE_TENSOR,
	ONNX_ATTRIBUTE_GRAPH, ONNX_ATTRIBUTE_FLOATS, ONNX_ATTRIBUTE_INTS, ONNX_ATTRIBUTE_STRINGS,
	ONNX_ATTRIBUTE_TENSORS, ONNX_ATTRIBUTE_GRAPHS, ONNX_ATTRIBUTE_SPARSE_TENSOR,
	ONNX_ATTRIBUTE_SPARSE_TENSORS, ONNX_ATTRIBUTE_TYPE, ONNX_ATTRIBUTE_TYPES
};

/*
 * The type of a tensor of uint8, as which attributes hold codes: no value of the graph has
 * it.  An element is a byte.
 */
#define ONNX_TENSOR_BYTES	255

struct onnx_tensor
{
	const char *name;				/* "" for an attribute's */
	uint8_t		type;				/* enum device_type or ONNX_TENSOR_BYTES */
	uint8_t		rank;
	int64_t		dims[DEVICE_RANK_MAX];
	int64_t		elements;
	struct protobuf_span raw;		/* raw_data or external data; NULL: typed fields */
	struct protobuf_span message;	/* the whole TensorProto, for the typed fields */
};

struct onnx_attribute
{
	const char *name;
	uint32_t	type;				/* enum onnx_attribute_type */
	uint32_t	count;				/* of floats, ints, strings */
	float		f;
	int64_t		i;
	struct device_text s;
	const float *floats;
	const int64_t *ints;
	const struct device_text *strings;
	const struct onnx_tensor *tensor;
	const char *reference;			/* while a function is read: the call's attribute; else NULL */
};

struct onnx_node
{
	const char *op;
	const char *domain;				/* "" or "ai.onnx.ml" */
	const char *name;				/* may be "" */
	const char *overload;			/* of a call; else "" */
	bool		in_function;		/* its version is that of its function's operator set */
	uint32_t	index;				/* in the model's nodes: in the file's order, functions inlined */
	uint32_t	version;			/* of the operator set its domain is imported with */
	uint32_t	inputs_count;
	uint32_t	outputs_count;
	uint32_t	attributes_count;
	const int32_t *inputs;			/* names; -1 absent */
	const int32_t *outputs;			/* names; -1 not wanted */
	const struct onnx_attribute *attributes;
};

struct onnx_dim
{
	int64_t		value;				/* -1: not a number */
	const char *symbol;				/* "" if it has none */
};

enum onnx_value_kind
{
	ONNX_VALUE_NONE = 0,			/* no type given */
	ONNX_VALUE_TENSOR = 1,
	ONNX_VALUE_MAPS = 2,			/* a sequence of maps: what ZipMap gives */
	ONNX_VALUE_MAP = 3				/* a map to numbers: what DictVectorizer takes */
};

struct onnx_value					/* ValueInfoProto */
{
	int32_t		name;
	uint8_t		kind;				/* enum onnx_value_kind */
	uint8_t		type;				/* enum device_type, of a tensor, or of what a map has */
	bool		has_shape;
	uint8_t		rank;
	struct onnx_dim dims[DEVICE_RANK_MAX];
};

struct onnx_model
{
	uint32_t	ir_version;
	uint32_t	main_version;		/* 0: not imported */
	uint32_t	ml_version;			/* 0: not imported */
	const char *producer;
	const char *features;			/* the metadata property feature_names, or NULL */
	uint32_t	names_count;
	const char *const *names;		/* sorted */
	uint32_t	nodes_count;
	struct onnx_node *nodes;
	uint32_t	tensors_count;		/* initialisers */
	struct onnx_tensor *tensors;
	const int32_t *tensors_names;
	uint32_t	inputs_count;		/* without those that have an initialiser */
	struct onnx_value *inputs;
	uint32_t	outputs_count;
	struct onnx_value *outputs;
};

/*
 * Reads file, with tensors that lie in other files of the model's folder.  What it gives
 * lives in memory and in the files' mappings.  false: status says what is malformed
 * (INFER_ERROR_MODEL) or not supported (INFER_ERROR_UNSUPPORTED).
 */
extern bool onnx_read(const struct model_files *files, const struct model_file *file,
					  struct graph_memory *memory, struct onnx_model *model, struct status *status);

/* A TensorProto; its name is copied.  bytes: it may be of type uint8. */
extern bool onnx_tensor_parse(struct protobuf_span message, const struct model_files *files,
							  const struct model_file *file, struct graph_memory *memory,
							  bool bytes, struct onnx_tensor *tensor, struct status *status);

/*
 * The elements in the layout of a device tensor, where they lie so in the file (aligned,
 * little-endian); else NULL.
 */
extern const void *onnx_tensor_direct(const struct onnx_tensor *tensor);

/* Decodes all elements into data; strings point into the file. */
extern bool onnx_tensor_read(const struct onnx_tensor *tensor, void *data, struct status *status);

/* Of TensorProto.DataType: enum device_type, or 0; and its name for messages. */
extern uint8_t onnx_device_type(int64_t type);
extern const char *onnx_type_name(int64_t type);

/* Whether the bytes begin as a ModelProto does. */
extern bool onnx_recognises(const struct model_file *file);

#endif							/* ENGINE_GRAPH_ONNX_H */
