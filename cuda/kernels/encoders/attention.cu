/*
 * attention.cu
 *	  ATTENTION over packed rows: plans, and the kernel that does without tensor cores, in float32 and in bf16.
 *
 * A block of 16 × 16 threads has a unit.  Loop: for each block of keys, scores (a chain of fused multiply-adds along the
 * head, 4 queries × 4 keys a thread), their greatest, weights, which go to shared memory, and the sums of values
 * (a chain along the keys of the block, 4 queries × 2 to 8 numbers a thread), which are joined with what the blocks before
 * gave.  In bf16 products are exact, sums are float32, and a weight is rounded where it meets a value.
 */
#include "../math/half.h"
#include "attention.h"

#include <tensor.h>

#define TILE		GPU_ATTENTION_TILE
#define KEYS		ATTENTION_KEYS
#define THREADS		256
#define ACROSS		16				/* threads of a query */
#define EACH		4				/* queries of a thread, and keys */
#define STEP		32				/* numbers of a head whose products are summed at once */
#define VALUES		16				/* keys likewise */
#define PADDED		(TILE + 4)		/* a multiple of 4, not of 32 */

static_assert(TILE == KEYS && TILE == ACROSS * EACH && THREADS == ACROSS * ACROSS, "threads fit tiles and blocks");

/* COLUMNS: numbers of a slice, at most.  Queries of few numbers stay; of many, they are read anew for each block. */
template <int COLUMNS>
struct attention_shared
{
	static constexpr bool stay = COLUMNS <= 64;

	float		q[stay ? COLUMNS : STEP][PADDED];
	float		weights[KEYS][PADDED];	/* [key][query] */
	union
	{
		float		k[STEP][PADDED];
		float		v[VALUES][COLUMNS];
	};
};

static __device__ inline float
attention_number(const float *x)
{
	return *x;
}

static __device__ inline float
attention_number(const uint16_t *x)
{
	return gpu_f32_of_bf16(*x);
}

/* A weight where it meets a value. */
static __device__ inline float
attention_weight(const float *, float weight)
{
	return weight;
}

static __device__ inline float
attention_weight(const uint16_t *, float weight)
{
	return gpu_f32_of_bf16(gpu_bf16_of_f32(weight));
}

static __device__ inline void
attention_store(float *y, float x)
{
	*y = gpu_canonical(x);
}

static __device__ inline void
attention_store(uint16_t *y, float x)
{
	*y = gpu_bf16_of_f32(gpu_canonical(x));
}

/* to[d][token] for STEP numbers of TILE tokens, of which `count` are there; zeros otherwise. */
template <class T>
__device__ inline void
attention_turn(float (*to)[PADDED], const T *x, uint64_t step, int32_t count, uint32_t first, uint32_t size, float scale)
{
	for (unsigned i = threadIdx.x; i < STEP * TILE; i += THREADS)
	{
		int32_t		token = i / STEP;
		uint32_t	d = first + i % STEP;

		to[i % STEP][token] = token < count && d < size ? attention_number(x + token * step + d) * scale : 0;
	}
}

/* s[i][j] += Σ of STEP numbers of the thread's queries and keys */
static __device__ inline void
attention_products(const float (*q)[PADDED], const float (*k)[PADDED], uint32_t across, uint32_t down, float (&s)[EACH][EACH])
{
#pragma unroll 4
	for (int d = 0; d < STEP; d++)
	{
		float4		query = *(const float4 *) &q[d][down * EACH];
		float4		key = *(const float4 *) &k[d][across * EACH];
		float		queries[EACH] = {query.x, query.y, query.z, query.w};
		float		keys[EACH] = {key.x, key.y, key.z, key.w};

#pragma unroll
		for (int i = 0; i < EACH; i++)
#pragma unroll
			for (int j = 0; j < EACH; j++)
				s[i][j] = fmaf(queries[i], keys[j], s[i][j]);
	}
}

/* The thread's columns: COLUMNS / ACROSS of them, in vectors of WIDTH. */
template <int COLUMNS>
struct attention_columns
{
	static constexpr int each = COLUMNS / ACROSS;
	static constexpr int width = each < 4 ? each : 4;

	static __device__ inline uint32_t
	place(uint32_t across, int e)
	{
		return e / width * width * ACROSS + across * width + e % width;
	}
};

/* sums[i][e] += Σ of VALUES keys' values of the thread's columns, weighted */
template <int COLUMNS>
__device__ inline void
attention_values(const float (*weights)[PADDED], const float (*v)[COLUMNS], uint32_t across, uint32_t down,
				 float (&sums)[EACH][COLUMNS / ACROSS])
{
	typedef attention_columns<COLUMNS> columns;

#pragma unroll 4
	for (int key = 0; key < VALUES; key++)
	{
		float4		weight = *(const float4 *) &weights[key][down * EACH];
		float		of[EACH] = {weight.x, weight.y, weight.z, weight.w};

#pragma unroll
		for (int e = 0; e < columns::each; e++)
		{
			float		value = v[key][columns::place(across, e)];

#pragma unroll
			for (int i = 0; i < EACH; i++)
				sums[i][e] = fmaf(of[i], value, sums[i][e]);
		}
	}
}

/* From scores to weights, which go to shared memory; scale[i]: what the sums of the blocks before are multiplied by. */
template <class T>
__device__ inline void
attention_weigh(const attention_call &c, const attention_unit &unit, const float *bias, int32_t key, uint32_t across,
				uint32_t down, float (&s)[EACH][EACH], attention_state (&state)[EACH], float (&scale)[EACH],
				float (*weights)[PADDED])
{
	if (bias != nullptr || c.window > 0 || key + KEYS > unit.length)
		for (int i = 0; i < EACH; i++)
			for (int j = 0; j < EACH; j++)
				s[i][j] = attention_score(c, bias, unit.length, unit.query + (int32_t) down * EACH + i,
										  key + (int32_t) across * EACH + j, s[i][j]);
	for (int i = 0; i < EACH; i++)
	{
		float		greatest = fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3]));
		float		total = 0;
		float		shift;

		for (int step = ACROSS / 2; step > 0; step /= 2)
			greatest = fmaxf(greatest, __shfl_xor_sync(0xFFFFFFFF, greatest, step));
		shift = attention_shift(state[i], greatest, &scale[i]);
		for (int j = 0; j < EACH; j++)
		{
			s[i][j] = exp2f(s[i][j] - shift);
			total += s[i][j];
			s[i][j] = attention_weight((const T *) nullptr, s[i][j]);
		}
		for (int step = ACROSS / 2; step > 0; step /= 2)
			total += __shfl_xor_sync(0xFFFFFFFF, total, step);
		state[i].sum = fmaf(state[i].sum, scale[i], total);
	}
	for (int j = 0; j < EACH; j++)
		*(float4 *) &weights[across * EACH + j][down * EACH] = make_float4(s[0][j], s[1][j], s[2][j], s[3][j]);
}

/* Scores of a block of keys. */
template <class T, int COLUMNS>
__device__ inline void
attention_scores(const attention_call &c, const attention_unit &unit, attention_shared<COLUMNS> &shared, const T *q, const T *k,
				 uint64_t step, int32_t key, uint32_t across, uint32_t down, float (&s)[EACH][EACH])
{
	bool		exact = sizeof(T) == sizeof(uint16_t);	/* products of bf16: the scale comes after them */
	bool		busy = unit.query + (int32_t) (threadIdx.x / 32 * 2 * EACH) < unit.length;	/* the warp */

	for (uint32_t d = 0; d < c.size; d += STEP)
	{
		__syncthreads();
		attention_turn(shared.k, k + key * step, step, unit.length - key, d, c.size, 1);
		if (!shared.stay)
			attention_turn(shared.q, q, step, unit.length - unit.query, d, c.size, exact ? 1 : c.scale);
		__syncthreads();
		if (busy)
			attention_products(shared.q + (shared.stay ? d : 0), shared.k, across, down, s);
	}
	for (int i = 0; exact && i < EACH; i++)
		for (int j = 0; j < EACH; j++)
			s[i][j] *= c.scale;
}

/* Σ of the weighted values of a block of keys, joined with what was before. */
template <class T, int COLUMNS>
__device__ inline void
attention_outputs(const attention_call &c, const attention_unit &unit, attention_shared<COLUMNS> &shared, const T *v,
				  uint64_t step, int32_t key, uint32_t across, uint32_t down, const float (&scale)[EACH],
				  float (&o)[EACH][COLUMNS / ACROSS])
{
	float		sums[EACH][COLUMNS / ACROSS] = {};
	uint32_t	columns = min(c.size - unit.slice * ATTENTION_SLICE, (uint32_t) COLUMNS);
	int32_t		keys = min(unit.key_last - key, KEYS);
	bool		busy = unit.query + (int32_t) (threadIdx.x / 32 * 2 * EACH) < unit.length;

	for (int32_t first = 0; first < keys; first += VALUES)
	{
		__syncthreads();
		for (unsigned i = threadIdx.x; i < VALUES * COLUMNS; i += THREADS)
		{
			int32_t		token = first + (int32_t) (i / COLUMNS);
			uint32_t	e = i % COLUMNS;

			shared.v[i / COLUMNS][e] = key + token < unit.length && e < columns
				? attention_number(v + (uint64_t) (key + token) * step + e) : 0;
		}
		__syncthreads();
		if (busy)
			attention_values<COLUMNS>(shared.weights + first, shared.v, across, down, sums);
	}
#pragma unroll
	for (int i = 0; i < EACH; i++)
#pragma unroll
		for (int e = 0; e < COLUMNS / ACROSS; e++)
			o[i][e] = fmaf(o[i][e], scale[i], sums[i][e]);
}

template <class T, int COLUMNS>
__global__ void
__launch_bounds__(THREADS, 2)
attention(const gpu_batch *batch, attention_call c)
{
	attention_shared<COLUMNS> &shared = gpu_shared<attention_shared<COLUMNS>>();
	uint32_t	across = threadIdx.x % ACROSS;
	uint32_t	down = threadIdx.x / ACROSS;
	uint64_t	units = attention_units(batch, c);
	uint64_t	hidden = (uint64_t) c.heads * c.size;

	for (uint64_t number = blockIdx.x; number < units; number += gridDim.x)
	{
		attention_unit unit = attention_find(batch, c, number);
		const T    *x = (const T *) c.x + unit.token * 3 * hidden + (uint64_t) unit.head * c.size;
		const T    *q = x + unit.query * 3 * hidden;
		const T    *v = x + 2 * hidden + unit.slice * ATTENTION_SLICE;
		const float *bias = attention_bias(c, unit.head);
		T		   *y = (T *) c.y + (unit.token + unit.query) * hidden + (uint64_t) unit.head * c.size +
			unit.slice * ATTENTION_SLICE;
		float		o[EACH][COLUMNS / ACROSS] = {};
		float		scale[EACH];
		attention_state state[EACH];

		for (int i = 0; i < EACH; i++)
			state[i] = {-INFINITY, 0};
		__syncthreads();
		for (uint32_t d = 0; shared.stay && d < COLUMNS; d += STEP)
			attention_turn(shared.q + d, q, 3 * hidden, unit.length - unit.query, d, c.size, sizeof(T) == 2 ? 1 : c.scale);
		for (int32_t key = unit.key_first; key < unit.key_last; key += KEYS)
		{
			float		s[EACH][EACH] = {};

			attention_scores<T, COLUMNS>(c, unit, shared, q, x + hidden, 3 * hidden, key, across, down, s);
			attention_weigh<T>(c, unit, bias, key, across, down, s, state, scale, shared.weights);
			attention_outputs<T, COLUMNS>(c, unit, shared, v, 3 * hidden, key, across, down, scale, o);
		}
		for (int i = 0; i < EACH; i++)
			for (int e = 0; e < COLUMNS / ACROSS; e++)
			{
				uint32_t	column = attention_columns<COLUMNS>::place(across, e);

				if (unit.query + (int32_t) down * EACH + i < unit.length && unit.slice * ATTENTION_SLICE + column < c.size)
					attention_store(y + (down * EACH + i) * hidden + column, o[i][e] * (1 / state[i].sum));
			}
	}
}

/* ---- plans ---- */

struct attention_plan
{
	attention_call call;
	attention_kernel kernel;
	attention_kernel tensor;		/* where the GPU has tensor cores for it; or NULL */
};

static void
launch_attention(const cuda_plan *plan, cuda_run *run)
{
	const attention_plan *own = (const attention_plan *) plan->own;
	bool		tensor = own->tensor != nullptr && run->gpu->sm >= TENSOR_SM;
	attention_call call = own->call;

	call.x = cuda_operand(plan, run, 0);
	call.bias = (const float *) cuda_operand(plan, run, 1);
	call.y = cuda_address(run, &plan->output);
	cuda_launch(run, tensor ? own->tensor : own->kernel, dim3(cuda_blocks(run->tiles * call.heads * call.slices, 1)),
				dim3(tensor ? ATTENTION_TENSOR_THREADS : THREADS), run->batch, call);
}

template <class T>
static attention_kernel
attention_kernel_for(int64_t size)
{
	return size <= 32 ? attention<T, 32> : size <= 64 ? attention<T, 64> : attention<T, 128>;
}

/* A row has fewer tokens than that: what is beyond is all the same. */
static int32_t
attention_distance(int64_t distance)
{
	return distance < INT32_MAX / 4 ? (int32_t) distance : INT32_MAX / 4;
}

bool
cuda_make_attention(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	int64_t		heads = making->op->i[0];
	int64_t		size = making->op->i[1];
	bool		narrow = cuda_input(making, 0)->type == DEVICE_BF16;
	attention_plan *own;

	/* the biases of a distance are found by 32 bits */
	if (heads * size > INT32_MAX / 4 || (cuda_input(making, 1) != nullptr && making->op->i[3] > INT32_MAX / 4))
		return false;
	own = (attention_plan *) cuda_own(making, sizeof(attention_plan));
	if (own == nullptr)
		return false;
	own->call.heads = (uint32_t) heads;
	own->call.size = (uint32_t) size;
	own->call.slices = (uint32_t) ((size + ATTENTION_SLICE - 1) / ATTENTION_SLICE);
	own->call.window = attention_distance(plan->i[2]);
	own->call.reach = attention_distance(plan->i[3]);
	own->call.scale = (float) (plan->f[0] * ATTENTION_LOG2_E);
	own->kernel = narrow ? attention_kernel_for<uint16_t>(size) : attention_kernel_for<float>(size);
	own->tensor = narrow ? attention_tensor((uint32_t) size) : nullptr;
	plan->launch = launch_attention;
	plan->flops_pair = (double) heads * (4.0 * (double) size + 20);
	/* whole blocks of keys */
	plan->pairs_token = plan->i[2] == 0 ? 0 : 2.0 * (double) plan->i[2] + 2 * ATTENTION_KEYS;
	plan->bytes_item = 4.0 * (double) (heads * size) * (narrow ? 2 : 4);
	return true;
}

CUDA_MODULE
