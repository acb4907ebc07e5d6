/*
 * onnx.c
 *	  Reads a ModelProto into struct onnx_model.  See onnx.h.
 *
 * Loop
 *	model → graph → values, initialisers, nodes, each parsed once and in file order; names
 *	are collected as they are met, then sorted and numbered, then every use is checked
 *	against the definitions before it.
 */
#include "onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../status.h"

#define ONNX_REFERENCES_MAX	(1u << 22)
#define ONNX_METADATA_MAX	(1u << 20)	/* bytes of the feature names */

enum model_field
{
	MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14,
	MODEL_FUNCTIONS = 25
};

enum graph_field
{
	GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_SPARSE = 15
};

enum node_field
{
	NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5,
	NODE_DOMAIN = 7, NODE_OVERLOAD = 8
};

enum attribute_field
{
	ATTRIBUTE_NAME = 1, ATTRIBUTE_F = 2, ATTRIBUTE_I = 3, ATTRIBUTE_S = 4, ATTRIBUTE_T = 5,
	ATTRIBUTE_FLOATS = 7, ATTRIBUTE_INTS = 8, ATTRIBUTE_STRINGS = 9, ATTRIBUTE_TYPE = 20,
	ATTRIBUTE_REFERENCE = 21
};

struct reference					/* a use or definition of a name, as it is met */
{
	struct protobuf_span text;
	uint32_t	order;				/* where it was met */
};

struct onnx_reader
{
	const struct model_files *files;
	const struct model_file *file;
	struct graph_memory *memory;
	struct onnx_model *model;
	struct status *status;
	struct reference *references;
	uint32_t	references_count;
	uint32_t	references_space;
	uint32_t	nodes_space;
	uint32_t	tensors_space;
	uint32_t	inputs_space;
	uint32_t	outputs_space;
	int32_t    *tensors_names;		/* parallel to model->tensors */
	uint32_t	tensors_names_space;
};

static bool
malformed(struct onnx_reader *r, const char *where, const char *what)
{
	return status_set(r->status, INFER_ERROR_MODEL, "the ONNX file is malformed: %s: %s", where, what);
}

static bool
is_bytes(struct onnx_reader *r, const struct protobuf_field *field, const char *where)
{
	return field->wire == PROTOBUF_BYTES || malformed(r, where, "a field has the wrong wire type");
}

/* A terminated copy; NULL and a status if it is too long or has a zero byte. */
static const char *
text_copy(struct onnx_reader *r, struct protobuf_span span, uint64_t limit, const char *where)
{
	if (span.size > limit)
	{
		malformed(r, where, "a name is too long");
		return NULL;
	}
	if (span.size > 0 && memchr(span.data, 0, span.size) != NULL)
	{
		malformed(r, where, "a name has a zero byte");
		return NULL;
	}
	return graph_pool_text(r->memory, span.data, span.size);
}

/* ---- names ---- */

/* Notes a name; its number stands in *place until names_resolve replaces it. */
static bool
name_reference(struct onnx_reader *r, struct protobuf_span span, int32_t *place)
{
	struct reference *reference;

	*place = -1;
	if (span.size == 0)
		return true;
	if (span.size > ONNX_TEXT_MAX)
		return malformed(r, "a value's name", "it is too long");
	if (memchr(span.data, 0, span.size) != NULL)
		return malformed(r, "a value's name", "it has a zero byte");
	if (!graph_pool_grow(r->memory, &r->references, r->references_count, &r->references_space,
						 sizeof(*r->references), ONNX_REFERENCES_MAX, "references to values"))
		return false;
	reference = &r->references[r->references_count];
	reference->text = span;
	reference->order = r->references_count;
	*place = (int32_t) r->references_count++;
	return true;
}

static int
reference_compare(const void *a, const void *b)
{
	const struct protobuf_span *x = &((const struct reference *) a)->text;
	const struct protobuf_span *y = &((const struct reference *) b)->text;
	uint64_t	shorter = x->size < y->size ? x->size : y->size;
	int			order = memcmp(x->data, y->data, shorter);

	if (order != 0)
		return order;
	return x->size < y->size ? -1 : x->size > y->size;
}

static void
names_apply(const int32_t *numbers, const int32_t *places, uint32_t count)
{
	int32_t    *writable = (int32_t *) places;

	for (uint32_t i = 0; i < count; i++)
		if (writable[i] >= 0)
			writable[i] = numbers[writable[i]];
}

/* Sorts the names, numbers them, and puts the numbers wherever names were noted. */
static bool
names_resolve(struct onnx_reader *r)
{
	struct onnx_model *model = r->model;
	uint32_t	count = r->references_count;
	int32_t    *numbers = graph_pool(r->memory, count, sizeof(*numbers));
	const char **names = graph_pool(r->memory, count, sizeof(*names));
	int32_t		number = -1;

	if (numbers == NULL || names == NULL)
		return false;
	if (count > 0)
		qsort(r->references, count, sizeof(*r->references), reference_compare);
	for (uint32_t i = 0; i < count; i++)
	{
		const struct reference *reference = &r->references[i];

		if (i == 0 || reference_compare(reference, reference - 1) != 0)
		{
			names[++number] = graph_pool_text(r->memory, reference->text.data, reference->text.size);
			if (names[number] == NULL)
				return false;
		}
		numbers[reference->order] = number;
	}
	model->names_count = (uint32_t) (number + 1);
	model->names = names;
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		names_apply(numbers, model->nodes[i].inputs, model->nodes[i].inputs_count);
		names_apply(numbers, model->nodes[i].outputs, model->nodes[i].outputs_count);
	}
	for (uint32_t i = 0; i < model->inputs_count; i++)
		names_apply(numbers, &model->inputs[i].name, 1);
	for (uint32_t i = 0; i < model->outputs_count; i++)
		names_apply(numbers, &model->outputs[i].name, 1);
	names_apply(numbers, r->tensors_names, model->tensors_count);
	model->tensors_names = r->tensors_names;
	return true;
}

/* ---- values ---- */

static bool
value_shape(struct onnx_reader *r, struct protobuf_span span, struct onnx_value *value)
{
	struct protobuf_reader reader, inner;
	struct protobuf_field field, part;

	value->has_shape = true;
	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		struct onnx_dim *dim;

		if (field.number != 1)
			continue;
		if (!is_bytes(r, &field, "a shape"))
			return false;
		if (value->rank == DEVICE_RANK_MAX)
			return status_set(r->status, INFER_ERROR_UNSUPPORTED,
							  "an input or output has more than %d dimensions", DEVICE_RANK_MAX);
		dim = &value->dims[value->rank++];
		dim->value = -1;
		dim->symbol = "";
		protobuf_open(&inner, field.bytes);
		while (protobuf_next(&inner, &part))
		{
			if (part.number == 1 && part.wire == PROTOBUF_VARINT)
				dim->value = (int64_t) part.value < 0 ? -1 : (int64_t) part.value;
			else if (part.number == 2 && part.wire == PROTOBUF_BYTES)
			{
				dim->symbol = text_copy(r, part.bytes, ONNX_TEXT_MAX, "a shape");
				if (dim->symbol == NULL)
					return false;
			}
		}
		if (inner.failed != NULL)
			return malformed(r, "a shape", inner.failed);
	}
	return reader.failed == NULL || malformed(r, "a shape", reader.failed);
}

static bool
value_tensor_type(struct onnx_reader *r, struct protobuf_span span, struct onnx_value *value)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	int64_t		type = 0;

	value->kind = ONNX_VALUE_TENSOR;
	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.number == 1 && field.wire == PROTOBUF_VARINT)
			type = (int64_t) field.value;
		else if (field.number == 2 && field.wire == PROTOBUF_BYTES &&
				 !value_shape(r, field.bytes, value))
			return false;
	}
	if (reader.failed != NULL)
		return malformed(r, "a type", reader.failed);
	value->type = onnx_device_type(type);
	if (value->type == 0 && type != 0)
	{
		status_set(r->status, INFER_ERROR_UNSUPPORTED,
				   "an input or output has the type %s, which is not supported", onnx_type_name(type));
		status_detail(r->status, "Supported are float32, float64, int64, int32, bool and string.");
		return false;
	}
	return true;
}

/* TypeProto: a tensor, or the sequence of maps that ZipMap gives. */
static bool
value_type(struct onnx_reader *r, struct protobuf_span span, struct onnx_value *value)
{
	struct protobuf_reader reader;
	struct protobuf_field field;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		switch (field.number)
		{
			case 1:					/* tensor */
				if (!is_bytes(r, &field, "a type") || !value_tensor_type(r, field.bytes, value))
					return false;
				break;
			case 4:					/* sequence */
				value->kind = ONNX_VALUE_MAPS;
				break;
			case 5:					/* map */
			case 7:					/* opaque */
			case 8:					/* sparse tensor */
			case 9:					/* optional */
				return status_set(r->status, INFER_ERROR_UNSUPPORTED,
								  "an input or output is a %s, which is not supported",
								  field.number == 5 ? "map" : field.number == 7 ? "opaque type" :
								  field.number == 8 ? "sparse tensor" : "optional");
			default:
				break;
		}
	}
	return reader.failed == NULL || malformed(r, "a type", reader.failed);
}

static bool
value_parse(struct onnx_reader *r, struct protobuf_span span, struct onnx_value *value,
			const char *where)
{
	struct protobuf_reader reader;
	struct protobuf_field field;

	memset(value, 0, sizeof(*value));
	value->name = -1;
	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.number != 1 && field.number != 2)
			continue;
		if (!is_bytes(r, &field, where))
			return false;
		if (field.number == 1 ? !name_reference(r, field.bytes, &value->name) :
			!value_type(r, field.bytes, value))
			return false;
	}
	if (reader.failed != NULL)
		return malformed(r, where, reader.failed);
	return value->name >= 0 || malformed(r, where, "it has no name");
}

/* ---- attributes ---- */

/* Fills floats or ints, from packed and unpacked fields alike; counted before. */
static bool
attribute_numbers(struct onnx_reader *r, struct protobuf_span span, struct onnx_attribute *attribute,
				  float *floats, int64_t *ints)
{
	struct protobuf_reader reader, packed;
	struct protobuf_field field;
	uint32_t	number = floats != NULL ? ATTRIBUTE_FLOATS : ATTRIBUTE_INTS;
	uint32_t	i = 0;
	uint64_t	value;
	uint32_t	bits;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.number != number)
			continue;
		if (field.wire != PROTOBUF_BYTES)
		{
			bits = (uint32_t) field.value;
			if (floats != NULL)
				memcpy(&floats[i++], &bits, sizeof(bits));
			else
				ints[i++] = (int64_t) field.value;
			continue;
		}
		protobuf_open(&packed, field.bytes);
		if (floats != NULL)
			while (i < attribute->count && protobuf_packed_fixed32(&packed, &bits))
				memcpy(&floats[i++], &bits, sizeof(bits));
		else
			while (i < attribute->count && protobuf_packed_varint(&packed, &value))
				ints[i++] = (int64_t) value;
		if (packed.failed != NULL)
			return malformed(r, "an attribute", packed.failed);
	}
	attribute->floats = floats;
	attribute->ints = ints;
	return i == attribute->count || malformed(r, "an attribute", "its numbers cannot be read");
}

static bool
attribute_strings(struct onnx_reader *r, struct protobuf_span span, struct onnx_attribute *attribute)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct device_text *strings = graph_pool(r->memory, attribute->count, sizeof(*strings));
	uint32_t	i = 0;

	if (strings == NULL)
		return false;
	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.number != ATTRIBUTE_STRINGS)
			continue;
		strings[i].data = (const char *) field.bytes.data;
		strings[i++].length = field.bytes.size;
	}
	attribute->strings = strings;
	return true;
}

/* One field of an attribute; repeated ones are only counted. */
static bool
attribute_field(struct onnx_reader *r, const struct protobuf_field *field,
				struct onnx_attribute *attribute, struct protobuf_span *tensor, uint64_t counts[3])
{
	uint32_t	bits = (uint32_t) field->value;

	switch (field->number)
	{
		case ATTRIBUTE_NAME:
			if (!is_bytes(r, field, "an attribute"))
				return false;
			attribute->name = text_copy(r, field->bytes, ONNX_TEXT_MAX, "an attribute");
			return attribute->name != NULL;
		case ATTRIBUTE_F:
			memcpy(&attribute->f, &bits, sizeof(bits));
			return true;
		case ATTRIBUTE_I:
			attribute->i = (int64_t) field->value;
			return true;
		case ATTRIBUTE_S:
			if (!is_bytes(r, field, "an attribute"))
				return false;
			attribute->s.data = (const char *) field->bytes.data;
			attribute->s.length = field->bytes.size;
			return true;
		case ATTRIBUTE_T:
			if (!is_bytes(r, field, "an attribute"))
				return false;
			*tensor = field->bytes;
			return true;
		case ATTRIBUTE_FLOATS:
			counts[0] += field->wire == PROTOBUF_BYTES ? field->bytes.size / 4 : 1;
			return true;
		case ATTRIBUTE_INTS:
			counts[1] += field->wire == PROTOBUF_BYTES ? protobuf_packed_count(field->bytes) : 1;
			return true;
		case ATTRIBUTE_STRINGS:
			counts[2]++;
			return is_bytes(r, field, "an attribute");
		case ATTRIBUTE_TYPE:
			attribute->type = (uint32_t) field->value;
			return true;
		case ATTRIBUTE_REFERENCE:
			return malformed(r, "an attribute", "it refers to a function's attribute outside a function");
		default:
			return true;
	}
}

static bool
attribute_tensor(struct onnx_reader *r, struct protobuf_span span, struct onnx_attribute *attribute)
{
	struct onnx_tensor *tensor;

	if (span.data == NULL)
		return malformed(r, "an attribute", "its tensor is missing");
	tensor = graph_pool(r->memory, 1, sizeof(*tensor));
	attribute->tensor = tensor;
	return tensor != NULL &&
		onnx_tensor_parse(span, r->files, r->file, r->memory, tensor, r->status);
}

static bool
attribute_parse(struct onnx_reader *r, struct protobuf_span span, struct onnx_attribute *attribute)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct protobuf_span tensor = {0};
	uint64_t	counts[3] = {0};	/* floats, ints, strings */
	uint64_t	count;

	memset(attribute, 0, sizeof(*attribute));
	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
		if (!attribute_field(r, &field, attribute, &tensor, counts))
			return false;
	if (reader.failed != NULL)
		return malformed(r, "an attribute", reader.failed);
	if (attribute->name == NULL || attribute->name[0] == '\0')
		return malformed(r, "an attribute", "it has no name");
	switch (attribute->type)
	{
		case ONNX_ATTRIBUTE_FLOATS:
			count = counts[0];
			break;
		case ONNX_ATTRIBUTE_INTS:
			count = counts[1];
			break;
		case ONNX_ATTRIBUTE_STRINGS:
			count = counts[2];
			break;
		case ONNX_ATTRIBUTE_TENSOR:
			return attribute_tensor(r, tensor, attribute);
		default:
			if (attribute->type == 0 || attribute->type > ONNX_ATTRIBUTE_TYPES)
				return malformed(r, "an attribute", "it has no type");
			return true;
	}
	if (count > UINT32_MAX / 2)
		return malformed(r, "an attribute", "it has too many elements");
	attribute->count = (uint32_t) count;
	if (attribute->type == ONNX_ATTRIBUTE_STRINGS)
		return attribute_strings(r, span, attribute);
	if (attribute->type == ONNX_ATTRIBUTE_FLOATS)
	{
		float	   *floats = graph_pool(r->memory, count, sizeof(*floats));

		return floats != NULL && attribute_numbers(r, span, attribute, floats, NULL);
	}
	else
	{
		int64_t    *ints = graph_pool(r->memory, count, sizeof(*ints));

		return ints != NULL && attribute_numbers(r, span, attribute, NULL, ints);
	}
}

/* ---- nodes ---- */

/* Counts what a node has, so that its arrays are made once. */
static bool
node_counts(struct onnx_reader *r, struct protobuf_span span, struct onnx_node *node)
{
	struct protobuf_reader reader;
	struct protobuf_field field;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.number > NODE_DOMAIN)
			continue;
		if (!is_bytes(r, &field, "a node"))
			return false;
		node->inputs_count += field.number == NODE_INPUT;
		node->outputs_count += field.number == NODE_OUTPUT;
		node->attributes_count += field.number == NODE_ATTRIBUTE;
	}
	if (reader.failed != NULL)
		return malformed(r, "a node", reader.failed);
	if (node->inputs_count > ONNX_ARGUMENTS_MAX || node->outputs_count > ONNX_ARGUMENTS_MAX)
		return malformed(r, "a node", "it has too many inputs or outputs");
	if (node->attributes_count > ONNX_ATTRIBUTES_MAX)
		return malformed(r, "a node", "it has too many attributes");
	return true;
}

static bool
node_text(struct onnx_reader *r, const struct protobuf_field *field, struct onnx_node *node)
{
	const char **place = field->number == NODE_NAME ? &node->name :
		field->number == NODE_OP ? &node->op : &node->domain;

	*place = text_copy(r, field->bytes, ONNX_TEXT_MAX, "a node");
	return *place != NULL;
}

static bool
node_attributes_distinct(struct onnx_reader *r, const struct onnx_node *node)
{
	for (uint32_t i = 0; i < node->attributes_count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (strcmp(node->attributes[i].name, node->attributes[j].name) == 0)
				return status_set(r->status, INFER_ERROR_MODEL,
								  "the ONNX file is malformed: node %u (%s) has two attributes \"%s\"",
								  node->index, node->op, node->attributes[i].name);
	return true;
}

static bool
node_parse(struct onnx_reader *r, struct protobuf_span span, struct onnx_node *node)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct onnx_attribute *attributes;
	int32_t    *inputs, *outputs;
	uint32_t	i = 0, o = 0, a = 0;

	memset(node, 0, sizeof(*node));
	node->index = r->model->nodes_count;
	node->op = node->name = node->domain = "";
	if (!node_counts(r, span, node))
		return false;
	node->inputs = inputs = graph_pool(r->memory, node->inputs_count, sizeof(*inputs));
	node->outputs = outputs = graph_pool(r->memory, node->outputs_count, sizeof(*outputs));
	node->attributes = attributes = graph_pool(r->memory, node->attributes_count, sizeof(*attributes));
	if (inputs == NULL || outputs == NULL || attributes == NULL)
		return false;
	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		bool		fine = true;

		switch (field.number)
		{
			case NODE_INPUT:
				fine = name_reference(r, field.bytes, &inputs[i++]);
				break;
			case NODE_OUTPUT:
				fine = name_reference(r, field.bytes, &outputs[o++]);
				break;
			case NODE_NAME:
			case NODE_OP:
			case NODE_DOMAIN:
				fine = node_text(r, &field, node);
				break;
			case NODE_ATTRIBUTE:
				fine = attribute_parse(r, field.bytes, &attributes[a++]);
				break;
			case NODE_OVERLOAD:
				if (field.bytes.size > 0)
					return status_set(r->status, INFER_ERROR_UNSUPPORTED,
									  "overloaded functions are not supported (node %u)", node->index);
				break;
			default:
				break;
		}
		if (!fine)
			return false;
	}
	if (strcmp(node->domain, "ai.onnx") == 0)
		node->domain = "";
	if (node->op[0] == '\0')
		return malformed(r, "a node", "it has no operator");
	return node_attributes_distinct(r, node);
}

/* ---- the graph ---- */

static bool
graph_tensor(struct onnx_reader *r, struct protobuf_span span)
{
	struct onnx_model *model = r->model;
	struct onnx_tensor *tensor;
	struct protobuf_span name;

	if (!graph_pool_grow(r->memory, &model->tensors, model->tensors_count, &r->tensors_space,
						 sizeof(*model->tensors), ONNX_TENSORS_MAX, "initialisers") ||
		!graph_pool_grow(r->memory, &r->tensors_names, model->tensors_count,
						 &r->tensors_names_space, sizeof(*r->tensors_names), ONNX_TENSORS_MAX,
						 "initialisers"))
		return false;
	tensor = &model->tensors[model->tensors_count];
	if (!onnx_tensor_parse(span, r->files, r->file, r->memory, tensor, r->status))
		return false;
	name.data = (const uint8_t *) tensor->name;
	name.size = strlen(tensor->name);
	if (name.size == 0)
		return malformed(r, "an initialiser", "it has no name");
	return name_reference(r, name, &r->tensors_names[model->tensors_count++]);
}

static bool
graph_value(struct onnx_reader *r, struct protobuf_span span, bool input)
{
	struct onnx_model *model = r->model;
	uint32_t   *count = input ? &model->inputs_count : &model->outputs_count;
	uint32_t   *space = input ? &r->inputs_space : &r->outputs_space;
	struct onnx_value **values = input ? &model->inputs : &model->outputs;

	if (!graph_pool_grow(r->memory, values, *count, space, sizeof(**values),
						 input ? ONNX_TENSORS_MAX : INFER_COLUMNS_MAX, input ? "inputs" : "outputs"))
		return false;
	if (!value_parse(r, span, &(*values)[*count], input ? "an input" : "an output"))
		return false;
	(*count)++;
	return true;
}

static bool
graph_node(struct onnx_reader *r, struct protobuf_span span)
{
	struct onnx_model *model = r->model;

	if (!graph_pool_grow(r->memory, &model->nodes, model->nodes_count, &r->nodes_space,
						 sizeof(*model->nodes), ONNX_NODES_MAX, "nodes"))
		return false;
	if (!node_parse(r, span, &model->nodes[model->nodes_count]))
		return false;
	model->nodes_count++;
	return true;
}

static bool
graph_parse(struct onnx_reader *r, struct protobuf_span span)
{
	struct protobuf_reader reader;
	struct protobuf_field field;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		bool		fine = true;

		if (field.number <= GRAPH_SPARSE && !is_bytes(r, &field, "the graph"))
			return false;
		switch (field.number)
		{
			case GRAPH_NODE:
				fine = graph_node(r, field.bytes);
				break;
			case GRAPH_INITIALIZER:
				fine = graph_tensor(r, field.bytes);
				break;
			case GRAPH_INPUT:
			case GRAPH_OUTPUT:
				fine = graph_value(r, field.bytes, field.number == GRAPH_INPUT);
				break;
			case GRAPH_SPARSE:
				fine = status_set(r->status, INFER_ERROR_UNSUPPORTED,
								  "sparse tensors are not supported (sparse_initializer)");
				break;
			default:
				break;
		}
		if (!fine)
			return false;
	}
	return reader.failed == NULL || malformed(r, "the graph", reader.failed);
}

/* ---- the model ---- */

static bool
model_opset(struct onnx_reader *r, struct protobuf_span span)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	const char *domain = "";
	uint64_t	version = 0;
	uint32_t   *place;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.number == 1 && field.wire == PROTOBUF_BYTES)
			domain = text_copy(r, field.bytes, ONNX_TEXT_MAX, "an operator set");
		else if (field.number == 2 && field.wire == PROTOBUF_VARINT)
			version = field.value;
		if (domain == NULL)
			return false;
	}
	if (reader.failed != NULL)
		return malformed(r, "an operator set", reader.failed);
	if (version == 0 || version > INT32_MAX)
		return malformed(r, "an operator set", "its version is not a positive number");
	if (domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
		place = &r->model->main_version;
	else if (strcmp(domain, ONNX_DOMAIN_ML) == 0)
		place = &r->model->ml_version;
	else
		return true;				/* its operators, if used, are refused by name */
	if (*place != 0 && *place != version)
		return malformed(r, "an operator set", "it is imported twice");
	*place = (uint32_t) version;
	return true;
}

static bool
model_metadata(struct onnx_reader *r, struct protobuf_span span)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct protobuf_span key = {0}, value = {0};

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.wire == PROTOBUF_BYTES && field.number == 1)
			key = field.bytes;
		else if (field.wire == PROTOBUF_BYTES && field.number == 2)
			value = field.bytes;
	}
	if (reader.failed != NULL)
		return malformed(r, "the metadata", reader.failed);
	if (key.size != strlen("feature_names") || memcmp(key.data, "feature_names", key.size) != 0)
		return true;
	r->model->features = text_copy(r, value, ONNX_METADATA_MAX, "the metadata property feature_names");
	return r->model->features != NULL;
}

/* Names the function, so that the user knows what to inline. */
static bool
model_function(struct onnx_reader *r, struct protobuf_span span)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	const char *name = "";

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
		if (field.number == 1 && field.wire == PROTOBUF_BYTES)
			name = text_copy(r, field.bytes, 256, "a function");
	status_set(r->status, INFER_ERROR_UNSUPPORTED,
			   "functions local to a model are not supported (function \"%s\")",
			   name == NULL ? "" : name);
	status_hint(r->status, "Inline the model's functions, for example with onnx.inliner, and create the model again.");
	return false;
}

static bool
model_parse(struct onnx_reader *r, struct protobuf_span span, struct protobuf_span *graph)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct onnx_model *model = r->model;
	uint64_t	ir = 0;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		bool		fine = true;

		switch (field.number)
		{
			case MODEL_IR:
				ir = field.value;
				break;
			case MODEL_PRODUCER:
				model->producer = text_copy(r, field.bytes, ONNX_TEXT_MAX, "the producer");
				fine = model->producer != NULL;
				break;
			case MODEL_GRAPH:
				if (graph->data != NULL)
					return malformed(r, "the model", "it has two graphs");
				fine = is_bytes(r, &field, "the model");
				*graph = field.bytes;
				break;
			case MODEL_OPSET:
				fine = model_opset(r, field.bytes);
				break;
			case MODEL_METADATA:
				fine = model_metadata(r, field.bytes);
				break;
			case MODEL_FUNCTIONS:
				fine = model_function(r, field.bytes);
				break;
			default:
				break;
		}
		if (!fine)
			return false;
	}
	if (reader.failed != NULL)
		return malformed(r, "the model", reader.failed);
	if (ir < ONNX_IR_FIRST || ir > ONNX_IR_LAST)
		return status_set(r->status, ir == 0 ? INFER_ERROR_MODEL : INFER_ERROR_UNSUPPORTED,
						  "the ONNX file has IR version %llu; supported are %d to %d",
						  (unsigned long long) ir, ONNX_IR_FIRST, ONNX_IR_LAST);
	model->ir_version = (uint32_t) ir;
	return true;
}

/* ---- checks ---- */

static bool
name_error(struct onnx_reader *r, int32_t name, const char *what)
{
	return status_set(r->status, INFER_ERROR_MODEL, "the ONNX file is malformed: the value \"%s\" %s",
					  r->model->names[name], what);
}

/* An input that has an initialiser is that constant (IR versions before 4 list them all). */
static void
inputs_without_tensors(struct onnx_model *model, const uint8_t *defined)
{
	uint32_t	kept = 0;

	for (uint32_t i = 0; i < model->inputs_count; i++)
		if (!defined[model->inputs[i].name])
			model->inputs[kept++] = model->inputs[i];
	model->inputs_count = kept;
}

static bool
check_definitions(struct onnx_reader *r)
{
	struct onnx_model *model = r->model;
	uint8_t    *defined = graph_pool(r->memory, model->names_count, 1);

	if (defined == NULL)
		return false;
	for (uint32_t i = 0; i < model->tensors_count; i++)
		if (defined[model->tensors_names[i]]++)
			return name_error(r, model->tensors_names[i], "has two initialisers");
	inputs_without_tensors(model, defined);
	for (uint32_t i = 0; i < model->inputs_count; i++)
		if (defined[model->inputs[i].name]++)
			return name_error(r, model->inputs[i].name, "is two inputs");
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		const struct onnx_node *node = &model->nodes[i];

		for (uint32_t j = 0; j < node->inputs_count; j++)
			if (node->inputs[j] >= 0 && !defined[node->inputs[j]])
				return name_error(r, node->inputs[j], "is used before anything computes it");
		for (uint32_t j = 0; j < node->outputs_count; j++)
			if (node->outputs[j] >= 0 && defined[node->outputs[j]]++)
				return name_error(r, node->outputs[j], "is computed twice");
	}
	for (uint32_t i = 0; i < model->outputs_count; i++)
	{
		if (!defined[model->outputs[i].name])
			return name_error(r, model->outputs[i].name, "is an output, and nothing computes it");
		for (uint32_t j = 0; j < i; j++)
			if (model->outputs[j].name == model->outputs[i].name)
				return name_error(r, model->outputs[i].name, "is two outputs");
	}
	return true;
}

static bool
check_counts(struct onnx_reader *r)
{
	struct onnx_model *model = r->model;

	if (model->outputs_count == 0)
		return malformed(r, "the graph", "it has no outputs");
	if (model->inputs_count > INFER_COLUMNS_MAX || model->outputs_count > INFER_COLUMNS_MAX)
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "the model has %u inputs and %u outputs; at most %d of each are supported",
						  model->inputs_count, model->outputs_count, INFER_COLUMNS_MAX);
	return true;
}

/* Gives each node the version that its domain is imported with. */
static bool
node_versions(struct onnx_reader *r)
{
	struct onnx_model *model = r->model;
	bool		main_used = false, ml_used = false;

	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		struct onnx_node *node = &model->nodes[i];

		if (node->domain[0] == '\0')
		{
			main_used = true;
			node->version = model->main_version;
		}
		else if (strcmp(node->domain, ONNX_DOMAIN_ML) == 0)
		{
			ml_used = true;
			node->version = model->ml_version;
		}
	}
	if ((main_used && model->main_version == 0) || (ml_used && model->ml_version == 0))
		return malformed(r, "the operator sets", "one that a node needs is not imported");
	if (main_used && (model->main_version < ONNX_MAIN_FIRST || model->main_version > ONNX_MAIN_LAST))
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "the model uses operator set %u of ONNX; supported are %d to %d",
						  model->main_version, ONNX_MAIN_FIRST, ONNX_MAIN_LAST);
	if (ml_used && model->ml_version > ONNX_ML_LAST)
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "the model uses operator set %u of ai.onnx.ml; supported are %d to %d",
						  model->ml_version, ONNX_ML_FIRST, ONNX_ML_LAST);
	return true;
}

bool
onnx_read(const struct model_files *files, const struct model_file *file,
		  struct graph_memory *memory, struct onnx_model *model, struct status *status)
{
	struct onnx_reader reader = {
		.files = files, .file = file, .memory = memory, .model = model, .status = status
	};
	struct protobuf_span whole = {file->data, file->size};
	struct protobuf_span graph = {0};

	memset(model, 0, sizeof(*model));
	model->producer = "";
	if (!model_parse(&reader, whole, &graph))
		return false;
	if (graph.data == NULL)
		return malformed(&reader, "the model", "it has no graph");
	return graph_parse(&reader, graph) && names_resolve(&reader) && check_definitions(&reader) &&
		check_counts(&reader) && node_versions(&reader);
}

bool
onnx_recognises(const struct model_file *file)
{
	/* ModelProto's first field, as every writer orders them: ir_version, a small number */
	return file->size > 2 && file->data[0] == (MODEL_IR << 3 | PROTOBUF_VARINT) &&
		file->data[1] >= 1 && file->data[1] < 0x80;
}
