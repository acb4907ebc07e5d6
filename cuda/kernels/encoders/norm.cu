/*
 * norm.cu
 *	  NORM of encoders.
 *
 * A warp has a vector in its registers, or if that is long a block reads it three times.  Lane l adds the elements l, l + 32, …
 * (four neighbours each, where the length is a multiple of four), then the lanes' sums are added in a tree: an order
 * that follows from the length alone.
 */
#include "../../cuda.h"

#define WARP		32
#define WARPS		8				/* of a block */

/* The sum of all lanes, in all lanes. */
static __device__ inline float
lanes_sum(float x)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(0xFFFFFFFF, x, step);
	return x;
}

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

CUDA_MODULE
