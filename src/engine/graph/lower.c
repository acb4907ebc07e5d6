/*
 * lower.c
 *	  From nodes to ops: the model's inputs and constants become values, each node's operator
 *	  lowers it, and what an operator did not look at is refused.
 */
#include "graph_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../protocol/protocol.h"

void
graph_init(struct graph *graph, struct graph_memory *memory, const struct onnx_model *model,
		   struct device *device, struct status *status)
{
	memset(graph, 0, sizeof(*graph));
	graph->memory = memory;
	graph->status = status;
	graph->model = model;
	graph->device = device;
}

/* ---- operators that are missing ---- */

struct missing
{
	char		text[2][STATUS_TEXT_MAX - 128];	/* the message's list, and what did not fit */
	size_t		used[2];
	uint32_t	count;
	uint32_t	omitted;
};

static void
missing_add(struct missing *missing, const struct onnx_node *node, bool name_known)
{
	char		entry[512];
	char		version[16] = "";
	int			part;
	size_t		length;

	if (node->version > 0)
		snprintf(version, sizeof(version), " %u", node->version);
	snprintf(entry, sizeof(entry), "%.200s (%.200s%s%s)", node->op,
			 node->domain[0] == '\0' ? "ai.onnx" : node->domain, version,
			 name_known ? ", a version that is not supported" : "");
	length = strlen(entry);
	missing->count++;
	for (part = 0; part < 2; part++)
		if (missing->used[part] + length + 3 < sizeof(missing->text[part]) &&
			(part == 1 || missing->used[1] == 0))
			break;
	if (part == 2)
	{
		missing->omitted++;
		return;
	}
	missing->used[part] += (size_t) snprintf(missing->text[part] + missing->used[part],
											 sizeof(missing->text[part]) - missing->used[part],
											 "%s%s", missing->used[part] == 0 ? "" : ", ", entry);
}

static bool
same_operator(const struct onnx_node *a, const struct onnx_node *b)
{
	return strcmp(a->op, b->op) == 0 && strcmp(a->domain, b->domain) == 0;
}

/* One error that names every operator that the model needs and nobody has written. */
static bool
check_operators(struct graph *graph)
{
	const struct onnx_model *model = graph->model;
	const struct onnx_node **seen = graph_pool(graph->memory, model->nodes_count, sizeof(*seen));
	uint32_t	seen_count = 0;
	struct missing missing = {0};

	if (seen == NULL)
		return false;
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		const struct onnx_node *node = &model->nodes[i];
		bool		name_known;
		uint32_t	j = 0;

		if (graph_operator_find(node, &name_known) != NULL)
			continue;
		while (j < seen_count && !same_operator(seen[j], node))
			j++;
		if (j < seen_count)
			continue;
		if (seen_count < 1000)		/* more cannot be shown, and need not be told apart */
			seen[seen_count++] = node;
		missing_add(&missing, node, name_known);
	}
	if (missing.count == 0)
		return true;
	status_set(graph->status, INFER_ERROR_UNSUPPORTED, "the model uses %s not supported: %s",
			   missing.count == 1 ? "an operator that is" : "operators that are", missing.text[0]);
	if (missing.omitted > 0)
		status_detail(graph->status, "Further: %s, and %u more.", missing.text[1], missing.omitted);
	else if (missing.used[1] > 0)
		status_detail(graph->status, "Further: %s.", missing.text[1]);
	status_hint(graph->status, "Use what docs/models.md lists for infer " INFER_VERSION ", or export to other operators.");
	return false;
}

/* ---- inputs and constants ---- */

/* The size that a dimension other than the batch has. */
static bool
dim_resolve(struct graph *graph, const struct onnx_value *input, int axis, int64_t *size)
{
	const struct onnx_dim *dim = &input->dims[axis];
	const char *name = graph->model->names[input->name];

	if (dim->value >= 0)
	{
		*size = dim->value;
		return true;
	}
	for (uint32_t i = 0; i < graph->dims_count; i++)
		if (dim->symbol[0] != '\0' && strcmp(graph->dims[i].symbol, dim->symbol) == 0)
		{
			graph->dims[i].used = true;
			*size = graph->dims[i].value;
			return true;
		}
	if (dim->symbol[0] == '\0')
	{
		status_set(graph->status, INFER_ERROR_UNSUPPORTED,
				   "dimension %d of the input \"%s\" has neither a size nor a name", axis, name);
		status_hint(graph->status, "Export the model with a fixed size for this dimension.");
	}
	else
	{
		status_set(graph->status, INFER_ERROR_UNSUPPORTED,
				   "dimension %d of the input \"%s\" varies (\"%s\")", axis, name, dim->symbol);
		status_hint(graph->status, "Fix it with the option {\"dims\": {\"%s\": SIZE}}.", dim->symbol);
	}
	return false;
}

static bool
dim_has_option(struct graph *graph, const struct onnx_dim *dim)
{
	for (uint32_t i = 0; i < graph->dims_count; i++)
		if (dim->symbol[0] != '\0' && strcmp(graph->dims[i].symbol, dim->symbol) == 0)
			return true;
	return false;
}

/*
 * A map becomes a row of its DictVectorizer's vocabulary: one number for each key, which is
 * the feature's name.
 */
static bool
input_map(struct graph *graph, const struct onnx_value *input, struct graph_input *out)
{
	const struct onnx_model *model = graph->model;
	const char *name = model->names[input->name];
	const struct onnx_node *reader = NULL;
	int64_t		dims[2] = {1, 0};

	for (uint32_t i = 0; i < model->nodes_count; i++)
		for (uint32_t j = 0; j < model->nodes[i].inputs_count; j++)
			if (model->nodes[i].inputs[j] == input->name)
			{
				if (reader != NULL || strcmp(model->nodes[i].op, "DictVectorizer") != 0)
					return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
									  "the input \"%s\" is a map, and not taken by one DictVectorizer alone", name);
				reader = &model->nodes[i];
			}
	for (uint32_t i = 0; reader != NULL && i < reader->attributes_count; i++)
		if (strcmp(reader->attributes[i].name, "string_vocabulary") == 0 && reader->attributes[i].strings != NULL)
		{
			dims[1] = reader->attributes[i].count;
			graph->vocabulary = &reader->attributes[i];
		}
	if (dims[1] == 0 || (input->type != DEVICE_F32 && input->type != DEVICE_F64 && input->type != DEVICE_I64))
		return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
						  "the input \"%s\" is not a map from the strings of a vocabulary to numbers", name);
	for (uint32_t i = 0; i < graph->vocabulary->count; i++)
		if (graph->vocabulary->strings[i].length > 0 &&
			memchr(graph->vocabulary->strings[i].data, 0, graph->vocabulary->strings[i].length) != NULL)
			return graph_malformed(graph, reader, "has a zero byte in its vocabulary");
	out->batch = true;
	out->value = graph_value_new(graph, input->type, 2, dims, true);
	if (out->value < 0)
		return false;
	graph_value(graph, out->value)->name = name;
	graph_value(graph, out->value)->map = true;
	graph->by_name[input->name] = out->value;
	return true;
}

static int32_t
input_constant(struct graph *graph, uint8_t type, const int64_t *dims, const struct graph_given *given)
{
	void	   *data;
	int32_t		value = graph_constant_make(graph, type, 2, dims, &data);

	for (int64_t i = 0; value >= 0 && i < graph->length; i++)
	{
		int64_t		number = given->first + given->step * i;

		if (type == DEVICE_I64)
			((int64_t *) data)[i] = number;
		else if (type == DEVICE_I32)
			((int32_t *) data)[i] = (int32_t) number;
		else if (type == DEVICE_F32)
			((float *) data)[i] = (float) number;
		else
			((uint8_t *) data)[i] = number != 0;
	}
	return value;
}

/* [1, length] of the type that the file says. */
static bool
input_given(struct graph *graph, const struct onnx_value *input, const struct graph_given *given)
{
	int64_t		dims[2] = {1, graph->length};
	int32_t		value;

	if (!given->constant)
		value = graph_value_new(graph, input->type, 2, dims, true);
	else if (input->type == DEVICE_I64 || input->type == DEVICE_I32 || input->type == DEVICE_F32 || input->type == DEVICE_BOOL)
		value = input_constant(graph, input->type, dims, given);
	else
		return status_set(graph->status, INFER_ERROR_UNSUPPORTED, "the input \"%s\" is not of a supported type",
						  graph->model->names[input->name]);
	if (value < 0)
		return false;
	graph_value(graph, value)->name = graph->model->names[input->name];
	graph->by_name[input->name] = value;
	if (!given->constant)
		graph->inputs[graph->inputs_count++] = (struct graph_input) {.value = value, .batch = true};
	return true;
}

static bool
input_value(struct graph *graph, const struct onnx_value *input, struct graph_input *out)
{
	const char *name = graph->model->names[input->name];
	int64_t		dims[DEVICE_RANK_MAX];

	if (strlen(name) >= INFER_NAME_MAX)
		return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
						  "an input's name is longer than %d bytes", INFER_NAME_MAX - 1);
	if (input->kind == ONNX_VALUE_MAP)
		return input_map(graph, input, out);
	if (input->kind != ONNX_VALUE_TENSOR || input->type == 0)
		return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
						  "the input \"%s\" is not a tensor of a known type", name);
	if (!input->has_shape)
	{
		status_set(graph->status, INFER_ERROR_UNSUPPORTED, "the input \"%s\" has no shape", name);
		status_hint(graph->status, "Export the model with the shapes of its inputs.");
		return false;
	}
	for (int i = 0; i < input->rank; i++)
	{
		const struct onnx_dim *dim = &input->dims[i];

		if (i == 0 && dim->value < 0 && !dim_has_option(graph, dim))
		{
			out->batch = true;		/* what a model means is its result at batch 1 */
			dims[0] = 1;
			continue;
		}
		if (!dim_resolve(graph, input, i, &dims[i]))
			return false;
		if (i == 0 && dim->value == 1)
			out->batch = out->fixed = true;
	}
	out->value = graph_value_new(graph, input->type, input->rank, dims, true);
	if (out->value < 0)
		return false;
	graph_value(graph, out->value)->name = name;
	graph->by_name[input->name] = out->value;
	return true;
}

static bool
lower_inputs(struct graph *graph)
{
	const struct onnx_model *model = graph->model;

	graph->inputs = graph_pool(graph->memory, model->inputs_count, sizeof(*graph->inputs));
	if (graph->inputs == NULL)
		return false;
	for (uint32_t i = 0; i < model->inputs_count; i++)
	{
		if (graph->length > 0)
		{
			if (!input_given(graph, &model->inputs[i], &graph->given[i]))
				return false;
			continue;
		}
		if (!input_value(graph, &model->inputs[i], &graph->inputs[i]))
			return false;
		graph->row_by_row = graph->row_by_row || graph->inputs[i].fixed || !graph->inputs[i].batch;
		graph->inputs_count++;
	}
	for (uint32_t i = 0; i < graph->dims_count; i++)
		if (!graph->dims[i].used)
			return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
							  "the option dims names \"%s\", and no input has a dimension of that name",
							  graph->dims[i].symbol);
	return true;
}

/* The base's constant of that name, whose elements stay where they are; GRAPH_ABSENT: there is none. */
static int32_t
borrow_value(struct graph *graph, int32_t name)
{
	int32_t		there = graph->base == NULL ? GRAPH_ABSENT : graph->base->by_name[name], value;
	const struct graph_value *from, *root;

	if (!graph_is_constant(graph->base, there))
		return GRAPH_ABSENT;
	from = graph_value(graph->base, there);
	root = graph_value(graph->base, graph_root(graph->base, there));
	if (root->data == NULL && root->tensor == NULL)
		return GRAPH_ABSENT;
	value = graph_value_new(graph, from->type, from->rank, from->dims, false);
	if (value >= 0)
	{
		graph_value(graph, value)->name = from->name;
		graph_value(graph, value)->data = root->data;
		graph_value(graph, value)->tensor = root->tensor;
		graph_value(graph, value)->undefined = root->undefined;
		graph_value(graph, value)->undefined_by = root->undefined_by;
	}
	return value;
}

static bool
lower_constants(struct graph *graph)
{
	const struct onnx_model *model = graph->model;

	for (uint32_t i = 0; i < model->tensors_count; i++)
	{
		int32_t		name = model->tensors_names[i];
		int32_t		value = borrow_value(graph, name);

		if (value == GRAPH_ABSENT)
			value = graph_constant_tensor(graph, &model->tensors[i]);
		if (value < 0)
			return false;
		graph_value(graph, value)->name = model->names[name];
		graph->by_name[name] = value;
		graph->fixed[name] = true;
	}
	return true;
}

/* ---- nodes ---- */

static bool
check_attributes(struct graph *graph, const struct onnx_node *node)
{
	for (uint32_t i = 0; i < node->attributes_count; i++)
		if ((graph->attributes_read >> i & 1) == 0)
			return graph_unsupported(graph, node, "has the attribute \"%s\", which is not supported in version %u",
									 node->attributes[i].name, node->version);
	return true;
}

static bool
check_inputs(struct graph *graph, const struct onnx_node *node)
{
	for (uint32_t i = graph->inputs_read; i < node->inputs_count; i++)
		if (node->inputs[i] >= 0)
			return graph_unsupported(graph, node, "has the input %u (\"%.200s\"), which is not supported in version %u",
									 i, graph->model->names[node->inputs[i]], node->version);
	return true;
}

/* Whether a node depends on no input. */
static bool
node_is_fixed(const struct graph *graph, const struct onnx_node *node)
{
	for (uint32_t i = 0; i < node->inputs_count; i++)
		if (node->inputs[i] >= 0 && !graph->fixed[node->inputs[i]])
			return false;
	return true;
}

/* What the base has computed of a node that depends on no input; *borrowed: all of it.  False: status. */
static bool
borrow_node(struct graph *graph, const struct onnx_node *node, bool *borrowed)
{
	bool		fixed = node_is_fixed(graph, node);

	*borrowed = fixed && graph->base != NULL;
	for (uint32_t i = 0; i < node->outputs_count; i++)
	{
		int32_t		value;

		if (node->outputs[i] < 0)
			continue;
		graph->fixed[node->outputs[i]] = fixed;
		value = *borrowed ? borrow_value(graph, node->outputs[i]) : GRAPH_ABSENT;
		if (value == GRAPH_FAILED)
			return false;
		*borrowed = *borrowed && value >= 0;
		graph->by_name[node->outputs[i]] = value;
	}
	return true;
}

static bool
lower_node(struct graph *graph, const struct onnx_node *node)
{
	bool		name_known;
	const struct graph_operator *op = graph_operator_find(node, &name_known);
	bool		fine;

	graph->node = node;
	graph->attributes_read = 0;
	graph->inputs_read = 0;
	fine = op->lower(graph, node);
	if (!fine && graph->status->error == 0)
		status_set(graph->status, INFER_ERROR_INTERNAL, "operator %s failed and did not say why", node->op);
	fine = fine && graph->status->error == 0 && check_attributes(graph, node) &&
		check_inputs(graph, node);
	graph->node = NULL;
	return fine;
}

static bool
lower_outputs(struct graph *graph)
{
	const struct onnx_model *model = graph->model;

	graph->outputs = graph_pool(graph->memory, model->outputs_count, sizeof(*graph->outputs));
	if (graph->outputs == NULL)
		return false;
	for (uint32_t i = 0; i < model->outputs_count; i++)
	{
		const struct onnx_value *output = &model->outputs[i];
		const char *name = model->names[output->name];
		int32_t		value = graph->by_name[output->name];

		if (value < 0)
			return status_set(graph->status, INFER_ERROR_MODEL,
							  "the output \"%s\" is not given by the operator that should", name);
		if (output->kind == ONNX_VALUE_MAP || graph_value(graph, value)->map)
			return status_set(graph->status, INFER_ERROR_UNSUPPORTED, "the output \"%s\" is a map", name);
		if (strlen(name) >= INFER_NAME_MAX)
			return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
							  "an output's name is longer than %d bytes", INFER_NAME_MAX - 1);
		if (output->kind == ONNX_VALUE_TENSOR && output->type != 0 &&
			output->type != graph_value(graph, value)->type)
			return status_set(graph->status, INFER_ERROR_MODEL,
							  "the output \"%s\" is declared as %s and computed as %s", name,
							  infer_type_name(output->type),
							  infer_type_name(graph_value(graph, value)->type));
		graph->outputs[graph->outputs_count++] = value;
	}
	return true;
}

bool
graph_lower(struct graph *graph)
{
	const struct onnx_model *model = graph->model;

	if (!check_operators(graph))
		return false;
	graph->by_name = graph_pool(graph->memory, model->names_count, sizeof(*graph->by_name));
	graph->fixed = graph_pool(graph->memory, model->names_count, sizeof(*graph->fixed));
	if (graph->queue == NULL)
		graph->queue = graph_folds(graph)->ops->queue_create(graph_folds(graph), DEVICE_CONSTANTS, graph->status);
	if (graph->by_name == NULL || graph->fixed == NULL || graph->queue == NULL)
		return false;
	for (uint32_t i = 0; i < model->names_count; i++)
		graph->by_name[i] = GRAPH_ABSENT;
	if (!lower_inputs(graph) || !lower_constants(graph))
		return false;
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		bool		borrowed;

		if (!borrow_node(graph, &model->nodes[i], &borrowed) || (!borrowed && !lower_node(graph, &model->nodes[i])))
			return false;
	}
	return lower_outputs(graph);
}

/* ---- missing values ---- */

/*
 * skl2onnx writes the trees of scikit-learn's own decision trees and forests with every missing
 * value on the right, wherever training had sent it.  Such a file does not know.
 */
static bool
trees_know_missing(const struct onnx_model *model, const struct onnx_node *node)
{
	if (strcmp(model->producer, "skl2onnx") != 0)
		return true;
	for (uint32_t a = 0; a < node->attributes_count; a++)
		if (node->attributes[a].type == ONNX_ATTRIBUTE_INTS &&
			strcmp(node->attributes[a].name, "nodes_missing_value_tracks_true") == 0)
			for (uint32_t i = 0; i < node->attributes[a].count; i++)
				if (node->attributes[a].ints[i] != 0)
					return true;
	return false;
}

static bool
node_accepts_missing(const struct onnx_model *model, const struct onnx_node *node, const bool *accepts)
{
	bool		name_known;
	const struct graph_operator *op = graph_operator_find(node, &name_known);

	if (op == NULL || op->missing == GRAPH_MISSING_COMPUTES)
		return false;
	if (op->missing == GRAPH_MISSING_TAKES)
		return strncmp(op->name, "TreeEnsemble", 12) != 0 || trees_know_missing(model, node);
	for (uint32_t i = 0; i < node->outputs_count; i++)
		if (node->outputs[i] >= 0 && !accepts[node->outputs[i]])
			return false;
	return true;
}

static bool
node_is(const struct onnx_node *node, const char *op, uint32_t inputs_count)
{
	return node->domain[0] == '\0' && strcmp(node->op, op) == 0 && node->inputs_count == inputs_count;
}

/*
 * Of each name, what it says "is missing" of, or -1: what IsNaN gives.  NULL if there is no
 * memory.
 */
static const int32_t *
names_tested(struct graph *graph)
{
	const struct onnx_model *model = graph->model;
	int32_t    *tested = graph_pool(graph->memory, model->names_count, sizeof(*tested));

	if (tested == NULL)
		return NULL;
	for (uint32_t i = 0; i < model->names_count; i++)
		tested[i] = -1;
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		const struct onnx_node *node = &model->nodes[i];

		if (node_is(node, "IsNaN", 1) && node->outputs_count == 1 && node->outputs[0] >= 0)
			tested[node->outputs[0]] = node->inputs[0];
	}
	return tested;
}

/* Where(IsNaN(x), …, x) puts something in the place of what is missing. */
static bool
input_is_filled(const struct onnx_node *node, uint32_t input, const int32_t *tested)
{
	return input == 2 && node_is(node, "Where", 3) && node->inputs[0] >= 0 &&
		tested[node->inputs[0]] == node->inputs[2];
}

/*
 * A name may carry a missing value if every node that takes it either knows what to do
 * with one or hands it on to such nodes only, and if it is no output.
 */
void
graph_missing_inputs(struct graph *graph)
{
	const struct onnx_model *model = graph->model;
	bool	   *accepts = graph_pool(graph->memory, model->names_count, sizeof(*accepts));
	bool	   *taken = graph_pool(graph->memory, model->names_count, sizeof(*taken));
	const int32_t *tested = names_tested(graph);

	if (accepts == NULL || taken == NULL || tested == NULL)
		return;
	for (uint32_t i = 0; i < model->names_count; i++)
		accepts[i] = true;
	for (uint32_t i = 0; i < model->outputs_count; i++)
		accepts[model->outputs[i].name] = false;
	for (uint32_t i = model->nodes_count; i-- > 0;)		/* users come before makers */
	{
		const struct onnx_node *node = &model->nodes[i];
		bool		fine = node_accepts_missing(model, node, accepts);

		for (uint32_t j = 0; j < node->inputs_count; j++)
			if (node->inputs[j] >= 0)
			{
				taken[node->inputs[j]] = true;
				accepts[node->inputs[j]] = accepts[node->inputs[j]] && (fine || input_is_filled(node, j, tested));
			}
	}
	for (uint32_t i = 0; i < graph->inputs_count; i++)
	{
		int32_t		name = model->inputs[i].name;

		graph->inputs[i].missing = taken[name] && accepts[name];
	}
}
