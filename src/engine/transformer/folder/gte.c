/*
 * gte.c
 *	  The encoders of Alibaba's GTE, model_type "new": BERT with rotary or absolute positions and
 *	  a gated MLP.  Attributes and names: the published code of Alibaba-NLP/new-impl
 *	  (modeling.py); text-embeddings-inference (models/gte.rs) reads the same.
 */
#include "reader.h"

#include <math.h>
#include <string.h>

static const struct layout gte_layout = {
	.words = "embeddings.word_embeddings",
	.types = "embeddings.token_type_embeddings",
	.embedding_norm = "embeddings.LayerNorm",
	.layer = "encoder.layer",
	.qkv = "attention.qkv_proj",
	.attention_output = "attention.o_proj",
	.attention_norm = "attn_ln",
	.up = "mlp.up_gate_proj",
	.down = "mlp.down_proj",
	.mlp_norm = "mlp_ln",
	.qkv_bias = true, .attention_output_bias = true, .down_bias = true, .norm_bias = true
};

static const char *const known[] = {
	"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size", "max_position_embeddings",
	"type_vocab_size", "hidden_act", "layer_norm_eps", "layer_norm_type", "position_embedding_type", "rope_theta", "rope_scaling",
	"logn_attention_scale", "logn_attention_clip1", "pack_qkv", NULL
};

static const char *const irrelevant[] = {
	"model_type", "architectures", "auto_map", "_name_or_path", "name_or_path", "_attn_implementation_autoset", "torch_dtype", "dtype",
	"transformers_version", "id2label", "label2id", "num_labels", "problem_type", "attention_probs_dropout_prob",
	"hidden_dropout_prob", "classifier_dropout", "initializer_range", "unpad_inputs", "use_memory_efficient_attention",
	"use_cache", "pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings", "gradient_checkpointing",
	"sentence_transformers", "sbert_ce_default_activation_function", NULL
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
		!object_whole(config, "max_position_embeddings", 1, FOLDER_TOKENS_MAX, &f->positions_usable) ||
		!object_whole_or(config, "type_vocab_size", 0, FOLDER_SIZE_MAX, 1, &f->layout.types_count))
		return false;
	e->types_used = f->layout.types_count > 1;
	f->positions_from = "config.json (max_position_embeddings)";
	return true;
}

/*
 * Scaling by NTK: theta times the factor, and every frequency divided by the factor to the power of
 * 2 / the size of a head.
 */
static bool
read_scaling(struct folder *f, const struct object *config)
{
	static const char *const members[] = {"type", "factor", NULL};
	struct object scaling = {object_get(config, "rope_scaling"), "\"rope_scaling\" of config.json", f->status};
	struct encoder *e = f->encoder;
	const char *type;
	double		factor;

	e->rotary_scaling = 1;
	if (scaling.json == NULL)
		return true;
	if (!json_is_object(scaling.json))
		return object_malformed(config, "rope_scaling", "an object");
	if (!object_known(&scaling, members, NULL) || !object_text_or(&scaling, "type", "", &type) ||
		!object_number_or(&scaling, "factor", 0, &factor))
		return false;
	if (strcmp(type, "ntk") != 0 || !(factor >= 1 && factor <= 1024))
		return object_unsupported(config, "rope_scaling");
	e->rotary_theta *= factor;
	e->rotary_scaling = pow(factor, -2.0 / ((double) e->hidden / (double) e->heads));
	return true;
}

static bool
read_positions(struct folder *f, const struct object *config)
{
	struct encoder *e = f->encoder;
	const char *type;

	if (!object_text_or(config, "position_embedding_type", "rope", &type))
		return false;
	if (strcmp(type, "absolute") == 0)
	{
		f->layout.positions = "embeddings.position_embeddings";
		f->layout.positions_count = f->positions_usable;
		e->positions = ENCODER_POSITIONS_ABSOLUTE;
		return true;
	}
	if (strcmp(type, "rope") != 0)
		return object_unsupported(config, "position_embedding_type");
	e->positions = ENCODER_POSITIONS_ROTARY;
	if (!object_number_or(config, "rope_theta", 10000, &e->rotary_theta) || !read_scaling(f, config))
		return false;
	e->rotary_theta_local = e->rotary_theta;
	return true;
}

static bool
gte_config(struct folder *f, const struct object *config)
{
	static const char *const refused[] = {"logn_attention_scale", "logn_attention_clip1", NULL};
	struct encoder *e = f->encoder;
	const char *norm;
	bool		packed;

	f->layout = gte_layout;
	e->gated = true;
	e->gate_second = true;
	if (!object_known(config, known, irrelevant) || !object_refuse(config, refused) || !read_sizes(f, config) ||
		!read_positions(f, config) || !config_activation(config, "hidden_act", "gelu", &e->activation) ||
		!object_number_or(config, "layer_norm_eps", 1e-12, &e->norm_epsilon) ||
		!object_text_or(config, "layer_norm_type", "layer_norm", &norm) || !object_bool_or(config, "pack_qkv", true, &packed))
		return false;
	if (!packed)
	{
		f->layout.qkv = NULL;
		f->layout.query = "attention.q_proj";
		f->layout.key = "attention.k_proj";
		f->layout.value = "attention.v_proj";
	}
	return strcmp(norm, "layer_norm") == 0 || object_unsupported(config, "layer_norm_type");
}

static void
gte_head(struct folder *f, struct head_layout *head)
{
	*head = (struct head_layout) {.dense = "pooler.dense", .dense_in_base = true, .dense_bias = true,
	.activation = ENCODER_TANH, .output = "classifier", .pooling = ENCODER_POOL_CLS};
}

static void
gte_token_head(struct folder *f, struct head_layout *head)
{
	*head = (struct head_layout) {.output = "classifier"};
}

const struct family family_gte = {
	.model_type = "new", .class = "New", .prefix = "new.", .read_config = gte_config, .text_head = gte_head,
	.token_head = gte_token_head
};
