/*
 * transpose.cu
 *	  COPY where neighbours of y lie far apart in x: matrices that are turned, in tiles by way of shared memory.
 *
 * A warp reads TILE neighbours of x at a time and writes TILE neighbours of y, each in as few sectors of 32 bytes as they fill.  Of
 * elements of b bytes a tile moves 2 · 32 · b sectors; the plain copy, whose warps read every element from a sector of its own,
 * 32 · (32 + b).
 */
#include "copy.h"
#include "../kernel.h"

#define TILE			32
#define TILE_LINES		8			/* that a block's threads move at a time */
#define TURN_LEAST		16			/* of a shorter side, so much of a tile is empty that nothing is gained */

template <class U>
struct turn_tile
{
	U			at[TILE][TILE + 1];	/* a column's elements lie in different banks */
};

template <class U, class I>
__global__ void
__launch_bounds__(TILE * TILE_LINES)
turn_kernel(const gpu_batch *batch, copy_turn turn, uint64_t first, const U *x, U *y, uint8_t lead)
{
	turn_tile<U> &tile = gpu_shared<turn_tile<U>>();
	const int	lane = threadIdx.x % TILE;
	const int	line0 = threadIdx.x / TILE;
	I			tiles = (I) (batch->items[lead] * turn.matrices) * turn.tiles_across.divisor * turn.tiles_down.divisor;

	for (I t = blockIdx.x; t < tiles; t += gridDim.x)
	{
		I			rest = gpu_divide_by(t, turn.tiles_down.divisor, turn.tiles_down);
		I			matrix = gpu_divide_by(rest, turn.tiles_across.divisor, turn.tiles_across);
		int64_t		down0 = (int64_t) (t - rest * turn.tiles_down.divisor) * TILE;
		int64_t		across0 = (int64_t) (rest - matrix * turn.tiles_across.divisor) * TILE;
		I			offset[2];

		gpu_loops_offsets(turn.loops, matrix, offset);
		for (int line = line0; line < TILE; line += TILE_LINES)
			if (down0 + line < turn.down && across0 + lane < turn.across)
				/* steps may be negative: in I the sum wraps around to what it is */
				tile.at[line][lane] = x[(I) ((I) first + offset[0] + (I) ((down0 + line) * turn.x_down) +
											 (I) ((across0 + lane) * turn.x_across))];
		__syncthreads();
		for (int line = line0; line < TILE; line += TILE_LINES)
			if (down0 + lane < turn.down && across0 + line < turn.across)
				y[offset[1] + (I) ((across0 + line) * turn.y_across) + (I) (down0 + lane)] = tile.at[lane][line];
		__syncthreads();
	}
}

template <class U>
static void
turn_units(const cuda_plan *plan, cuda_run *run, const copy_own *own)
{
	const copy_turn *turn = &own->turn;
	uint64_t	tiles = run->items[plan->lead] * turn->matrices * turn->tiles_across.divisor * turn->tiles_down.divisor;

	cuda_launch(run, copy_narrow(plan, run, own) ? turn_kernel<U, uint32_t> : turn_kernel<U, uint64_t>, dim3(cuda_blocks(tiles, 1)),
				dim3(TILE * TILE_LINES), run->batch, *turn, (uint64_t) own->first, (const U *) cuda_operand(plan, run, 0),
				(U *) cuda_address(run, &plan->output), plan->lead);
}

void
copy_turn_launch(const cuda_plan *plan, cuda_run *run, const copy_own *own)
{
	switch (own->unit)
	{
		case 1:
			turn_units<uint8_t>(plan, run, own);
			break;
		case 2:
			turn_units<uint16_t>(plan, run, own);
			break;
		case 4:
			turn_units<uint32_t>(plan, run, own);
			break;
		case 8:
			turn_units<uint64_t>(plan, run, own);
			break;
	}
}

/* The loops but for those two. */
static void
turn_loops(copy_turn *turn, const gpu_loops<1> *loops, int across, int down)
{
	int64_t		step = 1;
	int64_t		y_steps[MAP_LOOPS_MAX];

	for (int a = loops->rank - 1; a >= 0; a--)
	{
		y_steps[a] = step;
		step *= loops->dims[a];
	}
	turn->matrices = (uint64_t) loops->scale;
	turn->y_across = y_steps[across];
	turn->loops.scale = loops->scale;
	for (int a = 0; a < loops->rank; a++)
		if (a != across && a != down)
		{
			int			to = turn->loops.rank++;

			turn->loops.steps[0][to] = loops->steps[0][a];
			turn->loops.steps[1][to] = y_steps[a];
			if (to == 0)
				continue;
			turn->loops.dims[to] = loops->dims[a];
			turn->loops.divisors[to] = loops->divisors[a];
			turn->matrices *= (uint64_t) loops->dims[a];
		}
}

void
copy_turn_make(copy_own *own)
{
	const gpu_loops<1> *loops = &own->loops;
	copy_turn  *turn = &own->turn;
	int			down = loops->rank - 1;
	int			across = down - 1;

	while (across > 0 && loops->steps[0][across] != 1 && loops->steps[0][across] != -1)
		across--;
	if (across <= 0 || loops->dims[across] < TURN_LEAST || loops->dims[down] < TURN_LEAST || loops->steps[0][down] == 0 ||
		loops->steps[0][down] == 1 || loops->steps[0][down] == -1 || loops->dims[across] > INT32_MAX || loops->dims[down] > INT32_MAX)
		return;
	turn->across = loops->dims[across];
	turn->down = loops->dims[down];
	turn->x_across = loops->steps[0][across];
	turn->x_down = loops->steps[0][down];
	turn->tiles_across = gpu_divisor_make((uint64_t) (turn->across + TILE - 1) / TILE);
	turn->tiles_down = gpu_divisor_make((uint64_t) (turn->down + TILE - 1) / TILE);
	turn_loops(turn, loops, across, down);
}

CUDA_MODULE
