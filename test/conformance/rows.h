/*
 * rows.h
 *	  A case's rows through a model, as a client's request: columns in a region, a reply behind.
 *
 * Nouns
 *	run			one request with its region
 *	stranger	a row beside the case's own with the same shapes and other values
 */
#ifndef TEST_CONFORMANCE_ROWS_H
#define TEST_CONFORMANCE_ROWS_H

#include <math.h>

#include "engine/model/model.h"
#include "engine/status.h"

#include "case.h"

#define REPLY_ROOM		(1u << 20)	/* for strings */

static struct device *device;
static struct device_queue *queue;

struct run
{
	uint8_t    *region;				/* columns' data, then the reply */
	uint64_t	region_bytes;
	struct model_request request;
	struct infer_column inputs[CASE_VALUES_MAX];
	struct infer_column outputs[CASE_VALUES_MAX];
};

static void
run_free(struct run *run)
{
	free(run->region);
	memset(run, 0, sizeof(*run));
}

static uint64_t
align64(uint64_t n)
{
	return (n + 63) & ~(uint64_t) 63;
}

/* A row like the case's with other values: element i comes from i + turn, numbers negated or
 * halved, so that strangers differ from the case and from each other. */
static void
stranger_fill(uint8_t *to, const struct value *value, int turn)
{
	uint64_t	bytes = value_element_bytes(value->type);

	for (uint64_t i = 0; i < value->count; i++)
	{
		uint64_t	from = (i + (uint64_t) turn) % value->count;
		uint8_t    *at = to + i * bytes;

		memcpy(at, (const uint8_t *) value->data + from * bytes, bytes);
		if (value->type == DEVICE_F32)
		{
			float		x;

			memcpy(&x, at, 4);
			x = turn & 1 ? -x : x * 3.5f;
			if (turn == 3 && i == 0)
				x = NAN;
			memcpy(at, &x, 4);
		}
		else if (value->type == DEVICE_F64)
		{
			double		x;

			memcpy(&x, at, 8);
			x = turn & 1 ? -x : x * 1e30;
			memcpy(at, &x, 8);
		}
	}
}

/* How many elements of the case's value one row has. */
static uint64_t
value_width(const struct test_case *c, const struct value *value)
{
	return c->rows == 0 ? value->count : value->count / c->rows;
}

static bool
case_is_finite(const struct test_case *c)
{
	for (int k = 0; k < c->outputs_count; k++)
	{
		const struct value *value = &c->outputs[k];

		for (uint64_t i = 0; i < value->count; i++)
			if ((value->type == DEVICE_F32 && !isfinite(((const float *) value->data)[i])) ||
				(value->type == DEVICE_F64 && !isfinite(((const double *) value->data)[i])))
				return false;
	}
	return true;
}

static bool
inputs_match(const struct test_case *c, const struct infer_signature *signature,
			 const struct value **given, struct status *status)
{
	for (uint32_t k = 0; k < signature->inputs_count; k++)
	{
		given[k] = strcmp(signature->inputs[k].name, CASE_WITNESS) == 0 ? &c->witness : NULL;
		for (int i = 0; i < c->inputs_count; i++)
			if (strcmp(c->inputs[i].name, signature->inputs[k].name) == 0)
				given[k] = &c->inputs[i];
		if (given[k] == NULL)
			return status_set(status, INFER_ERROR_INTERNAL, "input \"%s\" is not the case's",
							  signature->inputs[k].name);
		if (given[k]->type != signature->inputs[k].type)
			return status_set(status, INFER_ERROR_INTERNAL, "input \"%s\" has another type",
							  signature->inputs[k].name);
	}
	return true;
}

/* Bytes that suffice for the columns and the reply. */
static uint64_t
region_bytes(const struct test_case *c, const struct infer_signature *signature,
			 const struct value *const *given, uint32_t rows)
{
	uint64_t	bytes = INFER_REGION_HEAD + REPLY_ROOM;

	for (uint32_t k = 0; k < signature->inputs_count; k++)
	{
		bytes += align64(rows * value_width(c, given[k]) * sizeof(struct device_text)) + 128;
		if (given[k]->type == DEVICE_STRING)
			for (uint64_t e = 0; e < given[k]->count; e++)
				bytes += ((const struct device_text *) given[k]->data)[e].length;
	}
	for (int i = 0; i < c->outputs_count; i++)
		bytes += align64(rows * value_width(c, &c->outputs[i]) * sizeof(struct device_text)) * 2;
	return align64(bytes);
}

/* Equal strings share their bytes; a stranger's are the case's in another order. */
static uint64_t
column_put_texts(struct infer_column *column, uint8_t *region, uint64_t at, const struct test_case *c,
				 const struct value *value, uint32_t rows, uint32_t own)
{
	const struct device_text *texts = value->data;
	struct infer_span *spans = (struct infer_span *) (region + at);
	uint64_t	width = column->width;
	uint64_t	used = 0;

	column->spans_offset = at;
	at = align64(at + rows * width * sizeof(struct infer_span));
	column->data_offset = at;
	for (uint64_t e = 0; e < value->count; e++)
	{
		for (uint32_t row = 0; row < rows; row++)
		{
			uint64_t	to = row * width + (own >> row & 1 ? e : (e + row + 1) % width);

			if (c->rows != 0)
				to = e;
			spans[to].begin = (uint32_t) used;
			spans[to].length = (uint32_t) texts[e].length;
		}
		memcpy(region + at + used, texts[e].data, texts[e].length);
		used += texts[e].length;
	}
	column->data_bytes = used;
	return align64(at + used);
}

static uint64_t
column_put_numbers(struct infer_column *column, uint8_t *region, uint64_t at, const struct test_case *c,
				   const struct value *value, uint32_t rows, uint32_t own)
{
	uint64_t	bytes = column->width * value_element_bytes(value->type);

	column->data_offset = at;
	column->data_bytes = rows * bytes;
	for (uint32_t row = 0; row < rows; row++)
	{
		if (c->rows != 0)
			memcpy(region + at + row * bytes, (const uint8_t *) value->data + row * bytes, bytes);
		else if (own >> row & 1)
			memcpy(region + at + row * bytes, value->data, bytes);
		else
			stranger_fill(region + at + row * bytes, value, (int) row + 1);
	}
	return align64(at + rows * bytes);
}

/*
 * Runs the slices of a request of rows rows: those of the case, or, if the case is one row,
 * that row wherever its bit is set in own and strangers elsewhere.  False and a status on
 * failure, also of one of the case's rows.
 */
static bool
run_rows(struct run *run, struct model *model, const struct test_case *c, uint32_t rows,
		 uint32_t own, struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	const struct infer_signature *signature = &model->signature;
	const struct value *given[CASE_VALUES_MAX];
	uint64_t	at = INFER_REGION_HEAD;
	uint64_t	wanted = 0;

	memset(run, 0, sizeof(*run));
	if (!inputs_match(c, signature, given, status))
		return false;
	run->region_bytes = region_bytes(c, signature, given, rows);
	run->region = aligned_alloc(64, run->region_bytes);
	memset(run->region, 0xA5, run->region_bytes);
	for (uint32_t k = 0; k < signature->inputs_count; k++)
	{
		run->inputs[k].type = given[k]->type;
		run->inputs[k].width = value_width(c, given[k]);
		if (given[k]->type == DEVICE_STRING)
			at = column_put_texts(&run->inputs[k], run->region, at, c, given[k], rows, own);
		else
			at = column_put_numbers(&run->inputs[k], run->region, at, c, given[k], rows, own);
	}
	run->request.rows = rows;
	run->request.columns_count = signature->inputs_count;
	run->request.columns = run->inputs;
	run->request.region = run->region;
	run->request.region_bytes = run->region_bytes;
	run->request.reply = run->region + at;
	run->request.reply_bytes = run->region_bytes - at;
	run->request.outputs = run->outputs;
	if (!model_reply_layout(&run->request, signature, &wanted))
		return status_set(status, INFER_ERROR_INTERNAL, "reply wants %llu bytes",
						  (unsigned long long) wanted);
	for (uint32_t i = 0; i < slices_count; i++)
		slices[i].request = &run->request;
	if (!model->ops->run(model, queue, NULL, slices, slices_count, status))
		return false;
	if (run->request.overflow)
		return status_set(status, INFER_ERROR_INTERNAL, "strings did not fit");
	for (uint32_t i = 0; i < slices_count; i++)
		for (uint32_t row = slices[i].first; row < slices[i].first + slices[i].count; row++)
			if ((c->rows != 0 || (own >> row & 1)) && run->request.row_status[row] != INFER_OK &&
				!(run->request.row_status[row] == INFER_ERROR_NOT_FINITE && !case_is_finite(c)))
				return status_set(status, INFER_ERROR_INTERNAL, "row %u of %u: %s", row, rows,
								  infer_error_name(run->request.row_status[row]));
	return true;
}

#endif							/* TEST_CONFORMANCE_ROWS_H */
