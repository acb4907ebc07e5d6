/*
 * stack.c
 *	  Weights by name into the encoder: embeddings, then layer by layer, as the family's
 *	  layout says.
 */
#include "reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../half.h"

#define NAME_MAX_BYTES	512

/* ---- one tensor ---- */

static const char *
shape_text(const int64_t *dims, uint32_t rank, char text[64])
{
	size_t		used = (size_t) snprintf(text, 64, "[");

	for (uint32_t i = 0; i < rank && used < 50; i++)
		used += (size_t) snprintf(text + used, 64 - used, i == 0 ? "%lld" : ", %lld", (long long) dims[i]);
	snprintf(text + used, 64 - used, "]");
	return text;
}

static bool
fill_tensor(struct folder *f, struct weight *weight, const int64_t *dims, uint32_t rank, struct encoder_tensor *tensor)
{
	static const uint8_t storages[] = {ENCODER_ABSENT, ENCODER_F32, ENCODER_F16, ENCODER_BF16};
	char		has[64], wanted[64];

	if (weight->type == WEIGHT_OTHER)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "tensor \"%.200s\" is of the type %s; F32, F16 and BF16 are supported",
						  weight->name, weight->type_name);
	if (weight->rank != rank || memcmp(weight->dims, dims, rank * sizeof(*dims)) != 0)
		return status_set(f->status, INFER_ERROR_MODEL, "tensor \"%.200s\" has the shape %s, but the configuration says %s",
						  weight->name, shape_text(weight->dims, weight->rank, has), shape_text(dims, rank, wanted));
	weight->used = true;
	tensor->storage = storages[weight->type];
	tensor->rank = (uint8_t) rank;
	memcpy(tensor->dims, dims, rank * sizeof(*dims));
	tensor->name = weight->name;
	tensor->data = weight->data;
	return true;
}

static bool
read_tensor(struct folder *f, const struct weights *weights, const char *name, const int64_t *dims, uint32_t rank,
			struct encoder_tensor *tensor)
{
	struct weight *weight = weights_find(weights, name);

	if (weight == NULL)
		return status_set(f->status, INFER_ERROR_MODEL, "the weights have no tensor \"%.300s\"", name);
	return fill_tensor(f, weight, dims, rank, tensor);
}

bool
folder_linear(struct folder *f, const struct weights *weights, const char *name, int64_t outputs, int64_t inputs, bool bias,
			  struct encoder_linear *linear)
{
	char		full[NAME_MAX_BYTES];
	int64_t		dims[2] = {outputs, inputs};

	snprintf(full, sizeof(full), "%s.weight", name);
	if (!read_tensor(f, weights, full, dims, 2, &linear->weight))
		return false;
	snprintf(full, sizeof(full), "%s.bias", name);
	return !bias || read_tensor(f, weights, full, dims, 1, &linear->bias);
}

/* Checkpoints that were converted from TensorFlow's call them gamma and beta. */
bool
folder_norm(struct folder *f, const struct weights *weights, const char *name, int64_t width, bool bias, struct encoder_norm *norm)
{
	char		full[NAME_MAX_BYTES];
	bool		old;

	snprintf(full, sizeof(full), "%s.gamma", name);
	old = weights_find(weights, full) != NULL;
	snprintf(full, sizeof(full), "%s.%s", name, old ? "gamma" : "weight");
	if (!read_tensor(f, weights, full, &width, 1, &norm->weight))
		return false;
	snprintf(full, sizeof(full), "%s.%s", name, old ? "beta" : "bias");
	return !bias || read_tensor(f, weights, full, &width, 1, &norm->bias);
}

/* ---- where the names begin ---- */

/*
 * Models are saved with or without the name of the whole before each of their names, and from
 * inside of sentence-transformers with its own.
 */
static bool
find_prefix(struct folder *f)
{
	const char *const candidates[] = {"", f->family->prefix, "0.auto_model.", "auto_model.", "0.model.", NULL};
	char		name[NAME_MAX_BYTES];

	f->prefix = NULL;
	for (int i = 0; candidates[i] != NULL; i++)
	{
		snprintf(name, sizeof(name), "%s%s.weight", candidates[i], f->layout.words);
		if (weights_find(&f->weights, name) == NULL || (i > 0 && candidates[i][0] == '\0'))
			continue;
		if (f->prefix != NULL)
			return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the weights have \"%s%s.weight\" and \"%s\"", f->prefix,
							  f->layout.words, name);
		f->prefix = candidates[i];
	}
	if (f->prefix == NULL)
		return status_set(f->status, INFER_ERROR_MODEL, "the weights have no tensor \"%s.weight\", as a model of type \"%s\" has",
						  f->layout.words, f->family->model_type);
	return true;
}

/* ---- embeddings ---- */

static bool
read_table(struct folder *f, const char *name, int64_t rows, int64_t width, struct encoder_tensor *tensor)
{
	char		full[NAME_MAX_BYTES];
	int64_t		dims[2] = {rows, width};

	snprintf(full, sizeof(full), "%s%s.weight", f->prefix, name);
	return read_tensor(f, &f->weights, full, dims, 2, tensor);
}

static bool
read_norm(struct folder *f, const char *prefix, const char *name, struct encoder_norm *norm)
{
	char		full[NAME_MAX_BYTES];

	snprintf(full, sizeof(full), "%s%s", prefix, name);
	return folder_norm(f, &f->weights, full, f->encoder->hidden, f->layout.norm_bias, norm);
}

static bool
read_embeddings(struct folder *f)
{
	struct encoder *e = f->encoder;
	const struct layout *layout = &f->layout;

	return read_table(f, layout->words, e->vocabulary, e->hidden, &e->words) &&
		(layout->positions == NULL ||
		 read_table(f, layout->positions, layout->positions_count, e->hidden, &e->position_table)) &&
		(layout->types_count == 0 || read_table(f, layout->types, layout->types_count, e->hidden, &e->types)) &&
		read_norm(f, f->prefix, layout->embedding_norm, &e->embedding_norm) &&
		(layout->final_norm == NULL || read_norm(f, f->prefix, layout->final_norm, &e->final_norm));
}

/* ---- attention's bias by distance ---- */

static float
tensor_value(const struct encoder_tensor *tensor, int64_t i)
{
	const uint8_t *data = tensor->data;
	uint16_t	half;
	float		value;

	if (tensor->storage == ENCODER_F32)
	{
		memcpy(&value, data + 4 * i, sizeof(value));
		return value;
	}
	memcpy(&half, data + 2 * i, sizeof(half));
	return tensor->storage == ENCODER_F16 ? half_f32_of_f16(half) : half_f32_of_bf16(half);
}

/*
 * The bucket of a distance, key's place less query's, as T5's and MPNet's code has it: half of
 * the buckets for either side; the first half of those exact, the rest by the logarithm up
 * to 128.
 */
static int64_t
relative_bucket(int64_t distance, int64_t buckets)
{
	int64_t		half = buckets / 2, exact = half / 2, n = distance < 0 ? -distance : distance;
	int64_t		first = distance > 0 ? half : 0, large;

	if (n < exact)
		return first + n;
	large = exact + (int64_t) (logf((float) n / (float) exact) / (float) log(128.0 / (double) exact) * (float) (half - exact));
	return first + (large < half - 1 ? large : half - 1);
}

static bool
read_relative(struct folder *f)
{
	struct encoder *e = f->encoder;
	struct encoder_tensor table = {0};
	int64_t		buckets = f->layout.relative_buckets, width;
	float	   *bias;

	if (f->layout.relative == NULL)
		return true;
	if (!read_table(f, f->layout.relative, buckets, e->heads, &table))
		return false;
	e->relative_max = 128;
	width = 2 * e->relative_max + 1;
	bias = graph_pool(f->memory, (uint64_t) (e->heads * width), sizeof(*bias));
	if (bias == NULL)
		return false;
	for (int64_t i = 0; i < width; i++)
		for (int64_t h = 0; h < e->heads; h++)
			bias[h * width + i] = tensor_value(&table, relative_bucket(i - e->relative_max, buckets) * e->heads + h);
	e->relative_bias = bias;
	return true;
}

/* ---- layers ---- */

struct place						/* a layer that is being read */
{
	struct folder *folder;
	char		prefix[NAME_MAX_BYTES];
};

static bool
layer_linear(const struct place *place, const char *name, int64_t outputs, int64_t inputs, bool bias, struct encoder_linear *linear)
{
	char		full[NAME_MAX_BYTES];

	if (name == NULL)
		return true;
	snprintf(full, sizeof(full), "%.300s%s", place->prefix, name);
	return folder_linear(place->folder, &place->folder->weights, full, outputs, inputs, bias, linear);
}

static bool
read_layer(struct folder *f, uint32_t number, struct encoder_layer *layer)
{
	struct place place = {.folder = f};
	const struct layout *l = &f->layout;
	int64_t		hidden = f->encoder->hidden, intermediate = f->encoder->intermediate;
	int64_t		up = f->encoder->gated && l->gate == NULL ? 2 * intermediate : intermediate;

	snprintf(place.prefix, sizeof(place.prefix), "%s%s.%u.", f->prefix, l->layer, number);
	return layer_linear(&place, l->qkv, 3 * hidden, hidden, l->qkv_bias, &layer->qkv) &&
		layer_linear(&place, l->query, hidden, hidden, l->qkv_bias, &layer->query) &&
		layer_linear(&place, l->key, hidden, hidden, l->qkv_bias, &layer->key) &&
		layer_linear(&place, l->value, hidden, hidden, l->qkv_bias, &layer->value) &&
		layer_linear(&place, l->attention_output, hidden, hidden, l->attention_output_bias, &layer->attention_output) &&
		layer_linear(&place, l->up, up, hidden, l->up_bias, &layer->up) &&
		layer_linear(&place, l->gate, intermediate, hidden, l->gate_bias, &layer->gate) &&
		layer_linear(&place, l->down, hidden, intermediate, l->down_bias, &layer->down) &&
		((number == 0 && l->first_norm_absent) || read_norm(f, place.prefix, l->attention_norm, &layer->attention_norm)) &&
		read_norm(f, place.prefix, l->mlp_norm, &layer->mlp_norm);
}

bool
folder_stack_read(struct folder *f)
{
	if (!find_prefix(f) || !read_embeddings(f) || !read_relative(f))
		return false;
	for (uint32_t i = 0; i < f->encoder->layers_count; i++)
		if (!read_layer(f, i, &f->encoder->layers[i]))
			return false;
	return true;
}

/* ---- what was not read ---- */

static bool
ends_with(const char *text, const char *end)
{
	size_t		length = strlen(text), end_length = strlen(end);

	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Numbers that some versions keep beside the weights and that follow from the configuration. */
static bool
is_buffer(const char *name)
{
	return ends_with(name, ".position_ids") || ends_with(name, ".token_type_ids") || ends_with(name, ".inv_freq");
}

/* Layers beyond the number that the configuration says are not the model's. */
static bool
is_of_stack(const struct folder *f, const char *name)
{
	size_t		prefix = strlen(f->prefix), layer = strlen(f->layout.layer);

	if (strncmp(name, f->prefix, prefix) != 0)
		return false;
	name += prefix;
	if (strncmp(name, f->layout.layer, layer) == 0 && name[layer] == '.')
		return strtoul(name + layer + 1, NULL, 10) < f->encoder->layers_count;
	return strncmp(name, "embeddings.", strlen("embeddings.")) == 0;
}

bool
folder_stack_complete(const struct folder *f)
{
	for (uint32_t i = 0; i < f->weights.count; i++)
	{
		const struct weight *weight = &f->weights.list[i];

		if (!weight->used && is_of_stack(f, weight->name) && !is_buffer(weight->name))
			return status_set(f->status, INFER_ERROR_UNSUPPORTED, "tensor \"%.200s\" is not supported: no model of type \"%s\" with this configuration has it",
							  weight->name, f->family->model_type);
	}
	return true;
}
