/*
 * kernels_avx512.c
 *	  The kernels with 512-bit vectors (AVX-512 F, BW, DQ, VL).
 */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "transpose_avx512.h"

#define KERNEL_ARCH		"avx512"
#define KERNEL_TABLE	cpu_kernels_avx512

#define TILE_ROWS		14			/* 28 sums, 2 columns, 1 broadcast of 32 registers */
#define TILE_PAIR_ROWS	6			/* 24 sums and 4 columns */

#define LANES static inline __attribute__((always_inline, unused))

/* P: prefix; T, R, M: element, register and mask; S: suffix of intrinsics; ALL: a full mask */
#define VECTOR_512(P, T, R, M, S) \
typedef R P##t; \
typedef M P##m; \
LANES R P##set1(T x) { return _mm512_set1_##S(x); } \
LANES R P##load(const T *x) { return _mm512_loadu_##S(x); } \
LANES void P##store(T *y, R v) { _mm512_storeu_##S(y, v); } \
LANES R P##load_mask(const T *x, M m) { return _mm512_maskz_loadu_##S(m, x); } \
LANES void P##store_mask(T *y, M m, R v) { _mm512_mask_storeu_##S(y, m, v); } \
LANES R P##add(R a, R b) { return _mm512_add_##S(a, b); } \
LANES R P##sub(R a, R b) { return _mm512_sub_##S(a, b); } \
LANES R P##mul(R a, R b) { return _mm512_mul_##S(a, b); } \
LANES R P##div(R a, R b) { return _mm512_div_##S(a, b); } \
LANES R P##fma(R a, R b, R c) { return _mm512_fmadd_##S(a, b, c); } \
LANES R P##sqrt(R x) { return _mm512_sqrt_##S(x); } \
LANES R P##floor(R x) { return _mm512_roundscale_##S(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); } \
LANES R P##ceil(R x) { return _mm512_roundscale_##S(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); } \
LANES R P##rint(R x) { return _mm512_roundscale_##S(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); } \
LANES R P##trunc(R x) { return _mm512_roundscale_##S(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); } \
LANES R P##abs(R x) { return _mm512_andnot_##S(_mm512_set1_##S((T) -0.0), x); } \
LANES R P##neg(R x) { return _mm512_xor_##S(_mm512_set1_##S((T) -0.0), x); } \
LANES R P##lesser(R a, R b) { return _mm512_min_##S(a, b); } \
LANES R P##scale(R x, R n) { return _mm512_scalef_##S(x, n); } \
LANES R P##copysign(R x, R s) \
{ \
	R			sign = _mm512_set1_##S((T) -0.0); \
	return _mm512_or_##S(_mm512_andnot_##S(sign, x), _mm512_and_##S(sign, s)); \
} \
LANES M P##lt(R a, R b) { return _mm512_cmp_##S##_mask(a, b, _CMP_LT_OQ); } \
LANES M P##le(R a, R b) { return _mm512_cmp_##S##_mask(a, b, _CMP_LE_OQ); } \
LANES M P##eq(R a, R b) { return _mm512_cmp_##S##_mask(a, b, _CMP_EQ_OQ); } \
LANES M P##unord(R a, R b) { return _mm512_cmp_##S##_mask(a, b, _CMP_UNORD_Q); } \
LANES M P##first(int64_t n) { return (M) ((1u << n) - 1); } \
LANES R P##select(M m, R a, R b) { return _mm512_mask_blend_##S(m, b, a); } \
LANES M P##either(M a, M b) { return (M) (a | b); } \
LANES M P##both(M a, M b) { return (M) (a & b); } \
LANES M P##but(M a, M b) { return (M) (a & ~b); } \
LANES R P##greater(R a, R b) { return _mm512_max_##S(a, b); } \
LANES unsigned P##bits(M m) { return m; }

VECTOR_512(vf_, float, __m512, __mmask16, ps)
VECTOR_512(vd_, double, __m512d, __mmask8, pd)

#define vf_WIDTH	16
#define vd_WIDTH	8

LANES __m512
vf_pow2(__m512 n)
{
	__m512i		e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));

	return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}

LANES __m512
vf_exponent(__m512 x)
{
	__m512i		e = _mm512_srli_epi32(_mm512_castps_si512(x), 23);

	return _mm512_cvtepi32_ps(_mm512_sub_epi32(e, _mm512_set1_epi32(126)));
}

LANES __m512
vf_mantissa(__m512 x)
{
	__m512i		m = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x007fffff));

	return _mm512_castsi512_ps(_mm512_or_si512(m, _mm512_set1_epi32(0x3f000000)));
}

#define vf_transpose	transpose_f32

LANES __m512d
vd_pow2(__m512d n)
{
	__m512i		e = _mm512_add_epi64(_mm512_cvtpd_epi64(n), _mm512_set1_epi64(1023));

	return _mm512_castsi512_pd(_mm512_slli_epi64(e, 52));
}

LANES __m512d
vd_exponent(__m512d x)
{
	__m512i		e = _mm512_srli_epi64(_mm512_castpd_si512(x), 52);

	return _mm512_cvtepi64_pd(_mm512_sub_epi64(e, _mm512_set1_epi64(1022)));
}

LANES __m512d
vd_mantissa(__m512d x)
{
	__m512i		m = _mm512_and_si512(_mm512_castpd_si512(x), _mm512_set1_epi64(0x000fffffffffffff));

	return _mm512_castsi512_pd(_mm512_or_si512(m, _mm512_set1_epi64(0x3fe0000000000000)));
}

#include "kernels_impl.h"
