/*
 * text_folder.c
 *	  Fuzzes the readers of a text model's folder: the input takes the place of one file in a
 *	  folder that is otherwise right.  Nothing may crash, leak, or fail without saying why.
 *
 * The first byte says which file: 's' the weights, 'i' the index of shards, 'c' config.json,
 * 'm' modules.json, 'p' the settings of pooling, 'd' of a dense module, 'g' prompts, 'b'
 * sentence-transformers' settings, 't' the tokenizer's, 'o' the options.  'x': an ONNX file of the
 * fixtures, of which the input changes bytes: which file, then for each change three bytes of
 * where and one of what.  'y': the input is an ONNX file.  'z': as 'x', of files that are run as they
 * are; what is read runs.
 */
#include "engine/device.h"
#include "engine/model/files.h"
#include "folder_fixture.h"

#include "engine/transformer/graph/text_graph.h"

#define MEMORY		(256u << 20)	/* bytes of the device */
#define ROWS		2u
#define LENGTH		3u

static struct model_files graphs[8];	/* fixtures: fused, plain, RoBERTa, MPNet; ALBERT, T5, DeBERTa, one with a GRU */
static struct device *device;
static struct device_queue *queue;

#define DENSE	",{\"idx\":2,\"name\":\"2\",\"path\":\"2_Dense\",\"type\":\"sentence_transformers.models.Dense\"}"

static struct folder_fixture folder;

static void
fill(void)
{
	char		text[2048];

	folder_tiny(&folder);
	snprintf(text, sizeof(text), TINY_MODULES, DENSE);
	folder_text_put(&folder, "modules.json", text);
	folder_text_put(&folder, "2_Dense/config.json", "{\"in_features\":4,\"out_features\":3}");
	folder_weights_put(&folder, "2_Dense/model.safetensors", "linear.weight 3 4;linear.bias 3;norm.weight 3;norm.bias 3", "", "F32", 0);
	folder_weights_put(&folder, "model.safetensors", TINY_EMBEDDINGS TINY_LAYER TINY_POOLER "classifier.weight 2 4;classifier.bias 2", "", "F32", 0);
}

/* Shards in the place of the one file. */
static void
split(void)
{
	folder_remove(&folder, "model.safetensors");
	folder_weights_put(&folder, "a.safetensors", TINY_EMBEDDINGS, "", "F32", 0);
	folder_weights_put(&folder, "b.safetensors", TINY_LAYER TINY_POOLER, "", "F32", 0);
}

/* From the repository's root. */
int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const folders[] = {
		"onnx_bert_fast", "onnx_bert_sdpa", "onnx_roberta", "onnx_mpnet", "graph_albert", "graph_t5", "graph_deberta", "graph_recurrent"
	};
	struct device_options options = {.threads = 1, .memory = MEMORY};
	struct status status = {0};

	device = device_open("cpu", &options, &status);
	if (device == NULL || (queue = device->ops->queue_create(device, DEVICE_BATCHES, &status)) == NULL)
		abort();
	for (int i = 0; i < 8; i++)
	{
		char		path[256];

		snprintf(path, sizeof(path), "test/fixtures/text/%s/onnx", folders[i]);
		if (files_open_path(path, &graphs[i], &status) != FILES_OK || graphs[i].count != 1)
			abort();
	}
	return 0;
}

static void
put_graph(uint32_t first, const uint8_t *data, size_t size)
{
	const struct model_file *file = &graphs[first + (size == 0 ? 0 : data[0] % 4)].files[0];
	uint8_t    *copy = malloc(file->size);

	memcpy(copy, file->data, file->size);
	for (size_t i = 1; i + 4 <= size; i += 4)
		copy[((size_t) data[i] << 16 | (size_t) data[i + 1] << 8 | data[i + 2]) % file->size] = data[i + 3];
	folder_put(&folder, "onnx/model.onnx", copy, file->size);
	free(copy);
}

static void *
zeros(uint64_t bytes)
{
	void	   *data = aligned_alloc(DEVICE_ALIGN, (bytes + DEVICE_ALIGN) / DEVICE_ALIGN * DEVICE_ALIGN);

	return memset(data, 0, bytes);
}

static void
run_graph(struct text_graph *graph)
{
	struct status status = {0};
	struct text_graph_program *p = text_graph_take(graph, LENGTH, queue, &status);
	uint32_t	row_error[ROWS] = {0};
	const char *row_message[ROWS] = {0};
	struct device_batch batch = {.items = {1, ROWS}, .row_error = row_error, .row_message = row_message};
	void	   *bindings[3], *arena;

	if (p == NULL)
		return;
	for (int i = 0; i < 3; i++)
		bindings[i] = zeros((uint64_t) ROWS * LENGTH * (i == p->output ? graph->width * sizeof(float) : sizeof(int64_t)));
	arena = zeros(text_graph_bytes(graph, p, ROWS));
	device_run(device, queue, p->program, 0, UINT32_MAX, &batch, bindings, arena, &status);
	for (int i = 0; i < 3; i++)
		free(bindings[i]);
	free(arena);
	text_graph_give(graph, p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct
	{
		char		first;
		const char *file;
	}			files[] = {
		{'s', "model.safetensors"}, {'i', "model.safetensors.index.json"}, {'c', "config.json"}, {'m', "modules.json"},
		{'p', "1_Pooling/config.json"}, {'d', "2_Dense/config.json"}, {'g', "config_sentence_transformers.json"},
		{'b', "sentence_bert_config.json"}, {'t', "tokenizer_config.json"}, {'y', "onnx/model.onnx"}
	};
	struct status status = {0};
	struct encoder *encoder;
	char	   *options;

	if (size == 0)
		return 0;
	fill();
	if (data[0] == 'i')
		split();
	if (data[0] >= 'x' && data[0] <= 'z')
	{
		folder_remove(&folder, "model.safetensors");
		folder_remove(&folder, "modules.json");
	}
	if (data[0] == 'x' || data[0] == 'z')
		put_graph(data[0] == 'x' ? 0 : 4, data + 1, size - 1);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i].first == data[0])
			folder_put(&folder, files[i].file, data + 1, size - 1);
	options = data[0] == 'o' ? strndup((const char *) data + 1, size - 1) : strdup(data[0] >= 'x' && data[0] <= 'z' ? "{\"pooling\":\"mean\"}" : "");
	encoder = encoder_read(&folder.files, options, data[0] >= 'x' && data[0] <= 'z' ? device : NULL, &status);
	free(options);
	if (encoder != NULL && encoder->graph != NULL)
		run_graph(encoder->graph);
	if (encoder == NULL && (status.error == 0 || status.message[0] == '\0'))
		abort();
	encoder_free(encoder);
	folder_clear(&folder);
	return 0;
}
