/*
 * math.c
 *	  The elementary functions of each instruction set: their error against the C library in
 *	  a wider type, their special values, and that all instruction sets agree to the bit; on the
 *	  CUDA device, that those of our own do, and the errors of CUDA's.
 */
#include <math.h>
#include <stdbool.h>

#include "engine/cpu/kernels/kernels.h"
#include "harness.h"
#include "random.h"
#include "tap.h"

#define POINTS	20003

struct function
{
	const char *name;
	int			fn;
	double		low;
	double		high;
	double		f[2];
	long double (*exact) (long double);
	double		ulps_f32;
	double		ulps_f64;
	double		least;				/* of smaller results the error is counted in this one's ulps */
};

static long double
sigmoid(long double x)
{
	return 1 / (1 + expl(-x));
}

static long double
softplus(long double x)
{
	return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

static long double
mish(long double x)
{
	return x * tanhl(softplus(x));
}

static long double
elu(long double x)
{
	return x < 0 ? expm1l(x) : x;
}

static long double
swish(long double x)
{
	return x * sigmoid(x);
}

static long double
gelu(long double x)
{
	return x * erfcl(-x / sqrtl(2)) / 2;
}

static long double
gelu_tanh(long double x)
{
	return x * sigmoid(2 * sqrtl(2 / (long double) M_PI) * (x + 0.044715L * x * x * x));
}

static long double
probit_back(long double x)
{
	return 0.5L * erfcl(-x / sqrtl(2));
}

/* ulps: the bound that is promised */
static const struct function functions[] = {
	{"exp", UNARY_EXP, -103, 88.7, {0}, expl, 1.5, 1.5},
	{"log", UNARY_LOG, 1e-44, 3e38, {0}, logl, 1.5, 1.5},
	{"log near 1", UNARY_LOG, 0.5, 2, {0}, logl, 1.5, 1.5},
	{"erf", UNARY_ERF, -6.5, 6.5, {0}, erfl, 2, 2},
	{"tanh", UNARY_TANH, -22, 22, {0}, tanhl, 2.25, 2.25},
	{"tanh near 0", UNARY_TANH, -1e-3, 1e-3, {0}, tanhl, 2.25, 2.25},
	{"sigmoid", UNARY_SIGMOID, -80, 40, {0}, sigmoid, 3, 3},
	{"softplus", UNARY_SOFTPLUS, -80, 80, {0}, softplus, 3, 3},
	{"mish", UNARY_MISH, -20, 20, {0}, mish, 5, 5},
	{"elu", UNARY_ELU, -40, 4, {1}, elu, 2.5, 2.5},
	{"swish", UNARY_SWISH, -60, 60, {1}, swish, 4, 4},
	{"gelu", UNARY_GELU, -0.5, 40, {0}, gelu, 2, 4},
	{"gelu below 0", UNARY_GELU, -40, 0, {0}, gelu, 6.5, 400, 0x1p-8},
	{"gelu near 0", UNARY_GELU, -1e-3, 1e-3, {0}, gelu, 2, 2},
	{"gelu by tanh", UNARY_GELU_TANH, -0.5, 40, {0}, gelu_tanh, 2, 4},
	{"gelu by tanh below 0", UNARY_GELU_TANH, -40, 0, {0}, gelu_tanh, 6.5, 700, 0x1p-8},
	{"sin", UNARY_SIN, -100, 100, {0}, sinl, 1, 1},
	{"atanh", UNARY_ATANH, -0.99, 0.99, {0}, atanhl, 3, 3},
};

static const double specials[] = {
	0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 1e-310, -1e-310, 1e-40, -1e-40, 1e-45, 1e300, -1e300,
	3.4e38, -3.4e38, 88.8, -88.8, 104.5, -104.5, 710.0, -746.0, -745.1, 0.5, -0.5, 1e-20, -1e-20
};

static const struct cpu_kernels *const tables[] = {
	&cpu_kernels_scalar,
#ifdef __x86_64__
	&cpu_kernels_avx2,
	&cpu_kernels_avx512,
#endif
};

static bool
available(const struct cpu_kernels *kernels)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if (strcmp(kernels->arch, "avx2") == 0)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	if (strcmp(kernels->arch, "avx512") == 0)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
			__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
#endif
	return true;
}

/* Points of a range; where it spans magnitudes and is positive, in equal ratios. */
static double
point(const struct function *f, int i)
{
	double		part = (double) i / (POINTS - 1);

	if (f->low > 0 && f->high / f->low > 1e6)
		return f->low * pow(f->high / f->low, part);
	return f->low + (f->high - f->low) * part;
}

static double
ulps(bool f32, double got, long double exact, double least)
{
	double		rounded = f32 ? (double) (float) exact : (double) exact;
	long double spacing;

	if (isnan(got) || isinf(rounded))
		return isnan(got) && isnan(rounded) ? 0 : got == rounded ? 0 : 1e9;
	rounded = fmax(fabs(rounded), least);
	if (f32)
		spacing = (long double) nextafterf((float) rounded, INFINITY) - (float) rounded;
	else
		spacing = (long double) nextafter(rounded, INFINITY) - rounded;
	return (double) (fabsl((long double) got - exact) / spacing);
}

static void
accuracy(const struct cpu_kernels *kernels, const struct function *f, bool f32)
{
	static float x32[POINTS];
	static float y32[POINTS];
	static double x64[POINTS];
	static double y64[POINTS];
	double		worst = 0;
	double		worst_at = 0;
	double		bound = f32 ? f->ulps_f32 : f->ulps_f64;

	for (int i = 0; i < POINTS; i++)
	{
		x64[i] = point(f, i);
		x32[i] = (float) x64[i];
	}
	if (f32)
		kernels->f32.unary(f->fn, f->f, x32, y32, POINTS);
	else
		kernels->f64.unary(f->fn, f->f, x64, y64, POINTS);
	for (int i = 0; i < POINTS; i++)
	{
		double		x = f32 ? (double) x32[i] : x64[i];
		double		error = ulps(f32, f32 ? (double) y32[i] : y64[i], f->exact(x), f->least);

		if (error > worst)
		{
			worst = error;
			worst_at = x;
		}
	}
	tap_ok(worst <= bound, "%s %s %s: %.2f ulp at %.9g, promised %.1f", kernels->arch,
		   f32 ? "f32" : "f64", f->name, worst, worst_at, bound);
}

/* The inverse of the normal distribution, by its inverse. */
static void
probit(const struct cpu_kernels *kernels)
{
	double		worst = 0;

	for (int i = 1; i < 1000; i++)
	{
		double		p = i / 1000.0;
		double		x;

		kernels->f64.unary(UNARY_PROBIT, (double[]) {0, 0}, &p, &x, 1);
		worst = fmax(worst, fabs((double) probit_back(x) - p) / p);
	}
	tap_ok(worst < 1e-13, "%s probit: relative error %.1e", kernels->arch, worst);
}

/* IEEE values where the C library's are beyond doubt. */
static void
special_values(const struct cpu_kernels *kernels)
{
	static const struct
	{
		int			fn;
		double		(*exact) (double);
	}			known[] = {
		{UNARY_EXP, exp}, {UNARY_LOG, log}, {UNARY_TANH, tanh}, {UNARY_ERF, erf}, {UNARY_SQRT, sqrt},
		{UNARY_FLOOR, floor}, {UNARY_CEIL, ceil}, {UNARY_ROUND, rint}, {UNARY_ABS, fabs}
	};
	bool		fine = true;

	for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++)
		for (size_t i = 0; i < sizeof(specials) / sizeof(*specials); i++)
		{
			float		x32 = (float) specials[i];
			float		y32;
			double		y64;
			double		f[2] = {0, 0};
			double		exact = known[k].exact(specials[i]);
			double		exact32 = known[k].exact((double) x32);

			kernels->f32.unary(known[k].fn, f, &x32, &y32, 1);
			kernels->f64.unary(known[k].fn, f, &specials[i], &y64, 1);
			if (ulps(true, (double) y32, exact32, 0) > 2.5 || ulps(false, y64, exact, 0) > 2.5 ||
				(!isnan(exact) && !signbit(exact) != !signbit(y64)) ||
				(!isnan(exact32) && !signbit(exact32) != !signbit(y32)))
			{
				printf("# function %d of %g: %g (f32), %g (f64), not %g\n", known[k].fn, specials[i],
					   (double) y32, y64, exact);
				fine = false;
			}
		}
	tap_ok(fine, "%s: zeros, infinities, NaN, denormals, overflow", kernels->arch);
}

#define BITS	4099

/* Any bit pattern, and as many numbers near 0. */
static void
any_numbers(uint32_t *x32, uint64_t *x64)
{
	uint64_t	seed = RANDOM_SEED;

	for (int i = 0; i < BITS; i++)
	{
		x64[i] = random_next(&seed);
		x32[i] = (uint32_t) (seed >> 32);
		if (i % 2 == 0)
		{
			double		near = (double) (int64_t) seed / 1e18;
			float		near32 = (float) near;

			memcpy(&x64[i], &near, 8);
			memcpy(&x32[i], &near32, 4);
		}
	}
}

/* Every function, any bit pattern, at any place of a vector. */
static void
agreement(const struct cpu_kernels *kernels)
{
	static uint32_t x32[BITS];
	static uint64_t x64[BITS];
	static uint32_t y32[2][BITS + 1];
	static uint64_t y64[2][BITS + 1];

	any_numbers(x32, x64);
	for (int fn = 0; fn < UNARY_NOT; fn++)
	{
		double		f[2] = {0.25, 1.5};
		bool		same;

		cpu_kernels_scalar.f32.unary(fn, f, x32, y32[0], BITS);
		cpu_kernels_scalar.f64.unary(fn, f, x64, y64[0], BITS);
		kernels->f32.unary(fn, f, x32, y32[1], BITS);
		kernels->f64.unary(fn, f, x64, y64[1], BITS);
		same = memcmp(y32[0], y32[1], sizeof(y32[0])) == 0 && memcmp(y64[0], y64[1], sizeof(y64[0])) == 0;
		/* one at a time */
		for (int i = 0; i < BITS; i++)
		{
			uint32_t	one32;
			uint64_t	one64;

			kernels->f32.unary(fn, f, &x32[i], &one32, 1);
			kernels->f64.unary(fn, f, &x64[i], &one64, 1);
			same = same && one32 == y32[1][i] && one64 == y64[1][i];
		}
		tap_ok(same, "%s: function %d has the bits of one lane", kernels->arch, fn);
	}
}

/* ---- the CUDA device ---- */

/* What is not made of operations that IEEE 754 defines, but is CUDA's. */
static bool
is_library(int fn)
{
	return (fn >= UNARY_SIN && fn <= UNARY_ATANH) || fn == UNARY_PROBIT;
}

/* y = fn(x) of n numbers, which are one item. */
static bool
device_unary(struct device *device, int fn, const double f[2], uint8_t type, const void *x, void *y, int64_t n)
{
	struct op_case c = {.op = {.op = DEVICE_OP_UNARY, .fn = (uint16_t) fn, .f = {f[0], f[1]}}, .inputs_count = 1};
	struct status status;
	bool		fine;

	status_clear(&status);
	c.tensors[0] = c.tensors[1] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &n);
	fine = case_compile(&c, device) && (device->ops->supports(device, &c.op, c.tensors) & DEVICE_SUPPORTS_HOST) == 0 &&
		case_run(&c, 1, (void *[]) {(void *) x, y}, NULL, &status);
	case_free(&c);
	return fine;
}

static void
cuda_agreement(struct device *device)
{
	static uint32_t x32[BITS] __attribute__((aligned(DEVICE_ALIGN)));
	static uint64_t x64[BITS] __attribute__((aligned(DEVICE_ALIGN)));
	static uint32_t y32[2][BITS + 13] __attribute__((aligned(DEVICE_ALIGN)));
	static uint64_t y64[2][BITS + 5] __attribute__((aligned(DEVICE_ALIGN)));

	any_numbers(x32, x64);
	for (int fn = 0; fn < UNARY_NOT; fn++)
	{
		const double f[2] = {0.25, 1.5};
		bool		same;

		if (is_library(fn))
			continue;
		cpu_kernels_scalar.f32.unary(fn, f, x32, y32[0], BITS);
		cpu_kernels_scalar.f64.unary(fn, f, x64, y64[0], BITS);
		same = device_unary(device, fn, f, DEVICE_F32, x32, y32[1], BITS) &&
			device_unary(device, fn, f, DEVICE_F64, x64, y64[1], BITS);
		for (int i = 0; i < BITS && same; i++)
			if (y32[0][i] != y32[1][i] || y64[0][i] != y64[1][i])
			{
				printf("# %08x gives %08x, not %08x; %016llx %016llx, not %016llx\n", x32[i], y32[1][i], y32[0][i],
					   (unsigned long long) x64[i], (unsigned long long) y64[1][i], (unsigned long long) y64[0][i]);
				same = false;
			}
		tap_ok(same, "cuda: function %d has the bits of the CPU's", fn);
	}
}

/* CUDA C++ Programming Guide, Mathematical Functions: at most 4 ulps of any of these. */
static void
cuda_library(struct device *device)
{
	static const struct
	{
		int			fn;
		double		low;
		double		high;
		long double (*exact) (long double);
	}			library[] = {
		{UNARY_SIN, -100, 100, sinl}, {UNARY_COS, -100, 100, cosl}, {UNARY_TAN, -1.5, 1.5, tanl},
		{UNARY_ASIN, -1, 1, asinl}, {UNARY_ACOS, -1, 1, acosl}, {UNARY_ATAN, -50, 50, atanl},
		{UNARY_SINH, -80, 80, sinhl}, {UNARY_COSH, -80, 80, coshl},
		{UNARY_ASINH, -1e6, 1e6, asinhl}, {UNARY_ACOSH, 1, 1e6, acoshl}, {UNARY_ATANH, -0.99, 0.99, atanhl}
	};
	static float x32[BITS] __attribute__((aligned(DEVICE_ALIGN)));
	static double x64[BITS] __attribute__((aligned(DEVICE_ALIGN)));
	static float y32[BITS + 13] __attribute__((aligned(DEVICE_ALIGN)));
	static double y64[BITS + 5] __attribute__((aligned(DEVICE_ALIGN)));

	for (size_t l = 0; l < sizeof(library) / sizeof(*library); l++)
	{
		const double f[2] = {0, 0};
		double		worst = 0;

		for (int i = 0; i < BITS; i++)
		{
			x64[i] = library[l].low + (library[l].high - library[l].low) * i / (BITS - 1);
			x32[i] = (float) x64[i];
		}
		if (!device_unary(device, library[l].fn, f, DEVICE_F32, x32, y32, BITS) ||
			!device_unary(device, library[l].fn, f, DEVICE_F64, x64, y64, BITS))
			worst = INFINITY;
		for (int i = 0; i < BITS; i++)
		{
			worst = fmax(worst, ulps(true, (double) y32[i], library[l].exact((long double) x32[i]), 0));
			worst = fmax(worst, ulps(false, y64[i], library[l].exact((long double) x64[i]), 0));
		}
		tap_ok(worst <= 4.5, "cuda: function %d, %.2f ulp", library[l].fn, worst);
	}
}

int
main(void)
{
	struct device *cuda = case_cuda_device(1);

	if (cuda != NULL)
	{
		cuda_agreement(cuda);
		cuda_library(cuda);
		device_close(cuda);
	}
	else if (case_wants("cuda"))
		tap_skip("cuda", "cannot be opened");
	for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
	{
		if (!case_wants("cpu"))
			continue;
		if (!available(tables[t]))
		{
			tap_skip(tables[t]->arch, "not on this processor");
			continue;
		}
		for (size_t f = 0; f < sizeof(functions) / sizeof(*functions); f++)
		{
			accuracy(tables[t], &functions[f], true);
			accuracy(tables[t], &functions[f], false);
		}
		probit(tables[t]);
		special_values(tables[t]);
		agreement(tables[t]);
	}
	return tap_done();
}
