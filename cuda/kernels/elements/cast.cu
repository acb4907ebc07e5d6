/*
 * cast.cu
 *	  CAST between numbers, and LOOKUP of numbers.
 *
 * Texts are the host's.
 */
#include "../math/half.h"
#include "map.h"

/* ---- CAST ---- */

/* Between types of which the C++ cast is what CAST means; to BOOL: x ≠ 0; from BOOL: 0 or 1. */
template <class From, class To>
struct cast_plain
{
	static constexpr bool fails = false;

	static __device__ inline To
	cast(From v, uint32_t *)
	{
		return (To) v;
	}
};

/* Between floating types: a NaN becomes the one NaN. */
template <class From, class To>
struct cast_float
{
	static constexpr bool fails = false;

	static __device__ inline To
	cast(From v, uint32_t *)
	{
		return gpu_canonical((To) v);
	}
};

template <class From>
struct cast_to_truth
{
	static constexpr bool fails = false;

	static __device__ inline uint8_t
	cast(From v, uint32_t *)
	{
		return v != 0;
	}
};

template <class To>
struct cast_of_truth
{
	static constexpr bool fails = false;

	static __device__ inline To
	cast(uint8_t v, uint32_t *)
	{
		return (To) (v != 0);
	}
};

/* A NaN, and what does not fit, is the row's error. */
template <class From>
struct cast_to_i32
{
	static constexpr bool fails = true;

	static __device__ inline int32_t
	cast(From v, uint32_t *error)
	{
		double		x = (double) v;

		if (x > -2147483649.0 && x < 2147483648.0)
			return (int32_t) x;
		*error = GPU_ROW_INTEGER;
		return 0;
	}
};

template <class From>
struct cast_to_i64
{
	static constexpr bool fails = true;

	static __device__ inline int64_t
	cast(From v, uint32_t *error)
	{
		double		x = (double) v;

		if (x >= -9223372036854775808.0 && x < 9223372036854775808.0)
			return (int64_t) x;
		*error = GPU_ROW_INTEGER;
		return 0;
	}
};

struct cast_narrow
{
	static constexpr bool fails = true;

	static __device__ inline int32_t
	cast(int64_t v, uint32_t *error)
	{
		if (v >= INT32_MIN && v <= INT32_MAX)
			return (int32_t) v;
		*error = GPU_ROW_INTEGER;
		return 0;
	}
};

struct cast_to_bf16
{
	static constexpr bool fails = false;

	static __device__ inline uint16_t
	cast(float v, uint32_t *)
	{
		return gpu_bf16_of_f32(v);
	}
};

struct cast_of_bf16
{
	static constexpr bool fails = false;

	static __device__ inline float
	cast(uint16_t v, uint32_t *)
	{
		return gpu_f32_of_bf16(v);
	}
};

struct cast_of_f16
{
	static constexpr bool fails = false;

	static __device__ inline float
	cast(uint16_t v, uint32_t *)
	{
		return gpu_f32_of_f16(v);
	}
};

template <class From, class To, class Cast>
struct cast_function : gpu_map_traits<From, char, char, To, 1, Cast::fails, sizeof(From) + sizeof(To) == 6>
{
	/* vectors pay between F32 and BF16, in encoders */
	__device__ inline To
	operator()(From a, char, char, uint32_t *error) const
	{
		return Cast::cast(a, error);
	}
};

template <class From, class To, class Cast>
static void
launch_cast(const cuda_plan *plan, cuda_run *run)
{
	cuda_map_launch(plan, run, cast_function<From, To, Cast>{});
}

#define CAST(from, to)	((from) * 16 + (to))

static cuda_launch_fn
cast_launch(uint8_t from, uint8_t to)
{
	switch (CAST(from, to))
	{
		case CAST(DEVICE_F32, DEVICE_F32):
		case CAST(DEVICE_I32, DEVICE_I32):
			return launch_cast<uint32_t, uint32_t, cast_plain<uint32_t, uint32_t>>;
		case CAST(DEVICE_F64, DEVICE_F64):
		case CAST(DEVICE_I64, DEVICE_I64):
			return launch_cast<uint64_t, uint64_t, cast_plain<uint64_t, uint64_t>>;
		case CAST(DEVICE_F32, DEVICE_F64):
			return launch_cast<float, double, cast_float<float, double>>;
		case CAST(DEVICE_F64, DEVICE_F32):
			return launch_cast<double, float, cast_float<double, float>>;
		case CAST(DEVICE_I32, DEVICE_F32):
			return launch_cast<int32_t, float, cast_plain<int32_t, float>>;
		case CAST(DEVICE_I32, DEVICE_F64):
			return launch_cast<int32_t, double, cast_plain<int32_t, double>>;
		case CAST(DEVICE_I64, DEVICE_F32):
			return launch_cast<int64_t, float, cast_plain<int64_t, float>>;
		case CAST(DEVICE_I64, DEVICE_F64):
			return launch_cast<int64_t, double, cast_plain<int64_t, double>>;
		case CAST(DEVICE_I32, DEVICE_I64):
			return launch_cast<int32_t, int64_t, cast_plain<int32_t, int64_t>>;
		case CAST(DEVICE_BOOL, DEVICE_F32):
			return launch_cast<uint8_t, float, cast_of_truth<float>>;
		case CAST(DEVICE_BOOL, DEVICE_F64):
			return launch_cast<uint8_t, double, cast_of_truth<double>>;
		case CAST(DEVICE_BOOL, DEVICE_I32):
			return launch_cast<uint8_t, int32_t, cast_of_truth<int32_t>>;
		case CAST(DEVICE_BOOL, DEVICE_I64):
			return launch_cast<uint8_t, int64_t, cast_of_truth<int64_t>>;
		case CAST(DEVICE_BOOL, DEVICE_BOOL):
			return launch_cast<uint8_t, uint8_t, cast_to_truth<uint8_t>>;
		case CAST(DEVICE_F32, DEVICE_BOOL):
			return launch_cast<float, uint8_t, cast_to_truth<float>>;
		case CAST(DEVICE_F64, DEVICE_BOOL):
			return launch_cast<double, uint8_t, cast_to_truth<double>>;
		case CAST(DEVICE_I32, DEVICE_BOOL):
			return launch_cast<int32_t, uint8_t, cast_to_truth<int32_t>>;
		case CAST(DEVICE_I64, DEVICE_BOOL):
			return launch_cast<int64_t, uint8_t, cast_to_truth<int64_t>>;
		case CAST(DEVICE_F32, DEVICE_I32):
			return launch_cast<float, int32_t, cast_to_i32<float>>;
		case CAST(DEVICE_F64, DEVICE_I32):
			return launch_cast<double, int32_t, cast_to_i32<double>>;
		case CAST(DEVICE_F32, DEVICE_I64):
			return launch_cast<float, int64_t, cast_to_i64<float>>;
		case CAST(DEVICE_F64, DEVICE_I64):
			return launch_cast<double, int64_t, cast_to_i64<double>>;
		case CAST(DEVICE_I64, DEVICE_I32):
			return launch_cast<int64_t, int32_t, cast_narrow>;
		case CAST(DEVICE_F32, DEVICE_BF16):
			return launch_cast<float, uint16_t, cast_to_bf16>;
		case CAST(DEVICE_BF16, DEVICE_F32):
			return launch_cast<uint16_t, float, cast_of_bf16>;
		case CAST(DEVICE_F16, DEVICE_F32):
			return launch_cast<uint16_t, float, cast_of_f16>;
	}
	return nullptr;
}

bool
cuda_make_cast(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	cuda_map<1> *own;

	plan->launch = cast_launch(plan->type, making->y->type);
	if (plan->launch == nullptr)
		return false;
	shape_cost(making, 1);
	own = shape_own<cuda_map<1>>(making);
	if (own == nullptr)
		return false;
	/* the output's shape may be another: it has as many elements */
	own->map.elements = (uint64_t) shape_item(making->y);
	own->map.lead = making->y->lead;
	own->map.loops.rank = 1;
	own->map.loops.steps[0][0] = 1;
	own->operands_most = (int64_t) own->map.elements;
	own->vectors = true;
	return true;
}

/* ---- LOOKUP ---- */

struct lookup_table					/* of device memory */
{
	const void *keys;				/* ascending, NaN last */
	const void *values;
	uint32_t	count;
	bool		has_default;
	uint64_t	default_value;		/* its first bytes */
};

/* −1, 0, 1: a before, at, behind b */
template <class K>
__device__ inline int
lookup_order(K a, K b)
{
	if (a != a || b != b)
		return (a != a) - (b != b);
	return (a > b) - (a < b);
}

/* V: an unsigned type of as many bytes as a value. */
template <class K, class V>
__global__ void
__launch_bounds__(MAP_THREADS)
lookup_kernel(const gpu_batch *batch, lookup_table table, const K *x, V *y, uint8_t lead, uint64_t elements)
{
	const K    *keys = (const K *) table.keys;
	uint64_t	count = batch->items[lead] * elements;

	for (uint64_t at = gpu_thread(); at < count; at += gpu_threads())
	{
		K			key = x[at];
		uint32_t	low = 0, high = table.count;

		/* the first that is not before the key */
		while (low < high)
		{
			uint32_t	middle = low + (high - low) / 2;

			if (lookup_order(keys[middle], key) < 0)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < table.count && lookup_order(keys[low], key) == 0)
			y[at] = ((const V *) table.values)[low];
		else
		{
			y[at] = (V) table.default_value;
			if (!table.has_default)
				gpu_fail(batch, lead, at / elements, GPU_ROW_LOOKUP);
		}
	}
}

struct lookup_own
{
	uint64_t	keys;				/* among the constants */
	uint64_t	values;
	uint64_t	default_value;
	uint64_t	elements;
	uint32_t	count;
	bool		has_default;
};

template <class K, class V>
static void
launch_lookup(const cuda_plan *plan, cuda_run *run)
{
	const lookup_own *own = (const lookup_own *) plan->own;
	lookup_table table = {
		cuda_constant(run, own->keys), cuda_constant(run, own->values), own->count, own->has_default, own->default_value
	};
	dim3		grid(cuda_blocks(run->items[plan->lead] * own->elements, MAP_THREADS));

	cuda_launch(run, lookup_kernel<K, V>, grid, dim3(MAP_THREADS), run->batch, table, (const K *) cuda_operand(plan, run, 0),
				(V *) cuda_address(run, &plan->output), plan->lead, own->elements);
}

template <class K>
static cuda_launch_fn
lookup_launch(uint8_t value_type)
{
	switch (value_type)
	{
		case DEVICE_F32:
			return launch_lookup<K, uint32_t>;
		case DEVICE_F64:
		case DEVICE_I64:
			return launch_lookup<K, uint64_t>;
	}
	return nullptr;
}

bool
cuda_make_lookup(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_lookup *table = (const device_lookup *) making->op->params;
	uint64_t	value_bytes = (uint64_t) shape_bytes(table->value_type);
	lookup_own *own;

	plan->launch = table->key_type == DEVICE_F32 ? lookup_launch<float>(table->value_type) :
		table->key_type == DEVICE_F64 ? lookup_launch<double>(table->value_type) :
		table->key_type == DEVICE_I64 ? lookup_launch<int64_t>(table->value_type) : nullptr;
	if (plan->launch == nullptr)
		return false;
	own = shape_own<lookup_own>(making);
	if (own == nullptr)
		return false;
	own->count = table->count;
	own->has_default = table->has_default;
	own->elements = (uint64_t) shape_item(making->y);
	if (table->has_default)
		memcpy(&own->default_value, table->default_value, value_bytes);
	own->keys = cuda_constant_add(making, table->keys, table->count * (uint64_t) shape_bytes(table->key_type), false);
	own->values = cuda_constant_add(making, table->values, table->count * value_bytes, false);
	shape_cost(making, 40);
	return true;
}

CUDA_MODULE
