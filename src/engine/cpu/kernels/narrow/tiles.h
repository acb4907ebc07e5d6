/*
 * tiles.h
 *	  Blocks of a product in bf16 or int8 by tiles.  Included by tiles_amx.c, and by
 *	  tiles_software.c with the same source over tiles in software.
 *
 * Up to 32 rows by one panel of 32 columns lie in tiles 0 to 3, x in 4 and 5, the weight in 6
 * and 7.  A step along K is a row of a tile: 32 numbers of bf16, 64 of int8; what is behind K is
 * zeros on both sides, whatever the number of rows.
 */
#include <stddef.h>

#include "exact.h"
#include "narrow.h"
#include "tile.h"

#define PANEL		32
#define ROWS		(2 * TILE_HEIGHT)
#define PANEL_STEP	(TILE_HEIGHT * PANEL * NARROW_GROUP)	/* bytes of a panel in a step along K */

union sums
{
	float		f32[ROWS][PANEL];
	int32_t		i32[ROWS][PANEL];
};

static void
configure(int64_t rows)
{
	struct tile_config config = {.palette = 1};
	int64_t		low = rows < TILE_HEIGHT ? rows : TILE_HEIGHT;
	int64_t		heights[8] = {
		low, low, rows - low, rows - low, low, rows - low, TILE_HEIGHT, TILE_HEIGHT
	};

	for (int t = 0; t < 8; t++)
	{
		config.rows[t] = (uint8_t) heights[t];
		config.row_bytes[t] = heights[t] == 0 ? 0 : TILE_BYTES;
	}
	tile_configure(&config);
}

#define STEP(MULTIPLY, x, x_step, b) \
	do { \
		tile_load(4, x, x_step); \
		tile_load(6, b, PANEL * NARROW_GROUP); \
		tile_load(7, (b) + TILE_BYTES, PANEL * NARROW_GROUP); \
		MULTIPLY(0, 4, 6); \
		MULTIPLY(1, 4, 7); \
		if (two) \
		{ \
			tile_load(5, (x) + TILE_HEIGHT * (x_step), x_step); \
			MULTIPLY(2, 5, 6); \
			MULTIPLY(3, 5, 7); \
		} \
	} while (0)

/* Rows [m, m + rows) by panel q, for rows the tiles are configured for. */
#define SUMS(NAME, MULTIPLY) \
static void \
NAME(const struct cpu_narrow_product *p, int64_t m, int64_t rows, int64_t q, int64_t bytes, union sums *sums) \
{ \
	const uint8_t *x = p->x + m * p->x_step; \
	const uint8_t *b = p->b + q * p->b_panel; \
	int64_t		full = bytes / TILE_BYTES; \
	bool		two = rows > TILE_HEIGHT; \
 \
	tile_zero(0); \
	tile_zero(1); \
	if (two) \
	{ \
		tile_zero(2); \
		tile_zero(3); \
	} \
	for (int64_t s = 0; s < full; s++) \
		STEP(MULTIPLY, x + s * TILE_BYTES, p->x_step, b + s * PANEL_STEP); \
	if (bytes % TILE_BYTES != 0) \
	{ \
		uint8_t		rest[ROWS][TILE_BYTES]; \
 \
		memset(rest, 0, sizeof(rest)); \
		for (int64_t i = 0; i < rows; i++) \
			memcpy(rest[i], x + i * p->x_step + full * TILE_BYTES, (size_t) (bytes % TILE_BYTES)); \
		STEP(MULTIPLY, &rest[0][0], TILE_BYTES, b + full * PANEL_STEP); \
	} \
	tile_store(0, &sums->i32[0][0], PANEL * NARROW_GROUP); \
	tile_store(1, &sums->i32[0][PANEL / 2], PANEL * NARROW_GROUP); \
	if (two) \
	{ \
		tile_store(2, &sums->i32[TILE_HEIGHT][0], PANEL * NARROW_GROUP); \
		tile_store(3, &sums->i32[TILE_HEIGHT][PANEL / 2], PANEL * NARROW_GROUP); \
	} \
}

SUMS(sums_bf16, tile_multiply_bf16)
SUMS(sums_int8, tile_multiply_int8)

/* The bias of a panel's columns; −0, which changes nothing, where there is none. */
static void
bias_of(const struct cpu_narrow_product *p, int64_t q, int64_t columns, float *bias)
{
	for (int j = 0; j < PANEL; j++)
		bias[j] = -0.0f;
	for (int64_t j = 0; j < columns && p->bias != NULL; j++)
		bias[j] = p->bias[(q * PANEL + j) * p->bias_step];
}

/* A row of results from a row of sums. */
static void
finish_bf16(const struct cpu_narrow_product *p, const union sums *sums, int64_t i, const uint8_t *x, int64_t q,
			const float *restrict bias, float *restrict y)
{
	const float *restrict sum = sums->f32[i];

	for (int j = 0; j < PANEL; j++)
		y[j] = exact_canonical(sum[j] + bias[j]);
}

static void
finish_int8(const struct cpu_narrow_product *p, const union sums *sums, int64_t i, const uint8_t *x, int64_t q,
			const float *restrict bias, float *restrict y)
{
	const float *restrict scales = p->scales + q * PANEL;
	const int32_t *restrict offsets = p->offsets + q * PANEL;
	const int32_t *restrict sum = sums->i32[i];
	float		scale;

	memcpy(&scale, x + p->k, sizeof(scale));
	for (int j = 0; j < PANEL; j++)
		y[j] = exact_canonical(fmaf((float) (sum[j] + offsets[j]) * scale, scales[j], bias[j]));
}

typedef void (*sums_fn) (const struct cpu_narrow_product *p, int64_t m, int64_t rows, int64_t q, int64_t bytes,
						 union sums *sums);
typedef void (*finish_fn) (const struct cpu_narrow_product *p, const union sums *sums, int64_t i, const uint8_t *x,
						   int64_t q, const float *restrict bias, float *restrict y);

/* Blocks of as many rows as the tiles are configured for, from row m on. */
static inline __attribute__((always_inline)) void
panels(const struct cpu_narrow_product *p, int64_t m0, int64_t m, int64_t m1, int64_t rows, int64_t p0, int64_t p1,
	   int64_t bytes, sums_fn sums_of, finish_fn finish)
{
	for (int64_t q = p0; q < p1; q++)
	{
		int64_t		columns = p->n - q * PANEL < PANEL ? p->n - q * PANEL : PANEL;
		float		bias[PANEL];

		bias_of(p, q, columns, bias);
		for (int64_t i = m; i + rows <= m1; i += rows)
		{
			union sums	sums __attribute__((aligned(64)));
			float	   *y = p->y + (i - m0) * p->y_step + (q - p0) * PANEL;

			sums_of(p, i, rows, q, bytes, &sums);
			for (int64_t r = 0; r < rows; r++)
			{
				float		row[PANEL] __attribute__((aligned(64)));

				finish(p, &sums, r, p->x + (i + r) * p->x_step, q, bias, row);
				if (columns == PANEL)
					memcpy(y + r * p->y_step, row, sizeof(row));
				else
					memcpy(y + r * p->y_step, row, (size_t) columns * sizeof(float));
			}
		}
	}
}

static inline __attribute__((always_inline)) void
product(const struct cpu_narrow_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1, int64_t bytes,
		sums_fn sums_of, finish_fn finish)
{
	int64_t		rest = (m1 - m0) % ROWS;

	if (m1 - m0 >= ROWS)
	{
		configure(ROWS);
		panels(p, m0, m0, m1 - rest, ROWS, p0, p1, bytes, sums_of, finish);
	}
	if (rest > 0)
	{
		configure(rest);
		panels(p, m0, m1 - rest, m1, rest, p0, p1, bytes, sums_of, finish);
	}
	tile_release();
}

static void
product_bf16(const struct cpu_narrow_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	product(p, m0, m1, p0, p1, p->k * 2, sums_bf16, finish_bf16);
}

static void
product_int8(const struct cpu_narrow_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	product(p, m0, m1, p0, p1, p->k, sums_int8, finish_int8);
}

/* Four tiles' sums that wait for themselves alone; returns the number of operations. */
#define PEAK(NAME, MULTIPLY) \
static __attribute__((unused)) double \
NAME(int64_t rounds) \
{ \
	configure(ROWS); \
	for (int64_t r = 0; r < rounds / 16; r++) \
	{ \
		MULTIPLY(0, 4, 6); \
		MULTIPLY(1, 4, 7); \
		MULTIPLY(2, 5, 6); \
		MULTIPLY(3, 5, 7); \
	} \
	tile_release(); \
	return 2.0 * 4 * TILE_HEIGHT * TILE_HEIGHT * (double) (rounds / 16); \
}

PEAK(peak_bf16_rows, tile_multiply_bf16)
PEAK(peak_int8_rows, tile_multiply_int8)
