/*
 * products.c
 *	  Matrix products of the CUDA device beside those of the CPU's: the same bits in float32, float64, int8 and whole numbers,
 *	  QUANTISE too; bf16 within what its sums may differ by; for K, N and rows that fill no tile, of tiles of every size, for
 *	  numbers that are none; and rows that are the same in any number of rows.
 */
#include <float.h>
#include <math.h>

#include "engine/half.h"
#include "harness.h"
#include "random.h"
#include "tap.h"

#define ROWS_MAX	600

static struct device *cpu;
static struct device *gpu;
static bool huge = true;			/* odd numbers are also such that the order of sums decides whether they overflow */

/* Memory of one comparison. */
static void *rooms[200];
static int	rooms_count;

static void *
room(size_t bytes)
{
	return rooms[rooms_count++] = case_alloc(bytes);
}

static void
rooms_free(void)
{
	while (rooms_count > 0)
		free(rooms[--rooms_count]);
}

/* About −2 … 2; of an odd kind now and then. */
static double
number(bool odd)
{
	static const double rare[] = {INFINITY, -INFINITY, NAN, 1e-41, -1e-40, 0, -0.0, FLT_MIN, FLT_MAX, -3e38};

	if (odd && next_random() % 16 == 0)
		return rare[next_random() % (sizeof(rare) / sizeof(*rare) - (huge ? 0 : 2))];
	return (double) (int64_t) next_random() / 9.3e18 * 4;
}

static void
fill(const struct device_tensor *t, void *memory, uint32_t rows, bool odd)
{
	size_t		count = case_bytes(t, rows) / device_type_bytes(t->type);

	for (size_t i = 0; i < count; i++)
		switch (t->type)
		{
			case DEVICE_F32:
				((float *) memory)[i] = (float) number(odd);
				break;
			case DEVICE_F64:
				((double *) memory)[i] = number(odd);
				break;
			case DEVICE_BF16:
				((uint16_t *) memory)[i] = half_bf16_of_f32((float) number(odd));
				break;
			case DEVICE_I32:
				((int32_t *) memory)[i] = (int32_t) next_random();
				break;
			case DEVICE_I64:
				((int64_t *) memory)[i] = (int64_t) next_random();
				break;
			default:
				((uint8_t *) memory)[i] = (uint8_t) next_random();
		}
}

/* Rows of Q8: any bytes and a scale. */
static void
fill_q8(const struct device_tensor *t, uint8_t *memory, uint32_t rows, bool odd)
{
	int64_t		length = t->dims[t->rank - 1];
	int64_t		vectors = (int64_t) case_bytes(t, rows) / length;

	for (int64_t v = 0; v < vectors; v++)
	{
		float		scale = (float) number(odd);

		for (int64_t i = 0; i < length - DEVICE_Q8_SCALE; i++)
			memory[v * length + i] = (uint8_t) (1 + next_random() % 255);
		memcpy(memory + (v + 1) * length - DEVICE_Q8_SCALE, &scale, sizeof(scale));
	}
}

/* Runs a case that is compiled; its output is bindings[inputs]. */
static void
run(struct op_case *c, uint32_t rows, void *const *bindings)
{
	struct status status;

	status_clear(&status);
	if (!case_run(c, rows, bindings, NULL, &status))
		case_fail("run", &status);
}

/* Sums that are not made in one order: within 2^-17 of the sum of the products' magnitudes, which is at most 4 K. */
static bool
near(const struct op_case *c, const void *got, const void *wanted, size_t bytes)
{
	bool		rounded = c->tensors[c->inputs_count].type == DEVICE_BF16;
	size_t		count = bytes / (rounded ? 2 : 4);

	for (size_t i = 0; i < count; i++)
	{
		double		a = rounded ? half_f32_of_bf16(((const uint16_t *) got)[i]) : ((const float *) got)[i];
		double		b = rounded ? half_f32_of_bf16(((const uint16_t *) wanted)[i]) : ((const float *) wanted)[i];
		double		tolerance = 0x1p-17 * 4 * (double) c->weight.k + (rounded ? 0x1p-7 * fabs(b) : 0);

		if (isnan(b) ? !isnan(a) : isinf(b) ? a != b : !(fabs(a - b) <= tolerance))
		{
			printf("# element %zu: %.9g, not %.9g\n", i, a, b);
			return false;
		}
	}
	return true;
}

/* The output of the GPU is the CPU's, and a row's the same in fewer rows. */
static bool
agrees(const struct op_case *wanted, uint32_t rows, bool odd)
{
	struct op_case cases[2] = {*wanted, *wanted};
	const struct device_tensor *y = &wanted->tensors[wanted->inputs_count];
	size_t		bytes = case_bytes(y, rows);
	size_t		row = y->lead == DEVICE_LEAD_NONE ? 0 : case_bytes(y, 1);
	void	   *bindings[CASE_INPUTS + 1];
	void	   *outputs[3];
	bool		exact = wanted->weight.precision != DEVICE_PRECISION_BF16;
	bool		fine;

	for (uint32_t i = 0; i < wanted->inputs_count; i++)
	{
		bindings[i] = room(case_bytes(&wanted->tensors[i], rows));
		if (wanted->tensors[i].type == DEVICE_Q8)
			fill_q8(&wanted->tensors[i], bindings[i], rows, odd);
		else
			fill(&wanted->tensors[i], bindings[i], rows, odd);
	}
	for (int d = 0; d < 2; d++)
	{
		outputs[d] = bindings[wanted->inputs_count] = room(bytes);
		if (!case_compile(&cases[d], d == 0 ? cpu : gpu))
			return false;
		run(&cases[d], rows, bindings);
	}
	fine = exact ? memcmp(outputs[0], outputs[1], bytes) == 0 : near(wanted, outputs[1], outputs[0], bytes);
	if (fine && row > 0 && rows > 1)
	{
		/* a part of the rows, from the second on */
		uint32_t	fewer = rows > 40 ? 17 : 1;

		for (uint32_t i = 0; i < wanted->inputs_count; i++)
			if (wanted->tensors[i].lead != DEVICE_LEAD_NONE)
			{
				void	   *copy = room(case_bytes(&wanted->tensors[i], fewer));

				memcpy(copy, (uint8_t *) bindings[i] + case_bytes(&wanted->tensors[i], 1), case_bytes(&wanted->tensors[i], fewer));
				bindings[i] = copy;
			}
		outputs[2] = bindings[wanted->inputs_count] = room(row * fewer);
		run(&cases[1], fewer, bindings);
		fine = memcmp(outputs[2], (uint8_t *) outputs[1] + row, row * fewer) == 0;
		if (!fine)
			printf("# other bits in %u rows\n", fewer);
	}
	if (!fine)
		printf("# primitive %d of type %d, function %d, K %lld N %lld, %u rows%s\n", wanted->op.op, wanted->tensors[0].type,
			   wanted->op.fn, (long long) wanted->weight.k, (long long) wanted->weight.n, rows, odd ? ", odd numbers" : "");
	for (int d = 0; d < 2; d++)
		case_free(&cases[d]);
	rooms_free();
	return fine;
}

static const struct
{
	uint32_t	rows;
	int64_t		k;
	int64_t		n;
}			shapes[] = {
	{1, 1, 1}, {0, 5, 7}, {3, 0, 5}, {2, 5, 0}, {7, 3, 33}, {8, 64, 32}, {9, 65, 31}, {15, 16, 8}, {16, 17, 9}, {17, 15, 40},
	{31, 127, 63}, {33, 128, 65}, {64, 129, 64}, {65, 33, 64}, {63, 31, 130}, {127, 96, 129}, {129, 40, 127}, {128, 24, 128},
	{256, 72, 256}, {257, 66, 255}, {300, 260, 136}, {ROWS_MAX, 36, 96}, {5, 1030, 24}, {40, 8, 300}
};
static const uint16_t functions[] = {
	UNARY_NONE, UNARY_RELU, UNARY_GELU, UNARY_TANH, UNARY_GELU_TANH, UNARY_LEAKY_RELU, UNARY_NONE, UNARY_SIGMOID
};

/* x, w, and y of the types that go with a precision. */
static struct op_case
gemm(uint8_t type, uint8_t precision, uint8_t y_type, int64_t k, int64_t n, size_t s, bool odd)
{
	struct op_case c = {.op = {.op = DEVICE_OP_GEMM, .fn = functions[s % 8], .f = {0.5, 1.5}}};
	struct device_tensor w = case_tensor(type == DEVICE_F64 ? DEVICE_F64 : DEVICE_F32, DEVICE_LEAD_NONE, 2, (int64_t[]) {k, n});
	int64_t		x_dims[2] = {s % 4 == 3 ? 2 : 1, k + (type == DEVICE_Q8 ? DEVICE_Q8_SCALE : 0)};
	int64_t		y_dims[2] = {x_dims[0], n};
	void	   *data = case_alloc(case_bytes(&w, 1));

	fill(&w, data, 1, odd && precision != DEVICE_PRECISION_INT8);
	c.weight = (struct device_weight_desc) {
		.type = w.type, .precision = precision, .k = k, .n = n, .stride_k = s % 2 == 0 ? n : 1, .stride_n = s % 2 == 0 ? 1 : k,
		.data = data
	};
	c.tensors[c.inputs_count++] = case_tensor(type, DEVICE_LEAD_ROWS, 2, x_dims);
	if (s % 3 != 0)
		c.tensors[c.inputs_count++] = case_tensor(w.type, DEVICE_LEAD_NONE, 1, s % 3 == 1 ? &n : (int64_t[]) {1});
	c.tensors[c.inputs_count] = case_tensor(y_type, DEVICE_LEAD_ROWS, 2, y_dims);
	return c;
}

static void
test_gemm(uint8_t type, uint8_t precision, const char *name)
{
	bool		fine[2] = {true, true};

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		for (int odd = 0; odd < 2; odd++)
		{
			uint8_t		y_type = precision == DEVICE_PRECISION_FULL ? type : (s + (size_t) odd) % 2 == 0 ? DEVICE_F32 : DEVICE_BF16;
			struct op_case c = gemm(type, precision, y_type, shapes[s].k, shapes[s].n, s, odd);

			fine[odd] = agrees(&c, shapes[s].rows, odd) && fine[odd];
			free((void *) c.weight.data);
		}
	tap_ok(fine[0], "gemm of %s", name);
	tap_ok(fine[1], "gemm of %s: infinities, NaN, denormals", name);
}

static void
test_matmul(uint8_t type, const char *name)
{
	static const char *const matmuls[][3] = {
		{"3,4", "4,5", "3,5"}, {"2,3,4", "4,5", "2,3,5"}, {"2,1,3,4", "3,4,35", "2,3,3,35"}, {"1,7", "7,1", "1,1"},
		{"9,40", "40,33", "9,33"}, {"3,1,65,17", "2,17,66", "3,2,65,66"}, {"4,5", "3,2,5,6", "3,2,4,6"}, {"0,4", "4,3", "0,3"},
		{"3,0", "0,4", "3,4"}, {"2,3,4", "2,4,0", "2,3,0"}, {"0,3,4", "4,5", "0,3,5"}, {"1,1,130,20", "1,5,20,129", "1,5,130,129"}
	};
	bool		fine = true;

	for (size_t m = 0; m < sizeof(matmuls) / sizeof(*matmuls); m++)
		for (int leads = 0; leads < 4; leads++)
			for (uint32_t rows = 0; rows < 4; rows += rows == 1 ? 2 : 1)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_MATMUL}, .inputs_count = 2};

				c.tensors[0] = case_shaped(type, leads & 1, matmuls[m][0]);
				c.tensors[1] = case_shaped(type, leads >> 1, matmuls[m][1]);
				c.tensors[2] = case_shaped(type, leads != 0, matmuls[m][2]);
				fine = agrees(&c, rows, m % 2 == 1) && fine;
			}
	tap_ok(fine, "matmul of %s", name);
}

static void
test_quantise(void)
{
	static const int64_t lengths[] = {0, 1, 3, 31, 32, 33, 64, 385};
	bool		fine = true;

	for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
		for (int odd = 0; odd < 2; odd++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_QUANTISE}, .inputs_count = 1};

			c.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 2, (int64_t[]) {3, lengths[l]});
			c.tensors[1] = case_tensor(DEVICE_Q8, DEVICE_LEAD_ROWS, 2, (int64_t[]) {3, lengths[l] + DEVICE_Q8_SCALE});
			fine = agrees(&c, 0, odd) && agrees(&c, 1, odd) && agrees(&c, 50, odd) && fine;
		}
	tap_ok(fine, "vectors in whole numbers");
}

/* A weight of two bytes a number packs as what it means. */
static void
test_sources(void)
{
	enum
	{
		K = 37, N = 45
	};
	static uint16_t half[K * N];
	static float full[K * N];
	bool		fine = true;

	for (int source = 0; source < 2; source++)
		for (uint8_t precision = 0; precision < DEVICE_PRECISIONS; precision++)
		{
			uint8_t		type = precision == DEVICE_PRECISION_FULL ? DEVICE_F32 : precision == DEVICE_PRECISION_BF16 ? DEVICE_BF16 : DEVICE_Q8;
			struct op_case c = gemm(type, precision, DEVICE_F32, K, N, 0, false);
			void	   *bindings[2];
			void	   *outputs[2];

			for (int i = 0; i < K * N; i++)
			{
				half[i] = source == 0 ? (uint16_t) (next_random() & 0xBFFF) : half_bf16_of_f32((float) number(false));
				full[i] = source == 0 ? half_f32_of_f16(half[i]) : half_f32_of_bf16(half[i]);
			}
			free((void *) c.weight.data);
			bindings[0] = room(case_bytes(&c.tensors[0], 20));
			if (type == DEVICE_Q8)
				fill_q8(&c.tensors[0], bindings[0], 20, false);
			else
				fill(&c.tensors[0], bindings[0], 20, false);
			for (int h = 0; h < 2; h++)
			{
				c.weight.type = h == 0 ? DEVICE_F32 : source == 0 ? DEVICE_F16 : DEVICE_BF16;
				c.weight.data = h == 0 ? (const void *) full : (const void *) half;
				outputs[h] = bindings[1] = room(case_bytes(&c.tensors[1], 20));
				if (!case_compile(&c, gpu))
					exit(2);
				run(&c, 20, bindings);
				case_free(&c);
			}
			fine = fine && memcmp(outputs[0], outputs[1], case_bytes(&c.tensors[1], 20)) == 0;
			rooms_free();
		}
	tap_ok(fine, "a weight of two bytes a number packs as what it means");
}

static void
refused(struct device_weight_desc desc, const char *part)
{
	struct status status;
	struct device_weight *weight;

	status_clear(&status);
	weight = gpu->ops->weight_pack(gpu, &desc, &status);
	tap_ok(weight == NULL && strstr(status.message, part) != NULL, "refused: %s", status.message);
}

static void
test_weights(void)
{
	float		w[4] = {1, 2, NAN, 4};
	struct device_weight_desc desc = {
		.type = DEVICE_F32, .precision = DEVICE_PRECISION_INT8, .k = 2, .n = 2, .stride_k = 2, .stride_n = 1, .data = w
	};
	struct device_info before;
	struct device_info after;
	struct device_weight *weight;
	struct status status;
	uint64_t	bytes;

	refused(desc, "not finite");
	w[2] = -INFINITY;
	refused(desc, "not finite");
	w[2] = 3;
	desc.k = DEVICE_Q8_MAX + 1;
	refused(desc, "65536");
	desc.k = 2;
	desc.precision = DEVICE_PRECISIONS;
	refused(desc, "no such precision");
	desc.precision = DEVICE_PRECISION_BF16;
	desc.type = DEVICE_F64;
	refused(desc, "float64");
	desc.type = DEVICE_F32;
	status_clear(&status);
	gpu->ops->info(gpu, &before);
	weight = gpu->ops->weight_pack(gpu, &desc, &status);
	gpu->ops->info(gpu, &after);
	tap_ok(after.bytes_used - before.bytes_used == gpu->ops->weight_size(gpu, &desc), "a weight takes what was said");
	tap_ok(gpu->ops->weight_data(gpu, weight, &bytes) == NULL, "no packed form is kept");
	gpu->ops->weight_free(gpu, weight);
	gpu->ops->info(gpu, &after);
	tap_ok(after.bytes_used == before.bytes_used, "and gives it back");
}

int
main(void)
{
	struct device_info info;

	setenv("INFER_TEST_DEVICE", "cuda", 0);	/* there is nothing here to test of another */
	cpu = case_device("cpu", NULL, 1);
	gpu = case_cuda_device(1);
	if (gpu == NULL)
	{
		tap_skip("cuda", "is not to be tested, or cannot be opened");
		return tap_done();
	}
	gpu->ops->info(gpu, &info);
	printf("# %s, %s\n", info.numerics_id, info.products);
	test_gemm(DEVICE_F32, DEVICE_PRECISION_FULL, "f32");
	test_gemm(DEVICE_F64, DEVICE_PRECISION_FULL, "f64");
	test_gemm(DEVICE_Q8, DEVICE_PRECISION_INT8, "int8");
	huge = false;
	test_gemm(DEVICE_BF16, DEVICE_PRECISION_BF16, "bf16");
	huge = true;
	test_matmul(DEVICE_F32, "f32");
	test_matmul(DEVICE_F64, "f64");
	test_matmul(DEVICE_I32, "i32");
	test_matmul(DEVICE_I64, "i64");
	test_quantise();
	test_sources();
	test_weights();
	device_close(gpu);
	device_close(cpu);
	return tap_done();
}
