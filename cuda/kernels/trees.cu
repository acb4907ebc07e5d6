/*
 * trees.cu
 *	  TREES: forests and boosted trees.  See struct device_trees for what a node is.
 *
 * Nouns
 *	group	the rows of a block of threads: 32 or fewer, a power of two
 *	slot	the threads that walk one tree, a row each
 *	round	as many trees as a block walks before their leaves are heard: TREES_EACH a slot, together, so that the
 *			loads of one hide behind those of the others
 *
 * Loop
 *	for each group: its keys, in shared memory where they fit; then for each round the leaves of its rows, and what those
 *	add to the rows' scores, tree after tree.
 *
 * Invariant: which leaf a row reaches depends on the row alone, and each of its scores is one thread's, which adds in the
 * order of the trees: the size of a group changes no bit.
 */
#include "../cuda.h"

#define TREES_THREADS	256
#define TREES_ROWS		32			/* of a group, at most */
#define TREES_EACH		4

struct trees_call
{
	const void *x;
	void	   *y;
	const uint32_t *roots;
	const uint32_t *depths;
	const void *nodes;
	const uint8_t *nan_left;		/* or NULL */
	const void *values;				/* or NULL: votes */
	const uint32_t *votes_first;
	const uint32_t *votes_target;
	const void *votes_weight;
	uint32_t	trees_count;
	uint32_t	features;
	uint32_t	targets;
	uint32_t	rows_shift;			/* a group has 1 << rows_shift rows */
	uint8_t		lead;
	uint16_t	fn;
	uint64_t	rows_item;
};

template <class KEY>
struct trees_node
{
	KEY			key;
	uint32_t	feature;
	uint32_t	child;
};

/* device_key_f32() and device_key_f64(), for the GPU. */
template <class KEY>
__device__ inline KEY
trees_key(KEY bits, KEY infinity, KEY key_nan)
{
	const KEY	sign = (KEY) 1 << (8 * sizeof(KEY) - 1);
	KEY			magnitude = bits & ~sign;

	if (magnitude > infinity)
		return key_nan;
	return bits == magnitude || magnitude == 0 ? magnitude | sign : ~bits;
}

/* What differs between the kinds of node. */
struct trees_narrow
{
	typedef uint32_t key_type;
	typedef float number;

	static constexpr uint32_t key_nan = DEVICE_KEY_NAN_F32;

	static __device__ inline trees_node<uint32_t>
	node(const void *nodes, uint32_t at)
	{
		uint64_t	bits = ((const uint64_t *) nodes)[at];	/* one load */

		return {(uint32_t) bits, (uint32_t) (bits >> 32) & 0xFFFF, (uint32_t) (bits >> 48)};
	}

	static __device__ inline uint32_t
	key(float x)
	{
		return trees_key<uint32_t>(__float_as_uint(x), 0x7F800000, key_nan);
	}
};

struct trees_wide
{
	typedef uint32_t key_type;
	typedef float number;

	static constexpr uint32_t key_nan = DEVICE_KEY_NAN_F32;

	static __device__ inline trees_node<uint32_t>
	node(const void *nodes, uint32_t at)
	{
		device_tree_node_wide node = ((const device_tree_node_wide *) nodes)[at];

		return {node.key, node.feature, node.child};
	}

	static __device__ inline uint32_t
	key(float x)
	{
		return trees_key<uint32_t>(__float_as_uint(x), 0x7F800000, key_nan);
	}
};

struct trees_f64
{
	typedef uint64_t key_type;
	typedef double number;

	static constexpr uint64_t key_nan = DEVICE_KEY_NAN_F64;

	static __device__ inline trees_node<uint64_t>
	node(const void *nodes, uint32_t at)
	{
		ulonglong2	bits = ((const ulonglong2 *) nodes)[at];	/* one load */

		return {bits.x, (uint32_t) bits.y, (uint32_t) (bits.y >> 32)};
	}

	static __device__ inline uint64_t
	key(double x)
	{
		return trees_key<uint64_t>((uint64_t) __double_as_longlong(x), UINT64_C(0x7FF0000000000000), key_nan);
	}
};

static_assert(sizeof(device_tree_node) == 8 && sizeof(device_tree_node_f64) == 16, "nodes are loaded whole");

/* KEYS: bytes of a group's keys in shared memory; 0: they are made anew at each node. */
template <class KIND, int KEYS>
struct trees_shared
{
	union
	{
		typename KIND::number value;
		uint32_t	leaf;
	}			said[TREES_EACH * TREES_THREADS];	/* tree after tree, a group's rows side by side */
	typename KIND::key_type keys[KEYS == 0 ? 1 : KEYS / sizeof(typename KIND::key_type)];	/* feature after feature */
};

template <class KIND, int KEYS>
__device__ inline void
trees_keys(const trees_call &c, trees_shared<KIND, KEYS> &shared, const typename KIND::number *x, uint32_t rows)
{
	if constexpr (KEYS != 0)
		for (uint32_t i = threadIdx.x; i < rows * c.features; i += TREES_THREADS)
			shared.keys[(i % c.features << c.rows_shift) + i / c.features] = KIND::key(x[i]);
}

/* The thread's row in TREES_EACH trees, `step` apart from first on, or in the last tree: indexes among all nodes. */
template <class KIND, int KEYS>
__device__ inline void
trees_walk(const trees_call &c, const trees_shared<KIND, KEYS> &shared, const typename KIND::number *x, uint32_t row,
		   uint32_t first, uint32_t step, uint32_t (&at)[TREES_EACH])
{
	typedef typename KIND::key_type key_type;
	uint32_t	root[TREES_EACH];
	uint32_t	depth = 0;
	uint32_t	moved = 1;

#pragma unroll
	for (int e = 0; e < TREES_EACH; e++)
	{
		uint32_t	tree = min(first + e * step, c.trees_count - 1);

		root[e] = at[e] = c.roots[tree];
		depth = max(depth, c.depths[tree]);
	}
	for (uint32_t done = 0; done < depth && moved != 0; done++)
	{
		moved = 0;
#pragma unroll
		for (int e = 0; e < TREES_EACH; e++)
		{
			trees_node<key_type> node = KIND::node(c.nodes, at[e]);
			uint32_t	feature = node.feature / DEVICE_TREE_LANES;
			key_type	key = KEYS == 0 ? KIND::key(x[feature]) : shared.keys[(feature << c.rows_shift) + row];
			uint32_t	right = node.key < key;

			if (key == KIND::key_nan && c.nan_left != nullptr && c.nan_left[at[e]] != 0)
				right = 0;
			node.child += root[e] + right;
			moved |= node.child ^ at[e];
			at[e] = node.child;
		}
	}
}

/* For MIN and MAX a NaN is "nothing yet". */
template <class T>
__device__ inline void
trees_vote(uint16_t fn, T *score, T weight)
{
	if (fn == TREES_SUM)
		*score += weight;
	else if (fn == TREES_MIN ? !(*score <= weight) : !(*score >= weight))
		*score = weight;
}

/*
 * The votes of a round for the thread's targets, which are every parts-th from part on (parts: a power of two);
 * scores: the row's.
 */
template <class KIND, int KEYS>
__device__ inline void
trees_votes(const trees_call &c, const trees_shared<KIND, KEYS> &shared, uint32_t row, uint32_t trees, uint32_t part,
			uint32_t parts, typename KIND::number *scores)
{
	for (uint32_t t = 0; t < trees; t++)
	{
		uint32_t	leaf = shared.said[(t << c.rows_shift) + row].leaf;
		uint32_t	last = c.votes_first[leaf + 1];

		for (uint32_t v = c.votes_first[leaf]; v < last; v++)
		{
			uint32_t	target = c.votes_target[v];

			if ((target & (parts - 1)) == part)
				trees_vote(c.fn, scores + target, ((const typename KIND::number *) c.votes_weight)[v]);
		}
	}
}

/* One group, all trees. */
template <class KIND, int KEYS>
__device__ inline void
trees_group(const trees_call &c, trees_shared<KIND, KEYS> &shared, const typename KIND::number *x, typename KIND::number *y,
			uint32_t rows)
{
	typedef typename KIND::number number;
	uint32_t	row = threadIdx.x & ((1u << c.rows_shift) - 1);
	uint32_t	slot = threadIdx.x >> c.rows_shift;
	uint32_t	slots = TREES_THREADS >> c.rows_shift;
	bool		there = row < rows;
	const number *own_x = x + (uint64_t) row * c.features;
	number	   *scores = y + (uint64_t) row * c.targets;
	number		score = 0;
	uint32_t	at[TREES_EACH];

	trees_keys<KIND, KEYS>(c, shared, x, rows);
	for (uint32_t t = slot; there && c.values == nullptr && t < c.targets; t += slots)
		scores[t] = c.fn == TREES_SUM ? (number) 0 : (number) NAN;
	__syncthreads();
	for (uint32_t first = 0; first < c.trees_count; first += TREES_EACH * slots)
	{
		uint32_t	trees = min(c.trees_count - first, TREES_EACH * slots);

		if (there)
			trees_walk<KIND, KEYS>(c, shared, own_x, row, first + slot, slots, at);
		for (int e = 0; there && e < TREES_EACH; e++)
			if (c.values != nullptr)
				shared.said[e * TREES_THREADS + threadIdx.x].value = ((const number *) c.values)[at[e]];
			else
				shared.said[e * TREES_THREADS + threadIdx.x].leaf = at[e];
		__syncthreads();
		for (uint32_t t = 0; there && c.values != nullptr && slot == 0 && t < trees; t++)
			score += shared.said[(t << c.rows_shift) + row].value;
		if (there && c.values == nullptr)
			trees_votes<KIND, KEYS>(c, shared, row, trees, slot, slots, scores);
		__syncthreads();
	}
	if (there && slot == 0 && c.values != nullptr)
		*scores = score;
	for (uint32_t t = slot; there && c.values == nullptr && c.fn != TREES_SUM && t < c.targets; t += slots)
		if (scores[t] != scores[t])
			scores[t] = 0;
}

template <class KIND, int KEYS>
__global__ void
__launch_bounds__(TREES_THREADS, 4)
trees(const gpu_batch *batch, trees_call c)
{
	typedef typename KIND::number number;
	trees_shared<KIND, KEYS> &shared = gpu_shared<trees_shared<KIND, KEYS>>();
	uint64_t	rows = batch->items[c.lead] * c.rows_item;

	for (uint64_t row = (uint64_t) blockIdx.x << c.rows_shift; row < rows; row += (uint64_t) gridDim.x << c.rows_shift)
	{
		uint32_t	count = (uint32_t) (rows - row < 1u << c.rows_shift ? rows - row : 1u << c.rows_shift);

		trees_group<KIND, KEYS>(c, shared, (const number *) c.x + row * c.features, (number *) c.y + row * c.targets, count);
	}
}

/* ---- plans ---- */

#define KEYS_SMALL	8192
#define KEYS_LARGE	32768

typedef void (*trees_kernel)(const gpu_batch *batch, trees_call c);

struct trees_plan
{
	trees_call	call;				/* without addresses */
	uint32_t	key_bytes;
	trees_kernel without;			/* keys in shared memory, */
	trees_kernel small;				/* with KEYS_SMALL of them, */
	trees_kernel large;
	uint64_t	roots;				/* offsets of constants, */
	uint64_t	depths;
	uint64_t	nodes;
	uint64_t	nan_left;			/* of which these may be NOWHERE */
	uint64_t	values;
	uint64_t	votes_first;
	uint64_t	votes_target;
	uint64_t	votes_weight;
};

#define NOWHERE	UINT64_MAX

static const void *
trees_constant(const cuda_run *run, uint64_t offset)
{
	return offset == NOWHERE ? nullptr : cuda_constant(run, offset);
}

/* As many rows a group as leave each processor two groups, and whose keys fit. */
static uint32_t
trees_rows_shift(const trees_plan *own, uint64_t rows, int processors)
{
	uint64_t	row_bytes = (uint64_t) own->call.features * own->key_bytes;
	uint32_t	shift = 0;

	while ((2u << shift) <= TREES_ROWS && (rows >> (shift + 1)) >= 2 * (uint64_t) processors &&
		   (row_bytes > KEYS_LARGE || row_bytes << (shift + 1) <= KEYS_LARGE))
		shift++;
	return shift;
}

static void
launch_trees(const cuda_plan *plan, cuda_run *run)
{
	const trees_plan *own = (const trees_plan *) plan->own;
	uint64_t	rows = run->items[plan->lead] * own->call.rows_item;
	trees_call	call = own->call;
	uint64_t	keys;

	call.x = cuda_operand(plan, run, 0);
	call.y = cuda_address(run, &plan->output);
	call.roots = (const uint32_t *) trees_constant(run, own->roots);
	call.depths = (const uint32_t *) trees_constant(run, own->depths);
	call.nodes = trees_constant(run, own->nodes);
	call.nan_left = (const uint8_t *) trees_constant(run, own->nan_left);
	call.values = trees_constant(run, own->values);
	call.votes_first = (const uint32_t *) trees_constant(run, own->votes_first);
	call.votes_target = (const uint32_t *) trees_constant(run, own->votes_target);
	call.votes_weight = trees_constant(run, own->votes_weight);
	call.rows_shift = trees_rows_shift(own, rows, run->gpu->processors);
	keys = (uint64_t) call.features * own->key_bytes << call.rows_shift;
	cuda_launch(run, keys > KEYS_LARGE ? own->without : keys > KEYS_SMALL ? own->large : own->small,
				dim3(cuda_blocks(rows, 1u << call.rows_shift)), dim3(TREES_THREADS), run->batch, call);
}

template <class KIND>
static void
trees_kernels(trees_plan *own)
{
	own->key_bytes = sizeof(typename KIND::key_type);
	own->without = trees<KIND, 0>;
	own->small = trees<KIND, KEYS_SMALL>;
	own->large = trees<KIND, KEYS_LARGE>;
}

static void
trees_constants(cuda_making *making, const device_trees *trees, trees_plan *own)
{
	uint64_t	node = trees->type == DEVICE_F64 ? sizeof(device_tree_node_f64) : trees->wide ? sizeof(device_tree_node_wide)
		: sizeof(device_tree_node);
	uint64_t	number = trees->type == DEVICE_F64 ? 8 : 4;
	uint64_t	nodes = trees->nodes_count;
	uint64_t	votes = trees->values != nullptr ? 0 : trees->votes_first[nodes];

	own->roots = cuda_constant_add(making, trees->roots, 4ull * trees->trees_count, false);
	own->depths = cuda_constant_add(making, trees->depths, 4ull * trees->trees_count, false);
	own->nodes = cuda_constant_add(making, trees->nodes, node * nodes, false);
	own->nan_left = own->values = own->votes_first = own->votes_target = own->votes_weight = NOWHERE;
	if (trees->nan_left != nullptr)
		own->nan_left = cuda_constant_add(making, trees->nan_left, nodes, false);
	if (trees->values != nullptr)
	{
		own->values = cuda_constant_add(making, trees->values, number * nodes, false);
		return;
	}
	own->votes_first = cuda_constant_add(making, trees->votes_first, 4 * (nodes + 1), false);
	own->votes_target = cuda_constant_add(making, trees->votes_target, 4 * votes, false);
	own->votes_weight = cuda_constant_add(making, trees->votes_weight, number * votes, false);
}

/* Votes that a row hears: it meets one leaf of each tree, and those are as good as any. */
static double
trees_votes_heard(const device_trees *trees)
{
	uint32_t	leaves = 0;

	if (trees->values != nullptr)
		return trees->trees_count;
	for (uint32_t n = 0; n < trees->nodes_count; n++)
		leaves += trees->votes_first[n + 1] > trees->votes_first[n];
	return leaves == 0 ? 0 : (double) trees->trees_count * trees->votes_first[trees->nodes_count] / leaves;
}

bool
cuda_make_trees(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_trees *trees = (const device_trees *) making->op->params;
	const device_tensor *y = making->y;
	double		steps = 0;
	trees_plan *own;

	if (trees->features > INT32_MAX / TREES_ROWS)
		return false;
	own = (trees_plan *) cuda_own(making, sizeof(trees_plan));
	if (own == nullptr)
		return false;
	if (trees->type == DEVICE_F64)
		trees_kernels<trees_f64>(own);
	else if (trees->wide)
		trees_kernels<trees_wide>(own);
	else
		trees_kernels<trees_narrow>(own);
	trees_constants(making, trees, own);
	own->call.trees_count = trees->trees_count;
	own->call.features = trees->features;
	own->call.targets = trees->targets;
	own->call.lead = plan->lead;
	own->call.fn = plan->fn;
	own->call.rows_item = (uint64_t) cuda_elements(y, 0, y->rank - 1);
	for (uint32_t t = 0; t < trees->trees_count; t++)
		steps += 2 + trees->depths[t];
	/* a tree's leaf has as many votes as there are to a leaf on average; half of the nodes are leaves */
	if (trees->values == nullptr && trees->nodes_count != 0)
		steps += 2.0 * trees->votes_first[trees->nodes_count] / trees->nodes_count * trees->trees_count;
	plan->launch = launch_trees;
	plan->flops_item = (double) own->call.rows_item * 10 * (steps + trees_votes_heard(trees) + trees->features);
	plan->bytes_item = (double) own->call.rows_item * (own->key_bytes * ((double) trees->features + trees->targets) + 8 * steps);
	return true;
}

CUDA_MODULE
