/*
 * value.c
 *	  ValueInfoProto: names, types and shapes of a model's inputs and outputs.
 */
#include "onnx_reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../status.h"

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
		if (!onnx_is_bytes(r, &field, "a shape"))
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
				dim->symbol = onnx_text_copy(r, part.bytes, ONNX_TEXT_MAX, "a shape");
				if (dim->symbol == NULL)
					return false;
			}
		}
		if (inner.failed != NULL)
			return onnx_malformed(r, "a shape", inner.failed);
	}
	return reader.failed == NULL || onnx_malformed(r, "a shape", reader.failed);
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
		return onnx_malformed(r, "a type", reader.failed);
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

/* The type of a map's values: a TypeProto with the tensor's type alone. */
static bool
value_map_type(struct onnx_reader *r, struct protobuf_span span, struct onnx_value *value)
{
	struct protobuf_reader reader, inner;
	struct protobuf_field field, part;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.number != 2)
			continue;
		if (!onnx_is_bytes(r, &field, "a type"))
			return false;
		protobuf_open(&inner, field.bytes);
		while (protobuf_next(&inner, &part))
			if (part.number == 1 && part.wire == PROTOBUF_BYTES && !value_tensor_type(r, part.bytes, value))
				return false;
		if (inner.failed != NULL)
			return onnx_malformed(r, "a type", inner.failed);
	}
	value->kind = ONNX_VALUE_MAP;
	return reader.failed == NULL || onnx_malformed(r, "a type", reader.failed);
}

/* TypeProto: a tensor, a map, or the sequence of maps that ZipMap gives. */
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
				if (!onnx_is_bytes(r, &field, "a type") || !value_tensor_type(r, field.bytes, value))
					return false;
				break;
			case 4:					/* sequence */
				value->kind = ONNX_VALUE_MAPS;
				break;
			case 5:					/* map */
				if (!onnx_is_bytes(r, &field, "a type") || !value_map_type(r, field.bytes, value))
					return false;
				break;
			case 7:					/* opaque */
			case 8:					/* sparse tensor */
			case 9:					/* optional */
				return status_set(r->status, INFER_ERROR_UNSUPPORTED,
								  "an input or output is a %s, which is not supported",
								  field.number == 7 ? "opaque type" : field.number == 8 ? "sparse tensor" : "optional");
			default:
				break;
		}
	}
	return reader.failed == NULL || onnx_malformed(r, "a type", reader.failed);
}

bool
onnx_value_parse(struct onnx_reader *r, struct protobuf_span span, struct onnx_value *value,
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
		if (!onnx_is_bytes(r, &field, where))
			return false;
		if (field.number == 1 ? !onnx_name_reference(r, field.bytes, &value->name) :
			!value_type(r, field.bytes, value))
			return false;
	}
	if (reader.failed != NULL)
		return onnx_malformed(r, where, reader.failed);
	return value->name >= 0 || onnx_malformed(r, where, "it has no name");
}
