/*
 * onnx_tensor.c
 *	  Tensors of an ONNX file: their form, where their bytes lie, and decoding them.
 *
 * A tensor has its elements in raw_data (little-endian), in the typed field of its type,
 * or in another file of the model's folder (external data).  Which files those may be is
 * decided by names among the model's files alone: nothing is ever opened here.
 */
#include "onnx.h"

#include <stdio.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../status.h"

enum tensor_field
{
	TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_SEGMENT = 3, TENSOR_FLOATS = 4, TENSOR_INT32S = 5,
	TENSOR_STRINGS = 6, TENSOR_INT64S = 7, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_DOUBLES = 10,
	TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14
};

struct external_data				/* entries of TensorProto.external_data */
{
	bool		present;
	struct protobuf_span location;
	struct protobuf_span offset;
	struct protobuf_span length;
};

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

static bool
tensor_malformed(const struct onnx_tensor *tensor, struct status *status, const char *what)
{
	return status_set(status, INFER_ERROR_MODEL, "tensor \"%s\" is malformed: %s",
					  tensor->name, what);
}

/* ---- external data ---- */

static bool
span_is(struct protobuf_span span, const char *text)
{
	return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

/* A decimal number; false if it is anything else or does not fit. */
static bool
span_number(struct protobuf_span span, uint64_t *value)
{
	uint64_t	result = 0;

	if (span.size == 0)
		return false;
	for (uint64_t i = 0; i < span.size; i++)
	{
		uint8_t		digit = (uint8_t) (span.data[i] - '0');

		if (digit > 9 || __builtin_mul_overflow(result, 10, &result) ||
			__builtin_add_overflow(result, digit, &result))
			return false;
	}
	*value = result;
	return true;
}

static const char *
external_entry(struct external_data *external, struct protobuf_span message)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct protobuf_span key = {0}, value = {0};

	protobuf_open(&reader, message);
	while (protobuf_next(&reader, &field))
	{
		if (field.wire != PROTOBUF_BYTES)
			continue;
		if (field.number == 1)
			key = field.bytes;
		else if (field.number == 2)
			value = field.bytes;
	}
	if (reader.failed != NULL)
		return reader.failed;
	external->present = true;
	if (key.data == NULL)
		return "an entry of its external data has no key";
	if (span_is(key, "location"))
		external->location = value;
	else if (span_is(key, "offset"))
		external->offset = value;
	else if (span_is(key, "length"))
		external->length = value;
	else if (!span_is(key, "checksum"))
		return "an entry of its external data has an unknown key";
	return NULL;
}

/*
 * The name among the model's files: the folder of the ONNX file itself, then the location
 * without "." parts.  NULL into what says why it is refused.
 */
static const char *
external_name(const struct model_file *file, struct protobuf_span location, char name[INFER_NAME_MAX])
{
	const char *slash = strrchr(file->name, '/');
	size_t		used = slash == NULL ? 0 : (size_t) (slash - file->name) + 1;
	uint64_t	at = 0;

	if (location.size == 0)
		return "its external data has no location";
	if (location.data[0] == '/')
		return "its external data has an absolute location";
	if (memchr(location.data, 0, location.size) != NULL ||
		memchr(location.data, '\\', location.size) != NULL)
		return "its external data has an unacceptable location";
	if (used + location.size >= INFER_NAME_MAX)
		return "its external data has a location that is too long";
	memcpy(name, file->name, used);
	while (at < location.size)
	{
		const uint8_t *part = location.data + at;
		const uint8_t *end = memchr(part, '/', location.size - at);
		size_t		length = end == NULL ? location.size - at : (size_t) (end - part);

		at += length + 1;
		if (length == 0)
			return "its external data has an empty part in its location";
		if (length == 2 && part[0] == '.' && part[1] == '.')
			return "its external data lies outside the model's folder";
		if (length == 1 && part[0] == '.')
			continue;
		memcpy(name + used, part, length);
		used += length;
		if (at < location.size)
			name[used++] = '/';
	}
	name[used] = '\0';
	return NULL;
}

static bool
external_locate(struct onnx_tensor *tensor, const struct external_data *external,
				const struct model_files *files, const struct model_file *file,
				struct status *status)
{
	char		name[INFER_NAME_MAX];
	const char *wrong = external_name(file, external->location, name);
	const struct model_file *other;
	uint64_t	offset = 0;
	uint64_t	length;

	if (wrong != NULL)
		return tensor_malformed(tensor, status, wrong);
	other = model_files_find(files, name);
	if (other == NULL)
	{
		status_set(status, INFER_ERROR_MODEL,
				   "tensor \"%s\" lies in the file \"%s\", which the model does not have",
				   tensor->name, name);
		status_hint(status, "Create the model from the whole folder.");
		return false;
	}
	if (external->offset.data != NULL && !span_number(external->offset, &offset))
		return tensor_malformed(tensor, status, "the offset of its external data is not a number");
	if (offset > other->size)
		return tensor_malformed(tensor, status, "its external data begins past the end of its file");
	length = other->size - offset;
	if (external->length.data != NULL)
	{
		uint64_t	left = length;

		if (!span_number(external->length, &length))
			return tensor_malformed(tensor, status, "the length of its external data is not a number");
		if (length > left)
			return tensor_malformed(tensor, status, "its external data reaches past the end of its file");
	}
	else
	{
		/* to the end of the file, says the format; files that pad are common */
		uint64_t	wanted = (uint64_t) tensor->elements * device_type_bytes(tensor->type);

		if (wanted < length)
			length = wanted;
	}
	tensor->raw.data = other->data + offset;
	tensor->raw.size = length;
	return true;
}

/* ---- form ---- */

/* The field that holds a type's elements where raw_data does not. */
static uint32_t
tensor_typed_field(uint8_t type)
{
	switch (type)
	{
		case DEVICE_F32:
			return TENSOR_FLOATS;
		case DEVICE_F64:
			return TENSOR_DOUBLES;
		case DEVICE_I32:
		case DEVICE_BOOL:
			return TENSOR_INT32S;
		case DEVICE_I64:
			return TENSOR_INT64S;
		default:
			return TENSOR_STRINGS;
	}
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
		return tensor_malformed(tensor, status, "a dimension is negative");
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
	return reader.failed == NULL || tensor_malformed(tensor, status, reader.failed);
}

static bool
tensor_count(struct onnx_tensor *tensor, struct status *status)
{
	int64_t		elements = 1;

	for (int i = 0; i < tensor->rank; i++)
		if (__builtin_mul_overflow(elements, tensor->dims[i], &elements) ||
			elements > INT64_MAX / 16)
			return tensor_malformed(tensor, status, "its dimensions are too large");
	tensor->elements = elements;
	return true;
}

/* Takes dims, type, name; finds out which of the three places holds the elements. */
static bool
tensor_fields(struct onnx_tensor *tensor, int64_t *onnx_type, struct external_data *external,
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
				return tensor_malformed(tensor, status, "it is split into segments");
			case TENSOR_NAME:
				if (field.bytes.size > ONNX_TEXT_MAX)
					return tensor_malformed(tensor, status, "its name is too long");
				tensor->name = graph_pool_text(memory, field.bytes.data, field.bytes.size);
				if (tensor->name == NULL)
					return false;
				break;
			case TENSOR_RAW:
				if (field.wire != PROTOBUF_BYTES)
					return tensor_malformed(tensor, status, "its bytes are not bytes");
				tensor->raw = field.bytes;
				break;
			case TENSOR_EXTERNAL:
				if (field.wire != PROTOBUF_BYTES)
					return tensor_malformed(tensor, status, "its external data is not a message");
				wrong = external_entry(external, field.bytes);
				if (wrong != NULL)
					return tensor_malformed(tensor, status, wrong);
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
	return reader.failed == NULL || tensor_malformed(tensor, status, reader.failed);
}

bool
onnx_tensor_parse(struct protobuf_span message, const struct model_files *files,
				  const struct model_file *file, struct graph_memory *memory,
				  struct onnx_tensor *tensor, struct status *status)
{
	struct external_data external = {0};
	uint64_t	counts[TENSOR_LOCATION + 1] = {0};
	int64_t		onnx_type = 0;
	uint64_t	bytes;

	memset(tensor, 0, sizeof(*tensor));
	tensor->name = "";
	tensor->message = message;
	if (!tensor_fields(tensor, &onnx_type, &external, counts, memory, status))
		return false;
	tensor->type = onnx_device_type(onnx_type);
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
		return tensor_malformed(tensor, status, "its data location is unknown");
	if (counts[TENSOR_LOCATION] == 1)
	{
		if (tensor->type == DEVICE_STRING)
			return tensor_malformed(tensor, status, "strings cannot lie in external data");
		if (!external_locate(tensor, &external, files, file, status))
			return false;
	}
	else if (tensor->raw.data == NULL)
	{
		uint64_t	count = counts[tensor_typed_field(tensor->type)];

		if (count != (uint64_t) tensor->elements)
			return status_set(status, INFER_ERROR_MODEL,
							  "tensor \"%s\" is malformed: its dimensions ask for %lld elements, and it has %llu",
							  tensor->name, (long long) tensor->elements, (unsigned long long) count);
		return true;
	}
	if (tensor->type == DEVICE_STRING)
		return tensor_malformed(tensor, status, "strings cannot be raw data");
	bytes = (uint64_t) tensor->elements * device_type_bytes(tensor->type);
	if (bytes != tensor->raw.size)
		return status_set(status, INFER_ERROR_MODEL,
						  "tensor \"%s\" is malformed: its dimensions ask for %llu bytes, and it has %llu",
						  tensor->name, (unsigned long long) bytes, (unsigned long long) tensor->raw.size);
	return true;
}

/* ---- elements ---- */

const void *
onnx_tensor_direct(const struct onnx_tensor *tensor)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	/* a byte that is neither 0 nor 1 is not a BOOL: those are always decoded */
	if (tensor->raw.data != NULL && tensor->type != DEVICE_BOOL &&
		(uintptr_t) tensor->raw.data % device_type_bytes(tensor->type) == 0)
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
		default:
			((uint8_t *) data)[i] = bits != 0;
			break;
	}
}

static void
tensor_read_raw(const struct onnx_tensor *tensor, void *data)
{
	size_t		size = device_type_bytes(tensor->type);

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
	uint32_t	number = tensor_typed_field(tensor->type);
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
		return tensor_malformed(tensor, status, "its elements cannot be read");
	return true;
}
