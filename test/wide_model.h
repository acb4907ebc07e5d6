/*
 * wide_model.h
 *	  An ONNX model large enough to be kept packed, made on the spot: y = ((x·A)·B)·C of one
 *	  float, A [1,W], B [W,W], C [W,1], W = 600: 1.4 MB.  The format is protobuf as in onnx.proto
 *	  (https://github.com/onnx/onnx); numbers below are its field numbers.
 */
#ifndef TEST_WIDE_MODEL_H
#define TEST_WIDE_MODEL_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WIDE	600

struct wide_bytes
{
	uint8_t    *data;
	size_t		size;
};

static inline void
wide_raw(struct wide_bytes *to, const void *data, size_t size)
{
	to->data = realloc(to->data, to->size + size + 1);
	memcpy(to->data + to->size, data, size);
	to->size += size;
}

static inline void
wide_varint(struct wide_bytes *to, uint64_t number)
{
	do
	{
		uint8_t		byte = (uint8_t) ((number & 127) | (number > 127 ? 128 : 0));

		wide_raw(to, &byte, 1);
		number >>= 7;
	}
	while (number > 0);
}

static inline void
wide_number(struct wide_bytes *to, int field, uint64_t number)
{
	wide_varint(to, (uint64_t) field << 3);
	wide_varint(to, number);
}

static inline void
wide_field(struct wide_bytes *to, int field, const void *data, size_t size)
{
	wide_varint(to, (uint64_t) field << 3 | 2);
	wide_varint(to, size);
	wide_raw(to, data, size);
}

static inline void
wide_text(struct wide_bytes *to, int field, const char *text)
{
	wide_field(to, field, text, strlen(text));
}

/* What was built becomes a field of another message. */
static inline void
wide_inner(struct wide_bytes *to, int field, struct wide_bytes *inner)
{
	wide_field(to, field, inner->data, inner->size);
	free(inner->data);
	*inner = (struct wide_bytes) {0};
}

static inline void
wide_matrix(struct wide_bytes *graph, const char *name, int rows, int columns, uint32_t *seed)
{
	struct wide_bytes tensor = {0};
	float	   *data = malloc((size_t) rows * (size_t) columns * sizeof(float));

	for (int i = 0; i < rows * columns; i++)
	{
		*seed = *seed * 1664525 + 1013904223;
		data[i] = (float) (*seed >> 8) / (float) (1 << 24) - 0.5f;
	}
	wide_number(&tensor, 1, (uint64_t) rows);	/* dims */
	wide_number(&tensor, 1, (uint64_t) columns);
	wide_number(&tensor, 2, 1);					/* data_type FLOAT */
	wide_text(&tensor, 8, name);
	wide_field(&tensor, 9, data, (size_t) rows * (size_t) columns * sizeof(float));	/* raw_data */
	wide_inner(graph, 5, &tensor);				/* initializer */
	free(data);
}

static inline void
wide_node(struct wide_bytes *graph, const char *x, const char *matrix, const char *y)
{
	struct wide_bytes node = {0};

	wide_text(&node, 1, x);
	wide_text(&node, 1, matrix);
	wide_text(&node, 2, y);
	wide_text(&node, 4, "MatMul");
	wide_inner(graph, 1, &node);
}

/* A tensor of floats (N, 1). */
static inline void
wide_value(struct wide_bytes *graph, int field, const char *name)
{
	struct wide_bytes value = {0}, type = {0}, tensor = {0}, shape = {0}, dim = {0};

	wide_text(&dim, 2, "N");
	wide_inner(&shape, 1, &dim);
	wide_number(&dim, 1, 1);
	wide_inner(&shape, 1, &dim);
	wide_number(&tensor, 1, 1);
	wide_inner(&tensor, 2, &shape);
	wide_inner(&type, 1, &tensor);
	wide_text(&value, 1, name);
	wide_inner(&value, 2, &type);
	wide_inner(graph, field, &value);
}

/* seed makes models that differ. */
static inline struct wide_bytes
wide_model(uint32_t seed)
{
	struct wide_bytes graph = {0}, model = {0}, opset = {0};

	wide_node(&graph, "x", "A", "a");
	wide_node(&graph, "a", "B", "b");
	wide_node(&graph, "b", "C", "y");
	wide_text(&graph, 2, "wide");
	wide_matrix(&graph, "A", 1, WIDE, &seed);
	wide_matrix(&graph, "B", WIDE, WIDE, &seed);
	wide_matrix(&graph, "C", WIDE, 1, &seed);
	wide_value(&graph, 11, "x");
	wide_value(&graph, 12, "y");
	wide_number(&model, 1, 8);					/* ir_version */
	wide_inner(&model, 7, &graph);
	wide_number(&opset, 2, 13);
	wide_inner(&model, 8, &opset);
	return model;
}

#endif							/* TEST_WIDE_MODEL_H */
