/*
 * narrow.c
 *	  Products in bf16 and int8, and the conversions around them: the bits that device.h
 *	  promises, computed here one number at a time, on every instruction set; for any number of
 *	  rows; for K and N that fill nothing; for numbers that are none.
 *
 * An instruction set that the processor lacks is skipped and says what it needs; that of tiles is
 * there in software too.
 */
#include <float.h>
#include <math.h>

#include "engine/half.h"
#include "harness.h"
#include "random.h"
#include "tap.h"

#define ROWS_MAX	1024

static const char *const archs[] = {
	"scalar", "avx2", "avx2-vnni", "avx512", "avx512-vnni", "avx512-bf16", "amx", "tiles"
};
static const uint32_t row_counts[] = {1, 2, 3, 17, 33, 128, 257};	/* beside ROWS_MAX */

/* About −2 … 2; of an odd kind now and then: infinite, NaN, denormal, zero, huge, tiny. */
static float
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

/* ---- the reference ---- */

static float
flush(float x)
{
	return isnan(x) || fabsf(x) >= FLT_MIN ? x : copysignf(0, x);
}

/* One rounding to 24 bits; then what is denormal, as if exponents had no end, is zero. */
static float
multiply_add(float a, float b, float c)
{
	double		product = (double) flush(a) * (double) flush(b);
	float		sum = fmaf(flush(a), flush(b), flush(c));

	if (fabs(product + (double) flush(c)) < 0x1p-126 - 0x1p-151)
		return copysignf(0, sum);
	return sum;
}

static float
canonical(float x)
{
	return isnan(x) ? half_f32_of_bits(0x7FC00000) : x;
}

/* x and w: float32 that bf16 can hold; w of one column. */
static float
chain_of_pairs(const float *x, const float *w, int64_t k_all)
{
	float		sum = 0;

	for (int64_t k = 0; k < k_all; k += 2)
	{
		bool		pair = k + 1 < k_all;

		sum = multiply_add(pair ? x[k + 1] : 0, pair ? w[k + 1] : 0, sum);
		sum = multiply_add(x[k], w[k], sum);
	}
	return sum;
}

static float
chain_of_tiles(const float *x, const float *w, int64_t k_all)
{
	float		sum = 0;

	for (int64_t k0 = 0; k0 < k_all; k0 += 32)
	{
		float		part[2] = {0, 0};

		for (int64_t k = k0; k < k0 + 32; k++)
			part[k % 2] = multiply_add(k < k_all ? x[k] : 0, k < k_all ? w[k] : 0, part[k % 2]);
		sum = multiply_add(1, sum, multiply_add(1, part[0], part[1]));
	}
	return sum;
}

static float
int8_sum(const float *x, const float *w, float b, int64_t k_all)
{
	const float *v[2] = {x, w};
	float		most[2] = {0, 0};
	float		scale[2];
	int64_t		sum = 0;

	for (int i = 0; i < 2; i++)
	{
		for (int64_t k = 0; k < k_all; k++)
			most[i] = isfinite(v[i][k]) && isfinite(most[i]) ? fmaxf(most[i], fabsf(v[i][k])) : NAN;
		scale[i] = isnan(most[i]) ? NAN : most[i] < 0x1p-100f ? 0 : most[i] / 127;
	}
	for (int64_t k = 0; k < k_all; k++)
		if (scale[0] > 0 && scale[1] > 0)
			sum += (int64_t) rintf(x[k] * (127 / most[0])) * (int64_t) rintf(w[k] * (127 / most[1]));
	return fmaf((float) sum * scale[0], scale[1], b);
}

/* ---- a product ---- */

struct shape
{
	int64_t		k;
	int64_t		n;
};

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

static void
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

static void
trial_free(struct trial *t)
{
	free(t->x);
	free(t->w);
	free(t->b);
}

static struct op_case
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
static void *
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

static void *
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

/* The bits of an element. */
static uint32_t
expected(const struct trial *t, int64_t m, int64_t n)
{
	const float *x = t->x + m * t->k;
	const float *w = t->w + n * t->k;
	float		b = t->bias == 0 ? -0.0f : t->b[t->bias == 1 ? 0 : n];
	float		sum = t->precision == DEVICE_PRECISION_INT8 ? int8_sum(x, w, b, t->k) :
		(t->tiles ? chain_of_tiles(x, w, t->k) : chain_of_pairs(x, w, t->k)) + b;

	sum = canonical(sum);
	if (t->fn == UNARY_RELU)
		sum = sum < 0 ? 0 : sum;
	return t->output == DEVICE_BF16 ? half_bf16_of_f32(sum) : half_bits_of_f32(sum);
}

/* Whether a sum in float32 may be so, whatever its order; products that may overflow may give anything. */
static bool
near_enough(const struct trial *t, int64_t m, int64_t n, uint32_t bits)
{
	const float *x = t->x + m * t->k;
	const float *w = t->w + n * t->k;
	double		sum = t->bias == 0 ? 0 : (double) t->b[t->bias == 1 ? 0 : n];
	double		all = fabs(sum);
	double		got = (double) half_f32_of_bits(t->output == DEVICE_BF16 ? bits << 16 : bits);

	for (int64_t k = 0; k < t->k; k++)
	{
		double		product = (double) x[k] * (double) w[k];

		sum += product;
		all += isfinite(product) ? fabs(product) : 0;
	}
	if (all > 1e38)
		return true;
	if (t->fn == UNARY_RELU && sum < 0)
		sum = 0;
	if (!isfinite(sum))
		return isnan(sum) ? isnan(got) : got == sum;
	return fabs(got - sum) <= all * 0x1p-20 + (t->output == DEVICE_BF16 ? fabs(sum) * 0x1p-8 : 0) + (double) t->k * 0x1p-126;
}

static bool
right_bits(const struct trial *t, const void *y, int64_t rows)
{
	for (int64_t m = 0; m < rows; m++)
		for (int64_t n = 0; n < t->n; n++)
		{
			int64_t		at = m * t->n + n;
			uint32_t	got = t->output == DEVICE_BF16 ? ((const uint16_t *) y)[at] : ((const uint32_t *) y)[at];
			uint32_t	wanted = expected(t, m, n);

			if (t->loose ? !near_enough(t, m, n, got) : got != wanted)
			{
				printf("# K %lld N %lld: row %lld column %lld is %08x, not %08x\n", (long long) t->k,
					   (long long) t->n, (long long) m, (long long) n, got, wanted);
				return false;
			}
		}
	return true;
}

/* All numbers of rows: the first are right, and every row is as it is alone. */
static bool
trial_run(struct trial t)
{
	struct op_case c;
	size_t		row_bytes = (size_t) t.n * (t.output == DEVICE_BF16 ? 2 : 4);
	uint8_t    *most;
	uint8_t    *x;
	size_t		x_bytes;
	bool		fine = true;

	trial_fill(&t);
	c = trial_case(&t, DEVICE_F32, t.w);
	if (!case_compile(&c, t.device))
	{
		printf("# not supported\n");
		return false;
	}
	x = converted(&t);
	for (int64_t i = 0; i < ROWS_MAX * t.k && t.tiny && t.k != 2; i += 5)
	{
		uint16_t	denormal = (uint16_t) (next_random() & 0x807F);	/* which no cast makes */

		memcpy(x + i * 2, &denormal, sizeof(denormal));
		t.x[i] = half_f32_of_bf16(denormal);
	}
	x_bytes = case_bytes(&c.tensors[0], 1);
	most = bindings_run(&c, &t, x, ROWS_MAX);
	for (size_t i = 0; i < sizeof(row_counts) / sizeof(*row_counts) && fine; i++)
	{
		uint32_t	rows = row_counts[i];
		uint32_t	first = (uint32_t) (next_random() % (ROWS_MAX - rows));
		void	   *y = bindings_run(&c, &t, x + first * x_bytes, rows);

		fine = memcmp(y, most + first * row_bytes, rows * row_bytes) == 0;
		if (!fine)
			printf("# K %lld N %lld: %u rows differ from 1024\n", (long long) t.k, (long long) t.n, rows);
		free(y);
	}
	fine = fine && right_bits(&t, most, t.k * t.n > 50000 ? 5 : 40);
	case_free(&c);
	free(x);
	free(most);
	trial_free(&t);
	return fine;
}

static void
test_products(struct device *device, const char *arch, uint8_t precision, bool tiles, bool loose)
{
	static const struct shape shapes[] = {
		{1, 1}, {2, 3}, {3, 33}, {5, 16}, {7, 31}, {15, 65}, {31, 32}, {33, 100}, {64, 48}, {65, 257}, {130, 34},
		{384, 96}, {1023, 35}, {2048, 17}
	};
	bool		fine = true;
	bool		odd = true;
	bool		tiny = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
	{
		struct trial t = {
			.device = device, .precision = precision, .tiles = tiles, .loose = loose, .k = shapes[s].k, .n = shapes[s].n,
			.output = s % 2 == 0 ? DEVICE_F32 : DEVICE_BF16, .fn = s % 3 == 1 ? UNARY_RELU : UNARY_NONE,
			.bias = (int) (s % 3)
		};

		if (t.k > 64 && case_hurries(device))
			break;
		fine = trial_run(t) && fine;
		t.odd = true;
		t.output = s % 2 == 1 ? DEVICE_F32 : DEVICE_BF16;
		odd = trial_run(t) && odd;
		t.odd = false;
		t.tiny = true;
		if (precision == DEVICE_PRECISION_BF16 && t.k < 200)
			tiny = trial_run(t) && tiny;
	}
	tap_ok(fine, "%s, %s: %s the reference, for any number of rows", arch, device_precision_name(precision),
		   loose ? "near" : "the bits of");
	tap_ok(odd, "%s, %s: infinities, NaN, zeros, huge numbers", arch, device_precision_name(precision));
	if (precision == DEVICE_PRECISION_BF16)
		tap_ok(tiny, "%s, bf16: denormal numbers and sums", arch);
}

/* ---- weights ---- */

/* Two matrices pack into the same bytes. */
static bool
same_weight(struct device *device, const struct device_weight_desc *a, const struct device_weight_desc *b)
{
	struct status status;
	struct device_weight *weights[2];
	const void *data[2];
	uint64_t	bytes[2];
	bool		same;

	status_clear(&status);
	weights[0] = device->ops->weight_pack(device, a, &status);
	weights[1] = device->ops->weight_pack(device, b, &status);
	if (weights[0] == NULL || weights[1] == NULL)
		case_fail("weight_pack", &status);
	for (int i = 0; i < 2; i++)
		data[i] = device->ops->weight_data(device, weights[i], &bytes[i]);
	same = bytes[0] == bytes[1] && memcmp(data[0], data[1], bytes[0]) == 0 &&
		device->ops->weight_size(device, a) == device->ops->weight_size(device, b);
	device->ops->weight_free(device, weights[0]);
	device->ops->weight_free(device, weights[1]);
	return same;
}

static void
test_sources(struct device *device, const char *arch)
{
	enum
	{
		K = 37, N = 45
	};
	static uint16_t half[K * N];
	static float full[K * N];
	static float turned[K * N];
	bool		fine = true;

	for (int source = 0; source < 2; source++)
	{
		for (int i = 0; i < K * N; i++)
		{
			half[i] = source == 0 ? (uint16_t) (next_random() & 0xBFFF) : half_bf16_of_f32(number(false));
			full[i] = source == 0 ? half_f32_of_f16(half[i]) : half_f32_of_bf16(half[i]);
			turned[i % N * K + i / N] = full[i];
		}
		for (uint8_t precision = 0; precision < DEVICE_PRECISIONS; precision++)
		{
			struct device_weight_desc a = {
				.type = source == 0 ? DEVICE_F16 : DEVICE_BF16, .precision = precision, .k = K, .n = N, .stride_k = N,
				.stride_n = 1, .data = half
			};
			struct device_weight_desc b = {
				.type = DEVICE_F32, .precision = precision, .k = K, .n = N, .stride_k = 1, .stride_n = K, .data = turned
			};

			fine = same_weight(device, &a, &b) && fine;
		}
	}
	tap_ok(fine, "%s: a weight of two bytes a number packs as what it means", arch);
}

/* What weight_data gave makes the same weight. */
static void
test_map(struct device *device, const char *arch)
{
	bool		fine = true;

	for (uint8_t precision = DEVICE_PRECISION_BF16; precision < DEVICE_PRECISIONS; precision++)
	{
		struct trial t = {
			.device = device, .precision = precision, .k = 35, .n = 70, .output = DEVICE_F32
		};
		struct op_case c;
		struct device_weight *packed;
		struct status status;
		void	   *results[2];
		void	   *x;
		void	   *copy;
		const void *data;
		uint64_t	bytes;

		status_clear(&status);
		trial_fill(&t);
		c = trial_case(&t, DEVICE_F32, t.w);
		case_compile(&c, device);
		x = converted(&t);
		results[0] = bindings_run(&c, &t, x, 20);
		data = device->ops->weight_data(device, c.packed, &bytes);
		copy = case_alloc(bytes);
		memcpy(copy, data, bytes);
		packed = c.packed;
		case_free(&c);
		packed = device->ops->weight_map(device, &c.weight, copy, bytes, &status);
		fine = fine && packed != NULL &&
			device->ops->weight_map(device, &c.weight, copy, bytes - DEVICE_ALIGN, &status) == NULL;
		c.weight.data = NULL;
		if (packed != NULL)
		{
			struct device_weight *again;
			struct device_graph graph = {
				.tensors_count = 2, .tensors = c.tensors, .ops_count = 1, .ops = &c.op, .weights_count = 1,
				.weights = &again, .bindings_count = 2
			};

			again = packed;
			c.program = device->ops->compile(device, &graph, &status);
			c.queue = device->ops->queue_create(device, 0, &status);
			c.packed = packed;
			results[1] = bindings_run(&c, &t, x, 20);
			fine = fine && memcmp(results[0], results[1], (size_t) (20 * t.n) * 4) == 0;
			free(results[1]);
			case_free(&c);
		}
		free(results[0]);
		free(x);
		free(copy);
		trial_free(&t);
	}
	tap_ok(fine, "%s: a mapped weight gives the bits of the packed one", arch);
}

static void
refused(struct device *device, struct device_weight_desc desc, const char *part)
{
	struct status status;
	struct device_weight *weight;

	status_clear(&status);
	weight = device->ops->weight_pack(device, &desc, &status);
	tap_ok(weight == NULL && strstr(status.message, part) != NULL, "refused: %s", status.message);
}

static void
test_refusals(struct device *device)
{
	float		w[4] = {1, 2, NAN, 4};
	double		w64[4] = {1, 2, 3, 4};
	struct device_weight_desc desc = {
		.type = DEVICE_F32, .precision = DEVICE_PRECISION_INT8, .k = 2, .n = 2, .stride_k = 2, .stride_n = 1, .data = w
	};
	int64_t		three = 3;
	struct op_case c = {.op = {.op = DEVICE_OP_UNARY, .fn = UNARY_RELU}, .inputs_count = 1};

	refused(device, desc, "not finite");
	w[2] = INFINITY;
	refused(device, desc, "not finite");
	w[2] = 3;
	desc.k = DEVICE_Q8_MAX + 1;
	refused(device, desc, "65536");
	desc.k = 2;
	desc.precision = DEVICE_PRECISIONS;
	refused(device, desc, "no such precision");
	desc.precision = DEVICE_PRECISION_BF16;
	desc.type = DEVICE_I32;
	refused(device, desc, "int32");
	desc.type = DEVICE_F64;
	desc.data = w64;
	refused(device, desc, "float64");

	for (uint8_t type = DEVICE_BF16; type <= DEVICE_Q8; type++)
	{
		c.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &three);
		c.tensors[1] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &three);
		tap_ok(!case_compile(&c, device), "a function of %s is not supported", device_type_name(type));
	}
}

/* The exact sum of the longest vectors that are taken, all at their ends. */
static void
test_longest(struct device *device, const char *arch)
{
	struct trial t = {
		.device = device, .precision = DEVICE_PRECISION_INT8, .k = DEVICE_Q8_MAX, .n = 33, .output = DEVICE_F32
	};
	struct op_case c;
	uint8_t    *x = case_alloc((size_t) (3 * (t.k + DEVICE_Q8_SCALE)));
	float	   *y;
	float		scale = 1;
	bool		fine = true;

	t.w = case_alloc((size_t) (t.n * t.k) * 4);
	for (int64_t i = 0; i < t.n * t.k; i++)
		t.w[i] = i / t.k % 2 == 0 ? 127 : -127;
	for (int64_t m = 0; m < 3; m++)
	{
		memset(x + m * (t.k + DEVICE_Q8_SCALE), m == 0 ? DEVICE_Q8_ZERO + 127 : DEVICE_Q8_ZERO - 127, (size_t) t.k);
		memcpy(x + m * (t.k + DEVICE_Q8_SCALE) + t.k, &scale, sizeof(scale));
	}
	c = trial_case(&t, DEVICE_F32, t.w);
	case_compile(&c, device);
	y = bindings_run(&c, &t, x, 3);
	for (int64_t i = 0; i < 3 * t.n; i++)
		fine = fine && y[i] == ((i / t.n == 0) == (i % t.n % 2 == 0) ? 1 : -1) * (float) (127 * 127 * t.k);
	tap_ok(fine, "%s: 65536 greatest products add up", arch);
	case_free(&c);
	free(x);
	free(y);
	free(t.w);
}

/* ---- conversions ---- */

/* Nearest, halves to even, by the distances to all that there is. */
static uint16_t
nearest_bf16(float x)
{
	uint16_t	below = (uint16_t) (half_bits_of_f32(x) >> 16);
	double		low = (double) half_f32_of_bf16(below);
	double		high = (below & 0x7FFF) == 0x7F7F ? copysign(0x1p128, low) :
		(double) half_f32_of_bf16((uint16_t) (below + 1));
	double		nearer = fabs((double) x - low) - fabs(high - (double) x);

	if (isnan(x))
		return below | 0x40;
	if (isinf(x))
		return below;
	if (fabsf(x) < FLT_MIN)
		return below & 0x8000;
	return (uint16_t) (nearer < 0 || (nearer == 0 && below % 2 == 0) ? below : below + 1);
}

static void
test_casts(struct device *device, const char *arch)
{
	enum
	{
		COUNT = 65536 + 3
	};
	static float full[COUNT];
	static float back[COUNT];
	static uint16_t half[COUNT];
	struct status status;
	int64_t		one = 1;
	bool		rounded = true;
	bool		exact[2] = {true, true};

	status_clear(&status);
	for (int i = 0; i < COUNT; i++)
		full[i] = half_f32_of_bits(i < 65536 ? (uint32_t) i << 16 | (i % 3 == 0 ? 0x8000 : i % 3 == 1 ? 0x7FFF : 0x8001) :
								   (uint32_t) next_random());
	for (int i = 0; i < 3; i++)
	{
		uint8_t		from = i == 0 ? DEVICE_F32 : i == 1 ? DEVICE_BF16 : DEVICE_F16;
		struct op_case c = {.op = {.op = DEVICE_OP_CAST}, .inputs_count = 1};
		void	   *bindings[2] = {i == 0 ? (void *) full : (void *) half, i == 0 ? (void *) half : (void *) back};

		c.tensors[0] = case_tensor(from, DEVICE_LEAD_ROWS, 1, &one);
		c.tensors[1] = case_tensor(i == 0 ? DEVICE_BF16 : DEVICE_F32, DEVICE_LEAD_ROWS, 1, &one);
		if (!case_compile(&c, device) || !case_run(&c, COUNT, bindings, NULL, &status))
			case_fail("cast", &status);
		for (int e = 0; e < COUNT && i == 0; e++)
			rounded = rounded && half[e] == nearest_bf16(full[e]);
		for (int e = 0; e < COUNT && i > 0; e++)
		{
			double		value = i == 1 ? (double) half_f32_of_bits((uint32_t) half[e] << 16) :
				half[e] % 0x8000 >= 0x7C00 ? (half[e] % 0x400 != 0 ? NAN : half[e] < 0x8000 ? INFINITY : -INFINITY) :
				(half[e] < 0x8000 ? 1 : -1) * (half[e] / 0x400 % 32 == 0 ? ldexp(half[e] % 0x400, -24) :
											   ldexp(half[e] % 0x400 + 0x400, half[e] / 0x400 % 32 - 25));

			exact[i - 1] = exact[i - 1] && (isnan(value) ? isnan(back[e]) : (double) back[e] == value &&
											!signbit(value) == !signbit(back[e]));
		}
		case_free(&c);
		for (int e = 0; e < COUNT; e++)
			half[e] = (uint16_t) e;
	}
	tap_ok(rounded, "%s: float32 to bfloat16, to nearest", arch);
	tap_ok(exact[0], "%s: bfloat16 to float32", arch);
	tap_ok(exact[1], "%s: float16 to float32", arch);
}

/* Whole numbers and scale of vectors, of ordinary ones and of those that have none. */
static void
test_quantise(struct device *device, const char *arch)
{
	static const int64_t lengths[] = {1, 3, 16, 31, 64, 100, 384};
	bool		fine = true;

	for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
		for (int kind = 0; kind < 5; kind++)
		{
			struct trial t = {
				.device = device, .precision = DEVICE_PRECISION_INT8, .k = lengths[l], .n = 1, .odd = kind == 1
			};
			uint8_t    *q;

			trial_fill(&t);
			for (int64_t i = 0; i < ROWS_MAX * t.k && kind >= 2; i++)
				t.x[i] = kind == 2 ? 0 : t.x[i] * (kind == 3 ? 0x1p-103f : 0x1p126f);
			q = converted(&t);
			for (int64_t m = 0; m < ROWS_MAX; m++)
			{
				const float *x = t.x + m * t.k;
				const uint8_t *row = q + m * (t.k + DEVICE_Q8_SCALE);
				float		most = 0;
				float		scale;
				bool		finite = true;

				for (int64_t k = 0; k < t.k; k++)
				{
					finite = finite && isfinite(x[k]);
					most = fmaxf(most, fabsf(x[k]));
				}
				memcpy(&scale, row + t.k, sizeof(scale));
				fine = fine && (!finite ? isnan(scale) : scale == (most < 0x1p-100f ? 0 : most / 127));
				for (int64_t k = 0; k < t.k; k++)
					fine = fine && row[k] == (!finite || most < 0x1p-100f ? DEVICE_Q8_ZERO :
											  DEVICE_Q8_ZERO + (int) rintf(x[k] * (127 / most)));
			}
			free(q);
			trial_free(&t);
		}
	tap_ok(fine, "%s: vectors in whole numbers", arch);
}

/* The same choice at each start, whatever was measured. */
static void
test_choice(void)
{
	struct device_info infos[2];
	bool		fine = true;

	for (int i = 0; i < 2; i++)
	{
		struct device *device = case_device("cpu", NULL, 1);

		device->ops->info(device, &infos[i]);
		device->ops->close(device);
		for (int p = 0; p < DEVICE_PRECISIONS; p++)
			fine = fine && infos[i].flops[p] > 0 && (infos[i].precisions & 1u << p) != 0;
		fine = fine && infos[i].precision_default != DEVICE_PRECISION_INT8;
	}
	printf("# %s: %s, default %s\n", infos[0].numerics_id, infos[0].products,
		   device_precision_name(infos[0].precision_default));
	tap_ok(fine, "a device has all precisions, and int8 is asked for");
	tap_ok(strcmp(infos[0].numerics_id, infos[1].numerics_id) == 0, "its numerics id is the same at the next start");
	tap_ok((strstr(infos[0].numerics_id, "-bf16") != NULL) == (infos[0].precision_default == DEVICE_PRECISION_BF16),
		   "and says which precision models have that ask for none");
}

static void
test_device(struct device *device, const char *arch)
{
	struct device_info info;
	bool		cuda = strcmp(arch, "cuda") == 0;

	device->ops->info(device, &info);
	printf("# %s: %s\n", arch, info.products);
	test_casts(device, arch);
	test_quantise(device, arch);
	test_products(device, arch, DEVICE_PRECISION_BF16, strstr(info.numerics_id, "tiles") != NULL, cuda);
	test_products(device, arch, DEVICE_PRECISION_INT8, false, false);
	if (!cuda)						/* which keeps no packed weights for another time */
	{
		test_sources(device, arch);
		test_map(device, arch);
	}
	test_longest(device, arch);
}

static void
test_cpu(void)
{
	test_choice();
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
		test_device(device, archs[a]);
		if (a == 0)
			test_refusals(device);
		device->ops->close(device);
	}
}

int
main(void)
{
	struct device *cuda = case_cuda_device(1);

	if (case_wants("cpu"))
		test_cpu();
	if (cuda != NULL)
	{
		test_device(cuda, "cuda");
		test_refusals(cuda);
		device_close(cuda);
	}
	else if (case_wants("cuda"))
		tap_skip("cuda", "cannot be opened");
	return tap_done();
}
