/*
 * block.h
 *	  How a product is cut into units: blocks of rows times BLOCK_PANELS panels of the weight.
 *
 * Blocks have about equal heights, so that tiles have; where they begin changes no bit.
 */
#ifndef ENGINE_CPU_BLOCK_H
#define ENGINE_CPU_BLOCK_H

#include "../cpu.h"

#define BLOCK_ROWS		112			/* at most */
#define BLOCK_PANELS	4

struct block
{
	int64_t		m0;					/* rows */
	int64_t		m1;
	int64_t		p0;					/* panels */
	int64_t		p1;
	int64_t		n0;					/* columns */
	int64_t		n1;
};

struct blocks
{
	int64_t		rows;
	int64_t		step;				/* blocks begin on a multiple of it */
	int64_t		down;
	int64_t		across;
};

/* Rows of a block at most: as many as `bytes` of cache keep while panels pass by, in whole tiles. */
static inline int64_t
block_rows_most(int64_t row_bytes, int64_t bytes, int64_t tile)
{
	int64_t		most = BLOCK_ROWS / tile * tile;
	int64_t		rows = row_bytes == 0 ? most : bytes / row_bytes / tile * tile;

	return rows > most ? most : rows < 2 * tile ? 2 * tile : rows;
}

static inline struct blocks
blocks_of(const struct device_weight *weight, int64_t rows, int64_t most, int64_t step)
{
	return (struct blocks) {
		.rows = rows, .step = step, .down = (rows + most - 1) / most,
		.across = (weight->panels + BLOCK_PANELS - 1) / BLOCK_PANELS
	};
}

static inline struct block
block_at(const struct blocks *blocks, const struct device_weight *weight, uint64_t unit)
{
	int64_t		i = (int64_t) unit / blocks->across;
	int64_t		p = (int64_t) unit % blocks->across * BLOCK_PANELS;
	struct block block = {
		.m0 = blocks->rows * i / blocks->down / blocks->step * blocks->step,
		.m1 = i + 1 == blocks->down ? blocks->rows :
			blocks->rows * (i + 1) / blocks->down / blocks->step * blocks->step,
		.p0 = p,
		.p1 = p + BLOCK_PANELS < weight->panels ? p + BLOCK_PANELS : weight->panels
	};

	block.n0 = block.p0 * weight->panel;
	block.n1 = block.p1 * weight->panel < weight->n ? block.p1 * weight->panel : weight->n;
	return block;
}

#endif							/* ENGINE_CPU_BLOCK_H */
