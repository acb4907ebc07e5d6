/*
 * svm.c
 *	  Support vector machines of ai.onnx.ml: SVMClassifier, SVMRegressor.
 *
 * Nouns
 *	kernel		k(x, v) of a row and a support vector
 *	pair		classes i < j with a decision of their own, in the order (0,1), (0,2), … (1,2) …:
 *				i is chosen if its score is positive
 *
 * The specification says little; the rules for votes, for the shape of the scores and for
 * models without support vectors are onnxruntime's.
 */
#include "ml.h"

#include <inttypes.h>
#include <string.h>

#define SVM_CLASSES_MAX	1024

enum kernel
{
	KERNEL_LINEAR,
	KERNEL_POLY,
	KERNEL_RBF,
	KERNEL_SIGMOID
};

struct svm
{
	int32_t		x;					/* F32 [N, features] */
	enum kernel kernel;
	float		gamma, coef0, degree;
	const struct onnx_attribute *coefficients;
	const struct onnx_attribute *rho;
	const struct onnx_attribute *vectors;	/* NULL: none, the coefficients are a linear model's */
};

static bool
kernel_read(struct graph *graph, const struct onnx_node *node, struct svm *svm)
{
	static const char *const names[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
	const struct onnx_attribute *params;
	const char *name;

	if (!graph_attribute_string(graph, node, "kernel_type", "LINEAR", &name) ||
		!graph_attribute_list(graph, node, "kernel_params", ONNX_ATTRIBUTE_FLOATS, &params))
		return false;
	if (params != NULL && params->count > 0)
	{
		if (params->count < 3)
			return graph_malformed(graph, node, "does not have three kernel_params");
		svm->gamma = params->floats[0];
		svm->coef0 = params->floats[1];
		svm->degree = params->floats[2];
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
		{
			svm->kernel = (enum kernel) i;
			return true;
		}
	return graph_malformed(graph, node, "has the unknown kernel_type \"%.50s\"", name);
}

static bool
svm_read(struct graph *graph, const struct onnx_node *node, struct svm *svm)
{
	memset(svm, 0, sizeof(*svm));
	svm->x = ml_matrix_input(graph, node);
	if (svm->x == GRAPH_FAILED || !kernel_read(graph, node, svm) ||
		!graph_attribute_list(graph, node, "coefficients", ONNX_ATTRIBUTE_FLOATS, &svm->coefficients) ||
		!graph_attribute_list(graph, node, "rho", ONNX_ATTRIBUTE_FLOATS, &svm->rho) ||
		!graph_attribute_list(graph, node, "support_vectors", ONNX_ATTRIBUTE_FLOATS, &svm->vectors))
		return false;
	if (svm->coefficients == NULL || svm->coefficients->count == 0 || svm->rho == NULL || svm->rho->count == 0)
		return graph_malformed(graph, node, "has no coefficients or no rho");
	return true;
}

/* k(x, v) of every support vector: [N, count]. */
static int32_t
svm_kernels(struct graph *graph, const struct onnx_node *node, const struct svm *svm, int64_t count)
{
	int64_t		dims[2] = {count, ml_features(graph, svm->x)};
	int32_t		y;

	if (svm->vectors == NULL || svm->vectors->count != count * dims[1])
	{
		graph_malformed(graph, node, "has %u numbers in support_vectors for %" PRId64 " vectors of %" PRId64
						" features", svm->vectors == NULL ? 0 : svm->vectors->count, count, dims[1]);
		return GRAPH_FAILED;
	}
	if (svm->kernel == KERNEL_RBF)
	{
		y = graph_distance(graph, svm->x, graph_constant(graph, DEVICE_F32, 2, dims, svm->vectors->floats));
		y = graph_binary(graph, BINARY_MUL, y, graph_constant_number(graph, DEVICE_F32, -svm->gamma));
		return graph_unary(graph, UNARY_EXP, y, 0, 0);
	}
	y = ml_product(graph, svm->x, count, dims[1], svm->vectors->floats);
	if (svm->kernel == KERNEL_LINEAR)
		return y;
	y = graph_binary(graph, BINARY_MUL, y, graph_constant_number(graph, DEVICE_F32, svm->gamma));
	y = graph_binary(graph, BINARY_ADD, y, graph_constant_number(graph, DEVICE_F32, svm->coef0));
	if (svm->kernel == KERNEL_SIGMOID)
		return graph_unary(graph, UNARY_TANH, y, 0, 0);
	return graph_binary(graph, BINARY_POW, y, graph_constant_number(graph, DEVICE_F32, svm->degree));
}

static int32_t
add_number(struct graph *graph, int32_t x, float number)
{
	return graph_binary(graph, BINARY_ADD, x, graph_constant_number(graph, DEVICE_F32, number));
}

/* ---- SVMRegressor ---- */

bool
lower_svm_regressor(struct graph *graph, const struct onnx_node *node)
{
	struct svm	svm;
	enum ml_post post;
	int64_t		count, one_class;
	int32_t		y;

	if (!svm_read(graph, node, &svm) || !ml_post_read(graph, node, &post) ||
		!graph_attribute_int(graph, node, "n_supports", 0, &count) ||
		!graph_attribute_int(graph, node, "one_class", 0, &one_class))
		return false;
	if (post != ML_POST_NONE)
		return graph_unsupported(graph, node, "has a post_transform");
	if (svm.coefficients->count != (count > 0 ? count : ml_features(graph, svm.x)))
		return graph_malformed(graph, node, "has %u coefficients for %" PRId64 " support vectors of %" PRId64 " features",
							   svm.coefficients->count, count, ml_features(graph, svm.x));
	y = count > 0 ? svm_kernels(graph, node, &svm, count) : svm.x;
	y = ml_product(graph, y, 1, svm.coefficients->count, svm.coefficients->floats);
	y = add_number(graph, y, svm.rho->floats[0]);
	if (one_class != 0)
		y = graph_where(graph, graph_binary(graph, BINARY_GREATER, y, graph_constant_number(graph, DEVICE_F32, 0)),
						graph_constant_number(graph, DEVICE_F32, 1), graph_constant_number(graph, DEVICE_F32, -1));
	return graph_output(graph, node, 0, y);
}

/* ---- SVMClassifier with support vectors ---- */

struct classifier
{
	struct svm	svm;
	struct ml_labels labels;
	enum ml_post post;
	int64_t		pairs;
	const struct onnx_attribute *counts;	/* support vectors of each class */
	const struct onnx_attribute *prob_a;
	const struct onnx_attribute *prob_b;
};

/* Counts add up, and there are as many numbers of each kind as classes, pairs and vectors ask for. */
static bool
classifier_check(struct graph *graph, const struct onnx_node *node, const struct classifier *c, int64_t *vectors)
{
	bool		probabilities = c->prob_a != NULL && c->prob_a->count > 0;

	*vectors = 0;
	if (c->counts->count != c->labels.count)
		return graph_malformed(graph, node, "has %u vectors_per_class for %u classes", c->counts->count, c->labels.count);
	for (uint32_t i = 0; i < c->counts->count; i++)
	{
		if (c->counts->ints[i] < 0 || c->counts->ints[i] > INT32_MAX)
			return graph_malformed(graph, node, "has an impossible number of support vectors");
		*vectors += c->counts->ints[i];
	}
	if (c->svm.coefficients->count != (c->labels.count - 1) * *vectors)
		return graph_malformed(graph, node, "has %u coefficients for %" PRId64 " support vectors and %u classes",
							   c->svm.coefficients->count, *vectors, c->labels.count);
	if (c->svm.rho->count < c->pairs ||
		(probabilities && (c->prob_a->count < c->pairs || c->prob_b == NULL || c->prob_b->count != c->prob_a->count)))
		return graph_malformed(graph, node, "has not as many numbers in rho, prob_a and prob_b as pairs of classes");
	return true;
}

/*
 * The decisions' coefficients as a matrix [pairs, vectors], in float64: large terms of both
 * signs make up a score.  A pair looks at its classes' vectors alone.
 */
static int32_t
pair_matrix(struct graph *graph, const struct classifier *c, int64_t vectors)
{
	int64_t		dims[2] = {c->pairs, vectors};
	const float *coefficients = c->svm.coefficients->floats;
	void	   *data;
	int32_t		matrix = graph_constant_make(graph, DEVICE_F64, 2, dims, &data);
	double	   *row = matrix == GRAPH_FAILED ? NULL : data;
	int64_t		first_i = 0;

	for (uint32_t i = 0; row != NULL && i < c->labels.count; i++)
	{
		int64_t		first_j = first_i + c->counts->ints[i];

		for (uint32_t j = i + 1; j < c->labels.count; j++, row += vectors)
		{
			for (int64_t m = first_i; m < first_i + c->counts->ints[i]; m++)
				row[m] = coefficients[(j - 1) * vectors + m];
			for (int64_t m = first_j; m < first_j + c->counts->ints[j]; m++)
				row[m] = coefficients[i * vectors + m];
			first_j += c->counts->ints[j];
		}
		first_i += c->counts->ints[i];
	}
	return matrix;
}

/* Votes of the pairs' scores [N, pairs]: the place of the class that has the most, [N]. */
static int32_t
pair_votes(struct graph *graph, const struct classifier *c, int32_t scores)
{
	int64_t		classes = c->labels.count;
	float	   *matrix = graph_pool(graph->memory, (uint64_t) (classes * c->pairs), sizeof(*matrix));
	float	   *lost = graph_pool(graph->memory, (uint64_t) classes, sizeof(*lost));
	int64_t		pair = 0;
	int32_t		votes;

	if (matrix == NULL || lost == NULL)
		return GRAPH_FAILED;
	for (int64_t i = 0; i < classes; i++)
		for (int64_t j = i + 1; j < classes; j++, pair++)
		{
			matrix[i * c->pairs + pair] = 1;
			matrix[j * c->pairs + pair] = -1;
			lost[j]++;				/* what j gets if the pair's score is not positive */
		}
	votes = graph_binary(graph, BINARY_GREATER, scores, graph_constant_number(graph, DEVICE_F32, 0));
	votes = ml_product(graph, graph_cast(graph, votes, DEVICE_F32), classes, c->pairs, matrix);
	votes = graph_binary(graph, BINARY_ADD, votes, graph_constant(graph, DEVICE_F32, 1, &classes, lost));
	return graph_arg(graph, ARG_MAX, votes, 1, false, false);
}

/* 1 / (1 + exp(a · score + b)) of each pair, kept off 0 and 1, coupled to one for each class. */
static int32_t
pair_probabilities(struct graph *graph, const struct classifier *c, int32_t scores)
{
	int32_t		y = graph_binary(graph, BINARY_MUL, scores,
								 graph_constant(graph, DEVICE_F32, 1, &c->pairs, c->prob_a->floats));

	y = graph_binary(graph, BINARY_ADD, y, graph_constant(graph, DEVICE_F32, 1, &c->pairs, c->prob_b->floats));
	y = graph_unary(graph, UNARY_SIGMOID, graph_unary(graph, UNARY_NEG, y, 0, 0), 0, 0);
	y = graph_unary(graph, UNARY_CLIP, y, 1e-7f, 1 - 1e-7f);
	return graph_couple(graph, y, c->labels.count);
}

/* Without probabilities two classes share one score: as both signs of it, or as what it leaves of 1. */
static int32_t
two_scores(struct graph *graph, const struct classifier *c, int32_t score)
{
	int32_t		both[2];

	both[0] = graph_unary(graph, UNARY_NEG, score, 0, 0);
	both[1] = score;
	if (c->post == ML_POST_LOGISTIC)
		for (int i = 0; i < 2; i++)
			both[i] = graph_unary(graph, UNARY_SIGMOID, both[i], 0, 0);
	else if (c->post != ML_POST_NONE)
		both[0] = graph_binary(graph, BINARY_SUB, graph_constant_number(graph, DEVICE_F32, 1), score);
	return graph_concat(graph, 2, both, 1);
}

static bool
classify_by_vectors(struct graph *graph, const struct onnx_node *node, const struct classifier *c)
{
	bool		probabilities = c->prob_a != NULL && c->prob_a->count > 0;
	int64_t		vectors;
	int32_t		scores, label;

	if (!classifier_check(graph, node, c, &vectors))
		return false;
	if (c->post == ML_POST_PROBIT && !probabilities && c->pairs == 1)
		return graph_unsupported(graph, node, "has the post_transform PROBIT for two classes");
	scores = graph_cast(graph, svm_kernels(graph, node, &c->svm, vectors), DEVICE_F64);
	scores = ml_product_with(graph, scores, pair_matrix(graph, c, vectors));
	scores = graph_binary(graph, BINARY_ADD, scores,
						  graph_cast(graph, graph_constant(graph, DEVICE_F32, 1, &c->pairs, c->svm.rho->floats),
									 DEVICE_F64));
	scores = graph_cast(graph, scores, DEVICE_F32);
	label = ml_labels_at(graph, &c->labels, pair_votes(graph, c, scores));
	if (probabilities)
		scores = ml_post_apply(graph, c->post, pair_probabilities(graph, c, scores));
	else
		scores = c->pairs == 1 ? two_scores(graph, c, scores) : ml_post_apply(graph, c->post, scores);
	if (probabilities &&
		!graph_role_scores(graph, scores, c->labels.type, c->labels.count, c->labels.data, false))
		return false;
	return graph_role_label(graph, label) && graph_output(graph, node, 0, label) &&
		graph_output(graph, node, 1, scores);
}

/* ---- SVMClassifier without: one row of coefficients for each class ---- */

/* Of two classes the second, too, wherever a score is positive (with coefficients ≥ 0: from 0.5 on). */
static int32_t
linear_place(struct graph *graph, const struct classifier *c, int32_t scores)
{
	int32_t		place = graph_arg(graph, ARG_MAX, scores, 1, false, false);
	int32_t		bound, second;
	bool		positive = true;

	if (c->labels.count != 2)
		return place;
	for (uint32_t i = 0; i < c->svm.coefficients->count; i++)
		positive = positive && c->svm.coefficients->floats[i] >= 0;
	bound = graph_constant_number(graph, DEVICE_F32, positive ? 0.5 : 0);
	second = graph_binary(graph, positive ? BINARY_GREATER_EQUAL : BINARY_GREATER,
						  graph_reduce(graph, REDUCE_MAX, scores, 2, false), bound);
	return graph_where(graph, second, graph_constant_number(graph, DEVICE_I64, 1), place);
}

static bool
classify_by_coefficients(struct graph *graph, const struct onnx_node *node, const struct classifier *c)
{
	int64_t		features = ml_features(graph, c->svm.x);
	int32_t		scores, label;

	if (c->svm.coefficients->count != features * c->labels.count)
		return graph_malformed(graph, node, "has %u coefficients for %u classes of %" PRId64 " features",
							   c->svm.coefficients->count, c->labels.count, features);
	scores = ml_product(graph, c->svm.x, c->labels.count, features, c->svm.coefficients->floats);
	scores = add_number(graph, scores, c->svm.rho->floats[0]);
	label = ml_labels_at(graph, &c->labels, linear_place(graph, c, scores));
	scores = ml_post_apply(graph, c->post, scores);
	return graph_role_label(graph, label) &&
		graph_role_scores(graph, scores, c->labels.type, c->labels.count, c->labels.data, false) &&
		graph_output(graph, node, 0, label) && graph_output(graph, node, 1, scores);
}

bool
lower_svm_classifier(struct graph *graph, const struct onnx_node *node)
{
	struct classifier c = {0};

	if (!svm_read(graph, node, &c.svm) || !ml_post_read(graph, node, &c.post) ||
		!ml_labels_read(graph, node, "classlabels_strings", "classlabels_ints", &c.labels) ||
		!graph_attribute_list(graph, node, "vectors_per_class", ONNX_ATTRIBUTE_INTS, &c.counts) ||
		!graph_attribute_list(graph, node, "prob_a", ONNX_ATTRIBUTE_FLOATS, &c.prob_a) ||
		!graph_attribute_list(graph, node, "prob_b", ONNX_ATTRIBUTE_FLOATS, &c.prob_b))
		return false;
	if (c.labels.count < 2 || c.labels.count > SVM_CLASSES_MAX)
		return graph_unsupported(graph, node, "has %u classes; supported are 2 to %d", c.labels.count, SVM_CLASSES_MAX);
	c.pairs = (int64_t) c.labels.count * (c.labels.count - 1) / 2;
	return c.counts != NULL && c.counts->count > 0 ? classify_by_vectors(graph, node, &c) :
		classify_by_coefficients(graph, node, &c);
}
