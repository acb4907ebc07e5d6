/*
 * model.c
 *	  Reads a ModelProto into struct onnx_model.  See onnx.h.
 *
 * Loop
 *	model → graph → values, initialisers, nodes, each parsed once and in file order; then
 *	names are numbered, and every use is checked against the definitions before it.
 */
#include "onnx_reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../status.h"

#define ONNX_METADATA_MAX	(1u << 20)	/* bytes of the feature names */

enum model_field
{
	MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14,
	MODEL_FUNCTIONS = 25
};

enum graph_field
{
	GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_SPARSE = 15
};

/* ---- the graph ---- */

static bool
graph_tensor(struct onnx_reader *r, struct protobuf_span span)
{
	struct onnx_model *model = r->model;
	struct onnx_tensor *tensor;
	struct protobuf_span name;

	if (!graph_pool_grow(r->memory, &model->tensors, model->tensors_count, &r->tensors_space,
						 sizeof(*model->tensors), ONNX_TENSORS_MAX, "initialisers") ||
		!graph_pool_grow(r->memory, &r->tensors_names, model->tensors_count,
						 &r->tensors_names_space, sizeof(*r->tensors_names), ONNX_TENSORS_MAX,
						 "initialisers"))
		return false;
	tensor = &model->tensors[model->tensors_count];
	if (!onnx_tensor_parse(span, r->files, r->file, r->memory, false, tensor, r->status))
		return false;
	name.data = (const uint8_t *) tensor->name;
	name.size = strlen(tensor->name);
	if (name.size == 0)
		return onnx_malformed(r, "an initialiser", "it has no name");
	return onnx_name_reference(r, name, &r->tensors_names[model->tensors_count++]);
}

static bool
graph_value(struct onnx_reader *r, struct protobuf_span span, bool input)
{
	struct onnx_model *model = r->model;
	uint32_t   *count = input ? &model->inputs_count : &model->outputs_count;
	uint32_t   *space = input ? &r->inputs_space : &r->outputs_space;
	struct onnx_value **values = input ? &model->inputs : &model->outputs;

	if (!graph_pool_grow(r->memory, values, *count, space, sizeof(**values),
						 input ? ONNX_TENSORS_MAX : INFER_COLUMNS_MAX, input ? "inputs" : "outputs"))
		return false;
	if (!onnx_value_parse(r, span, &(*values)[*count], input ? "an input" : "an output"))
		return false;
	(*count)++;
	return true;
}

static bool
graph_parse(struct onnx_reader *r, struct protobuf_span span)
{
	struct protobuf_reader reader;
	struct protobuf_field field;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		bool		fine = true;

		if (field.number <= GRAPH_SPARSE && !onnx_is_bytes(r, &field, "the graph"))
			return false;
		switch (field.number)
		{
			case GRAPH_NODE:
				fine = onnx_node_add(r, field.bytes);
				break;
			case GRAPH_INITIALIZER:
				fine = graph_tensor(r, field.bytes);
				break;
			case GRAPH_INPUT:
			case GRAPH_OUTPUT:
				fine = graph_value(r, field.bytes, field.number == GRAPH_INPUT);
				break;
			case GRAPH_SPARSE:
				fine = status_set(r->status, INFER_ERROR_UNSUPPORTED,
								  "sparse tensors are not supported (sparse_initializer)");
				break;
			default:
				break;
		}
		if (!fine)
			return false;
	}
	return reader.failed == NULL || onnx_malformed(r, "the graph", reader.failed);
}

/* ---- the model ---- */

bool
onnx_opset_parse(struct onnx_reader *r, struct protobuf_span span, uint32_t *main_version, uint32_t *ml_version)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	const char *domain = "";
	uint64_t	version = 0;
	uint32_t   *place;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.number == 1 && field.wire == PROTOBUF_BYTES)
			domain = onnx_text_copy(r, field.bytes, ONNX_TEXT_MAX, "an operator set");
		else if (field.number == 2 && field.wire == PROTOBUF_VARINT)
			version = field.value;
		if (domain == NULL)
			return false;
	}
	if (reader.failed != NULL)
		return onnx_malformed(r, "an operator set", reader.failed);
	if (version == 0 || version > INT32_MAX)
		return onnx_malformed(r, "an operator set", "its version is not a positive number");
	if (domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
		place = main_version;
	else if (strcmp(domain, ONNX_DOMAIN_ML) == 0)
		place = ml_version;
	else
		return true;				/* its operators, if used, are refused by name */
	if (*place != 0 && *place != version)
		return onnx_malformed(r, "an operator set", "it is imported twice");
	*place = (uint32_t) version;
	return true;
}

static bool
model_metadata(struct onnx_reader *r, struct protobuf_span span)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct protobuf_span key = {0}, value = {0};

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		if (field.wire == PROTOBUF_BYTES && field.number == 1)
			key = field.bytes;
		else if (field.wire == PROTOBUF_BYTES && field.number == 2)
			value = field.bytes;
	}
	if (reader.failed != NULL)
		return onnx_malformed(r, "the metadata", reader.failed);
	if (key.size != strlen("feature_names") || memcmp(key.data, "feature_names", key.size) != 0)
		return true;
	r->model->features = onnx_text_copy(r, value, ONNX_METADATA_MAX, "the metadata property feature_names");
	return r->model->features != NULL;
}

static bool
model_parse(struct onnx_reader *r, struct protobuf_span span, struct protobuf_span *graph)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct onnx_model *model = r->model;
	uint64_t	ir = 0;

	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
	{
		bool		fine = true;

		switch (field.number)
		{
			case MODEL_IR:
				ir = field.value;
				break;
			case MODEL_PRODUCER:
				model->producer = onnx_text_copy(r, field.bytes, ONNX_TEXT_MAX, "the producer");
				fine = model->producer != NULL;
				break;
			case MODEL_GRAPH:
				if (graph->data != NULL)
					return onnx_malformed(r, "the model", "it has two graphs");
				fine = onnx_is_bytes(r, &field, "the model");
				*graph = field.bytes;
				break;
			case MODEL_OPSET:
				fine = onnx_opset_parse(r, field.bytes, &model->main_version, &model->ml_version);
				break;
			case MODEL_METADATA:
				fine = model_metadata(r, field.bytes);
				break;
			case MODEL_FUNCTIONS:
				fine = onnx_is_bytes(r, &field, "the model") && onnx_function_parse(r, field.bytes);
				break;
			default:
				break;
		}
		if (!fine)
			return false;
	}
	if (reader.failed != NULL)
		return onnx_malformed(r, "the model", reader.failed);
	if (ir == 0)
		return onnx_malformed(r, "the model", span.size == 0 ? "it is empty" : "it has no IR version");
	if (ir < ONNX_IR_FIRST || ir > ONNX_IR_LAST)
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "the ONNX file has IR version %llu; supported are %d to %d",
						  (unsigned long long) ir, ONNX_IR_FIRST, ONNX_IR_LAST);
	model->ir_version = (uint32_t) ir;
	return true;
}

/* ---- checks ---- */

static bool
name_error(struct onnx_reader *r, int32_t name, const char *what)
{
	return status_set(r->status, INFER_ERROR_MODEL, "the ONNX file is malformed: the value \"%s\" %s",
					  r->model->names[name], what);
}

/* An input that has an initialiser is that constant (IR versions before 4 list them all). */
static void
inputs_without_tensors(struct onnx_model *model, const uint8_t *defined)
{
	uint32_t	kept = 0;

	for (uint32_t i = 0; i < model->inputs_count; i++)
		if (!defined[model->inputs[i].name])
			model->inputs[kept++] = model->inputs[i];
	model->inputs_count = kept;
}

static bool
check_definitions(struct onnx_reader *r)
{
	struct onnx_model *model = r->model;
	uint8_t    *defined = graph_pool(r->memory, model->names_count, 1);

	if (defined == NULL)
		return false;
	for (uint32_t i = 0; i < model->tensors_count; i++)
		if (defined[model->tensors_names[i]]++)
			return name_error(r, model->tensors_names[i], "has two initialisers");
	inputs_without_tensors(model, defined);
	for (uint32_t i = 0; i < model->inputs_count; i++)
		if (defined[model->inputs[i].name]++)
			return name_error(r, model->inputs[i].name, "is two inputs");
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		const struct onnx_node *node = &model->nodes[i];

		for (uint32_t j = 0; j < node->inputs_count; j++)
			if (node->inputs[j] >= 0 && !defined[node->inputs[j]])
				return name_error(r, node->inputs[j], "is used before anything computes it");
		for (uint32_t j = 0; j < node->outputs_count; j++)
			if (node->outputs[j] >= 0 && defined[node->outputs[j]]++)
				return name_error(r, node->outputs[j], "is computed twice");
	}
	for (uint32_t i = 0; i < model->outputs_count; i++)
	{
		if (!defined[model->outputs[i].name])
			return name_error(r, model->outputs[i].name, "is an output, and nothing computes it");
		for (uint32_t j = 0; j < i; j++)
			if (model->outputs[j].name == model->outputs[i].name)
				return name_error(r, model->outputs[i].name, "is two outputs");
	}
	return true;
}

static bool
check_counts(struct onnx_reader *r)
{
	struct onnx_model *model = r->model;

	if (model->outputs_count == 0)
		return onnx_malformed(r, "the graph", "it has no outputs");
	if (model->inputs_count > INFER_COLUMNS_MAX || model->outputs_count > INFER_COLUMNS_MAX)
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "the model has %u inputs and %u outputs; at most %d of each are supported",
						  model->inputs_count, model->outputs_count, INFER_COLUMNS_MAX);
	return true;
}

static bool
version_check(struct onnx_reader *r, uint32_t version, const char *set, uint32_t first, uint32_t last)
{
	if (version == 0)
		return onnx_malformed(r, "the operator sets", "one that a node needs is not imported");
	if (version < first || version > last)
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "the model uses operator set %u of %s; supported are %u to %u", version, set, first, last);
	return true;
}

/* Gives each node the version that its domain is imported with, by the model or its function. */
static bool
node_versions(struct onnx_reader *r)
{
	struct onnx_model *model = r->model;

	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		struct onnx_node *node = &model->nodes[i];
		bool		main = node->domain[0] == '\0';

		if (!main && strcmp(node->domain, ONNX_DOMAIN_ML) != 0)
			continue;
		if (!node->in_function)
			node->version = main ? model->main_version : model->ml_version;
		if (!(main ? version_check(r, node->version, "ONNX", ONNX_MAIN_FIRST, ONNX_MAIN_LAST) :
			  version_check(r, node->version, ONNX_DOMAIN_ML, ONNX_ML_FIRST, ONNX_ML_LAST)))
			return false;
	}
	return true;
}

static bool
file_parse(struct onnx_reader *r)
{
	struct protobuf_span whole = {r->file->data, r->file->size};
	struct protobuf_span graph = {0};

	if (!model_parse(r, whole, &graph))
		return false;
	if (graph.data == NULL)
		return onnx_malformed(r, "the model", "it has no graph");
	return graph_parse(r, graph) && onnx_names_resolve(r) && check_definitions(r) && check_counts(r) &&
		node_versions(r);
}

bool
onnx_read(const struct model_files *files, const struct model_file *file,
		  struct graph_memory *memory, struct onnx_model *model, struct status *status)
{
	struct onnx_reader reader = {
		.files = files, .file = file, .memory = memory, .model = model, .status = status
	};

	memset(model, 0, sizeof(*model));
	model->producer = "";
	if (file_parse(&reader))
		return true;
	if (status->error == INFER_ERROR_MODEL)
		status_hint(status, "Give a complete file in ONNX format, or export the model again.");
	return false;
}

bool
onnx_recognises(const struct model_file *file)
{
	/* ModelProto's first field, as every writer orders them: ir_version, a small number */
	return file->size > 2 && file->data[0] == (MODEL_IR << 3 | PROTOBUF_VARINT) &&
		file->data[1] >= 1 && file->data[1] < 0x80;
}
