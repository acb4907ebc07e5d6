/*
 * layout.cu
 *	  Where a run's parts lie in its arena.
 *
 * The layout, and with it the grids, is made for numbers of items that are rounded up in steps of at most an eighth: a
 * captured graph then serves all batches of its bucket, and what a plain launch does differs in nothing.
 *
 *	gpu_batch | row_off | row_first | tile_off | row_error | bindings' copies | tensors by lead | scratch
 *
 * Each begins on DEVICE_ALIGN.  Sums that do not fit 64 bits stop at the greatest number, which no memory has.
 */
#include "core.h"

static uint64_t
times(uint64_t bytes, uint64_t items)
{
	uint64_t	product;

	return __builtin_mul_overflow(bytes, items, &product) || product > UINT64_MAX - DEVICE_ALIGN ? UINT64_MAX - DEVICE_ALIGN :
		   CUDA_ALIGN(product);
}

static uint64_t
plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - DEVICE_ALIGN - b ? UINT64_MAX - DEVICE_ALIGN : a + b;
}

/* Up to the next of eight steps to the next power of two. */
static uint32_t
bucket(uint32_t items)
{
	uint32_t	step;

	if (items <= 16)
		return items;
	step = 1u << (31 - __builtin_clz(items - 1)) >> 3;
	return items > UINT32_MAX - step ? items : (items + step - 1) / step * step;
}

uint64_t
cuda_layout_binding(const cuda_layout *layout, const cuda_binding *binding)
{
	return binding->placed ? times(binding->bytes, layout->items[binding->lead]) : 0;
}

static uint64_t
scratch_bytes(const device_program *program, const uint32_t items[DEVICE_LEADS])
{
	uint64_t	most = 0;

	for (uint32_t p = 0; p < program->plans_count; p++)
	{
		const cuda_plan *plan = &program->plans[p];
		uint64_t	bytes = CUDA_ALIGN(plan->scratch_fixed);

		for (int lead = 0; lead < DEVICE_LEADS; lead++)
			if (plan->scratch_item[lead] > 0)
				bytes = plus(bytes, times(plan->scratch_item[lead], items[lead]));
		if (bytes > most)
			most = bytes;
	}
	return most;
}

static void
host_layout(const device_program *program, const uint32_t items[DEVICE_LEADS], cuda_layout *layout)
{
	device	   *host = program->device->base.host;
	uint64_t	at = 0;

	layout->host_arenas = layout->host_bytes = 0;
	for (int lead = 0; lead < DEVICE_LEADS; lead++)
	{
		layout->mirror_base[lead] = at;
		at = plus(at, times(program->mirror_item[lead], layout->items[lead]));
	}
	if (program->hosts_count == 0)
		return;
	layout->host_arenas = at;
	for (uint32_t h = 0; h < program->hosts_count; h++)
		at = plus(at, CUDA_ALIGN(host->ops->arena_bytes(program->hosts[h].program, items)));
	layout->host_bytes = plus(at, DEVICE_ALIGN);
}

void
cuda_layout_make(const device_program *program, const uint32_t items[DEVICE_LEADS], cuda_layout *layout)
{
	uint64_t	rows;
	uint64_t	at = CUDA_ALIGN(sizeof(gpu_batch));

	for (int lead = 0; lead < DEVICE_LEADS; lead++)
		layout->items[lead] = lead == DEVICE_LEAD_NONE ? 1 : bucket(items[lead]);
	rows = layout->items[DEVICE_LEAD_ROWS];
	layout->row_off = at;
	at += times(rows + 1, sizeof(uint32_t));
	layout->row_first = at;
	at += times(rows, sizeof(uint32_t));
	layout->tile_off = at;
	at += times(rows + 1, sizeof(uint32_t));
	layout->row_error = at;
	at += times(rows, sizeof(uint32_t));
	layout->prefix = layout->bindings = at;
	for (uint32_t b = 0; b < program->bindings_count; b++)
		at = plus(at, cuda_layout_binding(layout, &program->bindings[b]));
	for (int lead = 0; lead < DEVICE_LEADS; lead++)
	{
		layout->lead_base[lead] = at;
		at = plus(at, times(program->arena_item[lead], layout->items[lead]));
	}
	layout->scratch = at;
	layout->bytes = plus(at, scratch_bytes(program, layout->items));
	host_layout(program, items, layout);
}

uint64_t
cuda_arena_bytes(const device_program *program, const uint32_t items[DEVICE_LEADS])
{
	cuda_layout	layout;

	cuda_layout_make(program, items, &layout);
	return layout.bytes;
}
