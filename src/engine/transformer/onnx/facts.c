/*
 * facts.c
 *	  Facts of all values, from the inputs on.
 */
#include "walk.h"

#include <string.h>

static void
set_input(struct walk *w, const struct onnx_value *input)
{
	static const struct
	{
		const char *name;
		uint8_t		kind;
	}			known[] = {
		{"input_ids", FACT_IDS}, {"token_type_ids", FACT_TYPES}, {"attention_mask", FACT_SAME}
	};
	struct fact *fact = &w->facts[input->name];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(w->model->names[input->name], known[i].name) == 0)
			fact->kind = known[i].kind;
	fact->rank = 2;
	fact->dims[0] = size_batch();
	fact->dims[1] = size_length();
	fact->value = 1;
	fact->padding = -1;
}

static void
set_constant(struct fact *fact, const struct onnx_tensor *tensor)
{
	fact->kind = FACT_CONSTANT;
	fact->tensor = tensor;
	fact->rank = tensor->rank;
	for (uint8_t i = 0; i < tensor->rank; i++)
		fact->dims[i] = size_of(tensor->dims[i]);
}

/* Constant: by a tensor, or by numbers in attributes. */
static void
set_from_constant(const struct onnx_node *node, struct fact *result)
{
	const struct onnx_attribute *value = node_attribute(node, "value"), *one = node_attribute(node, "value_int"),
			   *real = node_attribute(node, "value_float"), *list = node_attribute(node, "value_ints");

	if (value != NULL && value->tensor != NULL)
		set_constant(result, value->tensor);
	else if (one != NULL)
	{
		result->kind = FACT_INTS;
		result->count = 1;
		result->ints[0] = size_of(one->i);
	}
	else if (real != NULL)
	{
		result->kind = FACT_SAME;
		result->value = (double) real->f;
		result->real = true;
	}
	else if (list != NULL && list->type == ONNX_ATTRIBUTE_INTS && list->count <= FACT_INTS_MAX)
	{
		result->kind = FACT_INTS;
		result->rank = 1;
		result->dims[0] = size_of(list->count);
		result->count = list->count;
		for (uint32_t i = 0; i < list->count; i++)
			result->ints[i] = size_of(list->ints[i]);
	}
}

/* The second output of EmbedLayerNormalization counts the mask's ones. */
static void
set_second(struct walk *w, const struct onnx_node *node)
{
	struct fact *fact;

	if (!node_is_contrib(node, "EmbedLayerNormalization") || node->outputs_count < 2 || node->outputs[1] < 0)
		return;
	fact = &w->facts[node->outputs[1]];
	fact->kind = FACT_SAME;
	fact->value = 1;
	fact->times_length = true;
	fact->rank = 1;
	fact->dims[0] = size_batch();
}

static void
set_node(struct walk *w, const struct onnx_node *node)
{
	struct fact result = {.alias = -1, .padding = -1};

	if (node->outputs_count < 1 || node->outputs[0] < 0)
		return;
	if (node_is(node, "Constant"))
		set_from_constant(node, &result);
	else if ((node_is(node, "Identity") || node_is(node, "Dropout")) && node_input(node, 0) >= 0)
	{
		result = *walk_fact(w, node_input(node, 0));
		result.alias = node_input(node, 0);
	}
	if (result.kind == FACT_NONE)
		facts_ints(w, node, &result);
	if (result.kind == FACT_NONE)
		facts_tokens(w, node, &result);
	if (result.kind == FACT_NONE)
		facts_same(w, node, &result);
	if (result.kind == FACT_NONE)
		facts_distances(w, node, &result);
	if (result.kind == FACT_NONE)
		facts_data(w, node, &result);
	if (result.alias < 0)
		result.alias = node->outputs[0];
	w->facts[node->outputs[0]] = result;
	set_second(w, node);
}

bool
walk_facts(struct walk *w)
{
	const struct onnx_model *model = w->model;

	w->facts = graph_pool(w->memory, model->names_count, sizeof(*w->facts));
	w->makers = graph_pool(w->memory, model->names_count, sizeof(*w->makers));
	if (w->facts == NULL || w->makers == NULL)
		return false;
	for (uint32_t i = 0; i < model->names_count; i++)
		w->facts[i].alias = (int32_t) i;
	for (uint32_t i = 0; i < model->inputs_count; i++)
		set_input(w, &model->inputs[i]);
	for (uint32_t i = 0; i < model->tensors_count; i++)
		set_constant(&w->facts[model->tensors_names[i]], &model->tensors[i]);
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		const struct onnx_node *node = &model->nodes[i];

		for (uint32_t k = 0; k < node->outputs_count; k++)
			if (node->outputs[k] >= 0)
				w->makers[node->outputs[k]] = node;
		set_node(w, node);
	}
	return true;
}
