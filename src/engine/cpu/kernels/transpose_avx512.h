/*
 * transpose_avx512.h
 *	  A square matrix of 32-bit elements in 16 vectors, turned.
 */
#ifndef ENGINE_CPU_TRANSPOSE_AVX512_H
#define ENGINE_CPU_TRANSPOSE_AVX512_H

#include <immintrin.h>

#include "kernels_unroll.h"

static inline __attribute__((always_inline, unused)) void
transpose_f32(__m512 *rows)
{
	__m512		pairs[16];
	__m512		fours[16];			/* [4 g + c]: of rows 4 g … 4 g + 3 the columns c, 4 + c, 8 + c, 12 + c */

	UNROLL
	for (int i = 0; i < 16; i += 2)
	{
		pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
		pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
	}
	UNROLL
	for (int i = 0; i < 16; i += 4)
	{
		UNROLL
		for (int j = 0; j < 2; j++)
		{
			__m512d		low = _mm512_castps_pd(pairs[i + j]);
			__m512d		high = _mm512_castps_pd(pairs[i + 2 + j]);

			fours[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
			fours[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
		}
	}
	UNROLL
	for (int c = 0; c < 4; c++)
	{
		__m512		even_low = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0x88);
		__m512		even_high = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0x88);
		__m512		odd_low = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0xDD);
		__m512		odd_high = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0xDD);

		rows[c] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
		rows[8 + c] = _mm512_shuffle_f32x4(even_low, even_high, 0xDD);
		rows[4 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
		rows[12 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xDD);
	}
}

#endif							/* ENGINE_CPU_TRANSPOSE_AVX512_H */
