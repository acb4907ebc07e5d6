/*
 * trees.c
 *	  TREES: forests and boosted trees.  See struct device_trees for what a node is.
 *
 * Nouns
 *	group	DEVICE_TREE_LANES rows, whose keys lie side by side
 *	block	groups that are walked through a tree while its nodes are in the cache
 *	walk	steps from a root until every lane is at a leaf.  Lanes are the rows of a group in
 *			one tree, or one row in as many trees, whatever there is enough of; they
 *			advance together, so that the loads of one hide behind those of the others
 *
 * Loop
 *	for each block: its keys, then tree after tree the leaves of its rows, and what those
 *	add to the rows' scores.
 *
 * Invariants
 *	- Which leaf a row reaches depends on the row alone, and a row's scores are summed in
 *	  the order of the trees: the same bits in any block, group or lane.
 *	- A step has no branch that depends on data.  A deep tree's walk ends early when all
 *	  lanes are at leaves, which changes nothing: a leaf is its own child.
 */
#include "ops.h"

#include <math.h>
#include <string.h>

#define LANES		DEVICE_TREE_LANES
#define BLOCK_ROWS	128				/* at most */
#define BLOCK_BYTES	(32u << 10)		/* of keys, if that is a group or more */
#define STEPS_SURE	8				/* steps before a walk first looks whether it may end */
#define STEPS_LOOK	4				/* and between looks */

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 8")
#endif

static uint32_t
block_groups(const struct device_trees *trees)
{
	uint64_t	bytes = (uint64_t) trees->features * LANES * (trees->type == DEVICE_F32 ? 4 : 8);
	uint64_t	groups = bytes == 0 ? BLOCK_ROWS / LANES : BLOCK_BYTES / bytes;

	return groups < 1 ? 1 : groups > BLOCK_ROWS / LANES ? BLOCK_ROWS / LANES : (uint32_t) groups;
}

uint64_t
cpu_trees_scratch(const struct device_trees *trees)
{
	return (uint64_t) trees->features * LANES * (trees->type == DEVICE_F32 ? 4 : 8) * block_groups(trees);
}

#define PASTE_(a, b)	a##b
#define PASTE(a, b)		PASTE_(a, b)

#define NAME(name)		PASTE(name, _narrow)
#define NODE			struct device_tree_node
#define KEY				uint32_t
#define KEY_OF			device_key_f32
#define KEY_NAN			DEVICE_KEY_NAN_F32
#define NUMBER			float
#include "trees_walk.h"

#define NAME(name)		PASTE(name, _wide)
#define NODE			struct device_tree_node_wide
#define KEY				uint32_t
#define KEY_OF			device_key_f32
#define KEY_NAN			DEVICE_KEY_NAN_F32
#define NUMBER			float
#include "trees_walk.h"

#define NAME(name)		PASTE(name, _f64)
#define NODE			struct device_tree_node_f64
#define KEY				uint64_t
#define KEY_OF			device_key_f64
#define KEY_NAN			DEVICE_KEY_NAN_F64
#define NUMBER			double
#include "trees_walk.h"

void
cpu_run_trees(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first, uint64_t last,
			  int thread)
{
	const struct device_trees *trees = plan->params;
	const void *x = cpu_address(run, &plan->inputs[0]);
	void	   *y = cpu_address(run, &plan->output);
	void	   *keys = cpu_scratch(run, thread);
	uint64_t	block = (uint64_t) block_groups(trees) * LANES;

	for (uint64_t row = first; row < last; row += block)
	{
		uint32_t	rows = (uint32_t) (last - row < block ? last - row : block);

		if (trees->type == DEVICE_F64)
			block_f64(trees, plan->fn, (const double *) x + row * trees->features, keys,
					  (double *) y + row * trees->targets, rows);
		else if (trees->wide)
			block_wide(trees, plan->fn, (const float *) x + row * trees->features, keys,
					   (float *) y + row * trees->targets, rows);
		else
			block_narrow(trees, plan->fn, (const float *) x + row * trees->features, keys,
						 (float *) y + row * trees->targets, rows);
	}
}
