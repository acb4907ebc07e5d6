/*
 * linear.c
 *	  Linear models of ai.onnx.ml: LinearClassifier, LinearRegressor, and ZipMap, which gives
 *	  a classifier's scores names.
 *
 * The rules for labels and for what a post-transform means with one row of coefficients are
 * onnxruntime's; the specification has none.
 */
#include "ml.h"

#include <inttypes.h>
#include <string.h>

bool
ml_post_read(struct graph *graph, const struct onnx_node *node, enum ml_post *post)
{
	static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
	const char *name;

	if (!graph_attribute_string(graph, node, "post_transform", "NONE", &name))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
		{
			*post = (enum ml_post) i;
			return true;
		}
	return graph_malformed(graph, node, "has the unknown post_transform \"%.50s\"", name);
}

int32_t
ml_post_apply(struct graph *graph, enum ml_post post, int32_t scores)
{
	switch (post)
	{
		case ML_POST_SOFTMAX:
			return graph_softmax(graph, SOFTMAX_PLAIN, scores, 1, 0);
		case ML_POST_SOFTMAX_ZERO:
			return graph_softmax(graph, SOFTMAX_ZERO, scores, 1, 0);
		case ML_POST_LOGISTIC:
			return graph_unary(graph, UNARY_SIGMOID, scores, 0, 0);
		case ML_POST_PROBIT:
			return graph_unary(graph, UNARY_PROBIT, scores, 0, 0);
		case ML_POST_NONE:
			break;
	}
	return scores;
}

bool
ml_labels_read(struct graph *graph, const struct onnx_node *node, const char *strings,
			   const char *ints, struct ml_labels *labels)
{
	const struct onnx_attribute *texts;
	const struct onnx_attribute *numbers;

	if (!graph_attribute_list(graph, node, strings, ONNX_ATTRIBUTE_STRINGS, &texts) ||
		!graph_attribute_list(graph, node, ints, ONNX_ATTRIBUTE_INTS, &numbers))
		return false;
	if (texts != NULL && texts->count > 0)
		*labels = (struct ml_labels) {DEVICE_STRING, texts->count, texts->strings};
	else if (numbers != NULL && numbers->count > 0)
		*labels = (struct ml_labels) {DEVICE_I64, numbers->count, numbers->ints};
	else
		return graph_malformed(graph, node, "has neither %s nor %s", strings, ints);
	return true;
}

int32_t
ml_matrix_input(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = ml_float_input(graph, node, 0);
	int64_t		dims[2] = {1, 0};

	if (x != GRAPH_FAILED && graph_value(graph, x)->rank == 1)
	{
		dims[1] = graph_value(graph, x)->dims[0];
		x = graph_view(graph, x, 2, dims);
	}
	if (x != GRAPH_FAILED && graph_value(graph, x)->rank == 2)
		return x;
	if (graph->status->error == 0)
		graph_unsupported(graph, node, "has an input that is not of one or two dimensions");
	return GRAPH_FAILED;
}

int32_t
ml_product(struct graph *graph, int32_t x, int64_t rows, int64_t features, const float *coefficients)
{
	int64_t		dims[2] = {rows, features};
	int32_t		matrix = graph_constant(graph, DEVICE_F32, 2, dims, coefficients);

	return ml_product_with(graph, x, matrix);
}

int32_t
ml_product_with(struct graph *graph, int32_t x, int32_t matrix)
{
	if (x == GRAPH_FAILED || matrix == GRAPH_FAILED)
		return GRAPH_FAILED;
	if (graph_is_constant(graph, x))
		return graph_matmul(graph, x, graph_transpose(graph, matrix, (const int[2]) {1, 0}));
	return graph_gemm(graph, x, matrix, true);
}

/*
 * x · coefficientsᵀ + intercepts: [N, rows], where coefficients holds rows × features.
 * x of one dimension is one row.
 */
static int32_t
linear_scores(struct graph *graph, const struct onnx_node *node, int64_t *rows)
{
	int32_t		x = ml_matrix_input(graph, node);
	const struct onnx_attribute *coefficients;
	const struct onnx_attribute *intercepts;
	int64_t		features;

	if (x == GRAPH_FAILED ||
		!graph_attribute_list(graph, node, "coefficients", ONNX_ATTRIBUTE_FLOATS, &coefficients) ||
		!graph_attribute_list(graph, node, "intercepts", ONNX_ATTRIBUTE_FLOATS, &intercepts))
		return GRAPH_FAILED;
	features = ml_features(graph, x);
	if (coefficients == NULL || features == 0 || coefficients->count == 0 || coefficients->count % features != 0)
	{
		graph_malformed(graph, node, "has %u coefficients for %" PRId64 " features",
						coefficients == NULL ? 0 : coefficients->count, features);
		return GRAPH_FAILED;
	}
	*rows = coefficients->count / features;
	if (intercepts != NULL && intercepts->count != 0 && intercepts->count != *rows)
	{
		graph_malformed(graph, node, "has %u intercepts for %" PRId64 " rows of coefficients",
						intercepts->count, *rows);
		return GRAPH_FAILED;
	}
	x = ml_product(graph, x, *rows, features, coefficients->floats);
	if (intercepts != NULL && intercepts->count != 0)
		x = graph_binary(graph, BINARY_ADD, x,
						 graph_constant(graph, DEVICE_F32, 1, rows, intercepts->floats));
	return x;
}

/* ---- LinearClassifier ---- */

int32_t
ml_labels_at(struct graph *graph, const struct ml_labels *labels, int32_t places)
{
	int64_t		dims[1] = {labels->count};
	bool		own_places = labels->type == DEVICE_I64;

	for (uint32_t i = 0; own_places && i < labels->count; i++)
		own_places = ((const int64_t *) labels->data)[i] == i;
	if (own_places)
		return places;
	return graph_gather(graph, graph_constant(graph, labels->type, 1, dims, labels->data), places, 0);
}

/*
 * One row of coefficients for two classes: the second is chosen if its score is positive,
 * and the first's score is what is left.
 */
static bool
lower_two_classes(struct graph *graph, const struct onnx_node *node, const struct ml_labels *labels,
				  enum ml_post post, int32_t score)
{
	int32_t		both[2];
	int32_t		label;
	int64_t		rows;

	if (score == GRAPH_FAILED)
		return false;
	if (labels->count != 2)
		return graph_unsupported(graph, node, "has one row of coefficients for %u classes", labels->count);
	if (post == ML_POST_PROBIT)
		return graph_unsupported(graph, node, "has the post_transform PROBIT with one row of coefficients");
	rows = graph_value(graph, score)->dims[0];
	label = graph_binary(graph, BINARY_GREATER, score, graph_constant_number(graph, DEVICE_F32, 0));
	label = ml_labels_at(graph, labels, graph_cast(graph, graph_view(graph, label, 1, &rows), DEVICE_I64));
	if (post == ML_POST_LOGISTIC)
	{
		both[0] = graph_unary(graph, UNARY_SIGMOID, graph_unary(graph, UNARY_NEG, score, 0, 0), 0, 0);
		both[1] = graph_unary(graph, UNARY_SIGMOID, score, 0, 0);
	}
	else
	{
		both[0] = graph_binary(graph, BINARY_SUB, graph_constant_number(graph, DEVICE_F32, 1), score);
		both[1] = score;
	}
	score = graph_concat(graph, 2, both, 1);
	return graph_role_label(graph, label) &&
		graph_role_scores(graph, score, labels->type, labels->count, labels->data, false) &&
		graph_output(graph, node, 0, label) && graph_output(graph, node, 1, score);
}

bool
lower_linear_classifier(struct graph *graph, const struct onnx_node *node)
{
	struct ml_labels labels;
	enum ml_post post;
	int64_t		rows;
	int32_t		scores;
	int32_t		label;

	graph_attribute_ignore(graph, node, "multi_class");	/* onnxruntime does not look at it */
	if (!ml_post_read(graph, node, &post) ||
		!ml_labels_read(graph, node, "classlabels_strings", "classlabels_ints", &labels))
		return false;
	scores = linear_scores(graph, node, &rows);
	if (scores == GRAPH_FAILED)
		return false;
	if (rows == 1)
		return lower_two_classes(graph, node, &labels, post, scores);
	if (rows != labels.count)
		return graph_malformed(graph, node, "has %u labels for %" PRId64 " rows of coefficients",
							   labels.count, rows);
	label = ml_labels_at(graph, &labels, graph_arg(graph, ARG_MAX, scores, 1, false, false));
	scores = ml_post_apply(graph, post, scores);
	return graph_role_label(graph, label) &&
		graph_role_scores(graph, scores, labels.type, labels.count, labels.data, false) &&
		graph_output(graph, node, 0, label) && graph_output(graph, node, 1, scores);
}

/* ---- LinearRegressor ---- */

bool
lower_linear_regressor(struct graph *graph, const struct onnx_node *node)
{
	enum ml_post post;
	int64_t		targets;
	int64_t		rows;
	int32_t		y;

	if (!ml_post_read(graph, node, &post) || !graph_attribute_int(graph, node, "targets", 1, &targets))
		return false;
	y = linear_scores(graph, node, &rows);
	if (y == GRAPH_FAILED)
		return false;
	if (rows != targets)
		return graph_malformed(graph, node, "has %" PRId64 " rows of coefficients for %" PRId64 " targets",
							   rows, targets);
	if (rows > 1 || post == ML_POST_PROBIT)
		y = ml_post_apply(graph, post, y);		/* with one target the others change nothing */
	return graph_output(graph, node, 0, y);
}

/* ---- ZipMap ---- */

bool
lower_zip_map(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	struct ml_labels labels;
	int64_t		dims[2];
	int			rank;

	if (x == GRAPH_FAILED ||
		!ml_labels_read(graph, node, "classlabels_strings", "classlabels_int64s", &labels))
		return false;
	rank = graph_value(graph, x)->rank;
	if (rank < 1 || rank > 2)
		return graph_malformed(graph, node, "has an input of %d dimensions", rank);
	dims[0] = rank == 1 ? 1 : graph_value(graph, x)->dims[0];
	dims[1] = ml_features(graph, x);
	if (dims[1] != labels.count)
		return graph_malformed(graph, node, "has %u labels for %" PRId64 " scores", labels.count, dims[1]);
	x = graph_view(graph, x, 2, dims);
	return graph_role_scores(graph, x, labels.type, labels.count, labels.data, true) &&
		graph_output(graph, node, 0, x);
}
