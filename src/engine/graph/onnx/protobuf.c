/*
 * protobuf.c
 *	  See protobuf.h.
 */
#include "protobuf.h"

#include <stddef.h>

#define VARINT_BYTES_MAX 10

void
protobuf_open(struct protobuf_reader *reader, struct protobuf_span span)
{
	reader->at = span.data;
	reader->end = span.data == NULL ? NULL : span.data + span.size;
	reader->failed = NULL;
}

static bool
reader_fail(struct protobuf_reader *reader, const char *what)
{
	if (reader->failed == NULL)
		reader->failed = what;
	reader->at = reader->end;
	return false;
}

static uint64_t
reader_left(const struct protobuf_reader *reader)
{
	return (uint64_t) (reader->end - reader->at);
}

bool
protobuf_packed_varint(struct protobuf_reader *reader, uint64_t *value)
{
	uint64_t	result = 0;

	if (reader->at == reader->end)
		return false;
	for (int i = 0; i < VARINT_BYTES_MAX; i++)
	{
		uint8_t		byte;

		if (reader->at == reader->end)
			return reader_fail(reader, "a number is cut off");
		byte = *reader->at++;
		if (i == VARINT_BYTES_MAX - 1 && byte > 1)
			break;
		result |= (uint64_t) (byte & 0x7F) << (7 * i);
		if ((byte & 0x80) == 0)
		{
			*value = result;
			return true;
		}
	}
	return reader_fail(reader, "a number has more than 64 bits");
}

bool
protobuf_packed_fixed32(struct protobuf_reader *reader, uint32_t *value)
{
	uint32_t	result = 0;

	if (reader->at == reader->end)
		return false;
	if (reader_left(reader) < sizeof(result))
		return reader_fail(reader, "a number is cut off");
	for (int i = 0; i < 4; i++)
		result |= (uint32_t) reader->at[i] << (8 * i);
	reader->at += sizeof(result);
	*value = result;
	return true;
}

bool
protobuf_packed_fixed64(struct protobuf_reader *reader, uint64_t *value)
{
	uint64_t	result = 0;

	if (reader->at == reader->end)
		return false;
	if (reader_left(reader) < sizeof(result))
		return reader_fail(reader, "a number is cut off");
	for (int i = 0; i < 8; i++)
		result |= (uint64_t) reader->at[i] << (8 * i);
	reader->at += sizeof(result);
	*value = result;
	return true;
}

uint64_t
protobuf_packed_count(struct protobuf_span span)
{
	uint64_t	count = 0;

	for (uint64_t i = 0; i < span.size; i++)
		count += (span.data[i] & 0x80) == 0;
	return count;
}

bool
protobuf_next(struct protobuf_reader *reader, struct protobuf_field *field)
{
	uint64_t	tag;
	uint32_t	value32;

	if (!protobuf_packed_varint(reader, &tag))
		return false;
	if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF)
		return reader_fail(reader, "a field has an impossible number");
	field->number = (uint32_t) (tag >> 3);
	field->wire = (uint32_t) (tag & 7);
	field->value = 0;
	field->bytes.data = NULL;
	field->bytes.size = 0;
	switch (field->wire)
	{
		case PROTOBUF_VARINT:
			return protobuf_packed_varint(reader, &field->value) ||
				reader_fail(reader, "a field is cut off");
		case PROTOBUF_FIXED64:
			return protobuf_packed_fixed64(reader, &field->value) ||
				reader_fail(reader, "a field is cut off");
		case PROTOBUF_FIXED32:
			if (!protobuf_packed_fixed32(reader, &value32))
				return reader_fail(reader, "a field is cut off");
			field->value = value32;
			return true;
		case PROTOBUF_BYTES:
			if (!protobuf_packed_varint(reader, &field->bytes.size))
				return reader_fail(reader, "a field is cut off");
			if (field->bytes.size > reader_left(reader))
				return reader_fail(reader, "a length reaches past the end");
			field->bytes.data = reader->at;
			reader->at += field->bytes.size;
			return true;
		default:
			return reader_fail(reader, "a field has an unknown wire type");
	}
}
