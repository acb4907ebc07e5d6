/*
 * layout.c
 *	  COPY, CONCAT and GATHER: elements move, none is computed.
 */
#include "ops.h"

#include <string.h>

/*
 * COPY.  A unit is one element of the output; loops.dims are the output's axes after
 * joining, steps[0] their steps in x.  Unlike elsewhere the innermost step may be anything.
 */
#define COPY_RUN(T) \
	do { \
		const T    *px = (const T *) x + offset; \
		T		   *py = (T *) y + at; \
		for (int64_t i = 0; i < length; i++) \
			py[i] = px[i * step]; \
	} while (0)

static void
copy_run(size_t bytes, const void *x, int64_t offset, int64_t step, void *y, uint64_t at, int64_t length)
{
	if (step == 1)
	{
		memcpy((uint8_t *) y + at * bytes, (const uint8_t *) x + offset * (int64_t) bytes,
			   (size_t) length * bytes);
		return;
	}
	switch (bytes)
	{
		case 1:
			COPY_RUN(uint8_t);
			break;
		case 2:
			COPY_RUN(uint16_t);
			break;
		case 4:
			COPY_RUN(uint32_t);
			break;
		case 8:
			COPY_RUN(uint64_t);
			break;
		default:
			COPY_RUN(struct device_text);
	}
}

void
cpu_run_copy(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			 uint64_t last, int thread)
{
	const struct cpu_loops *loops = &plan->loops;
	const void *x = cpu_address(run, &plan->inputs[0]);
	void	   *y = cpu_address(run, &plan->output);
	size_t		bytes = device_type_bytes(plan->type);
	int			inner = loops->rank - 1;

	while (first < last)
	{
		uint64_t	rest = first;
		int64_t		offset = plan->i[0];
		int64_t		at_inner = 0;
		int64_t		length = (int64_t) (last - first);

		for (int a = inner; a >= 0; a--)
		{
			int64_t		index = a == 0 ? (int64_t) rest : (int64_t) (rest % (uint64_t) loops->dims[a]);

			if (a == inner)
				at_inner = index;
			if (a > 0)
				rest /= (uint64_t) loops->dims[a];
			offset += index * loops->steps[0][a];
		}
		if (inner > 0 && loops->dims[inner] - at_inner < length)
			length = loops->dims[inner] - at_inner;
		copy_run(bytes, x, offset, loops->steps[0][inner], y, first, length);
		first += (uint64_t) length;
	}
}

/* CONCAT.  A unit is one outer index: outer × items of them. */
void
cpu_run_concat(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	size_t		bytes = device_type_bytes(plan->type);
	uint8_t    *y = cpu_address(run, &plan->output);
	int64_t		row = plan->axis * plan->after;
	int64_t		before = 0;

	for (uint32_t p = 0; p < plan->inputs_count; p++)
	{
		const uint8_t *x = cpu_address(run, &plan->inputs[p]);
		int64_t		part = plan->parts[p];
		bool		shared = plan->inputs[p].lead == DEVICE_LEAD_NONE;

		for (uint64_t u = first; u < last; u++)
		{
			uint64_t	from = shared ? u % (uint64_t) plan->outer : u;

			memcpy(y + ((int64_t) u * row + before) * (int64_t) bytes,
				   x + (int64_t) from * part * (int64_t) bytes, (size_t) part * bytes);
		}
		before += part;
	}
}

/* GATHER.  A unit is one outer index of x: outer × items of them. */
void
cpu_run_gather(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	const struct cpu_place *x_place = &plan->inputs[0];
	const struct cpu_place *index_place = &plan->inputs[1];
	const uint8_t *x = cpu_address(run, x_place);
	const void *indices = cpu_address(run, index_place);
	uint8_t    *y = cpu_address(run, &plan->output);
	size_t		piece = (size_t) plan->after * device_type_bytes(plan->type);
	int64_t		count = index_place->elements;

	for (uint64_t u = first; u < last; u++)
	{
		uint64_t	item = plan->outer == 1 ? u : u / (uint64_t) plan->outer;
		uint64_t	from = x_place->lead == DEVICE_LEAD_NONE ? u - item * (uint64_t) plan->outer : u;
		int64_t		index_first = index_place->lead == DEVICE_LEAD_NONE ? 0 : (int64_t) item * count;

		for (int64_t j = 0; j < count; j++)
		{
			int64_t		index = index_place->type == DEVICE_I32
				? ((const int32_t *) indices)[index_first + j]
				: ((const int64_t *) indices)[index_first + j];
			uint8_t    *to = y + ((int64_t) u * count + j) * (int64_t) piece;

			if (index < 0)
				index += plan->axis;
			if (index < 0 || index >= plan->axis)
			{
				cpu_row_error(run, plan->lead, item, "index out of range");
				memset(to, 0, piece);
				continue;
			}
			memcpy(to, x + ((int64_t) from * plan->axis + index) * (int64_t) piece, piece);
		}
	}
}
