/*
 * elementwise.cu
 *	  UNARY, BINARY and WHERE: primitives that compute each element by itself.
 *
 * Functions that models spend time in have a kernel each; the others of a type share one, in which the function is a
 * parameter.  Strings are the host's.
 */
#include "../math/function.h"
#include "../math/integer.h"
#include "map.h"

/* ---- UNARY ---- */

#define ANY_FUNCTION	(-1)

/* FN: ANY_FUNCTION: fn says which */
template <class T, int FN>
struct unary_function : gpu_map_traits<T, char, char, T, 1, false, FN != ANY_FUNCTION>
{
	int			fn;
	T			f0;
	T			f1;

	__device__ inline T
	operator()(T a, char, char, uint32_t *) const
	{
		return gpu_unary(FN == ANY_FUNCTION ? fn : FN, a, f0, f1);
	}
};

template <class T>
struct test_function : gpu_map_traits<T, char, char, uint8_t, 1, false, false>
{
	int			fn;
	bool		negative;
	bool		positive;

	__device__ inline uint8_t
	operator()(T a, char, char, uint32_t *) const
	{
		return gpu_unary_test(fn, a, negative, positive);
	}
};

template <class T>
struct integer_function : gpu_map_traits<T, char, char, T, 1, false, false>
{
	int			fn;
	T			low;
	T			high;

	__device__ inline T
	operator()(T a, char, char, uint32_t *) const
	{
		return gpu_integer_unary(fn, a, low, high);
	}
};

struct truth_function : gpu_map_traits<uint8_t, char, char, uint8_t, 1, false, false>
{
	bool		flip;

	__device__ inline uint8_t
	operator()(uint8_t a, char, char, uint32_t *) const
	{
		return (a != 0) != flip;
	}
};

template <class T, int FN>
static void
launch_unary(const cuda_plan *plan, cuda_run *run)
{
	cuda_map_launch(plan, run, unary_function<T, FN>{{}, plan->fn, (T) plan->f[0], (T) plan->f[1]});
}

template <class T>
static void
launch_test(const cuda_plan *plan, cuda_run *run)
{
	cuda_map_launch(plan, run, test_function<T>{{}, plan->fn, plan->f[0] != 0, plan->f[1] != 0});
}

/* A bound of CLIP as an integer: f holds it exactly up to 2^53, and saturates beyond. */
template <class T>
static T
clip_bound(double bound, T low, T high)
{
	if (!(bound > (double) low))
		return low;
	return bound >= (double) high ? high : (T) bound;
}

static void
launch_unary_i32(const cuda_plan *plan, cuda_run *run)
{
	cuda_map_launch(plan, run, integer_function<int32_t>{{}, plan->fn, clip_bound(plan->f[0], INT32_MIN, INT32_MAX),
														 clip_bound(plan->f[1], INT32_MIN, INT32_MAX)});
}

static void
launch_unary_i64(const cuda_plan *plan, cuda_run *run)
{
	cuda_map_launch(plan, run, integer_function<int64_t>{{}, plan->fn, clip_bound<int64_t>(plan->f[0], INT64_MIN, INT64_MAX),
														 clip_bound<int64_t>(plan->f[1], INT64_MIN, INT64_MAX)});
}

static void
launch_truth(const cuda_plan *plan, cuda_run *run)
{
	cuda_map_launch(plan, run, truth_function{{}, plan->fn == UNARY_NOT});
}

static cuda_launch_fn
unary_launch_f32(int fn)
{
	switch (fn)
	{
		case UNARY_EXP:
			return launch_unary<float, UNARY_EXP>;
		case UNARY_SQRT:
			return launch_unary<float, UNARY_SQRT>;
		case UNARY_ERF:
			return launch_unary<float, UNARY_ERF>;
		case UNARY_TANH:
			return launch_unary<float, UNARY_TANH>;
		case UNARY_SIGMOID:
			return launch_unary<float, UNARY_SIGMOID>;
		case UNARY_RELU:
			return launch_unary<float, UNARY_RELU>;
		case UNARY_GELU:
			return launch_unary<float, UNARY_GELU>;
		case UNARY_SWISH:
			return launch_unary<float, UNARY_SWISH>;
	}
	return launch_unary<float, ANY_FUNCTION>;
}

/* Operations of an element, about. */
static double
unary_flops(int fn)
{
	if (fn <= UNARY_SQRT || (fn >= UNARY_FLOOR && fn <= UNARY_ROUND) || fn == UNARY_RELU || fn == UNARY_CLIP)
		return 2;
	return fn >= UNARY_SIN && fn <= UNARY_ATANH ? 60 : 25;
}

bool
cuda_make_unary(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	bool		tests = plan->fn == UNARY_IS_NAN || plan->fn == UNARY_IS_INF;

	switch (plan->type)
	{
		case DEVICE_F32:
			plan->launch = tests ? launch_test<float> : unary_launch_f32(plan->fn);
			break;
		case DEVICE_F64:
			plan->launch = tests ? launch_test<double> : launch_unary<double, ANY_FUNCTION>;
			break;
		case DEVICE_I32:
			plan->launch = launch_unary_i32;
			break;
		case DEVICE_I64:
			plan->launch = launch_unary_i64;
			break;
		case DEVICE_BOOL:
			plan->launch = launch_truth;
			break;
		default:
			return false;
	}
	shape_cost(making, unary_flops(plan->fn));
	return cuda_map_make<1>(making);
}

/* ---- BINARY ---- */

template <class T, int FN>
struct binary_function : gpu_map_traits<T, T, char, T, 2, false, FN != ANY_FUNCTION>
{
	int			fn;

	__device__ inline T
	operator()(T a, T b, char, uint32_t *) const
	{
		return gpu_binary(FN == ANY_FUNCTION ? fn : FN, a, b);
	}
};

template <class T>
struct integer_binary_function : gpu_map_traits<T, T, char, T, 2, true, false>
{
	int			fn;

	__device__ inline T
	operator()(T a, T b, char, uint32_t *error) const
	{
		return gpu_integer_binary(fn, a, b, error);
	}
};

template <class T>
struct compare_function : gpu_map_traits<T, T, char, uint8_t, 2, false, false>
{
	int			fn;

	__device__ inline uint8_t
	operator()(T a, T b, char, uint32_t *) const
	{
		return gpu_compare(fn, a, b);
	}
};

struct logic_function : gpu_map_traits<uint8_t, uint8_t, char, uint8_t, 2, false, false>
{
	int			fn;

	__device__ inline uint8_t
	operator()(uint8_t a, uint8_t b, char, uint32_t *) const
	{
		return gpu_logic(fn, a != 0, b != 0);
	}
};

/* Of functions that have fn alone. */
template <class F>
static void
launch_binary(const cuda_plan *plan, cuda_run *run)
{
	cuda_map_launch(plan, run, F{{}, plan->fn});
}

static cuda_launch_fn
binary_launch_f32(int fn)
{
	switch (fn)
	{
		case BINARY_ADD:
			return launch_binary<binary_function<float, BINARY_ADD>>;
		case BINARY_SUB:
			return launch_binary<binary_function<float, BINARY_SUB>>;
		case BINARY_MUL:
			return launch_binary<binary_function<float, BINARY_MUL>>;
		case BINARY_DIV:
			return launch_binary<binary_function<float, BINARY_DIV>>;
	}
	return launch_binary<binary_function<float, ANY_FUNCTION>>;
}

bool
cuda_make_binary(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	bool		compares = making->y->type == DEVICE_BOOL;

	switch (plan->type)
	{
		case DEVICE_F32:
			plan->launch = compares ? launch_binary<compare_function<float>> : binary_launch_f32(plan->fn);
			break;
		case DEVICE_F64:
			plan->launch = compares ? launch_binary<compare_function<double>> :
				launch_binary<binary_function<double, ANY_FUNCTION>>;
			break;
		case DEVICE_I32:
			plan->launch = compares ? launch_binary<compare_function<int32_t>> : launch_binary<integer_binary_function<int32_t>>;
			break;
		case DEVICE_I64:
			plan->launch = compares ? launch_binary<compare_function<int64_t>> : launch_binary<integer_binary_function<int64_t>>;
			break;
		case DEVICE_BOOL:
			plan->launch = launch_binary<logic_function>;
			break;
		default:
			return false;
	}
	shape_cost(making, plan->fn == BINARY_POW || plan->fn == BINARY_MOD || plan->fn == BINARY_FMOD ? 60 : 2);
	return cuda_map_make<2>(making);
}

/* ---- WHERE ---- */

/* T: an unsigned type of as many bytes */
template <class T>
struct where_function : gpu_map_traits<uint8_t, T, T, T, 3, false, sizeof(T) == 4>
{
	__device__ inline T
	operator()(uint8_t a, T b, T c, uint32_t *) const
	{
		return a != 0 ? b : c;
	}
};

template <class T>
static void
launch_where(const cuda_plan *plan, cuda_run *run)
{
	cuda_map_launch(plan, run, where_function<T>{});
}

bool
cuda_make_where(cuda_making *making)
{
	switch (shape_bytes(making->y->type))
	{
		case 1:
			making->plan->launch = launch_where<uint8_t>;
			break;
		case 2:
			making->plan->launch = launch_where<uint16_t>;
			break;
		case 4:
			making->plan->launch = launch_where<uint32_t>;
			break;
		case 8:
			making->plan->launch = launch_where<uint64_t>;
			break;
		default:
			return false;
	}
	shape_cost(making, 1);
	return cuda_map_make<3>(making);
}

CUDA_MODULE
