/*
 * rowwise.c
 *	  REDUCE, SOFTMAX, ARG and NORMALIZE: functions of a vector of one item's elements.
 *
 * A unit is one such vector.  Vectors whose elements do not lie end to end are collected
 * in pieces (REDUCE) or as a whole in the thread's scratch (SOFTMAX); what is computed
 * with them is the same.
 */
#include "ops.h"

#include <math.h>
#include <string.h>

#define PIECE	256					/* elements; a multiple of CPU_REDUCE_LANES */

/* Offset of position u in nested loops, of operand 0; the outermost loop is unbounded. */
static int64_t
loops_offset(const struct cpu_loops *loops, uint64_t u)
{
	int64_t		offset = 0;

	for (int a = loops->rank - 1; a > 0; a--)
	{
		offset += (int64_t) (u % (uint64_t) loops->dims[a]) * loops->steps[0][a];
		u /= (uint64_t) loops->dims[a];
	}
	return offset + (int64_t) u * loops->steps[0][0];
}

static void
collect(size_t bytes, const uint8_t *x, const struct cpu_loops *loops, int64_t first, int64_t n,
		uint8_t *piece)
{
	int64_t		step = loops->steps[0][0] * (int64_t) bytes;

	if (loops->rank == 1)
		for (int64_t i = 0; i < n; i++)
			memcpy(piece + (size_t) i * bytes, x + (first + i) * step, bytes);
	else
		for (int64_t i = 0; i < n; i++)
			memcpy(piece + (size_t) i * bytes,
				   x + loops_offset(loops, (uint64_t) (first + i)) * (int64_t) bytes, bytes);
}

/* One pass over the reduced elements of a vector. */
static void
reduce_pass(const struct cpu_plan *plan, int fn, double shift, const uint8_t *x, void *state)
{
	size_t		bytes = device_type_bytes(plan->type);
	int64_t		n = plan->inner.scale;
	uint8_t		piece[PIECE * 8] __attribute__((aligned(64)));
	bool		whole;

	for (int a = 1; a < plan->inner.rank; a++)
		n *= plan->inner.dims[a];
	whole = plan->inner.rank == 1 && (plan->inner.steps[0][0] == 1 || n <= 1);

	if (plan->kernels != NULL)
		plan->kernels->reduce_start(fn, state);
	else
		cpu_integer_reduce_start(plan->type, (uint16_t) fn, state);
	for (int64_t at = 0; at < n;)
	{
		int64_t		length = whole ? n : n - at < PIECE ? n - at : PIECE;
		const uint8_t *from = x;

		if (!whole)
		{
			collect(bytes, x, &plan->inner, at, length, piece);
			from = piece;
		}
		if (plan->kernels != NULL)
			plan->kernels->reduce_add(fn, shift, from, length, state);
		else
			cpu_integer_reduce(plan->type, (uint16_t) fn, from, length, state);
		at += length;
	}
}

void
cpu_run_reduce(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	size_t		bytes = device_type_bytes(plan->type);
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	uint8_t    *y = cpu_address(run, &plan->output);
	uint8_t		state[CPU_REDUCE_LANES * 8] __attribute__((aligned(64)));

	for (uint64_t u = first; u < last; u++)
	{
		const uint8_t *from = x + loops_offset(&plan->loops, u) * (int64_t) bytes;
		uint8_t    *to = y + u * bytes;
		double		shift = 0;

		if (plan->kernels == NULL)
		{
			reduce_pass(plan, plan->fn, 0, from, state);
			cpu_integer_reduce_finish(plan->type, plan->fn, plan->axis, state, to);
			continue;
		}
		if (plan->fn == REDUCE_LOG_SUM_EXP)
		{
			uint8_t		greatest[8] __attribute__((aligned(8)));

			reduce_pass(plan, REDUCE_MAX, 0, from, state);
			plan->kernels->reduce_finish(REDUCE_MAX, 0, plan->axis, state, greatest);
			shift = plan->type == DEVICE_F32 ? *(float *) greatest : *(double *) greatest;
			if (!isfinite(shift))
				shift = 0;
		}
		reduce_pass(plan, plan->fn, shift, from, state);
		plan->kernels->reduce_finish(plan->fn, shift, plan->axis, state, to);
	}
}

/* A vector is axis elements, after apart. */
void
cpu_run_softmax(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
				uint64_t last, int thread)
{
	size_t		bytes = device_type_bytes(plan->type);
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	uint8_t    *y = cpu_address(run, &plan->output);
	uint8_t    *scratch = cpu_scratch(run, thread);

	for (uint64_t u = first; u < last; u++)
	{
		uint64_t	outer = u / (uint64_t) plan->after;
		uint64_t	behind = u % (uint64_t) plan->after;
		uint64_t	start = outer * (uint64_t) (plan->axis * plan->after) + behind;
		size_t		step = (size_t) plan->after * bytes;

		if (plan->after == 1)
		{
			plan->kernels->softmax(plan->fn, x + start * bytes, y + start * bytes, plan->axis);
			continue;
		}
		for (int64_t i = 0; i < plan->axis; i++)
			memcpy(scratch + (size_t) i * bytes, x + start * bytes + (size_t) i * step, bytes);
		plan->kernels->softmax(plan->fn, scratch, scratch, plan->axis);
		for (int64_t i = 0; i < plan->axis; i++)
			memcpy(y + start * bytes + (size_t) i * step, scratch + (size_t) i * bytes, bytes);
	}
}

/*
 * The first of the greatest; of equals the last if so asked; a NaN is greater and less
 * than every number, and the first of them wins.
 */
#define ARG_VECTOR(T, is_nan) \
	do { \
		const T    *v = (const T *) x + start; \
		for (int64_t i = 1; i < plan->axis; i++) \
		{ \
			T			a = v[i * plan->after]; \
			T			b = v[best * plan->after]; \
			if (is_nan(b)) \
				break; \
			if (is_nan(a) || (plan->fn == ARG_MAX ? a > b : a < b) || (last_of_equals && a == b)) \
				best = i; \
		} \
	} while (0)
#define NEVER(v)	false

void
cpu_run_arg(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			uint64_t last, int thread)
{
	const void *x = cpu_address(run, &plan->inputs[0]);
	int64_t    *y = cpu_address(run, &plan->output);
	bool		last_of_equals = plan->i[2] != 0;

	for (uint64_t u = first; u < last; u++)
	{
		int64_t		outer = (int64_t) (u / (uint64_t) plan->after);
		int64_t		start = outer * plan->axis * plan->after + (int64_t) (u % (uint64_t) plan->after);
		int64_t		best = 0;

		switch (plan->type)
		{
			case DEVICE_F32:
				ARG_VECTOR(float, isnan);
				break;
			case DEVICE_F64:
				ARG_VECTOR(double, isnan);
				break;
			case DEVICE_I32:
				ARG_VECTOR(int32_t, NEVER);
				break;
			case DEVICE_I64:
				ARG_VECTOR(int64_t, NEVER);
				break;
		}
		y[u] = best;
	}
}

void
cpu_run_normalize(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
				  uint64_t last, int thread)
{
	size_t		bytes = device_type_bytes(plan->type);
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	uint8_t    *y = cpu_address(run, &plan->output);

	for (uint64_t u = first; u < last; u++)
		plan->kernels->normalize(plan->fn, x + u * (uint64_t) plan->axis * bytes,
								 y + u * (uint64_t) plan->axis * bytes, plan->axis);
}
