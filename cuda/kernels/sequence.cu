/*
 * sequence.cu
 *	  NORM, ROTARY, GATE and POOL of encoders.
 *
 * NORM: a warp has a vector in its registers, or if that is long a block reads it three times.  Lane l adds the elements
 * l, l + 32, … (four neighbours each, where the length is a multiple of four), then the lanes' sums are added in a tree:
 * an order that follows from the length alone.
 * POOL: sums of blocks of POOL_BLOCK tokens from the row's first pooled one on, added in their order; which threads make
 * the blocks' sums depends on how many rows and tokens there are, what they are made of does not.
 */
#include "../cuda.h"
#include "function.h"

#define WARP		32
#define WARPS		8				/* of a block */
#define POOL_BLOCK	32				/* tokens, as on the CPU */

/* The sum of all lanes, in all lanes. */
static __device__ inline float
lanes_sum(float x)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(0xFFFFFFFF, x, step);
	return x;
}

/* ---- NORM ---- */

struct norm_call
{
	const float *x;
	const float *r;					/* or NULL, as are g and b */
	const float *g;
	const float *b;
	float	   *y;
	uint32_t	n;
	float		epsilon;
	bool		layer;				/* else root of mean square */
	uint8_t		lead;
	uint64_t	vectors_item;
};

template <int WIDTH>
struct norm_numbers					/* neighbours, loaded and stored at once */
{
	float		v[WIDTH];
};

static __device__ inline norm_numbers<4>
norm_load(const float *x, norm_numbers<4>)
{
	float4		v = *(const float4 *) x;

	return {{v.x, v.y, v.z, v.w}};
}

static __device__ inline norm_numbers<1>
norm_load(const float *x, norm_numbers<1>)
{
	return {{*x}};
}

static __device__ inline void
norm_store(float *y, const norm_numbers<4> &v)
{
	*(float4 *) y = make_float4(v.v[0], v.v[1], v.v[2], v.v[3]);
}

static __device__ inline void
norm_store(float *y, const norm_numbers<1> &v)
{
	*y = v.v[0];
}

/* x + r at element i of the vector that begins at `at` */
template <int WIDTH>
__device__ inline norm_numbers<WIDTH>
norm_fetch(const norm_call &c, uint64_t at, uint32_t i)
{
	norm_numbers<WIDTH> v = norm_load(c.x + at + i, norm_numbers<WIDTH>());

	if (c.r != nullptr)
	{
		norm_numbers<WIDTH> r = norm_load(c.r + at + i, norm_numbers<WIDTH>());

		for (int j = 0; j < WIDTH; j++)
			v.v[j] += r.v[j];
	}
	return v;
}

template <int WIDTH>
__device__ inline void
norm_put(const norm_call &c, uint64_t at, uint32_t i, norm_numbers<WIDTH> v, float mean, float scale)
{
	norm_numbers<WIDTH> g;
	norm_numbers<WIDTH> b;

	for (int j = 0; j < WIDTH; j++)
	{
		v.v[j] = (v.v[j] - mean) * scale;
		b.v[j] = 0;
	}
	if (c.b != nullptr)
		b = norm_load(c.b + i, norm_numbers<WIDTH>());
	if (c.g != nullptr)
		g = norm_load(c.g + i, norm_numbers<WIDTH>());
	for (int j = 0; j < WIDTH; j++)
		v.v[j] = gpu_canonical(c.g != nullptr ? fmaf(v.v[j], g.v[j], b.v[j]) : v.v[j] + b.v[j]);
	norm_store(c.y + at + i, v);
}

/* WIDTH sums of a lane become one. */
template <int WIDTH>
__device__ inline float
norm_join(const float *sums)
{
	return WIDTH == 4 ? (sums[0] + sums[1]) + (sums[2] + sums[3]) : sums[0];
}

/* Vectors of up to 32 · WIDTH · PARTS numbers. */
template <int WIDTH, int PARTS>
__global__ void
__launch_bounds__(WARP * WARPS)
norm_by_warps(const gpu_batch *batch, norm_call c)
{
	uint64_t	vectors = batch->items[c.lead] * c.vectors_item;
	uint32_t	lane = threadIdx.x % WARP;

	for (uint64_t u = gpu_thread() / WARP; u < vectors; u += gpu_threads() / WARP)
	{
		uint64_t	at = u * c.n;
		norm_numbers<WIDTH> v[PARTS];
		float		sums[WIDTH] = {};
		float		mean = 0;
		float		scale;

#pragma unroll
		for (int p = 0; p < PARTS; p++)
		{
			uint32_t	i = (p * WARP + lane) * WIDTH;

			if (i < c.n)
				v[p] = norm_fetch<WIDTH>(c, at, i);
			for (int j = 0; j < WIDTH && i < c.n; j++)
				sums[j] += v[p].v[j];
		}
		if (c.layer)
			mean = lanes_sum(norm_join<WIDTH>(sums)) / (float) c.n;
		for (int j = 0; j < WIDTH; j++)
			sums[j] = 0;
#pragma unroll
		for (int p = 0; p < PARTS; p++)
			for (int j = 0; j < WIDTH && (p * WARP + lane) * WIDTH < c.n; j++)
				sums[j] = fmaf(v[p].v[j] - mean, v[p].v[j] - mean, sums[j]);
		scale = 1 / sqrtf(lanes_sum(norm_join<WIDTH>(sums)) / (float) c.n + c.epsilon);
#pragma unroll
		for (int p = 0; p < PARTS; p++)
			if ((p * WARP + lane) * WIDTH < c.n)
				norm_put<WIDTH>(c, at, (p * WARP + lane) * WIDTH, v[p], mean, scale);
	}
}

struct norm_shared
{
	float		sums[WARPS];
};

/* The sum of all threads, in all threads. */
static __device__ inline float
block_sum(norm_shared &shared, float x)
{
	float		sum = 0;

	x = lanes_sum(x);
	if (threadIdx.x % WARP == 0)
		shared.sums[threadIdx.x / WARP] = x;
	__syncthreads();
	for (int w = 0; w < WARPS; w++)
		sum += shared.sums[w];
	__syncthreads();
	return sum;
}

/* Longer ones.  Each element of y is written by the thread that reads it, when all have read all: y may be x or r. */
template <int WIDTH>
__global__ void
__launch_bounds__(WARP * WARPS, 4)
norm_by_blocks(const gpu_batch *batch, norm_call c)
{
	norm_shared &shared = gpu_shared<norm_shared>();
	uint64_t	vectors = batch->items[c.lead] * c.vectors_item;
	uint32_t	first = threadIdx.x * WIDTH;
	uint32_t	step = WARP * WARPS * WIDTH;

	for (uint64_t u = blockIdx.x; u < vectors; u += gridDim.x)
	{
		uint64_t	at = u * c.n;
		float		sums[WIDTH] = {};
		float		mean = 0;
		float		scale;

		for (uint32_t i = first; c.layer && i < c.n; i += step)
		{
			norm_numbers<WIDTH> v = norm_fetch<WIDTH>(c, at, i);

			for (int j = 0; j < WIDTH; j++)
				sums[j] += v.v[j];
		}
		if (c.layer)
			mean = block_sum(shared, norm_join<WIDTH>(sums)) / (float) c.n;
		for (int j = 0; j < WIDTH; j++)
			sums[j] = 0;
		for (uint32_t i = first; i < c.n; i += step)
		{
			norm_numbers<WIDTH> v = norm_fetch<WIDTH>(c, at, i);

			for (int j = 0; j < WIDTH; j++)
				sums[j] = fmaf(v.v[j] - mean, v.v[j] - mean, sums[j]);
		}
		scale = 1 / sqrtf(block_sum(shared, norm_join<WIDTH>(sums)) / (float) c.n + c.epsilon);
		for (uint32_t i = first; i < c.n; i += step)
			norm_put<WIDTH>(c, at, i, norm_fetch<WIDTH>(c, at, i), mean, scale);
	}
}

typedef void (*norm_kernel)(const gpu_batch *batch, norm_call c);

/* longest: of the vectors that a warp takes; 0: any, by blocks. */
static const struct
{
	uint32_t	longest;
	norm_kernel by_four;
	norm_kernel by_one;
} norm_kernels[] = {
	{128, norm_by_warps<4, 1>, norm_by_warps<1, 4>},
	{256, norm_by_warps<4, 2>, norm_by_warps<1, 8>},
	{384, norm_by_warps<4, 3>, norm_by_warps<1, 12>},
	{512, norm_by_warps<4, 4>, norm_by_warps<1, 16>},
	{768, norm_by_warps<4, 6>, norm_by_warps<1, 24>},
	{1024, norm_by_warps<4, 8>, norm_by_warps<1, 32>},
	{0, norm_by_blocks<4>, norm_by_blocks<1>}
};

struct norm_plan
{
	norm_kernel kernel;
	bool		by_blocks;
	uint32_t	n;
	uint64_t	vectors_item;
};

static void
launch_norm(const cuda_plan *plan, cuda_run *run)
{
	const norm_plan *own = (const norm_plan *) plan->own;
	uint64_t	vectors = run->items[plan->lead] * own->vectors_item;
	norm_call	call = {
		(const float *) cuda_operand(plan, run, 0), (const float *) cuda_operand(plan, run, 1),
		(const float *) cuda_operand(plan, run, 2), (const float *) cuda_operand(plan, run, 3),
		(float *) cuda_address(run, &plan->output), own->n, (float) plan->f[0], plan->fn == NORM_LAYER, plan->lead,
		own->vectors_item
	};

	cuda_launch(run, own->kernel, dim3(cuda_blocks(vectors, own->by_blocks ? 1 : WARPS)), dim3(WARP * WARPS), run->batch, call);
}

bool
cuda_make_norm(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	int64_t		n = x->dims[x->rank - 1];
	norm_plan  *own;
	size_t		k = 0;

	if (n > UINT32_MAX / 2)
		return false;
	own = (norm_plan *) cuda_own(making, sizeof(norm_plan));
	if (own == nullptr)
		return false;
	while (norm_kernels[k].longest != 0 && norm_kernels[k].longest < n)
		k++;
	own->kernel = n % 4 == 0 ? norm_kernels[k].by_four : norm_kernels[k].by_one;
	own->by_blocks = norm_kernels[k].longest == 0;
	own->n = (uint32_t) n;
	own->vectors_item = n == 0 ? 0 : (uint64_t) (cuda_elements(x, 0, x->rank) / n);
	plan->launch = launch_norm;
	plan->flops_item = 8.0 * (double) cuda_elements(x, 0, x->rank);
	plan->bytes_item = 4.0 * (double) cuda_elements(x, 0, x->rank) * (cuda_input(making, 1) != nullptr ? 3 : 2);
	return true;
}

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
