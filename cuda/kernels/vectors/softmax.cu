/*
 * softmax.cu
 *	  SOFTMAX and NORMALIZE: vectors of one item's elements, by what they come to.
 */
#include "fold.h"
#include "vectors.h"

/* Σ e^(x − greatest), which are stored where y is; a zero that takes no part is 0 */
template <class T>
struct fold_softmax
{
	vector_of<T> vector;
	T		   *y;
	T			greatest;
	bool		zeros;

	__device__ inline T
	start() const
	{
		return 0;
	}

	__device__ inline T
	step(T sum, int64_t i) const
	{
		T			v = vector.at(i);
		T			e = gpu_exp(v - greatest);

		if (zeros && gpu_abs(v) <= (T) 1e-7)
			e = 0;
		if (y != nullptr)
			y[i * vector.step] = e;
		return sum + e;
	}

	__device__ inline T
	join(T a, T b) const
	{
		return a + b;
	}
};

template <class T, int SHARERS>
static __device__ inline void
softmax_vector(int fn, const vector_of<T> &vector, T *y, int64_t n)
{
	typedef gpu_team<SHARERS> team;
	T			greatest = team::fold(fold_float<T, vector_of<T>>{vector, REDUCE_MAX}, n);
	T			sum = team::fold(fold_softmax<T>{vector, fn == SOFTMAX_LOG ? nullptr : y, greatest, fn == SOFTMAX_ZERO}, n);

	if (fn == SOFTMAX_LOG)
		sum = gpu_log(sum);
	else if (fn == SOFTMAX_ZERO && sum == 0)
		sum = 1;					/* nothing but zeros */
	for (int64_t i = team::lane(); i < n; i += SHARERS)
	{
		T		   *to = y + i * vector.step;

		*to = gpu_canonical(fn == SOFTMAX_LOG ? vector.at(i) - greatest - sum : *to / sum);
	}
}

template <class T, int SHARERS>
static __device__ inline void
softmax_hard(const vector_of<T> &vector, T *y, int64_t n)
{
	typedef gpu_team<SHARERS> team;
	int64_t		best = team::fold(fold_arg<T>{vector, true, false}, n);

	team::meet();
	for (int64_t i = team::lane(); i < n; i += SHARERS)
		y[i * vector.step] = i == best ? (T) 1 : (T) 0;
}

template <class T, int SHARERS>
__global__ void
__launch_bounds__(TEAM_BLOCK)
softmax_kernel(const gpu_batch *batch, vectors_shape shape, const T *x, T *y, bool narrow)
{
	typedef gpu_team<SHARERS> team;
	uint64_t	count = batch->items[shape.lead] * shape.vectors;

	for (uint64_t u = team::first(); team::goes_on(u, count); u += team::teams())
	{
		uint64_t	start = vectors_start(shape, u, narrow);
		int64_t		n = u < count ? shape.axis : 0;

		if (shape.fn == SOFTMAX_HARD)
			softmax_hard<T, SHARERS>(vector_of<T>{x + start, shape.after}, y + start, n);
		else
			softmax_vector<T, SHARERS>(shape.fn, vector_of<T>{x + start, shape.after}, y + start, n);
	}
}

template <class T, int SHARERS>
__global__ void
__launch_bounds__(TEAM_BLOCK)
normalize_kernel(const gpu_batch *batch, vectors_shape shape, const T *x, T *y, bool narrow)
{
	typedef gpu_team<SHARERS> team;
	uint64_t	count = batch->items[shape.lead] * shape.vectors;
	int			fn = shape.fn == NORMALIZE_MAX ? REDUCE_MAX : shape.fn == NORMALIZE_L1 ? REDUCE_L1 : REDUCE_SUM_SQUARE;

	for (uint64_t u = team::first(); team::goes_on(u, count); u += team::teams())
	{
		uint64_t	start = vectors_start(shape, u, narrow);
		int64_t		n = u < count ? shape.axis : 0;
		vector_of<T> vector = {x + start, shape.after};
		T			norm = team::fold(fold_float<T, vector_of<T>>{vector, fn}, n);

		if (shape.fn == NORMALIZE_L2)
			norm = gpu_sqrt(norm);
		if (norm == 0)
			norm = 1;
		for (int64_t i = team::lane(); i < n; i += SHARERS)
			y[start + i * shape.after] = gpu_canonical(vector.at(i) / norm);
	}
}

template <class T, int SHARERS>
static void
launch_softmax(const cuda_plan *plan, cuda_run *run)
{
	vectors_launch(plan, run, softmax_kernel<T, SHARERS>);
}

template <class T, int SHARERS>
static void
launch_normalize(const cuda_plan *plan, cuda_run *run)
{
	vectors_launch(plan, run, normalize_kernel<T, SHARERS>);
}

template <class T>
static cuda_launch_fn
softmax_launch(int sharers)
{
	return sharers == 1 ? launch_softmax<T, 1> : sharers == TEAM_PARTS ? launch_softmax<T, TEAM_PARTS> :
		launch_softmax<T, TEAM_BLOCK>;
}

/* Its vectors are contiguous. */
template <class T>
static cuda_launch_fn
normalize_launch(int sharers)
{
	return sharers == 1 ? launch_normalize<T, 1> : sharers == TEAM_PARTS ? launch_normalize<T, TEAM_PARTS> :
		launch_normalize<T, TEAM_BLOCK>;
}

bool
cuda_make_softmax(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	int			first = (int) plan->i[0];
	vectors_shape *shape = vectors_make(making, first, first + (int) plan->i[1] + 1);

	if (shape == nullptr)
		return false;
	plan->launch = plan->type == DEVICE_F32 ? softmax_launch<float>(shape->sharers) : softmax_launch<double>(shape->sharers);
	shape_cost(making, 30);
	return true;
}

bool
cuda_make_normalize(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	int			rank = cuda_input(making, 0)->rank;
	vectors_shape *shape = vectors_make(making, rank - 1, rank);

	if (shape == nullptr)
		return false;
	plan->launch = plan->type == DEVICE_F32 ? normalize_launch<float>(shape->sharers) :
		normalize_launch<double>(shape->sharers);
	shape_cost(making, 4);
	return true;
}

CUDA_MODULE
