/*
 * attention.c
 *	  ATTENTION: which queries of which rows a unit computes.
 *
 * Nouns
 *	piece		up to CPU_ATTENTION_QUERIES queries of one row, counted from its first token
 *	unit		a head of the pieces that begin within so many tokens of the batch
 *
 * So a unit's pieces are those of whole rows where rows are short, no piece depends on where
 * in a batch its row lies, and a unit is at most twice as long as another.
 */
#include "ops.h"

uint64_t
cpu_attention_units(const struct cpu_plan *plan, uint64_t tokens)
{
	return (tokens + CPU_ATTENTION_QUERIES - 1) / CPU_ATTENTION_QUERIES * (uint64_t) plan->outer;
}

static void
attend_block(const struct cpu_run *run, struct cpu_attention head, uint64_t first, uint64_t last)
{
	const uint32_t *row_off = run->batch->row_off;
	const float *q = head.q;
	const float *k = head.k;
	const float *v = head.v;
	float	   *y = head.y;

	for (uint32_t row = cpu_row_of(run->batch, first); row < run->batch->items[DEVICE_LEAD_ROWS]; row++)
	{
		uint64_t	begin = row_off[row];
		int64_t		q0 = 0;

		if (begin >= last)
			break;
		if (begin < first)
			q0 = (int64_t) (first - begin + CPU_ATTENTION_QUERIES - 1) / CPU_ATTENTION_QUERIES * CPU_ATTENTION_QUERIES;
		head.length = row_off[row + 1] - (int64_t) begin;
		head.q = q + (int64_t) begin * head.x_step;
		head.k = k + (int64_t) begin * head.x_step;
		head.v = v + (int64_t) begin * head.x_step;
		head.y = y + (int64_t) begin * head.y_step;
		for (; q0 < head.length && begin + (uint64_t) q0 < last; q0 += CPU_ATTENTION_QUERIES)
			run->device->kernels->sequence.attention(&head, q0, q0 + CPU_ATTENTION_QUERIES < head.length
													 ? q0 + CPU_ATTENTION_QUERIES : head.length);
	}
}

void
cpu_run_attention(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first, uint64_t last, int thread)
{
	int64_t		heads = plan->outer;
	int64_t		size = plan->axis;
	uint64_t	tokens = run->batch->items[DEVICE_LEAD_TOKENS];
	const float *x = cpu_address(run, &plan->inputs[0]);
	const float *bias = cpu_operand(plan, run, 1);
	float	   *y = cpu_address(run, &plan->output);
	struct cpu_attention head = {
		.x_step = 3 * heads * size,
		.y_step = heads * size,
		.size = size,
		.scale = plan->f[0],
		.window = plan->i[2],
		.bias_reach = plan->i[3],
		.scratch = cpu_scratch(run, thread)
	};

	for (uint64_t u = first; u < last; u++)
	{
		int64_t		h = (int64_t) (u % (uint64_t) heads);
		uint64_t	token = u / (uint64_t) heads * CPU_ATTENTION_QUERIES;

		head.q = x + h * size;
		head.k = x + (heads + h) * size;
		head.v = x + (2 * heads + h) * size;
		head.y = y + h * size;
		head.bias = bias == NULL ? NULL : bias + h * (2 * head.bias_reach + 1);
		attend_block(run, head, token, token + CPU_ATTENTION_QUERIES < tokens ? token + CPU_ATTENTION_QUERIES : tokens);
	}
}
