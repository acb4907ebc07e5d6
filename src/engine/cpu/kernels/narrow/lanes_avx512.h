/*
 * lanes_avx512.h
 *	  Vectors of 512 bits for product.h: AVX-512 F, BW, DQ, VL.
 */
#include <immintrin.h>
#include <stdint.h>

#define LANES			16
#define TILE_ROWS		14			/* 28 sums, 2 columns, 1 group of x of 32 registers */
#define TILE_PAIR_ROWS	6			/* 24 sums and 4 columns */
#define PEAK_SUMS		24

#define LANE static inline __attribute__((always_inline, unused))

typedef __m512 lane_f32;
typedef __m512i lane_i32;
typedef int lane_sum __attribute__((vector_size(64)));	/* of that type throughout: gcc 12 copies a sum whose type changes */
typedef __mmask16 lane_mask;

LANE lane_mask lane_first(int64_t n) { return (lane_mask) ((1u << n) - 1); }
LANE lane_f32 lane_set1(float x) { return _mm512_set1_ps(x); }
LANE lane_f32 lane_load(const float *x) { return _mm512_loadu_ps(x); }
LANE lane_f32 lane_load_mask(const float *x, lane_mask m) { return _mm512_maskz_loadu_ps(m, x); }
LANE void lane_store(float *y, lane_f32 v) { _mm512_storeu_ps(y, v); }
LANE void lane_store_mask(float *y, lane_mask m, lane_f32 v) { _mm512_mask_storeu_ps(y, m, v); }
LANE lane_f32 lane_add(lane_f32 a, lane_f32 b) { return _mm512_add_ps(a, b); }
LANE lane_f32 lane_mul(lane_f32 a, lane_f32 b) { return _mm512_mul_ps(a, b); }
LANE lane_f32 lane_fma(lane_f32 a, lane_f32 b, lane_f32 c) { return _mm512_fmadd_ps(a, b, c); }
LANE lane_i32 lane_bytes(const uint8_t *x) { return _mm512_loadu_si512(x); }
LANE lane_i32 lane_group(uint32_t x) { return _mm512_set1_epi32((int) x); }
LANE lane_sum lane_add_sum(lane_sum a, lane_i32 b) { return (lane_sum) _mm512_add_epi32((lane_i32) a, b); }
LANE lane_i32 lane_madd_i16(lane_i32 a, lane_i32 b) { return _mm512_madd_epi16(a, b); }
LANE lane_i32 lane_high_i16(lane_i32 x) { return _mm512_srai_epi16(x, 8); }
LANE lane_i32 lane_low_i16(lane_i32 x) { return _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8); }
LANE lane_f32 lane_of_sum(lane_sum x) { return _mm512_cvtepi32_ps((lane_i32) x); }
LANE lane_f32 lane_high_f32(lane_i32 x) { return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int) 0xFFFF0000))); }
LANE lane_f32 lane_low_f32(lane_i32 x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }

/* The one NaN. */
LANE lane_f32
lane_canonical(lane_f32 x)
{
	/* of each kind of number four bits say what is taken: 1, x itself; 0, for both NaNs, the other operand */
	return _mm512_fixupimm_ps(_mm512_castsi512_ps(_mm512_set1_epi32(0x7FC00000)), x, _mm512_set1_epi32(0x11111100), 0);
}
