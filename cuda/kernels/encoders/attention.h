/*
 * attention.h
 *	  What the kernels of ATTENTION share.
 *
 * Nouns
 *	tile		GPU_ATTENTION_TILE queries of one row, counted from its first token
 *	block		ATTENTION_KEYS keys of that row, counted likewise
 *	slice		the outputs of a block of threads: ATTENTION_SLICE numbers of a head, or all if it has no more
 *	unit		a slice of a head of a tile
 *
 * Invariant: what a query's outputs are made of, and in which order, follows from its place in its row.
 */
#ifndef CUDA_KERNELS_ATTENTION_H
#define CUDA_KERNELS_ATTENTION_H

#include "../../cuda.h"

#define ATTENTION_KEYS		64
#define ATTENTION_SLICE		128
#define ATTENTION_LOG2_E	1.44269504088896340736

struct attention_call
{
	const void *x;					/* of F32 or BF16, as is y */
	const float *bias;				/* or NULL */
	void	   *y;
	uint32_t	heads;
	uint32_t	size;				/* of a head */
	uint32_t	slices;				/* of a head */
	int32_t		window;				/* only |j − i| ≤ window; 0: all */
	int32_t		reach;				/* of biases */
	float		scale;				/* times log2 e: powers are those of 2 */
};

struct attention_unit
{
	uint64_t	token;				/* the row's first */
	int32_t		length;				/* of the row */
	int32_t		query;				/* the tile's first, counted from the row's first token, as are keys */
	int32_t		key_first;			/* the first block begins there, */
	int32_t		key_last;			/* and no key from there on is seen */
	uint32_t	head;
	uint32_t	slice;
};

static __device__ inline uint64_t
attention_units(const gpu_batch *batch, const attention_call &c)
{
	return (uint64_t) batch->tile_off[batch->items[DEVICE_LEAD_ROWS]] * c.heads * c.slices;
}

static __device__ inline attention_unit
attention_find(const gpu_batch *batch, const attention_call &c, uint64_t number)
{
	uint32_t	tile = (uint32_t) (number / (c.heads * c.slices));
	uint32_t	rest = (uint32_t) (number % (c.heads * c.slices));
	uint32_t	row = gpu_search(batch->tile_off, batch->items[DEVICE_LEAD_ROWS], tile);
	attention_unit unit;

	unit.token = batch->row_off[row];
	unit.length = (int32_t) (batch->row_off[row + 1] - batch->row_off[row]);
	unit.query = (int32_t) (tile - batch->tile_off[row]) * GPU_ATTENTION_TILE;
	unit.head = rest / c.slices;
	unit.slice = rest % c.slices;
	unit.key_first = 0;
	unit.key_last = unit.length;
	if (c.window > 0)
	{
		unit.key_first = max(unit.query - c.window, 0) / ATTENTION_KEYS * ATTENTION_KEYS;
		unit.key_last = min(unit.query + GPU_ATTENTION_TILE + c.window, unit.length);
	}
	return unit;
}

/* A head's, of the distances −reach to reach; or NULL. */
static __device__ inline const float *
attention_bias(const attention_call &c, uint32_t head)
{
	return c.bias == nullptr ? nullptr : c.bias + (uint64_t) head * (2 * (uint32_t) c.reach + 1);
}

/* What becomes of a score: the bias is added, and what the query does not see is −∞. */
static __device__ inline float
attention_score(const attention_call &c, const float *bias, int32_t length, int32_t query, int32_t key, float score)
{
	int32_t		distance = key - query;

	if (bias != nullptr)
		score += bias[c.reach + min(max(distance, -c.reach), c.reach)] * (float) ATTENTION_LOG2_E;
	return key >= length || (c.window > 0 && (distance > c.window || -distance > c.window)) ? -INFINITY : score;
}

/* A query's state between blocks: what a new greatest score makes of it. */
struct attention_state
{
	float		greatest;			/* score so far */
	float		sum;				/* of weights, as 2^(score − greatest) */
};

/* What is taken off the scores of the next block whose greatest is given; *scale: what the sums so far are multiplied by. */
static __device__ inline float
attention_shift(attention_state &state, float greatest, float *scale)
{
	float		shift;

	greatest = fmaxf(state.greatest, greatest);
	/* nothing but −∞ so far: powers of −∞, which are 0 */
	shift = greatest == -INFINITY ? 0 : greatest;
	*scale = exp2f(state.greatest - shift);
	state.greatest = greatest;
	return shift;
}

/* attention_tensor.cu: heads of up to ATTENTION_SLICE numbers, in bf16; NULL: no kernel for it. */
typedef void (*attention_kernel)(const gpu_batch *batch, attention_call c);

#define ATTENTION_TENSOR_THREADS	128

extern attention_kernel attention_tensor(uint32_t size);

#endif /* CUDA_KERNELS_ATTENTION_H */
