/*
 * order.cu
 *	  ARG, CUMSUM and TOPK.
 *
 * Elements of a vector are ordered totally, places deciding where values do not: so what comes first is the same in
 * whichever order threads look.
 */
#include "../math/integer.h"
#include "fold.h"
#include "vectors.h"

/* ---- ARG ---- */

template <class T, int SHARERS>
__global__ void
__launch_bounds__(TEAM_BLOCK)
arg_kernel(const gpu_batch *batch, vectors_shape shape, const T *x, int64_t *y, bool narrow)
{
	typedef gpu_team<SHARERS> team;
	uint64_t	count = batch->items[shape.lead] * shape.vectors;

	for (uint64_t u = team::first(); team::goes_on(u, count); u += team::teams())
	{
		vector_of<T> vector = {x + vectors_start(shape, u, narrow), shape.after};
		int64_t		best = team::fold(fold_arg<T>{vector, shape.fn == ARG_MAX, shape.last}, u < count ? shape.axis : 0);

		if (u < count && team::lane() == 0)
			y[u] = best;
	}
}

template <class T, int SHARERS>
static void
launch_arg(const cuda_plan *plan, cuda_run *run)
{
	vectors_launch(plan, run, arg_kernel<T, SHARERS>);
}

template <class T>
static cuda_launch_fn
arg_launch(int sharers)
{
	return sharers == 1 ? launch_arg<T, 1> : sharers == TEAM_PARTS ? launch_arg<T, TEAM_PARTS> : launch_arg<T, TEAM_BLOCK>;
}

bool
cuda_make_arg(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	int			axis = (int) plan->i[0];
	vectors_shape *shape = vectors_make(making, axis, axis + 1);

	if (shape == nullptr)
		return false;
	shape->last = plan->i[2] != 0;
	plan->launch = plan->type == DEVICE_F32 ? arg_launch<float>(shape->sharers) :
		plan->type == DEVICE_F64 ? arg_launch<double>(shape->sharers) :
		plan->type == DEVICE_I32 ? arg_launch<int32_t>(shape->sharers) : arg_launch<int64_t>(shape->sharers);
	shape_cost(making, 2 * (double) shape->axis);
	return true;
}

/* ---- CUMSUM ---- */

static __device__ inline float
cumsum_add(float a, float b)
{
	return gpu_canonical(a + b);
}

static __device__ inline double
cumsum_add(double a, double b)
{
	return gpu_canonical(a + b);
}

static __device__ inline int32_t
cumsum_add(int32_t a, int32_t b)
{
	return (int32_t) ((uint32_t) a + (uint32_t) b);
}

static __device__ inline int64_t
cumsum_add(int64_t a, int64_t b)
{
	return (int64_t) ((uint64_t) a + (uint64_t) b);
}

/* A running sum's bits are those of one addition after the other: one thread has a vector. */
template <class T>
__global__ void
__launch_bounds__(TEAM_BLOCK)
cumsum_kernel(const gpu_batch *batch, vectors_shape shape, const T *x, T *y, bool narrow)
{
	uint64_t	count = batch->items[shape.lead] * shape.vectors;

	for (uint64_t u = gpu_thread(); u < count; u += gpu_threads())
	{
		uint64_t	start = vectors_start(shape, u, narrow);
		int64_t		step = shape.last ? -shape.after : shape.after;
		int64_t		at = shape.last ? (shape.axis - 1) * shape.after : 0;
		T			sum = 0;

		for (int64_t i = 0; i < shape.axis; i++, at += step)
		{
			T			next = cumsum_add(sum, x[start + (uint64_t) at]);

			y[start + (uint64_t) at] = shape.fn != 0 ? sum : next;
			sum = next;
		}
	}
}

#define CUMSUM_WARPS	4			/* of a block */
#define CUMSUM_LINE		32
#define CUMSUM_LEAST	8			/* elements of a vector: fewer fill no sector */

template <class T>
struct cumsum_tile
{
	T			at[CUMSUM_LINE][CUMSUM_LINE + 1];	/* a column's elements lie in different banks */
};

template <class T>
struct cumsum_tiles
{
	cumsum_tile<T> of_warp[CUMSUM_WARPS];
};

/*
 * Vectors that lie side by side, 32 to a warp: 32 elements of each at a time go to shared memory and back, vector by vector, so that
 * lanes read and write neighbours; between, each lane adds up its vector's.  Of 4 bytes an element 8 sectors of 32 bytes are
 * moved for 32 elements, where a thread with a vector to itself moves 64.
 */
template <class T>
__global__ void
__launch_bounds__(32 * CUMSUM_WARPS)
cumsum_lines_kernel(const gpu_batch *batch, vectors_shape shape, const T *x, T *y)
{
	cumsum_tile<T> &tile = gpu_shared<cumsum_tiles<T>>().of_warp[threadIdx.x / 32];
	uint64_t	count = batch->items[shape.lead] * shape.vectors;
	int			lane = threadIdx.x % 32;

	for (uint64_t u0 = gpu_thread() - (uint64_t) lane; u0 < count; u0 += gpu_threads())
	{
		int			vectors = count - u0 < 32 ? (int) (count - u0) : 32;
		T			sum = 0;

		for (int64_t done = 0; done < shape.axis; done += CUMSUM_LINE)
		{
			/* the line's first element: from the end on it may lie before the vector's */
			int64_t		first = shape.last ? shape.axis - CUMSUM_LINE - done : done;
			bool		inside = first + lane >= 0 && first + lane < shape.axis;
			uint64_t	at = u0 * (uint64_t) shape.axis + (uint64_t) (first + lane);

			for (int v = 0; v < vectors && inside; v++)
				tile.at[v][lane] = x[at + (uint64_t) (v * shape.axis)];
			__syncwarp();
			for (int j = 0; j < CUMSUM_LINE && lane < vectors; j++)
			{
				int			place = shape.last ? CUMSUM_LINE - 1 - j : j;
				T			next;

				if (first + place < 0 || first + place >= shape.axis)
					break;
				next = cumsum_add(sum, tile.at[lane][place]);
				tile.at[lane][place] = shape.fn != 0 ? sum : next;
				sum = next;
			}
			__syncwarp();
			for (int v = 0; v < vectors && inside; v++)
				y[at + (uint64_t) (v * shape.axis)] = tile.at[v][lane];
			__syncwarp();
		}
	}
}

template <class T>
static void
launch_cumsum(const cuda_plan *plan, cuda_run *run)
{
	const vectors_shape *shape = (const vectors_shape *) plan->own;

	if (shape->after == 1 && shape->axis >= CUMSUM_LEAST)
		cuda_launch(run, cumsum_lines_kernel<T>, dim3(cuda_blocks(run->items[plan->lead] * shape->vectors, 32 * CUMSUM_WARPS)),
					dim3(32 * CUMSUM_WARPS), run->batch, *shape, (const T *) cuda_operand(plan, run, 0),
					(T *) cuda_address(run, &plan->output));
	else
		vectors_launch(plan, run, cumsum_kernel<T>);
}

bool
cuda_make_cumsum(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	int			axis = (int) plan->i[0];
	vectors_shape *shape = vectors_make(making, axis, axis + 1);

	if (shape == nullptr)
		return false;
	shape->fn = plan->i[1] != 0;	/* without the element itself */
	shape->last = plan->i[2] != 0;	/* from there on */
	shape->sharers = 1;
	plan->launch = plan->type == DEVICE_F32 ? launch_cumsum<float> : plan->type == DEVICE_F64 ? launch_cumsum<double> :
		plan->type == DEVICE_I32 ? launch_cumsum<int32_t> : launch_cumsum<int64_t>;
	shape_cost(making, 1);
	return true;
}

/* ---- TOPK ---- */

#define TOPK_RANKED		1024		/* vectors up to this length, and those of which more is asked than */
#define TOPK_CHOSEN		64			/* this, are ranked; of others one element after the other is chosen */

/* Whether place a comes before place b. */
template <class T>
static __device__ inline bool
precedes(const vector_of<T> &vector, bool largest, int64_t a, int64_t b)
{
	T			va = vector.at(a);
	T			vb = vector.at(b);

	if (va != va || vb != vb)
	{
		if (va == va || vb == vb)
			return (va != va) == largest;
	}
	else if (va != vb)
		return largest ? va > vb : va < vb;
	return a < b;
}

/* A thread an element: its place in the order is how many precede it. */
template <class T>
__global__ void
__launch_bounds__(TEAM_BLOCK)
topk_rank_kernel(const gpu_batch *batch, vectors_shape shape, const T *x, int64_t *y, bool)
{
	uint64_t	after = (uint64_t) shape.after;
	uint64_t	count = batch->items[shape.lead] * shape.vectors * (uint64_t) shape.axis;

	for (uint64_t at = gpu_thread(); at < count; at += gpu_threads())
	{
		uint64_t	outer = at / (after * (uint64_t) shape.axis);
		uint64_t	within = at - outer * after * (uint64_t) shape.axis;
		int64_t		i = (int64_t) (within / after);
		uint64_t	behind = within - (uint64_t) i * after;
		vector_of<T> vector = {x + outer * after * (uint64_t) shape.axis + behind, shape.after};
		int64_t		rank = 0;

		for (int64_t j = 0; j < shape.axis && rank < shape.k; j++)
			rank += j != i && precedes(vector, shape.fn == TOPK_LARGEST, j, i);
		if (rank < shape.k)
			y[(outer * (uint64_t) shape.k + (uint64_t) rank) * after + behind] = i;
	}
}

/* The first of those behind `chosen`. */
template <class T>
struct fold_next					/* places; −1: none */
{
	vector_of<T> vector;
	bool		largest;
	int64_t		chosen;

	__device__ inline int64_t
	start() const
	{
		return -1;
	}

	__device__ inline int64_t
	step(int64_t a, int64_t i) const
	{
		if (chosen >= 0 && !precedes(vector, largest, chosen, i))
			return a;
		return join(a, i);
	}

	__device__ inline int64_t
	join(int64_t a, int64_t b) const
	{
		if (a < 0 || b < 0)
			return a < 0 ? b : a;
		return precedes(vector, largest, a, b) ? a : b;
	}
};

template <class T>
__global__ void
__launch_bounds__(TEAM_BLOCK)
topk_choose_kernel(const gpu_batch *batch, vectors_shape shape, const T *x, int64_t *y, bool narrow)
{
	typedef gpu_team<TEAM_BLOCK> team;
	uint64_t	after = (uint64_t) shape.after;
	uint64_t	count = batch->items[shape.lead] * shape.vectors;

	for (uint64_t u = team::first(); team::goes_on(u, count); u += team::teams())
	{
		vector_of<T> vector = {x + vectors_start(shape, u, narrow), shape.after};
		uint64_t	outer = u / after;
		int64_t		chosen = -1;

		for (int64_t j = 0; j < shape.k; j++)
		{
			chosen = team::fold(fold_next<T>{vector, shape.fn == TOPK_LARGEST, chosen}, shape.axis);
			if (team::lane() == 0)
				y[(outer * (uint64_t) shape.k + (uint64_t) j) * after + (u - outer * after)] = chosen;
		}
	}
}

template <class T>
static void
launch_topk(const cuda_plan *plan, cuda_run *run)
{
	const vectors_shape *shape = (const vectors_shape *) plan->own;

	if (shape->k == 0)
		return;
	if (shape->chooses)
		vectors_launch(plan, run, topk_choose_kernel<T>);
	else
		vectors_launch(plan, run, topk_rank_kernel<T>);
}

bool
cuda_make_topk(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	int			axis = (int) plan->i[0];
	vectors_shape *shape = vectors_make(making, axis, axis + 1);
	double		rounds;

	if (shape == nullptr)
		return false;
	shape->k = making->y->dims[axis];
	if (shape->axis > TOPK_RANKED && shape->k <= TOPK_CHOSEN)
	{
		shape->chooses = true;
		shape->sharers = TEAM_BLOCK;
		rounds = (double) shape->axis;
	}
	else
	{
		shape->sharers = (int32_t) (shape->axis < INT32_MAX ? shape->axis : INT32_MAX);
		rounds = shape->k == 0 ? 0 : (double) shape->axis * (double) shape->axis / (double) shape->k;
	}
	plan->launch = plan->type == DEVICE_F32 ? launch_topk<float> : plan->type == DEVICE_F64 ? launch_topk<double> :
		plan->type == DEVICE_I32 ? launch_topk<int32_t> : launch_topk<int64_t>;
	shape_cost(making, 4 * rounds);
	return true;
}

CUDA_MODULE
