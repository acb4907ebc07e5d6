/*
 * sequence.cu
 *	  ROTARY, GATE and POOL of encoders.
 *
 * POOL: sums of blocks of POOL_BLOCK tokens from the row's first pooled one on, added in their order; which threads make
 * the blocks' sums depends on how many rows and tokens there are, what they are made of does not.
 */
#include "../../cuda.h"
#include "../math/function.h"

#define WARP		32
#define WARPS		8				/* of a block */
#define POOL_BLOCK	32				/* tokens, as on the CPU */

/* ---- ROTARY ---- */

struct rotary_call
{
	const float *x;
	const float *table;
	float	   *y;
	uint32_t	length;				/* of a token's vector */
	uint32_t	size;				/* of a head */
	uint32_t	pairs;				/* of a head's numbers that are turned */
	uint32_t	pairs_all;			/* of all heads */
	int64_t		places;
	bool		neighbours;
};

/* A token's i-th pair: where its first number is; the other is `apart` further. */
static __device__ inline uint32_t
rotary_first(const rotary_call &c, uint32_t i)
{
	uint32_t	pair = i % c.pairs;

	return i / c.pairs * c.size + (c.neighbours ? 2 * pair : pair);
}

/* Whether a token's number i belongs to a pair. */
static __device__ inline bool
rotary_turns(const rotary_call &c, uint32_t i)
{
	return i / c.size < c.pairs_all / c.pairs && i % c.size < 2 * c.pairs;
}

/* A block takes a token, a thread a pair, and numbers that only move. */
__global__ void
rotary(const gpu_batch *batch, rotary_call c)
{
	uint32_t	apart = c.neighbours ? 1 : c.pairs;

	for (uint64_t token = blockIdx.x; token < batch->items[DEVICE_LEAD_TOKENS]; token += gridDim.x)
	{
		uint32_t	row = gpu_search(batch->row_off, batch->items[DEVICE_LEAD_ROWS], (uint32_t) token);
		int64_t		place = (int64_t) token - batch->row_off[row];
		bool		fits = place < c.places;
		const float *angles = c.table + place * 2 * c.pairs;
		const float *x = c.x + token * c.length;
		float	   *y = c.y + token * c.length;

		if (!fits && threadIdx.x == 0)
			gpu_fail(batch, DEVICE_LEAD_ROWS, row, GPU_ROW_PLACES);
		for (uint32_t i = threadIdx.x; fits && i < c.pairs_all; i += blockDim.x)
		{
			uint32_t	first = rotary_first(c, i);
			float		cosine = angles[i % c.pairs];
			float		sine = angles[c.pairs + i % c.pairs];
			float		a = x[first];
			float		b = x[first + apart];

			y[first] = gpu_canonical(fmaf(a, cosine, -(b * sine)));
			y[first + apart] = gpu_canonical(fmaf(b, cosine, a * sine));
		}
		for (uint32_t i = threadIdx.x; x != y && i < c.length; i += blockDim.x)
			if (!fits || !rotary_turns(c, i))
				y[i] = x[i];
	}
}

static void
launch_rotary(const cuda_plan *plan, cuda_run *run)
{
	const rotary_call *own = (const rotary_call *) plan->own;
	rotary_call call = *own;
	uint32_t	threads = own->length >= 256 ? 256 : (own->length + WARP - 1) / WARP * WARP;

	call.x = (const float *) cuda_operand(plan, run, 0);
	call.table = (const float *) cuda_operand(plan, run, 1);
	call.y = (float *) cuda_address(run, &plan->output);
	cuda_launch(run, rotary, dim3(cuda_blocks(run->items[DEVICE_LEAD_TOKENS], 1)), dim3(threads), run->batch, call);
}

bool
cuda_make_rotary(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	const device_tensor *table = cuda_input(making, 1);
	int64_t		length = cuda_elements(x, 0, x->rank);
	rotary_call *own;

	if (length > UINT32_MAX / 2)
		return false;
	own = (rotary_call *) cuda_own(making, sizeof(rotary_call));
	if (own == nullptr)
		return false;
	own->length = (uint32_t) length;
	own->size = (uint32_t) plan->i[1];
	own->pairs = (uint32_t) (plan->i[2] / 2);
	own->pairs_all = (uint32_t) plan->i[0] * own->pairs;
	own->places = cuda_elements(table, 0, table->rank) / plan->i[2];
	own->neighbours = plan->i[3] != 0;
	plan->launch = launch_rotary;
	plan->flops_item = 6.0 * own->pairs_all;
	plan->bytes_item = 8.0 * (double) length;
	return true;
}

/* ---- GATE ---- */

#define GATE_EACH	4				/* elements of a thread */

struct gate_call
{
	const float *x;
	float	   *y;
	uint32_t	n;					/* of y */
	uint32_t	pieces;				/* of a vector: blocks of GATE_EACH elements a thread */
	bool		second;				/* fn is of the second half */
	uint8_t		lead;
	uint16_t	fn;
	float		f[2];
	uint64_t	vectors_item;
};

__global__ void
gate(const gpu_batch *batch, gate_call c)
{
	uint64_t	blocks = batch->items[c.lead] * c.vectors_item * c.pieces;

	for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x)
	{
		uint64_t	vector = block / c.pieces;
		uint32_t	from = (uint32_t) (block % c.pieces) * GATE_EACH * blockDim.x + threadIdx.x;
		const float *u = c.x + vector * 2 * c.n + (c.second ? c.n : 0);
		const float *w = c.x + vector * 2 * c.n + (c.second ? 0 : c.n);
		float	   *y = c.y + vector * c.n;

		for (uint32_t i = from, e = 0; e < GATE_EACH && i < c.n; e++, i += blockDim.x)
			y[i] = gpu_canonical(gpu_unary(c.fn, u[i], c.f[0], c.f[1]) * w[i]);
	}
}

static uint32_t
gate_threads(uint32_t n)
{
	uint32_t	threads = WARP;

	while (threads < 256 && threads < n)
		threads *= 2;
	return threads;
}

static void
launch_gate(const cuda_plan *plan, cuda_run *run)
{
	gate_call	call = *(const gate_call *) plan->own;

	call.x = (const float *) cuda_operand(plan, run, 0);
	call.y = (float *) cuda_address(run, &plan->output);
	cuda_launch(run, gate, dim3(cuda_blocks(run->items[plan->lead] * call.vectors_item * call.pieces, 1)),
				dim3(gate_threads(call.n)), run->batch, call);
}

bool
cuda_make_gate(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	int64_t		n = making->y->dims[making->y->rank - 1];
	int64_t		elements = cuda_elements(making->y, 0, making->y->rank);
	gate_call  *own;

	if (n > UINT32_MAX / 4)
		return false;
	own = (gate_call *) cuda_own(making, sizeof(gate_call));
	if (own == nullptr)
		return false;
	own->n = (uint32_t) n;
	own->pieces = (own->n + GATE_EACH * gate_threads(own->n) - 1) / (GATE_EACH * gate_threads(own->n));
	own->second = plan->i[0] != 0;
	own->lead = plan->lead;
	own->fn = plan->fn;
	own->f[0] = (float) plan->f[0];
	own->f[1] = (float) plan->f[1];
	own->vectors_item = n == 0 ? 0 : (uint64_t) (elements / n);
	plan->launch = launch_gate;
	plan->flops_item = 30.0 * (double) elements;
	plan->bytes_item = 12.0 * (double) elements;
	return true;
}

/* ---- POOL ---- */

#define POOL_LONG	64				/* tokens a row, from which on warps share a row */

struct pool_call
{
	const void *x;
	void	   *y;
	uint32_t	n;
	uint32_t	pieces;				/* of a vector */
	uint16_t	fn;
};

struct pool_row
{
	uint32_t	first;				/* token */
	uint32_t	count;
	uint32_t	place;				/* of the first in its row */
};

static __device__ inline pool_row
pool_find(const gpu_batch *batch, uint32_t row)
{
	uint32_t	place = batch->row_first == nullptr ? 0 : batch->row_first[row];
	uint32_t	first = batch->row_off[row] + place;

	return {first, batch->row_off[row + 1] - first, place};
}

/* One token's numbers, or zeros. */
template <class T>
__global__ void
pool_one(const gpu_batch *batch, pool_call c)
{
	for (uint64_t block = blockIdx.x; block < (uint64_t) batch->items[DEVICE_LEAD_ROWS] * c.pieces; block += gridDim.x)
	{
		uint32_t	row = (uint32_t) (block / c.pieces);
		uint32_t	i = (uint32_t) (block % c.pieces) * blockDim.x + threadIdx.x;
		pool_row	tokens = pool_find(batch, row);
		uint64_t	token = c.fn == POOL_FIRST ? tokens.first : (uint64_t) tokens.first + tokens.count - 1;

		if (i < c.n)
			((T *) c.y)[(uint64_t) row * c.n + i] = tokens.count == 0 ? 0 : ((const T *) c.x)[token * c.n + i];
	}
}

/* NaN if either is NaN. */
static __device__ inline float
pool_max(float a, float b)
{
	return b < a || a != a ? a : b;
}

static __device__ inline float
pool_join(uint16_t fn, float total, float block)
{
	return fn == POOL_MAX ? pool_max(total, block) : total + block;
}

/* Of the tokens [first, last) of those that are pooled. */
static __device__ inline float
pool_block(const pool_call &c, const pool_row &tokens, uint32_t first, uint32_t last, uint32_t i)
{
	const float *x = (const float *) c.x + (uint64_t) (tokens.first + first) * c.n + i;
	float		sum = c.fn == POOL_MAX ? -INFINITY : 0;

#pragma unroll 4
	for (uint32_t t = first; t < last; t++, x += c.n)
		sum = c.fn == POOL_MAX ? pool_max(sum, *x) : c.fn == POOL_WEIGHTED ? fmaf((float) (tokens.place + t + 1), *x, sum)
			: sum + *x;
	return sum;
}

static __device__ inline float
pool_finish(uint16_t fn, const pool_row &tokens, float total)
{
	uint64_t	count = tokens.count;

	switch (fn)
	{
		case POOL_MAX:
			return total;
		case POOL_MEAN_SQRT:
			return total / sqrtf((float) count);
		case POOL_WEIGHTED:
			return total / (float) (count * tokens.place + count * (count + 1) / 2);
	}
	return total / (float) count;
}

struct pool_shared
{
	float		sums[WARPS][WARP];
};

/*
 * A piece is 32 numbers of a row.  SHARERS warps take its blocks of tokens by turns, and the first of them adds what
 * they found: 1, where rows are short, or WARPS.
 */
template <int SHARERS>
__global__ void
__launch_bounds__(WARP * WARPS)
pool(const gpu_batch *batch, pool_call c)
{
	pool_shared &shared = gpu_shared<pool_shared>();
	uint32_t	lane = threadIdx.x % WARP;
	uint32_t	sharer = threadIdx.x / WARP % SHARERS;
	uint64_t	pieces = (uint64_t) batch->items[DEVICE_LEAD_ROWS] * c.pieces;

	for (uint64_t piece = gpu_thread() / (WARP * SHARERS); piece < pieces; piece += gpu_threads() / (WARP * SHARERS))
	{
		uint32_t	row = (uint32_t) (piece / c.pieces);
		uint32_t	i = (uint32_t) (piece % c.pieces) * WARP + lane;
		pool_row	tokens = pool_find(batch, row);
		float		total = c.fn == POOL_MAX ? -INFINITY : 0;

		for (uint32_t first = 0; first < tokens.count; first += POOL_BLOCK * SHARERS)
		{
			uint32_t	from = first + POOL_BLOCK * sharer;
			uint32_t	to = min(from + POOL_BLOCK, tokens.count);
			float		sum = from < to && i < c.n ? pool_block(c, tokens, from, to, i) : 0;

			if (SHARERS == 1)
			{
				total = pool_join(c.fn, total, sum);
				continue;
			}
			shared.sums[sharer][lane] = sum;
			__syncthreads();
			for (uint32_t s = 0; sharer == 0 && s < SHARERS && first + POOL_BLOCK * s < tokens.count; s++)
				total = pool_join(c.fn, total, shared.sums[s][lane]);
			__syncthreads();
		}
		if (sharer == 0 && i < c.n)
			((float *) c.y)[(uint64_t) row * c.n + i] =
				tokens.count == 0 ? 0 : gpu_canonical(pool_finish(c.fn, tokens, total));
	}
}

static void
launch_pool(const cuda_plan *plan, cuda_run *run)
{
	pool_call	call = *(const pool_call *) plan->own;
	uint64_t	rows = run->items[DEVICE_LEAD_ROWS];
	uint64_t	pieces = rows * call.pieces;
	bool		shared = run->items[DEVICE_LEAD_TOKENS] / (rows == 0 ? 1 : rows) >= POOL_LONG;

	call.x = cuda_operand(plan, run, 0);
	call.y = cuda_address(run, &plan->output);
	if (call.fn == POOL_FIRST || call.fn == POOL_LAST)
		cuda_launch(run, plan->type == DEVICE_BF16 ? pool_one<uint16_t> : pool_one<uint32_t>, dim3(cuda_blocks(pieces, 1)),
					dim3(WARP), run->batch, call);
	else if (shared)
		cuda_launch(run, pool<WARPS>, dim3(cuda_blocks(pieces, 1)), dim3(WARP * WARPS), run->batch, call);
	else
		cuda_launch(run, pool<1>, dim3(cuda_blocks(pieces, WARPS)), dim3(WARP * WARPS), run->batch, call);
}

bool
cuda_make_pool(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	int64_t		n = cuda_elements(making->y, 0, making->y->rank);
	pool_call  *own;

	if (n > UINT32_MAX / 2)
		return false;
	own = (pool_call *) cuda_own(making, sizeof(pool_call));
	if (own == nullptr)
		return false;
	own->n = (uint32_t) n;
	own->pieces = (own->n + WARP - 1) / WARP;
	own->fn = plan->fn;
	plan->launch = launch_pool;
	plan->bytes_item = 8.0 * (double) n;
	plan->flops_token = plan->fn == POOL_FIRST || plan->fn == POOL_LAST ? 0 : 2.0 * (double) n;
	return true;
}

CUDA_MODULE
