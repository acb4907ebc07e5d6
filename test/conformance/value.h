/*
 * value.h
 *	  One TensorProto of a case, decoded into the engine's element types.
 *
 * A type that the engine does not have (or a sequence, a map, an optional) is type 0.
 * Field numbers: onnx/onnx.proto.
 */
#ifndef TEST_CONFORMANCE_VALUE_H
#define TEST_CONFORMANCE_VALUE_H

#include <stdio.h>
#include <stdlib.h>

#include "engine/device.h"
#include "proto.h"

#define CASE_NAME_MAX	256

struct value
{
	char		name[CASE_NAME_MAX];	/* of the graph's input or output */
	uint8_t		type;			/* enum device_type, 0: none of the engine's */
	int			onnx_type;
	int			rank;			/* -1: more than the engine has */
	int64_t		dims[DEVICE_RANK_MAX];
	uint64_t	count;			/* elements */
	void	   *data;			/* of the engine's type; struct device_text for strings */
	uint8_t    *file;			/* the message, as on disk: strings point into it */
	uint64_t	file_bytes;
};

static void *
xalloc(uint64_t bytes)
{
	void	   *memory = calloc(1, bytes ? bytes : 1);

	if (memory == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(2);
	}
	return memory;
}

static uint8_t *
file_read(const char *path, uint64_t *bytes)
{
	FILE	   *file = fopen(path, "rb");
	long		size;
	uint8_t    *data;

	if (file == NULL)
		return NULL;
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	data = xalloc((uint64_t) size + 1);
	*bytes = fread(data, 1, (size_t) size, file);
	fclose(file);
	return data;
}

static uint8_t
value_type(int onnx_type)
{
	switch (onnx_type)
	{
		case 1:
			return DEVICE_F32;
		case 6:
			return DEVICE_I32;
		case 7:
			return DEVICE_I64;
		case 8:
			return DEVICE_STRING;
		case 9:
			return DEVICE_BOOL;
		case 11:
			return DEVICE_F64;
		default:
			return 0;
	}
}

static inline const char *
value_type_name(int onnx_type)
{
	static const char *const names[] = {"no tensor", "float", "uint8", "int8", "uint16", "int16",
		"int32", "int64", "string", "bool", "float16", "double", "uint32", "uint64",
	"complex64", "complex128", "bfloat16"};

	return onnx_type >= 0 && onnx_type < (int) (sizeof(names) / sizeof(names[0])) ?
		names[onnx_type] : "a small type";
}

static uint64_t
value_element_bytes(uint8_t type)
{
	return type == DEVICE_STRING ? sizeof(struct device_text) :
		type == DEVICE_BOOL ? 1 : type == DEVICE_F32 || type == DEVICE_I32 ? 4 : 8;
}

/* One element from a typed field (float_data, int32_data, …): v as the wire gave it. */
static void
value_store(struct value *value, uint64_t at, uint64_t v)
{
	uint8_t    *to = (uint8_t *) value->data + at * value_element_bytes(value->type);

	if (value->type == DEVICE_BOOL)
		*to = v != 0;
	else
		memcpy(to, &v, value_element_bytes(value->type));
}

/* Reads a TensorProto.  False if it is damaged. */
static bool
value_parse(struct value *value, const uint8_t *data, uint64_t length)
{
	struct proto p = proto_open(data, length);
	uint64_t	at = 0;

	value->count = 1;
	while (proto_next(&p))
	{
		if (p.field == 1)
		{
			struct proto dims = proto_packed(&p);

			while (dims.at < dims.end && !dims.bad)
			{
				if (p.wire == 0)
					proto_varint(&dims);	/* the tag */
				int64_t		dim = (int64_t) proto_varint(&dims);

				if (value->rank >= DEVICE_RANK_MAX)
					value->rank = -1;
				if (value->rank >= 0)
					value->dims[value->rank++] = dim;
				value->count *= (uint64_t) dim;
			}
		}
		else if (p.field == 2)
			value->onnx_type = (int) p.value;
	}
	if (p.bad)
		return false;
	value->type = value_type(value->onnx_type);
	if (value->type == 0 || value->rank < 0)
		return true;
	if (value->count > (1u << 28))
		return false;
	value->data = xalloc(value->count * value_element_bytes(value->type));

	p = proto_open(data, length);
	while (proto_next(&p))
	{
		if (p.field == 9 && p.length > 0)
		{
			if (p.length != value->count * value_element_bytes(value->type))
				return false;
			memcpy(value->data, p.data, p.length);
			at = value->count;
		}
		else if (p.field == 6 && at < value->count)
		{
			struct device_text *text = (struct device_text *) value->data + at++;

			text->data = (const char *) p.data;
			text->length = p.length;
		}
		else if (p.field == 4 || p.field == 10 || p.field == 5 || p.field == 7)
		{
			struct proto list = proto_packed(&p);
			size_t		fixed = p.field == 4 ? 4 : p.field == 10 ? 8 : 0;

			while (list.at < list.end && !list.bad && at < value->count)
			{
				uint64_t	v = 0;

				if (p.wire != 2)
					proto_varint(&list);
				if (fixed == 0)
					v = proto_varint(&list);
				else if ((size_t) (list.end - list.at) >= fixed)
				{
					memcpy(&v, list.at, fixed);
					list.at += fixed;
				}
				else
					return false;
				value_store(value, at++, v);
			}
		}
	}
	return !p.bad && at == value->count;
}

static void
value_free(struct value *value)
{
	free(value->data);
	free(value->file);
	memset(value, 0, sizeof(*value));
}

#endif							/* TEST_CONFORMANCE_VALUE_H */
