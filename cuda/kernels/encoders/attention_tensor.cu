/*
 * attention_tensor.cu
 *	  ATTENTION in bf16 by tensor cores, for heads of up to ATTENTION_SLICE numbers.
 *
 * A block of four warps has a unit, each of them 16 of its queries, whose scores, weights and outputs stay in registers.
 * Keys and values of a block take turns: while scores are made of the one, the other is on its way to shared memory.
 */
#include "../math/half.h"
#include "attention.h"

#include <tensor.h>

#define TILE		GPU_ATTENTION_TILE
#define KEYS		ATTENTION_KEYS
#define THREADS		ATTENTION_TENSOR_THREADS
#define QUERIES		16				/* of a warp */
#define STEPS		(KEYS / 16)		/* products are of 16 keys */

static_assert(THREADS / 32 * QUERIES == TILE && TILE == KEYS, "warps fit tiles, and queries the memory of keys");

/* SIZE: a multiple of 32; rows lie an odd number of 16 bytes apart, so that eight of them are in different banks. */
template <int SIZE>
struct attention_tensor_shared
{
	static constexpr int step = SIZE + 8;

	alignas(16) uint16_t k[KEYS][step];	/* and the queries, at first */
	alignas(16) uint16_t v[KEYS][step];
};

/* A head's numbers of KEYS tokens, of which `count` are there; zeros behind them and behind the head. */
template <int SIZE>
__device__ inline void
attention_fetch(uint16_t (*to)[SIZE + 8], const uint16_t *x, uint64_t step, int32_t count, uint32_t size)
{
	if (size % 8 == 0)
		for (unsigned i = threadIdx.x; i < KEYS * SIZE / 8; i += THREADS)
		{
			int32_t		token = (int32_t) (i / (SIZE / 8));
			uint32_t	d = i % (SIZE / 8) * 8;
			bool		there = token < count && d < size;

			tensor_copy(&to[token][d], there ? x + token * step + d : x, there);
		}
	else
		for (unsigned i = threadIdx.x; i < KEYS * SIZE; i += THREADS)
		{
			int32_t		token = (int32_t) (i / SIZE);
			uint32_t	d = i % SIZE;

			to[token][d] = token < count && d < size ? x[token * step + d] : 0;
		}
	tensor_copy_commit();
}

/* Of 16 queries and a block's keys, of which the first `count` are there. */
template <int SIZE>
__device__ inline void
attention_tensor_scores(const tensor_a (&q)[SIZE / 16], const uint16_t (*k)[SIZE + 8], int32_t count, tensor_f32 (&s)[2 * STEPS])
{
#pragma unroll
	for (int pair = 0; pair < STEPS; pair++)
	{
		s[2 * pair] = s[2 * pair + 1] = {};
		if (pair * 16 >= count)
			continue;
#pragma unroll
		for (int d = 0; d < SIZE / 16; d++)
		{
			tensor_b	b0;
			tensor_b	b1;

			tensor_load_b_pair(b0, b1, &k[pair * 16][d * 16], (SIZE + 8) * 2);
			tensor_multiply(s[2 * pair], q[d], b0);
			tensor_multiply(s[2 * pair + 1], q[d], b1);
		}
	}
}

/*
 * From scores to weights.  A lane has numbers of two queries, half 0 and 1; the four lanes of a query are neighbours.
 * scale[half]: what the sums of the blocks before are multiplied by.
 */
static __device__ inline void
attention_tensor_weigh(const attention_call &c, const float *bias, int32_t length, int32_t query, int32_t key,
					   tensor_f32 (&s)[2 * STEPS], attention_state (&state)[2], float (&scale)[2])
{
	unsigned	lane = tensor_lane();

#pragma unroll
	for (int n = 0; n < 2 * STEPS; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			s[n].r[i] *= c.scale;
	if (bias != nullptr || c.window > 0 || key + KEYS > length)
#pragma unroll
		for (int n = 0; n < 2 * STEPS; n++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				s[n].r[i] = attention_score(c, bias, length, query + tensor_row(lane, i), key + n * 8 + tensor_column(lane, i),
											s[n].r[i]);
#pragma unroll
	for (int half = 0; half < 2; half++)
	{
		float		greatest = -INFINITY;
		float		total = 0;
		float		shift;

#pragma unroll
		for (int n = 0; n < 2 * STEPS; n++)
			greatest = fmaxf(greatest, fmaxf(s[n].r[2 * half], s[n].r[2 * half + 1]));
		greatest = fmaxf(greatest, __shfl_xor_sync(0xFFFFFFFF, greatest, 1));
		greatest = fmaxf(greatest, __shfl_xor_sync(0xFFFFFFFF, greatest, 2));
		shift = attention_shift(state[half], greatest, &scale[half]);
#pragma unroll
		for (int n = 0; n < 2 * STEPS; n++)
#pragma unroll
			for (int i = 2 * half; i < 2 * half + 2; i++)
			{
				s[n].r[i] = exp2f(s[n].r[i] - shift);
				total += s[n].r[i];
			}
		total += __shfl_xor_sync(0xFFFFFFFF, total, 1);
		total += __shfl_xor_sync(0xFFFFFFFF, total, 2);
		state[half].sum = fmaf(state[half].sum, scale[half], total);
	}
}

/* o = o · scale + weights · values, of keys of which the first `count` are there. */
template <int SIZE>
__device__ inline void
attention_tensor_outputs(const tensor_f32 (&s)[2 * STEPS], const uint16_t (*v)[SIZE + 8], int32_t count, const float (&scale)[2],
						 tensor_f32 (&o)[SIZE / 8])
{
#pragma unroll
	for (int n = 0; n < SIZE / 8; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			o[n].r[i] *= scale[i / 2];
#pragma unroll
	for (int pair = 0; pair < STEPS; pair++)
	{
		tensor_a	weights;

		if (pair * 16 >= count)
			continue;
		tensor_pack(weights, s[2 * pair], s[2 * pair + 1]);
#pragma unroll
		for (int n = 0; n < SIZE / 16; n++)
		{
			tensor_b	b0;
			tensor_b	b1;

			tensor_load_b_pair_turned(b0, b1, &v[pair * 16][n * 16], (SIZE + 8) * 2);
			tensor_multiply(o[2 * n], weights, b0);
			tensor_multiply(o[2 * n + 1], weights, b1);
		}
	}
}

/* y: of the warp's first query; count: queries that there are. */
template <int SIZE>
__device__ inline void
attention_tensor_store(const tensor_f32 (&o)[SIZE / 8], const attention_state (&state)[2], uint16_t *y, uint64_t step,
					   int32_t count, uint32_t size)
{
	unsigned	lane = tensor_lane();
	float		share[2] = {1 / state[0].sum, 1 / state[1].sum};

#pragma unroll
	for (int n = 0; n < SIZE / 8; n++)
#pragma unroll
		for (int half = 0; half < 2; half++)
		{
			int			query = tensor_row(lane, 2 * half);
			uint32_t	column = (uint32_t) (n * 8 + tensor_column(lane, 0));
			uint16_t	low = gpu_bf16_of_f32(gpu_canonical(o[n].r[2 * half] * share[half]));
			uint16_t	high = gpu_bf16_of_f32(gpu_canonical(o[n].r[2 * half + 1] * share[half]));
			uint16_t   *to = y + query * step + column;

			if (query >= count || column >= size)
				continue;
			if (size % 2 == 0)
				*(uint32_t *) to = low | (uint32_t) high << 16;
			else
			{
				to[0] = low;
				if (column + 1 < size)
					to[1] = high;
			}
		}
}

template <int SIZE>
__global__ void
__launch_bounds__(THREADS, SIZE <= 32 ? 4 : SIZE <= 64 ? 3 : 2)
attention_by_tensor(const gpu_batch *batch, attention_call c)
{
	attention_tensor_shared<SIZE> &shared = gpu_shared<attention_tensor_shared<SIZE>>();
	uint64_t	units = attention_units(batch, c);
	uint64_t	hidden = (uint64_t) c.heads * c.size;
	int32_t		first = (int32_t) (threadIdx.x / 32) * QUERIES;

	for (uint64_t number = blockIdx.x; number < units; number += gridDim.x)
	{
		attention_unit unit = attention_find(batch, c, number);
		const uint16_t *x = (const uint16_t *) c.x + unit.token * 3 * hidden + (uint64_t) unit.head * c.size;
		const float *bias = attention_bias(c, unit.head);
		uint16_t   *y = (uint16_t *) c.y + (unit.token + unit.query + first) * hidden + (uint64_t) unit.head * c.size;
		bool		busy = unit.query + first < unit.length;	/* the warp */
		tensor_a	q[SIZE / 16];
		tensor_f32	o[SIZE / 8];
		tensor_f32	s[2 * STEPS];
		float		scale[2];
		attention_state state[2] = {{-INFINITY, 0}, {-INFINITY, 0}};

		__syncthreads();
		attention_fetch<SIZE>(shared.k, x + unit.query * 3 * hidden, 3 * hidden, unit.length - unit.query, c.size);
		tensor_copy_wait<0>();
		__syncthreads();
#pragma unroll
		for (int d = 0; d < SIZE / 16; d++)
			tensor_load_a(q[d], &shared.k[first][d * 16], (SIZE + 8) * 2);
#pragma unroll
		for (int n = 0; n < SIZE / 8; n++)
			o[n] = {};
		__syncthreads();
		attention_fetch<SIZE>(shared.k, x + hidden + unit.key_first * 3 * hidden, 3 * hidden, unit.length - unit.key_first, c.size);
		for (int32_t key = unit.key_first; key < unit.key_last; key += KEYS)
		{
			tensor_copy_wait<0>();
			__syncthreads();
			attention_fetch<SIZE>(shared.v, x + 2 * hidden + key * 3 * hidden, 3 * hidden, unit.length - key, c.size);
			if (busy)
			{
				attention_tensor_scores<SIZE>(q, shared.k, unit.key_last - key, s);
				attention_tensor_weigh(c, bias, unit.length, unit.query + first, key, s, state, scale);
			}
			tensor_copy_wait<0>();
			__syncthreads();
			if (key + KEYS < unit.key_last)
				attention_fetch<SIZE>(shared.k, x + hidden + (key + KEYS) * 3 * hidden, 3 * hidden, unit.length - key - KEYS,
									  c.size);
			if (busy)
				attention_tensor_outputs<SIZE>(s, shared.v, unit.key_last - key, scale, o);
		}
		if (busy)
			attention_tensor_store<SIZE>(o, state, y, hidden, unit.length - unit.query - first, c.size);
	}
}

attention_kernel
attention_tensor(uint32_t size)
{
	switch ((size + 31) / 32)
	{
		case 1:
			return attention_by_tensor<32>;
		case 2:
			return attention_by_tensor<64>;
		case 3:
			return attention_by_tensor<96>;
		case 4:
			return attention_by_tensor<128>;
	}
	return nullptr;
}

CUDA_MODULE
