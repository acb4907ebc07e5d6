/*
 * plain_avx2.c
 *	  Products in bf16 and int8, and conversions, by AVX2, FMA and F16C.
 */
#include "lanes_avx2.h"
#include "plain.h"

#include "../../../device.h"

const struct cpu_narrow_kernels cpu_bf16_plain_avx2 = {
	.name = "avx2", .panel = PANEL, .rows = TILE_ROWS, .rows_step = 1, .fill = 2, .product = product_bf16, .peak = peak_bf16
};

const struct cpu_narrow_kernels cpu_int8_plain_avx2 = {
	.name = "avx2", .panel = PANEL, .rows = TILE_ROWS, .rows_step = 1, .fill = 4, .product = product_int8, .peak = peak_int8
};

/* ---- conversions: 8 numbers at a time, the last of them by way of a buffer ---- */

LANE __m128i
halves_of_f32(__m256 x)
{
	__m256i		bits = _mm256_castps_si256(x);
	__m256i		upper = _mm256_srli_epi32(bits, 16);
	__m256i		odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
	__m256i		half = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))), 16);
	__m256i		nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
	__m256i		tiny = _mm256_cmpeq_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x7F800000)), _mm256_setzero_si256());

	half = _mm256_blendv_epi8(half, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), nan);
	half = _mm256_blendv_epi8(half, _mm256_and_si256(upper, _mm256_set1_epi32(0x8000)), tiny);
	half = _mm256_permute4x64_epi64(_mm256_packus_epi32(half, half), 0x08);
	return _mm256_castsi256_si128(half);
}

static void
bf16_of_f32(const float *x, uint16_t *y, int64_t n)
{
	int64_t		i = 0;

	for (; i + LANES <= n; i += LANES)
		_mm_storeu_si128((__m128i *) (y + i), halves_of_f32(lane_load(x + i)));
	if (i < n)
	{
		uint16_t	rest[LANES];

		_mm_storeu_si128((__m128i *) rest, halves_of_f32(lane_load_mask(x + i, lane_first(n - i))));
		memcpy(y + i, rest, (size_t) (n - i) * sizeof(*y));
	}
}

LANE __m256
f32_of_halves_bf16(__m128i half)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

LANE __m256
f32_of_halves_f16(__m128i half)
{
	return _mm256_cvtph_ps(half);
}

#define WIDEN(FROM) \
static void \
f32_of_##FROM(const uint16_t *x, float *y, int64_t n) \
{ \
	int64_t		i = 0; \
 \
	for (; i + LANES <= n; i += LANES) \
		lane_store(y + i, f32_of_halves_##FROM(_mm_loadu_si128((const __m128i *) (x + i)))); \
	if (i < n) \
	{ \
		uint16_t	rest[LANES] = {0}; \
 \
		memcpy(rest, x + i, (size_t) (n - i) * sizeof(*x)); \
		lane_store_mask(y + i, lane_first(n - i), f32_of_halves_##FROM(_mm_loadu_si128((const __m128i *) rest))); \
	} \
}

WIDEN(bf16)
WIDEN(f16)

LANE void
quantise_put(__m256 v, float factor, uint8_t *to)
{
	__m256i		q = _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(factor)));
	__m128i		words;

	if (factor == 0)
		q = _mm256_setzero_si256();
	q = _mm256_add_epi32(q, _mm256_set1_epi32(DEVICE_Q8_ZERO));
	words = _mm_packus_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
	_mm_storel_epi64((__m128i *) to, _mm_packus_epi16(words, words));
}

static void
quantise(const float *x, uint8_t *y, int64_t n)
{
	const __m256 sign = _mm256_set1_ps(-0.0f);
	__m256		most = _mm256_setzero_ps();
	__m256		odd = _mm256_setzero_ps();
	float		lanes[LANES];
	float		greatest = 0;
	float		factor;
	float		scale;
	int64_t		i;

	for (i = 0; i < n; i += LANES)
	{
		__m256		v = lane_load_mask(x + i, lane_first(n - i < LANES ? n - i : LANES));

		v = _mm256_andnot_ps(sign, v);
		odd = _mm256_or_ps(odd, _mm256_cmp_ps(v, _mm256_set1_ps(FLT_MAX), _CMP_NLE_UQ));
		most = _mm256_max_ps(most, v);
	}
	lane_store(lanes, most);
	for (int j = 0; j < LANES; j++)
		greatest = lanes[j] > greatest ? lanes[j] : greatest;
	cpu_q8_scale(_mm256_movemask_ps(odd) != 0 ? INFINITY : greatest, &factor, &scale);
	for (i = 0; i + LANES <= n; i += LANES)
		quantise_put(lane_load(x + i), factor, y + i);
	if (i < n)
	{
		uint8_t		rest[LANES];

		quantise_put(lane_load_mask(x + i, lane_first(n - i)), factor, rest);
		memcpy(y + i, rest, (size_t) (n - i));
	}
	memcpy(y + n, &scale, sizeof(scale));
}

const struct cpu_narrow_casts cpu_casts_avx2 = {
	.bf16_of_f32 = bf16_of_f32, .f32_of_bf16 = f32_of_bf16, .f32_of_f16 = f32_of_f16, .quantise = quantise
};
