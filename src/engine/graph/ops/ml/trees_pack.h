/*
 * trees_pack.h
 *	  What the packing of trees works on: trees_intervals.c, trees_pack.c, trees_arrays.c.
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
 * Invariants
 *	- The last bound of a source is the greatest key, NaN's, which no search compares with;
 *	  bound 0 is below every number.
 */
#ifndef ENGINE_GRAPH_OPS_TREES_PACK_H
#define ENGINE_GRAPH_OPS_TREES_PACK_H

#include "trees.h"

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
	uint32_t   *height;				/* comparisons to the deepest leaf */
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

/* trees_intervals.c: appends the intervals of a source that is no leaf, and says where a NaN belongs. */
extern bool trees_intervals(struct packing *p, uint32_t source);

/* trees_arrays.c: the device's arrays from the slots of all trees. */
extern bool trees_arrays(struct packing *p, struct device_trees *trees, bool sum);

#endif							/* ENGINE_GRAPH_OPS_TREES_PACK_H */
