/*
 * kernels_avx2.c
 *	  The kernels with 256-bit vectors (AVX2 and FMA).
 */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels_unroll.h"

#define KERNEL_ARCH		"avx2"
#define KERNEL_TABLE	cpu_kernels_avx2

#define TILE_ROWS		6			/* 12 sums, 2 columns, 1 broadcast of 16 registers */
#define TILE_PAIR_ROWS	3			/* 12 sums */

#define LANES static inline __attribute__((always_inline, unused))

/* P: prefix; T, R: element and register; S: suffix of intrinsics; a mask is a register of ones */
#define VECTOR_256(P, T, R, S, I, CAST) \
typedef R P##t; \
typedef R P##m; \
LANES R P##set1(T x) { return _mm256_set1_##S(x); } \
LANES R P##load(const T *x) { return _mm256_loadu_##S(x); } \
LANES void P##store(T *y, R v) { _mm256_storeu_##S(y, v); } \
LANES R P##load_mask(const T *x, R m) { return _mm256_maskload_##S(x, CAST(m)); } \
LANES void P##store_mask(T *y, R m, R v) { _mm256_maskstore_##S(y, CAST(m), v); } \
LANES R P##add(R a, R b) { return _mm256_add_##S(a, b); } \
LANES R P##sub(R a, R b) { return _mm256_sub_##S(a, b); } \
LANES R P##mul(R a, R b) { return _mm256_mul_##S(a, b); } \
LANES R P##div(R a, R b) { return _mm256_div_##S(a, b); } \
LANES R P##fma(R a, R b, R c) { return _mm256_fmadd_##S(a, b, c); } \
LANES R P##sqrt(R x) { return _mm256_sqrt_##S(x); } \
LANES R P##floor(R x) { return _mm256_round_##S(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); } \
LANES R P##ceil(R x) { return _mm256_round_##S(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); } \
LANES R P##rint(R x) { return _mm256_round_##S(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); } \
LANES R P##trunc(R x) { return _mm256_round_##S(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); } \
LANES R P##abs(R x) { return _mm256_andnot_##S(_mm256_set1_##S((T) -0.0), x); } \
LANES R P##neg(R x) { return _mm256_xor_##S(_mm256_set1_##S((T) -0.0), x); } \
LANES R P##lesser(R a, R b) { return _mm256_min_##S(a, b); } \
LANES R P##copysign(R x, R s) \
{ \
	R			sign = _mm256_set1_##S((T) -0.0); \
	return _mm256_or_##S(_mm256_andnot_##S(sign, x), _mm256_and_##S(sign, s)); \
} \
LANES R P##lt(R a, R b) { return _mm256_cmp_##S(a, b, _CMP_LT_OQ); } \
LANES R P##le(R a, R b) { return _mm256_cmp_##S(a, b, _CMP_LE_OQ); } \
LANES R P##eq(R a, R b) { return _mm256_cmp_##S(a, b, _CMP_EQ_OQ); } \
LANES R P##unord(R a, R b) { return _mm256_cmp_##S(a, b, _CMP_UNORD_Q); } \
LANES R P##select(R m, R a, R b) { return _mm256_blendv_##S(b, a, m); } \
LANES R P##either(R a, R b) { return _mm256_or_##S(a, b); } \
LANES R P##both(R a, R b) { return _mm256_and_##S(a, b); } \
LANES R P##but(R a, R b) { return _mm256_andnot_##S(b, a); } \
LANES R P##greater(R a, R b) { return _mm256_max_##S(a, b); } \
LANES unsigned P##bits(R m) { return (unsigned) _mm256_movemask_##S(m); }

VECTOR_256(vf_, float, __m256, ps, epi32, _mm256_castps_si256)
VECTOR_256(vd_, double, __m256d, pd, epi64, _mm256_castpd_si256)

#define vf_WIDTH	8
#define vd_WIDTH	4

LANES __m256
vf_first(int64_t n)
{
	__m256i		lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

	return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int) n), lane));
}

LANES __m256d
vd_first(int64_t n)
{
	__m256i		lane = _mm256_setr_epi64x(0, 1, 2, 3);

	return _mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_set1_epi64x(n), lane));
}

LANES __m256
vf_pow2(__m256 n)
{
	__m256i		e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));

	return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}

LANES __m256
vf_scale(__m256 x, __m256 n)
{
	__m256i		e = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);

	return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), e));
}

LANES __m256
vf_exponent(__m256 x)
{
	__m256i		e = _mm256_srli_epi32(_mm256_castps_si256(x), 23);

	return _mm256_cvtepi32_ps(_mm256_sub_epi32(e, _mm256_set1_epi32(126)));
}

LANES __m256
vf_mantissa(__m256 x)
{
	__m256i		m = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x007fffff));

	return _mm256_castsi256_ps(_mm256_or_si256(m, _mm256_set1_epi32(0x3f000000)));
}

LANES void
vf_transpose(__m256 *rows)
{
	__m256		pairs[8];
	__m256		fours[8];

	UNROLL
	for (int i = 0; i < 8; i += 2)
	{
		pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
		pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
	}
	UNROLL
	for (int i = 0; i < 8; i += 4)
	{
		UNROLL
		for (int j = 0; j < 2; j++)
		{
			__m256d		low = _mm256_castps_pd(pairs[i + j]);
			__m256d		high = _mm256_castps_pd(pairs[i + 2 + j]);

			fours[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
			fours[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
		}
	}
	UNROLL
	for (int i = 0; i < 4; i++)
	{
		rows[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
		rows[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
	}
}

/* There is no conversion to 64-bit integers: an integral n + 1.5 · 2^52 has n in its low bits. */
LANES __m256d
vd_pow2(__m256d n)
{
	__m256i		e = _mm256_castpd_si256(_mm256_add_pd(n, _mm256_set1_pd(0x1.8p52 + 1023)));

	return _mm256_castsi256_pd(_mm256_slli_epi64(e, 52));
}

LANES __m256d
vd_scale(__m256d x, __m256d n)
{
	return _mm256_mul_pd(x, vd_pow2(n));
}

LANES __m256d
vd_exponent(__m256d x)
{
	__m256i		e = _mm256_srli_epi64(_mm256_castpd_si256(x), 52);
	__m256i		biased = _mm256_or_si256(e, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)));

	return _mm256_sub_pd(_mm256_castsi256_pd(biased), _mm256_set1_pd(0x1p52 + 1022));
}

LANES __m256d
vd_mantissa(__m256d x)
{
	__m256i		m = _mm256_and_si256(_mm256_castpd_si256(x), _mm256_set1_epi64x(0x000fffffffffffff));

	return _mm256_castsi256_pd(_mm256_or_si256(m, _mm256_set1_epi64x(0x3fe0000000000000)));
}

#include "kernels_impl.h"
