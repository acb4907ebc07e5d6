/*
 * node.c
 *	  Nodes and values of a graph, looked at.
 */
#include "walk.h"

#include <string.h>

/* ---- nodes ---- */

const struct onnx_attribute *
node_attribute(const struct onnx_node *node, const char *name)
{
	for (uint32_t i = 0; i < node->attributes_count; i++)
		if (strcmp(node->attributes[i].name, name) == 0)
			return &node->attributes[i];
	return NULL;
}

int64_t
node_int(const struct onnx_node *node, const char *name, int64_t otherwise)
{
	const struct onnx_attribute *attribute = node_attribute(node, name);

	return attribute == NULL || attribute->type != ONNX_ATTRIBUTE_INT ? otherwise : attribute->i;
}

double
node_float(const struct onnx_node *node, const char *name, double otherwise)
{
	const struct onnx_attribute *attribute = node_attribute(node, name);

	return attribute == NULL || attribute->type != ONNX_ATTRIBUTE_FLOAT ? otherwise : (double) attribute->f;
}

bool
node_is(const struct onnx_node *node, const char *op)
{
	return node != NULL && node->domain[0] == '\0' && strcmp(node->op, op) == 0;
}

bool
node_is_contrib(const struct onnx_node *node, const char *op)
{
	return node != NULL && strcmp(node->domain, "com.microsoft") == 0 && strcmp(node->op, op) == 0;
}

int32_t
node_input(const struct onnx_node *node, uint32_t i)
{
	return i < node->inputs_count ? node->inputs[i] : -1;
}

bool
walk_refuse(struct walk *w, int32_t name, const char *wanted)
{
	const struct onnx_node *node = walk_maker(w, name);

	if (node != NULL)
		status_set(w->status, INFER_ERROR_UNSUPPORTED, "node \"%.200s\" (%.100s) of the ONNX file is none of an encoder that is known: %s", node->name,
				   node->op, wanted);
	else
		status_set(w->status, INFER_ERROR_UNSUPPORTED, "value \"%.200s\" of the ONNX file is none of an encoder that is known: %s",
				   name < 0 ? "" : w->model->names[name], wanted);
	status_hint(w->status, "Models with model.safetensors are read by their configuration; export or save that beside it.");
	return false;
}

/* ---- values ---- */

int32_t
walk_same(const struct walk *w, int32_t name)
{
	while (name >= 0 && w->facts[name].alias >= 0 && w->facts[name].alias != name)
		name = w->facts[name].alias;
	return name;
}

const struct onnx_node *
walk_maker(const struct walk *w, int32_t name)
{
	name = walk_same(w, name);
	return name < 0 ? NULL : w->makers[name];
}

const struct fact *
walk_fact(const struct walk *w, int32_t name)
{
	static const struct fact none = {.alias = -1};

	return name < 0 ? &none : &w->facts[name];
}

static double
element_number(uint8_t type, const uint8_t *data, uint32_t i)
{
	float		f;
	double		d;
	int32_t		i32;
	int64_t		i64;

	switch (type)
	{
		case DEVICE_F32:
			memcpy(&f, data + 4 * (size_t) i, sizeof(f));
			return (double) f;
		case DEVICE_F64:
			memcpy(&d, data + 8 * (size_t) i, sizeof(d));
			return d;
		case DEVICE_I32:
			memcpy(&i32, data + 4 * (size_t) i, sizeof(i32));
			return i32;
		case DEVICE_I64:
			memcpy(&i64, data + 8 * (size_t) i, sizeof(i64));
			return (double) i64;
		default:
			return data[i] != 0;
	}
}

bool
walk_may_look(struct walk *w, int64_t elements)
{
	if (elements < 1 || elements > WALK_LOOKED_MAX - w->looked)
		return false;
	w->looked += elements;
	return true;
}

bool
walk_numbers(struct walk *w, int32_t name, double *numbers, uint32_t space, uint32_t *count)
{
	const struct onnx_tensor *tensor = walk_fact(w, name)->tensor;
	uint8_t		data[8 * 64];
	struct status ignored = {0};

	if (tensor == NULL || tensor->elements > space || tensor->elements > 64 || tensor->type == DEVICE_STRING ||
		tensor->type == ONNX_TENSOR_BYTES || !onnx_tensor_read(tensor, data, &ignored))
		return false;
	*count = (uint32_t) tensor->elements;
	for (uint32_t i = 0; i < *count; i++)
		numbers[i] = element_number(tensor->type, data, i);
	return true;
}

bool
walk_number(struct walk *w, int32_t name, double *number)
{
	const struct fact *fact = walk_fact(w, name);
	uint32_t	count;
	int64_t		constant;

	if (fact->kind == FACT_SAME && !fact->times_length)
	{
		*number = fact->value;
		return true;
	}
	if (fact->kind == FACT_INTS && fact->count == 1 && size_constant(fact->ints[0], &constant))
	{
		*number = (double) constant;
		return true;
	}
	return walk_numbers(w, name, number, 1, &count) && count == 1;
}

/* What is beyond all sizes stands for the end. */
int64_t
whole_number(double number)
{
	return number > FOLDER_NUMBER_MAX ? INT64_MAX : number < -FOLDER_NUMBER_MAX ? INT64_MIN : (int64_t) number;
}

bool
walk_axes(struct walk *w, const struct onnx_node *node, uint32_t input, const char *attribute, int64_t *axes, uint32_t *count)
{
	const struct onnx_attribute *list = node_attribute(node, attribute);
	double		numbers[DEVICE_RANK_MAX];

	if (list != NULL && list->type == ONNX_ATTRIBUTE_INTS && list->count <= DEVICE_RANK_MAX)
	{
		*count = list->count;
		memcpy(axes, list->ints, list->count * sizeof(*axes));
		return true;
	}
	if (list != NULL || !walk_numbers(w, node_input(node, input), numbers, DEVICE_RANK_MAX, count))
		return false;
	for (uint32_t i = 0; i < *count; i++)
		axes[i] = whole_number(numbers[i]);
	return true;
}
