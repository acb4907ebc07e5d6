/*
 * tiles_amx.c
 *	  Products in bf16 and int8 by AMX.
 */
#include <immintrin.h>

#include "tiles.h"

static double
peak_bf16(int64_t rounds)
{
	return peak_bf16_rows(rounds) * TILE_BYTES / 2;
}

static double
peak_int8(int64_t rounds)
{
	return peak_int8_rows(rounds) * TILE_BYTES;
}

const struct cpu_narrow_kernels cpu_bf16_amx = {
	.name = "amx", .tiles = true, .panel = PANEL, .rows = ROWS, .rows_step = ROWS, .fill = TILE_BYTES / 2,
	.product = product_bf16, .peak = peak_bf16
};

const struct cpu_narrow_kernels cpu_int8_amx = {
	.name = "amx", .panel = PANEL, .rows = ROWS, .rows_step = ROWS, .fill = TILE_BYTES, .product = product_int8,
	.peak = peak_int8
};
