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

typedef void (*attention_fn) (const struct cpu_attention *, int64_t, int64_t);

/* bytes: of an element. */
static void
attend_block(const struct cpu_run *run, struct cpu_attention head, size_t bytes, attention_fn attention, uint64_t first,
			 uint64_t last)
{
	const uint32_t *row_off = run->batch->row_off;
	const uint8_t *q = head.q;
	const uint8_t *k = head.k;
	const uint8_t *v = head.v;
	uint8_t    *y = head.y;

	for (uint32_t row = cpu_row_of(run->batch, first); row < run->batch->items[DEVICE_LEAD_ROWS]; row++)
	{
		uint64_t	begin = row_off[row];
		size_t		at = begin * (size_t) head.x_step * bytes;
		int64_t		q0 = 0;

		if (begin >= last)
			break;
		if (begin < first)
			q0 = (int64_t) (first - begin + CPU_ATTENTION_QUERIES - 1) / CPU_ATTENTION_QUERIES * CPU_ATTENTION_QUERIES;
		head.length = row_off[row + 1] - (int64_t) begin;
		head.q = q + at;
		head.k = k + at;
		head.v = v + at;
		head.y = y + begin * (size_t) head.y_step * bytes;
		for (; q0 < head.length && begin + (uint64_t) q0 < last; q0 += CPU_ATTENTION_QUERIES)
			attention(&head, q0, q0 + CPU_ATTENTION_QUERIES < head.length ? q0 + CPU_ATTENTION_QUERIES : head.length);
	}
}

void
cpu_run_attention(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first, uint64_t last, int thread)
{
	bool		narrow = plan->type == DEVICE_BF16;
	attention_fn attention = narrow ? run->device->attention_bf16 : run->device->kernels->sequence.attention;
	size_t		bytes = device_type_bytes(plan->type);
	int64_t		heads = plan->outer;
	int64_t		size = plan->axis;
	uint64_t	tokens = run->batch->items[DEVICE_LEAD_TOKENS];
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	const float *bias = cpu_operand(plan, run, 1);
	uint8_t    *y = cpu_address(run, &plan->output);
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

		head.q = x + (size_t) (h * size) * bytes;
		head.k = x + (size_t) ((heads + h) * size) * bytes;
		head.v = x + (size_t) ((2 * heads + h) * size) * bytes;
		head.y = y + (size_t) (h * size) * bytes;
		head.bias = bias == NULL ? NULL : bias + h * (2 * head.bias_reach + 1);
		attend_block(run, head, bytes, attention, token,
					 token + CPU_ATTENTION_QUERIES < tokens ? token + CPU_ATTENTION_QUERIES : tokens);
	}
}
