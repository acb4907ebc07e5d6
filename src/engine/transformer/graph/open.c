/*
 * open.c
 *	  An ONNX file as a text graph: its inputs, the output that is wanted, the nodes that this one
 *	  needs, and the base.
 */
#include "text_graph.h"

#include <stdlib.h>
#include <string.h>

#include "../../../protocol/protocol.h"

#define HOST_BYTES		(UINT64_C(256) << 20)	/* of a graph on the host, beside its files */
#define HOST_FACTOR		8						/* and as often the size of its files */
#define BASE_LENGTH		4

/* ---- inputs ---- */

/* [batch, sequence], neither of them fixed but for a batch of 1. */
static bool
check_input(const struct text_graph *g, const struct onnx_value *input, struct status *status)
{
	const char *name = g->onnx.names[input->name];

	if (input->kind != ONNX_VALUE_TENSOR || (input->has_shape && input->rank != 2))
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the input \"%.200s\" is not a number for each token", name);
	if (!input->has_shape)
		return true;
	if (input->dims[0].value >= 0 && input->dims[0].value != 1)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the input \"%.200s\" is fixed to %lld texts", name, (long long) input->dims[0].value);
	if (input->dims[1].value >= 0)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "the input \"%.200s\" is fixed to %lld tokens, and texts are not padded", name,
				   (long long) input->dims[1].value);
		status_hint(status, "Export the model with a sequence that varies.");
		return false;
	}
	return true;
}

static bool
token_input(const struct text_graph *g, uint32_t i, int32_t *place, struct status *status)
{
	const struct onnx_value *input = &g->onnx.inputs[i];

	*place = (int32_t) i;
	return input->type == DEVICE_I64 || input->type == DEVICE_I32 ||
		status_set(status, INFER_ERROR_UNSUPPORTED, "the input \"%.200s\" is not of whole numbers", g->onnx.names[input->name]);
}

static bool
give_input(struct text_graph *g, const struct text_graph_source *source, uint32_t i, struct status *status)
{
	const char *name = g->onnx.names[g->onnx.inputs[i].name];

	if (!check_input(g, &g->onnx.inputs[i], status))
		return false;
	if (strcmp(name, "input_ids") == 0)
		return token_input(g, i, &g->ids, status);
	if (strcmp(name, "token_type_ids") == 0)
		return token_input(g, i, &g->types, status);
	g->given[i].constant = true;
	if (strcmp(name, "attention_mask") == 0)
	{
		g->given[i].first = 1;
		return true;
	}
	if (strcmp(name, "position_ids") != 0)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the input \"%.200s\" is none that a text's tokens give", name);
	g->given[i].step = 1;
	return source->places_known ||
		status_set(status, INFER_ERROR_UNSUPPORTED, "the input \"position_ids\" is not supported for this model_type: it is not known where places begin");
}

static bool
give_inputs(struct text_graph *g, const struct text_graph_source *source, struct status *status)
{
	g->ids = g->types = -1;
	g->given = graph_pool(&g->memory, g->onnx.inputs_count, sizeof(*g->given));
	if (g->given == NULL)
		return false;
	for (uint32_t i = 0; i < g->onnx.inputs_count; i++)
		if (!give_input(g, source, i, status))
			return false;
	return g->ids >= 0 || status_set(status, INFER_ERROR_UNSUPPORTED, "the ONNX file has no input \"input_ids\"");
}

/* ---- the output ---- */

/* The one output, and only those nodes that it needs. */
static bool
keep_output(struct text_graph *g, const char *name)
{
	struct onnx_model *model = &g->onnx;
	bool	   *needed = graph_pool(&g->memory, model->names_count, sizeof(*needed));
	bool	   *kept = graph_pool(&g->memory, model->nodes_count, sizeof(*kept));
	uint32_t	count = 0;

	if (needed == NULL || kept == NULL)
		return false;
	for (uint32_t i = 0; i < model->outputs_count; i++)
		if (strcmp(model->names[model->outputs[i].name], name) == 0)
			model->outputs[0] = model->outputs[i];
	model->outputs_count = 1;
	needed[model->outputs[0].name] = true;
	for (uint32_t i = model->nodes_count; i-- > 0;)
	{
		const struct onnx_node *node = &model->nodes[i];

		for (uint32_t k = 0; k < node->outputs_count; k++)
			kept[i] = kept[i] || (node->outputs[k] >= 0 && needed[node->outputs[k]]);
		for (uint32_t k = 0; kept[i] && k < node->inputs_count; k++)
			if (node->inputs[k] >= 0)
				needed[node->inputs[k]] = true;
	}
	for (uint32_t i = 0; i < model->nodes_count; i++)
		if (kept[i])
		{
			model->nodes[count] = model->nodes[i];
			model->nodes[count].index = count;
			count++;
		}
	model->nodes_count = count;
	return true;
}

static bool
read_output(struct text_graph *g, struct status *status)
{
	const struct graph_value *output = graph_value(&g->base, g->base.outputs[0]);

	g->output = output->rank == 3 ? TEXT_GRAPH_TOKENS : TEXT_GRAPH_TEXT;
	if (output->rank < 2 || output->rank > 3 || output->dims[output->rank - 1] < 1 || output->dims[output->rank - 1] > INT32_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the output \"%.200s\" has %u dimensions, and is neither of each token nor of the text",
						  g->onnx.names[g->onnx.outputs[0].name], output->rank);
	g->width = (uint32_t) output->dims[output->rank - 1];
	return true;
}

/* ---- open ---- */

static uint64_t
programs_most(struct device *device)
{
	struct device_info info = {0};
	uint64_t	share;

	device->ops->info(device, &info);
	share = info.bytes_budget / TEXT_GRAPH_PROGRAMS_SHARE;
	return share > 0 && share < TEXT_GRAPH_PROGRAMS_BYTES ? share : TEXT_GRAPH_PROGRAMS_BYTES;
}

static bool
open_graph(struct text_graph *g, const struct text_graph_source *source, struct status *status)
{
	return onnx_read(&g->files, source->file, &g->memory, &g->onnx, status) && give_inputs(g, source, status) &&
		keep_output(g, source->output) && text_graph_compile(g, NULL, BASE_LENGTH, NULL, &g->memory, &g->base, status) &&
		read_output(g, status);
}

struct text_graph *
text_graph_open(const struct text_graph_source *source, struct device *device, struct status *status)
{
	struct text_graph *g = calloc(1, sizeof(*g));
	uint64_t	bytes = 0;

	if (g == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a text model");
		return NULL;
	}
	g->device = device;
	pthread_mutex_init(&g->compiling, NULL);
	pthread_mutex_init(&g->lock, NULL);
	g->programs_most = programs_most(device);
	g->files = *source->files;
	for (uint32_t i = 0; i < g->files.count; i++)
		bytes += g->files.files[i].size;
	graph_memory_init(&g->memory, HOST_BYTES + HOST_FACTOR * bytes, status);
	if (!open_graph(g, source, status))
	{
		text_graph_close(g);
		return NULL;
	}
	g->memory.status = NULL;
	return g;
}
