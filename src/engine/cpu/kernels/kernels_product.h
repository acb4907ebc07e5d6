/*
 * kernels_product.h
 *	  Blocks of a matrix product.  Included by kernels_impl.h for each type.
 *
 * A tile is ROWS rows by PANELS panels of two vectors, all in registers; each element is
 * one chain of fused multiply-adds along k, from +0, whatever the tile, so a row has the
 * same bits in all of them.  An edge tile is one panel that may be cut by column n: the
 * same instructions with masked lanes.
 *
 * A high tile of one panel asks for the next panel: others of its rows will read this one again, so
 * that nothing else keeps memory busy (32 rows of 768 × 2304: from 87 to 96 % of a Zen 5's peak).
 * A low one has no time to, and what streams by is fetched ahead by the processor itself.
 *
 * There is no blocking along k: a panel streams from the second-level cache at less than
 * a tenth of what that gives, and measured shares of peak are the same for k = 384 and
 * 2048.  Rows a multiple of 4096 bytes apart, though, fall into one set of the first-level
 * cache, of which 8 to 12 lines are kept: then tiles are lower.
 */
#include "tile_list.h"

#ifndef PAGE
#define PAGE		4096
#define PAGE_ROWS	10
#endif

/* Columns that one edge tile has: lanes of both vectors. */
INLINE void
N(tile)(const struct cpu_product *p, const T *x, const T *b, T *y, const T *bias, int64_t columns,
		const int rows, const int panels, const bool edge)
{
	V(t)		sum[TILE_ROWS][8];		/* in registers: rows × 2 panels of it */
	V(m)		lanes[2];
	int64_t		x_step = p->x_step;
	int64_t		b_step = p->b_step;
	int64_t		b_panel = p->b_panel;
	bool		masked_b = edge && !p->padded;
	bool		ahead = panels == 1 && !edge && TILE_READS_AHEAD(rows);

	if (edge)
	{
		lanes[0] = V(first)(columns < V(WIDTH) ? columns : V(WIDTH));
		lanes[1] = V(first)(columns > V(WIDTH) ? columns - V(WIDTH) : 0);
	}
	UNROLL
	for (int i = 0; i < rows; i++)
	{
		UNROLL
		for (int j = 0; j < 2 * panels; j++)
			sum[i][j] = V(set1)(0);
	}
	for (int64_t k = 0; k < p->k; k++)
	{
		V(t)		column[8];

		UNROLL
		for (int j = 0; j < 2 * panels; j++)
		{
			const T    *from = b + (j / 2) * b_panel + k * b_step + (j % 2) * V(WIDTH);

			column[j] = masked_b ? V(load_mask)(from, lanes[j % 2]) : V(load)(from);
			if (ahead)
				__builtin_prefetch(from + b_panel, 0, 2);
		}
		UNROLL
		for (int i = 0; i < rows; i++)
		{
			V(t)		a = V(set1)(x[i * x_step + k]);

			UNROLL
			for (int j = 0; j < 2 * panels; j++)
				sum[i][j] = V(fma)(a, column[j], sum[i][j]);
		}
	}
	UNROLL
	for (int j = 0; j < 2 * panels; j++)
	{
		V(t)		add = V(set1)(0);

		if (bias != NULL && p->bias_step == 0)
			add = V(set1)(bias[0]);
		else if (bias != NULL && edge)
			add = V(load_mask)(bias + j * V(WIDTH), lanes[j % 2]);
		else if (bias != NULL)
			add = V(load)(bias + j * V(WIDTH));
		UNROLL
		for (int i = 0; i < rows; i++)
		{
			V(t)		v = bias != NULL ? V(add)(sum[i][j], add) : sum[i][j];

			v = N(canonical)(v);
			if (edge)
				V(store_mask)(y + i * p->y_step + j * V(WIDTH), lanes[j % 2], v);
			else
				V(store)(y + i * p->y_step + j * V(WIDTH), v);
		}
	}
}

#define TILE(ROWS, PANELS, EDGE) \
static __attribute__((noinline)) void \
N(tile_##ROWS##_##PANELS##_##EDGE)(const struct cpu_product *p, const T *x, const T *b, T *y, \
								   const T *bias, int64_t columns) \
{ \
	N(tile)(p, x, b, y, bias, columns, ROWS, PANELS, EDGE); \
}

#define NAME(ROWS, PANELS, EDGE) N(tile_##ROWS##_##PANELS##_##EDGE)

TILES(1, 0)
TILES(1, 1)
TILES_PAIR
TILE(1, 4, 0)

typedef void (*N(tile_fn)) (const struct cpu_product *p, const T *x, const T *b, T *y,
							const T *bias, int64_t columns);

static const N(tile_fn) N(tiles_full)[] = {NAMES(1, 0)};
static const N(tile_fn) N(tiles_edge)[] = {NAMES(1, 1)};
static const N(tile_fn) N(tiles_pair)[] = {NAMES_PAIR};

/* The rows of a block by panel q and those beside it, in tiles of about equal height. */
INLINE void
N(column_of_tiles)(const struct cpu_product *p, int64_t m0, int64_t m1, int64_t q, int64_t columns,
				   const N(tile_fn) *tiles)
{
	int64_t		n0 = q * 2 * V(WIDTH);
	const T    *b = p->b == NULL ? NULL : (const T *) p->b + q * p->b_panel;
	const T    *bias = p->bias == NULL ? NULL : (const T *) p->bias + n0 * p->bias_step;
	int64_t		rows = m1 - m0;
	int64_t		most = p->x_step * (int64_t) sizeof(T) % PAGE == 0 && TILE_ROWS > PAGE_ROWS ? PAGE_ROWS : TILE_ROWS;
	int64_t		count = (rows + most - 1) / most;
	int64_t		m = m0;

	for (int64_t i = 0; i < count; i++)
	{
		int64_t		height = rows * (i + 1) / count - rows * i / count;

		tiles[height](p, (const T *) p->x + m * p->x_step, b, (T *) p->y + m * p->y_step + n0, bias,
					  columns);
		m += height;
	}
}

/*
 * Multiply-adds that wait for nothing but their own sum, as many at a time as hide it, and how many
 * operations they were: what a core can do at best.
 */
static double
N(peak)(int64_t rounds)
{
	V(t)		sum[PEAK_SUMS];
	V(t)		a = V(set1)((T) 1e-9);
	V(t)		b = V(set1)((T) 0.999);
	T			lanes[V(WIDTH)];
	volatile T	sink;

	UNROLL
	for (int i = 0; i < PEAK_SUMS; i++)
		sum[i] = V(set1)((T) i);
	for (int64_t r = 0; r < rounds; r++)
	{
		UNROLL
		for (int i = 0; i < PEAK_SUMS; i++)
			sum[i] = V(fma)(sum[i], b, a);
	}
	UNROLL
	for (int i = 1; i < PEAK_SUMS; i++)
		sum[0] = V(add)(sum[0], sum[i]);
	V(store)(lanes, sum[0]);
	sink = lanes[0];
	(void) sink;
	return 2.0 * PEAK_SUMS * V(WIDTH) * (double) rounds;
}

/*
 * One row wants eight sums to keep the multipliers busy, a few rows two panels side by
 * side; more rows one panel.
 */
static void
N(product)(const struct cpu_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	const int64_t panel = 2 * V(WIDTH);
	int64_t		full = p->n / panel < p1 ? p->n / panel : p1;
	int64_t		q = p0;

	if (m1 - m0 == 1)
		for (; q + 4 <= full; q += 4)
			N(column_of_tiles)(p, m0, m1, q, 0, (const N(tile_fn)[]) {NULL, NAME(1, 4, 0)});
	else if (m1 - m0 <= TILE_PAIR_ROWS)
		for (; q + 2 <= full; q += 2)
			N(column_of_tiles)(p, m0, m1, q, 0, N(tiles_pair));
	for (; q < full; q++)
		N(column_of_tiles)(p, m0, m1, q, 0, N(tiles_full));
	for (; q < p1; q++)
		N(column_of_tiles)(p, m0, m1, q, p->n - q * panel, N(tiles_edge));
}

#undef TILE
#undef NAME
