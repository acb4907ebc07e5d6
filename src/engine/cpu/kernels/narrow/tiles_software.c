/*
 * tiles_software.c
 *	  Products as tiles_amx.c has them, by tiles in software: for tests.
 */
#define TILE_SOFTWARE

#include "tiles.h"

const struct cpu_narrow_kernels cpu_bf16_tiles = {
	.name = "tiles", .tiles = true, .panel = PANEL, .rows = ROWS, .rows_step = ROWS, .fill = TILE_BYTES / 2,
	.product = product_bf16
};

const struct cpu_narrow_kernels cpu_int8_tiles = {
	.name = "tiles", .panel = PANEL, .rows = ROWS, .rows_step = ROWS, .fill = TILE_BYTES, .product = product_int8
};
