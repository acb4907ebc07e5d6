/*
 * folder.c
 *	  See folder.h, and reader.h for the order in which a folder is read.
 */
#include "reader.h"
#include "../../text/tokenizer.h"
#include "../graph/text_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *
folder_text(struct folder *f, const char *format,...)
{
	char		text[FOLDER_TEXT_MAX + 1];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return graph_pool_text(f->memory, text, strlen(text));
}

/* ---- a transformer in a folder of its own ---- */

/* There is none beside modules.json. */
static bool
has_inner(const struct model_files *files)
{
	return model_files_find(files, "config.json") == NULL && model_files_find(files, "modules.json") != NULL;
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(((const struct model_file *) a)->name, ((const struct model_file *) b)->name);
}

const struct model_files *
encoder_files(const struct model_files *files, struct graph_memory *memory)
{
	struct model_files *seen;
	char		inner[INFER_NAME_MAX];
	size_t		length;

	if (!has_inner(files))
		return files;
	if (!folder_transformer(files, inner, memory->status))
		return NULL;
	length = strlen(inner);
	if (length == 0)
		return files;
	seen = graph_pool(memory, 1, sizeof(*seen));
	if (seen == NULL || (seen->files = graph_pool(memory, (uint64_t) files->count * 2, sizeof(*seen->files))) == NULL)
		return NULL;
	for (uint32_t i = 0; i < files->count; i++)
	{
		struct model_file file = files->files[i];

		seen->files[seen->count++] = file;
		if (strncmp(file.name, inner, length) != 0 || model_files_find(files, file.name + length) != NULL)
			continue;
		file.name += length;
		seen->files[seen->count++] = file;
	}
	qsort(seen->files, seen->count, sizeof(*seen->files), compare_names);
	return seen;
}

bool
folder_shows(const struct model_files *files, const char *inner)
{
	char		name[2 * INFER_NAME_MAX];
	const struct model_file *inside, *shown = model_files_find(files, "config.json");

	snprintf(name, sizeof(name), "%sconfig.json", inner);
	inside = model_files_find(files, name);
	return inside != NULL && shown != NULL && inside->data == shown->data;
}

/* ---- recognising ---- */

/* Whether a file is called so, at the top or, inner, in some folder. */
static bool
has_file(const struct model_files *files, const char *wanted, bool inner)
{
	for (uint32_t i = 0; i < files->count; i++)
	{
		const char *slash = strrchr(files->files[i].name, '/');

		if (strcmp(inner && slash != NULL ? slash + 1 : files->files[i].name, wanted) == 0 && (slash != NULL) == inner)
			return true;
	}
	return false;
}

bool
encoder_recognises(const struct model_files *files)
{
	static const char *const weights[] = {
		"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
		"flax_model.msgpack", NULL
	};
	bool		inner = has_inner(files);

	if (!inner && model_files_find(files, "config.json") == NULL)
		return false;
	for (int i = 0; weights[i] != NULL; i++)
		if (has_file(files, weights[i], inner))
			return true;
	return !inner && folder_has_graph(files) && tokenizer_recognises(files);
}

/* ---- reading ---- */

/* An ONNX file is read where there are no other weights, or where an option names it. */
static bool
takes_graph(const struct folder *f)
{
	if (f->options.file != NULL)
		return true;
	return model_files_find(f->files, "model.safetensors") == NULL && model_files_find(f->files, "model.safetensors.index.json") == NULL &&
		folder_has_graph(f->files);
}

static const char *
storage_name(const struct encoder *e)
{
	static const char *const names[] = {"", "float32", "float16", "bfloat16"};

	return e->graph != NULL ? names[ENCODER_F32] : names[e->words.storage];
}

static bool
read_weights(struct folder *f)
{
	return weights_read(f->files, "", f->memory, &f->weights, f->status) && folder_stack_read(f);
}

static bool
read_folder(struct folder *f, const char *options)
{
	struct encoder *e = f->encoder;

	if (!folder_options_read(f, options))
		return false;
	f->graph = takes_graph(f);
	if (!folder_config_read(f) || !folder_sentence_files(f) || !(f->graph ? folder_graph_read(f, folder_is_classifier(f)) : read_weights(f)) ||
		!folder_head_read(f) || (!f->graph && !folder_stack_complete(f)) || !folder_length_read(f) || !folder_graph_probe(f))
		return false;
	e->architecture = f->family->model_type;
	e->precision = f->options.precision;
	e->format = folder_text(f, "%s (%s, %s)", f->graph ? "onnx" : "safetensors", e->architecture, storage_name(e));
	return e->format != NULL;
}

struct encoder *
encoder_read(const struct model_files *files, const char *options, struct device *device, struct status *status)
{
	struct graph_memory *memory = calloc(1, sizeof(*memory));
	struct folder f = {.files = files, .device = device, .status = status, .memory = memory};

	if (memory == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a text model");
		return NULL;
	}
	graph_memory_init(memory, FOLDER_MEMORY, status);
	f.encoder = graph_pool(memory, 1, sizeof(*f.encoder));
	if (f.encoder != NULL && read_folder(&f, options))
	{
		f.encoder->memory = memory;
		memory->status = NULL;
		return f.encoder;
	}
	if (f.encoder != NULL)
		text_graph_close(f.encoder->graph);
	graph_memory_free(memory);
	free(memory);
	return NULL;
}

void
encoder_free(struct encoder *encoder)
{
	struct graph_memory *memory = encoder == NULL ? NULL : encoder->memory;

	if (memory == NULL)
		return;
	text_graph_close(encoder->graph);
	graph_memory_free(memory);
	free(memory);
}
