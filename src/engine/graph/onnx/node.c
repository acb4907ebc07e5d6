/*
 * node.c
 *	  NodeProto and AttributeProto.
 *
 * Arrays are made once: what a node or attribute has is counted first.  Graphs in
 * attributes are not read: no operator that takes one is claimed.
 */
#include "onnx_reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../status.h"

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
			return onnx_malformed(r, "an attribute", packed.failed);
	}
	attribute->floats = floats;
	attribute->ints = ints;
	return i == attribute->count || onnx_malformed(r, "an attribute", "its numbers cannot be read");
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
			if (!onnx_is_bytes(r, field, "an attribute"))
				return false;
			attribute->name = onnx_text_copy(r, field->bytes, ONNX_TEXT_MAX, "an attribute");
			return attribute->name != NULL;
		case ATTRIBUTE_F:
			memcpy(&attribute->f, &bits, sizeof(bits));
			return true;
		case ATTRIBUTE_I:
			attribute->i = (int64_t) field->value;
			return true;
		case ATTRIBUTE_S:
			if (!onnx_is_bytes(r, field, "an attribute"))
				return false;
			attribute->s.data = (const char *) field->bytes.data;
			attribute->s.length = field->bytes.size;
			return true;
		case ATTRIBUTE_T:
			if (!onnx_is_bytes(r, field, "an attribute"))
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
			return onnx_is_bytes(r, field, "an attribute");
		case ATTRIBUTE_TYPE:
			attribute->type = (uint32_t) field->value;
			return true;
		case ATTRIBUTE_REFERENCE:
			if (field->bytes.size == 0)
				return true;
			if (r->scope == NULL)
				return onnx_malformed(r, "an attribute", "it refers to a function's attribute outside a function");
			attribute->reference = onnx_text_copy(r, field->bytes, ONNX_TEXT_MAX, "an attribute");
			return attribute->reference != NULL;
		default:
			return true;
	}
}

static bool
attribute_tensor(struct onnx_reader *r, struct protobuf_span span, struct onnx_attribute *attribute)
{
	struct onnx_tensor *tensor;

	if (span.data == NULL)
		return onnx_malformed(r, "an attribute", "its tensor is missing");
	tensor = graph_pool(r->memory, 1, sizeof(*tensor));
	attribute->tensor = tensor;
	return tensor != NULL &&
		onnx_tensor_parse(span, r->files, r->file, r->memory, true, tensor, r->status);
}

bool
onnx_attribute_parse(struct onnx_reader *r, struct protobuf_span span, struct onnx_attribute *attribute)
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
		return onnx_malformed(r, "an attribute", reader.failed);
	if (attribute->name == NULL || attribute->name[0] == '\0')
		return onnx_malformed(r, "an attribute", "it has no name");
	if (attribute->reference != NULL)
		return onnx_scope_attribute(r, attribute);
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
				return onnx_malformed(r, "an attribute", "it has no type");
			return true;
	}
	if (count > UINT32_MAX / 2)
		return onnx_malformed(r, "an attribute", "it has too many elements");
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
		if (field.number > NODE_OVERLOAD)
			continue;
		if (!onnx_is_bytes(r, &field, "a node"))
			return false;
		node->inputs_count += field.number == NODE_INPUT;
		node->outputs_count += field.number == NODE_OUTPUT;
		node->attributes_count += field.number == NODE_ATTRIBUTE;
	}
	if (reader.failed != NULL)
		return onnx_malformed(r, "a node", reader.failed);
	if (node->inputs_count > ONNX_ARGUMENTS_MAX || node->outputs_count > ONNX_ARGUMENTS_MAX)
		return onnx_malformed(r, "a node", "it has too many inputs or outputs");
	if (node->attributes_count > ONNX_ATTRIBUTES_MAX)
		return onnx_malformed(r, "a node", "it has too many attributes");
	return true;
}

static bool
node_text(struct onnx_reader *r, const struct protobuf_field *field, struct onnx_node *node)
{
	const char **place = field->number == NODE_NAME ? &node->name :
		field->number == NODE_OP ? &node->op :
		field->number == NODE_DOMAIN ? &node->domain : &node->overload;

	*place = onnx_text_copy(r, field->bytes, ONNX_TEXT_MAX, "a node");
	return *place != NULL;
}

/* One more attribute, but for a reference to one that the call does not have. */
static bool
node_attribute(struct onnx_reader *r, struct protobuf_span span, struct onnx_attribute *attributes, uint32_t *count)
{
	if (!onnx_attribute_parse(r, span, &attributes[*count]))
		return false;
	*count += attributes[*count].type != 0;
	return true;
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

bool
onnx_node_parse(struct onnx_reader *r, struct protobuf_span span, struct onnx_node *node)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct onnx_attribute *attributes;
	int32_t    *inputs, *outputs;
	uint32_t	i = 0, o = 0, a = 0;

	memset(node, 0, sizeof(*node));
	node->index = r->model->nodes_count;
	node->op = node->name = node->domain = node->overload = "";
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
				fine = onnx_name_reference(r, field.bytes, &inputs[i++]);
				break;
			case NODE_OUTPUT:
				fine = onnx_name_reference(r, field.bytes, &outputs[o++]);
				break;
			case NODE_NAME:
			case NODE_OP:
			case NODE_DOMAIN:
			case NODE_OVERLOAD:
				fine = node_text(r, &field, node);
				break;
			case NODE_ATTRIBUTE:
				fine = node_attribute(r, field.bytes, attributes, &a);
				break;
			default:
				break;
		}
		if (!fine)
			return false;
	}
	node->attributes_count = a;
	if (strcmp(node->domain, "ai.onnx") == 0)
		node->domain = "";
	if (node->op[0] == '\0')
		return onnx_malformed(r, "a node", "it has no operator");
	return node_attributes_distinct(r, node);
}
