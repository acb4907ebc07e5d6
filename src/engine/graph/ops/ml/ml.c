/*
 * ml.c
 *	  Operators of ai.onnx.ml: the table, and those that prepare features.
 *
 * A feature lies in the last dimension; values of more than two dimensions are refused
 * where the specification and onnxruntime disagree about which one is meant.
 */
#include "ml.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int32_t
ml_float_input(struct graph *graph, const struct onnx_node *node, uint32_t i)
{
	int32_t		x = graph_input(graph, node, i);

	return x == GRAPH_FAILED ? x : graph_cast(graph, x, DEVICE_F32);
}

int64_t
ml_features(const struct graph *graph, int32_t value)
{
	const struct graph_value *v = graph_value(graph, value);

	return v->rank == 0 ? 1 : v->dims[v->rank - 1];
}

static bool
check_features(struct graph *graph, const struct onnx_node *node, int32_t x, uint32_t count,
			   const char *what)
{
	if (count == 1)
		return true;
	if (graph_value(graph, x)->rank > 2)
		return graph_unsupported(graph, node, "has an input of more than two dimensions");
	if (count != ml_features(graph, x))
		return graph_malformed(graph, node, "has %u numbers in %s for %" PRId64 " features", count, what,
							   ml_features(graph, x));
	return true;
}

/* Floats as a constant of type F32 or F64: [count], or a scalar if there is one. */
static int32_t
constant_floats(struct graph *graph, uint8_t type, const struct onnx_attribute *list)
{
	int64_t		dims[1] = {list->count};
	void	   *data;
	int32_t		value = graph_constant_make(graph, type, list->count == 1 ? 0 : 1, dims, &data);

	for (uint32_t i = 0; value >= 0 && i < list->count; i++)
	{
		if (type == DEVICE_F64)
			((double *) data)[i] = list->floats[i];
		else
			((float *) data)[i] = list->floats[i];
	}
	return value;
}

/* (x - offset) · scale, to F32; doubles are computed as such. */
static bool
lower_scaler(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	const struct onnx_attribute *offset;
	const struct onnx_attribute *scale;
	uint8_t		type;

	if (x == GRAPH_FAILED ||
		!graph_attribute_list(graph, node, "offset", ONNX_ATTRIBUTE_FLOATS, &offset) ||
		!graph_attribute_list(graph, node, "scale", ONNX_ATTRIBUTE_FLOATS, &scale))
		return false;
	if (offset == NULL || scale == NULL || offset->count == 0 || offset->count != scale->count)
		return graph_malformed(graph, node, "does not have as many offsets as scales");
	if (!check_features(graph, node, x, offset->count, "offset"))
		return false;
	type = graph_value(graph, x)->type == DEVICE_F64 ? DEVICE_F64 : DEVICE_F32;
	x = graph_cast(graph, x, type);
	x = graph_binary(graph, BINARY_SUB, x, constant_floats(graph, type, offset));
	x = graph_binary(graph, BINARY_MUL, x, constant_floats(graph, type, scale));
	return graph_output(graph, node, 0, graph_cast(graph, x, DEVICE_F32));
}

static bool
lower_normalizer(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = ml_float_input(graph, node, 0);
	const char *norm;
	uint16_t	fn;

	if (x == GRAPH_FAILED || !graph_attribute_string(graph, node, "norm", "MAX", &norm))
		return false;
	if (graph_value(graph, x)->rank < 1 || graph_value(graph, x)->rank > 2)
		return graph_unsupported(graph, node, "has an input of %u dimensions, not one or two",
								 graph_value(graph, x)->rank);
	if (strcmp(norm, "MAX") == 0)
		fn = NORMALIZE_MAX;
	else if (strcmp(norm, "L1") == 0)
		fn = NORMALIZE_L1;
	else if (strcmp(norm, "L2") == 0)
		fn = NORMALIZE_L2;
	else
		return graph_malformed(graph, node, "has the unknown norm \"%.50s\"", norm);
	return graph_output(graph, node, 0, graph_normalize(graph, fn, x));
}

static bool
lower_imputer(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		imputed;
	int32_t		missing;
	const struct onnx_attribute *floats;
	const struct onnx_attribute *ints;
	double		replaced_float;
	int64_t		replaced_int;
	uint32_t	count;
	uint8_t		type;
	bool		is_float;

	if (x == GRAPH_FAILED ||
		!graph_attribute_list(graph, node, "imputed_value_floats", ONNX_ATTRIBUTE_FLOATS, &floats) ||
		!graph_attribute_list(graph, node, "imputed_value_int64s", ONNX_ATTRIBUTE_INTS, &ints) ||
		!graph_attribute_float(graph, node, "replaced_value_float", 0, &replaced_float) ||
		!graph_attribute_int(graph, node, "replaced_value_int64", 0, &replaced_int))
		return false;
	type = graph_value(graph, x)->type;
	is_float = type == DEVICE_F32 || type == DEVICE_F64;
	if (!is_float && type != DEVICE_I64)
		return graph_unsupported(graph, node, "has an input of type %s", infer_type_name(type));
	if ((is_float ? floats : ints) == NULL)
		return graph_malformed(graph, node, "has no values to impute of its input's type");
	count = is_float ? floats->count : ints->count;
	if (!check_features(graph, node, x, count, "imputed_value"))
		return false;
	if (is_float)
		imputed = constant_floats(graph, type, floats);
	else
	{
		int64_t		dims[1] = {count};

		imputed = graph_constant(graph, DEVICE_I64, count == 1 ? 0 : 1, dims, ints->ints);
	}
	if (is_float && isnan(replaced_float))
		missing = graph_unary(graph, UNARY_IS_NAN, x, 0, 0);
	else if (is_float)
		missing = graph_binary(graph, BINARY_EQUAL, x, graph_constant_number(graph, type, replaced_float));
	else
		missing = graph_binary(graph, BINARY_EQUAL, x,
							   graph_constant(graph, DEVICE_I64, 0, NULL, &replaced_int));
	return graph_output(graph, node, 0, graph_where(graph, missing, imputed, x));
}

/* x > threshold, as 1 and 0 of x's type. */
static bool
lower_binarizer(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	double		threshold;
	uint8_t		type;

	if (x == GRAPH_FAILED || !graph_attribute_float(graph, node, "threshold", 0, &threshold))
		return false;
	type = graph_value(graph, x)->type;
	if (type != DEVICE_F32 && type != DEVICE_F64)
		return graph_unsupported(graph, node, "has an input of type %s", infer_type_name(type));
	x = graph_binary(graph, BINARY_GREATER, x, graph_constant_number(graph, type, threshold));
	return graph_output(graph, node, 0, graph_cast(graph, x, type));
}

/* Inputs side by side as F32. */
static bool
lower_feature_vectorizer(struct graph *graph, const struct onnx_node *node)
{
	const struct onnx_attribute *sizes;
	int32_t    *parts = graph_pool(graph->memory, node->inputs_count, sizeof(*parts));

	if (parts == NULL ||
		!graph_attribute_list(graph, node, "inputdimensions", ONNX_ATTRIBUTE_INTS, &sizes))
		return false;
	if (sizes == NULL || sizes->count != node->inputs_count)
		return graph_malformed(graph, node, "does not have a size for each input");
	for (uint32_t i = 0; i < node->inputs_count; i++)
	{
		parts[i] = ml_float_input(graph, node, i);
		if (parts[i] == GRAPH_FAILED)
			return false;
		if (graph_value(graph, parts[i])->rank != 2)
			return graph_unsupported(graph, node, "has an input that is not of two dimensions");
		if (ml_features(graph, parts[i]) != sizes->ints[i])
			return graph_unsupported(graph, node, "has an input of %" PRId64 " features where it says %" PRId64,
									 ml_features(graph, parts[i]), sizes->ints[i]);
	}
	return graph_output(graph, node, 0, graph_concat(graph, node->inputs_count, parts, 1));
}

/* Chosen elements of the last dimension. */
static bool
lower_array_feature_extractor(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		indices = graph_input(graph, node, 1);
	int64_t		dims[2] = {1, 0};
	int			rank;

	if (x == GRAPH_FAILED || indices == GRAPH_FAILED)
		return false;
	rank = graph_value(graph, x)->rank;
	if (rank == 0)
		return graph_malformed(graph, node, "has a scalar to choose from");
	dims[1] = graph_value(graph, indices)->elements;
	indices = graph_view(graph, indices, 1, dims + 1);
	x = graph_gather(graph, x, indices, rank - 1);
	if (rank == 1)
		x = graph_view(graph, x, 2, dims);
	return graph_output(graph, node, 0, x);
}

/* The model's input already has the vocabulary's order: see lower/inputs.c. */
static bool
lower_dict_vectorizer(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	const struct onnx_attribute *words;
	int64_t		dims[2] = {1, 0};

	if (x == GRAPH_FAILED ||
		!graph_attribute_list(graph, node, "string_vocabulary", ONNX_ATTRIBUTE_STRINGS, &words))
		return false;
	if (words == NULL || !graph_value(graph, x)->map)
		return graph_unsupported(graph, node, "does not take a map of the model's inputs by strings");
	dims[1] = words->count;
	x = graph_copy(graph, x, 2, dims, 0, (const int64_t[2]) {0, 1});
	return graph_output(graph, node, 0, x);
}

const struct graph_operator graph_ml_operators[] = {
	{ONNX_DOMAIN_ML, "ArrayFeatureExtractor", 1, 5, lower_array_feature_extractor, GRAPH_MISSING_PASSES},
	{ONNX_DOMAIN_ML, "Binarizer", 1, 5, lower_binarizer},
	{ONNX_DOMAIN_ML, "CategoryMapper", 1, 5, lower_category_mapper},
	{ONNX_DOMAIN_ML, "FeatureVectorizer", 1, 5, lower_feature_vectorizer, GRAPH_MISSING_PASSES},
	{ONNX_DOMAIN_ML, "Imputer", 1, 5, lower_imputer, GRAPH_MISSING_TAKES},
	{ONNX_DOMAIN_ML, "LabelEncoder", 1, 5, lower_label_encoder},
	{ONNX_DOMAIN_ML, "LinearClassifier", 1, 5, lower_linear_classifier},
	{ONNX_DOMAIN_ML, "LinearRegressor", 1, 5, lower_linear_regressor},
	{ONNX_DOMAIN_ML, "Normalizer", 1, 5, lower_normalizer},
	{ONNX_DOMAIN_ML, "OneHotEncoder", 1, 5, lower_one_hot_encoder},
	{ONNX_DOMAIN_ML, "Scaler", 1, 5, lower_scaler, GRAPH_MISSING_PASSES},
	{ONNX_DOMAIN_ML, "TreeEnsemble", 5, 5, lower_tree_ensemble, GRAPH_MISSING_TAKES},
	{ONNX_DOMAIN_ML, "TreeEnsembleClassifier", 1, 5, lower_tree_ensemble_classifier, GRAPH_MISSING_TAKES},
	{ONNX_DOMAIN_ML, "TreeEnsembleRegressor", 1, 5, lower_tree_ensemble_regressor, GRAPH_MISSING_TAKES},
	{ONNX_DOMAIN_ML, "ZipMap", 1, 5, lower_zip_map},
	{ONNX_DOMAIN_ML, "SVMClassifier", 1, 5, lower_svm_classifier},
	{ONNX_DOMAIN_ML, "SVMRegressor", 1, 5, lower_svm_regressor},
	{ONNX_DOMAIN_ML, "DictVectorizer", 1, 5, lower_dict_vectorizer},
	{NULL}
};
