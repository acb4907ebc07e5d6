/*
 * walk.c
 *	  The layers of a BERT, from the last one's output back to the embeddings.
 */
#include "walk.h"

#include <math.h>
#include <string.h>

/* ---- what all layers have alike ---- */

bool
walk_take_norm(struct walk *w, int32_t name, const struct normed *normed, struct encoder_norm *norm)
{
	struct encoder *e = w->folder->encoder;

	if (!walk_weight(w, normed->weight, 1, &norm->weight) || !walk_weight(w, normed->bias, 1, &norm->bias))
		return false;
	if (norm->weight.dims[0] != norm->bias.dims[0])
		return walk_refuse(w, name, "a norm of one width is expected");
	if (!(normed->epsilon >= 0) || !(normed->epsilon < 1) || (e->norm_epsilon >= 0 && e->norm_epsilon != normed->epsilon))
		return walk_refuse(w, name, "norms with the same epsilon are expected");
	e->norm_epsilon = normed->epsilon;
	return true;
}

static bool
take_heads(struct walk *w, int32_t name, const struct heads *heads)
{
	struct encoder *e = w->folder->encoder;

	if (e->heads != 0 && heads->biased != w->biased)
		return walk_refuse(w, name, "the same bias in all layers is expected");
	if (e->heads != 0 && (e->heads != heads->count || fabs(e->attention_scale - heads->scale) > 1e-6 * fabs(heads->scale)))
		return walk_refuse(w, name, "attentions of equally many heads and the same scale are expected");
	w->biased = heads->biased;
	e->heads = heads->count;
	e->attention_scale = heads->scale;
	return isfinite(heads->scale) || walk_refuse(w, name, "a scale is expected");
}

/* ---- a layer ---- */

/* Of the two terms of a norm's sum, the one that a matrix makes, with the sum's bias; and the other one. */
static bool
part_sum(struct walk *w, int32_t name, const struct normed *normed, struct sum *made, int32_t *other)
{
	*made = (struct sum) {.bias = normed->sum.bias};
	for (uint32_t i = 0; normed->sum.terms_count == 2 && i < 2; i++)
	{
		const struct onnx_node *node = walk_maker(w, normed->sum.terms[i]);

		if (!node_is(node, "MatMul") && !node_is(node, "Gemm"))
			continue;
		made->terms[made->terms_count++] = normed->sum.terms[i];
		*other = normed->sum.terms[1 - i];
		return true;
	}
	return walk_refuse(w, name, "the norm of a value and a layer of it is expected");
}

/* norm(down(activation(up(h))) + h): h */
static bool
read_mlp(struct walk *w, int32_t name, struct encoder_layer *layer, int32_t *input)
{
	struct encoder *e = w->folder->encoder;
	enum encoder_activation activation;
	struct normed normed;
	struct sum	made, inner;
	int32_t		middle, from;

	if (!walk_normed(w, name, &normed) || !walk_take_norm(w, name, &normed, &layer->mlp_norm) ||
		!part_sum(w, name, &normed, &made, input) || !walk_linear_of(w, name, &made, &middle, &layer->down) ||
		!walk_activation(w, middle, &inner, &activation) || !walk_linear_of(w, middle, &inner, &from, &layer->up))
		return false;
	if (from != *input || (e->activation != 0 && e->activation != activation))
		return walk_refuse(w, name, "the norm of a value and a layer of it is expected");
	e->activation = activation;
	return true;
}

/* norm(output(attention(x)) + x): x */
static bool
read_attention(struct walk *w, int32_t name, struct encoder_layer *layer, int32_t *input)
{
	struct heads heads;
	struct normed normed;
	struct sum	made;
	int32_t		middle, from;

	if (!walk_normed(w, name, &normed) || !walk_take_norm(w, name, &normed, &layer->attention_norm) ||
		!part_sum(w, name, &normed, &made, input) || !walk_linear_of(w, name, &made, &middle, &layer->attention_output) ||
		!walk_attention(w, middle, &from, layer, &heads) || !take_heads(w, middle, &heads))
		return false;
	return from == *input || walk_refuse(w, name, "the norm of a value and its attention is expected");
}

/* ---- all of them ---- */

static bool
shaped(struct walk *w, const struct encoder_tensor *tensor, int64_t rows, int64_t columns)
{
	if (tensor->storage == ENCODER_ABSENT || (tensor->dims[0] == rows && (tensor->rank == 1 || tensor->dims[1] == columns)))
		return true;
	return status_set(w->status, INFER_ERROR_MODEL, "tensor \"%.200s\" of the ONNX file has not the shape that its place needs", tensor->name);
}

static bool
norm_shaped(struct walk *w, const struct encoder_norm *norm)
{
	return shaped(w, &norm->weight, w->folder->encoder->hidden, 0) && shaped(w, &norm->bias, w->folder->encoder->hidden, 0);
}

static bool
check_layer(struct walk *w, const struct encoder_layer *layer)
{
	const struct encoder *e = w->folder->encoder;
	int64_t		hidden = e->hidden, inner = e->intermediate;

	return shaped(w, &layer->qkv.weight, 3 * hidden, hidden) && shaped(w, &layer->query.weight, hidden, hidden) &&
		shaped(w, &layer->key.weight, hidden, hidden) && shaped(w, &layer->value.weight, hidden, hidden) &&
		shaped(w, &layer->attention_output.weight, hidden, hidden) && shaped(w, &layer->up.weight, inner, hidden) &&
		shaped(w, &layer->down.weight, hidden, inner) && norm_shaped(w, &layer->attention_norm) && norm_shaped(w, &layer->mlp_norm);
}

static bool
check_sizes(struct walk *w)
{
	struct encoder *e = w->folder->encoder;

	if (e->layers_count == 0 || e->hidden % e->heads != 0)
		return status_set(w->status, INFER_ERROR_UNSUPPORTED, "the ONNX file has no layer that is known");
	e->head_size = e->hidden / e->heads;
	e->intermediate = e->layers[0].up.weight.dims[0];
	if (e->relative_max > 0 && w->folder->positions_usable > WALK_DISTANCE)
		w->folder->positions_usable = WALK_DISTANCE;
	if (!norm_shaped(w, &e->embedding_norm) || !shaped(w, &e->position_table, e->position_table.dims[0], e->hidden) ||
		!shaped(w, &e->types, e->types.dims[0], e->hidden))
		return false;
	for (uint32_t i = 0; i < e->layers_count; i++)
		if (!check_layer(w, &e->layers[i]))
			return false;
	return true;
}

/* They are met from the last to the first. */
static void
turn_layers(struct encoder *e)
{
	for (uint32_t i = 0; i < e->layers_count / 2; i++)
	{
		struct encoder_layer layer = e->layers[i];

		e->layers[i] = e->layers[e->layers_count - 1 - i];
		e->layers[e->layers_count - 1 - i] = layer;
	}
}

bool
walk_stack(struct walk *w, int32_t name)
{
	struct encoder *e = w->folder->encoder;
	uint32_t	space = 0;

	e->norm_epsilon = -1;
	name = walk_same(w, name);
	while (!walk_is_embeddings(w, name))
	{
		int32_t		middle;

		if (!graph_pool_grow(w->folder->memory, &e->layers, e->layers_count, &space, sizeof(*e->layers), ENCODER_LAYERS_MAX, "layers"))
			return false;
		memset(&e->layers[e->layers_count], 0, sizeof(*e->layers));
		if (!read_mlp(w, name, &e->layers[e->layers_count], &middle) ||
			!read_attention(w, middle, &e->layers[e->layers_count], &name))
			return false;
		e->layers_count++;
	}
	if (!walk_embeddings(w, name))
		return false;
	turn_layers(e);
	return check_sizes(w);
}
