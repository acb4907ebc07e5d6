/*
 * seeded_encoder.h
 *	  Encoders of any size with weights drawn from a seed: folders in memory, as sentence-transformers has them.
 *
 * BERT with mean pooling, its matrices in BF16.  The vocabulary is made of words "w0" to "w…", each of them one token.
 */
#ifndef TEST_SEEDED_ENCODER_H
#define TEST_SEEDED_ENCODER_H

#include <math.h>

#include "folder_fixture.h"
#include "random.h"

#define SEEDED_WORDS	1019			/* with the five special ones 1024 */

struct seeded_sizes
{
	uint32_t	layers;
	uint32_t	hidden;
	uint32_t	heads;
	uint32_t	intermediate;
	uint32_t	places;				/* tokens of the longest text */
};

static const struct seeded_sizes seeded_minilm __attribute__((unused)) = {6, 384, 12, 1536, 512};
static const struct seeded_sizes seeded_bge_base __attribute__((unused)) = {12, 768, 12, 3072, 512};

struct seeded_header				/* of a safetensors file that is being written */
{
	char	   *text;
	size_t		used;
	uint64_t	bytes;				/* of tensors */
	uint64_t	state;
	uint16_t   *data;				/* NULL: sizes are counted */
};

/* −1 … 1 */
static inline float
seeded_number(uint64_t *state)
{
	return (float) (int32_t) (random_next(state) >> 32) / 2147483648.0f;
}

/* middle ± spread, uniform; columns 0: a vector. */
static inline void
seeded_tensor(struct seeded_header *to, const char *name, uint64_t rows, uint64_t columns, float middle, float spread)
{
	uint64_t	count = rows * (columns == 0 ? 1 : columns);

	if (to->data == NULL)
	{
		to->used += (size_t) sprintf(to->text + to->used, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%lu", to->used == 0 ? "{" : ",", name, (unsigned long) rows);
		if (columns > 0)
			to->used += (size_t) sprintf(to->text + to->used, ",%lu", (unsigned long) columns);
		to->used += (size_t) sprintf(to->text + to->used, "],\"data_offsets\":[%lu,%lu]}", (unsigned long) to->bytes, (unsigned long) (to->bytes + 2 * count));
	}
	for (uint64_t i = 0; to->data != NULL && i < count; i++)
	{
		float		value = middle + spread * seeded_number(&to->state);
		uint32_t	bits;

		memcpy(&bits, &value, sizeof(bits));
		to->data[to->bytes / 2 + i] = (uint16_t) (bits >> 16);
	}
	to->bytes += 2 * count;
}

/* y = x · Wᵀ + b of numbers of about the same size as x's. */
static inline void
seeded_linear(struct seeded_header *to, uint32_t layer, const char *what, uint32_t outputs, uint32_t inputs)
{
	char		name[128];

	snprintf(name, sizeof(name), "encoder.layer.%u.%s.weight", layer, what);
	seeded_tensor(to, name, outputs, inputs, 0, sqrtf(3.0f / (float) inputs));
	snprintf(name, sizeof(name), "encoder.layer.%u.%s.bias", layer, what);
	seeded_tensor(to, name, outputs, 0, 0, 0.1f);
}

static inline void
seeded_norm(struct seeded_header *to, const char *before, uint32_t hidden)
{
	char		name[256];

	snprintf(name, sizeof(name), "%.100s.LayerNorm.weight", before);
	seeded_tensor(to, name, hidden, 0, 1, 0.1f);
	snprintf(name, sizeof(name), "%.100s.LayerNorm.bias", before);
	seeded_tensor(to, name, hidden, 0, 0, 0.1f);
}

static inline void
seeded_tensors(struct seeded_header *to, const struct seeded_sizes *s)
{
	char		name[128];

	seeded_tensor(to, "embeddings.word_embeddings.weight", SEEDED_WORDS + 5, s->hidden, 0, 1);
	seeded_tensor(to, "embeddings.position_embeddings.weight", s->places, s->hidden, 0, 0.3f);
	seeded_tensor(to, "embeddings.token_type_embeddings.weight", 2, s->hidden, 0, 0.1f);
	seeded_norm(to, "embeddings", s->hidden);
	for (uint32_t l = 0; l < s->layers; l++)
	{
		seeded_linear(to, l, "attention.self.query", s->hidden, s->hidden);
		seeded_linear(to, l, "attention.self.key", s->hidden, s->hidden);
		seeded_linear(to, l, "attention.self.value", s->hidden, s->hidden);
		seeded_linear(to, l, "attention.output.dense", s->hidden, s->hidden);
		snprintf(name, sizeof(name), "encoder.layer.%u.attention.output", l);
		seeded_norm(to, name, s->hidden);
		seeded_linear(to, l, "intermediate.dense", s->intermediate, s->hidden);
		seeded_linear(to, l, "output.dense", s->hidden, s->intermediate);
		snprintf(name, sizeof(name), "encoder.layer.%u.output", l);
		seeded_norm(to, name, s->hidden);
	}
}

static inline void
seeded_weights(struct folder_fixture *to, const struct seeded_sizes *s, uint64_t seed)
{
	struct seeded_header header = {.text = malloc(((size_t) s->layers * 16 + 8) * 160)};
	uint64_t	length;
	uint8_t    *file;

	seeded_tensors(&header, s);
	header.text[header.used++] = '}';
	while (header.used % 8 != 0)
		header.text[header.used++] = ' ';
	length = header.used;
	file = malloc(8 + length + header.bytes);
	memcpy(file, &length, 8);
	memcpy(file + 8, header.text, length);
	header = (struct seeded_header) {.text = header.text, .state = 88172645463325252u + seed * 2654435761u, .data = (uint16_t *) (void *) (file + 8 + length)};
	seeded_tensors(&header, s);
	free(header.text);
	folder_put(to, "model.safetensors", file, 8 + length + header.bytes);
	free(file);
}

/* to: all zeros, or of folder_clear. */
static inline void __attribute__((unused))
seeded_encoder(struct folder_fixture *to, const struct seeded_sizes *s, uint64_t seed)
{
	char	   *text = malloc(16 * (SEEDED_WORDS + 5) + 1024);
	size_t		used;

	sprintf(text, "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"hidden_size\":%u,\"num_hidden_layers\":%u,"
			"\"num_attention_heads\":%u,\"intermediate_size\":%u,\"vocab_size\":%d,\"max_position_embeddings\":%u,\"type_vocab_size\":2}",
			s->hidden, s->layers, s->heads, s->intermediate, SEEDED_WORDS + 5, s->places);
	folder_text_put(to, "config.json", text);
	sprintf(text, TINY_MODULES, "");
	folder_text_put(to, "modules.json", text);
	sprintf(text, "{\"word_embedding_dimension\":%u,\"pooling_mode_mean_tokens\":true}", s->hidden);
	folder_text_put(to, "1_Pooling/config.json", text);
	sprintf(text, "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":true,\"model_max_length\":%u}", s->places);
	folder_text_put(to, "tokenizer_config.json", text);
	used = (size_t) sprintf(text, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
	for (int w = 0; w < SEEDED_WORDS; w++)
		used += (size_t) sprintf(text + used, "w%d\n", w);
	folder_text_put(to, "vocab.txt", text);
	free(text);
	seeded_weights(to, s, seed);
}

/* A text of so many tokens, with the two special ones; to: 6 bytes for each of them. */
static inline size_t __attribute__((unused))
seeded_text(char *to, uint32_t tokens, uint64_t *state)
{
	size_t		used = 0;

	to[0] = '\0';
	for (uint32_t i = 2; i < tokens; i++)
	{
		uint32_t	word = (uint32_t) ((seeded_number(state) + 1) / 2 * SEEDED_WORDS) % SEEDED_WORDS;

		used += (size_t) sprintf(to + used, "%sw%u", i == 2 ? "" : " ", word);
	}
	return used;
}

#endif							/* TEST_SEEDED_ENCODER_H */
