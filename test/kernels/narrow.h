/*
 * narrow.h
 *	  Products of a weight in bf16 or int8, for tests: what narrow.c, narrow_weights.c and narrow_casts.c share.
 *
 * Nouns
 *	trial		a product with the numbers that it is made of, rows and weight, in float32 that its precision can hold
 *	odd			of numbers: now and then one that is infinite, NaN, denormal, zero, huge or tiny
 *
 * An instruction set that the processor lacks is skipped and says what it needs; that of tiles is there in software too.
 */
#ifndef TEST_KERNELS_NARROW_H
#define TEST_KERNELS_NARROW_H

#include "engine/half.h"
#include "harness.h"
#include "random.h"
#include "tap.h"

#define ROWS_MAX	1024

static const char *const archs[] = {
	"scalar", "avx2", "avx2-vnni", "avx512", "avx512-vnni", "avx512-bf16", "amx", "tiles"
};

/* About −2 … 2; of an odd kind now and then: infinite, NaN, denormal, zero, huge, tiny. */
static inline float
number(bool odd)
{
	static const uint32_t rare[] = {
		0x7F800000, 0xFF800000, 0x7FC12345, 0x7F812345, 0x80000001, 0x007FFFFF, 0, 0x80000000, 0x7F7FFFFF,
		0xFF7F0000, 0x00800000, 0x80810000, 0x00400000, 0x1F800000, 0xA0123456
	};

	if (odd && next_random() % 8 == 0)
		return half_f32_of_bits(rare[next_random() % (sizeof(rare) / sizeof(*rare))]);
	return (float) ((double) (int64_t) next_random() / 9.3e18 * 4);
}

struct trial
{
	struct device *device;
	uint8_t		precision;
	bool		tiles;				/* the chain of sums */
	bool		loose;				/* sums in any order: of tensor cores */
	int64_t		k;
	int64_t		n;
	uint8_t		output;				/* DEVICE_F32 or DEVICE_BF16 */
	uint16_t	fn;
	int			bias;				/* 0: none, 1: a scalar, 2: a vector */
	bool		odd;
	bool		tiny;				/* products about the least normal number */
	float	   *x;					/* ROWS_MAX × k */
	float	   *w;					/* n × k: a column's numbers side by side */
	float	   *b;
};

static inline void
trial_fill(struct trial *t)
{
	t->x = case_alloc((size_t) (ROWS_MAX * t->k) * 4);
	t->w = case_alloc((size_t) (t->n * t->k) * 4);
	t->b = case_alloc((size_t) t->n * 4);
	for (int64_t i = 0; i < ROWS_MAX * t->k; i++)
		t->x[i] = number(t->odd);
	for (int64_t i = 0; i < t->n * t->k; i++)
		t->w[i] = number(t->odd && t->precision == DEVICE_PRECISION_BF16);
	for (int64_t i = 0; i < t->n; i++)
		t->b[i] = number(false);
	for (int64_t i = 0; i < ROWS_MAX * t->k && t->tiny; i++)
		t->x[i] *= 0x1p-63f;
	for (int64_t i = 0; i < t->n * t->k && t->tiny; i++)
		t->w[i] *= 0x1p-64f;
	for (int64_t i = 0; i < ROWS_MAX * t->k && t->tiny && t->k == 2; i += 4)
	{
		/* 2^-126 − 1.5 · 2^-151, nearer to the least normal number than to any denormal one, and yet denormal */
		t->x[i] = -0x1.8p-75f;
		t->x[i + 1] = 0x1p-63f;
		t->w[0] = 0x1p-76f;
		t->w[1] = 0x1p-63f;
	}
	for (int64_t i = 0; i < t->n && t->tiny; i++)
		t->b[i] = half_f32_of_bits((uint32_t) i * 77777);	/* from denormal to normal */
	if (t->precision == DEVICE_PRECISION_BF16)
	{
		for (int64_t i = 0; i < ROWS_MAX * t->k; i++)
			t->x[i] = half_f32_of_bf16(half_bf16_of_f32(t->x[i]));
		for (int64_t i = 0; i < t->n * t->k; i++)
			t->w[i] = half_f32_of_bf16(half_bf16_of_f32(t->w[i]));
	}
}

static inline void
trial_free(struct trial *t)
{
	free(t->x);
	free(t->w);
	free(t->b);
}

static inline struct op_case
trial_case(const struct trial *t, uint8_t source, const void *data)
{
	struct op_case c = {
		.op = {.op = DEVICE_OP_GEMM, .fn = t->fn},
		.inputs_count = t->bias == 0 ? 1 : 2,
		.weight = {
			.type = source, .precision = t->precision, .k = t->k, .n = t->n, .stride_k = 1, .stride_n = t->k,
			.data = data
		}
	};
	int64_t		wide = t->precision == DEVICE_PRECISION_INT8 ? t->k + DEVICE_Q8_SCALE : t->k;

	c.tensors[0] = case_tensor(t->precision == DEVICE_PRECISION_INT8 ? DEVICE_Q8 : DEVICE_BF16,
							   DEVICE_LEAD_ROWS, 1, &wide);
	c.tensors[1] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 1, t->bias == 1 ? (int64_t[]) {1} : &t->n);
	c.tensors[c.inputs_count] = case_tensor(t->output, DEVICE_LEAD_ROWS, 1, &t->n);
	return c;
}

/* x as the product takes it, by the device's own CAST or QUANTISE. */
static inline void *
converted(const struct trial *t)
{
	bool		int8 = t->precision == DEVICE_PRECISION_INT8;
	int64_t		wide = int8 ? t->k + DEVICE_Q8_SCALE : t->k;
	struct op_case c = {.op = {.op = int8 ? DEVICE_OP_QUANTISE : DEVICE_OP_CAST}, .inputs_count = 1};
	struct status status;
	void	   *bindings[2];

	c.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 1, &t->k);
	c.tensors[1] = case_tensor(int8 ? DEVICE_Q8 : DEVICE_BF16, DEVICE_LEAD_ROWS, 1, &wide);
	bindings[0] = t->x;
	bindings[1] = case_alloc((size_t) (ROWS_MAX * wide) * 2);
	status_clear(&status);
	if (!case_compile(&c, t->device) || !case_run(&c, ROWS_MAX, bindings, NULL, &status))
		case_fail("conversion", &status);
	case_free(&c);
	return bindings[1];
}

static inline void *
bindings_run(struct op_case *c, const struct trial *t, void *x, uint32_t rows)
{
	void	   *y = case_alloc((size_t) (rows * t->n) * 4);
	void	   *bindings[3] = {x, t->bias == 0 ? y : t->b, y};
	struct status status;

	status_clear(&status);
	memset(y, 0xAA, (size_t) (rows * t->n) * 4);
	if (!case_run(c, rows, bindings, NULL, &status))
		case_fail("product", &status);
	return y;
}

/* ---- devices ---- */

/* The test of a device, whose name is an instruction set's, or "cuda". */
typedef void (*narrow_test_fn) (struct device *device, const char *arch);

static inline void
narrow_on_cpu(narrow_test_fn test)
{
	for (size_t a = 0; a < sizeof(archs) / sizeof(*archs); a++)
	{
		struct device_options options = {.threads = a % 2 == 0 ? 2 : 1, .arch = archs[a]};
		struct status status;
		struct device *device;

		status_clear(&status);
		device = device_open("cpu", &options, &status);
		if (device == NULL)
		{
			tap_skip(archs[a], status.message);
			continue;
		}
		test(device, archs[a]);
		device->ops->close(device);
	}
}

/* cuda: case_cuda_device's, which is closed. */
static inline void
narrow_on_cuda(struct device *cuda, narrow_test_fn test)
{
	if (cuda != NULL)
	{
		test(cuda, "cuda");
		device_close(cuda);
	}
	else if (case_wants("cuda"))
		tap_skip("cuda", "cannot be opened");
}

#endif /* TEST_KERNELS_NARROW_H */
