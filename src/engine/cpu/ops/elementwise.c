/*
 * elementwise.c
 *	  UNARY, BINARY and WHERE: nested loops with broadcasting around the kernels.
 *
 * A unit is one element of the output, counted over all items.  The loops of an output and
 * its operands are collapsed at compile as far as their steps allow, the axis of the items
 * included, so that the usual cases are one run of the innermost loop.
 */
#include "ops.h"

#include <string.h>

/*
 * Loops over axes, the outermost of sizes[0] × items passes; neighbours whose steps agree
 * for every operand become one.
 */
void
cpu_loops_join(struct cpu_loops *loops, int axes, const int64_t *sizes,
			   int64_t (*steps)[CPU_LOOPS_MAX], int count)
{
	memset(loops, 0, sizeof(*loops));
	loops->rank = 1;
	loops->scale = sizes[0];
	for (int o = 0; o < count; o++)
		loops->steps[o][0] = steps[o][0];
	for (int a = 1; a < axes; a++)
	{
		int			last = loops->rank - 1;
		bool		join = true;

		if (sizes[a] == 1)
			continue;
		for (int o = 0; o < count; o++)
			if (loops->steps[o][last] != steps[o][a] * sizes[a])
				join = false;
		if (join && last == 0)
			loops->scale *= sizes[a];
		else if (join)
			loops->dims[last] *= sizes[a];
		else
			loops->dims[loops->rank++] = sizes[a];
		for (int o = 0; o < count; o++)
			loops->steps[o][loops->rank - 1] = steps[o][a];
	}
}

/*
 * Steps of each operand over the axes (items, dims of the output…), then adjacent axes
 * joined.  false: the shapes do not broadcast.
 */
bool
cpu_loops_make(struct cpu_loops *loops, const struct device_tensor *output,
			   const struct device_tensor *const *operands, int count)
{
	int			axes = output->rank + 1;
	int64_t		sizes[CPU_LOOPS_MAX];
	int64_t		steps[CPU_OPERANDS_MAX][CPU_LOOPS_MAX];

	sizes[0] = 1;
	for (int d = 0; d < output->rank; d++)
		sizes[d + 1] = output->dims[d];
	for (int o = 0; o < count; o++)
	{
		const struct device_tensor *t = operands[o];
		int64_t		step = 1;

		if (t->rank > output->rank || (t->lead != DEVICE_LEAD_NONE && t->lead != output->lead))
			return false;
		for (int d = 0; d <= output->rank; d++)
			steps[o][d] = 0;
		for (int d = t->rank - 1, a = output->rank; d >= 0; d--, a--)
		{
			if (t->dims[d] != sizes[a] && t->dims[d] != 1)
				return false;
			if (t->dims[d] != 1)
				steps[o][a] = step;
			step *= t->dims[d];
		}
		if (t->lead != DEVICE_LEAD_NONE)
			steps[o][0] = step;
	}

	cpu_loops_join(loops, axes, sizes, steps, count);
	return true;
}

/*
 * A position in nested loops: the runs of the innermost loop that make up units
 * [first, last), one after the other.
 */
struct walk
{
	const struct cpu_loops *loops;
	int			count;				/* operands */
	int64_t		index[CPU_LOOPS_MAX];
	int64_t		offset[CPU_OPERANDS_MAX];	/* elements */
	uint64_t	at;
	uint64_t	last;
	int64_t		run;				/* length of the current run */
};

static int64_t
walk_size(const struct walk *walk, int axis)
{
	return axis == 0 ? INT64_MAX : walk->loops->dims[axis];
}

static void
walk_measure(struct walk *walk)
{
	int			inner = walk->loops->rank - 1;
	uint64_t	left = walk->last - walk->at;
	int64_t		room = walk_size(walk, inner) - walk->index[inner];

	walk->run = (uint64_t) room < left ? room : (int64_t) left;
}

static void
walk_start(struct walk *walk, const struct cpu_loops *loops, int count, uint64_t first, uint64_t last)
{
	uint64_t	rest = first;

	walk->loops = loops;
	walk->count = count;
	walk->at = first;
	walk->last = last;
	for (int a = loops->rank - 1; a > 0; a--)
	{
		walk->index[a] = (int64_t) (rest % (uint64_t) loops->dims[a]);
		rest /= (uint64_t) loops->dims[a];
	}
	walk->index[0] = (int64_t) rest;
	for (int o = 0; o < count; o++)
	{
		walk->offset[o] = 0;
		for (int a = 0; a < loops->rank; a++)
			walk->offset[o] += walk->index[a] * loops->steps[o][a];
	}
	walk_measure(walk);
}

static bool
walk_next(struct walk *walk)
{
	const struct cpu_loops *loops = walk->loops;
	int			a = loops->rank - 1;

	walk->at += (uint64_t) walk->run;
	if (walk->at >= walk->last)
		return false;
	walk->index[a] += walk->run;
	for (int o = 0; o < walk->count; o++)
		walk->offset[o] += walk->run * loops->steps[o][a];
	while (a > 0 && walk->index[a] == loops->dims[a])
	{
		for (int o = 0; o < walk->count; o++)
			walk->offset[o] += loops->steps[o][a - 1] - loops->dims[a] * loops->steps[o][a];
		walk->index[a] = 0;
		walk->index[--a]++;
	}
	walk_measure(walk);
	return true;
}

void
cpu_run_unary(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			  uint64_t last, int thread)
{
	size_t		in = device_type_bytes(plan->inputs[0].type);
	size_t		out = device_type_bytes(plan->output.type);
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	uint8_t    *y = cpu_address(run, &plan->output);
	struct walk walk;

	walk_start(&walk, &plan->loops, 1, first, last);
	do
	{
		const uint8_t *from = x + (size_t) walk.offset[0] * in;
		uint8_t    *to = y + walk.at * out;

		if (plan->loops.steps[0][plan->loops.rank - 1] == 0)
		{
			/* one element shared by the run */
			for (int64_t i = 0; i < walk.run; i++, to += out)
			{
				if (plan->kernels == NULL)
					cpu_integer_unary(plan->type, plan->fn, plan->f, from, to, 1);
				else if (plan->output.type == DEVICE_BOOL)
					plan->kernels->test(plan->fn, plan->f, from, to, 1);
				else
					plan->kernels->unary(plan->fn, plan->f, from, to, 1);
			}
		}
		else if (plan->kernels == NULL)
			cpu_integer_unary(plan->type, plan->fn, plan->f, from, to, walk.run);
		else if (plan->output.type == DEVICE_BOOL)
			plan->kernels->test(plan->fn, plan->f, from, to, walk.run);
		else
			plan->kernels->unary(plan->fn, plan->f, from, to, walk.run);
	} while (walk_next(&walk));
}

/* Where an integer division found no value. */
struct bad_element
{
	const struct cpu_plan *plan;
	const struct cpu_run *run;
	uint64_t	at;					/* output element of the run's first */
};

static void
bad_division(void *context, int64_t index)
{
	struct bad_element *bad = context;
	const struct cpu_place *output = &bad->plan->output;

	cpu_row_error(bad->run, output->lead,
				  (bad->at + (uint64_t) index) / (uint64_t) output->elements,
				  "division by zero");
}

static void
equal_texts(const struct device_text *a, int64_t a_step, const struct device_text *b, int64_t b_step,
			uint8_t *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++, a += a_step, b += b_step)
		y[i] = a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
}

void
cpu_run_binary(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	size_t		in = device_type_bytes(plan->type);
	size_t		out = device_type_bytes(plan->output.type);
	const uint8_t *a = cpu_address(run, &plan->inputs[0]);
	const uint8_t *b = cpu_address(run, &plan->inputs[1]);
	uint8_t    *y = cpu_address(run, &plan->output);
	int64_t		a_step = plan->loops.steps[0][plan->loops.rank - 1];
	int64_t		b_step = plan->loops.steps[1][plan->loops.rank - 1];
	struct walk walk;

	walk_start(&walk, &plan->loops, 2, first, last);
	do
	{
		const uint8_t *from_a = a + (size_t) walk.offset[0] * in;
		const uint8_t *from_b = b + (size_t) walk.offset[1] * in;
		uint8_t    *to = y + walk.at * out;

		if (plan->type == DEVICE_STRING)
			equal_texts((const struct device_text *) from_a, a_step,
						(const struct device_text *) from_b, b_step, to, walk.run);
		else if (plan->kernels == NULL)
		{
			struct bad_element bad = {plan, run, walk.at};

			cpu_integer_binary(plan->type, plan->fn, from_a, a_step, from_b, b_step, to, walk.run,
							   bad_division, &bad);
		}
		else if (plan->output.type == DEVICE_BOOL)
			plan->kernels->compare(plan->fn, from_a, a_step, from_b, b_step, to, walk.run);
		else
			plan->kernels->binary(plan->fn, from_a, a_step, from_b, b_step, to, walk.run);
	} while (walk_next(&walk));
}

#define WHERE_RUN(T) \
	do { \
		const T    *pa = (const T *) a + walk.offset[1]; \
		const T    *pb = (const T *) b + walk.offset[2]; \
		T		   *py = (T *) y + walk.at; \
		for (int64_t i = 0; i < walk.run; i++) \
			py[i] = pc[i * c_step] ? pa[i * a_step] : pb[i * b_step]; \
	} while (0)

void
cpu_run_where(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			  uint64_t last, int thread)
{
	const uint8_t *c = cpu_address(run, &plan->inputs[0]);
	const void *a = cpu_address(run, &plan->inputs[1]);
	const void *b = cpu_address(run, &plan->inputs[2]);
	void	   *y = cpu_address(run, &plan->output);
	int			inner = plan->loops.rank - 1;
	int64_t		c_step = plan->loops.steps[0][inner];
	int64_t		a_step = plan->loops.steps[1][inner];
	int64_t		b_step = plan->loops.steps[2][inner];
	struct walk walk;

	walk_start(&walk, &plan->loops, 3, first, last);
	do
	{
		const uint8_t *pc = c + walk.offset[0];

		switch (device_type_bytes(plan->type))
		{
			case 1:
				WHERE_RUN(uint8_t);
				break;
			case 2:
				WHERE_RUN(uint16_t);
				break;
			case 4:
				WHERE_RUN(uint32_t);
				break;
			case 8:
				WHERE_RUN(uint64_t);
				break;
			default:
				WHERE_RUN(struct device_text);
		}
	} while (walk_next(&walk));
}
