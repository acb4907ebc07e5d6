/*
 * bf16_avx512.c
 *	  Products in bf16 by VDPBF16PS, and conversions with AVX512_BF16.
 */
#include "lanes_avx512.h"

#define P(name)		name##_bf16
#define INT8		0
#define FLUSHED		0

typedef lane_i32 column_t_bf16;
typedef lane_i32 x_t_bf16;

LANE lane_i32
column_bf16(const uint8_t *bytes)
{
	return lane_bytes(bytes);
}

LANE lane_i32
x_bf16(uint32_t group)
{
	return lane_group(group);
}

LANE void
hide_bf16(lane_i32 *x)
{
	__asm__ volatile("" : "+x"(*x));
}

LANE lane_f32
dot_bf16(lane_f32 sum, lane_i32 x, lane_i32 column)
{
	return _mm512_dpbf16_ps(sum, (__m512bh) x, (__m512bh) column);
}

#include "product.h"

const struct cpu_narrow_kernels cpu_bf16_avx512 = {
	.name = "avx512-bf16", .panel = PANEL, .rows = TILE_ROWS, .rows_step = 1, .fill = 2, .product = product_bf16, .peak = peak_bf16
};

void
cpu_bf16_of_f32_avx512(const float *x, uint16_t *y, int64_t n)
{
	int64_t		i = 0;

	for (; i + 2 * LANES <= n; i += 2 * LANES)
		_mm512_storeu_si512(y + i, (__m512i) _mm512_cvtne2ps_pbh(lane_load(x + i + LANES), lane_load(x + i)));
	for (; i < n; i += LANES)
	{
		__mmask16	lanes = n - i >= LANES ? 0xFFFF : lane_first(n - i);

		_mm256_mask_storeu_epi16(y + i, lanes, (__m256i) _mm512_cvtneps_pbh(lane_load_mask(x + i, lanes)));
	}
}
