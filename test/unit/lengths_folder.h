/*
 * lengths_folder.h
 *	  The folder of a text model whose ONNX file is made on the spot, of words W, a matrix B and places P:
 *
 *	tokens[i] = W[id of i] · B + P[i]
 */
#ifndef TEST_UNIT_LENGTHS_FOLDER_H
#define TEST_UNIT_LENGTHS_FOLDER_H

#include "folder_fixture.h"
#include "wide_model.h"

#define WORDS	64
#define HIDDEN	512
#define PLACES	40

enum variant
{
	PLAIN,
	EVEN,						/* tokens are taken two by two on the way */
	POOLED,						/* the output is their mean */
	NAMED,						/* an input has another name */
	FIXED						/* to 16 tokens */
};

static inline void
put_node(struct wide_bytes *graph, const char *op, const char *a, const char *b, const char *y, int axis)
{
	struct wide_bytes node = {0}, attribute = {0};

	wide_text(&node, 1, a);
	if (b != NULL)
		wide_text(&node, 1, b);
	wide_text(&node, 2, y);
	wide_text(&node, 4, op);
	if (axis >= 0)
	{
		wide_text(&attribute, 1, "axes");
		wide_number(&attribute, 8, (uint64_t) axis);
		wide_number(&attribute, 20, 7);
		wide_inner(&node, 5, &attribute);
		wide_text(&attribute, 1, "keepdims");
		wide_number(&attribute, 3, 0);
		wide_number(&attribute, 20, 2);
		wide_inner(&node, 5, &attribute);
	}
	wide_inner(graph, 1, &node);
}

static inline void
put_shape(struct wide_bytes *graph, const char *name, int64_t last)
{
	int64_t		shape[3] = {1, -1, last};
	struct wide_bytes tensor = {0};

	wide_number(&tensor, 1, 3);
	wide_number(&tensor, 2, 7);
	wide_text(&tensor, 8, name);
	wide_field(&tensor, 9, shape, sizeof(shape));
	wide_inner(graph, 5, &tensor);
}

/* int64 [batch, sequence], or an output of floats without a shape. */
static inline void
put_value(struct wide_bytes *graph, int field, const char *name, int fixed)
{
	struct wide_bytes value = {0}, type = {0}, tensor = {0}, shape = {0}, dim = {0};

	wide_number(&tensor, 1, field == 11 ? 7 : 1);
	if (field == 11)
	{
		wide_text(&dim, 2, "batch");
		wide_inner(&shape, 1, &dim);
		if (fixed > 0)
			wide_number(&dim, 1, (uint64_t) fixed);
		else
			wide_text(&dim, 2, "sequence");
		wide_inner(&shape, 1, &dim);
		wide_inner(&tensor, 2, &shape);
	}
	wide_inner(&type, 1, &tensor);
	wide_text(&value, 1, name);
	wide_inner(&value, 2, &type);
	wide_inner(graph, field, &value);
}

static inline void
put_file(struct folder_fixture *to, enum variant variant)
{
	struct wide_bytes graph = {0}, model = {0}, opset = {0};
	const char *output = variant == POOLED ? "sentence_embedding" : "last_hidden_state";
	const char *sum = variant == EVEN || variant == POOLED ? "sum" : output;
	uint32_t	seed = 1;

	put_node(&graph, "Gather", "W", "input_ids", "words", -1);
	put_node(&graph, "MatMul", "words", "B", "turned", -1);
	put_node(&graph, "Gather", "P", variant == NAMED ? "places" : "position_ids", "places_of", -1);
	put_node(&graph, "Add", "turned", "places_of", sum, -1);
	if (variant == EVEN)
	{
		put_node(&graph, "Reshape", "sum", "twos", "two", -1);
		put_node(&graph, "Reshape", "two", "ones", output, -1);
	}
	if (variant == POOLED)
		put_node(&graph, "ReduceMean", "sum", NULL, output, 1);
	wide_text(&graph, 2, "lengths");
	wide_matrix(&graph, "W", WORDS, HIDDEN, &seed);
	wide_matrix(&graph, "B", HIDDEN, HIDDEN, &seed);
	wide_matrix(&graph, "P", PLACES, HIDDEN, &seed);
	put_shape(&graph, "twos", 2 * HIDDEN);
	put_shape(&graph, "ones", HIDDEN);
	put_value(&graph, 11, "input_ids", variant == FIXED ? 16 : 0);
	put_value(&graph, 11, variant == NAMED ? "places" : "position_ids", 0);
	put_value(&graph, 12, output, 0);
	wide_number(&model, 1, 8);
	wide_inner(&model, 7, &graph);
	wide_number(&opset, 2, 13);
	wide_inner(&model, 8, &opset);
	folder_put(to, "onnx/model.onnx", model.data, model.size);
	free(model.data);
}

static inline void
make_folder(struct folder_fixture *to, enum variant variant, const char *model_type, uint32_t places, const char *module)
{
	char		text[1024];
	char		vocabulary[1024] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

	memset(to, 0, sizeof(*to));
	snprintf(text, sizeof(text), "{\"model_type\":\"%s\",\"architectures\":[\"AnyModel\"],\"max_position_embeddings\":%u}", model_type, places);
	folder_text_put(to, "config.json", text);
	snprintf(text, sizeof(text), TINY_MODULES, module);
	folder_text_put(to, "modules.json", text);
	folder_text_put(to, "1_Pooling/config.json", "{\"word_embedding_dimension\":512,\"pooling_mode_mean_tokens\":true}");
	for (char letter = 'a'; letter <= 'z'; letter++)
		sprintf(vocabulary + strlen(vocabulary), "%c\n##%c\n", letter, letter);
	folder_text_put(to, "vocab.txt", vocabulary);
	folder_text_put(to, "tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":true}");
	put_file(to, variant);
}

#endif /* TEST_UNIT_LENGTHS_FOLDER_H */
