/*
 * scatter.c
 *	  OFFSET and SCATTER: places that indices name, and elements that go there.
 */
#include "ops.h"

#include <math.h>
#include <string.h>

/* OFFSET.  A unit is one run of indices along the last axis. */
void
cpu_run_offset(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	const void *x = cpu_address(run, &plan->inputs[0]);
	int64_t    *y = cpu_address(run, &plan->output);

	for (uint64_t u = first; u < last; u++)
	{
		int64_t		place = 0;
		bool		inside = true;

		for (int64_t j = 0; j < plan->k; j++)
		{
			int64_t		at = (int64_t) u * plan->k + j;
			int64_t		index = plan->type == DEVICE_I32 ? ((const int32_t *) x)[at] : ((const int64_t *) x)[at];

			if (index < 0)
				index += plan->i[j];
			inside = inside && index >= 0 && index < plan->i[j];
			place = inside ? place * plan->i[j] + index : 0;
		}
		if (!inside)
			cpu_row_error(run, plan->lead, u / (uint64_t) plan->units_item, "index out of range");
		y[u] = inside ? place * plan->i[DEVICE_RANK_MAX] : 0;
	}
}

/* ---- SCATTER ---- */

#define SCATTER_LOOP(T, is_nan, NOT_A_NUMBER, expression) \
	do { \
		for (int64_t e = 0; e < n; e++) \
		{ \
			T			a = ((const T *) to)[e]; \
			T			b = ((const T *) from)[e]; \
			T			c = (T) (expression); \
			((T *) to)[e] = is_nan(c) ? NOT_A_NUMBER : c; \
		} \
	} while (0)

/* Sums and products of integers wrap around (U); a NaN wins over every number. */
#define SCATTER_TYPE(T, U, is_nan, NOT_A_NUMBER) \
	switch (fn) \
	{ \
		case SCATTER_ADD: \
			SCATTER_LOOP(T, is_nan, NOT_A_NUMBER, (U) a + (U) b); \
			break; \
		case SCATTER_MUL: \
			SCATTER_LOOP(T, is_nan, NOT_A_NUMBER, (U) a * (U) b); \
			break; \
		case SCATTER_MAX: \
			SCATTER_LOOP(T, is_nan, NOT_A_NUMBER, is_nan(a) || a > b ? a : b); \
			break; \
		case SCATTER_MIN: \
			SCATTER_LOOP(T, is_nan, NOT_A_NUMBER, is_nan(a) || a < b ? a : b); \
			break; \
	}
#define NEVER(v)	false

static void
scatter_run(uint8_t type, uint16_t fn, const void *from, void *to, int64_t n)
{
	switch (type)
	{
		case DEVICE_F32:
			SCATTER_TYPE(float, float, isnan, __builtin_nanf(""))
			break;
		case DEVICE_F64:
			SCATTER_TYPE(double, double, isnan, __builtin_nan(""))
			break;
		case DEVICE_I32:
			SCATTER_TYPE(int32_t, uint32_t, NEVER, 0)
			break;
		case DEVICE_I64:
			SCATTER_TYPE(int64_t, uint64_t, NEVER, 0)
			break;
	}
}

/* A unit is one item: two updates may go to the same place, and their order counts. */
void
cpu_run_scatter(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
				uint64_t last, int thread)
{
	size_t		bytes = device_type_bytes(plan->type);
	size_t		item = (size_t) plan->output.elements * bytes;
	size_t		piece = (size_t) plan->after * bytes;
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	const int64_t *places = cpu_address(run, &plan->inputs[1]);
	const uint8_t *updates = cpu_address(run, &plan->inputs[2]);
	uint8_t    *y = cpu_address(run, &plan->output);

	for (uint64_t u = first; u < last; u++)
	{
		const int64_t *place = places + (plan->inputs[1].lead == DEVICE_LEAD_NONE ? 0 : (int64_t) u * plan->k);
		const uint8_t *from = updates + (plan->inputs[2].lead == DEVICE_LEAD_NONE ? 0 : u * piece * (size_t) plan->k);
		uint8_t    *to = y + u * item;

		if (item > 0)
			memcpy(to, x + (plan->inputs[0].lead == DEVICE_LEAD_NONE ? 0 : u * item), item);
		for (int64_t j = 0; j < plan->k && piece > 0; j++, from += piece)
		{
			if (place[j] < 0 || place[j] >= plan->axis)
				cpu_row_error(run, plan->lead, u, "index out of range");
			else if (plan->fn == SCATTER_SET)
				memcpy(to + (size_t) place[j] * piece, from, piece);
			else
				scatter_run(plan->type, plan->fn, from, to + (size_t) place[j] * piece, plan->after);
		}
	}
}
