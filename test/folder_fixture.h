/*
 * folder_fixture.h
 *	  A text model's folder in memory: files by name and text, and safetensors files of zeros.
 */
#ifndef TEST_FOLDER_FIXTURE_H
#define TEST_FOLDER_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/model.h"
#include "engine/status.h"
#include "engine/transformer/encoder.h"
#include "engine/transformer/folder.h"

#define FOLDER_FILES	32

#define TINY_BERT "{\"model_type\":\"bert\",\"architectures\":[\"%s\"],\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":2," \
	"\"intermediate_size\":6,\"vocab_size\":10,\"max_position_embeddings\":8,\"type_vocab_size\":2%s}"

#define TINY_LAYER \
	"encoder.layer.0.attention.self.query.weight 4 4;encoder.layer.0.attention.self.query.bias 4;" \
	"encoder.layer.0.attention.self.key.weight 4 4;encoder.layer.0.attention.self.key.bias 4;" \
	"encoder.layer.0.attention.self.value.weight 4 4;encoder.layer.0.attention.self.value.bias 4;" \
	"encoder.layer.0.attention.output.dense.weight 4 4;encoder.layer.0.attention.output.dense.bias 4;" \
	"encoder.layer.0.attention.output.LayerNorm.weight 4;encoder.layer.0.attention.output.LayerNorm.bias 4;" \
	"encoder.layer.0.intermediate.dense.weight 6 4;encoder.layer.0.intermediate.dense.bias 6;" \
	"encoder.layer.0.output.dense.weight 4 6;encoder.layer.0.output.dense.bias 4;" \
	"encoder.layer.0.output.LayerNorm.weight 4;encoder.layer.0.output.LayerNorm.bias 4;"

#define TINY_EMBEDDINGS \
	"embeddings.word_embeddings.weight 10 4;embeddings.position_embeddings.weight 8 4;" \
	"embeddings.token_type_embeddings.weight 2 4;embeddings.LayerNorm.weight 4;embeddings.LayerNorm.bias 4;"

#define TINY_POOLER	"pooler.dense.weight 4 4;pooler.dense.bias 4;"

#define TINY_MODULES "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"}," \
	"{\"idx\":1,\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}%s]"
#define TINY_POOLING "{\"word_embedding_dimension\":4,\"pooling_mode_mean_tokens\":true%s}"

struct folder_fixture
{
	struct model_files files;
	struct model_file list[FOLDER_FILES];
};

static inline int
folder_compare(const void *a, const void *b)
{
	return strcmp(((const struct model_file *) a)->name, ((const struct model_file *) b)->name);
}

/* Adds a file, or replaces one; data is copied into memory of exactly its size. */
static inline void
folder_put(struct folder_fixture *f, const char *name, const void *data, size_t size)
{
	struct model_file *file = NULL;

	for (uint32_t i = 0; i < f->files.count; i++)
		if (strcmp(f->list[i].name, name) == 0)
			file = &f->list[i];
	if (file == NULL)
		file = &f->list[f->files.count++];
	else
		free((void *) file->data);
	*file = (struct model_file) {.name = name, .data = malloc(size == 0 ? 1 : size), .size = size};
	memcpy((void *) file->data, data, size);
	f->files.files = f->list;
	qsort(f->list, f->files.count, sizeof(*f->list), folder_compare);
}

static inline void
folder_text_put(struct folder_fixture *f, const char *name, const char *text)
{
	folder_put(f, name, text, strlen(text));
}

static inline void
folder_remove(struct folder_fixture *f, const char *name)
{
	for (uint32_t i = 0; i < f->files.count; i++)
		if (strcmp(f->list[i].name, name) == 0)
		{
			free((void *) f->list[i].data);
			f->list[i] = f->list[--f->files.count];
		}
	qsort(f->list, f->files.count, sizeof(*f->list), folder_compare);
}

static inline void
folder_clear(struct folder_fixture *f)
{
	for (uint32_t i = 0; i < f->files.count; i++)
		free((void *) f->list[i].data);
	f->files.count = 0;
}

/* A safetensors file from its header's text and so many bytes of zeros. */
static inline void
folder_header_put(struct folder_fixture *f, const char *name, const char *header, size_t bytes)
{
	size_t		length = strlen(header);
	uint8_t    *data = calloc(1, 8 + length + bytes);

	for (int i = 0; i < 8; i++)
		data[i] = (uint8_t) ((uint64_t) length >> 8 * i);
	memcpy(data + 8, header, length);
	folder_put(f, name, data, 8 + length + bytes);
	free(data);
}

/* Of tensors as "NAME DIM DIM;NAME DIM;…", all of one type. */
static inline void
folder_weights_put(struct folder_fixture *f, const char *name, const char *tensors, const char *prefix, const char *type, size_t pad)
{
	static char header[1 << 16];
	size_t		used = (size_t) sprintf(header, "{"), at = 0, element = strcmp(type, "F32") == 0 ? 4 : strcmp(type, "I64") == 0 ? 8 : 2;
	char	   *copy = strdup(tensors), *save = NULL;

	for (char *one = strtok_r(copy, ";", &save); one != NULL; one = strtok_r(NULL, ";", &save))
	{
		char		tensor[256];
		long		dims[2];
		int			rank = sscanf(one, "%255s %ld %ld", tensor, &dims[0], &dims[1]) - 1;
		size_t		bytes = element * (size_t) (rank < 1 ? 1 : dims[0]) * (size_t) (rank < 2 ? 1 : dims[1]);

		used += (size_t) sprintf(header + used, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[", used > 1 ? "," : "", prefix, tensor, type);
		for (int i = 0; i < rank; i++)
			used += (size_t) sprintf(header + used, "%s%ld", i > 0 ? "," : "", dims[i]);
		used += (size_t) sprintf(header + used, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
		at += bytes;
	}
	used += (size_t) sprintf(header + used, "}");
	while (used % 8 != pad)
		header[used++] = ' ';
	header[used] = '\0';
	folder_header_put(f, name, header, at);
	free(copy);
}

/* The usual small embedding, which is read without a complaint. */
static inline void
folder_tiny(struct folder_fixture *f)
{
	char		text[2048];

	folder_clear(f);
	snprintf(text, sizeof(text), TINY_BERT, "BertModel", "");
	folder_text_put(f, "config.json", text);
	snprintf(text, sizeof(text), TINY_MODULES, "");
	folder_text_put(f, "modules.json", text);
	snprintf(text, sizeof(text), TINY_POOLING, "");
	folder_text_put(f, "1_Pooling/config.json", text);
	folder_weights_put(f, "model.safetensors", TINY_EMBEDDINGS TINY_LAYER TINY_POOLER, "", "F32", 0);
}

#endif							/* TEST_FOLDER_FIXTURE_H */
