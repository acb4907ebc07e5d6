/*
 * layout.cu
 *	  COPY, CONCAT and GATHER: ops that move elements.
 *
 * Elements move in units: as many bytes as one load takes (16 at most) and as the op's shape leaves whole.  A thread moves
 * a unit, neighbours neighbouring units of the output.  Strings are the host's.
 */
#include "../kernel.h"
#include "copy.h"

/* The greatest power of two up to 16 that divides bytes; of none, 16. */
static int64_t
unit_of(int64_t bytes)
{
	int64_t		unit = 16;

	while (bytes % unit != 0)
		unit /= 2;
	return unit;
}

static int64_t
unit_lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- COPY ---- */

template <class U, class I>
__global__ void
__launch_bounds__(MAP_THREADS)
copy_kernel(const gpu_batch *batch, gpu_loops<1> loops, uint64_t first, const U *x, U *y, uint8_t lead, uint64_t units)
{
	I			count = (I) (batch->items[lead] * units);

	for (I at = (I) gpu_thread(); at < count; at += (I) gpu_threads())
	{
		I			offset[1];

		gpu_loops_offsets(loops, at, offset);
		/* steps may be negative: in I the sum wraps around to what it is */
		y[at] = x[(I) ((I) first + offset[0])];
	}
}

template <class U>
static void
copy_units(const cuda_plan *plan, cuda_run *run, const copy_own *own)
{
	uint64_t	count = run->items[plan->lead] * own->units;
	bool		narrow = copy_narrow(plan, run, own);
	const U    *x = (const U *) cuda_operand(plan, run, 0);
	U		   *y = (U *) cuda_address(run, &plan->output);
	dim3		grid(cuda_blocks(count, MAP_THREADS));

	/* nothing is read of an empty x */
	if (own->units == 0)
		return;
	cuda_launch(run, narrow ? copy_kernel<U, uint32_t> : copy_kernel<U, uint64_t>, grid, dim3(MAP_THREADS), run->batch,
				own->loops, (uint64_t) own->first, x, y, plan->lead, own->units);
}

void
copy_launch(const cuda_plan *plan, cuda_run *run, const copy_own *own)
{
	if (own->turn.matrices > 0)
	{
		copy_turn_launch(plan, run, own);
		return;
	}
	switch (own->unit)
	{
		case 1:
			copy_units<uint8_t>(plan, run, own);
			break;
		case 2:
			copy_units<uint16_t>(plan, run, own);
			break;
		case 4:
			copy_units<uint32_t>(plan, run, own);
			break;
		case 8:
			copy_units<uint64_t>(plan, run, own);
			break;
		case 16:
			copy_units<uint4>(plan, run, own);
			break;
	}
}

static void
launch_copy(const cuda_plan *plan, cuda_run *run)
{
	copy_launch(plan, run, (const copy_own *) plan->own);
}

void
copy_unite(copy_own *own, int64_t bytes, int64_t elements_y, int64_t elements_x)
{
	gpu_loops<1> *loops = &own->loops;
	int			inner = loops->rank - 1;
	int64_t    *size = inner == 0 ? &loops->scale : &loops->dims[inner];

	own->unit = bytes;
	if (loops->steps[0][inner] == 1)
	{
		own->unit = unit_lesser(unit_of(*size * bytes), unit_of(own->first * bytes));
		for (int a = 0; a < inner; a++)
			own->unit = unit_lesser(own->unit, unit_of(loops->steps[0][a] * bytes));
		for (int a = 0; a < inner; a++)
			loops->steps[0][a] = loops->steps[0][a] * bytes / own->unit;
		*size = *size * bytes / own->unit;
		own->first = own->first * bytes / own->unit;
		if (inner > 0)
			loops->divisors[inner] = gpu_divisor_make((uint64_t) *size);
	}
	own->units = (uint64_t) (elements_y * bytes / own->unit);
	own->units_x = (uint64_t) (elements_x * bytes / own->unit);
}

bool
cuda_make_copy(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	const device_tensor *y = making->y;
	int64_t		sizes[MAP_LOOPS_MAX] = {1};
	int64_t		steps[1][MAP_LOOPS_MAX] = {};
	copy_own   *own;

	if (shape_bytes(x->type) == 0)
		return false;
	own = shape_own<copy_own>(making);
	if (own == nullptr)
		return false;
	steps[0][0] = x->lead == DEVICE_LEAD_NONE ? 0 : shape_item(x);
	for (int d = 0; d < y->rank; d++)
	{
		sizes[d + 1] = y->dims[d];
		steps[0][d + 1] = plan->i[1 + d];
	}
	gpu_loops_join(&own->loops, y->rank + 1, sizes, steps);
	own->first = plan->i[0];
	copy_turn_make(own);
	copy_unite(own, shape_bytes(x->type), shape_item(y), shape_item(x));
	plan->launch = launch_copy;
	plan->bytes_item = 2 * (double) (shape_item(y) * shape_bytes(y->type));
	return true;
}

/* ---- CONCAT ---- */

#define CONCAT_PARTS	64			/* of a launch */

struct concat_parts
{
	uint32_t	count;
	uint64_t	row;				/* units of a whole row of y, */
	uint64_t	first;				/* of it before these parts, */
	uint64_t	width;				/* and of these parts */
	uint64_t	outer;				/* rows of an item */
	uint64_t	begins[CONCAT_PARTS + 1];	/* of parts, from first on */
	const void *x[CONCAT_PARTS];
	uint64_t	shared;				/* bit p: part p has lead NONE */
};

struct concat_own
{
	int64_t		unit;
	uint64_t	row;
	uint64_t	outer;
	uint64_t	widths[];			/* units of each part's row */
};

template <class U>
__global__ void
__launch_bounds__(MAP_THREADS)
concat_kernel(const gpu_batch *batch, concat_parts parts, U *y, uint8_t lead)
{
	uint64_t	count = batch->items[lead] * parts.outer * parts.width;

	for (uint64_t at = gpu_thread(); at < count; at += gpu_threads())
	{
		uint64_t	row = count <= UINT32_MAX ? (uint32_t) at / (uint32_t) parts.width : at / parts.width;
		uint64_t	place = at - row * parts.width;
		uint32_t	low = 0, high = parts.count;
		uint64_t	from;

		while (high - low > 1)
		{
			uint32_t	middle = (low + high) / 2;

			if (parts.begins[middle] <= place)
				low = middle;
			else
				high = middle;
		}
		from = (parts.shared >> low & 1) != 0 ? row % parts.outer : row;
		y[row * parts.row + parts.first + place] =
			((const U *) parts.x[low])[from * (parts.begins[low + 1] - parts.begins[low]) + place - parts.begins[low]];
	}
}

template <class U>
static void
concat_units(const cuda_plan *plan, cuda_run *run, const concat_own *own)
{
	concat_parts parts = {};

	parts.row = own->row;
	parts.outer = own->outer;
	for (uint32_t p = 0; p < plan->inputs_count; p++)
	{
		if (own->widths[p] > 0)
		{
			if (plan->inputs[p].lead == DEVICE_LEAD_NONE)
				parts.shared |= (uint64_t) 1 << parts.count;
			parts.x[parts.count++] = cuda_operand(plan, run, p);
			parts.width += own->widths[p];
			parts.begins[parts.count] = parts.width;
		}
		if (parts.count == CONCAT_PARTS || (parts.count > 0 && p + 1 == plan->inputs_count))
		{
			cuda_launch(run, concat_kernel<U>, dim3(cuda_blocks(run->items[plan->lead] * parts.outer * parts.width, MAP_THREADS)),
						dim3(MAP_THREADS), run->batch, parts, (U *) cuda_address(run, &plan->output), plan->lead);
			parts.first += parts.width;
			parts.count = 0;
			parts.width = 0;
			parts.shared = 0;
		}
	}
}

static void
launch_concat(const cuda_plan *plan, cuda_run *run)
{
	const concat_own *own = (const concat_own *) plan->own;

	switch (own->unit)
	{
		case 1:
			concat_units<uint8_t>(plan, run, own);
			break;
		case 2:
			concat_units<uint16_t>(plan, run, own);
			break;
		case 4:
			concat_units<uint32_t>(plan, run, own);
			break;
		case 8:
			concat_units<uint64_t>(plan, run, own);
			break;
		case 16:
			concat_units<uint4>(plan, run, own);
			break;
	}
}

bool
cuda_make_concat(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *y = making->y;
	int			axis = (int) plan->i[0];
	int64_t		bytes = shape_bytes(y->type);
	int64_t		after = cuda_elements(y, axis + 1, y->rank);
	concat_own *own;

	if (bytes == 0)
		return false;
	own = (concat_own *) cuda_own(making, sizeof(concat_own) + plan->inputs_count * sizeof(uint64_t));
	if (own == nullptr)
		return false;
	own->unit = 16;
	for (uint32_t p = 0; p < plan->inputs_count; p++)
		own->unit = unit_lesser(own->unit, unit_of(cuda_input(making, p)->dims[axis] * after * bytes));
	for (uint32_t p = 0; p < plan->inputs_count; p++)
		own->widths[p] = (uint64_t) (cuda_input(making, p)->dims[axis] * after * bytes / own->unit);
	own->row = (uint64_t) (y->dims[axis] * after * bytes / own->unit);
	own->outer = (uint64_t) cuda_elements(y, 0, axis);
	plan->launch = launch_concat;
	plan->launches = (int) ((plan->inputs_count + CONCAT_PARTS - 1) / CONCAT_PARTS);
	shape_cost(making, 0);
	return true;
}

/* ---- GATHER ---- */

struct gather_shape
{
	uint64_t	outer;				/* of x before the axis */
	uint64_t	count;				/* indices of an item */
	int64_t		axis;
	uint64_t	units;				/* of a piece: what an index names; at least 1 */
	gpu_divisor by_outer;
	gpu_divisor by_count;
	gpu_divisor by_units;
	bool		empty;				/* pieces are: indices are looked at nevertheless */
	bool		wide;				/* indices are I64 */
	bool		x_shared;			/* lead NONE */
	bool		indices_shared;
	uint8_t		lead;
};

struct gather_own
{
	gather_shape shape;
	int64_t		unit;
};

template <class U, class I>
__global__ void
__launch_bounds__(MAP_THREADS)
gather_kernel(const gpu_batch *batch, gather_shape shape, const U *x, const void *indices, U *y)
{
	I			count = (I) (batch->items[shape.lead] * shape.outer * shape.count * shape.units);

	for (I at = (I) gpu_thread(); at < count; at += (I) gpu_threads())
	{
		I			piece = gpu_divide_by(at, shape.units, shape.by_units);
		I			unit = at - piece * (I) shape.units;
		I			row = gpu_divide_by(piece, shape.count, shape.by_count);
		I			item = gpu_divide_by(row, shape.outer, shape.by_outer);
		I			place = piece - row * (I) shape.count + (shape.indices_shared ? 0 : item * (I) shape.count);
		int64_t		index = shape.wide ? ((const int64_t *) indices)[place] : ((const int32_t *) indices)[place];
		uint64_t	from = shape.x_shared ? row - item * (I) shape.outer : row;

		if (index < 0)
			index += shape.axis;
		if (index >= 0 && index < shape.axis)
		{
			if (!shape.empty)
				y[at] = x[(from * (uint64_t) shape.axis + (uint64_t) index) * shape.units + unit];
			continue;
		}
		if (!shape.empty)
			y[at] = U{};
		if (unit == 0)
			gpu_fail(batch, shape.lead, item, GPU_ROW_INDEX);
	}
}

template <class U>
static void
gather_units(const cuda_plan *plan, cuda_run *run, const gather_shape *shape)
{
	uint64_t	count = run->items[plan->lead] * shape->outer * shape->count * shape->units;
	dim3		grid(cuda_blocks(count, MAP_THREADS));

	cuda_launch(run, count <= INT32_MAX ? gather_kernel<U, uint32_t> : gather_kernel<U, uint64_t>, grid, dim3(MAP_THREADS),
				run->batch, *shape, (const U *) cuda_operand(plan, run, 0), (const void *) cuda_operand(plan, run, 1),
				(U *) cuda_address(run, &plan->output));
}

static void
launch_gather(const cuda_plan *plan, cuda_run *run)
{
	const gather_own *own = (const gather_own *) plan->own;

	switch (own->unit)
	{
		case 1:
			gather_units<uint8_t>(plan, run, &own->shape);
			break;
		case 2:
			gather_units<uint16_t>(plan, run, &own->shape);
			break;
		case 4:
			gather_units<uint32_t>(plan, run, &own->shape);
			break;
		case 8:
			gather_units<uint64_t>(plan, run, &own->shape);
			break;
		case 16:
			gather_units<uint4>(plan, run, &own->shape);
			break;
	}
}

bool
cuda_make_gather(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	const device_tensor *x = cuda_input(making, 0);
	const device_tensor *indices = cuda_input(making, 1);
	int			axis = (int) plan->i[0];
	int64_t		bytes = shape_bytes(x->type) * cuda_elements(x, axis + 1, x->rank);
	gather_own *own;
	gather_shape *shape;

	if (shape_bytes(x->type) == 0)
		return false;
	own = shape_own<gather_own>(making);
	if (own == nullptr)
		return false;
	shape = &own->shape;
	own->unit = unit_of(bytes);
	shape->empty = bytes == 0;
	shape->units = bytes == 0 ? 1 : (uint64_t) (bytes / own->unit);
	shape->outer = (uint64_t) cuda_elements(x, 0, axis);
	shape->count = (uint64_t) shape_item(indices);
	shape->axis = x->dims[axis];
	shape->by_outer = gpu_divisor_make(shape->outer);
	shape->by_count = gpu_divisor_make(shape->count);
	shape->by_units = gpu_divisor_make(shape->units);
	shape->wide = indices->type == DEVICE_I64;
	shape->x_shared = x->lead == DEVICE_LEAD_NONE;
	shape->indices_shared = indices->lead == DEVICE_LEAD_NONE;
	shape->lead = making->y->lead;
	plan->launch = launch_gather;
	plan->bytes_item = 2 * (double) (shape_item(making->y) * shape_bytes(x->type)) +
		(double) (shape_item(indices) * shape_bytes(indices->type));
	return true;
}

CUDA_MODULE
