/*
 * sequence.c
 *	  NORM, ROTARY, GATE and POOL.
 *
 * A unit is a vector (NORM, GATE), a token (ROTARY), a row (POOL).
 */
#include "ops.h"

#include <string.h>

void
cpu_run_norm(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first, uint64_t last, int thread)
{
	const float *x = cpu_address(run, &plan->inputs[0]);
	const float *r = cpu_operand(plan, run, 1);
	const float *g = cpu_operand(plan, run, 2);
	const float *b = cpu_operand(plan, run, 3);
	float	   *y = cpu_address(run, &plan->output);

	for (uint64_t u = first; u < last; u++)
	{
		int64_t		at = (int64_t) u * plan->axis;

		run->device->kernels->sequence.norm(plan->fn, plan->f[0], x + at, r == NULL ? NULL : r + at, g, b, y + at,
											plan->axis);
	}
}

void
cpu_run_rotary(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first, uint64_t last, int thread)
{
	const uint32_t *row_off = run->batch->row_off;
	const float *x = cpu_address(run, &plan->inputs[0]);
	const float *table = cpu_address(run, &plan->inputs[1]);
	float	   *y = cpu_address(run, &plan->output);
	int64_t		size = plan->i[1];
	int64_t		turned = plan->i[2];
	uint32_t	row = cpu_row_of(run->batch, first);

	for (uint64_t token = first; token < last; token++)
	{
		const float *from = x + (int64_t) token * plan->axis;
		float	   *to = y + (int64_t) token * plan->axis;
		int64_t		place;

		while (row_off[row + 1] <= token)
			row++;
		place = (int64_t) (token - row_off[row]);
		if (from != to)
			memcpy(to, from, (size_t) plan->axis * sizeof(float));
		if (place >= plan->k)
		{
			cpu_row_error(run, DEVICE_LEAD_TOKENS, token, "the row has more tokens than the model has places");
			continue;
		}
		for (int64_t h = 0; h < plan->i[0]; h++)
			run->device->kernels->sequence.rotary(table + place * turned, turned, plan->i[3] != 0, to + h * size,
												  to + h * size);
	}
}

void
cpu_run_gate(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first, uint64_t last, int thread)
{
	const float *x = cpu_address(run, &plan->inputs[0]);
	float	   *y = cpu_address(run, &plan->output);
	int64_t		n = plan->axis;

	for (uint64_t vector = first; vector < last; vector++)
	{
		const float *halves = x + (int64_t) vector * 2 * n;
		const float *u = plan->i[0] == 0 ? halves : halves + n;
		const float *w = plan->i[0] == 0 ? halves + n : halves;
		float	   *to = y + (int64_t) vector * n;

		plan->kernels->unary(plan->fn, plan->f, u, to, n);
		plan->kernels->binary(BINARY_MUL, to, 1, w, 1, to, n);
	}
}

void
cpu_run_pool(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first, uint64_t last, int thread)
{
	const uint32_t *row_off = run->batch->row_off;
	const uint32_t *row_first = run->batch->row_first;
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	uint8_t    *y = cpu_address(run, &plan->output);
	size_t		bytes = (size_t) plan->axis * device_type_bytes(plan->type);

	for (uint64_t row = first; row < last; row++)
	{
		uint32_t	place = row_first == NULL ? 0 : row_first[row];
		uint32_t	from = row_off[row] + place;
		int64_t		count = (int64_t) row_off[row + 1] - from;
		uint8_t    *to = y + row * bytes;

		if (count == 0)
			memset(to, 0, bytes);
		else if (plan->fn == POOL_FIRST || plan->fn == POOL_LAST)
			memcpy(to, x + (plan->fn == POOL_FIRST ? from : row_off[row + 1] - 1) * bytes, bytes);
		else
			run->device->kernels->sequence.pool(plan->fn, (const float *) (x + from * bytes), plan->axis, place, count,
												(float *) to, plan->axis);
	}
}
