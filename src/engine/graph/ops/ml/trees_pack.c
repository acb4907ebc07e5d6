/*
 * trees_pack.c
 *	  From a file's trees to the device's nodes, which know one comparison: key ≤ key.
 *	  trees_pack.h has the nouns.
 *
 * Loop
 *	for each tree: go through its sources, refuse cycles, give each its height; then fill
 *	slot after slot, each search adding the two slots of its children.
 *	So slots lie in the order of their depth, and leaves that a walk reaches with its last step
 *	lie behind all nodes that it reads.
 *
 * Invariants
 *	- A source that several intervals or sources lead to (LightGBM's exporter writes a choice
 *	  of categories so) is copied, its children are not: copies have the same ones.  So the
 *	  number of slots is at most twice that of bounds, plus roots.
 */
#include "trees_pack.h"

#include <inttypes.h>

enum source_state
{
	SOURCE_NEW, SOURCE_OPEN, SOURCE_ORDERED
};

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
	return trees_intervals(p, source);
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
	done = done && trees_arrays(&p, trees, sum);
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
