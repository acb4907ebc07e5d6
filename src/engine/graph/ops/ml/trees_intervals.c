/*
 * trees_intervals.c
 *	  From a source's comparison to intervals of keys, which are all that the device compares.
 */
#include "trees_pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t
key_of(const struct packing *p, double number)
{
	if (p->source->type == DEVICE_F32)
	{
		float		narrow = (float) number;
		uint32_t	bits;

		memcpy(&bits, &narrow, sizeof(bits));
		return device_key_f32(bits);
	}
	else
	{
		uint64_t	bits;

		memcpy(&bits, &number, sizeof(bits));
		return device_key_f64(bits);
	}
}

/* Up to bound; one that is empty is left out, and one that leads where the last one does joins it. */
static void
interval_add(struct packing *p, uint32_t source, uint64_t bound, bool yes)
{
	uint32_t	count = p->count[source];
	uint32_t	at = p->intervals_count;

	if (count > 0 && p->bounds[at - 1] >= bound)
		return;
	if (count > 0 && p->leads_yes[at - 1] == yes)
	{
		p->bounds[at - 1] = bound;
		return;
	}
	p->bounds[at] = bound;
	p->leads_yes[at] = yes;
	p->intervals_count++;
	p->count[source]++;
}

static int
keys_compare(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

/* Nothing is equal to NaN, so those are not counted. */
static bool
members_add(struct packing *p, uint32_t source)
{
	const struct tree_node *from = &p->source->nodes[source];
	uint64_t   *keys = malloc(((size_t) from->members_count + 1) * sizeof(*keys));
	uint32_t	count = 0;

	if (keys == NULL)
		return status_set(p->graph->status, INFER_ERROR_MEMORY, "out of memory while trees were packed");
	for (uint32_t m = 0; m < from->members_count; m++)
		if (!isnan(p->source->members[from->members_first + m]))
			keys[count++] = key_of(p, p->source->members[from->members_first + m]);
	qsort(keys, count, sizeof(*keys), keys_compare);
	for (uint32_t m = 0; m < count; m++)
	{
		interval_add(p, source, keys[m] - 1, false);
		interval_add(p, source, keys[m], true);
	}
	free(keys);
	return true;
}

/* What a number does is in the order of keys; where a NaN goes is ONNX's rule. */
bool
trees_intervals(struct packing *p, uint32_t source)
{
	const struct tree_node *from = &p->source->nodes[source];
	bool		never = from->mode != TREE_MEMBER && isnan(from->threshold);
	uint64_t	key = never ? 0 : key_of(p, from->threshold);
	bool		nan_yes = from->missing_yes || from->mode == TREE_NEQ;

	p->first[source] = p->intervals_count;
	if (never)
		interval_add(p, source, 0, from->mode != TREE_NEQ);
	else
		switch (from->mode)
		{
			case TREE_LEQ:
			case TREE_GT:
				interval_add(p, source, key, from->mode == TREE_LEQ);
				break;
			case TREE_LT:
			case TREE_GTE:
				interval_add(p, source, key - 1, from->mode == TREE_LT);
				break;
			case TREE_EQ:
			case TREE_NEQ:
				interval_add(p, source, key - 1, from->mode == TREE_NEQ);
				interval_add(p, source, key, from->mode == TREE_EQ);
				break;
			case TREE_MEMBER:
				if (!members_add(p, source))
					return false;
				if (p->count[source] == 0)
					interval_add(p, source, 0, true);
				break;
		}
	interval_add(p, source, p->key_nan,
				 never ? from->mode == TREE_NEQ :
				 from->mode == TREE_GT || from->mode == TREE_GTE || from->mode == TREE_NEQ);
	p->nan_interval[source] = 0;
	for (uint32_t i = 0; i < p->count[source]; i++)
		if (p->leads_yes[p->first[source] + i] == nan_yes)
			p->nan_interval[source] = i;
	return true;
}
