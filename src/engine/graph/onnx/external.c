/*
 * external.c
 *	  Tensors whose bytes lie in another file of the model's folder.
 *
 * Which file that may be is decided by names among the model's files alone: nothing is
 * ever opened here, and a location that leaves the folder is refused by its text.
 */
#include "onnx_tensor.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../status.h"

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

const char *
onnx_external_entry(struct onnx_external *external, struct protobuf_span message)
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

bool
onnx_external_locate(struct onnx_tensor *tensor, const struct onnx_external *external,
				const struct model_files *files, const struct model_file *file,
				struct status *status)
{
	char		name[INFER_NAME_MAX];
	const char *wrong = external_name(file, external->location, name);
	const struct model_file *other;
	uint64_t	offset = 0;
	uint64_t	length;

	if (wrong != NULL)
		return onnx_tensor_malformed(tensor, status, wrong);
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
		return onnx_tensor_malformed(tensor, status, "the offset of its external data is not a number");
	if (offset > other->size)
		return onnx_tensor_malformed(tensor, status, "its external data begins past the end of its file");
	length = other->size - offset;
	if (external->length.data != NULL)
	{
		uint64_t	left = length;

		if (!span_number(external->length, &length))
			return onnx_tensor_malformed(tensor, status, "the length of its external data is not a number");
		if (length > left)
			return onnx_tensor_malformed(tensor, status, "its external data reaches past the end of its file");
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
