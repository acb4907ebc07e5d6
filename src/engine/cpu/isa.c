/*
 * isa.c
 *	  Instruction sets: which kernels the processor can run, and which of these are the fastest.
 *
 * Nouns
 *	isa			kernels of each precision by one name, and what they need of the processor
 *	feature		something that a processor (and its kernel) has or has not
 *
 * Loop
 *	A name (options.arch, else the environment's INFER_CPU) takes the kernels of that isa.  Without one,
 *	float32 is computed by the widest vectors, and bf16 and int8 by the fastest of what goes with
 *	those: each is measured for some hundred microseconds.
 *
 * Invariants
 *	Kernels in pairs give the same bits, and so do all of int8: choosing among them changes speed alone.
 *	Tiles, which have bits of their own, are chosen where they are CLEARLY as fast again, and bf16
 *	is the default precision where it is so against float32, and then attention in bf16 is there to be
 *	asked for; so that the same machine chooses the
 *	same at each start.
 */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../protocol/protocol.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#define CLEARLY			1.3
#define MEASURE_TRIES	12

enum feature
{
	FEATURE_AVX2 = 1 << 0,
	FEATURE_AVX512 = 1 << 1,
	FEATURE_AVX_VNNI = 1 << 2,
	FEATURE_AVX512_VNNI = 1 << 3,
	FEATURE_AVX512_BF16 = 1 << 4,
	FEATURE_AMX = 1 << 5,
	FEATURES_COUNT = 6
};

static const char *const feature_names[FEATURES_COUNT] = {
	"AVX2, FMA and F16C", "AVX-512 F, BW, DQ and VL", "AVX-VNNI", "AVX512_VNNI", "AVX512_BF16",
	"AMX (tiles, bf16 and int8)"
};

struct isa
{
	const char *name;
	uint32_t	needs;				/* enum feature */
	const struct cpu_kernels *kernels;
	const struct cpu_narrow_kernels *bf16;
	const struct cpu_narrow_kernels *int8;
	const struct cpu_narrow_casts *casts;
	void		(*attention_bf16) (const struct cpu_attention *, int64_t, int64_t);
};

/* Of those with the same float32 kernels, the first is what the others fall back to; the widest last. */
static const struct isa isas[] = {
	{"scalar", 0, &cpu_kernels_scalar, &cpu_bf16_scalar, &cpu_int8_scalar, &cpu_casts_scalar},
#ifdef __x86_64__
	{"avx2", FEATURE_AVX2, &cpu_kernels_avx2, &cpu_bf16_plain_avx2, &cpu_int8_plain_avx2, &cpu_casts_avx2},
	{
		"avx2-vnni", FEATURE_AVX2 | FEATURE_AVX_VNNI, &cpu_kernels_avx2, &cpu_bf16_plain_avx2,
		&cpu_int8_vnni_avx2, &cpu_casts_avx2
	},
	{
		"avx512", FEATURE_AVX2 | FEATURE_AVX512, &cpu_kernels_avx512, &cpu_bf16_plain_avx512,
		&cpu_int8_plain_avx512, &cpu_casts_avx512
	},
	{
		"avx512-vnni", FEATURE_AVX2 | FEATURE_AVX512 | FEATURE_AVX512_VNNI, &cpu_kernels_avx512,
		&cpu_bf16_plain_avx512, &cpu_int8_vnni_avx512, &cpu_casts_avx512
	},
	{
		"avx512-bf16", FEATURE_AVX2 | FEATURE_AVX512 | FEATURE_AVX512_VNNI | FEATURE_AVX512_BF16,
		&cpu_kernels_avx512, &cpu_bf16_avx512, &cpu_int8_vnni_avx512, &cpu_casts_bf16_avx512,
		&cpu_attention_bf16_avx512
	},
	{
		"amx", FEATURE_AVX2 | FEATURE_AVX512 | FEATURE_AVX512_BF16 | FEATURE_AMX,
		&cpu_kernels_avx512, &cpu_bf16_amx, &cpu_int8_amx, &cpu_casts_bf16_avx512
	},
#endif
	/* for tests: AMX in software, beside the best float32 */
	{"tiles", 0, NULL, &cpu_bf16_tiles, &cpu_int8_tiles, NULL}
};

#define ISAS_COUNT	(sizeof(isas) / sizeof(*isas))

/* ---- features ---- */

#ifdef __x86_64__
#define CPUID_AMX	(1u << 22 | 1u << 24 | 1u << 25)	/* leaf 7, edx: bf16, tiles, int8 */
#define XCR0_TILES	(1u << 17 | 1u << 18)	/* their configuration and data */
#define REQUEST_PERMISSION	0x1023		/* arch_prctl: ARCH_REQ_XCOMP_PERM, asm/prctl.h since Linux 5.16 */
#define TILE_DATA			18

/* Whether the processor has tiles, and the kernel lets this process have them: it and its threads, once asked. */
static bool
amx_permitted(void)
{
	unsigned	a,
				b,
				c,
				d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & CPUID_AMX) != CPUID_AMX ||
		!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0)
		return false;
	__asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return (a & XCR0_TILES) == XCR0_TILES && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

static uint32_t
features_detect(void)
{
	uint32_t	features = 0;

#ifdef __x86_64__
	unsigned	a,
				b,
				c,
				d;

	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		__get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0)
		features |= FEATURE_AVX2;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		features |= FEATURE_AVX512;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 11) != 0)
		features |= FEATURE_AVX512_VNNI;
	if (__get_cpuid_count(7, 1, &a, &b, &c, &d))
		features |= ((a & 1u << 4) != 0 ? FEATURE_AVX_VNNI : 0) | ((a & 1u << 5) != 0 ? FEATURE_AVX512_BF16 : 0);
	if (amx_permitted())
		features |= FEATURE_AMX;
#endif
	return features;
}

/* ---- measuring ---- */

/* nsec of one operation of a product: the fastest of a few of an encoder's width. */
static double
measure(const struct cpu_kernels *kernels, const struct cpu_narrow_kernels *narrow, bool int8)
{
	bool		slow = narrow != NULL ? narrow->peak == NULL : kernels->f32.rows < 6;
	int64_t		m = slow ? 4 : 64;
	int64_t		k = slow ? 64 : 384;
	int64_t		n = slow ? 32 : 128;
	int64_t		x_step = narrow == NULL ? k * 4 : int8 ? k + DEVICE_Q8_SCALE : k * 2;
	size_t		x_bytes = cpu_aligned((uint64_t) (m * x_step));
	size_t		b_bytes = cpu_aligned((uint64_t) (k * n * 4));
	size_t		n_bytes = cpu_aligned((uint64_t) n * 4);
	size_t		all = x_bytes + b_bytes + 2 * n_bytes + (size_t) (m * n * 4);
	uint8_t    *memory = aligned_alloc(DEVICE_ALIGN, cpu_aligned(all));
	uint64_t	best = UINT64_MAX;

	if (memory == NULL)
		return 1;
	memset(memory, 0, all);
	for (int i = 0; i < MEASURE_TRIES; i++)
	{
		uint8_t    *b = memory + x_bytes;
		float	   *y = (float *) (b + b_bytes + 2 * n_bytes);
		uint64_t	start = cpu_now_nsec();
		uint64_t	taken;

		if (narrow == NULL)
			kernels->f32.product(&(struct cpu_product) {
				.x = memory, .x_step = k, .b = b, .b_step = kernels->f32.panel, .b_panel = k * kernels->f32.panel,
				.y = y, .y_step = n, .k = k, .n = n, .padded = true
			}, 0, m, 0, n / kernels->f32.panel);
		else
			narrow->product(&(struct cpu_narrow_product) {
				.x = memory, .x_step = x_step, .b = b, .b_panel = k * narrow->panel * (int8 ? 1 : 2),
				.y = y, .y_step = n, .scales = (const float *) (b + b_bytes),
				.offsets = (const int32_t *) (b + b_bytes + n_bytes), .k = k, .n = n
			}, 0, m, 0, n / narrow->panel);
		taken = cpu_now_nsec() - start;
		best = taken < best ? taken : best;
	}
	free(memory);
	return (double) (best + 1) / (2.0 * (double) (m * n * k));
}

/* The faster of two; other tiles only where they are clearly so. */
static void
take_faster(struct cpu_device *device, int precision, const struct cpu_narrow_kernels *candidate)
{
	const struct cpu_narrow_kernels *have = device->narrow[precision];
	double	   *nsec = &device->nsec_narrow[precision];
	double		candidate_nsec;

	if (candidate == have)
		return;
	candidate_nsec = measure(NULL, candidate, precision == DEVICE_PRECISION_INT8);
	if (have != NULL && candidate_nsec * (candidate->tiles == have->tiles ? 1 : CLEARLY) >= *nsec)
		return;
	*nsec = candidate_nsec;
	device->narrow[precision] = candidate;
}

/* ---- choosing ---- */

static void
take(struct cpu_device *device, const struct isa *isa)
{
	device->kernels = isa->kernels;
	device->casts = isa->casts;
	if (device->nsec_flop == 0)	/* first: a processor may need a while until wide vectors are at full speed */
		device->nsec_flop = measure(device->kernels, NULL, false);
	take_faster(device, DEVICE_PRECISION_BF16, isa->bf16);
	take_faster(device, DEVICE_PRECISION_INT8, isa->int8);
	if (isa->attention_bf16 != NULL && device->nsec_flop >= CLEARLY * measure(NULL, isa->bf16, false))
		device->attention_bf16 = isa->attention_bf16;
}

static void
take_best(struct cpu_device *device, uint32_t features)
{
	const struct cpu_kernels *widest = NULL;

	for (size_t i = 0; i < ISAS_COUNT; i++)
		if ((isas[i].needs & ~features) == 0 && isas[i].kernels != NULL)
			widest = isas[i].kernels;
	for (size_t i = 0; i < ISAS_COUNT; i++)
		if ((isas[i].needs & ~features) == 0 && isas[i].kernels == widest)
			take(device, &isas[i]);
}

static bool
take_named(struct cpu_device *device, const char *name, uint32_t features, struct status *status)
{
	const struct isa *isa = NULL;
	char		names[128] = "";

	for (size_t i = 0; i < ISAS_COUNT; i++)
	{
		if (strcmp(isas[i].name, name) == 0)
			isa = &isas[i];
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s\"%s\"",
				 i == 0 ? "" : i + 1 < ISAS_COUNT ? ", " : " or ", isas[i].name);
	}
	if (isa == NULL)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "unknown instruction set \"%s\"", name);
		status_hint(status, "Use %s, or leave it out for the best.", names);
		return false;
	}
	for (int f = 0; f < FEATURES_COUNT; f++)
		if ((isa->needs & ~features & 1u << f) != 0)
		{
			status_set(status, INFER_ERROR_UNSUPPORTED,
					   "the instruction set \"%s\" needs %s, which this processor does not have", name, feature_names[f]);
			status_hint(status, "Leave it out for the best that the processor has.");
			return false;
		}
	if (isa->kernels != NULL)
	{
		take(device, isa);
		return true;
	}
	take_best(device, features);
	for (int p = DEVICE_PRECISION_BF16; p < DEVICE_PRECISIONS; p++)
	{
		device->narrow[p] = p == DEVICE_PRECISION_BF16 ? isa->bf16 : isa->int8;
		device->nsec_narrow[p] = measure(NULL, device->narrow[p], p == DEVICE_PRECISION_INT8);
	}
	return true;
}

bool
cpu_isa_choose(struct cpu_device *device, const char *arch, struct status *status)
{
	uint32_t	features = features_detect();
	double		again;

	if (arch == NULL || arch[0] == '\0')
		arch = getenv("INFER_CPU");
	if (arch == NULL || arch[0] == '\0' || strcmp(arch, "auto") == 0)
		take_best(device, features);
	else if (!take_named(device, arch, features, status))
		return false;
	again = measure(device->kernels, NULL, false);
	device->nsec_flop = again < device->nsec_flop ? again : device->nsec_flop;
	device->precision_default = device->nsec_flop >= CLEARLY * device->nsec_narrow[DEVICE_PRECISION_BF16] ?
		DEVICE_PRECISION_BF16 : DEVICE_PRECISION_FULL;
	return true;
}
