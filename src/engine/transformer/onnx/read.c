/*
 * read.c
 *	  A folder's ONNX file into its encoder: which file, which output, and the head.
 */
#include "walk.h"

#include <string.h>

#define GRAPH_MEMORY	(UINT64_C(512) << 20)	/* bytes of a reading, beside what is kept */

/* ---- which file ---- */

static bool
is_onnx(const char *name)
{
	size_t		length = strlen(name);

	return length > 5 && strcmp(name + length - 5, ".onnx") == 0;
}

bool
folder_has_graph(const struct model_files *files)
{
	for (uint32_t i = 0; i < files->count; i++)
		if (is_onnx(files->files[i].name))
			return true;
	return false;
}

static const struct model_file *
choose_file(struct folder *f)
{
	const struct model_file *file = NULL;
	const char *wanted = f->options.file;
	uint32_t	count = 0;

	if (wanted != NULL)
	{
		file = model_files_find(f->files, wanted);
		if (file == NULL || !is_onnx(wanted))
			status_set(f->status, INFER_ERROR_UNSUPPORTED, "the option file names \"%.200s\", which is no ONNX file of the model", wanted);
		return f->status->error == 0 ? file : NULL;
	}
	file = model_files_find(f->files, "onnx/model.onnx");
	if (file == NULL)
		file = model_files_find(f->files, "model.onnx");
	for (uint32_t i = 0; file == NULL && i < f->files->count; i++)
		count += is_onnx(f->files->files[i].name);
	for (uint32_t i = 0; count == 1 && file == NULL; i++)
		if (is_onnx(f->files->files[i].name))
			file = &f->files->files[i];
	if (file == NULL)
	{
		status_set(f->status, INFER_ERROR_UNSUPPORTED, "the model has %u ONNX files, and none of them is onnx/model.onnx", count);
		status_hint(f->status, "Name one of them with the option file.");
	}
	return file;
}

/* ---- which output ---- */

static int32_t
find_output(const struct walk *w, const char *const *names)
{
	for (; *names != NULL; names++)
		for (uint32_t i = 0; i < w->model->outputs_count; i++)
			if (strcmp(w->model->names[w->model->outputs[i].name], *names) == 0)
				return w->model->outputs[i].name;
	return -1;
}

static bool
no_output(struct walk *w, const char *wanted)
{
	return status_set(w->status, INFER_ERROR_UNSUPPORTED, "the ONNX file has no output \"%s\"", wanted);
}

/* ---- heads ---- */

/* dense(first token), as a classifier's last layer takes it; or the first token itself. */
static bool
read_dense(struct walk *w, int32_t name, int32_t *tokens)
{
	struct encoder *e = w->folder->encoder;
	const struct onnx_node *node = walk_maker(w, name);
	struct encoder_dense *dense = &e->denses[0];
	struct sum	inner;
	bool		normalized;

	if (node_is(node, "Tanh") || node_is(node, "Relu"))
	{
		if (!walk_activation(w, name, &inner, &dense->activation) || !walk_linear_of(w, name, &inner, &name, &dense->linear))
			return false;
		e->denses_count = 1;
	}
	return walk_pooled(w, name, tokens, &e->pooling, &normalized) && (!normalized || walk_refuse(w, name, "a classifier is expected"));
}

static bool
read_logits(struct walk *w, int32_t output)
{
	struct encoder *e = w->folder->encoder;
	int32_t		input, tokens;
	const struct fact *fact = walk_fact(w, walk_same(w, output));

	if (!walk_linear(w, output, &input, &e->output))
		return false;
	if (fact->rank == 3)
		tokens = input;
	else if (!read_dense(w, input, &tokens))
		return false;
	if (!walk_stack(w, tokens))
		return false;
	if (e->output.weight.dims[1] != e->hidden ||
		(e->denses_count > 0 && (e->denses[0].linear.weight.dims[0] != e->hidden || e->denses[0].linear.weight.dims[1] != e->hidden)))
		return walk_refuse(w, output, "a classifier as wide as the model is expected");
	return true;
}

static bool
read_pooled(struct walk *w, int32_t output)
{
	struct encoder *e = w->folder->encoder;
	int32_t		tokens;

	return walk_pooled(w, output, &tokens, &e->pooling, &e->normalize) && walk_stack(w, tokens);
}

static bool
choose_output(struct walk *w, bool logits, int32_t *output)
{
	static const char *const logits_names[] = {"logits", NULL};
	static const char *const tokens_names[] = {"last_hidden_state", "token_embeddings", NULL};
	static const char *const pooled_names[] = {"sentence_embedding", "embeddings", NULL};

	*output = find_output(w, logits ? logits_names : tokens_names);
	if (*output >= 0)
		return true;
	*output = logits ? -1 : find_output(w, pooled_names);
	w->folder->graph_pooled = *output >= 0;
	return *output >= 0 || no_output(w, logits ? "logits" : "last_hidden_state");
}

static bool
refuse_quantised(struct walk *w)
{
	static const char *const ops[] = {
		"DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear", "MatMulInteger", "DynamicQuantizeMatMul", "QAttention",
		"QLinearMatMul", "QEmbedLayerNormalization", "MatMulNBits", "MatMulIntegerToFloat", NULL
	};

	for (uint32_t i = 0; i < w->model->nodes_count; i++)
		for (int k = 0; ops[k] != NULL; k++)
			if (strcmp(w->model->nodes[i].op, ops[k]) == 0)
			{
				status_set(w->status, INFER_ERROR_UNSUPPORTED, "node \"%.200s\" (%s): an ONNX file with quantised weights is not supported",
						   w->model->nodes[i].name, ops[k]);
				status_hint(w->status, "Take the file that is not quantised, and the option precision.");
				return false;
			}
	return true;
}

/* As the encoder that it is, or else as it is. */
static bool
read_graph(struct walk *w, const struct model_file *file, bool logits)
{
	struct folder *f = w->folder;
	struct onnx_model *model = graph_pool(w->memory, 1, sizeof(*model));
	const struct encoder before = *f->encoder;
	int32_t		output;

	w->model = model;
	if (model == NULL || !onnx_read(f->files, file, w->memory, model, w->status) || !refuse_quantised(w) || !walk_facts(w) ||
		!choose_output(w, logits, &output))
		return false;
	if (logits ? read_logits(w, output) : f->graph_pooled ? read_pooled(w, output) : walk_stack(w, output))
		return true;
	if (w->status->error != INFER_ERROR_UNSUPPORTED || f->device == NULL)
		return false;
	*f->encoder = before;
	return folder_graph_run(f, file, model->names[output], logits);
}

bool
folder_graph_read(struct folder *f, bool logits)
{
	const struct model_file *file = choose_file(f);
	struct graph_memory memory;
	struct walk w = {.folder = f, .status = f->status, .memory = &memory};
	bool		fine;

	if (file == NULL)
		return false;
	graph_memory_init(&memory, GRAPH_MEMORY, f->status);
	fine = read_graph(&w, file, logits);
	graph_memory_free(&memory);
	return fine;
}
