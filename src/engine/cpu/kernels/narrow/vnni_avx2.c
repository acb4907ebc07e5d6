/*
 * vnni_avx2.c
 *	  Products in int8 by VPDPBUSD of 256 bits (AVX-VNNI).
 */
#include "lanes_avx2.h"
#include "vnni.h"

LANE lane_sum
dot_int8(lane_sum sum, lane_i32 x, lane_i32 column)
{
	return (lane_sum) _mm256_dpbusd_avx_epi32((lane_i32) sum, x, column);
}

#include "product.h"

const struct cpu_narrow_kernels cpu_int8_vnni_avx2 = {
	.name = "avx2-vnni", .panel = PANEL, .rows = TILE_ROWS, .rows_step = 1, .fill = 4, .product = product_int8, .peak = peak_int8
};
