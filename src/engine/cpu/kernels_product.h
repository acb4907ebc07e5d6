/*
 * kernels_product.h
 *	  Blocks of a matrix product.  Included by kernels_impl.h for each type.
 *
 * A tile is ROWS rows by PANELS panels of two vectors, all in registers; each element is
 * one chain of fused multiply-adds along k, from +0, whatever the tile, so a row has the
 * same bits in all of them.  An edge tile is one panel that may be cut by column n: the
 * same instructions with masked lanes.
 */

/* Columns that one edge tile has: lanes of both vectors. */
INLINE void
N(tile)(const struct cpu_product *p, const T *x, const T *b, T *y, const T *bias, int64_t columns,
		const int rows, const int panels, const bool edge)
{
	V(t)		sum[rows][2 * panels];
	V(m)		lanes[2];
	int64_t		x_step = p->x_step;
	int64_t		b_step = p->b_step;
	int64_t		b_panel = p->b_panel;
	bool		masked_b = edge && !p->padded;

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
		V(t)		column[2 * panels];

		UNROLL
		for (int j = 0; j < 2 * panels; j++)
		{
			const T    *from = b + (j / 2) * b_panel + k * b_step + (j % 2) * V(WIDTH);

			column[j] = masked_b ? V(load_mask)(from, lanes[j % 2]) : V(load)(from);
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

TILE(1, 1, 0) TILE(2, 1, 0) TILE(3, 1, 0) TILE(4, 1, 0)
TILE(1, 1, 1) TILE(2, 1, 1) TILE(3, 1, 1) TILE(4, 1, 1)

typedef void (*N(tile_fn)) (const struct cpu_product *p, const T *x, const T *b, T *y,
							const T *bias, int64_t columns);

static const N(tile_fn) N(tiles)[] = {
	NULL, N(tile_1_1_0), N(tile_2_1_0), N(tile_3_1_0), N(tile_4_1_0)
};
static const N(tile_fn) N(tiles_edge)[] = {
	NULL, N(tile_1_1_1), N(tile_2_1_1), N(tile_3_1_1), N(tile_4_1_1)
};

static void
N(product)(const struct cpu_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	const int	panel = 2 * V(WIDTH);

	for (int64_t q = p0; q < p1; q++)
	{
		int64_t		n0 = q * panel;
		int64_t		columns = p->n - n0 < panel ? p->n - n0 : panel;
		const T    *b = (const T *) p->b + q * p->b_panel;
		const T    *bias = p->bias == NULL ? NULL : (const T *) p->bias + n0 * p->bias_step;
		const N(tile_fn) *tiles = columns < panel ? N(tiles_edge) : N(tiles);

		for (int64_t m = m0; m < m1;)
		{
			int64_t		rows = m1 - m < 4 ? m1 - m : 4;

			tiles[rows](p, (const T *) p->x + m * p->x_step, b, (T *) p->y + m * p->y_step + n0,
						bias, columns);
			m += rows;
		}
	}
}
