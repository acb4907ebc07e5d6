/*
 * elements.c
 *	  The elements of a TensorProto in the layout of a device's tensor.
 */
#include "onnx_tensor.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../status.h"

/* The field that holds a type's elements where raw_data does not. */
uint32_t
onnx_tensor_typed_field(uint8_t type)
{
	switch (type)
	{
		case DEVICE_F32:
			return TENSOR_FLOATS;
		case DEVICE_F64:
			return TENSOR_DOUBLES;
		case DEVICE_I32:
		case DEVICE_BOOL:
		case ONNX_TENSOR_BYTES:
			return TENSOR_INT32S;
		case DEVICE_I64:
			return TENSOR_INT64S;
		default:
			return TENSOR_STRINGS;
	}
}

const void *
onnx_tensor_direct(const struct onnx_tensor *tensor)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	/* a byte that is neither 0 nor 1 is not a BOOL: those are always decoded */
	if (tensor->raw.data != NULL && tensor->type != DEVICE_BOOL &&
		(uintptr_t) tensor->raw.data % onnx_tensor_element_bytes(tensor->type) == 0)
		return tensor->raw.data;
#endif
	return NULL;
}

static void
element_store(uint8_t type, void *data, uint64_t i, uint64_t bits)
{
	uint32_t	low = (uint32_t) bits;

	switch (type)
	{
		case DEVICE_F32:
		case DEVICE_I32:
			memcpy((uint8_t *) data + 4 * i, &low, 4);
			break;
		case DEVICE_F64:
		case DEVICE_I64:
			memcpy((uint8_t *) data + 8 * i, &bits, 8);
			break;
		case ONNX_TENSOR_BYTES:
			((uint8_t *) data)[i] = (uint8_t) bits;
			break;
		default:
			((uint8_t *) data)[i] = bits != 0;
			break;
	}
}

static void
tensor_read_raw(const struct onnx_tensor *tensor, void *data)
{
	size_t		size = onnx_tensor_element_bytes(tensor->type);

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (tensor->type != DEVICE_BOOL)
	{
		if (tensor->raw.size > 0)
			memcpy(data, tensor->raw.data, tensor->raw.size);
		return;
	}
#endif
	for (int64_t i = 0; i < tensor->elements; i++)
	{
		uint64_t	bits = 0;

		for (size_t byte = 0; byte < size; byte++)
			bits |= (uint64_t) tensor->raw.data[i * size + byte] << (8 * byte);
		element_store(tensor->type, data, i, bits);
	}
}

/* Adds what one field holds, from element *i on; parse counted them, so they fit. */
static void
tensor_read_field(const struct onnx_tensor *tensor, const struct protobuf_field *field,
				  void *data, uint64_t *i)
{
	struct protobuf_reader reader;
	uint64_t	elements = (uint64_t) tensor->elements;
	uint64_t	value;
	uint32_t	value32;

	if (tensor->type == DEVICE_STRING)
	{
		struct device_text *text = (struct device_text *) data + *i;

		text->data = (const char *) field->bytes.data;
		text->length = field->bytes.size;
		(*i)++;
		return;
	}
	if (field->wire != PROTOBUF_BYTES)
	{
		element_store(tensor->type, data, (*i)++, field->value);
		return;
	}
	protobuf_open(&reader, field->bytes);
	if (field->number == TENSOR_FLOATS)
		while (*i < elements && protobuf_packed_fixed32(&reader, &value32))
			element_store(tensor->type, data, (*i)++, value32);
	else if (field->number == TENSOR_DOUBLES)
		while (*i < elements && protobuf_packed_fixed64(&reader, &value))
			element_store(tensor->type, data, (*i)++, value);
	else
		while (*i < elements && protobuf_packed_varint(&reader, &value))
			element_store(tensor->type, data, (*i)++, value);
}

bool
onnx_tensor_read(const struct onnx_tensor *tensor, void *data, struct status *status)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	uint32_t	number = onnx_tensor_typed_field(tensor->type);
	uint64_t	i = 0;

	if (tensor->raw.data != NULL)
	{
		tensor_read_raw(tensor, data);
		return true;
	}
	protobuf_open(&reader, tensor->message);
	while (i < (uint64_t) tensor->elements && protobuf_next(&reader, &field))
		if (field.number == number)
			tensor_read_field(tensor, &field, data, &i);
	if (i != (uint64_t) tensor->elements)
		return onnx_tensor_malformed(tensor, status, "its elements cannot be read");
	return true;
}
