/*
 * place.c
 *	  Where each computed tensor lies in its lead's part of the arena: in the smallest gap that
 *	  is large enough among those that are still to be read.
 *
 * Offsets are bytes per item, multiples of DEVICE_ALIGN.  Two tensors overlap only if no op
 * needs both.
 */
#include "emit.h"

#include <string.h>

struct place						/* a tensor that lies in the arena now */
{
	uint64_t	offset;
	uint64_t	size;
	uint32_t	last;				/* the op that reads it last */
};

struct places						/* of a lead, by offset */
{
	struct place *places;
	uint32_t	count;
	uint64_t	size;				/* the most that was needed so far */
};

static uint64_t
item_bytes(const struct device_tensor *tensor)
{
	uint64_t	bytes = (uint64_t) device_item_elements(tensor) * device_type_bytes(tensor->type);

	return bytes == 0 ? DEVICE_ALIGN : (bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
}

static uint64_t
place_take(struct places *p, uint64_t size, uint32_t last)
{
	uint64_t	end = 0, best = UINT64_MAX, best_size = UINT64_MAX;
	uint32_t	at = p->count;

	for (uint32_t i = 0; i < p->count; i++)
	{
		uint64_t	gap = p->places[i].offset - end;

		if (gap >= size && gap < best_size)
		{
			best = end;
			best_size = gap;
			at = i;
		}
		end = p->places[i].offset + p->places[i].size;
	}
	if (best == UINT64_MAX)
		best = end;
	memmove(&p->places[at + 1], &p->places[at], (p->count - at) * sizeof(*p->places));
	p->places[at] = (struct place) {best, size, last};
	p->count++;
	if (best + size > p->size)
		p->size = best + size;
	return best;
}

static void
place_release(struct places *p, uint32_t op)
{
	uint32_t	kept = 0;

	for (uint32_t i = 0; i < p->count; i++)
		if (p->places[i].last > op)
			p->places[kept++] = p->places[i];
	p->count = kept;
}

bool
emit_places(struct emitter *e, uint64_t arena_item_bytes[DEVICE_LEADS])
{
	struct encoder_program *program = e->program;
	struct places places[DEVICE_LEADS] = {0};
	uint32_t   *last = graph_pool(e->memory, e->tensors_count, sizeof(*last));

	for (int lead = 0; lead < DEVICE_LEADS; lead++)
	{
		places[lead].places = graph_pool(e->memory, (uint64_t) program->ops_count + 1, sizeof(*places[lead].places));
		if (places[lead].places == NULL || last == NULL)
			return false;
	}
	for (uint32_t i = 0; i < program->ops_count; i++)
		for (uint32_t j = 0; j < program->ops[i].inputs_count; j++)
			if (program->ops[i].inputs[j] >= 0)
				last[program->ops[i].inputs[j]] = i;
	for (uint32_t i = 0; i < program->ops_count; i++)
	{
		struct device_tensor *output = &program->tensors[program->ops[i].output];

		if (output->binding < 0)
			output->offset = place_take(&places[output->lead], item_bytes(output), last[program->ops[i].output]);
		for (int lead = 0; lead < DEVICE_LEADS; lead++)
			place_release(&places[lead], i);
	}
	for (int lead = 0; lead < DEVICE_LEADS; lead++)
		arena_item_bytes[lead] = places[lead].size;
	return true;
}
