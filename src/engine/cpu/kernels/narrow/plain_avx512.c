/*
 * plain_avx512.c
 *	  Products in bf16 and int8, and conversions, by AVX-512 F, BW, DQ, VL.
 */
#include "lanes_avx512.h"
#include "plain.h"

#include "../../../device.h"

const struct cpu_narrow_kernels cpu_bf16_plain_avx512 = {
	.name = "avx512", .panel = PANEL, .rows = TILE_ROWS, .rows_step = 1, .fill = 2, .product = product_bf16, .peak = peak_bf16
};

const struct cpu_narrow_kernels cpu_int8_plain_avx512 = {
	.name = "avx512", .panel = PANEL, .rows = TILE_ROWS, .rows_step = 1, .fill = 4, .product = product_int8, .peak = peak_int8
};

/* ---- conversions: 16 numbers at a time, the last of them masked ---- */

LANE __mmask16
mask_of(int64_t left)
{
	return left >= LANES ? 0xFFFF : lane_first(left);
}

static void
bf16_of_f32(const float *x, uint16_t *y, int64_t n)
{
	for (int64_t i = 0; i < n; i += LANES)
	{
		__mmask16	lanes = mask_of(n - i);
		__m512i		bits = _mm512_maskz_loadu_epi32(lanes, x + i);
		__m512i		odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
		__m512i		rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
		__m512i		half = _mm512_srli_epi32(rounded, 16);
		__mmask16	nan = _mm512_cmp_ps_mask(_mm512_castsi512_ps(bits), _mm512_castsi512_ps(bits), _CMP_UNORD_Q);
		__mmask16	tiny = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7F800000));

		half = _mm512_mask_or_epi32(half, nan, _mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
		half = _mm512_mask_and_epi32(half, tiny, _mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x8000));
		_mm512_mask_cvtepi32_storeu_epi16(y + i, lanes, half);
	}
}

static void
f32_of_bf16(const uint16_t *x, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i += LANES)
	{
		__mmask16	lanes = mask_of(n - i);
		__m512i		half = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, x + i));

		_mm512_mask_storeu_epi32(y + i, lanes, _mm512_slli_epi32(half, 16));
	}
}

static void
f32_of_f16(const uint16_t *x, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i += LANES)
	{
		__mmask16	lanes = mask_of(n - i);

		_mm512_mask_storeu_ps(y + i, lanes, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, x + i)));
	}
}

static void
quantise(const float *x, uint8_t *y, int64_t n)
{
	__m512		most = _mm512_setzero_ps();
	__mmask16	odd = 0;
	float		factor;
	float		scale;

	for (int64_t i = 0; i < n; i += LANES)
	{
		__m512		v = _mm512_abs_ps(_mm512_maskz_loadu_ps(mask_of(n - i), x + i));

		odd |= _mm512_cmp_ps_mask(v, _mm512_set1_ps(FLT_MAX), _CMP_NLE_UQ);
		most = _mm512_max_ps(most, v);
	}
	cpu_q8_scale(odd != 0 ? INFINITY : _mm512_reduce_max_ps(most), &factor, &scale);
	for (int64_t i = 0; i < n; i += LANES)
	{
		__mmask16	lanes = mask_of(n - i);
		__m512		v = _mm512_maskz_loadu_ps(lanes, x + i);
		__m512i		q = _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_set1_ps(factor)));

		if (factor == 0)
			q = _mm512_setzero_si512();
		_mm512_mask_cvtepi32_storeu_epi8(y + i, lanes, _mm512_add_epi32(q, _mm512_set1_epi32(DEVICE_Q8_ZERO)));
	}
	memcpy(y + n, &scale, sizeof(scale));
}

const struct cpu_narrow_casts cpu_casts_avx512 = {
	.bf16_of_f32 = bf16_of_f32, .f32_of_bf16 = f32_of_bf16, .f32_of_f16 = f32_of_f16, .quantise = quantise
};

const struct cpu_narrow_casts cpu_casts_bf16_avx512 = {
	.bf16_of_f32 = cpu_bf16_of_f32_avx512, .f32_of_bf16 = f32_of_bf16, .f32_of_f16 = f32_of_f16, .quantise = quantise
};
