/*
 * trees.h
 *	  What the files of the tree ensembles share: trees.c (the operators), trees_read.c (their
 *	  attributes), trees_pack.c (the device's nodes; trees_pack.h has what that works on).
 */
#ifndef ENGINE_GRAPH_OPS_TREES_H
#define ENGINE_GRAPH_OPS_TREES_H

#include "../../graph.h"

#define TREES_DEPTH_MAX		1024	/* comparisons from a root to a leaf */
#define TREES_TARGETS_MAX	65536
#define TREES_NONE			UINT32_MAX

enum tree_mode						/* those of TreeEnsemble 5, by their numbers, and leaves */
{
	TREE_LEQ = 0, TREE_LT, TREE_GTE, TREE_GT, TREE_EQ, TREE_NEQ, TREE_MEMBER,
	TREE_LEAF
};

struct tree_node					/* as the file has it */
{
	uint8_t		mode;				/* enum tree_mode */
	bool		missing_yes;		/* NaN goes to yes */
	int64_t		feature;
	double		threshold;
	uint32_t	tree;				/* place among the roots; before version 5 only */
	uint32_t	yes;				/* nodes */
	uint32_t	no;
	uint32_t	members_first;		/* MEMBER */
	uint32_t	members_count;
	uint32_t	votes_first;		/* LEAF */
	uint32_t	votes_count;
};

struct tree_source
{
	uint8_t		type;				/* of what is computed with: DEVICE_F32 or DEVICE_F64 */
	int64_t		features;			/* of a row */
	uint32_t	targets;
	uint32_t	nodes_count;
	struct tree_node *nodes;
	uint32_t	roots_count;
	uint32_t   *roots;				/* nodes */
	const double *members;
	uint32_t	votes_count;
	uint32_t   *votes_target;		/* below targets */
	double	   *votes_weight;		/* finite */
};

/*
 * trees_read.c: nodes, roots, members and votes; source->targets is given.  *wide becomes
 * true if a threshold or a weight is a float64.
 */
extern bool trees_read(struct graph *graph, const struct onnx_node *node, const char *prefix,
					   struct tree_source *source, bool *wide);	/* prefix: "class" or "target" */
extern bool trees_read_5(struct graph *graph, const struct onnx_node *node, struct tree_source *source,
						 bool *wide);

/* The attribute NAME, floats, or NAME_as_tensor; none if neither is there. */
extern bool trees_numbers_read(struct graph *graph, const struct onnx_node *node, const char *name,
							   uint32_t *count, bool *wide, double **numbers);

/*
 * trees_pack.c: the device's nodes.  NULL and a status that names the tree and the node: a
 * cycle, a node of two trees, a feature that a row does not have, a tree that is too deep.
 * Edges lead to nodes that are there.  sum: leaves are added up (TREES_SUM).
 */
extern const struct device_trees *trees_pack(struct graph *graph, const struct onnx_node *node,
											 const struct tree_source *source, bool sum);

#endif							/* ENGINE_GRAPH_OPS_TREES_H */
