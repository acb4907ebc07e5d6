/*
 * text_folder.c
 *	  Fuzzes the readers of a text model's folder: the input takes the place of one file in a
 *	  folder that is otherwise right.  Nothing may crash, leak, or fail without saying why.
 *
 * The first byte says which file: 's' the weights, 'i' the index of shards, 'c' config.json,
 * 'm' modules.json, 'p' the settings of pooling, 'd' of a dense module, 'g' prompts, 'b'
 * sentence-transformers' settings, 't' the tokenizer's, 'o' the options.
 */
#include "folder_fixture.h"

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
		{'b', "sentence_bert_config.json"}, {'t', "tokenizer_config.json"}
	};
	struct status status = {0};
	struct encoder *encoder;
	char	   *options;

	if (size == 0)
		return 0;
	fill();
	if (data[0] == 'i')
		split();
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i].first == data[0])
			folder_put(&folder, files[i].file, data + 1, size - 1);
	options = data[0] == 'o' ? strndup((const char *) data + 1, size - 1) : strdup("");
	encoder = encoder_read(&folder.files, options, &status);
	free(options);
	if (encoder == NULL && (status.error == 0 || status.message[0] == '\0'))
		abort();
	encoder_free(encoder);
	folder_clear(&folder);
	return 0;
}
