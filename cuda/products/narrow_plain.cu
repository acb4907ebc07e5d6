/*
 * narrow_plain.cu
 *	  Products in bf16 and int8 without tensor cores: GPUs before sm_80.
 *
 * bf16: numbers widened to float32, one chain of fused multiply-adds along K from k = 0.  int8: the same exact sums as
 * everywhere.  A word is four bytes along K: two numbers, or four.
 */
#include "narrow.h"

#define TILE		32					/* rows, and columns, and words along K */
#define THREADS		256
#define ACROSS		16					/* threads; each has two rows and two columns */

struct plain_memory
{
	uint32_t	x[TILE][TILE + 1];
	uint32_t	w[TILE][TILE + 1];
};

union plain_sums					/* four bytes each: float, or int32 */
{
	plain_memory words;
	uint32_t	stage[TILE][TILE];
};

struct plain_bf16
{
	typedef float number;
	typedef product_plain_sum<float> sum;

	static __device__ inline float
	multiply(float s, uint32_t x, uint32_t w)
	{
		s = fmaf(gpu_f32_of_bits(x << 16), gpu_f32_of_bits(w << 16), s);
		return fmaf(gpu_f32_of_bits(x & 0xFFFF0000), gpu_f32_of_bits(w & 0xFFFF0000), s);
	}
};

struct plain_int8
{
	typedef int32_t number;
	typedef narrow_scaled_sum sum;

	/* x's bytes are 128 too high: as signed ones right when their highest bit is turned, and then so is the sum again */
	static __device__ inline int32_t
	multiply(int32_t s, uint32_t x, uint32_t w)
	{
		return __dp4a((int) 0x01010101, (int) w, 0) * DEVICE_Q8_ZERO + __dp4a((int) (x ^ 0x80808080), (int) w, s);
	}
};

/* Four bytes of a row from offset on; what is behind `bytes` is zeros. */
static __device__ inline uint32_t
plain_word(const uint8_t *row, int64_t offset, int64_t bytes)
{
	uint32_t	word = 0;

	for (int i = 0; i < 4; i++)
		if (offset + i < bytes)
			word |= (uint32_t) row[offset + i] << i * 8;
	return word;
}

template <class KIND>
static __global__ void __launch_bounds__(THREADS)
plain_kernel(narrow_product p, const gpu_batch *batch)
{
	typedef typename KIND::number number;
	plain_sums &memory = gpu_shared<plain_sums>();
	number	   *stage = (number *) &memory.stage[0][0];
	int			across = (int) threadIdx.x % ACROSS;
	int			down = (int) threadIdx.x / ACROSS;
	int64_t		rows = batch->items[p.lead] * p.m;
	int64_t		tiles_across = (p.end.n + TILE - 1) / TILE;
	int64_t		tiles = (rows + TILE - 1) / TILE * tiles_across;

	for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x)
	{
		product_place place = {.row0 = t / tiles_across * TILE, .rows_end = rows,
							   .column0 = t % tiles_across * TILE};
		number		sums[2][2] = {{0, 0}, {0, 0}};

		for (int64_t k0 = 0; k0 < p.k_bytes; k0 += TILE * 4)
		{
			for (int e = (int) threadIdx.x; e < TILE * TILE; e += THREADS)
			{
				int64_t		row = place.row0 + e / TILE;
				int64_t		column = place.column0 + e / TILE;
				int64_t		offset = k0 + e % TILE * 4;

				memory.words.x[e / TILE][e % TILE] = row < rows ? plain_word(p.x + row * p.x_step, offset, p.k_bytes) : 0;
				memory.words.w[e / TILE][e % TILE] = column < p.n_padded && offset < p.w_step ?
					*(const uint32_t *) (p.w + column * p.w_step + offset) : 0;
			}
			__syncthreads();
			for (int k = 0; k < TILE && k0 + k * 4 < p.k_bytes; k++)
				for (int i = 0; i < 2; i++)
					for (int j = 0; j < 2; j++)
						sums[i][j] = KIND::multiply(sums[i][j], memory.words.x[down * 2 + i][k],
													memory.words.w[across + j * ACROSS][k]);
			__syncthreads();
		}
		for (int i = 0; i < 2; i++)
			for (int j = 0; j < 2; j++)
				stage[(down * 2 + i) * TILE + across + j * ACROSS] = sums[i][j];
		__syncthreads();
		product_finish<TILE, TILE>(p.end, place, (const number *) stage, TILE, typename KIND::sum(p));
		__syncthreads();
	}
}

void
narrow_plain(const cuda_plan *plan, cuda_run *run, const narrow_product &p, int64_t rows)
{
	uint64_t	tiles = product_tiles(rows, p.end.n, TILE, TILE);

	if (tiles == 0)
		return;
	if (plan->type == DEVICE_BF16)
		cuda_launch(run, plain_kernel<plain_bf16>, product_grid(tiles), dim3(THREADS), p, run->batch);
	else
		cuda_launch(run, plain_kernel<plain_int8>, product_grid(tiles), dim3(THREADS), p, run->batch);
}

CUDA_MODULE
