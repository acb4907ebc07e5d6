/*
 * trees_pack.c
 *	  From a file's trees to the device's nodes, which know one comparison: key ≤ key.
 *
 * Nouns
 *	source		a node as the file has it
 *	interval	of keys, up to and with its bound: whatever a source's mode is, it cuts the
 *				order of keys into intervals that lead to yes or to no in turn (one threshold
 *				makes two, equality three, membership in n values up to 2n + 1)
 *	slot		a place of a node in the packed tree
 *	task		what a slot is to hold: a search among some of a source's intervals.  One
 *				interval alone is what it leads to: that source, with all of its own
 *
 * Loop
 *	for each tree: go through its sources, refuse cycles, give each its height; then fill
 *	slot after slot, each search adding the two slots of its children.
 *	So slots lie in the order of their depth, and leaves that a walk reaches with its last step
 *	lie behind all nodes that it reads.
 *
 * Invariants
 *	- A source that several intervals or sources lead to (LightGBM's exporter writes a choice
 *	  of categories so) is copied, its children are not: copies have the same ones.  So the number of slots is at most twice that of bounds, plus roots.
 *	- The last bound of a source is the greatest key, NaN's, which no search compares with;
 *	  bound 0 is below every number.
 */
#include "trees.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct task
{
	uint32_t	source;
	uint32_t	low;				/* intervals, counted from the source's first; both count */
	uint32_t	high;
};

struct slot
{
	uint64_t	key;
	uint32_t	feature;
	uint32_t	child;				/* from the root */
	uint32_t	leaf;				/* the source, or TREES_NONE */
	uint8_t		nan_left;
};

enum source_state
{
	SOURCE_NEW, SOURCE_OPEN, SOURCE_ORDERED
};

struct packing
{
	struct graph *graph;
	const struct onnx_node *node;
	const struct tree_source *source;
	uint64_t	key_nan;

	/* of each source */
	uint32_t   *first;				/* interval */
	uint32_t   *count;				/* of intervals, 0 for leaves */
	uint32_t   *nan_interval;		/* where a NaN belongs, counted from first */
	uint32_t   *pair;				/* slot of the children of its whole search, or TREES_NONE */
	uint32_t   *height;			/* comparisons to the deepest leaf */
	uint8_t    *state;				/* enum source_state */
	uint8_t    *edges;				/* that have been followed */
	uint32_t   *owner;				/* tree */

	uint32_t	intervals_count;
	uint64_t   *bounds;
	uint8_t    *leads_yes;

	uint32_t   *stack;				/* sources that are open, the root first */
	uint32_t	slots_count;
	uint64_t	slots_space;
	struct task *tasks;
	struct slot *slots;
	uint32_t   *roots;
	uint32_t   *depths;
	uint32_t	largest;			/* slots of the largest tree */
};

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

/* ---- intervals ---- */

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
static bool
intervals_make(struct packing *p, uint32_t source)
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

/* ---- from a root through all of its tree ---- */

/* Puts a source on the stack, unless all of it has been ordered. */
static bool
source_enter(struct packing *p, uint32_t tree, uint32_t source, uint32_t *stacked)
{
	const struct tree_node *from = &p->source->nodes[source];

	if (from->mode == TREE_LEAF)
		return true;
	if (p->state[source] == SOURCE_OPEN)
		return graph_malformed(p->graph, p->node, "has a tree (%u) with a cycle through its node %u", tree, source);
	if (p->state[source] == SOURCE_ORDERED && p->owner[source] != tree)
		return graph_malformed(p->graph, p->node, "has a node (%u) that belongs to the trees %u and %u", source,
							   p->owner[source], tree);
	if (p->state[source] == SOURCE_ORDERED)
		return true;
	if (from->feature < 0 || from->feature >= p->source->features)
		return graph_malformed(p->graph, p->node, "asks for feature %" PRId64 " of rows with %" PRId64,
							   from->feature, p->source->features);
	p->state[source] = SOURCE_OPEN;
	p->owner[source] = tree;
	p->pair[source] = TREES_NONE;
	p->stack[(*stacked)++] = source;
	return intervals_make(p, source);
}

static bool
source_leave(struct packing *p, uint32_t tree, uint32_t source)
{
	const struct tree_node *from = &p->source->nodes[source];
	uint32_t	search = 0;

	while (p->count[source] > UINT32_C(1) << search)
		search++;
	p->height[source] = search + (p->height[from->yes] > p->height[from->no] ? p->height[from->yes] :
								  p->height[from->no]);
	p->state[source] = SOURCE_ORDERED;
	if (p->height[source] > TREES_DEPTH_MAX)
		return graph_unsupported(p->graph, p->node, "has a tree (%u) of more than %d levels", tree, TREES_DEPTH_MAX);
	return true;
}

/* Children before parents, so that each source's height is known when it is left. */
static bool
tree_order(struct packing *p, uint32_t tree)
{
	uint32_t	stacked = 0;

	if (!source_enter(p, tree, p->source->roots[tree], &stacked))
		return false;
	while (stacked > 0)
	{
		uint32_t	at = p->stack[stacked - 1];
		const struct tree_node *from = &p->source->nodes[at];

		if (p->edges[at] == 2)
		{
			stacked--;
			if (!source_leave(p, tree, at))
				return false;
		}
		else if (!source_enter(p, tree, p->edges[at]++ == 0 ? from->yes : from->no, &stacked))
			return false;
	}
	return true;
}

/* ---- slots ---- */

static struct task
task_whole(const struct packing *p, uint32_t source)
{
	bool		leaf = p->source->nodes[source].mode == TREE_LEAF;

	return (struct task) {source, 0, leaf ? 0 : p->count[source] - 1};
}

/* The search of intervals [low, high] of a source, or what the only one leads to. */
static struct task
task_part(const struct packing *p, uint32_t source, uint32_t low, uint32_t high)
{
	const struct tree_node *from = &p->source->nodes[source];

	if (low == high)
		return task_whole(p, p->leads_yes[p->first[source] + low] ? from->yes : from->no);
	return (struct task) {source, low, high};
}

static void
slot_fill(struct packing *p, uint32_t root, uint32_t at)
{
	struct task task = p->tasks[at];
	struct slot *slot = &p->slots[at];
	const struct tree_node *from = &p->source->nodes[task.source];
	uint32_t	middle = task.low + (task.high - task.low) / 2;
	bool		whole;

	slot->leaf = TREES_NONE;
	if (from->mode == TREE_LEAF)
	{
		slot->key = p->key_nan;
		slot->feature = 0;
		slot->child = at - root;
		slot->leaf = task.source;
		slot->nan_left = 1;
		return;
	}
	slot->key = p->bounds[p->first[task.source] + middle];
	slot->feature = (uint32_t) from->feature * DEVICE_TREE_LANES;
	slot->nan_left = p->nan_interval[task.source] >= task.low && p->nan_interval[task.source] <= middle;
	whole = task.low == 0 && task.high == p->count[task.source] - 1;
	if (whole && p->pair[task.source] != TREES_NONE)
	{
		slot->child = p->pair[task.source] - root;
		return;
	}
	if (whole)
		p->pair[task.source] = p->slots_count;
	slot->child = p->slots_count - root;
	p->tasks[p->slots_count++] = task_part(p, task.source, task.low, middle);
	p->tasks[p->slots_count++] = task_part(p, task.source, middle + 1, task.high);
}

static bool
tree_pack(struct packing *p, uint32_t tree)
{
	uint32_t	root = p->slots_count;

	if (!tree_order(p, tree))
		return false;
	p->roots[tree] = root;
	p->depths[tree] = p->height[p->source->roots[tree]];
	p->tasks[p->slots_count++] = task_whole(p, p->source->roots[tree]);
	for (uint32_t at = root; at < p->slots_count; at++)
		slot_fill(p, root, at);
	if (p->slots_count - root > p->largest)
		p->largest = p->slots_count - root;
	return true;
}

/* ---- the device's arrays ---- */

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

static bool
arrays_make(struct packing *p, struct device_trees *trees, bool sum)
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

/* Room for every interval and slot that can come of the sources. */
static bool
packing_start(struct packing *p)
{
	const struct tree_source *source = p->source;
	struct graph_memory *memory = p->graph->memory;
	uint64_t	intervals = 0;

	for (uint32_t n = 0; n < source->nodes_count; n++)
		intervals += source->nodes[n].mode == TREE_LEAF ? 0 : source->nodes[n].mode == TREE_MEMBER ?
			2 * (uint64_t) source->nodes[n].members_count + 2 : 3;
	p->slots_space = 2 * intervals + source->roots_count;
	if (p->slots_space > INT32_MAX)
		return graph_unsupported(p->graph, p->node, "has more than %d nodes", INT32_MAX / 6);
	p->key_nan = source->type == DEVICE_F32 ? DEVICE_KEY_NAN_F32 : DEVICE_KEY_NAN_F64;
	p->first = graph_pool(memory, source->nodes_count, sizeof(*p->first));
	p->count = graph_pool(memory, source->nodes_count, sizeof(*p->count));
	p->nan_interval = graph_pool(memory, source->nodes_count, sizeof(*p->nan_interval));
	p->pair = graph_pool(memory, source->nodes_count, sizeof(*p->pair));
	p->height = graph_pool(memory, source->nodes_count, sizeof(*p->height));
	p->state = graph_pool(memory, source->nodes_count, sizeof(*p->state));
	p->edges = graph_pool(memory, source->nodes_count, sizeof(*p->edges));
	p->owner = graph_pool(memory, source->nodes_count, sizeof(*p->owner));
	p->stack = graph_pool(memory, source->nodes_count, sizeof(*p->stack));
	p->bounds = graph_block(memory, intervals * sizeof(*p->bounds));
	p->leads_yes = graph_block(memory, intervals);
	p->tasks = graph_block(memory, p->slots_space * sizeof(*p->tasks));
	p->slots = graph_block(memory, p->slots_space * sizeof(*p->slots));
	p->roots = graph_pool(memory, source->roots_count, sizeof(*p->roots));
	p->depths = graph_pool(memory, source->roots_count, sizeof(*p->depths));
	return p->first != NULL && p->count != NULL && p->nan_interval != NULL && p->pair != NULL &&
		p->height != NULL && p->state != NULL && p->edges != NULL && p->owner != NULL && p->stack != NULL &&
		p->bounds != NULL &&
		p->leads_yes != NULL && p->tasks != NULL && p->slots != NULL && p->roots != NULL && p->depths != NULL;
}

const struct device_trees *
trees_pack(struct graph *graph, const struct onnx_node *node, const struct tree_source *source, bool sum)
{
	struct packing p = {.graph = graph, .node = node, .source = source};
	struct device_trees *trees = graph_pool(graph->memory, 1, sizeof(*trees));
	bool		done = trees != NULL && packing_start(&p);

	for (uint32_t t = 0; done && t < source->roots_count; t++)
		done = tree_pack(&p, t);
	done = done && arrays_make(&p, trees, sum);
	if (p.bounds != NULL)
		graph_block_free(graph->memory, p.bounds);
	if (p.leads_yes != NULL)
		graph_block_free(graph->memory, p.leads_yes);
	if (p.tasks != NULL)
		graph_block_free(graph->memory, p.tasks);
	if (p.slots != NULL)
		graph_block_free(graph->memory, p.slots);
	return done ? trees : NULL;
}
