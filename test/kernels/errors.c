/*
 * errors.c
 *	  What is wrong with one row is that row's error and nobody else's; texts in and out of
 *	  tensors; what a device refuses.
 */
#include <math.h>

#include "engine/cpu/cpu.h"
#include "harness.h"
#include "protocol/protocol.h"
#include "tap.h"

#define TEXT(s)	{s, sizeof(s) - 1}

static struct device *device;
static uint32_t errors[4];
static struct status status;

static struct device_tensor
rows_of(uint8_t type, int64_t n)
{
	return case_tensor(type, DEVICE_LEAD_ROWS, 1, &n);
}

/* Runs a case with one or two inputs on four rows; each tensor has one element per row. */
static void
run(struct op_case *c, const void *a, const void *b, void *y)
{
	void	   *bindings[3] = {(void *) a, (void *) b, y};

	if (c->inputs_count == 1)
		bindings[1] = y;
	memset(errors, 0, sizeof(errors));
	status_clear(&status);
	if (!case_compile(c, device) || !case_run(c, 4, bindings, errors, &status))
		printf("# did not run: %s\n", status.message);
}

static bool
only_rows(uint32_t mask)
{
	for (uint32_t r = 0; r < 4; r++)
		if (errors[r] != (mask >> r & 1 ? (uint32_t) INFER_ERROR_INPUT : 0))
			return false;
	return true;
}

static void
test_casts(void)
{
	static const float x[4] = {1.9f, NAN, -2.9f, 3e9f};
	static const double d[4] = {-2147483648.9, 2147483648.0, 2147483647.5, INFINITY};
	static const int64_t wide[4] = {INT32_MAX, (int64_t) INT32_MAX + 1, INT32_MIN, (int64_t) INT32_MIN - 1};
	int32_t		y[4];
	int64_t		y64[4];
	struct op_case c = {.op = {.op = DEVICE_OP_CAST}, .inputs_count = 1};

	c.tensors[0] = rows_of(DEVICE_F32, 1);
	c.tensors[1] = rows_of(DEVICE_I32, 1);
	run(&c, x, NULL, y);
	tap_ok(only_rows(10) && y[0] == 1 && y[1] == 0 && y[2] == -2 && y[3] == 0, "float32 to int32: NaN and 3e9 are their rows' errors");
	case_free(&c);
	c.tensors[0] = rows_of(DEVICE_F64, 1);
	run(&c, d, NULL, y);
	tap_ok(only_rows(10) && y[0] == INT32_MIN && y[2] == INT32_MAX, "float64 to int32: the range's edges");
	case_free(&c);
	c.tensors[0] = rows_of(DEVICE_I64, 1);
	run(&c, wide, NULL, y);
	tap_ok(only_rows(10) && y[0] == INT32_MAX && y[2] == INT32_MIN, "int64 to int32: what does not fit");
	case_free(&c);
	c.tensors[0] = rows_of(DEVICE_F32, 1);
	c.tensors[1] = rows_of(DEVICE_I64, 1);
	run(&c, (float[]) {9.2e18f, -9.3e18f, 5, -INFINITY}, NULL, y64);
	tap_ok(only_rows(10) && y64[2] == 5, "float32 to int64");
	case_free(&c);
}

static bool
text_is(const struct device_text *text, const char *expected)
{
	return text->length == strlen(expected) && memcmp(text->data, expected, text->length) == 0;
}

static void
test_texts(void)
{
	static const struct device_text in[4] = {TEXT("-1.5e2"), TEXT("nan"), TEXT(" 1"), TEXT("0x10")};
	static const struct device_text whole[4] = {TEXT("9223372036854775807"), TEXT("9223372036854775808"),
	TEXT("-7"), TEXT("1.5")};
	float		y[4];
	int64_t		y64[4];
	struct device_text out[4];
	struct op_case c = {.op = {.op = DEVICE_OP_CAST}, .inputs_count = 1};

	c.tensors[0] = rows_of(DEVICE_STRING, 1);
	c.tensors[1] = rows_of(DEVICE_F32, 1);
	run(&c, in, NULL, y);
	tap_ok(only_rows(12) && y[0] == -150 && isnan(y[1]), "text to float32: blanks and hexadecimal are errors");
	case_free(&c);
	c.tensors[1] = rows_of(DEVICE_I64, 1);
	run(&c, whole, NULL, y64);
	tap_ok(only_rows(10) && y64[0] == INT64_MAX && y64[2] == -7, "text to int64: overflow and fractions are errors");
	case_free(&c);
	c.tensors[0] = rows_of(DEVICE_F32, 1);
	c.tensors[1] = rows_of(DEVICE_STRING, 1);
	run(&c, (float[]) {0.1f, -INFINITY, NAN, 16777216}, NULL, out);
	tap_ok(only_rows(0) && text_is(&out[0], "0.1") && text_is(&out[1], "-INF") && text_is(&out[2], "NaN") &&
		   strtof("16777216", NULL) == 16777216 && text_is(&out[3], "16777216"),
		   "float32 to text: the shortest that reads back");
	case_free(&c);
	c.tensors[0] = rows_of(DEVICE_I64, 1);
	run(&c, (int64_t[]) {0, INT64_MIN, 12, -1}, NULL, out);
	tap_ok(text_is(&out[1], "-9223372036854775808") && text_is(&out[3], "-1"), "int64 to text");
	case_free(&c);
}

static void
test_lookup(void)
{
	static const struct device_text keys[3] = {TEXT("a"), TEXT("ab"), TEXT("b")};
	static const int64_t values[3] = {10, 20, 30};
	static const struct device_text x[4] = {TEXT("b"), TEXT("a"), TEXT("abc"), TEXT("ab")};
	static const float number_keys[3] = {-1, 0, NAN};
	static const int64_t other = -5;
	struct device_lookup table = {3, DEVICE_STRING, DEVICE_I64, false, keys, values, NULL};
	int64_t		y[4];
	struct op_case c = {.op = {.op = DEVICE_OP_LOOKUP, .params = &table}, .inputs_count = 1};

	c.tensors[0] = rows_of(DEVICE_STRING, 1);
	c.tensors[1] = rows_of(DEVICE_I64, 1);
	run(&c, x, NULL, y);
	tap_ok(only_rows(4) && y[0] == 30 && y[1] == 10 && y[2] == 0 && y[3] == 20, "lookup of texts");
	case_free(&c);
	table = (struct device_lookup) {3, DEVICE_F32, DEVICE_I64, true, number_keys, values, &other};
	c.tensors[0] = rows_of(DEVICE_F32, 1);
	run(&c, (float[]) {NAN, -0.0f, 7, -1}, NULL, y);
	tap_ok(only_rows(0) && y[0] == 30 && y[1] == 20 && y[2] == -5 && y[3] == 10,
		   "lookup of numbers: NaN is a key, what is not there gets the default");
	case_free(&c);
}

static void
test_gather_and_division(void)
{
	static const float x[3] = {1, 2, 3};
	float		y[4];
	int32_t		quotient[4];
	struct op_case c = {.op = {.op = DEVICE_OP_GATHER}, .inputs_count = 2};

	c.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 1, (int64_t[]) {3});
	c.tensors[1] = rows_of(DEVICE_I64, 1);
	c.tensors[2] = rows_of(DEVICE_F32, 1);
	run(&c, x, (int64_t[]) {2, 3, -3, -4}, y);
	tap_ok(only_rows(10) && y[0] == 3 && y[1] == 0 && y[2] == 1 && y[3] == 0, "gather: an index out of range");
	case_free(&c);
	for (uint16_t fn = BINARY_DIV; fn <= BINARY_FMOD; fn++)
	{
		if (fn != BINARY_DIV && fn != BINARY_MOD && fn != BINARY_FMOD)
			continue;
		c.op = (struct device_op) {.op = DEVICE_OP_BINARY, .fn = fn};
		c.tensors[0] = c.tensors[1] = c.tensors[2] = rows_of(DEVICE_I32, 1);
		run(&c, (int32_t[]) {7, 7, INT32_MIN, -7}, (int32_t[]) {2, 0, -1, 2}, quotient);
		tap_ok(only_rows(2) && quotient[0] == (fn == BINARY_DIV ? 3 : 1) &&
			   quotient[2] == (fn == BINARY_DIV ? INT32_MIN : 0) &&
			   quotient[3] == (fn == BINARY_DIV ? -3 : fn == BINARY_MOD ? 1 : -1),
			   "integer division function %d: by zero is the row's error, INT_MIN / -1 wraps", fn);
		case_free(&c);
	}
}

static void
test_places(void)
{
	static const float zeros[4] = {0};
	int64_t		places[4];
	float		y[4][2];
	struct op_case c = {.op = {.op = DEVICE_OP_OFFSET, .i = {3}}, .inputs_count = 1};

	c.op.i[DEVICE_RANK_MAX] = 10;
	c.tensors[0] = rows_of(DEVICE_I64, 1);
	c.tensors[1] = case_tensor(DEVICE_I64, DEVICE_LEAD_ROWS, 0, NULL);
	run(&c, (int64_t[]) {2, 3, -3, -4}, NULL, places);
	tap_ok(only_rows(10) && places[0] == 20 && places[1] == 0 && places[2] == 0 && places[3] == 0,
		   "offset: an index out of range");
	case_free(&c);
	c = (struct op_case) {.op = {.op = DEVICE_OP_SCATTER, .fn = SCATTER_SET}, .inputs_count = 3};
	c.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 1, (int64_t[]) {2});
	c.tensors[1] = rows_of(DEVICE_I64, 1);
	c.tensors[2] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 1, (int64_t[]) {1});
	c.tensors[3] = rows_of(DEVICE_F32, 2);
	memset(errors, 0, sizeof(errors));
	status_clear(&status);
	tap_ok(case_compile(&c, device) &&
		   case_run(&c, 4, (void *[]) {(void *) zeros, (int64_t[]) {0, 2, 1, -1}, (float[]) {5}, y}, errors, &status) &&
		   only_rows(10) && y[0][0] == 5 && y[0][1] == 0 && y[1][0] == 0 && y[2][1] == 5 && y[3][0] == 0,
		   "scatter: a place out of range, and what there was stays");
	case_free(&c);
}

/* Everything that would lie outside is refused at compile. */
static void
test_refusals(void)
{
	struct op_case c = {.op = {.op = DEVICE_OP_COPY, .i = {0, 2}}, .inputs_count = 1};

	c.tensors[0] = rows_of(DEVICE_F32, 4);
	c.tensors[1] = rows_of(DEVICE_F32, 3);
	tap_ok(!case_compile(&c, device), "copy from beyond the end is refused");
	c.op.i[0] = -1;
	c.op.i[1] = 1;
	tap_ok(!case_compile(&c, device), "copy from before the start is refused");
	c.op.i[0] = 0;
	c.op.i[1] = INT64_MAX;
	tap_ok(!case_compile(&c, device), "copy with a step that overflows is refused");
	c.op = (struct device_op) {.op = DEVICE_OP_UNARY, .fn = UNARY_EXP};
	c.tensors[0] = c.tensors[1] = rows_of(DEVICE_I32, 4);
	tap_ok(!case_compile(&c, device), "exp of int32 is refused");
	c.op = (struct device_op) {.op = DEVICE_OP_SOFTMAX, .fn = SOFTMAX_PLAIN, .i = {1}};
	c.tensors[0] = c.tensors[1] = rows_of(DEVICE_F32, 4);
	tap_ok(!case_compile(&c, device), "softmax along an axis that is not there is refused");
	c.op = (struct device_op) {.op = 999};
	tap_ok(!case_compile(&c, device), "an unknown primitive is refused");
	c.op = (struct device_op) {.op = DEVICE_OP_REDUCE, .fn = REDUCE_SUM, .i = {1, 1}};
	c.tensors[1].dims[0] = 2;
	tap_ok(!case_compile(&c, device), "a reduction to another shape is refused");
}

static void
test_opening(void)
{
	struct device_options options = {.threads = 1, .arch = "avx1024"};

	status_clear(&status);
	tap_ok(device_open("cpu", &options, &status) == NULL && strstr(status.message, "avx1024") != NULL,
		   "an unknown instruction set is named: %s", status.message);
	status_clear(&status);
	options.arch = NULL;
	tap_ok(device_open("tpu", &options, &status) == NULL && strstr(status.message, "tpu") != NULL,
		   "an unknown device is named: %s", status.message);
}

static void
test_budget(void)
{
	static float w[64 * 64];
	struct device_options options = {.threads = 1, .memory = 30000};
	struct device_weight_desc desc = {.type = DEVICE_F32, .k = 64, .n = 64, .stride_k = 64, .stride_n = 1, .data = w};
	struct device *small;
	struct device_weight *first;
	struct device_weight *second;
	struct device_info info;
	char		wanted[32];

	status_clear(&status);
	small = device_open("cpu", &options, &status);
	snprintf(wanted, sizeof(wanted), "%llu bytes", (unsigned long long) small->ops->weight_size(small, &desc));
	first = small->ops->weight_pack(small, &desc, &status);
	small->ops->info(small, &info);
	tap_ok(first != NULL && info.bytes_used == small->ops->weight_size(small, &desc), "a weight takes what weight_size says");
	second = small->ops->weight_pack(small, &desc, &status);
	second = second == NULL ? small->ops->weight_pack(small, &desc, &status) : second;
	small->ops->info(small, &info);
	tap_ok(info.bytes_used <= 30000, "the budget holds");
	tap_ok(second != NULL || (status.error == INFER_ERROR_MEMORY && strstr(status.message, wanted) != NULL),
		   "a weight over the budget is refused: %s", status.message);
	tap_ok(second == NULL, "two of them do not fit");
	small->ops->weight_free(small, first);
	small->ops->info(small, &info);
	tap_ok(info.bytes_used == 0, "freed weights are given back");
	small->ops->close(small);
}

static void
test_rows(void)
{
	test_casts();
	test_texts();
	test_lookup();
	test_gather_and_division();
	test_places();
	test_refusals();
	device_close(device);
}

int
main(void)
{
	if (case_wants("cpu"))
	{
		device = case_device("cpu", NULL, 1);
		test_rows();
		test_opening();
		test_budget();
	}
	device = case_cuda_device(1);
	if (device != NULL)
		test_rows();
	else if (case_wants("cuda"))
		tap_skip("cuda", "cannot be opened");
	return tap_done();
}
