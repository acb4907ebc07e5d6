/*
 * reduce.cu
 *	  REDUCE: what vectors of one item's elements come to.
 */
#include "fold.h"
#include "vectors.h"

/* A vector whose elements lie in loops. */
template <class T>
struct vector_looped
{
	const T    *x;
	const gpu_loops<1> &loops;

	__device__ inline T
	at(int64_t i) const
	{
		int64_t		offset = 0;
		uint32_t	rest = (uint32_t) i;

		if (loops.rank == 1)
			return x[i * loops.steps[0][0]];
		for (int a = loops.rank - 1; a > 0; a--)
		{
			uint32_t	next = gpu_divide(rest, loops.divisors[a]);

			offset += (int64_t) (rest - next * loops.divisors[a].divisor) * loops.steps[0][a];
			rest = next;
		}
		return x[offset + rest * loops.steps[0][0]];
	}
};

/* ---- folds ---- */

/* Σ e^(x − shift) */
template <class T, class V>
struct fold_exp
{
	V			vector;
	T			shift;

	__device__ inline T
	start() const
	{
		return 0;
	}

	__device__ inline T
	step(T sum, int64_t i) const
	{
		return sum + gpu_exp(vector.at(i) - shift);
	}

	__device__ inline T
	join(T a, T b) const
	{
		return a + b;
	}
};

/* Exact functions of integers, which wrap around; truths are 0 and 1. */
template <class T, class V>
struct fold_integer
{
	V			vector;
	int			fn;

	__device__ inline int64_t
	start() const
	{
		const int64_t least = sizeof(T) == 1 ? 0 : sizeof(T) == 4 ? INT32_MIN : INT64_MIN;
		const int64_t most = sizeof(T) == 1 ? 1 : sizeof(T) == 4 ? INT32_MAX : INT64_MAX;

		return fn == REDUCE_MAX ? least : fn == REDUCE_MIN ? most : fn == REDUCE_PROD ? 1 : 0;
	}

	__device__ inline int64_t
	step(int64_t sum, int64_t i) const
	{
		int64_t		v = sizeof(T) == 1 ? vector.at(i) != 0 : (int64_t) vector.at(i);

		if (fn == REDUCE_L1 && v < 0)
			v = (int64_t) (0 - (uint64_t) v);
		else if (fn == REDUCE_SUM_SQUARE)
			v = (int64_t) ((uint64_t) v * (uint64_t) v);
		return join(sum, v);
	}

	__device__ inline int64_t
	join(int64_t a, int64_t b) const
	{
		switch (fn)
		{
			case REDUCE_MAX:
				return a > b ? a : b;
			case REDUCE_MIN:
				return a < b ? a : b;
			case REDUCE_PROD:
				return (int64_t) ((uint64_t) a * (uint64_t) b);
		}
		return (int64_t) ((uint64_t) a + (uint64_t) b);
	}
};

/* ---- REDUCE ---- */

struct reduce_shape
{
	gpu_loops<1> kept;				/* where vectors begin */
	gpu_loops<1> inner;				/* their elements */
	int64_t		n;					/* elements of a vector, */
	uint64_t	vectors;			/* vectors of an item, */
	uint64_t	elements;			/* and elements of an item */
	int32_t		fn;
	uint8_t		lead;
};

template <class T>
static __device__ inline const T *
reduce_start(const reduce_shape &shape, const T *x, uint64_t u, bool narrow)
{
	if (narrow)
	{
		uint32_t	offset[1];

		gpu_loops_offsets(shape.kept, (uint32_t) u, offset);
		return x + offset[0];
	}
	else
	{
		uint64_t	offset[1];

		gpu_loops_offsets(shape.kept, u, offset);
		return x + offset[0];
	}
}

template <class T>
static __device__ inline T
reduce_value(int fn, T v, T shift, int64_t n)
{
	switch (fn)
	{
		case REDUCE_MEAN:
			v = v / (T) n;
			break;
		case REDUCE_L2:
			v = gpu_sqrt(v);
			break;
		case REDUCE_LOG_SUM:
			v = gpu_log(v);
			break;
		case REDUCE_LOG_SUM_EXP:
			v = gpu_log(v) + shift;
			break;
	}
	return gpu_canonical(v);
}

template <class T, class V, int SHARERS>
static __device__ inline T
reduce_vector(int fn, const V &vector, int64_t n)
{
	T			shift = 0;
	T			sum;

	if (fn == REDUCE_LOG_SUM_EXP)
	{
		shift = gpu_team<SHARERS>::fold(fold_float<T, V>{vector, REDUCE_MAX}, n);
		if (!(gpu_abs(shift) < gpu_terms<T>::infinity))
			shift = 0;
		sum = gpu_team<SHARERS>::fold(fold_exp<T, V>{vector, shift}, n);
	}
	else
		sum = gpu_team<SHARERS>::fold(fold_float<T, V>{vector, fn}, n);
	return reduce_value(fn, sum, shift, n);
}

template <class T, int SHARERS>
__global__ void
__launch_bounds__(TEAM_BLOCK)
reduce_kernel(const gpu_batch *batch, reduce_shape shape, const T *x, T *y, bool narrow)
{
	typedef gpu_team<SHARERS> team;
	uint64_t	count = batch->items[shape.lead] * shape.vectors;

	for (uint64_t u = team::first(); team::goes_on(u, count); u += team::teams())
	{
		int64_t		n = u < count ? shape.n : 0;
		const T    *from = reduce_start(shape, x, u, narrow);
		T			v = reduce_vector<T, vector_looped<T>, SHARERS>(shape.fn, vector_looped<T>{from, shape.inner}, n);

		if (u < count && team::lane() == 0)
			y[u] = v;
	}
}

template <class T, int SHARERS>
__global__ void
__launch_bounds__(TEAM_BLOCK)
reduce_integer_kernel(const gpu_batch *batch, reduce_shape shape, const T *x, T *y, bool narrow)
{
	typedef gpu_team<SHARERS> team;
	uint64_t	count = batch->items[shape.lead] * shape.vectors;

	for (uint64_t u = team::first(); team::goes_on(u, count); u += team::teams())
	{
		int64_t		n = u < count ? shape.n : 0;
		const T    *from = reduce_start(shape, x, u, narrow);
		int64_t		v = team::fold(fold_integer<T, vector_looped<T>>{vector_looped<T>{from, shape.inner}, shape.fn}, n);

		if (shape.fn == REDUCE_MEAN)
			v = n == 0 ? 0 : v / n;
		if (u < count && team::lane() == 0)
			y[u] = (T) v;
	}
}

static __device__ inline int64_t
saturated(double v)
{
	if (!(v > (double) INT64_MIN))
		return INT64_MIN;
	return v >= (double) INT64_MAX ? INT64_MAX : (int64_t) v;
}

/* L2 and LOG_SUM of integers are sums of doubles in the order of the elements. */
template <class T>
__global__ void
__launch_bounds__(TEAM_BLOCK)
reduce_double_kernel(const gpu_batch *batch, reduce_shape shape, const T *x, T *y, bool narrow)
{
	uint64_t	count = batch->items[shape.lead] * shape.vectors;

	for (uint64_t u = gpu_thread(); u < count; u += gpu_threads())
	{
		vector_looped<T> vector = {reduce_start(shape, x, u, narrow), shape.inner};
		double		sum = 0;

		for (int64_t i = 0; i < shape.n; i++)
		{
			double		v = (double) vector.at(i);

			sum += shape.fn == REDUCE_L2 ? v * v : v;
		}
		y[u] = (T) saturated(shape.fn == REDUCE_L2 ? sqrt(sum) : log(sum));
	}
}

template <class T>
static void
launch_reduce_kernel(const cuda_plan *plan, cuda_run *run, int sharers,
					 void (*kernel)(const gpu_batch *, reduce_shape, const T *, T *, bool))
{
	const reduce_shape *shape = (const reduce_shape *) plan->own;
	uint64_t	vectors = run->items[plan->lead] * shape->vectors;
	bool		narrow = vectors <= INT32_MAX && run->items[plan->lead] * shape->elements <= INT32_MAX;

	cuda_launch(run, kernel, dim3(cuda_blocks(gpu_team_threads(sharers, vectors), TEAM_BLOCK)), dim3(TEAM_BLOCK), run->batch,
				*shape, (const T *) cuda_operand(plan, run, 0), (T *) cuda_address(run, &plan->output), narrow);
}

template <class T, int SHARERS>
static void
launch_reduce(const cuda_plan *plan, cuda_run *run)
{
	launch_reduce_kernel(plan, run, SHARERS, reduce_kernel<T, SHARERS>);
}

template <class T, int SHARERS>
static void
launch_reduce_integer(const cuda_plan *plan, cuda_run *run)
{
	launch_reduce_kernel(plan, run, SHARERS, reduce_integer_kernel<T, SHARERS>);
}

template <class T>
static void
launch_reduce_double(const cuda_plan *plan, cuda_run *run)
{
	launch_reduce_kernel(plan, run, 1, reduce_double_kernel<T>);
}

template <class T>
static cuda_launch_fn
reduce_launch(int sharers)
{
	return sharers == 1 ? launch_reduce<T, 1> : sharers == TEAM_PARTS ? launch_reduce<T, TEAM_PARTS> :
		launch_reduce<T, TEAM_BLOCK>;
}

template <class T>
static cuda_launch_fn
reduce_launch_integer(int fn, int sharers)
{
	if (fn == REDUCE_L2 || fn == REDUCE_LOG_SUM)
		return launch_reduce_double<T>;
	return sharers == 1 ? launch_reduce_integer<T, 1> : sharers == TEAM_PARTS ? launch_reduce_integer<T, TEAM_PARTS> :
		launch_reduce_integer<T, TEAM_BLOCK>;
}

/* Which axes are kept, and which go: loops over both. */
static void
reduce_loops(reduce_shape *shape, const device_tensor *x, int64_t axes)
{
	int64_t		kept_sizes[MAP_LOOPS_MAX] = {1};
	int64_t		kept_steps[1][MAP_LOOPS_MAX] = {{shape_item(x)}};
	int64_t		inner_sizes[MAP_LOOPS_MAX] = {1};
	int64_t		inner_steps[1][MAP_LOOPS_MAX] = {{1}};
	int			kept = 1;
	int			inner = 0;

	shape->n = 1;
	shape->vectors = 1;
	shape->elements = (uint64_t) shape_item(x);
	for (int d = 0; d < x->rank; d++)
	{
		int64_t		step = cuda_elements(x, d + 1, x->rank);

		if ((axes >> d & 1) != 0)
		{
			shape->n *= x->dims[d];
			if (x->dims[d] == 1)
				continue;
			inner_sizes[inner] = x->dims[d];
			inner_steps[0][inner++] = step;
		}
		else
		{
			shape->vectors *= (uint64_t) x->dims[d];
			kept_sizes[kept] = x->dims[d];
			kept_steps[0][kept++] = step;
		}
	}
	gpu_loops_join(&shape->kept, kept, kept_sizes, kept_steps);
	gpu_loops_join(&shape->inner, inner == 0 ? 1 : inner, inner_sizes, inner_steps);
}

bool
cuda_make_reduce(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	reduce_shape *shape;
	bool		looped;
	int			sharers;

	/* e^x of an integer's logarithm is an integer again: which one, the last bit of both functions decides */
	if (plan->fn == REDUCE_LOG_SUM_EXP && plan->type != DEVICE_F32 && plan->type != DEVICE_F64)
		return false;
	shape = shape_own<reduce_shape>(making);
	if (shape == nullptr)
		return false;
	reduce_loops(shape, cuda_input(making, 0), plan->i[0]);
	shape->fn = plan->fn;
	shape->lead = making->y->lead;
	looped = shape->inner.rank > 1;
	if (looped && shape->n > INT32_MAX)
		return false;
	sharers = gpu_team_choose(shape->n, looped || shape->inner.steps[0][0] == 1);
	switch (plan->type)
	{
		case DEVICE_F32:
			plan->launch = reduce_launch<float>(sharers);
			break;
		case DEVICE_F64:
			plan->launch = reduce_launch<double>(sharers);
			break;
		case DEVICE_I32:
			plan->launch = reduce_launch_integer<int32_t>(plan->fn, sharers);
			break;
		case DEVICE_I64:
			plan->launch = reduce_launch_integer<int64_t>(plan->fn, sharers);
			break;
		case DEVICE_BOOL:
			plan->launch = reduce_launch_integer<uint8_t>(plan->fn, sharers);
			break;
		default:
			return false;
	}
	shape_cost(making, 0);
	plan->flops_item = (plan->fn == REDUCE_LOG_SUM_EXP ? 30 : 2) * (double) shape->elements;
	return true;
}

CUDA_MODULE
