/*
 * check.h
 *	  Whether a model gives what a case expects, with the same bits wherever the row is.
 */
#ifndef TEST_CONFORMANCE_CHECK_H
#define TEST_CONFORMANCE_CHECK_H

#include "rows.h"

#define ROWS_MAX		5			/* of a run with strangers */
#define OWN_OF_MIXED	(1u << 3)	/* where the case's row is among them */

/* ---- one row ---- */

static const uint8_t *
output_row(const struct run *run, uint32_t output, uint32_t row, uint64_t element_bytes)
{
	const struct infer_column *column = &run->outputs[output];

	return run->region + column->data_offset + row * column->width * element_bytes;
}

static struct device_text
output_text(const struct run *run, uint32_t output, uint32_t row, uint64_t i)
{
	const struct infer_column *column = &run->outputs[output];
	const struct infer_span *spans = (const struct infer_span *) (run->region + column->spans_offset);
	const struct infer_span *span = &spans[row * column->width + i];
	struct device_text text;

	text.data = (const char *) run->region + column->data_offset + span->begin;
	text.length = span->length;
	return text;
}

static bool
number_close(const struct test_case *c, double got, double expected)
{
	if (isnan(expected) || isnan(got))
		return isnan(expected) && isnan(got);
	if (isinf(expected) || isinf(got))
		return got == expected;
	return fabs(got - expected) <= c->atol + c->rtol * fabs(expected);
}

static double
number_at(uint8_t type, const void *data, uint64_t i)
{
	switch (type)
	{
		case DEVICE_F32:
			return ((const float *) data)[i];
		case DEVICE_F64:
			return ((const double *) data)[i];
		case DEVICE_I32:
			return ((const int32_t *) data)[i];
		case DEVICE_I64:
			return (double) ((const int64_t *) data)[i];
		default:
			return ((const uint8_t *) data)[i];
	}
}

/* Element i of a row, against element j of the expected. */
static bool
element_equals(const struct test_case *c, const struct value *expected, uint64_t j,
			   const struct run *run, uint32_t output, uint32_t row, uint64_t i)
{
	uint64_t	bytes = value_element_bytes(expected->type);
	const uint8_t *got;

	if (expected->type == DEVICE_STRING)
	{
		struct device_text text = output_text(run, output, row, i);
		const struct device_text *want = (const struct device_text *) expected->data + j;

		return text.length == want->length && memcmp(text.data, want->data, want->length) == 0;
	}
	got = output_row(run, output, row, bytes);
	if (expected->type == DEVICE_F32 || expected->type == DEVICE_F64)
		return number_close(c, number_at(expected->type, got, i),
							number_at(expected->type, expected->data, j));
	return memcmp(got + i * bytes, (const uint8_t *) expected->data + j * bytes, bytes) == 0;
}

/* The dimensions of one row as the signature says them, against the expected file's. */
static bool
shape_equals(const struct infer_tensor *tensor, const struct value *expected)
{
	int			batch = tensor->flags & INFER_TENSOR_BATCH ? 1 : 0;	/* a dimension of 1 that is left out */

	if (tensor->rank + batch != (uint32_t) expected->rank || (batch && expected->dims[0] != 1))
		return false;
	for (int i = batch; i < expected->rank; i++)
		if (tensor->dims[i - batch] != expected->dims[i])
			return false;
	return true;
}

static bool
output_matches(const struct test_case *c, const struct value *expected, const struct model *model,
			   const struct run *run, uint32_t output, uint32_t row, struct status *status)
{
	const struct infer_tensor *tensor = &model->signature.outputs[output];
	uint64_t	width = value_width(c, expected);

	if (tensor->type != expected->type)
		return status_set(status, INFER_ERROR_INTERNAL, "output \"%s\" is %s", tensor->name,
						  infer_type_name(tensor->type));
	if (run->outputs[output].width != width || (c->rows == 0 && !shape_equals(tensor, expected)))
		return status_set(status, INFER_ERROR_INTERNAL,
						  "output \"%s\" has another shape: %llu elements of rank %u, expected %llu of %d",
						  tensor->name, (unsigned long long) run->outputs[output].width, tensor->rank,
						  (unsigned long long) width, expected->rank);
	for (uint64_t i = 0; i < width; i++)
	{
		uint64_t	j = c->rows == 0 ? i : row * width + i;

		if (element_equals(c, expected, j, run, output, row, i))
			continue;
		if (expected->type == DEVICE_STRING)
			return status_set(status, INFER_ERROR_INTERNAL, "output \"%s\" row %u [%llu]: other text",
							  tensor->name, row, (unsigned long long) i);
		return status_set(status, INFER_ERROR_INTERNAL, "output \"%s\" row %u [%llu]: %.9g, expected %.9g",
						  tensor->name, row, (unsigned long long) i,
						  number_at(expected->type,
									output_row(run, output, row, value_element_bytes(expected->type)), i),
						  number_at(expected->type, expected->data, j));
	}
	return true;
}

static bool
rows_same_bits(const struct infer_tensor *tensor, const struct run *a, uint32_t row_a,
			   const struct run *b, uint32_t row_b, uint32_t output)
{
	uint64_t	width = a->outputs[output].width;
	uint64_t	bytes;

	if (tensor->type == INFER_TYPE_STRING)
	{
		for (uint64_t i = 0; i < width; i++)
		{
			struct device_text x = output_text(a, output, row_a, i);
			struct device_text y = output_text(b, output, row_b, i);

			if (x.length != y.length || memcmp(x.data, y.data, x.length) != 0)
				return false;
		}
		return true;
	}
	bytes = infer_type_bytes(tensor->type);
	return memcmp(output_row(a, output, row_a, bytes), output_row(b, output, row_b, bytes),
				  width * bytes) == 0;
}

static const struct value *
expected_output(const struct test_case *c, const char *name)
{
	for (int i = 0; i < c->outputs_count; i++)
		if (strcmp(c->outputs[i].name, name) == 0)
			return &c->outputs[i];
	return strcmp(name, CASE_WITNESS "_out") == 0 ? &c->witness : NULL;
}

/* ---- all runs ---- */

#define RUNS	3

/* A row computed alone, as one of equals, and among strangers; or rows of a batch and its slices. */
static bool
runs_make(struct run made[RUNS], const struct test_case *c, struct model *model, struct status *status)
{
	uint32_t	last = c->rows - 1;
	struct model_slice whole[1] = {{NULL, 0, c->rows}};
	struct model_slice parts[3] = {{NULL, last, 1}, {NULL, 0, c->rows / 2}, {NULL, c->rows / 2, last - c->rows / 2}};
	struct model_slice one[1] = {{NULL, c->rows / 2, 1}};
	struct model_slice same[1] = {{NULL, 0, 1}};
	struct model_slice equals[1] = {{NULL, 0, 3}};
	struct model_slice mixed[1] = {{NULL, 0, ROWS_MAX}};

	if (c->rows == 0)
		return run_rows(&made[0], model, c, 1, 1, same, 1, status) &&
			run_rows(&made[1], model, c, 3, 7, equals, 1, status) &&
			run_rows(&made[2], model, c, ROWS_MAX, OWN_OF_MIXED, mixed, 1, status);
	return run_rows(&made[0], model, c, c->rows, 0, whole, 1, status) &&
		run_rows(&made[1], model, c, c->rows, 0, parts, c->rows > 2 ? 3 : 1, status) &&
		run_rows(&made[2], model, c, c->rows, 0, one, 1, status);
}

/* Whether row of run r was computed, and which row of run 0 it must equal. */
static bool
runs_has(const struct test_case *c, int r, uint32_t row, uint32_t *same)
{
	*same = c->rows == 0 ? 0 : row;
	if (c->rows == 0)
		return r == 0 ? row < 1 : r == 1 ? row < 3 : row < ROWS_MAX && (OWN_OF_MIXED >> row & 1);
	if (row >= c->rows)
		return false;
	return r == 0 || (r == 1 ? c->rows > 2 || row == c->rows - 1 : row == c->rows / 2);
}

static bool
output_check(const struct test_case *c, const struct model *model, const struct run made[RUNS],
			 uint32_t output, struct status *status)
{
	const struct infer_tensor *tensor = &model->signature.outputs[output];
	const struct value *expected = expected_output(c, tensor->name);
	uint32_t	same;

	if (expected == NULL)
		return status_set(status, INFER_ERROR_INTERNAL, "output \"%s\" is not the case's", tensor->name);
	for (uint32_t row = 0; runs_has(c, 0, row, &same); row++)
		if (!output_matches(c, expected, model, &made[0], output, row, status))
			return false;
	for (int r = 1; r < RUNS; r++)
		for (uint32_t row = 0; row < made[r].request.rows; row++)
			if (runs_has(c, r, row, &same) &&
				!rows_same_bits(tensor, &made[0], same, &made[r], row, output))
				return status_set(status, INFER_ERROR_INTERNAL,
								  "output \"%s\": row %u of run %d differs from run 0", tensor->name, row, r);
	return true;
}

static bool
classes_check(const struct test_case *c, const struct model *model, struct status *status)
{
	const struct infer_signature *signature = &model->signature;
	const char *line = c->classes;

	if (line == NULL)
		return true;
	if (signature->task != INFER_TASK_CLASSIFIER)
		return status_set(status, INFER_ERROR_INTERNAL, "the model is no classifier");
	for (uint32_t i = 0; i < signature->classes_count; i++)
	{
		size_t		length = strlen(signature->classes[i]);

		if (strncmp(line, signature->classes[i], length) != 0 || line[length] != '\n')
			return status_set(status, INFER_ERROR_INTERNAL, "class %u is \"%s\"", i, signature->classes[i]);
		line += length + 1;
	}
	if (*line != '\0')
		return status_set(status, INFER_ERROR_INTERNAL, "only %u classes", signature->classes_count);
	return true;
}

static bool
case_check(const struct test_case *c, struct model *model, struct status *status)
{
	struct run	made[RUNS];
	bool		ok;

	memset(made, 0, sizeof(made));
	ok = classes_check(c, model, status) && runs_make(made, c, model, status);
	for (uint32_t output = 0; ok && output < model->signature.outputs_count; output++)
		ok = output_check(c, model, made, output, status);
	for (int r = 0; r < RUNS; r++)
		run_free(&made[r]);
	return ok;
}

#endif							/* TEST_CONFORMANCE_CHECK_H */
