/*
 * scatter.cu
 *	  OFFSET says places, SCATTER fills them.
 */
#include "../math/elementary.h"
#include "../math/integer.h"
#include "copy.h"

/* ---- OFFSET ---- */

struct offset_own
{
	int64_t		sizes[DEVICE_RANK_MAX];
	int64_t		times;
	uint64_t	runs;				/* of an item */
	int32_t		length;				/* of a run */
	bool		wide;
	uint8_t		lead;
};

__global__ static void
__launch_bounds__(MAP_THREADS)
offset_kernel(const gpu_batch *batch, offset_own own, const void *x, int64_t *y)
{
	uint64_t	count = batch->items[own.lead] * own.runs;

	for (uint64_t at = gpu_thread(); at < count; at += gpu_threads())
	{
		int64_t		place = 0;
		bool		inside = true;

		for (int j = 0; j < own.length; j++)
		{
			uint64_t	from = at * (uint64_t) own.length + (uint64_t) j;
			int64_t		index = own.wide ? ((const int64_t *) x)[from] : ((const int32_t *) x)[from];

			if (index < 0)
				index += own.sizes[j];
			inside = inside && index >= 0 && index < own.sizes[j];
			place = inside ? place * own.sizes[j] + index : 0;
		}
		if (!inside)
			gpu_fail(batch, own.lead, at / own.runs, GPU_ROW_INDEX);
		y[at] = inside ? place * own.times : 0;
	}
}

static void
launch_offset(const cuda_plan *plan, cuda_run *run)
{
	const offset_own *own = (const offset_own *) plan->own;

	cuda_launch(run, offset_kernel, dim3(cuda_blocks(run->items[plan->lead] * own->runs, MAP_THREADS)), dim3(MAP_THREADS),
				run->batch, *own, (const void *) cuda_operand(plan, run, 0), (int64_t *) cuda_address(run, &plan->output));
}

bool
cuda_make_offset(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	offset_own *own = shape_own<offset_own>(making);

	if (own == nullptr)
		return false;
	own->length = (int32_t) x->dims[x->rank - 1];
	for (int32_t j = 0; j < own->length; j++)
		own->sizes[j] = plan->i[j];
	own->times = plan->i[DEVICE_RANK_MAX];
	own->runs = (uint64_t) cuda_elements(x, 0, x->rank - 1);
	own->wide = x->type == DEVICE_I64;
	own->lead = making->y->lead;
	plan->launch = launch_offset;
	shape_cost(making, 4);
	return true;
}

/* ---- SCATTER ---- */

struct scatter_shape
{
	uint64_t	places;				/* of an item */
	uint64_t	piece;				/* elements that go to a place */
	int64_t		axis;				/* places that there are */
	int32_t		fn;
	bool		places_shared;
	bool		updates_shared;
	uint8_t		lead;
};

struct scatter_own
{
	copy_own	copy;				/* of x to y, first */
	scatter_shape shape;
};

/* What is there, and what comes: of floating types, of integers, which wrap around, and of truths, which are only set. */
template <class T>
__device__ inline T
scatter_value(int fn, T a, T b)
{
	switch (fn)
	{
		case SCATTER_ADD:
			return gpu_canonical(a + b);
		case SCATTER_MUL:
			return gpu_canonical(a * b);
		case SCATTER_MAX:
			return gpu_canonical(gpu_max(a, b));
		case SCATTER_MIN:
			return gpu_canonical(gpu_min(a, b));
	}
	return b;
}

template <class T>
__device__ inline T
scatter_integer(int fn, T a, T b)
{
	uint32_t	error;

	switch (fn)
	{
		case SCATTER_ADD:
			return gpu_integer_binary(BINARY_ADD, a, b, &error);
		case SCATTER_MUL:
			return gpu_integer_binary(BINARY_MUL, a, b, &error);
		case SCATTER_MAX:
			return gpu_integer_binary(BINARY_MAX, a, b, &error);
		case SCATTER_MIN:
			return gpu_integer_binary(BINARY_MIN, a, b, &error);
	}
	return b;
}

static __device__ inline int32_t
scatter_value(int fn, int32_t a, int32_t b)
{
	return scatter_integer(fn, a, b);
}

static __device__ inline int64_t
scatter_value(int fn, int64_t a, int64_t b)
{
	return scatter_integer(fn, a, b);
}

static __device__ inline uint8_t
scatter_value(int, uint8_t, uint8_t b)
{
	return b;
}

/* A thread has one element of each piece of an item, so that it meets a place's updates in their order. */
template <class T>
__global__ void
__launch_bounds__(MAP_THREADS)
scatter_kernel(const gpu_batch *batch, scatter_shape shape, const int64_t *places, const T *updates, T *y)
{
	uint64_t	count = batch->items[shape.lead] * shape.piece;

	for (uint64_t at = gpu_thread(); at < count; at += gpu_threads())
	{
		uint64_t	item = at / shape.piece;
		uint64_t	element = at - item * shape.piece;
		const int64_t *place = places + (shape.places_shared ? 0 : item * shape.places);
		const T    *from = updates + (shape.updates_shared ? 0 : item * shape.places * shape.piece) + element;
		T		   *to = y + item * (uint64_t) shape.axis * shape.piece + element;

		for (uint64_t j = 0; j < shape.places; j++, from += shape.piece)
		{
			T		   *there;

			if (place[j] < 0 || place[j] >= shape.axis)
			{
				if (element == 0)
					gpu_fail(batch, shape.lead, item, GPU_ROW_INDEX);
				continue;
			}
			there = to + (uint64_t) place[j] * shape.piece;
			*there = scatter_value(shape.fn, *there, *from);
		}
	}
}

/* Which of those lanes that have the same target the lane is, from 0 on. */
static __device__ inline int
scatter_turn(int64_t target)
{
	int			lane = threadIdx.x % 32;
	int			turn = 0;

	for (int l = 0; l < 31; l++)
	{
		int64_t		other = __shfl_sync(0xFFFFFFFF, target, l);

		turn += l < lane && other == target;
	}
	return turn;
}

/*
 * Pieces of a few elements: a warp has an item, and takes 32 neighbours of its updates at a time.  Those that meet in one element
 * take turns, by their order.
 */
template <class T>
__global__ void
__launch_bounds__(MAP_THREADS)
scatter_single_kernel(const gpu_batch *batch, scatter_shape shape, const int64_t *places, const T *updates, T *y)
{
	uint64_t	count = shape.places * shape.piece;
	int			lane = threadIdx.x % 32;

	for (uint64_t item = gpu_thread() / 32; item < batch->items[shape.lead]; item += gpu_threads() / 32)
	{
		const int64_t *place = places + (shape.places_shared ? 0 : item * shape.places);
		const T    *from = updates + (shape.updates_shared ? 0 : item * count);
		T		   *to = y + item * (uint64_t) shape.axis * shape.piece;

		for (uint64_t first = 0; first < count; first += 32)
		{
			uint64_t	at = first + (uint64_t) lane;
			int64_t		target = -1 - lane;
			int			turn;

			if (at < count)
			{
				uint64_t	j = at / shape.piece;

				if (place[j] >= 0 && place[j] < shape.axis)
					target = place[j] * (int64_t) shape.piece + (int64_t) (at - j * shape.piece);
				else
					gpu_fail(batch, shape.lead, item, GPU_ROW_INDEX);
			}
			turn = scatter_turn(target);
			for (int t = 0; __any_sync(0xFFFFFFFF, turn >= t); t++)
			{
				if (turn == t && target >= 0)
					to[target] = scatter_value(shape.fn, to[target], from[at]);
				__syncwarp();
			}
		}
	}
}

#define SCATTER_SINGLE	16			/* elements of a piece at most: of more, neighbours are near enough without */

template <class T>
static void
launch_scatter(const cuda_plan *plan, cuda_run *run)
{
	const scatter_own *own = (const scatter_own *) plan->own;
	bool		single = own->shape.piece <= SCATTER_SINGLE;
	uint64_t	threads = run->items[plan->lead] * (single ? 32 : own->shape.piece);

	copy_launch(plan, run, &own->copy);
	if (own->shape.places > 0 && own->shape.piece > 0)
		cuda_launch(run, single ? scatter_single_kernel<T> : scatter_kernel<T>, dim3(cuda_blocks(threads, MAP_THREADS)),
					dim3(MAP_THREADS), run->batch, own->shape, (const int64_t *) cuda_operand(plan, run, 1),
					(const T *) cuda_operand(plan, run, 2), (T *) cuda_address(run, &plan->output));
}

bool
cuda_make_scatter(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	const device_tensor *places = cuda_input(making, 1);
	const device_tensor *updates = cuda_input(making, 2);
	int64_t		elements = shape_item(x);
	const int64_t sizes[MAP_LOOPS_MAX] = {1, elements};
	const int64_t steps[1][MAP_LOOPS_MAX] = {{x->lead == DEVICE_LEAD_NONE ? 0 : elements, 1}};
	scatter_own *own;

	plan->launch = x->type == DEVICE_F32 ? launch_scatter<float> : x->type == DEVICE_F64 ? launch_scatter<double> :
		x->type == DEVICE_I32 ? launch_scatter<int32_t> : x->type == DEVICE_I64 ? launch_scatter<int64_t> :
		x->type == DEVICE_BOOL ? launch_scatter<uint8_t> : nullptr;
	if (plan->launch == nullptr)
		return false;
	own = shape_own<scatter_own>(making);
	if (own == nullptr)
		return false;
	gpu_loops_join(&own->copy.loops, 2, sizes, steps);
	copy_unite(&own->copy, shape_bytes(x->type), elements, elements);
	own->shape.places = (uint64_t) shape_item(places);
	own->shape.piece = own->shape.places == 0 ? 0 : (uint64_t) shape_item(updates) / own->shape.places;
	own->shape.axis = own->shape.piece == 0 ? 0 : elements / (int64_t) own->shape.piece;
	own->shape.fn = plan->fn;
	own->shape.places_shared = places->lead == DEVICE_LEAD_NONE;
	own->shape.updates_shared = updates->lead == DEVICE_LEAD_NONE;
	own->shape.lead = making->y->lead;
	plan->launches = 2;
	shape_cost(making, 1);
	plan->bytes_item += 2 * (double) (shape_item(updates) * shape_bytes(x->type));
	return true;
}

CUDA_MODULE
