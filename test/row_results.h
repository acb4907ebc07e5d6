/*
 * row_results.h
 *	  What a row of a request gave, taken out of the reply: for comparing it later, by its bits or within a tolerance.
 *
 * A row's bytes are its outputs one after the other, each a struct row_output and then its data.
 */
#ifndef TEST_ROW_RESULTS_H
#define TEST_ROW_RESULTS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device.h"
#include "protocol/protocol.h"

struct row_output
{
	uint32_t	type;
	uint32_t	bytes;
};

struct row_results
{
	uint8_t    *data;
	size_t		bytes;
	uint32_t	status;				/* enum infer_error */
};

static inline void
row_results_add(struct row_results *to, uint32_t type, const void *data, size_t bytes)
{
	struct row_output head = {type, (uint32_t) bytes};

	to->data = realloc(to->data, to->bytes + sizeof(head) + bytes);
	memcpy(to->data + to->bytes, &head, sizeof(head));
	if (bytes > 0)
		memcpy(to->data + to->bytes + sizeof(head), data, bytes);
	to->bytes += sizeof(head) + bytes;
}

/* Of a row of a reply, whose columns are outputs and lie in region. */
static inline struct row_results
row_results_take(const uint8_t *region, const struct infer_column *outputs, uint32_t count, uint32_t row, uint32_t status)
{
	struct row_results r = {.status = status};

	for (uint32_t o = 0; status == INFER_OK && o < count; o++)
	{
		const struct infer_column *column = &outputs[o];
		const struct infer_span *spans = (const struct infer_span *) (region + column->spans_offset);
		uint64_t	width = column->type == INFER_TYPE_NONE ? 0 : column->width;

		if (column->type == INFER_TYPE_NONE)
			continue;
		if (column->spans_offset == 0)
			row_results_add(&r, column->type, region + column->data_offset + row * width * infer_type_bytes(column->type),
							width * infer_type_bytes(column->type));
		else
			for (uint64_t i = 0; i < (column->type == INFER_TYPE_STRING ? width : 1); i++)
			{
				const struct infer_span *span = &spans[column->type == INFER_TYPE_STRING ? row * width + i : row];

				row_results_add(&r, column->type, region + column->data_offset + span->begin, span->length);
			}
	}
	return r;
}

static inline bool
row_results_same(const struct row_results *a, const struct row_results *b)
{
	return a->status == b->status && a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static inline void
row_results_free(struct row_results *r)
{
	free(r->data);
	*r = (struct row_results) {0};
}

static inline double
row_results_number(uint32_t type, const uint8_t *data, size_t i)
{
	float		f32;
	double		f64;

	if (type == INFER_TYPE_F64)
	{
		memcpy(&f64, data + i * sizeof(f64), sizeof(f64));
		return f64;
	}
	memcpy(&f32, data + i * sizeof(f32), sizeof(f32));
	return f32;
}

/*
 * Floating-point outputs as vectors: *difference the greatest length of a difference against the reference's length (at least 1),
 * *cosine the least cosine.  false: something that is not floating-point differs, or there is another number of elements.
 */
static inline bool
row_results_compare(const struct row_results *got, const struct row_results *wanted, double *difference, double *cosine)
{
	if (got->status != wanted->status)
		return false;
	for (size_t at = 0, at_got = 0; at < wanted->bytes;)
	{
		struct row_output head, head_got;
		const uint8_t *w = wanted->data + at + sizeof(head);
		const uint8_t *g;
		double		square = 0, product = 0, length_w = 0, length_g = 0;
		size_t		count;

		memcpy(&head, wanted->data + at, sizeof(head));
		if (at_got + sizeof(head_got) > got->bytes)
			return false;
		memcpy(&head_got, got->data + at_got, sizeof(head_got));
		g = got->data + at_got + sizeof(head_got);
		at += sizeof(head) + head.bytes;
		at_got += sizeof(head_got) + head_got.bytes;
		if (head.type != head_got.type || head.bytes != head_got.bytes)
			return false;
		if (head.type != INFER_TYPE_F32 && head.type != INFER_TYPE_F64)
		{
			if (memcmp(w, g, head.bytes) != 0)
				return false;
			continue;
		}
		count = head.bytes / infer_type_bytes(head.type);
		for (size_t i = 0; i < count; i++)
		{
			double		a = row_results_number(head.type, w, i), b = row_results_number(head.type, g, i);

			square += (a - b) * (a - b);
			product += a * b;
			length_w += a * a;
			length_g += b * b;
		}
		if (count > 0)
		{
			double		here = sqrt(square) / fmax(sqrt(length_w), 1);
			double		angle = length_w == 0 && length_g == 0 ? 1 : product / sqrt(length_w * length_g);

			if (!(here <= *difference))
				*difference = here;
			if (count > 1 && !(angle >= *cosine))
				*cosine = angle;
		}
	}
	return true;
}

#endif							/* TEST_ROW_RESULTS_H */
