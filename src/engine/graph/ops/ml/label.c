/*
 * label.c
 *	  Operators of ai.onnx.ml that look values up: LabelEncoder, CategoryMapper, OneHotEncoder.
 *
 * Nouns
 *	list	keys or values as an attribute or tensor gives them: in the file's order, perhaps
 *			with a key twice, of which the first counts
 *	table	the device's: distinct keys, ascending, a NaN last
 */
#include "ml.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct list
{
	uint8_t		type;				/* F32, F64, I64, STRING; 0: none */
	uint32_t	count;
	const void *data;
};

static bool
list_from_tensor(struct graph *graph, const struct onnx_node *node, const char *name, struct list *list)
{
	const struct onnx_attribute *attribute;
	void	   *data;

	if (!graph_attribute_list(graph, node, name, ONNX_ATTRIBUTE_TENSOR, &attribute))
		return false;
	if (attribute == NULL)
		return true;
	if (list->type != 0)
		return graph_malformed(graph, node, "has keys or values of two types");
	if (attribute->tensor->type == DEVICE_I32 || attribute->tensor->type == DEVICE_BOOL)
		return graph_unsupported(graph, node, "has keys or values of type %s",
								 infer_type_name(attribute->tensor->type));
	if (attribute->tensor->elements > INT32_MAX)
		return graph_unsupported(graph, node, "has more than %d keys", INT32_MAX);
	data = graph_pool(graph->memory, (uint64_t) attribute->tensor->elements,
					  device_type_bytes(attribute->tensor->type));
	if (data == NULL || !onnx_tensor_read(attribute->tensor, data, graph->status))
		return false;
	list->type = attribute->tensor->type;
	list->count = (uint32_t) attribute->tensor->elements;
	list->data = data;
	return true;
}

/* The one of "NAME_strings", "NAME_int64s", "NAME_floats" and "NAME_tensor" that is there. */
static bool
list_read(struct graph *graph, const struct onnx_node *node, const char *name, struct list *list)
{
	static const struct
	{
		const char *suffix;
		uint32_t	attribute;
		uint8_t		type;
	}			kinds[] = {
		{"strings", ONNX_ATTRIBUTE_STRINGS, DEVICE_STRING},
		{"int64s", ONNX_ATTRIBUTE_INTS, DEVICE_I64},
		{"floats", ONNX_ATTRIBUTE_FLOATS, DEVICE_F32}
	};
	const char *full;

	memset(list, 0, sizeof(*list));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		const struct onnx_attribute *attribute;

		full = graph_pool_printf(graph->memory, "%s_%s", name, kinds[i].suffix);
		if (full == NULL || !graph_attribute_list(graph, node, full, kinds[i].attribute, &attribute))
			return false;
		if (attribute == NULL || attribute->count == 0)
			continue;
		if (list->type != 0)
			return graph_malformed(graph, node, "has %s of two types", name);
		list->type = kinds[i].type;
		list->count = attribute->count;
		list->data = kinds[i].type == DEVICE_STRING ? (const void *) attribute->strings :
			kinds[i].type == DEVICE_I64 ? (const void *) attribute->ints : (const void *) attribute->floats;
	}
	full = graph_pool_printf(graph->memory, "%s_tensor", name);
	return full != NULL && list_from_tensor(graph, node, full, list);
}

/* ---- tables ---- */

/* Ascending; NaN last. */
static int
key_compare(uint8_t type, const void *keys, uint32_t a, uint32_t b)
{
	if (type == DEVICE_STRING)
	{
		const struct device_text *x = (const struct device_text *) keys + a;
		const struct device_text *y = (const struct device_text *) keys + b;
		uint64_t	shorter = x->length < y->length ? x->length : y->length;
		int			order = shorter == 0 ? 0 : memcmp(x->data, y->data, shorter);

		return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
	}
	if (type == DEVICE_I64)
	{
		const int64_t *k = keys;

		return (k[a] > k[b]) - (k[a] < k[b]);
	}
	else
	{
		double		x = type == DEVICE_F32 ? ((const float *) keys)[a] : ((const double *) keys)[a];
		double		y = type == DEVICE_F32 ? ((const float *) keys)[b] : ((const double *) keys)[b];

		if (isnan(x) || isnan(y))
			return (isnan(x) != 0) - (isnan(y) != 0);
		return (x > y) - (x < y);
	}
}

static int
order_compare(const void *a, const void *b, void *arg)
{
	const struct list *keys = arg;
	uint32_t	x = *(const uint32_t *) a;
	uint32_t	y = *(const uint32_t *) b;
	int			order = key_compare(keys->type, keys->data, x, y);

	return order != 0 ? order : (x > y) - (x < y);	/* stable: the first of equals stays first */
}

static bool
key_is_nan(const struct list *keys, uint32_t i)
{
	return keys->type == DEVICE_F32 ? isnan(((const float *) keys->data)[i]) :
		keys->type == DEVICE_F64 ? isnan(((const double *) keys->data)[i]) : false;
}

/*
 * Sorted and without doubles; fallback has the values' type, NULL if an unknown key is an
 * error.  nan: whether a NaN among the keys finds a NaN (LabelEncoder before 4: never).
 */
static const struct device_lookup *
table_make(struct graph *graph, const struct list *keys, const struct list *values, const void *fallback,
		   bool nan)
{
	size_t		key_bytes = device_type_bytes(keys->type);
	size_t		value_bytes = device_type_bytes(values->type);
	struct device_lookup *table = graph_pool(graph->memory, 1, sizeof(*table));
	uint32_t   *order = graph_pool(graph->memory, keys->count, sizeof(*order));
	uint8_t    *sorted_keys = graph_pool(graph->memory, keys->count, key_bytes);
	uint8_t    *sorted_values = graph_pool(graph->memory, keys->count, value_bytes);
	uint32_t	count = 0;

	if (table == NULL || order == NULL || sorted_keys == NULL || sorted_values == NULL)
		return NULL;
	for (uint32_t i = 0; i < keys->count; i++)
		order[i] = i;
	qsort_r(order, keys->count, sizeof(*order), order_compare, (void *) keys);
	for (uint32_t i = 0; i < keys->count; i++)
	{
		if (i > 0 && key_compare(keys->type, keys->data, order[i - 1], order[i]) == 0)
			continue;
		if (!nan && key_is_nan(keys, order[i]))
			continue;
		memcpy(sorted_keys + count * key_bytes, (const uint8_t *) keys->data + order[i] * key_bytes, key_bytes);
		memcpy(sorted_values + count * value_bytes, (const uint8_t *) values->data + order[i] * value_bytes,
			   value_bytes);
		count++;
	}
	table->count = count;
	table->key_type = keys->type;
	table->value_type = values->type;
	table->keys = sorted_keys;
	table->values = sorted_values;
	table->has_default = fallback != NULL;
	table->default_value = fallback;
	return table;
}

/* {0, 1, …} as the list that goes with count others. */
static bool
list_positions(struct graph *graph, uint32_t count, struct list *list)
{
	int64_t    *positions = graph_pool(graph->memory, count, sizeof(*positions));

	if (positions == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		positions[i] = i;
	list->type = DEVICE_I64;
	list->count = count;
	list->data = positions;
	return true;
}

/* ---- LabelEncoder ---- */

/* The value for unknown keys: default_tensor, or the attribute of the values' type. */
static const void *
default_read(struct graph *graph, const struct onnx_node *node, const struct list *values)
{
	struct list given = {0};
	double		number;
	const char *text;
	union
	{
		float		f32;
		double		f64;
		int64_t		i64;
		struct device_text text;
	}		   *value = graph_pool(graph->memory, 1, sizeof(*value));

	if (value == NULL ||
		(node->version >= 4 && !list_from_tensor(graph, node, "default_tensor", &given)) ||
		!graph_attribute_float(graph, node, "default_float", -0.0, &number) ||
		!graph_attribute_string(graph, node, "default_string", "_Unused", &text))
		return NULL;
	if (given.type != 0)
	{
		graph_attribute_ignore(graph, node, "default_int64");
		if (given.type == values->type && given.count == 1)
			return given.data;
		graph_malformed(graph, node, "has a default that is not one of its values' type");
		return NULL;
	}
	switch (values->type)
	{
		case DEVICE_STRING:
			graph_attribute_ignore(graph, node, "default_int64");
			value->text.data = text;
			value->text.length = strlen(text);
			return value;
		case DEVICE_F32:
			graph_attribute_ignore(graph, node, "default_int64");
			value->f32 = (float) number;
			return value;
		case DEVICE_F64:
			graph_attribute_ignore(graph, node, "default_int64");
			value->f64 = number;
			return value;
		default:
			return graph_attribute_int(graph, node, "default_int64", -1, &value->i64) ? value : NULL;
	}
}

static bool
lookup_to_output(struct graph *graph, const struct onnx_node *node, int32_t x, const struct list *keys,
				 const struct list *values)
{
	const void *fallback = default_read(graph, node, values);
	const struct device_lookup *table;

	if (fallback == NULL)
		return false;
	table = table_make(graph, keys, values, fallback, node->version >= 4);
	return table != NULL && graph_output(graph, node, 0, graph_lookup(graph, table, x));
}

/* Version 1: places in classes_strings, in the direction that the input's type says. */
static bool
lower_label_encoder_1(struct graph *graph, const struct onnx_node *node, int32_t x)
{
	const struct onnx_attribute *attribute;
	struct list words;
	struct list places;

	if (!graph_attribute_list(graph, node, "classes_strings", ONNX_ATTRIBUTE_STRINGS, &attribute))
		return false;
	if (attribute == NULL)
		return graph_malformed(graph, node, "has no classes");
	words.type = DEVICE_STRING;
	words.count = attribute->count;
	words.data = attribute->strings;
	if (!list_positions(graph, words.count, &places))
		return false;
	if (graph_value(graph, x)->type == DEVICE_STRING)
		return lookup_to_output(graph, node, x, &words, &places);
	return lookup_to_output(graph, node, x, &places, &words);
}

bool
lower_label_encoder(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	struct list keys;
	struct list values;

	if (x == GRAPH_FAILED)
		return false;
	if (node->version < 2)
		return lower_label_encoder_1(graph, node, x);
	if (!list_read(graph, node, "keys", &keys) || !list_read(graph, node, "values", &values))
		return false;
	if (keys.type == 0 || values.type == 0 || keys.count != values.count)
		return graph_malformed(graph, node, "does not have as many values as keys");
	return lookup_to_output(graph, node, x, &keys, &values);
}

/* ---- CategoryMapper ---- */

bool
lower_category_mapper(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	struct list words;
	struct list numbers;
	const struct onnx_attribute *strings;
	const struct onnx_attribute *ints;

	if (x == GRAPH_FAILED ||
		!graph_attribute_list(graph, node, "cats_strings", ONNX_ATTRIBUTE_STRINGS, &strings) ||
		!graph_attribute_list(graph, node, "cats_int64s", ONNX_ATTRIBUTE_INTS, &ints))
		return false;
	if (strings == NULL || ints == NULL || strings->count != ints->count)
		return graph_malformed(graph, node, "does not have as many strings as integers");
	words = (struct list) {DEVICE_STRING, strings->count, strings->strings};
	numbers = (struct list) {DEVICE_I64, ints->count, ints->ints};
	if (graph_value(graph, x)->type == DEVICE_STRING)
		return lookup_to_output(graph, node, x, &words, &numbers);
	return lookup_to_output(graph, node, x, &numbers, &words);
}

/* ---- OneHotEncoder ---- */

/* One more dimension, with a 1.0 at the category's place; unknown ones give zeros or an error. */
bool
lower_one_hot_encoder(struct graph *graph, const struct onnx_node *node)
{
	static const int64_t unknown = -1;
	int32_t		x = graph_input(graph, node, 0);
	struct ml_labels labels;
	struct list keys;
	struct list places;
	const struct device_lookup *table;
	int64_t		dims[DEVICE_RANK_MAX + 1];
	int64_t		zeros;
	int			rank;

	if (x == GRAPH_FAILED ||
		!graph_attribute_int(graph, node, "zeros", 1, &zeros) ||
		!ml_labels_read(graph, node, "cats_strings", "cats_int64s", &labels))
		return false;
	if (labels.type == DEVICE_I64)
		x = graph_cast(graph, x, DEVICE_I64);
	keys = (struct list) {labels.type, labels.count, labels.data};
	if (x == GRAPH_FAILED || !list_positions(graph, keys.count, &places))
		return false;
	rank = graph_value(graph, x)->rank;
	if (rank == DEVICE_RANK_MAX)
		return graph_unsupported(graph, node, "has an input of %d dimensions", rank);
	memcpy(dims, graph_value(graph, x)->dims, sizeof(dims) - sizeof(dims[0]));
	dims[rank] = 1;
	table = table_make(graph, &keys, &places, zeros != 0 ? &unknown : NULL, true);
	if (table == NULL)
		return false;
	x = graph_view(graph, graph_lookup(graph, table, x), rank + 1, dims);
	x = graph_binary(graph, BINARY_EQUAL, x, graph_constant_ints(graph, keys.count, places.data));
	return graph_output(graph, node, 0, graph_cast(graph, x, DEVICE_F32));
}
