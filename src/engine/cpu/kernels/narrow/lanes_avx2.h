/*
 * lanes_avx2.h
 *	  Vectors of 256 bits for product.h: AVX2 and FMA.
 */
#include <immintrin.h>
#include <stdint.h>

#define LANES			8
#define TILE_ROWS		6			/* 12 sums, 2 columns, 1 group of x of 16 registers */
#define TILE_PAIR_ROWS	3			/* 12 sums */
#define PEAK_SUMS		12

#define LANE static inline __attribute__((always_inline, unused))

typedef __m256 lane_f32;
typedef __m256i lane_i32;
typedef int lane_sum __attribute__((vector_size(32)));	/* of that type throughout: gcc 12 copies a sum whose type changes */
typedef __m256i lane_mask;

LANE lane_mask
lane_first(int64_t n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int) n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

LANE lane_f32 lane_set1(float x) { return _mm256_set1_ps(x); }
LANE lane_f32 lane_load(const float *x) { return _mm256_loadu_ps(x); }
LANE lane_f32 lane_load_mask(const float *x, lane_mask m) { return _mm256_maskload_ps(x, m); }
LANE void lane_store(float *y, lane_f32 v) { _mm256_storeu_ps(y, v); }
LANE void lane_store_mask(float *y, lane_mask m, lane_f32 v) { _mm256_maskstore_ps(y, m, v); }
LANE lane_f32 lane_add(lane_f32 a, lane_f32 b) { return _mm256_add_ps(a, b); }
LANE lane_f32 lane_mul(lane_f32 a, lane_f32 b) { return _mm256_mul_ps(a, b); }
LANE lane_f32 lane_fma(lane_f32 a, lane_f32 b, lane_f32 c) { return _mm256_fmadd_ps(a, b, c); }
LANE lane_i32 lane_bytes(const uint8_t *x) { return _mm256_loadu_si256((const __m256i *) x); }
LANE lane_i32 lane_group(uint32_t x) { return _mm256_set1_epi32((int) x); }
LANE lane_sum lane_add_sum(lane_sum a, lane_i32 b) { return (lane_sum) _mm256_add_epi32((lane_i32) a, b); }
LANE lane_i32 lane_madd_i16(lane_i32 a, lane_i32 b) { return _mm256_madd_epi16(a, b); }
LANE lane_i32 lane_high_i16(lane_i32 x) { return _mm256_srai_epi16(x, 8); }
LANE lane_i32 lane_low_i16(lane_i32 x) { return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8); }
LANE lane_f32 lane_of_sum(lane_sum x) { return _mm256_cvtepi32_ps((lane_i32) x); }
LANE lane_f32 lane_high_f32(lane_i32 x) { return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int) 0xFFFF0000))); }
LANE lane_f32 lane_low_f32(lane_i32 x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }

/* The one NaN. */
LANE lane_f32
lane_canonical(lane_f32 x)
{
	return _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
