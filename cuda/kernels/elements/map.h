/*
 * map.h
 *	  Functions of elements: kernels that go through the elements of an output and those of its operands that broadcast to it.
 *
 * Nouns
 *	loops		nested loops over an output's elements, with the step of each operand: as struct cpu_loops of the CPU
 *				device, neighbours joined as far as steps allow, the axis of the items included
 *	flat		loops that are one: operands lie end to end, or are one element
 *	function	what is computed: a struct with the types A, B and C of its operands (those that it does not have: char),
 *				Y of its result, their number operands, whether it fails, whether it is worth kernels of vectors, and
 *				Y operator()(A a, B b, C c, uint32_t *error) const
 *
 * A thread computes VECTOR neighbours along the innermost loop where loops allow it.  Which kernel runs follows from shapes,
 * addresses and the number of items; an element's bits do not.
 */
#ifndef CUDA_KERNELS_MAP_H
#define CUDA_KERNELS_MAP_H

#include <string.h>

#include "shape.h"

#define MAP_LOOPS_MAX	(DEVICE_RANK_MAX + 1)
#define MAP_THREADS		256
#define MAP_VECTOR		4

/* n / divisor for n < 2^31, by a multiplication: Granlund and Montgomery, Division by invariant integers (PLDI 1994). */
struct gpu_divisor
{
	uint32_t	divisor;
	uint32_t	factor;
	uint32_t	shift;
};

static inline gpu_divisor
gpu_divisor_make(uint64_t divisor)
{
	gpu_divisor d = {};

	/* such a size is of an empty tensor, or its indices are wide */
	if (divisor == 0 || divisor > INT32_MAX)
		divisor = 1;
	d.divisor = (uint32_t) divisor;
	while (((uint64_t) 1 << d.shift) < divisor)
		d.shift++;
	d.factor = (uint32_t) (((((uint64_t) 1 << d.shift) - divisor) << 32) / divisor + 1);
	return d;
}

static __device__ inline uint32_t
gpu_divide(uint32_t n, const gpu_divisor &d)
{
	return (__umulhi(n, d.factor) + n) >> d.shift;
}

/* I: uint32_t (n is below 2^31) or uint64_t */
template <class I>
__device__ inline I
gpu_divide_by(I n, uint64_t divisor, const gpu_divisor &by)
{
	return sizeof(I) == 4 ? (I) gpu_divide((uint32_t) n, by) : (I) (n / divisor);
}

/* ---- loops ---- */

template <int N>
struct gpu_loops					/* the outermost has items × scale passes, the others dims[1…] */
{
	int32_t		rank;				/* ≥ 1 */
	int64_t		scale;
	int64_t		dims[MAP_LOOPS_MAX];
	gpu_divisor divisors[MAP_LOOPS_MAX];
	int64_t		steps[N][MAP_LOOPS_MAX];	/* elements */
};

/* Of axes, the outermost of sizes[0] × items passes. */
template <int N>
static inline void
gpu_loops_join(gpu_loops<N> *loops, int axes, const int64_t *sizes, const int64_t (*steps)[MAP_LOOPS_MAX])
{
	*loops = {};
	loops->rank = 1;
	loops->scale = sizes[0];
	for (int o = 0; o < N; o++)
		loops->steps[o][0] = steps[o][0];
	for (int a = 1; a < axes; a++)
	{
		int			last = loops->rank - 1;
		bool		join = true;

		if (sizes[a] == 1)
			continue;
		for (int o = 0; o < N; o++)
			join = join && loops->steps[o][last] == steps[o][a] * sizes[a];
		if (!join)
			loops->dims[loops->rank++] = sizes[a];
		else if (last == 0)
			loops->scale *= sizes[a];
		else
			loops->dims[last] *= sizes[a];
		for (int o = 0; o < N; o++)
			loops->steps[o][loops->rank - 1] = steps[o][a];
	}
	for (int a = 1; a < loops->rank; a++)
		loops->divisors[a] = gpu_divisor_make((uint64_t) loops->dims[a]);
}

/* Of an output and operands that broadcast to it. */
template <int N>
static inline void
gpu_loops_make(gpu_loops<N> *loops, const device_tensor *y, const device_tensor *const *operands)
{
	int64_t		sizes[MAP_LOOPS_MAX] = {1};
	int64_t		steps[N][MAP_LOOPS_MAX] = {};

	for (int d = 0; d < y->rank; d++)
		sizes[d + 1] = y->dims[d];
	for (int o = 0; o < N; o++)
	{
		const device_tensor *t = operands[o];
		int64_t		step = 1;

		for (int d = t->rank - 1, a = y->rank; d >= 0; d--, a--)
		{
			steps[o][a] = t->dims[d] == 1 ? 0 : step;
			step *= t->dims[d];
		}
		steps[o][0] = t->lead == DEVICE_LEAD_NONE ? 0 : step;
	}
	gpu_loops_join(loops, y->rank + 1, sizes, steps);
}

/* Where the operands have element `at` of the output; I: uint32_t (all below 2^31) or uint64_t. */
template <int N, class I>
__device__ inline void
gpu_loops_offsets(const gpu_loops<N> &loops, I at, I (&offset)[N])
{
	for (int o = 0; o < N; o++)
		offset[o] = 0;
	for (int a = loops.rank - 1; a > 0; a--)
	{
		I			size = (I) loops.dims[a];
		I			next = gpu_divide_by(at, (uint64_t) size, loops.divisors[a]);

		for (int o = 0; o < N; o++)
			offset[o] += (at - next * size) * (I) loops.steps[o][a];
		at = next;
	}
	for (int o = 0; o < N; o++)
		offset[o] += at * (I) loops.steps[o][0];
}

/* ---- vectors of neighbours ---- */

template <class T, int V>
struct __align__(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) gpu_neighbours
{
	T			at[V];
};

/* V elements from x on, or the same one (step 0) */
template <int V, class T>
__device__ inline gpu_neighbours<T, V>
gpu_fetch(const T *x, int64_t step)
{
	gpu_neighbours<T, V> v;

	if (step != 0)
		return *(const gpu_neighbours<T, V> *) x;
	v.at[0] = *x;
	for (int j = 1; j < V; j++)
		v.at[j] = v.at[0];
	return v;
}

/* ---- kernels ---- */

/*
 * What a function of elements says of itself: the types of its operands (char: there is none) and of its result, whether a
 * row may fail, and whether it is cheap enough that vectors of neighbours pay.
 */
template <class First, class Second, class Third, class Result, int Operands, bool Fails, bool Vectors>
struct gpu_map_traits
{
	typedef First A;
	typedef Second B;
	typedef Third C;
	typedef Result Y;
	static constexpr int operands = Operands;
	static constexpr bool fails = Fails;
	static constexpr bool vectors = Vectors;
};

template <int N>
struct gpu_map
{
	gpu_loops<N> loops;
	uint64_t	elements;			/* of an item of the output */
	uint8_t		lead;
};

struct gpu_operands
{
	const void *x[3];
	void	   *y;
};

template <class F, int N>
__device__ inline void
gpu_map_fail(const gpu_batch *batch, const gpu_map<N> &map, uint64_t at, uint32_t error)
{
	if (F::fails && error != GPU_ROW_FINE)
		gpu_fail(batch, map.lead, at / map.elements, error);
}

template <class F, class I>
__device__ inline void
gpu_map_one(const gpu_batch *batch, const gpu_map<F::operands> &map, const gpu_operands &data, const F &function, I at)
{
	I			offset[F::operands];
	uint32_t	error = GPU_ROW_FINE;
	typename F::A a;
	typename F::B b = {};
	typename F::C c = {};

	gpu_loops_offsets(map.loops, at, offset);
	a = ((const typename F::A *) data.x[0])[offset[0]];
	if (F::operands > 1)
		b = ((const typename F::B *) data.x[1])[offset[F::operands > 1 ? 1 : 0]];
	if (F::operands > 2)
		c = ((const typename F::C *) data.x[2])[offset[F::operands > 2 ? 2 : 0]];
	((typename F::Y *) data.y)[at] = function(a, b, c, &error);
	gpu_map_fail<F>(batch, map, at, error);
}

template <class F, class I>
__device__ inline void
gpu_map_vector(const gpu_batch *batch, const gpu_map<F::operands> &map, const gpu_operands &data, const F &function, I at)
{
	constexpr int second = F::operands > 1 ? 1 : 0, third = F::operands > 2 ? 2 : 0;
	const int	inner = map.loops.rank - 1;
	I			offset[F::operands];
	gpu_neighbours<typename F::A, MAP_VECTOR> a;
	gpu_neighbours<typename F::B, MAP_VECTOR> b = {};
	gpu_neighbours<typename F::C, MAP_VECTOR> c = {};
	gpu_neighbours<typename F::Y, MAP_VECTOR> y;

	gpu_loops_offsets(map.loops, at, offset);
	a = gpu_fetch<MAP_VECTOR>((const typename F::A *) data.x[0] + offset[0], map.loops.steps[0][inner]);
	if (F::operands > 1)
		b = gpu_fetch<MAP_VECTOR>((const typename F::B *) data.x[1] + offset[second], map.loops.steps[second][inner]);
	if (F::operands > 2)
		c = gpu_fetch<MAP_VECTOR>((const typename F::C *) data.x[2] + offset[third], map.loops.steps[third][inner]);
	for (int j = 0; j < MAP_VECTOR; j++)
	{
		uint32_t	error = GPU_ROW_FINE;

		y.at[j] = function(a.at[j], b.at[j], c.at[j], &error);
		gpu_map_fail<F>(batch, map, at + j, error);
	}
	*(gpu_neighbours<typename F::Y, MAP_VECTOR> *) ((typename F::Y *) data.y + at) = y;
}

/* V: elements of a thread at a time; only the last may be fewer, and only in flat loops. */
template <class F, class I, int V>
__global__ void
__launch_bounds__(MAP_THREADS)
gpu_map_kernel(const gpu_batch *batch, gpu_map<F::operands> map, gpu_operands data, F function)
{
	I			count = (I) (batch->items[map.lead] * map.elements);

	for (I at = (I) gpu_thread() * V; at < count; at += (I) gpu_threads() * V)
	{
		if (V > 1 && count - at >= V)
			gpu_map_vector(batch, map, data, function, at);
		else
			for (int j = 0; j < V && at + j < count; j++)
				gpu_map_one(batch, map, data, function, (I) (at + j));
	}
}

/* ---- on the host ---- */

/* Whether each vector of neighbours of the output lies in one run of the innermost loop, at aligned places. */
template <int N>
static inline bool
gpu_map_vectors(const gpu_loops<N> *loops)
{
	int			inner = loops->rank - 1;

	if (inner > 0 && loops->dims[inner] % MAP_VECTOR != 0)
		return false;
	for (int o = 0; o < N; o++)
	{
		if (loops->steps[o][inner] != 0 && loops->steps[o][inner] != 1)
			return false;
		for (int a = 0; a < inner && loops->steps[o][inner] != 0; a++)
			if (loops->steps[o][a] % MAP_VECTOR != 0)
				return false;
	}
	return true;
}

template <int N>
struct cuda_map						/* a plan's own */
{
	gpu_map<N>	map;
	bool		vectors;
	int64_t		operands_most;		/* elements of an item of the largest operand */
};

template <int N>
static inline bool
cuda_map_make(cuda_making *making)
{
	cuda_map<N> *own = shape_own<cuda_map<N>>(making);
	const device_tensor *operands[N];

	if (own == nullptr)
		return false;
	for (int o = 0; o < N; o++)
	{
		operands[o] = cuda_input(making, (uint32_t) o);
		if (shape_item(operands[o]) > own->operands_most)
			own->operands_most = shape_item(operands[o]);
	}
	gpu_loops_make(&own->map.loops, making->y, operands);
	own->map.elements = (uint64_t) shape_item(making->y);
	own->map.lead = making->y->lead;
	own->vectors = gpu_map_vectors(&own->map.loops);
	return true;
}

static inline bool
cuda_map_aligned(const gpu_operands *data, int count)
{
	for (int o = 0; o < count; o++)
		if (((uintptr_t) data->x[o] & 15) != 0)
			return false;
	return ((uintptr_t) data->y & 15) == 0;
}

/* Kernels that a function has: of vectors if it asks for them, and of narrow indices where loops are more than one. */
template <class F>
static inline void
cuda_map_launch(const cuda_plan *plan, cuda_run *run, const F &function)
{
	constexpr int N = F::operands;
	constexpr int V = F::vectors ? MAP_VECTOR : 1;
	const cuda_map<N> *own = (const cuda_map<N> *) plan->own;
	uint64_t	count = run->items[plan->lead] * own->map.elements;
	uint64_t	most = run->items[plan->lead] * (uint64_t) own->operands_most;
	bool		narrow = count <= INT32_MAX && most <= INT32_MAX;
	void		(*kernel)(const gpu_batch *, gpu_map<N>, gpu_operands, F) = gpu_map_kernel<F, uint64_t, 1>;
	gpu_operands data = {};

	for (int o = 0; o < N; o++)
		data.x[o] = cuda_operand(plan, run, (uint32_t) o);
	data.y = cuda_address(run, &plan->output);
	if (V > 1 && own->vectors && narrow && cuda_map_aligned(&data, N))
	{
		count = (count + V - 1) / V;
		kernel = gpu_map_kernel<F, uint32_t, V>;
	}
	else if (N > 1 && narrow)
		kernel = gpu_map_kernel<F, uint32_t, 1>;
	cuda_launch(run, kernel, dim3(cuda_blocks(count, MAP_THREADS)), dim3(MAP_THREADS), run->batch, own->map, data, function);
}

#endif /* CUDA_KERNELS_MAP_H */
