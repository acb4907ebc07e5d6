/*
 * narrow.cu
 *	  Products in bf16 and int8 by tensor cores; without them in narrow_plain.cu.
 *
 * Nouns
 *	step		32 bytes along K, what one instruction multiplies: 16 numbers of bf16, 32 of int8
 *	depth		the bytes along K of a tile that are in shared memory at once: several steps
 *	slot		memory of one depth of both operands; there are SLOTS, in a ring
 *	chunk		16 bytes, what is copied at once, and of ldmatrix a row; they lie turned about in their row so that
 *				eight rows of one column of chunks meet no bank twice
 *
 * Loop of a block: the copies of the depth that is SLOTS − 1 ahead are begun, this one is multiplied; when all are done, sums
 * go through the stage to product_finish().
 *
 * An element's sum: one chain of instructions, a step after the other from k = 0, as many as K wants, in every tile.  What is
 * filled up is zeros.  The sums of int8 are of x + 128, and 128 times the sum of the column's numbers is taken off: all of it
 * exact.
 */
#include "narrow.h"

#include <tensor.h>

#define STEP	32

/* ROWS × COLUMNS by DEPTH bytes of k; the block's warps share them, DOWN × ACROSS. */
template <int ROWS_, int COLUMNS_, int DEPTH_, int DOWN_, int ACROSS_, int SLOTS_>
struct narrow_tile
{
	static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_, DOWN = DOWN_, ACROSS = ACROSS_, SLOTS = SLOTS_;
	static constexpr int THREADS = DOWN * ACROSS * 32;
	static constexpr int BLOCKS = THREADS == 256 ? 2 : 4;	/* at once on a processor, at least: bounds registers */
	static constexpr int CHUNKS = DEPTH / 16;
	static constexpr int WARP_ROWS = ROWS / DOWN;
	static constexpr int WARP_COLUMNS = COLUMNS / ACROSS;
	static constexpr int A = WARP_ROWS / 16;	/* fragments */
	static constexpr int B = WARP_COLUMNS / 16;	/* pairs of them */
	static constexpr int STAGE_STRIDE = COLUMNS + 8;

	struct slot
	{
		uint8_t		x[ROWS][DEPTH];
		uint8_t		w[COLUMNS][DEPTH];
	};

	union alignas(16) memory
	{
		slot		slots[SLOTS];
		uint32_t	stage[WARP_ROWS][STAGE_STRIDE];	/* float or int32 */
	};

	/* Where chunk c of row r lies in its row. */
	static __device__ inline unsigned
	turned(unsigned r, unsigned c)
	{
		return (CHUNKS == 4 ? c ^ (r / 2 % 4) : c ^ (r % 8)) * 16;
	}
};

struct narrow_bf16
{
	typedef tensor_f32 sums;
	typedef float number;
	typedef product_plain_sum<float> sum;

	static __device__ inline void
	multiply(sums &s, const tensor_a &a, const tensor_b &b)
	{
		tensor_multiply(s, a, b);
	}
};

struct narrow_int8
{
	typedef tensor_s32 sums;
	typedef int32_t number;
	typedef narrow_scaled_sum sum;

	static __device__ inline void
	multiply(sums &s, const tensor_a &a, const tensor_b &b)
	{
		tensor_multiply_u8(s, a, b);
	}
};

/* How rows of x are copied: all of them begin on a multiple of so many bytes. */
enum narrow_copy
{
	NARROW_CHUNKS,					/* 16 */
	NARROW_WORDS,					/* 4 */
	NARROW_BYTES
};

/* ---- into shared memory ---- */

/* Bytes [offset, offset + 16) of a row of x, of which `bytes` are there; the others become zeros. */
static __device__ inline void
narrow_copy_bytes(uint8_t *to, const uint8_t *row, int64_t offset, int64_t bytes)
{
	uint32_t	words[4] = {0, 0, 0, 0};

	for (int i = 0; i < 16; i++)
		if (offset + i < bytes)
			words[i / 4] |= (uint32_t) row[offset + i] << i % 4 * 8;
	*(product_vector<uint32_t, 4> *) to = {{words[0], words[1], words[2], words[3]}};
}

template <class TILE, narrow_copy COPY>
static __device__ inline void
narrow_copy_x(const narrow_product &p, typename TILE::slot &slot, int64_t row0, int64_t rows, int64_t k0)
{
	GPU_UNROLL
	for (int e = (int) threadIdx.x; e < TILE::ROWS * TILE::CHUNKS; e += TILE::THREADS)
	{
		unsigned	r = (unsigned) e / TILE::CHUNKS;
		unsigned	c = (unsigned) e % TILE::CHUNKS;
		bool		there = row0 + r < rows;
		const uint8_t *row = there ? p.x + (row0 + r) * p.x_step : p.x;
		uint8_t    *to = slot.x[r] + TILE::turned(r, c);
		int64_t		offset = k0 + c * 16;

		if (COPY == NARROW_CHUNKS)
		{
			there = there && offset < p.k_bytes;
			tensor_copy(to, there ? row + offset : p.x, there);
		}
		else if (COPY == NARROW_WORDS)
			GPU_UNROLL
			for (int i = 0; i < 16; i += 4)
			{
				bool		word = there && offset + i < p.k_bytes;

				tensor_copy_word(to + i, word ? row + offset + i : p.x, word);
			}
		else
			narrow_copy_bytes(to, row, offset, there ? p.k_bytes : 0);
	}
}

template <class TILE>
static __device__ inline void
narrow_copy_w(const narrow_product &p, typename TILE::slot &slot, int64_t column0, int64_t k0)
{
	GPU_UNROLL
	for (int e = (int) threadIdx.x; e < TILE::COLUMNS * TILE::CHUNKS; e += TILE::THREADS)
	{
		unsigned	n = (unsigned) e / TILE::CHUNKS;
		unsigned	c = (unsigned) e % TILE::CHUNKS;
		bool		there = column0 + n < p.n_padded && k0 + c * 16 < p.w_step;

		tensor_copy(slot.w[n] + TILE::turned(n, c), there ? p.w + (column0 + n) * p.w_step + k0 + c * 16 : p.w, there);
	}
}

/* Begins the copies of one depth, if there is such a one, and makes a group of them in any case. */
template <class TILE, narrow_copy COPY>
static __device__ inline void
narrow_fetch(const narrow_product &p, typename TILE::memory &memory, int64_t depth, int64_t row0, int64_t rows, int64_t column0)
{
	if (depth * TILE::DEPTH < p.k_bytes)
	{
		typename TILE::slot &slot = memory.slots[depth % TILE::SLOTS];

		narrow_copy_x<TILE, COPY>(p, slot, row0, rows, depth * TILE::DEPTH);
		narrow_copy_w<TILE>(p, slot, column0, depth * TILE::DEPTH);
	}
	tensor_copy_commit();
}

/* ---- products ---- */

template <class KIND, class TILE>
static __device__ inline void
narrow_step(const typename TILE::slot &slot, unsigned step, unsigned row0, unsigned column0,
			typename KIND::sums (&sums)[TILE::A][2 * TILE::B])
{
	tensor_a	a[TILE::A];
	tensor_b	b[2 * TILE::B];

	GPU_UNROLL
	for (int i = 0; i < TILE::A; i++)
		tensor_load_a_placed(a[i], [&](unsigned r, unsigned half)
							 {
								 r += row0 + i * 16;
								 return slot.x[r] + TILE::turned(r, step * 2 + half);
							 });
	GPU_UNROLL
	for (int j = 0; j < TILE::B; j++)
		tensor_load_b_pair_placed(b[2 * j], b[2 * j + 1], [&](unsigned n, unsigned half)
								  {
									  n += column0 + j * 16;
									  return slot.w[n] + TILE::turned(n, step * 2 + half);
								  });
	GPU_UNROLL
	for (int i = 0; i < TILE::A; i++)
		GPU_UNROLL
		for (int j = 0; j < 2 * TILE::B; j++)
			KIND::multiply(sums[i][j], a[i], b[j]);
}

template <class KIND, class TILE, narrow_copy COPY>
static __device__ inline void
narrow_sums(const narrow_product &p, typename TILE::memory &memory, int64_t row0, int64_t rows, int64_t column0,
			typename KIND::sums (&sums)[TILE::A][2 * TILE::B])
{
	unsigned	warp = threadIdx.x / 32;
	unsigned	warp_row0 = warp / TILE::ACROSS * TILE::WARP_ROWS;
	unsigned	warp_column0 = warp % TILE::ACROSS * TILE::WARP_COLUMNS;
	int64_t		depths = (p.k_bytes + TILE::DEPTH - 1) / TILE::DEPTH;

	GPU_UNROLL
	for (int s = 0; s < TILE::SLOTS - 1; s++)
		narrow_fetch<TILE, COPY>(p, memory, s, row0, rows, column0);
	for (int64_t depth = 0; depth < depths; depth++)
	{
		const typename TILE::slot &slot = memory.slots[depth % TILE::SLOTS];
		int64_t		left = p.k_bytes - depth * TILE::DEPTH;

		tensor_copy_wait<TILE::SLOTS - 2>();
		__syncthreads();
		narrow_fetch<TILE, COPY>(p, memory, depth + TILE::SLOTS - 1, row0, rows, column0);
		if (left > TILE::DEPTH - STEP)
		{
			GPU_UNROLL
			for (unsigned step = 0; step < TILE::DEPTH / STEP; step++)
				narrow_step<KIND, TILE>(slot, step, warp_row0, warp_column0, sums);
		}
		else
			for (unsigned step = 0; step * STEP < left; step++)
				narrow_step<KIND, TILE>(slot, step, warp_row0, warp_column0, sums);
	}
	tensor_copy_wait<0>();
}

/* Warps whose sums are of the same rows put them on the stage together. */
template <class KIND, class TILE>
static __device__ inline void
narrow_finish(const narrow_product &p, typename TILE::memory &memory, int64_t row0, int64_t rows, int64_t column0,
			  const typename KIND::sums (&sums)[TILE::A][2 * TILE::B])
{
	typedef typename KIND::number number;
	unsigned	warp = threadIdx.x / 32;
	unsigned	lane = threadIdx.x % 32;
	number	   *stage = (number *) &memory.stage[0][0];

	for (unsigned down = 0; down < TILE::DOWN; down++)
	{
		product_place place = {.row0 = row0 + down * TILE::WARP_ROWS, .rows_end = rows, .column0 = column0};

		__syncthreads();
		if (warp / TILE::ACROSS == down)
		{
			number	   *to = stage + warp % TILE::ACROSS * TILE::WARP_COLUMNS;

			GPU_UNROLL
			for (int i = 0; i < TILE::A; i++)
				GPU_UNROLL
				for (int j = 0; j < 2 * TILE::B; j++)
					GPU_UNROLL
					for (int r = 0; r < 4; r += 2)
					{
						number	   *pair = to + (i * 16 + tensor_row(lane, r)) * TILE::STAGE_STRIDE + j * 8 +
							tensor_column(lane, r);

						*(product_vector<number, 2> *) pair = {{sums[i][j].r[r], sums[i][j].r[r + 1]}};
					}
		}
		__syncthreads();
		product_finish<TILE::WARP_ROWS, TILE::COLUMNS>(p.end, place, (const number *) stage, TILE::STAGE_STRIDE,
													   typename KIND::sum(p));
	}
	__syncthreads();
}

template <class KIND, class TILE, narrow_copy COPY>
static __global__ void __launch_bounds__(TILE::THREADS, TILE::BLOCKS)
narrow_kernel(narrow_product p, const gpu_batch *batch)
{
	typename TILE::memory &memory = gpu_shared<typename TILE::memory>();
	int64_t		rows = batch->items[p.lead] * p.m;
	int64_t		across = (p.end.n + TILE::COLUMNS - 1) / TILE::COLUMNS;
	int64_t		tiles = (rows + TILE::ROWS - 1) / TILE::ROWS * across;

	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
	{
		int64_t		row0 = t / across * TILE::ROWS;
		int64_t		column0 = t % across * TILE::COLUMNS;
		typename KIND::sums sums[TILE::A][2 * TILE::B];

		GPU_UNROLL
		for (int i = 0; i < TILE::A; i++)
			GPU_UNROLL
			for (int j = 0; j < 2 * TILE::B; j++)
				GPU_UNROLL
				for (int r = 0; r < 4; r++)
					sums[i][j].r[r] = 0;
		narrow_sums<KIND, TILE, COPY>(p, memory, row0, rows, column0, sums);
		narrow_finish<KIND, TILE>(p, memory, row0, rows, column0, sums);
	}
}

/* ---- launches ---- */

template <class KIND, class TILE>
static void
launch_tile(const narrow_product &p, cuda_run *run, int64_t rows)
{
	uint64_t	tiles = product_tiles(rows, p.end.n, TILE::ROWS, TILE::COLUMNS);

	if (tiles == 0)
		return;
	if (p.x_step % 16 == 0 && p.k_bytes % 16 == 0)
		cuda_launch(run, narrow_kernel<KIND, TILE, NARROW_CHUNKS>, product_grid(tiles), dim3(TILE::THREADS), p, run->batch);
	else if (p.x_step % 4 == 0 && p.k_bytes % 4 == 0)
		cuda_launch(run, narrow_kernel<KIND, TILE, NARROW_WORDS>, product_grid(tiles), dim3(TILE::THREADS), p, run->batch);
	else
		cuda_launch(run, narrow_kernel<KIND, TILE, NARROW_BYTES>, product_grid(tiles), dim3(TILE::THREADS), p, run->batch);
}

/* The largest tile of which there is one for each processor. */
template <class KIND>
static void
launch_narrow(const cuda_plan *plan, cuda_run *run)
{
	narrow_product p = narrow_product_of(plan, run);
	int64_t		rows = product_rows(plan, run);
	uint64_t	processors = (uint64_t) run->gpu->processors;

	if (run->gpu->sm < TENSOR_SM)
		narrow_plain(plan, run, p, rows);
	else if (product_tiles(rows, p.end.n, 128, 128) >= processors)
		launch_tile<KIND, narrow_tile<128, 128, 64, 2, 4, 3>>(p, run, rows);
	else if (product_tiles(rows, p.end.n, 64, 64) >= processors)
		launch_tile<KIND, narrow_tile<64, 64, 128, 2, 2, 3>>(p, run, rows);
	else
		launch_tile<KIND, narrow_tile<16, 32, 256, 1, 2, 4>>(p, run, rows);
}

void
product_bf16(const cuda_plan *plan, cuda_run *run)
{
	launch_narrow<narrow_bf16>(plan, run);
}

void
product_int8(const cuda_plan *plan, cuda_run *run)
{
	launch_narrow<narrow_int8>(plan, run);
}

CUDA_MODULE
