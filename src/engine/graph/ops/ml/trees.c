/*
 * trees.c
 *	  Tree ensembles of ai.onnx.ml: TreeEnsembleClassifier, TreeEnsembleRegressor, TreeEnsemble.
 *
 * The device adds up what leaves say; base values, post-transforms and labels are ops of their
 * own behind it.  The specification leaves open what a classifier of two classes does whose
 * leaves vote for one of them only, and which classes compete for the label; here
 * onnxruntime's rules hold, with two exceptions: what it leaves unset or reads from nowhere
 * is refused, and where it answers the numbers 1 and 0 for the second and the first class
 * whatever they are called, the classes' own labels are given.
 */
#include "ml.h"
#include "trees.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct ensemble						/* what the three operators have in common */
{
	struct tree_source source;
	int32_t		x;					/* [N, features] */
	uint8_t		x_type;				/* as it was given */
	enum ml_post post;
	uint32_t	base_count;			/* 0, or one of each target */
	double	   *base;
};

/* ---- common ---- */

/* The input as [N, features]; integers are compared as float32 are, like onnxruntime's. */
static bool
input_read(struct graph *graph, const struct onnx_node *node, struct ensemble *e)
{
	const struct graph_value *v;

	e->x = graph_input(graph, node, 0);
	if (e->x == GRAPH_FAILED)
		return false;
	v = graph_value(graph, e->x);
	e->x_type = v->type;
	if (v->type == DEVICE_STRING || v->type == DEVICE_BOOL)
		return graph_unsupported(graph, node, "has an input of type %s", infer_type_name(v->type));
	if (v->rank < 1 || v->rank > 2)
		return graph_unsupported(graph, node, "has an input that is not of one or two dimensions");
	e->source.features = v->dims[v->rank - 1];
	if (e->source.features < 1 || e->source.features > INT32_MAX / DEVICE_TREE_LANES)
		return graph_unsupported(graph, node, "has rows of %" PRId64 " features", e->source.features);
	if (v->rank == 1)
	{
		int64_t		dims[2] = {1, e->source.features};

		e->x = graph_view(graph, e->x, 2, dims);
	}
	return e->x != GRAPH_FAILED;
}

static bool
targets_check(struct graph *graph, const struct onnx_node *node, int64_t targets)
{
	if (targets >= 1 && targets <= TREES_TARGETS_MAX)
		return true;
	return graph_unsupported(graph, node, "has %" PRId64 " targets or classes", targets);
}

static bool
base_read(struct graph *graph, const struct onnx_node *node, struct ensemble *e, bool *wide)
{
	return trees_numbers_read(graph, node, "base_values", &e->base_count, wide, &e->base);
}

/* float64 where the input or any of the numbers is. */
static void
type_choose(struct graph *graph, struct ensemble *e, bool wide)
{
	e->source.type = wide || e->x_type == DEVICE_F64 ? DEVICE_F64 : DEVICE_F32;
	e->x = graph_cast(graph, graph_cast(graph, e->x, e->x_type == DEVICE_F64 ? DEVICE_F64 : DEVICE_F32),
					  e->source.type);
}

/* What the leaves say, [N, targets]. */
static int32_t
trees_apply(struct graph *graph, const struct onnx_node *node, const struct ensemble *e, uint16_t fn)
{
	struct device_op op = {.op = DEVICE_OP_TREES, .fn = fn};
	int64_t		dims[2] = {0, e->source.targets};

	if (e->x == GRAPH_FAILED)
		return GRAPH_FAILED;
	op.params = trees_pack(graph, node, &e->source, fn == TREES_SUM);
	if (op.params == NULL)
		return GRAPH_FAILED;
	dims[0] = graph_value(graph, e->x)->dims[0];
	return graph_emit(graph, &op, 1, &e->x, e->source.type, 2, dims);
}

/* Columns [first, first + count) of [N, C]. */
static int32_t
columns(struct graph *graph, int32_t x, int64_t first, int64_t count)
{
	int64_t		dims[2] = {0, count};
	int64_t		steps[2] = {0, 1};

	if (x == GRAPH_FAILED)
		return x;
	dims[0] = graph_value(graph, x)->dims[0];
	steps[0] = graph_value(graph, x)->dims[1];
	return graph_copy(graph, x, 2, dims, first, steps);
}

static int32_t
base_add(struct graph *graph, const struct ensemble *e, int32_t x)
{
	int64_t		dims[1] = {e->base_count};
	void	   *data;
	int32_t		base;

	if (e->base_count == 0)
		return x;
	base = graph_constant_make(graph, e->source.type, 1, dims, &data);
	for (uint32_t i = 0; base >= 0 && i < e->base_count; i++)
	{
		if (e->source.type == DEVICE_F64)
			((double *) data)[i] = e->base[i];
		else
			((float *) data)[i] = (float) e->base[i];
	}
	return graph_binary(graph, BINARY_ADD, x, base);
}

/* ---- regression ---- */

enum aggregate						/* by the numbers of TreeEnsemble 5 */
{
	AGGREGATE_AVERAGE, AGGREGATE_SUM, AGGREGATE_MIN, AGGREGATE_MAX
};

static bool
regress(struct graph *graph, const struct onnx_node *node, const struct ensemble *e,
		enum aggregate aggregate, uint8_t type)
{
	int32_t		y = trees_apply(graph, node, e, aggregate == AGGREGATE_MIN ? TREES_MIN :
								aggregate == AGGREGATE_MAX ? TREES_MAX : TREES_SUM);

	if (aggregate == AGGREGATE_AVERAGE)
		y = graph_binary(graph, BINARY_DIV, y,
						 graph_constant_number(graph, e->source.type, e->source.roots_count));
	y = base_add(graph, e, y);
	if (y != GRAPH_FAILED && (e->source.targets > 1 || e->post == ML_POST_PROBIT))
		y = ml_post_apply(graph, e->post, y);	/* with one target the others change nothing */
	return graph_output(graph, node, 0, graph_cast(graph, y, type));
}

/*
 * A target without votes is what an exporter leaves that knew one target only: onnxruntime
 * says 0, the specification the base value, and the model something else.
 */
static bool
targets_voted(struct graph *graph, const struct onnx_node *node, const struct ensemble *e)
{
	bool	   *voted = graph_pool(graph->memory, e->source.targets, sizeof(*voted));

	if (voted == NULL)
		return false;
	for (uint32_t v = 0; v < e->source.votes_count; v++)
		voted[e->source.votes_target[v]] = true;
	for (uint32_t t = 0; t < e->source.targets; t++)
		if (!voted[t])
			return graph_unsupported(graph, node, "has no leaf for target %u of %u", t, e->source.targets);
	return true;
}

bool
lower_tree_ensemble_regressor(struct graph *graph, const struct onnx_node *node)
{
	static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
	struct ensemble e = {0};
	const char *name;
	int64_t		targets;
	int			aggregate = 0;
	bool		wide = false;

	if (!input_read(graph, node, &e) || !ml_post_read(graph, node, &e.post) ||
		!graph_attribute_string(graph, node, "aggregate_function", "SUM", &name) ||
		!graph_attribute_int(graph, node, "n_targets", 1, &targets) || !targets_check(graph, node, targets))
		return false;
	while (aggregate < 4 && strcmp(name, names[aggregate]) != 0)
		aggregate++;
	if (aggregate == 4)
		return graph_malformed(graph, node, "has the unknown aggregate_function \"%.50s\"", name);
	e.source.targets = (uint32_t) targets;
	if (!base_read(graph, node, &e, &wide) || !trees_read(graph, node, "target", &e.source, &wide))
		return false;
	if (e.base_count != 0 && e.base_count != e.source.targets)
		return graph_malformed(graph, node, "has %u base values for %" PRId64 " targets", e.base_count, targets);
	type_choose(graph, &e, wide);
	return targets_voted(graph, node, &e) &&
		regress(graph, node, &e, (enum aggregate) aggregate, DEVICE_F32);
}

bool
lower_tree_ensemble(struct graph *graph, const struct onnx_node *node)
{
	struct ensemble e = {0};
	int64_t		post, aggregate, targets;
	bool		wide = false;

	if (!input_read(graph, node, &e) ||
		!graph_attribute_int(graph, node, "post_transform", ML_POST_NONE, &post) ||
		!graph_attribute_int(graph, node, "aggregate_function", AGGREGATE_SUM, &aggregate) ||
		!graph_attribute_int(graph, node, "n_targets", 1, &targets) || !targets_check(graph, node, targets))
		return false;
	if (e.x_type != DEVICE_F32 && e.x_type != DEVICE_F64)
		return graph_malformed(graph, node, "has an input of type %s", infer_type_name(e.x_type));
	if (post < ML_POST_NONE || post > ML_POST_PROBIT)
		return graph_malformed(graph, node, "has the unknown post_transform %" PRId64, post);
	if (aggregate < AGGREGATE_AVERAGE || aggregate > AGGREGATE_MAX)
		return graph_malformed(graph, node, "has the unknown aggregate_function %" PRId64, aggregate);
	e.post = (enum ml_post) post;
	e.source.targets = (uint32_t) targets;
	if (!trees_read_5(graph, node, &e.source, &wide))
		return false;
	type_choose(graph, &e, wide);
	return regress(graph, node, &e, (enum aggregate) aggregate, e.x_type);
}

/* ---- classification ---- */

enum voted							/* by a row's leaves, for a class */
{
	VOTED_NEVER, VOTED_SOMETIMES, VOTED_ALWAYS
};

/* The nodes, those of one tree together. */
static uint32_t *
nodes_by_tree(struct graph *graph, const struct tree_source *source)
{
	uint32_t   *next = graph_pool(graph->memory, (uint64_t) source->roots_count + 1, sizeof(*next));
	uint32_t   *order = graph_pool(graph->memory, source->nodes_count, sizeof(*order));

	if (next == NULL || order == NULL)
		return NULL;
	for (uint32_t n = 0; n < source->nodes_count; n++)
		next[source->nodes[n].tree + 1]++;
	for (uint32_t t = 0; t < source->roots_count; t++)
		next[t + 1] += next[t];
	for (uint32_t n = 0; n < source->nodes_count; n++)
		order[next[source->nodes[n].tree]++] = n;
	return order;
}

/*
 * A class that all leaves of some tree vote for has a score whatever the row is; one that no
 * leaf votes for never has.
 */
static const uint8_t *
classes_voted(struct graph *graph, const struct tree_source *source)
{
	uint8_t    *voted = graph_pool(graph->memory, source->targets, sizeof(*voted));
	uint32_t   *leaves = graph_pool(graph->memory, source->targets, sizeof(*leaves));
	uint32_t   *last = graph_pool(graph->memory, source->targets, sizeof(*last));
	const uint32_t *order = nodes_by_tree(graph, source);

	if (voted == NULL || leaves == NULL || last == NULL || order == NULL)
		return NULL;
	for (uint32_t i = 0; i < source->nodes_count;)
	{
		uint32_t	start = i;
		uint32_t	tree = source->nodes[order[i]].tree;
		uint32_t	tree_leaves = 0;

		for (; i < source->nodes_count && source->nodes[order[i]].tree == tree; i++)
		{
			const struct tree_node *leaf = &source->nodes[order[i]];

			if (leaf->mode != TREE_LEAF)
				continue;
			tree_leaves++;
			for (uint32_t v = leaf->votes_first; v < leaf->votes_first + leaf->votes_count; v++)
			{
				uint32_t	target = source->votes_target[v];

				if (last[target] != order[i] + 1)	/* a leaf counts once */
					leaves[target]++;
				last[target] = order[i] + 1;
				if (voted[target] == VOTED_NEVER)
					voted[target] = VOTED_SOMETIMES;
			}
		}
		for (uint32_t n = start; n < i; n++)
		{
			const struct tree_node *leaf = &source->nodes[order[n]];

			for (uint32_t v = leaf->votes_first; leaf->mode == TREE_LEAF && v < leaf->votes_first + leaf->votes_count; v++)
			{
				uint32_t	target = source->votes_target[v];

				if (leaves[target] == tree_leaves)
					voted[target] = VOTED_ALWAYS;
			}
		}
		for (uint32_t n = start; n < i; n++)
		{
			const struct tree_node *leaf = &source->nodes[order[n]];

			for (uint32_t v = leaf->votes_first; v < leaf->votes_first + leaf->votes_count; v++)
				leaves[source->votes_target[v]] = 0;
		}
	}
	return voted;
}

/* A second column for each class, which counts its votes. */
static bool
votes_count_too(struct graph *graph, struct tree_source *source)
{
	uint32_t   *targets = graph_pool(graph->memory, 2 * (uint64_t) source->votes_count, sizeof(*targets));
	double	   *weights = graph_pool(graph->memory, 2 * (uint64_t) source->votes_count, sizeof(*weights));

	if (targets == NULL || weights == NULL)
		return false;
	for (uint32_t v = 0; v < source->votes_count; v++)
	{
		targets[2 * v] = source->votes_target[v];
		weights[2 * v] = source->votes_weight[v];
		targets[2 * v + 1] = source->votes_target[v] + source->targets;
		weights[2 * v + 1] = 1;
	}
	for (uint32_t n = 0; n < source->nodes_count; n++)
	{
		source->nodes[n].votes_first *= 2;
		source->nodes[n].votes_count *= 2;
	}
	source->votes_target = targets;
	source->votes_weight = weights;
	source->votes_count *= 2;
	source->targets *= 2;
	return true;
}

static bool
classifier_output(struct graph *graph, const struct onnx_node *node, const struct ml_labels *labels,
				  int32_t place, int32_t scores)
{
	int32_t		label = ml_labels_at(graph, labels, place);

	scores = graph_cast(graph, scores, DEVICE_F32);
	return graph_role_label(graph, label) &&
		graph_role_scores(graph, scores, labels->type, labels->count, labels->data, false) &&
		graph_output(graph, node, 0, label) && graph_output(graph, node, 1, scores);
}

/* The first of the greatest scores, among classes with votes unless there are base values. */
static bool
classify_many(struct graph *graph, const struct onnx_node *node, struct ensemble *e,
			  const struct ml_labels *labels, const uint8_t *voted, bool positive)
{
	uint32_t	classes = labels->count;
	bool		counts = false;
	int32_t		sums, scores, chosen;

	/* a class without votes has the score 0, which cannot win over positive ones */
	for (uint32_t c = 0; c < classes && e->base_count == 0 && !positive; c++)
		counts = counts || voted[c] != VOTED_ALWAYS;
	if (counts && !votes_count_too(graph, &e->source))
		return false;
	sums = trees_apply(graph, node, e, TREES_SUM);
	scores = counts ? columns(graph, sums, 0, classes) : base_add(graph, e, sums);
	chosen = scores;
	if (counts)
		chosen = graph_where(graph, graph_binary(graph, BINARY_GREATER, columns(graph, sums, classes, classes),
												 graph_constant_number(graph, e->source.type, 0)),
							 scores, graph_constant_number(graph, e->source.type, -INFINITY));
	return classifier_output(graph, node, labels, graph_arg(graph, ARG_MAX, chosen, 1, false, false),
							 scores == GRAPH_FAILED ? scores : ml_post_apply(graph, e->post, scores));
}

/* x > threshold as places [N] of the two classes. */
static int32_t
second_if_above(struct graph *graph, int32_t x, double threshold)
{
	int64_t		rows;

	if (x == GRAPH_FAILED)
		return x;
	rows = graph_value(graph, x)->dims[0];
	x = graph_binary(graph, BINARY_GREATER, x,
					 graph_constant_number(graph, graph_value(graph, x)->type, threshold));
	return graph_cast(graph, graph_view(graph, x, 1, &rows), DEVICE_I64);
}

/* One score of the second class; the first's is what is left of 1, or the opposite. */
static bool
classify_one_score(struct graph *graph, const struct onnx_node *node, struct ensemble *e,
				   const struct ml_labels *labels, bool positive)
{
	int32_t		score = columns(graph, trees_apply(graph, node, e, TREES_SUM), 0, 1);
	int32_t		both[2];

	if (e->post == ML_POST_PROBIT)
		return graph_unsupported(graph, node, "has the post_transform PROBIT with votes for one of two classes");
	score = base_add(graph, e, score);
	both[1] = score;
	if (e->post == ML_POST_LOGISTIC)
	{
		both[0] = graph_unary(graph, UNARY_SIGMOID, graph_unary(graph, UNARY_NEG, score, 0, 0), 0, 0);
		both[1] = graph_unary(graph, UNARY_SIGMOID, score, 0, 0);
	}
	else if (positive)
		both[0] = graph_binary(graph, BINARY_SUB, graph_constant_number(graph, e->source.type, 1), score);
	else
		both[0] = graph_unary(graph, UNARY_NEG, score, 0, 0);
	return classifier_output(graph, node, labels, second_if_above(graph, score, positive ? 0.5 : 0),
							 graph_concat(graph, 2, both, 1));
}

static bool
classify_two(struct graph *graph, const struct onnx_node *node, struct ensemble *e,
			 const struct ml_labels *labels, const uint8_t *voted, bool positive)
{
	bool		both_voted = voted[0] != VOTED_NEVER && voted[1] != VOTED_NEVER;
	double		threshold = !both_voted && positive ? 0.5 : 0;
	int32_t		sums, scores[2], decides;

	if (voted[1] == VOTED_SOMETIMES || (voted[0] == VOTED_SOMETIMES && e->base_count > 0))
		return graph_unsupported(graph, node, "has leaves without a vote for one of two classes beside leaves with one");
	if (voted[1] == VOTED_NEVER && e->base_count < 2)
		return classify_one_score(graph, node, e, labels, positive);
	sums = trees_apply(graph, node, e, TREES_SUM);
	scores[0] = columns(graph, sums, 0, 1);
	scores[1] = columns(graph, sums, 1, 1);
	if (e->base_count == 1 && voted[0] != VOTED_NEVER)
		scores[0] = base_add(graph, e, scores[0]);
	if (e->base_count == 2)
	{
		int32_t		base[2] = {graph_constant_number(graph, e->source.type, e->base[0]),
			graph_constant_number(graph, e->source.type, e->base[1])};

		if (both_voted)
		{
			scores[1] = graph_binary(graph, BINARY_ADD, base[1], scores[0]);
			scores[0] = graph_unary(graph, UNARY_NEG, scores[1], 0, 0);
		}
		else if (voted[0] != VOTED_NEVER)
			scores[0] = graph_binary(graph, BINARY_ADD, scores[0], base[0]);
		else					/* the first class's sum, which is nothing, and not the second's */
			scores[1] = graph_binary(graph, BINARY_ADD, scores[0], base[1]);
	}
	decides = voted[1] == VOTED_NEVER ? scores[0] : scores[1];
	decides = second_if_above(graph, decides, threshold);
	sums = graph_concat(graph, 2, scores, 1);
	return classifier_output(graph, node, labels, decides,
							 sums == GRAPH_FAILED ? sums : ml_post_apply(graph, e->post, sums));
}

bool
lower_tree_ensemble_classifier(struct graph *graph, const struct onnx_node *node)
{
	struct ensemble e = {0};
	struct ml_labels labels;
	const uint8_t *voted;
	bool		wide = false;
	bool		not_negative = true;
	bool		positive = true;

	if (!input_read(graph, node, &e) || !ml_post_read(graph, node, &e.post) ||
		!ml_labels_read(graph, node, "classlabels_strings", "classlabels_int64s", &labels) ||
		!targets_check(graph, node, labels.count))
		return false;
	if (labels.count == 1)
		return graph_unsupported(graph, node, "has one class only");
	e.source.targets = labels.count;
	if (!base_read(graph, node, &e, &wide) || !trees_read(graph, node, "class", &e.source, &wide))
		return false;
	if (e.source.votes_count == 0)
		return graph_malformed(graph, node, "has no votes for classes");
	if (e.base_count != 0 && e.base_count != labels.count && !(labels.count == 2 && e.base_count == 1))
		return graph_malformed(graph, node, "has %u base values for %u classes", e.base_count, labels.count);
	type_choose(graph, &e, wide);
	voted = classes_voted(graph, &e.source);
	if (voted == NULL)
		return false;
	for (uint32_t v = 0; v < e.source.votes_count; v++)
	{
		not_negative = not_negative && e.source.votes_weight[v] >= 0;
		positive = positive && e.source.votes_weight[v] > 0;
	}
	if (labels.count == 2)
		return classify_two(graph, node, &e, &labels, voted, not_negative);
	return classify_many(graph, node, &e, &labels, voted, positive);
}
