/*
 * trees_read.c
 *	  The attributes of tree ensembles, in both of their forms, as struct tree_source.
 *
 * Until version 3 a node is named by a tree's id and its own, and leaves are nodes; class_ or
 * target_ attributes name the leaf that each vote belongs to.  TreeEnsemble 5 counts nodes
 * and leaves apart, an edge says which of the two it leads to, and a leaf has one vote.
 */
#include "trees.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../../../protocol/protocol.h"

/* ---- lists ---- */

static bool
list_same(struct graph *graph, const struct onnx_node *node, const char *name, uint32_t count,
		  uint32_t wanted)
{
	if (count == wanted)
		return true;
	return graph_malformed(graph, node, "has %u elements in %s for %u nodes or leaves", count, name, wanted);
}

/* Of count elements; optional ones may be absent or empty, and are then NULL. */
static bool
ints_read(struct graph *graph, const struct onnx_node *node, const char *name, uint32_t count,
		  bool optional, const int64_t **ints)
{
	const struct onnx_attribute *attribute;

	*ints = NULL;
	if (!graph_attribute_list(graph, node, name, ONNX_ATTRIBUTE_INTS, &attribute))
		return false;
	if (optional && (attribute == NULL || attribute->count == 0))
		return true;
	*ints = attribute == NULL ? NULL : attribute->ints;
	return list_same(graph, node, name, attribute == NULL ? 0 : attribute->count, count);
}

/* A tensor of F32 or F64 as doubles; NULL where it is absent. */
static bool
tensor_doubles(struct graph *graph, const struct onnx_node *node, const char *name, uint32_t *count,
			   uint8_t *type, double **numbers)
{
	const void *data;

	*numbers = NULL;
	if (!graph_attribute_numbers(graph, node, name, type, count, &data))
		return false;
	if (data == NULL)
		return true;
	if (*type != DEVICE_F32 && *type != DEVICE_F64)
		return graph_unsupported(graph, node, "has %s of a type that is neither float32 nor float64", name);
	*numbers = graph_pool(graph->memory, *count, sizeof(**numbers));
	for (uint32_t i = 0; *numbers != NULL && i < *count; i++)
		(*numbers)[i] = *type == DEVICE_F64 ? ((const double *) data)[i] : ((const float *) data)[i];
	return *numbers != NULL;
}

bool
trees_numbers_read(struct graph *graph, const struct onnx_node *node, const char *name, uint32_t *count,
				   bool *wide, double **numbers)
{
	const struct onnx_attribute *floats;
	const char *tensor = graph_pool_printf(graph->memory, "%s_as_tensor", name);
	uint8_t		type;

	if (tensor == NULL || !graph_attribute_list(graph, node, name, ONNX_ATTRIBUTE_FLOATS, &floats) ||
		!tensor_doubles(graph, node, tensor, count, &type, numbers))
		return false;
	if (*numbers != NULL && *count > 0)
	{
		if (floats != NULL && floats->count > 0)
			return graph_malformed(graph, node, "has both %s and %s", name, tensor);
		*wide = *wide || type == DEVICE_F64;
		return true;
	}
	*count = floats == NULL ? 0 : floats->count;
	*numbers = graph_pool(graph->memory, *count, sizeof(**numbers));
	for (uint32_t i = 0; *numbers != NULL && i < *count; i++)
		(*numbers)[i] = floats->floats[i];
	return *numbers != NULL;
}

/* ---- nodes by ids ---- */

struct tree_id
{
	int64_t		tree;
	int64_t		id;
	uint32_t	node;
};

static int
id_compare(const void *a, const void *b)
{
	const struct tree_id *x = a;
	const struct tree_id *y = b;

	if (x->tree != y->tree)
		return x->tree < y->tree ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static uint32_t
id_find(const struct tree_id *ids, uint32_t count, int64_t tree, int64_t id)
{
	struct tree_id key = {tree, id, 0};
	const struct tree_id *found = bsearch(&key, ids, count, sizeof(*ids), id_compare);

	return found == NULL ? TREES_NONE : found->node;
}

static bool
mode_read(struct graph *graph, const struct onnx_node *node, const struct device_text *name, uint8_t *mode)
{
	static const char *const names[] = {
		[TREE_LEQ] = "BRANCH_LEQ", [TREE_LT] = "BRANCH_LT", [TREE_GTE] = "BRANCH_GTE", [TREE_GT] = "BRANCH_GT",
		[TREE_EQ] = "BRANCH_EQ", [TREE_NEQ] = "BRANCH_NEQ", [TREE_MEMBER] = "", [TREE_LEAF] = "LEAF"
	};

	for (uint8_t m = 0; m < sizeof(names) / sizeof(names[0]); m++)
		if (m != TREE_MEMBER && name->length == strlen(names[m]) && memcmp(name->data, names[m], name->length) == 0)
		{
			*mode = m;
			return true;
		}
	return graph_malformed(graph, node, "has a node of the unknown mode \"%.*s\"",
						   (int) (name->length < 50 ? name->length : 50), name->data);
}

/* What nodes_… say, but for the edges. */
static bool
nodes_read(struct graph *graph, const struct onnx_node *node, struct tree_source *source, bool *wide,
		   struct tree_id *ids)
{
	uint32_t	count = source->nodes_count;
	const struct onnx_attribute *modes;
	const int64_t *trees, *nodes, *features, *missing;
	double	   *thresholds;
	uint32_t	thresholds_count;

	if (!graph_attribute_list(graph, node, "nodes_modes", ONNX_ATTRIBUTE_STRINGS, &modes) ||
		!ints_read(graph, node, "nodes_treeids", count, false, &trees) ||
		!ints_read(graph, node, "nodes_nodeids", count, false, &nodes) ||
		!ints_read(graph, node, "nodes_featureids", count, false, &features) ||
		!ints_read(graph, node, "nodes_missing_value_tracks_true", count, true, &missing) ||
		!trees_numbers_read(graph, node, "nodes_values", &thresholds_count, wide, &thresholds) ||
		!list_same(graph, node, "nodes_values", thresholds_count, count) ||
		!list_same(graph, node, "nodes_modes", modes == NULL ? 0 : modes->count, count))
		return false;
	for (uint32_t n = 0; n < count; n++)
	{
		struct tree_node *to = &source->nodes[n];

		if (!mode_read(graph, node, &modes->strings[n], &to->mode))
			return false;
		to->feature = features[n];
		to->threshold = thresholds[n];
		to->missing_yes = missing != NULL && missing[n] == 1;
		ids[n] = (struct tree_id) {trees[n], nodes[n], n};
	}
	return true;
}

/* Trees in the order of their first nodes, which are their roots. */
static bool
roots_find(struct graph *graph, struct tree_source *source, const struct tree_id *ids)
{
	uint32_t	count = source->nodes_count;
	bool	   *first = graph_pool(graph->memory, count, sizeof(*first));

	source->roots = graph_pool(graph->memory, count, sizeof(*source->roots));
	if (first == NULL || source->roots == NULL)
		return false;
	for (uint32_t i = 0; i < count;)
	{
		uint32_t	least = ids[i].node;
		int64_t		tree = ids[i].tree;

		for (; i < count && ids[i].tree == tree; i++)
			least = ids[i].node < least ? ids[i].node : least;
		first[least] = true;
	}
	for (uint32_t n = 0; n < count; n++)
		if (first[n])
		{
			source->nodes[n].tree = source->roots_count;
			source->roots[source->roots_count++] = n;
		}
	for (uint32_t i = 0; i < count;)
	{
		uint32_t	start = i;
		uint32_t	place = 0;

		for (; i < count && ids[i].tree == ids[start].tree; i++)
			if (first[ids[i].node])
				place = source->nodes[ids[i].node].tree;
		for (uint32_t n = start; n < i; n++)
			source->nodes[ids[n].node].tree = place;
	}
	return true;
}

static bool
edges_find(struct graph *graph, const struct onnx_node *node, struct tree_source *source,
		   const int64_t *trees, const struct tree_id *ids)
{
	const int64_t *yes, *no;

	if (!ints_read(graph, node, "nodes_truenodeids", source->nodes_count, false, &yes) ||
		!ints_read(graph, node, "nodes_falsenodeids", source->nodes_count, false, &no))
		return false;
	for (uint32_t n = 0; n < source->nodes_count; n++)
	{
		struct tree_node *from = &source->nodes[n];

		if (from->mode == TREE_LEAF)
			continue;
		from->yes = id_find(ids, source->nodes_count, trees[n], yes[n]);
		from->no = id_find(ids, source->nodes_count, trees[n], no[n]);
		if (from->yes == TREES_NONE || from->no == TREES_NONE)
			return graph_malformed(graph, node, "has a tree (%" PRId64 ") without the node %" PRId64 " that another leads to",
								   trees[n], from->yes == TREES_NONE ? yes[n] : no[n]);
	}
	return true;
}

/* Sorts the votes by the leaf that they belong to; those of one leaf keep their order. */
static bool
votes_find(struct graph *graph, const struct onnx_node *node, struct tree_source *source,
		   const char *prefix, bool *wide, const struct tree_id *ids)
{
	const char *names[4];
	static const char *const parts[4] = {"treeids", "nodeids", "ids", "weights"};
	const int64_t *trees, *nodes, *targets;
	double	   *weights;
	uint32_t	count;
	uint32_t	placed = 0;
	uint32_t   *leaf;

	for (int i = 0; i < 4; i++)
	{
		names[i] = graph_pool_printf(graph->memory, "%s_%s", prefix, parts[i]);
		if (names[i] == NULL)
			return false;
	}
	if (!trees_numbers_read(graph, node, names[3], &count, wide, &weights) ||
		!ints_read(graph, node, names[0], count, false, &trees) ||
		!ints_read(graph, node, names[1], count, false, &nodes) ||
		!ints_read(graph, node, names[2], count, false, &targets))
		return false;
	leaf = graph_pool(graph->memory, count, sizeof(*leaf));
	source->votes_count = count;
	source->votes_target = graph_pool(graph->memory, count, sizeof(*source->votes_target));
	source->votes_weight = graph_pool(graph->memory, count, sizeof(*source->votes_weight));
	if (leaf == NULL || source->votes_target == NULL || source->votes_weight == NULL)
		return false;
	for (uint32_t v = 0; v < count; v++)
	{
		leaf[v] = id_find(ids, source->nodes_count, trees[v], nodes[v]);
		if (leaf[v] == TREES_NONE)
			return graph_malformed(graph, node, "has a vote of the node %" PRId64 ", which tree %" PRId64 " does not have",
								   nodes[v], trees[v]);
		if (targets[v] < 0 || targets[v] >= source->targets)
			return graph_malformed(graph, node, "has a vote for %" PRId64 " of %u targets or classes",
								   targets[v], source->targets);
		if (!isfinite(weights[v]))
			return graph_malformed(graph, node, "has a vote whose weight is not a finite number");
		source->nodes[leaf[v]].votes_count++;
	}
	for (uint32_t n = 0; n < source->nodes_count; n++)
	{
		source->nodes[n].votes_first = placed;
		placed += source->nodes[n].votes_count;
		source->nodes[n].votes_count = 0;
	}
	for (uint32_t v = 0; v < count; v++)
	{
		struct tree_node *to = &source->nodes[leaf[v]];
		uint32_t	at = to->votes_first + to->votes_count++;

		source->votes_target[at] = (uint32_t) targets[v];
		source->votes_weight[at] = weights[v];
	}
	return true;
}

bool
trees_read(struct graph *graph, const struct onnx_node *node, const char *prefix,
		   struct tree_source *source, bool *wide)
{
	const struct onnx_attribute *trees;
	struct tree_id *ids;

	graph_attribute_ignore(graph, node, "nodes_hitrates");
	graph_attribute_ignore(graph, node, "nodes_hitrates_as_tensor");
	if (!graph_attribute_list(graph, node, "nodes_treeids", ONNX_ATTRIBUTE_INTS, &trees))
		return false;
	source->nodes_count = trees == NULL ? 0 : trees->count;
	if (source->nodes_count == 0)
		return graph_malformed(graph, node, "has no trees");
	source->nodes = graph_pool(graph->memory, source->nodes_count, sizeof(*source->nodes));
	ids = graph_pool(graph->memory, source->nodes_count, sizeof(*ids));
	if (source->nodes == NULL || ids == NULL || !nodes_read(graph, node, source, wide, ids))
		return false;
	qsort(ids, source->nodes_count, sizeof(*ids), id_compare);
	for (uint32_t i = 1; i < source->nodes_count; i++)
		if (id_compare(&ids[i - 1], &ids[i]) == 0)
			return graph_malformed(graph, node, "has a tree (%" PRId64 ") with two nodes %" PRId64,
								   ids[i].tree, ids[i].id);
	return roots_find(graph, source, ids) && edges_find(graph, node, source, trees->ints, ids) &&
		votes_find(graph, node, source, prefix, wide, ids);
}

/* ---- TreeEnsemble 5 ---- */

/* Leaves lie behind the nodes. */
static bool
leaves_read(struct graph *graph, const struct onnx_node *node, struct tree_source *source,
			uint32_t inner, uint32_t leaves, const double *weights)
{
	const int64_t *targets;

	if (!ints_read(graph, node, "leaf_targetids", leaves, false, &targets))
		return false;
	source->votes_count = leaves;
	source->votes_target = graph_pool(graph->memory, leaves, sizeof(*source->votes_target));
	source->votes_weight = graph_pool(graph->memory, leaves, sizeof(*source->votes_weight));
	if (source->votes_target == NULL || source->votes_weight == NULL)
		return false;
	for (uint32_t v = 0; v < leaves; v++)
	{
		struct tree_node *leaf = &source->nodes[inner + v];

		if (targets[v] < 0 || targets[v] >= source->targets)
			return graph_malformed(graph, node, "has a vote for %" PRId64 " of %u targets", targets[v], source->targets);
		if (!isfinite(weights[v]))
			return graph_malformed(graph, node, "has a vote whose weight is not a finite number");
		leaf->mode = TREE_LEAF;
		leaf->votes_first = v;
		leaf->votes_count = 1;
		source->votes_target[v] = (uint32_t) targets[v];
		source->votes_weight[v] = weights[v];
	}
	return true;
}

/* Sets follow one another in the order of the nodes that use them, a NaN behind each. */
static bool
members_read(struct graph *graph, const struct onnx_node *node, struct tree_source *source,
			 uint32_t inner)
{
	double	   *members;
	uint32_t	count;
	uint32_t	at = 0;
	uint8_t		type;

	if (!tensor_doubles(graph, node, "membership_values", &count, &type, &members))
		return false;
	source->members = members;
	for (uint32_t n = 0; n < inner; n++)
	{
		if (source->nodes[n].mode != TREE_MEMBER)
			continue;
		if (at == count)
			return graph_malformed(graph, node, "has fewer sets in membership_values than nodes that use one");
		source->nodes[n].members_first = at;
		while (at < count && !isnan(members[at]))
			at++;
		source->nodes[n].members_count = at - source->nodes[n].members_first;
		at += at < count;
	}
	if (at != count)
		return graph_malformed(graph, node, "has more sets in membership_values than nodes that use one");
	return true;
}

static bool
edge_read(struct graph *graph, const struct onnx_node *node, int64_t id, int64_t is_leaf, uint32_t inner,
		  uint32_t leaves, uint32_t *to)
{
	if (id < 0 || id >= (is_leaf != 0 ? leaves : inner))
		return graph_malformed(graph, node, "has an edge to the %s %" PRId64 " of %u",
							   is_leaf != 0 ? "leaf" : "node", id, is_leaf != 0 ? leaves : inner);
	*to = (uint32_t) id + (is_leaf != 0 ? inner : 0);
	return true;
}

bool
trees_read_5(struct graph *graph, const struct onnx_node *node, struct tree_source *source, bool *wide)
{
	const struct onnx_attribute *roots;
	const int64_t *features, *yes, *no, *yes_leaf, *no_leaf, *missing;
	double	   *splits, *weights;
	const void *modes;
	uint32_t	inner, leaves, modes_count;
	uint8_t		type, weights_type, modes_type;

	graph_attribute_ignore(graph, node, "nodes_hitrates");
	if (!tensor_doubles(graph, node, "nodes_splits", &inner, &type, &splits) ||
		!tensor_doubles(graph, node, "leaf_weights", &leaves, &weights_type, &weights) ||
		!graph_attribute_numbers(graph, node, "nodes_modes", &modes_type, &modes_count, &modes) ||
		!graph_attribute_list(graph, node, "tree_roots", ONNX_ATTRIBUTE_INTS, &roots) ||
		!ints_read(graph, node, "nodes_featureids", inner, false, &features) ||
		!ints_read(graph, node, "nodes_truenodeids", inner, false, &yes) ||
		!ints_read(graph, node, "nodes_falsenodeids", inner, false, &no) ||
		!ints_read(graph, node, "nodes_trueleafs", inner, false, &yes_leaf) ||
		!ints_read(graph, node, "nodes_falseleafs", inner, false, &no_leaf) ||
		!ints_read(graph, node, "nodes_missing_value_tracks_true", inner, true, &missing) ||
		!list_same(graph, node, "nodes_modes", modes_count, inner))
		return false;
	if (inner == 0 || leaves == 0 || roots == NULL || roots->count == 0)
		return graph_malformed(graph, node, "has no trees");
	if (modes_type != ONNX_TENSOR_BYTES)
		return graph_malformed(graph, node, "has nodes_modes that are not of type uint8");
	if ((uint64_t) inner + leaves > INT32_MAX)
		return graph_unsupported(graph, node, "has more than %d nodes", INT32_MAX);
	*wide = *wide || type == DEVICE_F64 || weights_type == DEVICE_F64;
	source->nodes_count = inner + leaves;
	source->nodes = graph_pool(graph->memory, source->nodes_count, sizeof(*source->nodes));
	source->roots = graph_pool(graph->memory, roots->count, sizeof(*source->roots));
	if (source->nodes == NULL || source->roots == NULL)
		return false;
	for (uint32_t n = 0; n < inner; n++)
	{
		struct tree_node *to = &source->nodes[n];

		to->mode = ((const uint8_t *) modes)[n];
		if (to->mode > TREE_MEMBER)
			return graph_malformed(graph, node, "has a node of the unknown mode %u", to->mode);
		to->feature = features[n];
		to->threshold = splits[n];
		to->missing_yes = missing != NULL && missing[n] == 1;
		if (!edge_read(graph, node, yes[n], yes_leaf[n], inner, leaves, &to->yes) ||
			!edge_read(graph, node, no[n], no_leaf[n], inner, leaves, &to->no))
			return false;
	}
	source->roots_count = roots->count;
	for (uint32_t t = 0; t < roots->count; t++)
		if (!edge_read(graph, node, roots->ints[t], 0, inner, leaves, &source->roots[t]))
			return false;
	return leaves_read(graph, node, source, inner, leaves, weights) && members_read(graph, node, source, inner);
}
