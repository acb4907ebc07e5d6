/*
 * inputs.c
 *	  The model's inputs become values, with the sizes of their dimensions.
 *
 * The first dimension is the batch where it has no size of its own, and counts as 1 here: what a
 * model means is its result at batch 1.  Others have a size, or get it from the option dims.
 */
#include "../graph_internal.h"

#include <string.h>

#include "../../../protocol/protocol.h"

/* ---- dimensions ---- */

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

bool
graph_lower_inputs(struct graph *graph)
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
