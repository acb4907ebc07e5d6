/*
 * narrow_casts.c
 *	  Numbers of two bytes and one: CAST to bfloat16 and from it and float16, and QUANTISE, by their definitions.
 */
#include <float.h>
#include <math.h>

#include "narrow.h"

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

static void
test_device(struct device *device, const char *arch)
{
	test_casts(device, arch);
	test_quantise(device, arch);
}

int
main(void)
{
	struct device *cuda = case_cuda_device(1);

	if (case_wants("cpu"))
		narrow_on_cpu(test_device);
	narrow_on_cuda(cuda, test_device);
	return tap_done();
}
