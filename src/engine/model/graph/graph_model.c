/*
 * graph_model.c
 *	  The kind "graph": an ONNX file as a model.  Opening: options, the graph's stages, the
 *	  signature, and how many rows fit into a batch.
 *
 * Rows
 *	The graph is compiled with the shapes that it has at batch 1 and mapped over rows, so a
 *	model whose file fixes the batch to 1 is batched as well as any other: each row is one
 *	evaluation of exactly that shape.
 */
#include "graph_model.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../status.h"

#define ACTIVATION_BYTES	(UINT64_C(64) << 20)	/* of one batch: arena and bindings; kept for the next */
#define HOST_BYTES			(UINT64_C(256) << 20)	/* of a graph on the host, beside its files */
#define HOST_FACTOR			8						/* and as often the size of its files */
#define OPTIONS_BYTES		(64u << 10)

/* ---- which file ---- */

static bool
has_suffix(const char *name, const char *suffix)
{
	size_t		length = strlen(name);
	size_t		wanted = strlen(suffix);

	return length >= wanted && strcmp(name + length - wanted, suffix) == 0;
}

/* The ONNX file: model.onnx, else the only one of that suffix, else the only file. */
static const struct model_file *
find_file(const struct model_files *files, bool *ambiguous)
{
	const struct model_file *found = model_files_find(files, "model.onnx");

	*ambiguous = false;
	if (found != NULL)
		return found;
	for (uint32_t i = 0; i < files->count; i++)
		if (has_suffix(files->files[i].name, ".onnx"))
		{
			*ambiguous = *ambiguous || found != NULL;
			found = &files->files[i];
		}
	if (found == NULL && files->count == 1 && onnx_recognises(&files->files[0]))
		found = &files->files[0];
	return found;
}

static bool
graph_model_recognises(const struct model_files *files)
{
	bool		ambiguous;

	return find_file(files, &ambiguous) != NULL;
}

/* ---- options ---- */

static bool
option_dims(struct graph_model *m, json_t *dims, struct status *status)
{
	const char *symbol;
	json_t	   *size;
	uint32_t	i = 0;

	if (!json_is_object(dims))
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the option dims is not an object of sizes");
	m->graph.dims = graph_pool(&m->memory, json_object_size(dims), sizeof(*m->graph.dims));
	if (m->graph.dims == NULL)
		return false;
	json_object_foreach(dims, symbol, size)
	{
		if (!json_is_integer(size) || json_integer_value(size) < 1 || json_integer_value(size) > INT32_MAX)
			return status_set(status, INFER_ERROR_UNSUPPORTED,
							  "the option dims has a size for \"%.200s\" that is not a positive integer", symbol);
		m->graph.dims[i].symbol = graph_pool_text(&m->memory, symbol, strlen(symbol));
		if (m->graph.dims[i].symbol == NULL)
			return false;
		m->graph.dims[i++].value = json_integer_value(size);
	}
	m->graph.dims_count = i;
	return true;
}

/* It names the file that is read, and changes nothing: another one is refused, not passed over. */
static bool
option_file(json_t *name, const struct model_file *file, struct status *status)
{
	if (json_is_string(name) && strcmp(json_string_value(name), file->name) == 0)
		return true;
	status_set(status, INFER_ERROR_UNSUPPORTED, "the option file does not name \"%s\", which is what is read of the model", file->name);
	status_hint(status, "Leave the option out, or name the file to use model.onnx: of models that do not read texts the option chooses none.");
	return false;
}

/* What is not about computing belongs to the catalogue, and is left to it. */
static bool
read_options(struct graph_model *m, const char *options, const struct model_file *file, struct status *status)
{
	static const char *const others[] = {"features", "classes", "store"};
	json_error_t error;
	json_t	   *root;
	const char *key;
	json_t	   *value;
	bool		fine = true;

	if (options == NULL || options[0] == '\0')
		return true;
	if (strlen(options) > OPTIONS_BYTES)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the model's options are longer than %u bytes",
						  OPTIONS_BYTES);
	root = json_loads(options, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(root))
	{
		json_decref(root);
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the model's options are not a JSON object");
	}
	json_object_foreach(root, key, value)
	{
		bool		other = false;

		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			other = other || strcmp(key, others[i]) == 0;
		if (strcmp(key, "dims") == 0)
			fine = option_dims(m, value, status);
		else if (strcmp(key, "file") == 0)
			fine = option_file(value, file, status);
		else if (!other)
			fine = status_set(status, INFER_ERROR_UNSUPPORTED, "unknown option \"%.200s\"", key);
		if (!fine)
			break;
	}
	json_decref(root);
	return fine;
}

/* ---- the signature ---- */

/* A value as the user sees it: without the batch's dimension. */
static bool
signature_tensor(struct graph_model *m, int32_t value, const char *name, bool batch,
				 struct infer_tensor *tensor, struct status *status)
{
	const struct graph_value *v = graph_value(&m->graph, value);
	int			skip = batch && v->rank > 0 && v->dims[0] == 1 ? 1 : 0;
	size_t		size = v->type == DEVICE_STRING ? sizeof(struct infer_span) : device_type_bytes(v->type);

	if ((uint64_t) v->elements * size > INFER_REGION_MAX / 4)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "\"%s\" has %" PRId64 " elements a row, which no request can hold",
						  name, v->elements);
	tensor->name = (char *) name;
	tensor->type = v->type;
	tensor->rank = (uint32_t) (v->rank - skip);
	if (tensor->rank > 0)
		memcpy(tensor->dims, v->dims + skip, tensor->rank * sizeof(*tensor->dims));
	tensor->flags = skip != 0 ? INFER_TENSOR_BATCH : 0;
	return true;
}

static bool
signature_inputs(struct graph_model *m, bool *batch, struct status *status)
{
	struct infer_signature *signature = &m->model.signature;
	const struct graph *graph = &m->graph;

	signature->inputs_count = graph->inputs_count;
	signature->inputs = graph_pool(&m->memory, graph->inputs_count, sizeof(*signature->inputs));
	if (signature->inputs == NULL)
		return false;
	*batch = false;
	for (uint32_t i = 0; i < graph->inputs_count; i++)
	{
		const struct graph_input *input = &graph->inputs[i];
		struct infer_tensor *tensor = &signature->inputs[i];

		if (!signature_tensor(m, input->value, m->onnx.names[m->onnx.inputs[i].name], input->batch, tensor, status))
			return false;
		if (input->missing && (tensor->type == INFER_TYPE_F32 || tensor->type == INFER_TYPE_F64))
			tensor->flags |= INFER_TENSOR_MISSING;
		*batch = *batch || input->batch;
	}
	return true;
}

static bool
signature_outputs(struct graph_model *m, bool batch, struct status *status)
{
	struct infer_signature *signature = &m->model.signature;
	const struct graph *graph = &m->graph;
	bool		label = false, scores = false;

	signature->outputs_count = graph->outputs_count;
	signature->outputs = graph_pool(&m->memory, graph->outputs_count, sizeof(*signature->outputs));
	if (signature->outputs == NULL)
		return false;
	for (uint32_t i = 0; i < graph->outputs_count; i++)
	{
		const struct graph_value *value = graph_value(graph, graph->outputs[i]);
		struct infer_tensor *tensor = &signature->outputs[i];

		if (!signature_tensor(m, graph->outputs[i], m->onnx.names[m->onnx.outputs[i].name], batch, tensor, status))
			return false;
		tensor->role = value->role;
		tensor->flags |= value->flags;
		label = label || value->role == INFER_ROLE_LABEL;
		if (value->role != INFER_ROLE_SCORES)
			continue;
		scores = true;
		if (signature->classes_count == 0 && value->classes_count == infer_tensor_width(tensor))
		{
			signature->classes_count = value->classes_count;
			signature->classes = value->classes;
		}
	}
	signature->task = INFER_TASK_NETWORK;
	if (label || scores)
		signature->task = INFER_TASK_CLASSIFIER;
	else if (graph->outputs_count == 1 && infer_tensor_width(&signature->outputs[0]) == 1 &&
			 signature->outputs[0].type != INFER_TYPE_STRING && signature->outputs[0].type != INFER_TYPE_BOOL)
		signature->task = INFER_TASK_REGRESSION;
	return true;
}

static bool
feature_add(struct graph_model *m, const char *name, size_t length, uint32_t *space)
{
	struct infer_signature *signature = &m->model.signature;

	if (!graph_pool_grow(&m->memory, &signature->features, signature->features_count, space,
						 sizeof(*signature->features), 1u << 20, "feature names"))
		return false;
	signature->features[signature->features_count] = graph_pool_text(&m->memory, name, length);
	return signature->features[signature->features_count++] != NULL;
}

/* The keys of a map; or the property feature_names: a JSON array, or names with commas between. */
static bool
signature_features(struct graph_model *m)
{
	const char *text = m->onnx.features;
	uint32_t	space = 0;
	json_t	   *array;
	bool		fine = true;

	if (m->graph.vocabulary != NULL)
	{
		const struct onnx_attribute *words = m->graph.vocabulary;

		for (uint32_t i = 0; fine && i < words->count; i++)
			fine = feature_add(m, words->strings[i].data, words->strings[i].length, &space);
		return fine;
	}
	if (text == NULL || text[0] == '\0')
		return true;
	array = json_loads(text, 0, NULL);
	if (json_is_array(array))
	{
		for (size_t i = 0; fine && i < json_array_size(array); i++)
		{
			const char *name = json_string_value(json_array_get(array, i));

			if (name != NULL)
				fine = feature_add(m, name, strlen(name), &space);
		}
		json_decref(array);
		return fine;
	}
	json_decref(array);
	while (fine && text != NULL)
	{
		const char *end = strchr(text, ',');
		size_t		length;

		text += strspn(text, " \t\r\n");
		length = end == NULL ? strlen(text) : end > text ? (size_t) (end - text) : 0;
		while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
			length--;
		fine = feature_add(m, text, length, &space);
		text = end == NULL ? NULL : end + 1;
	}
	return fine;
}

/* Names that do not fit the inputs are of no use, and the user learns why. */
static bool
signature_notes(struct graph_model *m)
{
	struct infer_signature *signature = &m->model.signature;
	const char *features = "";
	const char *rows = "";

	if (signature->features_count > 0 &&
		(signature->inputs_count != 1 ||
		 infer_tensor_width(&signature->inputs[0]) != signature->features_count))
	{
		features = "The property feature_names does not have one name for each element of a single input, and is not used. ";
		signature->features_count = 0;
		signature->features = NULL;
	}
	if (m->graph.row_by_row)
	{
		signature->flags |= INFER_SIGNATURE_ROW_BY_ROW;
		rows = "The file fixes the batch: each row is one evaluation of the shape that the file gives.";
	}
	signature->notes = graph_pool_printf(&m->memory, "%s%s", features, rows);
	return signature->notes != NULL;
}

static bool
make_signature(struct graph_model *m, struct status *status)
{
	struct infer_signature *signature = &m->model.signature;
	char		format[128];
	int			used;
	bool		batch;

	used = snprintf(format, sizeof(format), "onnx %u", m->onnx.ir_version);
	if (m->onnx.main_version != 0)
		used += snprintf(format + used, sizeof(format) - used, ", ai.onnx %u", m->onnx.main_version);
	if (m->onnx.ml_version != 0)
		snprintf(format + used, sizeof(format) - used, ", %s %u", ONNX_DOMAIN_ML, m->onnx.ml_version);
	signature->kind = (char *) "graph";
	signature->format = graph_pool_text(&m->memory, format, strlen(format));
	signature->bytes = m->graph.weights_bytes;
	return signature->format != NULL && signature_inputs(m, &batch, status) &&
		signature_outputs(m, batch, status) && signature_features(m) && signature_notes(m);
}

/* ---- batches ---- */

static bool
size_batches(struct graph_model *m, struct status *status)
{
	const struct device_ops *device = m->device->ops;
	struct device_info info = {0};
	uint32_t	items[DEVICE_LEADS] = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = 1};
	uint64_t	one = device->arena_bytes(m->graph.program, items);
	uint64_t	budget = ACTIVATION_BYTES;
	uint64_t	rows;

	items[DEVICE_LEAD_ROWS] = 2;
	m->row_bytes = device->arena_bytes(m->graph.program, items) - one;
	for (uint32_t i = 0; i < m->graph.bindings_count; i++)
	{
		const struct graph_value *value = graph_value(&m->graph, m->graph.bindings[i]);

		m->row_bytes += (uint64_t) value->elements * device_type_bytes(value->type);
	}
	device->info(m->device, &info);
	if (info.bytes_budget > 0)
	{
		uint64_t	left = info.bytes_budget > info.bytes_used ? info.bytes_budget - info.bytes_used : 0;

		if (m->row_bytes > left)
		{
			status_set(status, INFER_ERROR_MEMORY, "one row of the model needs %" PRIu64 " bytes of memory, and %" PRIu64 " are left",
					   m->row_bytes, left);
			device_memory_hint(m->device, &info, status);
			return false;
		}
		budget = left / 2 < budget ? left / 2 : budget;
	}
	rows = m->row_bytes == 0 ? INFER_ROWS_MAX : budget / m->row_bytes;
	m->model.batch_rows_max = rows < 1 ? 1 : rows > INFER_ROWS_MAX ? INFER_ROWS_MAX : (uint32_t) rows;
	return true;
}

/* ---- open and close ---- */

static void
graph_model_close(struct model *model)
{
	struct graph_model *m = (struct graph_model *) model;

	graph_buffers_free(m);
	graph_release(&m->graph);
	graph_memory_free(&m->memory);
	free(m);
}

/* The first batch's buffers are made and counted now, so that a model that is open is known to run. */
static bool
begin_bytes(struct graph_model *m, struct status *status)
{
	m->model.bytes = m->graph.weights_bytes + (device_has_memory(m->device) ? m->graph.constants_bytes : m->memory.used);
	return graph_buffers_begin(m, status);
}

static bool
open_graph(struct graph_model *m, const struct model_files *files, const char *options,
		   struct status *status)
{
	bool		ambiguous;
	const struct model_file *file = find_file(files, &ambiguous);

	if (file == NULL || ambiguous)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "the model has several ONNX files");
		status_hint(status, "Name the one to use model.onnx.");
		return false;
	}
	if (!onnx_read(files, file, &m->memory, &m->onnx, status))
		return false;
	graph_init(&m->graph, &m->memory, &m->onnx, m->device, status);
	m->graph.files = files;
	if (!read_options(m, options, file, status) || !graph_lower(&m->graph))
		return false;
	graph_missing_inputs(&m->graph);
	graph_roles(&m->graph);
	return status->error == 0 && graph_fuse(&m->graph) && graph_compile(&m->graph) &&
		make_signature(m, status) && size_batches(m, status) && status->error == 0 && begin_bytes(m, status);
}

static struct model *
graph_model_open(const struct model_files *files, const char *options, struct device *device,
				 struct status *status)
{
	struct graph_model *m = calloc(1, sizeof(*m));
	uint64_t	bytes = 0;

	if (m == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < files->count; i++)
		bytes += files->files[i].size;
	m->model.ops = &graph_model_ops;
	m->device = device;
	model_sets_init(&m->sets, &m->model, device, sizeof(struct graph_buffers));
	graph_memory_init(&m->memory, HOST_BYTES + HOST_FACTOR * bytes, status);
	if (!open_graph(m, files, options, status))
	{
		graph_model_close(&m->model);
		return NULL;
	}

	/* nothing is lowered any more: neither the caller's files and status nor the queue for folding */
	graph_queue_free(&m->graph);
	m->graph.files = NULL;
	m->graph.status = NULL;
	m->memory.status = NULL;
	return &m->model;
}

static bool
graph_model_packed_form(const struct model *model, struct packed_form *form)
{
	*form = graph_model_graph(model)->form;
	return form->weights_count > 0;
}

static uint64_t
graph_model_estimate(struct model *model, const struct model_cost *cost)
{
	struct graph_model *m = (struct graph_model *) model;
	struct device_batch batch = {.items = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = cost->rows}};

	return m->device->ops->estimate_nsec(m->device, m->graph.program, &batch);
}

const struct model_ops graph_model_ops = {
	.kind = "graph",
	.recognises = graph_model_recognises,
	.open = graph_model_open,
	.close = graph_model_close,
	.packed_form = graph_model_packed_form,
	.run = graph_model_run,
	.estimate_nsec = graph_model_estimate,
	.describe = graph_model_describe
};
