/*
 * node.c
 *	  Runs conformance cases through the engine as a client would: model_open, then rows.
 *
 * Nouns
 *	case		case.h; the ONNX project's node tests, generated cases, and whole exports
 *	suite		a folder of cases: its own name is the first part of every report line
 *	stranger	a row beside the case's own with the same shapes and other values
 *
 * Loop
 *	For each case: open the model, whose fixed shapes make the case's tensors one row; run it
 *	as a single row, as three equal rows, and as one row among strangers.  The row must
 *	equal the expected outputs within the case's tolerance (integers, booleans and
 *	strings exactly), and its bits must be the same in all five places (rule 4).  A row whose
 *	expected output is not finite may end so (INFER_ERROR_NOT_FINITE).
 *	If shapes depend on run-time values, inputs are frozen into the model and it is tried
 *	again; the report counts these apart.  A case of many rows is opened as a user would
 *	and run as one batch and in slices; each row must be right, and its bits the same.
 *
 * Report
 *	One TAP line for each operator: "ok N - node Softmax: passed P of Q, unsupported U,
 *	frozen F".  Failures and, with -v, the reasons of what is unsupported stand before it
 *	as "# " lines.  In the end the totals are held against floor.txt.
 *
 *	node [-v] [-c CASE] [FOLDER…]		default: $INFER_PARTS/{onnx-1.20.1/…,generated,exports}
 */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/graph/graph.h"
#include "engine/model/model.h"
#include "engine/status.h"

#include "case.h"
#include "tap.h"

#define ROWS_MAX		5			/* of a run with strangers */
#define OWN_OF_MIXED	(1u << 3)	/* where the case's row is among them */
#define REPLY_ROOM		(1u << 20)	/* for strings */
#define OPERATORS_MAX	512

enum outcome
{
	PASSED,
	PASSED_FROZEN,
	UNSUPPORTED,
	FAILED
};

struct tally
{
	char		name[CASE_NAME_MAX];
	int			passed;
	int			frozen;				/* of passed */
	int			unsupported;
	int			failed;
};

static struct device *device;
static struct device_queue *queue;
static bool verbose;
static const char *only_case;
static char running[1400];			/* for a crash's last words */

/* ---- running rows ---- */

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
	if (!model->ops->run(model, queue, slices, slices_count, status))
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

/* ---- comparing ---- */

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

/* ---- one case ---- */

/* With status INFER_ERROR_UNSUPPORTED if the engine says so at open. */
static bool
case_try(const struct test_case *c, bool rewrite, uint64_t frozen, struct status *status)
{
	struct model_file file = {"model.onnx", c->model, c->model_bytes};
	struct model_files files = {1, &file};
	uint8_t    *rewritten = NULL;
	struct model *model;
	bool		ok = false;

	status_clear(status);
	if (rewrite)
	{
		file.data = rewritten = case_freeze(c, frozen, &file.size);
		if (rewritten == NULL)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "inputs cannot be frozen");
	}
	model = model_open(&files, "{}", device, status);
	if (model != NULL)
	{
		ok = case_check(c, model, status);
		if (!ok && status->error == INFER_ERROR_UNSUPPORTED)
			status->error = INFER_ERROR_INTERNAL;	/* too late to say so */
		model_close(model);
	}
	free(rewritten);
	return ok;
}

/* Whether the engine has the types of all the case's tensors. */
static bool
case_types_known(const struct test_case *c, struct status *status)
{
	for (int i = 0; i < c->inputs_count + c->outputs_count; i++)
	{
		const struct value *value = i < c->inputs_count ? &c->inputs[i] : &c->outputs[i - c->inputs_count];

		if (value->type == 0 || value->rank < 0)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "\"%s\" is %s", value->name,
							  value_type_name(value->onnx_type));
	}
	return true;
}

/*
 * As it is; then with inputs frozen: all but the first (the data, mostly), all but the last,
 * all.  Each attempt follows an "unsupported"; anything else is final.
 */
static enum outcome
case_run(const struct test_case *c, struct status *status)
{
	uint64_t	all = (1ull << c->inputs_count) - 1;
	const uint64_t frozen[] = {0, all & ~1ull, all >> 1, all};
	int			attempts = c->rows != 0 ? 1 : 4;
	struct status again;

	status_clear(status);
	if (!case_types_known(c, status))
		return UNSUPPORTED;
	for (int i = 0; i < attempts; i++)
	{
		if (i > 0 && i < 3 && c->inputs_count < 2)
			continue;
		if (case_try(c, i > 0, frozen[i], &again))
			return i == 0 ? PASSED : PASSED_FROZEN;
		if (i == 0 || again.error != INFER_ERROR_UNSUPPORTED)
			*status = again;
		if (again.error != INFER_ERROR_UNSUPPORTED)
			return FAILED;
	}
	return UNSUPPORTED;
}

/* ---- a suite ---- */

static int
name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

static char **
suite_list(const char *folder, int *count)
{
	DIR		   *dir = opendir(folder);
	struct dirent *entry;
	char	  **names = xalloc(8192 * sizeof(char *));

	*count = 0;
	while (dir != NULL && (entry = readdir(dir)) != NULL && *count < 8192)
		if (entry->d_name[0] != '.')
			names[(*count)++] = strdup(entry->d_name);
	if (dir != NULL)
		closedir(dir);
	qsort(names, (size_t) *count, sizeof(char *), name_compare);
	return names;
}

static struct tally *
tally_find(struct tally *tallies, int *count, const char *name)
{
	for (int i = 0; i < *count; i++)
		if (strcmp(tallies[i].name, name) == 0)
			return &tallies[i];
	if (*count == OPERATORS_MAX)
		return &tallies[OPERATORS_MAX - 1];
	snprintf(tallies[*count].name, CASE_NAME_MAX, "%s", name);
	return &tallies[(*count)++];
}

static int
tally_compare(const void *a, const void *b)
{
	return strcmp(((const struct tally *) a)->name, ((const struct tally *) b)->name);
}

/* Every operator that the engine claims has a generated case; generate.py sees to the versions. */
static void
claims_check(struct tally *tallies, int count)
{
	int			claimed = 0;
	int			without = 0;

	for (int f = 0; graph_operator_families[f] != NULL; f++)
		for (const struct graph_operator *op = graph_operator_families[f]; op->name != NULL; op++)
		{
			char		name[CASE_NAME_MAX];
			bool		passed = false;

			snprintf(name, sizeof(name), "%s%s%s", op->domain, op->domain[0] ? " " : "", op->name);
			for (int i = 0; i < count; i++)
				passed = passed || (strcmp(tallies[i].name, name) == 0 && tallies[i].passed > 0);
			claimed++;
			if (!passed)
			{
				without++;
				printf("# claimed without a generated case that passes: %s\n", name);
			}
		}
	tap_ok(without == 0, "all of %d operators that are claimed have a generated case", claimed);
}

/* Whether text has name between characters that are no part of a name, followed by after. */
static bool
text_has(const char *text, const char *name, const char *after)
{
	size_t		length = strlen(name);

	for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name))
		if (at > text && (at[-1] == ' ' || at[-1] == '|') &&
			(after[0] == '\0' ? strchr(", |", at[length]) != NULL :
			 strncmp(at + length, after, strlen(after)) == 0))
			return true;
	return false;
}

/* docs/models.md has every operator that is claimed, with its first version where that is after 6. */
static void
claims_documented(void)
{
	uint64_t	bytes;
	char	   *text = (char *) file_read("docs/models.md", &bytes);
	int			without = 0;

	if (text == NULL)
	{
		tap_skip("operators are documented", "not run from the project's folder");
		return;
	}
	for (int f = 0; graph_operator_families[f] != NULL; f++)
		for (const struct graph_operator *op = graph_operator_families[f]; op->name != NULL; op++)
		{
			char		after[32] = "";

			if (op->domain[0] == '\0' && op->first > 6)
				snprintf(after, sizeof(after), " (%u)", op->first);
			if (!text_has(text, op->name, after))
			{
				without++;
				printf("# not in docs/models.md: %s%s\n", op->name, after);
			}
		}
	tap_ok(without == 0, "docs/models.md has the operators that are claimed");
	free(text);
}

/* Runs every case of a folder, reports each operator, and adds to the totals. */
static void
suite_run(const char *suite, const char *folder, struct tally *total)
{
	static struct tally tallies[OPERATORS_MAX];
	int			tallies_count = 0;
	int			count;
	char	  **names = suite_list(folder, &count);

	memset(tallies, 0, sizeof(tallies));
	for (int i = 0; i < count; i++)
	{
		struct test_case *c;
		struct tally *tally;
		struct status status;

		if (only_case != NULL && strcmp(only_case, names[i]) != 0)
			continue;
		c = xalloc(sizeof(*c));
		snprintf(running, sizeof(running), "%s/%s", folder, names[i]);
		if (!case_open(c, folder, names[i]))
		{
			free(c);
			continue;
		}
		tally = tally_find(tallies, &tallies_count,
						   strstr(names[i], "_expanded") ? "(expanded functions)" :
						   c->operator[0] ? c->operator : "(several operators)");
		switch (case_run(c, &status))
		{
			case PASSED_FROZEN:
				tally->frozen++;
				/* FALLTHROUGH */
			case PASSED:
				tally->passed++;
				break;
			case UNSUPPORTED:
				tally->unsupported++;
				if (verbose)
					printf("# unsupported: %s/%s: %s\n", suite, names[i], status.message);
				break;
			case FAILED:
				tally->failed++;
				printf("# FAILED: %s/%s: %s %s\n", suite, names[i], status.message, status.detail);
				break;
		}
		case_close(c);
		free(c);
	}
	qsort(tallies, (size_t) tallies_count, sizeof(tallies[0]), tally_compare);
	for (int i = 0; i < tallies_count; i++)
	{
		struct tally *t = &tallies[i];

		if (t->passed + t->failed > 0 || verbose)
			tap_ok(t->failed == 0, "%s %s: passed %d of %d, unsupported %d, frozen %d", suite, t->name,
				   t->passed, t->passed + t->failed + t->unsupported, t->unsupported, t->frozen);
		total->passed += t->passed;
		total->frozen += t->frozen;
		total->unsupported += t->unsupported;
		total->failed += t->failed;
	}
	if (strcmp(suite, "generated") == 0 && only_case == NULL)
	{
		claims_check(tallies, tallies_count);
		claims_documented();
	}
	for (int i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

/* ---- the floor ---- */

/* The number that floor.txt commits to for a suite, or 0. */
static int
floor_of(const char *suite)
{
	FILE	   *file = fopen("test/conformance/floor.txt", "r");
	char		line[256];
	char		name[128];
	int			number;
	int			found = 0;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "%127s %d", name, &number) == 2 && strcmp(name, suite) == 0)
			found = number;
	if (file != NULL)
		fclose(file);
	return found;
}

static void
crashed(int signal_number)
{
	static const char text[] = "Bail out! crashed in ";

	(void) !write(1, text, sizeof(text) - 1);
	(void) !write(1, running, strlen(running));
	(void) !write(1, "\n", 1);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static void
suite_report(const char *folder)
{
	struct tally total;
	const char *slash = strrchr(folder, '/');
	const char *suite = slash ? slash + 1 : folder;
	struct stat st;
	int			least = floor_of(suite);

	if (stat(folder, &st) != 0)
	{
		tap_skip(suite, "no such folder");
		return;
	}
	memset(&total, 0, sizeof(total));
	suite_run(suite, folder, &total);
	printf("# total %s: passed %d (%d of them with frozen inputs), failed %d, unsupported %d\n",
		   suite, total.passed, total.frozen, total.failed, total.unsupported);
	if (only_case == NULL)
		tap_ok(total.passed >= least, "%s: passed %d, at least %d", suite, total.passed, least);
}

int
main(int argc, char **argv)
{
	static const char *const suites[] = {"onnx-1.20.1/node", "onnx-1.20.1/simple",
		"onnx-1.20.1/pytorch-operator", "onnx-1.20.1/pytorch-converted", "generated", "exports"};
	struct device_options options;
	struct status status;
	const char *parts = getenv("INFER_PARTS");
	int			option;

	while ((option = getopt(argc, argv, "vc:")) != -1)
	{
		if (option == 'v')
			verbose = true;
		else if (option == 'c')
			only_case = optarg;
		else
			return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGSEGV, crashed);
	signal(SIGABRT, crashed);
	signal(SIGFPE, crashed);
	signal(SIGBUS, crashed);

	memset(&options, 0, sizeof(options));
	options.threads = 2;
	options.arch = getenv("INFER_CPU");
	status_clear(&status);
	device = device_open("cpu", &options, &status);
	if (device != NULL)
		queue = device->ops->queue_create(device, 0, &status);
	if (queue == NULL)
	{
		tap_ok(false, "the cpu device opens: %s", status.message);
		return tap_done();
	}
	for (int i = optind; i < argc; i++)
		suite_report(argv[i]);
	for (size_t i = 0; optind == argc && i < sizeof(suites) / sizeof(suites[0]); i++)
	{
		char		folder[1024];

		snprintf(folder, sizeof(folder), "%s/%s", parts ? parts : ".parts", suites[i]);
		suite_report(folder);
	}
	device->ops->queue_free(queue);
	device->ops->close(device);
	return tap_done();
}
