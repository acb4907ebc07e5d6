/*
 * tensor.c
 *	  The form of a TensorProto: type, dimensions, and where its bytes lie.
 *
 * A tensor has its elements in raw_data (little-endian), in the typed field of its type,
 * or in another file.  Their number is checked here, so that elements.c need not fail.
 */
#include "onnx_tensor.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../status.h"

static const char *const type_names[] = {
	"undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool",
	"float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16",
	"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4",
	"float4e2m1", "float8e8m0", "uint2", "int2"
};

uint8_t
onnx_device_type(int64_t type)
{
	switch (type)
	{
		case ONNX_FLOAT:
			return DEVICE_F32;
		case ONNX_DOUBLE:
			return DEVICE_F64;
		case ONNX_INT32:
			return DEVICE_I32;
		case ONNX_INT64:
			return DEVICE_I64;
		case ONNX_BOOL:
			return DEVICE_BOOL;
		case ONNX_STRING:
			return DEVICE_STRING;
		default:
			return 0;
	}
}

const char *
onnx_type_name(int64_t type)
{
	if (type < 0 || type >= (int64_t) (sizeof(type_names) / sizeof(type_names[0])))
		return "unknown";
	return type_names[type];
}

bool
onnx_tensor_malformed(const struct onnx_tensor *tensor, struct status *status, const char *what)
{
	return status_set(status, INFER_ERROR_MODEL, "tensor \"%s\" is malformed: %s",
					  tensor->name, what);
}

size_t
onnx_tensor_element_bytes(uint8_t type)
{
	return type == ONNX_TENSOR_BYTES ? 1 : device_type_bytes(type);
}

/* How many elements a field adds. */
static uint64_t
tensor_field_count(const struct protobuf_field *field)
{
	if (field->wire != PROTOBUF_BYTES)
		return 1;
	switch (field->number)
	{
		case TENSOR_FLOATS:
			return field->bytes.size / 4;
		case TENSOR_DOUBLES:
			return field->bytes.size / 8;
		case TENSOR_STRINGS:
			return 1;
		default:
			return protobuf_packed_count(field->bytes);
	}
}

static bool
tensor_dims_add(struct onnx_tensor *tensor, uint64_t value, struct status *status)
{
	if (tensor->rank == DEVICE_RANK_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED,
						  "tensor \"%s\" has more than %d dimensions", tensor->name, DEVICE_RANK_MAX);
	if ((int64_t) value < 0)
		return onnx_tensor_malformed(tensor, status, "a dimension is negative");
	tensor->dims[tensor->rank++] = (int64_t) value;
	return true;
}

static bool
tensor_dims(struct onnx_tensor *tensor, const struct protobuf_field *field, struct status *status)
{
	struct protobuf_reader reader;
	uint64_t	value;

	if (field->wire == PROTOBUF_VARINT)
		return tensor_dims_add(tensor, field->value, status);
	protobuf_open(&reader, field->bytes);
	while (protobuf_packed_varint(&reader, &value))
		if (!tensor_dims_add(tensor, value, status))
			return false;
	return reader.failed == NULL || onnx_tensor_malformed(tensor, status, reader.failed);
}

static bool
tensor_count(struct onnx_tensor *tensor, struct status *status)
{
	int64_t		elements = 1;

	for (int i = 0; i < tensor->rank; i++)
		if (__builtin_mul_overflow(elements, tensor->dims[i], &elements) ||
			elements > INT64_MAX / 16)
			return onnx_tensor_malformed(tensor, status, "its dimensions are too large");
	tensor->elements = elements;
	return true;
}

/* Takes dims, type, name; finds out which of the three places holds the elements. */
static bool
tensor_fields(struct onnx_tensor *tensor, int64_t *onnx_type, struct onnx_external *external,
			  uint64_t counts[TENSOR_LOCATION + 1], struct graph_memory *memory,
			  struct status *status)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	const char *wrong;

	protobuf_open(&reader, tensor->message);
	while (protobuf_next(&reader, &field))
	{
		switch (field.number)
		{
			case TENSOR_DIMS:
				if (!tensor_dims(tensor, &field, status))
					return false;
				break;
			case TENSOR_TYPE:
				*onnx_type = (int64_t) field.value;
				break;
			case TENSOR_SEGMENT:
				return onnx_tensor_malformed(tensor, status, "it is split into segments");
			case TENSOR_NAME:
				if (field.bytes.size > ONNX_TEXT_MAX)
					return onnx_tensor_malformed(tensor, status, "its name is too long");
				tensor->name = graph_pool_text(memory, field.bytes.data, field.bytes.size);
				if (tensor->name == NULL)
					return false;
				break;
			case TENSOR_RAW:
				if (field.wire != PROTOBUF_BYTES)
					return onnx_tensor_malformed(tensor, status, "its bytes are not bytes");
				tensor->raw = field.bytes;
				break;
			case TENSOR_EXTERNAL:
				if (field.wire != PROTOBUF_BYTES)
					return onnx_tensor_malformed(tensor, status, "its external data is not a message");
				wrong = onnx_external_entry(external, field.bytes);
				if (wrong != NULL)
					return onnx_tensor_malformed(tensor, status, wrong);
				break;
			case TENSOR_LOCATION:
				counts[TENSOR_LOCATION] = field.value;
				break;
			case TENSOR_FLOATS:
			case TENSOR_INT32S:
			case TENSOR_STRINGS:
			case TENSOR_INT64S:
			case TENSOR_DOUBLES:
				counts[field.number] += tensor_field_count(&field);
				break;
			default:
				break;
		}
	}
	return reader.failed == NULL || onnx_tensor_malformed(tensor, status, reader.failed);
}

bool
onnx_tensor_parse(struct protobuf_span message, const struct model_files *files,
				  const struct model_file *file, struct graph_memory *memory, bool bytes_too,
				  struct onnx_tensor *tensor, struct status *status)
{
	struct onnx_external external = {0};
	uint64_t	counts[TENSOR_LOCATION + 1] = {0};
	int64_t		onnx_type = 0;
	uint64_t	bytes;

	memset(tensor, 0, sizeof(*tensor));
	tensor->name = "";
	tensor->message = message;
	if (!tensor_fields(tensor, &onnx_type, &external, counts, memory, status))
		return false;
	tensor->type = bytes_too && onnx_type == ONNX_UINT8 ? ONNX_TENSOR_BYTES : onnx_device_type(onnx_type);
	if (tensor->type == 0)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "tensor \"%s\" has the type %s, which is not supported",
				   tensor->name, onnx_type_name(onnx_type));
		status_detail(status, "Supported are float32, float64, int64, int32, bool and string.");
		return false;
	}
	if (!tensor_count(tensor, status))
		return false;
	if (counts[TENSOR_LOCATION] > 1)
		return onnx_tensor_malformed(tensor, status, "its data location is unknown");
	if (counts[TENSOR_LOCATION] == 1)
	{
		if (tensor->type == DEVICE_STRING)
			return onnx_tensor_malformed(tensor, status, "strings cannot lie in external data");
		if (!onnx_external_locate(tensor, &external, files, file, status))
			return false;
	}
	else if (tensor->raw.data == NULL)
	{
		uint64_t	count = counts[onnx_tensor_typed_field(tensor->type)];

		if (count != (uint64_t) tensor->elements)
			return status_set(status, INFER_ERROR_MODEL,
							  "tensor \"%s\" is malformed: its dimensions ask for %lld elements, and it has %llu",
							  tensor->name, (long long) tensor->elements, (unsigned long long) count);
		return true;
	}
	if (tensor->type == DEVICE_STRING)
		return onnx_tensor_malformed(tensor, status, "strings cannot be raw data");
	bytes = (uint64_t) tensor->elements * onnx_tensor_element_bytes(tensor->type);
	if (bytes != tensor->raw.size)
		return status_set(status, INFER_ERROR_MODEL,
						  "tensor \"%s\" is malformed: its dimensions ask for %llu bytes, and it has %llu",
						  tensor->name, (unsigned long long) bytes, (unsigned long long) tensor->raw.size);
	return true;
}
