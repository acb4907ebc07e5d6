/*
 * tile.h
 *	  The tiles of AMX as tiles.h needs them: eight of at most 16 rows of 64 bytes.  Where
 *	  TILE_SOFTWARE is defined they are memory, and their instructions follow the pseudo-code
 *	  that Intel publishes (Software Developer's Manual, volume 2), so that what is written
 *	  over them is tested on any machine.
 */
#ifndef NARROW_TILE_H
#define NARROW_TILE_H

#include <stdint.h>
#include <string.h>

#define TILE_HEIGHT		16
#define TILE_BYTES		64			/* of a row */

struct tile_config					/* of LDTILECFG; a tile of no rows has no bytes either */
{
	uint8_t		palette;
	uint8_t		start_row;
	uint8_t		reserved[14];
	uint16_t	row_bytes[16];
	uint8_t		rows[16];
};

_Static_assert(sizeof(struct tile_config) == 64, "as LDTILECFG reads it");

#ifndef TILE_SOFTWARE				/* then the file that includes this has included immintrin.h */

/* What the instructions read is written by then: the intrinsics of gcc 12 do not say that they read it. */
#define TILE_BARRIER(pointer)	__asm__ volatile("" : : "r"(pointer) : "memory")

#define tile_configure(config)		do { TILE_BARRIER(config); _tile_loadconfig(config); } while (0)
#define tile_release()				_tile_release()
#define tile_zero(t)				_tile_zero(t)
#define tile_load(t, from, step)	do { TILE_BARRIER(from); _tile_loadd(t, from, step); } while (0)
#define tile_store(t, to, step)		do { _tile_stored(t, to, step); TILE_BARRIER(to); } while (0)
#define tile_multiply_bf16(c, a, b)	_tile_dpbf16ps(c, a, b)
#define tile_multiply_int8(c, a, b)	_tile_dpbusd(c, a, b)

#else

#include "exact.h"

struct tile
{
	int			rows;
	int			row_bytes;
	uint8_t		data[TILE_HEIGHT][TILE_BYTES];
};

static _Thread_local struct tile tiles[8];

static void
tile_configure(const struct tile_config *config)
{
	for (int t = 0; t < 8; t++)
	{
		memset(&tiles[t], 0, sizeof(tiles[t]));
		tiles[t].rows = config->rows[t];
		tiles[t].row_bytes = config->row_bytes[t];
	}
}

static void
tile_release(void)
{
	memset(tiles, 0, sizeof(tiles));
}

static void
tile_zero(int t)
{
	memset(tiles[t].data, 0, sizeof(tiles[t].data));
}

static void
tile_load(int t, const void *from, int64_t step)
{
	tile_zero(t);
	for (int i = 0; i < tiles[t].rows; i++)
		memcpy(tiles[t].data[i], (const uint8_t *) from + i * step, (size_t) tiles[t].row_bytes);
}

static void
tile_store(int t, void *to, int64_t step)
{
	for (int i = 0; i < tiles[t].rows; i++)
		memcpy((uint8_t *) to + i * step, tiles[t].data[i], (size_t) tiles[t].row_bytes);
}

/* TDPBF16PS: the even and the odd numbers' chains from +0, then their sum to what was there. */
static void
tile_multiply_bf16(int c, int a, int b)
{
	for (int m = 0; m < tiles[c].rows; m++)
		for (int n = 0; n < tiles[c].row_bytes / 4; n++)
		{
			float		sums[2] = {0, 0};
			float		sum;

			for (int k = 0; k < tiles[a].row_bytes / 4; k++)
				for (int i = 0; i < 2; i++)
					sums[i] = exact_multiply_add(exact_bf16_at(&tiles[a].data[m][4 * k + 2 * i]),
												 exact_bf16_at(&tiles[b].data[k][4 * n + 2 * i]), sums[i]);
			memcpy(&sum, &tiles[c].data[m][4 * n], sizeof(sum));
			sum = exact_multiply_add(1, sum, exact_multiply_add(1, sums[0], sums[1]));
			memcpy(&tiles[c].data[m][4 * n], &sum, sizeof(sum));
		}
}

/* TDPBUSD: unsigned bytes by signed ones. */
static void
tile_multiply_int8(int c, int a, int b)
{
	for (int m = 0; m < tiles[c].rows; m++)
		for (int n = 0; n < tiles[c].row_bytes / 4; n++)
		{
			uint32_t	sum;

			memcpy(&sum, &tiles[c].data[m][4 * n], sizeof(sum));
			for (int k = 0; k < tiles[a].row_bytes / 4; k++)
				for (int i = 0; i < 4; i++)
					sum += (uint32_t) (tiles[a].data[m][4 * k + i] * (int8_t) tiles[b].data[k][4 * n + i]);
			memcpy(&tiles[c].data[m][4 * n], &sum, sizeof(sum));
		}
}
#endif

#endif							/* NARROW_TILE_H */
