/*
 * narrow.c
 *	  Products in bf16 and int8: the bits that device.h promises, computed here one number at a time, on every
 *	  instruction set; for any number of rows; for K and N that fill nothing; for numbers that are none.
 */
#include <float.h>
#include <math.h>

#include "narrow.h"

static const uint32_t row_counts[] = {1, 2, 3, 17, 33, 128, 257};	/* beside ROWS_MAX */

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

/* ---- products ---- */

struct shape
{
	int64_t		k;
	int64_t		n;
};

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

	device->ops->info(device, &info);
	printf("# %s: %s\n", arch, info.products);
	test_products(device, arch, DEVICE_PRECISION_BF16, strstr(info.numerics_id, "tiles") != NULL, strcmp(arch, "cuda") == 0);
	test_products(device, arch, DEVICE_PRECISION_INT8, false, false);
	test_longest(device, arch);
}

int
main(void)
{
	struct device *cuda = case_cuda_device(1);

	if (case_wants("cpu"))
	{
		test_choice();
		narrow_on_cpu(test_device);
	}
	narrow_on_cuda(cuda, test_device);
	return tap_done();
}
