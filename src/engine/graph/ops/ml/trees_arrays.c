/*
 * trees_arrays.c
 *	  The device's arrays from packed trees: nodes, and what leaves add to the result.
 */
#include "trees_pack.h"

static void *
nodes_make(struct packing *p, const struct device_trees *trees)
{
	size_t		size = trees->type == DEVICE_F64 ? sizeof(struct device_tree_node_f64) :
		trees->wide ? sizeof(struct device_tree_node_wide) : sizeof(struct device_tree_node);
	uint8_t    *nodes = graph_block(p->graph->memory, (uint64_t) p->slots_count * size);

	for (uint32_t s = 0; nodes != NULL && s < p->slots_count; s++)
	{
		const struct slot *slot = &p->slots[s];

		if (trees->type == DEVICE_F64)
			((struct device_tree_node_f64 *) nodes)[s] =
				(struct device_tree_node_f64) {slot->key, slot->feature, slot->child};
		else if (trees->wide)
			((struct device_tree_node_wide *) nodes)[s] =
				(struct device_tree_node_wide) {(uint32_t) slot->key, slot->feature, slot->child};
		else
			((struct device_tree_node *) nodes)[s] =
				(struct device_tree_node) {(uint32_t) slot->key, (uint16_t) slot->feature, (uint16_t) slot->child};
	}
	return nodes;
}

static void
number_store(uint8_t type, void *numbers, uint32_t i, double number)
{
	if (type == DEVICE_F64)
		((double *) numbers)[i] = number;
	else
		((float *) numbers)[i] = (float) number;
}

/* A number for each slot. */
static bool
values_make(struct packing *p, struct device_trees *trees)
{
	void	   *values = graph_pool(p->graph->memory, p->slots_count, device_type_bytes(trees->type));

	for (uint32_t s = 0; values != NULL && s < p->slots_count; s++)
	{
		const struct tree_node *leaf = p->slots[s].leaf == TREES_NONE ? NULL : &p->source->nodes[p->slots[s].leaf];

		number_store(trees->type, values, s,
					 leaf == NULL || leaf->votes_count == 0 ? 0 : p->source->votes_weight[leaf->votes_first]);
	}
	trees->values = values;
	return values != NULL;
}

static bool
votes_make(struct packing *p, struct device_trees *trees)
{
	const struct tree_source *source = p->source;
	uint64_t	count = 0;
	uint32_t   *first = graph_pool(p->graph->memory, (uint64_t) p->slots_count + 1, sizeof(*first));
	uint32_t   *targets;
	void	   *weights;

	for (uint32_t s = 0; s < p->slots_count; s++)
		if (p->slots[s].leaf != TREES_NONE)
			count += source->nodes[p->slots[s].leaf].votes_count;
	if (count > INT32_MAX)
		return graph_unsupported(p->graph, p->node, "has more than %d votes at leaves", INT32_MAX);
	targets = graph_pool(p->graph->memory, count, sizeof(*targets));
	weights = graph_pool(p->graph->memory, count, device_type_bytes(trees->type));
	if (first == NULL || targets == NULL || weights == NULL)
		return false;
	count = 0;
	for (uint32_t s = 0; s < p->slots_count; s++)
	{
		const struct tree_node *leaf = p->slots[s].leaf == TREES_NONE ? NULL : &source->nodes[p->slots[s].leaf];

		first[s] = (uint32_t) count;
		for (uint32_t v = 0; leaf != NULL && v < leaf->votes_count; v++, count++)
		{
			targets[count] = source->votes_target[leaf->votes_first + v];
			number_store(trees->type, weights, (uint32_t) count, source->votes_weight[leaf->votes_first + v]);
		}
	}
	first[p->slots_count] = (uint32_t) count;
	trees->votes_first = first;
	trees->votes_target = targets;
	trees->votes_weight = weights;
	return true;
}

bool
trees_arrays(struct packing *p, struct device_trees *trees, bool sum)
{
	bool		single = sum && p->source->targets == 1;
	bool		nan_left = false;

	trees->type = p->source->type;
	trees->wide = p->largest > UINT16_MAX + 1 ||
		p->source->features * DEVICE_TREE_LANES > UINT16_MAX;
	trees->trees_count = p->source->roots_count;
	trees->nodes_count = p->slots_count;
	trees->features = (uint32_t) p->source->features;
	trees->targets = p->source->targets;
	trees->roots = p->roots;
	trees->depths = p->depths;
	trees->nodes = nodes_make(p, trees);
	if (trees->nodes == NULL)
		return false;
	for (uint32_t s = 0; s < p->slots_count; s++)
	{
		nan_left = nan_left || (p->slots[s].leaf == TREES_NONE && p->slots[s].nan_left);
		if (p->slots[s].leaf != TREES_NONE && p->source->nodes[p->slots[s].leaf].votes_count > 1)
			single = false;
	}
	if (nan_left)
	{
		uint8_t    *flags = graph_pool(p->graph->memory, p->slots_count, 1);

		for (uint32_t s = 0; flags != NULL && s < p->slots_count; s++)
			flags[s] = p->slots[s].nan_left;
		trees->nan_left = flags;
		if (flags == NULL)
			return false;
	}
	return single ? values_make(p, trees) : votes_make(p, trees);
}
