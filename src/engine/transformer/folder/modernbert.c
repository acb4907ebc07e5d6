/*
 * modernbert.c
 *	  ModernBERT: norms before, rotary positions, most layers attend to a window only, gated
 *	  MLP.  Attributes and names: transformers' ModernBertConfig and ModernBertModel.
 */
#include "reader.h"

#include <string.h>

static const struct layout modernbert_layout = {
	.words = "embeddings.tok_embeddings",
	.embedding_norm = "embeddings.norm",
	.layer = "layers",
	.qkv = "attn.Wqkv",
	.attention_output = "attn.Wo",
	.attention_norm = "attn_norm",
	.up = "mlp.Wi",
	.down = "mlp.Wo",
	.mlp_norm = "mlp_norm",
	.final_norm = "final_norm",
	.first_norm_absent = true
};

static bool
read_sizes(struct folder *f, const struct object *config)
{
	struct encoder *e = f->encoder;

	if (!object_whole(config, "hidden_size", 1, FOLDER_SIZE_MAX, &e->hidden) ||
		!config_layers(f, config, "num_hidden_layers") ||
		!object_whole(config, "num_attention_heads", 1, FOLDER_SIZE_MAX, &e->heads) ||
		!object_whole(config, "intermediate_size", 1, FOLDER_SIZE_MAX, &e->intermediate) ||
		!object_whole(config, "vocab_size", 1, FOLDER_SIZE_MAX, &e->vocabulary) ||
		!object_whole(config, "max_position_embeddings", 1, FOLDER_TOKENS_MAX, &f->positions_usable))
		return false;
	f->positions_from = "config.json (max_position_embeddings)";
	return true;
}

static bool
read_biases(struct folder *f, const struct object *config)
{
	struct layout *l = &f->layout;
	bool		attention, mlp;

	if (!object_bool_or(config, "attention_bias", false, &attention) || !object_bool_or(config, "mlp_bias", false, &mlp) ||
		!object_bool_or(config, "norm_bias", false, &l->norm_bias) ||
		!object_bool_or(config, "classifier_bias", false, &f->classifier_bias))
		return false;
	l->qkv_bias = l->attention_output_bias = attention;
	l->up_bias = l->down_bias = mlp;
	return true;
}

/* Versions from 5 on name the kind of each layer; before, every n-th was of the other kind. */
static bool
read_kinds(struct folder *f, const struct object *config)
{
	struct encoder *e = f->encoder;
	json_t	   *kinds = object_get(config, "layer_types");
	int64_t		every, window;

	if (!object_whole_or(config, "global_attn_every_n_layers", 1, FOLDER_SIZE_MAX, 3, &every) ||
		!object_whole_or(config, "local_attention", 1, FOLDER_TOKENS_MAX, 128, &window))
		return false;
	e->local_window = window / 2;
	if (kinds != NULL && json_array_size(kinds) != e->layers_count)
		return object_malformed(config, "layer_types", "a list of each layer's");
	for (uint32_t i = 0; i < e->layers_count; i++)
	{
		const char *kind = json_string_value(json_array_get(kinds, i));

		e->layers[i].local = kinds == NULL ? i % every != 0 : kind != NULL && strcmp(kind, "sliding_attention") == 0;
		if (kinds != NULL && !e->layers[i].local && (kind == NULL || strcmp(kind, "full_attention") != 0))
			return object_unsupported(config, "layer_types");
	}
	return true;
}

/* Of versions from 5 on: {"full_attention": {"rope_type": "default", "rope_theta": …}, "sliding_attention": …} */
static bool
read_rope(const struct object *parameters, const char *kind, double *theta, struct status *status)
{
	static const char *const known[] = {"rope_type", "rope_theta", NULL};
	struct object rope = {object_get(parameters, kind), "\"rope_parameters\" of config.json", status};
	const char *type;

	if (rope.json == NULL)
		return true;
	if (!json_is_object(rope.json))
		return object_malformed(parameters, kind, "an object");
	if (!object_known(&rope, known, NULL) || !object_text_or(&rope, "rope_type", "default", &type) ||
		!object_number_or(&rope, "rope_theta", *theta, theta))
		return false;
	return strcmp(type, "default") == 0 || object_unsupported(&rope, "rope_type");
}

static bool
read_rotary(struct folder *f, const struct object *config)
{
	static const char *const kinds[] = {"full_attention", "sliding_attention", NULL};
	static const char *const refused[] = {"rope_scaling", NULL};
	struct object parameters = {object_get(config, "rope_parameters"), "\"rope_parameters\" of config.json", f->status};
	struct encoder *e = f->encoder;

	e->positions = ENCODER_POSITIONS_ROTARY;
	e->rotary_scaling = 1;
	if (!object_refuse(config, refused) || !object_number_or(config, "global_rope_theta", 160000, &e->rotary_theta) ||
		!object_number_or(config, "local_rope_theta", json_is_null(json_object_get(config->json, "local_rope_theta")) ? e->rotary_theta : 10000,
						  &e->rotary_theta_local))
		return false;
	if (parameters.json == NULL)
		return true;
	if (!json_is_object(parameters.json))
		return object_malformed(config, "rope_parameters", "an object");
	return object_known(&parameters, kinds, NULL) &&
		read_rope(&parameters, "full_attention", &e->rotary_theta, f->status) &&
		read_rope(&parameters, "sliding_attention", &e->rotary_theta_local, f->status);
}

static bool
read_classifier(struct folder *f, const struct object *config)
{
	const char *pooling;

	if (!object_text_or(config, "classifier_pooling", "cls", &pooling) ||
		!config_activation(config, "classifier_activation", "gelu", &f->classifier_activation))
		return false;
	f->classifier_pooling = strcmp(pooling, "cls") == 0 ? ENCODER_POOL_CLS : strcmp(pooling, "mean") == 0 ? ENCODER_POOL_MEAN : 0;
	return f->classifier_pooling != 0 || object_unsupported(config, "classifier_pooling");
}

static bool
modernbert_config(struct folder *f, const struct object *config)
{
	struct encoder *e = f->encoder;

	f->layout = modernbert_layout;
	e->pre_norm = true;
	e->gated = true;			/* the first half is activated */
	return read_sizes(f, config) && read_biases(f, config) && read_kinds(f, config) && read_rotary(f, config) &&
		read_classifier(f, config) && object_number_or(config, "norm_eps", 1e-5, &e->norm_epsilon) &&
		config_activation(config, "hidden_activation", "gelu", &e->activation);
}

static void
modernbert_head(struct folder *f, struct head_layout *head)
{
	*head = (struct head_layout) {.dense = "head.dense", .dense_bias = f->classifier_bias, .activation = f->classifier_activation,
	.norm = "head.norm", .norm_bias = f->layout.norm_bias, .output = "classifier", .pooling = f->classifier_pooling};
}

const struct family family_modernbert = {
	.model_type = "modernbert", .class = "ModernBert", .prefix = "model.", .native = true,
	.read_config = modernbert_config, .text_head = modernbert_head, .token_head = modernbert_head
};
