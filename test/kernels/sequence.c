/*
 * sequence.c
 *	  The primitives of encoders against their formulas in double precision, and what a row
 *	  may hold: NaN, infinities, no tokens, more tokens than there are places.
 */
#include "protocol/protocol.h"
#include "sequence.h"
#include "tap.h"

static const uint32_t lengths[] = {1, 0, 2, 3, 17, 0, 33, 64, 65, 128, 5, 257, 31, 32, 63, 127, 129};

#define ROWS	((uint32_t) (sizeof(lengths) / sizeof(*lengths)))
#define NAN_ROW	6					/* of 33 tokens */

static struct device *device;
static uint32_t row_off[ROWS + 1];

/* The greatest error of any row, relative to the greatest magnitude of its outputs; scale: of inputs. */
static double
error_of(struct sequence_case *c, float scale)
{
	size_t		in = sequence_in(c);
	size_t		out = sequence_out(c);
	size_t		tokens = row_off[ROWS];
	float	   *x = case_alloc(tokens * in * sizeof(float));
	float	   *second = case_alloc(tokens * in * sizeof(float));
	float	   *y = case_alloc((tokens + ROWS) * out * sizeof(float));
	double	   *exact = case_alloc((tokens + 1) * out * sizeof(double));
	double		worst = 0;

	sequence_fill(x, tokens * in, scale);
	sequence_fill(second, tokens * in, scale);
	for (size_t i = 0; sequence_narrow(c) && i < tokens * in; i++)
		((uint32_t *) x)[i] &= 0xFFFF0000u;
	if (!case_compile(&c->op, device) || !sequence_run(c, ROWS, row_off, x, second, y, NULL))
		worst = INFINITY;
	for (uint32_t row = 0; row < ROWS; row++)
	{
		size_t		first = row_off[row];
		size_t		count = (sequence_by_rows(c) ? 1 : row_off[row + 1] - first) * out;
		const float *result = y + (sequence_by_rows(c) ? row : first) * out;
		double		greatest = 1e-30;

		sequence_formula(c, x + first * in, second + first * in, (int64_t) (row_off[row + 1] - first), exact);
		for (size_t i = 0; i < count; i++)
			greatest = fabs(exact[i]) > greatest ? fabs(exact[i]) : greatest;
		for (size_t i = 0; i < count; i++)
			if (!(fabs(result[i] - exact[i]) / greatest <= worst))
				worst = fabs(result[i] - exact[i]) / greatest;
	}
	case_free(&c->op);
	free(x);
	free(second);
	free(y);
	free(exact);
	return worst;
}

static void
close_to_formula(struct sequence_case c, float scale, double bound, const char *what)
{
	double		error;

	if (!sequence_supported(&c, device))
	{
		sequence_free(&c);
		return;
	}
	error = error_of(&c, scale);
	tap_ok(error <= bound, "%s, %s: error %.2g", c.name, what, error);
	sequence_free(&c);
}

static void
test_formulas(void)
{
	close_to_formula(attention_case(2, 32, 0, 0), 1, 1e-6, "heads of 32");
	close_to_formula(attention_case(2, 64, 0, 0), 4, 1e-5, "heads of 64, sharp");
	close_to_formula(attention_case(1, 32, 0, 0), 30, 2e-4, "one head, very sharp");
	close_to_formula(attention_case(3, 5, 0, 0), 2, 2e-6, "heads of 5");
	close_to_formula(attention_case(1, 17, 0, 0), 2, 2e-6, "a head of 17");
	close_to_formula(attention_case(1, 1, 0, 0), 2, 2e-6, "a head of 1");
	close_to_formula(attention_case(1, 7, 0, 0), 2, 2e-6, "a head of 7");
	close_to_formula(attention_case(1, 80, 0, 0), 2, 2e-6, "a head of 80");
	close_to_formula(attention_case(1, 96, 0, 0), 2, 2e-6, "a head of 96");
	close_to_formula(attention_case(2, 128, 0, 0), 2, 4e-6, "heads of 128");
	close_to_formula(attention_case(1, 129, 0, 0), 2, 4e-6, "a head of 129");
	close_to_formula(attention_case(1, 260, 9, 3), 2, 4e-6, "a head of 260, a window and biases");
	close_to_formula(attention_case(17, 4, 0, 0), 2, 2e-6, "many heads");
	close_to_formula(attention_case(2, 32, 1, 0), 2, 2e-6, "a window of 1");
	close_to_formula(attention_case(1, 16, 20, 0), 2, 2e-6, "a window of 20");
	close_to_formula(attention_case(1, 16, 64, 0), 2, 2e-6, "a window of 64");
	close_to_formula(attention_case(2, 32, 0, 1), 2, 2e-6, "biases of distances up to 1");
	close_to_formula(attention_case(2, 32, 0, 40), 2, 2e-6, "biases of distances up to 40");
	close_to_formula(attention_case(2, 32, 0, 300), 2, 2e-6, "biases beyond all distances");
	close_to_formula(attention_case(2, 12, 30, 7), 2, 2e-6, "a window and biases");
	close_to_formula(attention_bf16_case(2, 32, 0, 0), 1, 0.01, "heads of 32");
	close_to_formula(attention_bf16_case(2, 64, 0, 0), 4, 0.01, "heads of 64, sharp");
	close_to_formula(attention_bf16_case(3, 5, 0, 0), 2, 0.01, "heads of 5");
	close_to_formula(attention_bf16_case(1, 33, 0, 0), 2, 0.01, "a head of 33");
	close_to_formula(attention_bf16_case(1, 1, 0, 0), 2, 0.01, "a head of 1");
	close_to_formula(attention_bf16_case(1, 7, 0, 0), 2, 0.01, "a head of 7");
	close_to_formula(attention_bf16_case(1, 80, 0, 0), 2, 0.01, "a head of 80");
	close_to_formula(attention_bf16_case(1, 96, 0, 0), 2, 0.01, "a head of 96");
	close_to_formula(attention_bf16_case(2, 128, 0, 0), 2, 0.01, "heads of 128");
	close_to_formula(attention_bf16_case(1, 129, 0, 0), 2, 0.01, "a head of 129");
	close_to_formula(attention_bf16_case(17, 8, 0, 0), 2, 0.01, "many heads");
	close_to_formula(attention_bf16_case(2, 32, 1, 0), 2, 0.01, "a window of 1");
	close_to_formula(attention_bf16_case(1, 16, 64, 0), 2, 0.01, "a window of 64");
	close_to_formula(attention_bf16_case(2, 12, 30, 7), 2, 0.01, "a window and biases");
	close_to_formula(norm_case(NORM_LAYER, 384), 3, 1e-6, "layer, 384");
	close_to_formula(norm_case(NORM_LAYER, 7), 3, 1e-6, "layer, 7");
	close_to_formula(norm_case(NORM_LAYER, 1), 3, 1e-6, "layer, 1");
	close_to_formula(norm_case(NORM_LAYER, 1021), 3, 1e-6, "layer, 1021");
	close_to_formula(norm_case(NORM_LAYER, 1280), 3, 1e-6, "layer, 1280");
	close_to_formula(norm_case(NORM_RMS, 1537), 3, 1e-6, "root of mean square, 1537");
	close_to_formula(norm_case(NORM_RMS, 100), 3, 1e-6, "root of mean square, 100");
	close_to_formula(rotary_case(2, 32, 32, false, 257), 3, 1e-6, "halves");
	close_to_formula(rotary_case(3, 20, 10, true, 257), 3, 1e-6, "neighbours, half of a head");
	close_to_formula(gate_case(UNARY_GELU, 50, false), 3, 1e-6, "gelu of the first half");
	close_to_formula(gate_case(UNARY_SWISH, 33, true), 3, 1e-6, "silu of the second half");
	close_to_formula(gate_case(UNARY_GELU, 1100, false), 3, 1e-6, "gelu, 1100");
	close_to_formula(pool_case(POOL_FIRST, 40), 3, 0, "first");
	close_to_formula(pool_case(POOL_LAST, 40), 3, 0, "last");
	close_to_formula(pool_case(POOL_MAX, 37), 3, 0, "max");
	close_to_formula(pool_case(POOL_MEAN, 37), 3, 1e-6, "mean");
	close_to_formula(pool_case(POOL_MEAN_SQRT, 37), 3, 1e-6, "mean by root of length");
	close_to_formula(pool_case(POOL_WEIGHTED, 37), 3, 1e-6, "mean weighted by place");
}

/* A NaN in one row: only its outputs are NaN, and the one NaN. */
static void
nan_stays(struct sequence_case c)
{
	size_t		in = sequence_in(&c);
	size_t		out = sequence_out(&c);
	size_t		tokens = row_off[ROWS];
	float	   *x = case_alloc(tokens * in * sizeof(float));
	float	   *second = case_alloc(tokens * in * sizeof(float));
	float	   *y = case_alloc((tokens + ROWS) * out * sizeof(float));
	bool		elsewhere = false;
	bool		there = false;
	bool		one = true;
	uint32_t	bits = 0xFFC12345u;

	sequence_fill(x, tokens * in, 1);
	sequence_fill(second, tokens * in, 1);
	memcpy(&x[(row_off[NAN_ROW] + 3) * in + in - 1], &bits, sizeof(bits));
	if (!case_compile(&c.op, device) || !sequence_run(&c, ROWS, row_off, x, second, y, NULL))
		elsewhere = true;
	for (uint32_t row = 0; row < ROWS; row++)
	{
		size_t		first = sequence_by_rows(&c) ? row : row_off[row];
		size_t		last = sequence_by_rows(&c) ? row + 1 : row_off[row + 1];

		for (size_t i = first * out; i < last * out; i++)
		{
			if (!isnan(y[i]))
				continue;
			memcpy(&bits, &y[i], sizeof(bits));
			one = one && bits == 0x7FC00000u;
			elsewhere = elsewhere || row != NAN_ROW;
			there = true;
		}
	}
	tap_ok(there && !elsewhere && one, "%s, function %d: a NaN stays in its row", c.name, c.op.op.fn);
	case_free(&c.op);
	sequence_free(&c);
	free(x);
	free(second);
	free(y);
}

static void
test_nan(bool narrow)
{
	if (narrow)
	{
		nan_stays(attention_bf16_case(2, 32, 0, 0));
		nan_stays(attention_bf16_case(2, 32, 3, 5));
	}
	nan_stays(attention_case(2, 32, 0, 0));
	nan_stays(attention_case(2, 32, 3, 5));
	nan_stays(norm_case(NORM_LAYER, 40));
	nan_stays(norm_case(NORM_RMS, 40));
	nan_stays(gate_case(UNARY_GELU, 40, false));
	nan_stays(pool_case(POOL_MAX, 40));
	nan_stays(pool_case(POOL_MEAN, 40));
	nan_stays(pool_case(POOL_WEIGHTED, 40));
}

/* Keys of minus infinity are as if they were not there; a key of infinity takes all but is no number. */
static void
test_infinities(bool narrow)
{
	enum
	{
		TOKENS = 200, SIZE = 4
	};
	struct sequence_case c = narrow ? attention_bf16_case(1, SIZE, 0, 0) : attention_case(1, SIZE, 0, 0);
	uint32_t	offsets[2] = {0, TOKENS};
	float	   *x = case_alloc(TOKENS * 3 * SIZE * sizeof(float));
	float	   *y = case_alloc(TOKENS * SIZE * sizeof(float));
	bool		fine = true;

	for (int t = 0; t < TOKENS; t++)
		for (int d = 0; d < SIZE; d++)
		{
			x[t * 3 * SIZE + d] = 1;
			x[t * 3 * SIZE + SIZE + d] = t < 100 ? -INFINITY : 1;
			x[t * 3 * SIZE + 2 * SIZE + d] = t < 100 ? 5 : (float) t;
		}
	fine = case_compile(&c.op, device) && sequence_run(&c, 1, offsets, x, NULL, y, NULL);
	for (int i = 0; i < TOKENS * SIZE; i++)
		fine = fine && fabsf(y[i] - 149.5f) < (narrow ? 1 : 1e-4f);
	tap_ok(fine, "attention: keys of minus infinity have no weight, though they come first");
	for (int t = 0; t < TOKENS; t++)
		x[t * 3 * SIZE + SIZE] = -INFINITY;
	fine = sequence_run(&c, 1, offsets, x, NULL, y, NULL);
	for (int i = 0; i < TOKENS * SIZE; i++)
		fine = fine && isnan(y[i]);
	tap_ok(fine, "attention: nothing but minus infinity has no softmax");
	case_free(&c.op);
	sequence_free(&c);
	free(x);
	free(y);
}

static void
test_places(void)
{
	struct sequence_case c = rotary_case(1, 8, 8, false, 64);
	size_t		in = sequence_in(&c);
	size_t		tokens = row_off[ROWS];
	float	   *x = case_alloc(tokens * in * sizeof(float));
	float	   *y = case_alloc(tokens * in * sizeof(float));
	uint32_t	errors[ROWS] = {0};
	bool		fine;

	sequence_fill(x, tokens * in, 1);
	fine = case_compile(&c.op, device) && sequence_run(&c, ROWS, row_off, x, NULL, y, errors);
	for (uint32_t row = 0; row < ROWS; row++)
		fine = fine && errors[row] == (lengths[row] > 64 ? (uint32_t) INFER_ERROR_INPUT : 0);
	tap_ok(fine, "rotary: a place beyond the table is its row's error");
	case_free(&c.op);
	sequence_free(&c);
	free(x);
	free(y);
}

/* Rows without tokens: their pooled vectors are zeros, whatever was there. */
static void
test_empty(void)
{
	struct sequence_case c = pool_case(POOL_MAX, 5);
	float	   *x = case_alloc(row_off[ROWS] * 5 * sizeof(float));
	float		y[ROWS * 5];
	uint32_t	none[3] = {0};
	bool		fine;

	memset(y, 0xFF, sizeof(y));
	fine = case_compile(&c.op, device) && sequence_run(&c, ROWS, row_off, x, NULL, y, NULL);
	for (int i = 0; i < 5; i++)
		fine = fine && y[1 * 5 + i] == 0 && y[5 * 5 + i] == 0;
	tap_ok(fine, "pool: a row without tokens is zeros");
	tap_ok(sequence_run(&c, 2, none, x, NULL, y, NULL) && sequence_run(&c, 0, none, x, NULL, y, NULL),
		   "pool: no tokens at all, no rows at all");
	case_free(&c.op);
	free(x);
	c = attention_case(2, 8, 0, 0);
	fine = case_compile(&c.op, device) && sequence_run(&c, 2, none, y, NULL, y, NULL) &&
		sequence_run(&c, 0, none, y, NULL, y, NULL);
	tap_ok(fine, "attention: no tokens at all, no rows at all");
	case_free(&c.op);
}

/* Tokens that pooling passes over are as if they were not there, but for the places of the others. */
static void
test_passed_over(void)
{
	enum
	{
		SIZE = 37
	};
	static float y[ROWS * SIZE];
	float	   *x = case_alloc(row_off[ROWS] * SIZE * sizeof(float));
	uint32_t	first[ROWS];

	sequence_fill(x, row_off[ROWS] * SIZE, 1);
	for (uint32_t row = 0; row < ROWS; row++)
		first[row] = (row_off[row + 1] - row_off[row]) * row / (ROWS - 1);
	for (uint16_t fn = POOL_FIRST; fn < POOL_FUNCTIONS; fn++)
	{
		struct sequence_case c = pool_case(fn, SIZE);
		struct device_batch batch = {.items = {1, ROWS, row_off[ROWS]}, .row_off = row_off, .row_first = first};
		struct status status = {0};
		bool		fine = case_compile(&c.op, device) && case_run_batch(&c.op, &batch, (void *[]) {x, y}, &status);

		for (uint32_t row = 0; row < ROWS; row++)
		{
			double		wanted[SIZE];

			pool_formula(&c, x + (row_off[row] + first[row]) * SIZE, first[row], row_off[row + 1] - row_off[row] - first[row], wanted);
			for (int i = 0; i < SIZE; i++)
				fine = fine && fabs(y[row * SIZE + i] - wanted[i]) <= 1e-5;
		}
		tap_ok(fine, "pool, function %u: from a row's first pooled token on", fn);
		first[0] = row_off[1] + 1;
		tap_ok(!case_run_batch(&c.op, &batch, (void *[]) {x, y}, &status) && status.error == INFER_ERROR_INTERNAL,
			   "pool, function %u: a first token beyond the row is refused", fn);
		first[0] = 0;
		case_free(&c.op);
	}
	free(x);
}

static bool
refused(struct sequence_case c)
{
	bool		compiled = case_compile(&c.op, device);

	if (compiled)
		case_free(&c.op);
	sequence_free(&c);
	return !compiled;
}

static void
test_refusals(void)
{
	struct sequence_case c = attention_case(2, 32, 0, 0);
	struct device_batch batch = {.items = {1, 1, 4}};
	float		x[4 * 3 * 2 * 32] = {0};
	float		y[4 * 2 * 32];
	uint32_t	wrong[2] = {0, 5};
	struct status status;

	c.op.tensors[0].dims[0]++;
	tap_ok(refused(c), "attention: a shape that is not the heads' is refused");
	c = attention_case(2, 32, 0, 3);
	c.op.tensors[1].dims[0]--;
	tap_ok(refused(c), "attention: too few biases are refused");
	c = attention_case(2, 32, 0, 0);
	c.op.tensors[1].lead = DEVICE_LEAD_ROWS;
	tap_ok(refused(c), "attention: an output per row is refused");
	c = norm_case(NORM_LAYER, 8);
	c.op.tensors[2].dims[0] = 7;
	tap_ok(refused(c), "norm: too few factors are refused");
	c = rotary_case(2, 8, 7, false, 10);
	tap_ok(refused(c), "rotary: an odd number is refused");
	c = gate_case(UNARY_GELU, 8, false);
	c.op.tensors[0].dims[0] = 15;
	tap_ok(refused(c), "gate: what has no halves is refused");
	c = pool_case(POOL_FUNCTIONS, 8);
	tap_ok(refused(c), "pool: an unknown function is refused");

	c = attention_case(2, 32, 0, 0);
	status_clear(&status);
	tap_ok(case_compile(&c.op, device) && !case_run_batch(&c.op, &batch, (void *[]) {x, y}, &status) &&
		   status.error == INFER_ERROR_INTERNAL, "a batch without offsets is refused: %s", status.message);
	batch.row_off = wrong;
	status_clear(&status);
	tap_ok(!case_run_batch(&c.op, &batch, (void *[]) {x, y}, &status) && status.error == INFER_ERROR_INTERNAL,
		   "offsets beyond the tokens are refused: %s", status.message);
	case_free(&c.op);
}

/*
 * The other primitives on tokens: what is wrong with a token is the error of its row, of those
 * without tokens nobody's.
 */
static void
test_tokens(void)
{
	static const uint32_t offsets[] = {0, 0, 2, 2, 2, 5, 5, 6, 6};
	static const uint32_t wrong = 1u << 1 | 1u << 6;	/* the rows of tokens 1 and 5 */
	struct sequence_case c = {.name = "gather"};
	float		table[3 * 2] = {1, 2, 3, 4, 5, 6};
	int32_t		places[6] = {0, 3, -1, 2, 1, -4};
	float		numbers[6] = {1, NAN, 3, 4, 5, 1e20f};
	float		y[12];
	int32_t		whole[6];
	uint32_t	errors[8] = {0};
	bool		fine;

	c.op.op = (struct device_op) {.op = DEVICE_OP_GATHER};
	c.op.inputs_count = 2;
	c.op.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 2, (int64_t[]) {3, 2});
	c.op.tensors[1] = case_tensor(DEVICE_I32, DEVICE_LEAD_TOKENS, 0, NULL);
	c.op.tensors[2] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 1, (int64_t[]) {2});
	fine = case_compile(&c.op, device) && sequence_run(&c, 8, offsets, table, (float *) places, y, errors);
	for (uint32_t row = 0; row < 8; row++)
		fine = fine && errors[row] == (wrong >> row & 1 ? (uint32_t) INFER_ERROR_INPUT : 0);
	tap_ok(fine && y[0] == 1 && y[1] == 2 && y[2] == 0 && y[4] == 5 && y[7] == 6 && y[11] == 0,
		   "gather: an index out of range is its token's row's error");
	case_free(&c.op);
	c = (struct sequence_case) {.name = "cast"};
	c.op.op = (struct device_op) {.op = DEVICE_OP_CAST};
	c.op.inputs_count = 1;
	c.op.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 0, NULL);
	c.op.tensors[1] = case_tensor(DEVICE_I32, DEVICE_LEAD_TOKENS, 0, NULL);
	memset(errors, 0, sizeof(errors));
	fine = case_compile(&c.op, device) && sequence_run(&c, 8, offsets, numbers, NULL, (float *) whole, errors);
	for (uint32_t row = 0; row < 8; row++)
		fine = fine && errors[row] == (wrong >> row & 1 ? (uint32_t) INFER_ERROR_INPUT : 0);
	tap_ok(fine && whole[0] == 1 && whole[1] == 0 && whole[4] == 5, "cast: so is what is no whole number");
	case_free(&c.op);
	c = (struct sequence_case) {.name = "binary"};
	c.op.op = (struct device_op) {.op = DEVICE_OP_BINARY, .fn = BINARY_ADD};
	c.op.inputs_count = 2;
	c.op.tensors[0] = c.op.tensors[1] = c.op.tensors[2] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 0, NULL);
	fine = case_compile(&c.op, device) && sequence_run(&c, 8, offsets, numbers, numbers, y, NULL);
	tap_ok(fine && y[0] == 2 && y[4] == 10 && isnan(y[1]), "binary: two tensors of the tokens");
	case_free(&c.op);
}

/* Of one number of tokens, one long row is predicted to take longer than many short ones. */
static void
test_estimates(void)
{
	struct sequence_case c = attention_case(12, 32, 0, 0);
	struct device_batch many = {.items = {1, 256, 4096}, .pairs = 256 * 16 * 16};
	struct device_batch one = {.items = {1, 1, 4096}, .pairs = 4096 * 4096};
	struct device_batch unsaid = {.items = {1, 1, 4096}};
	uint64_t	nsec;
	uint64_t	predicted;
	bool		fine = case_compile(&c.op, device);

	nsec = device->ops->estimate_nsec(device, c.op.program, &many);
	fine = fine && device->ops->estimate_nsec(device, c.op.program, &one) > 10 * nsec &&
		device->ops->estimate_nsec(device, c.op.program, &unsaid) == device->ops->estimate_nsec(device, c.op.program, &one);
	tap_ok(fine, "attention: predicted by pairs of tokens");
	device->ops->segment_end(device, c.op.program, 0, &one, 1, &predicted);
	tap_ok(predicted > 10 * nsec, "a segment's time likewise");
	case_free(&c.op);
	c = attention_case(12, 32, 64, 0);
	fine = case_compile(&c.op, device) && device->ops->estimate_nsec(device, c.op.program, &one) < 10 * nsec * 129 / 16;
	tap_ok(fine, "attention: a window bounds what is predicted");
	case_free(&c.op);
}

/* Attention in bf16 is a part of what bits are the same; returns whether the device has it. */
static bool
test_numerics(void)
{
	struct sequence_case c = attention_bf16_case(1, 8, 0, 0);
	bool		there = sequence_supported(&c, device);
	struct device_info info;

	device->ops->info(device, &info);
	tap_ok((strstr(info.numerics_id, "-heads") != NULL) == there, "attention in bf16 is told by the numerics id, %s",
		   info.numerics_id);
	sequence_free(&c);
	return there;
}

static void
test_everything(bool narrow)
{
	test_formulas();
	test_nan(narrow);
	test_infinities(false);
	if (narrow)
		test_infinities(true);
}

static void
test_batches(void)
{
	test_places();
	test_empty();
	test_passed_over();
	test_refusals();
	test_tokens();
	test_estimates();
}

static void
test_cpu(void)
{
	static const char *const archs[] = {"scalar", "avx2", "avx512", "avx512-bf16"};
	bool		narrow = false;

	for (size_t a = 0; a < sizeof(archs) / sizeof(*archs); a++)
	{
		struct device_options options = {.threads = 1, .arch = archs[a]};
		struct status status;
		bool		here;

		status_clear(&status);
		device = device_open("cpu", &options, &status);
		if (device == NULL)
		{
			tap_skip(archs[a], "not on this processor");
			continue;
		}
		printf("# %s\n", archs[a]);
		here = test_numerics();
		narrow = narrow || here;
		test_everything(here);
		device->ops->close(device);
	}
	if (!narrow)
		tap_skip("attention in bf16", "needs AVX512_BF16, and faster than float32");
	device = case_device("cpu", NULL, 1);
	test_batches();
	device->ops->close(device);
}

int
main(void)
{
	for (uint32_t row = 0; row < ROWS; row++)
		row_off[row + 1] = row_off[row] + lengths[row];
	if (case_wants("cpu"))
		test_cpu();
	device = case_cuda_device(1);
	if (device != NULL)
	{
		struct sequence_case c = attention_bf16_case(1, 8, 0, 0);
		bool		narrow = sequence_supported(&c, device);

		sequence_free(&c);
		tap_ok(narrow, "the CUDA device has attention in bf16");
		test_everything(narrow);
		test_batches();
		device_close(device);
	}
	else if (case_wants("cuda"))
		tap_skip("cuda", "cannot be opened");
	return tap_done();
}
