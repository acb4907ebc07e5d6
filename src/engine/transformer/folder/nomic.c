/*
 * nomic.c
 *	  Nomic BERT: BERT with rotary positions and a gated MLP.  Attributes and names: the published
 *	  code of nomic-ai/nomic-bert-2048 (modeling_hf_nomic_bert.py, also in nomic-ai/contrastors);
 *	  text-embeddings-inference (models/nomic.rs) reads the same.
 */
#include "reader.h"

#include <math.h>
#include <string.h>

static const struct layout nomic_layout = {
	.words = "embeddings.word_embeddings",
	.types = "embeddings.token_type_embeddings",
	.embedding_norm = "emb_ln",
	.layer = "encoder.layers",
	.qkv = "attn.Wqkv",
	.attention_output = "attn.out_proj",
	.attention_norm = "norm1",
	.up = "mlp.fc1",
	.down = "mlp.fc2",
	.mlp_norm = "norm2",
	.norm_bias = true
};

/* What is read below, and what changes no number when a model is only used. */
static const char *const known[] = {
	"n_embd", "n_layer", "n_head", "n_inner", "n_positions", "vocab_size", "type_vocab_size", "layer_norm_epsilon",
	"activation_function", "prenorm", "use_rms_norm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "rotary_emb_base",
	"rotary_emb_fraction", "rotary_emb_interleaved", "rotary_emb_scale_base", "rotary_scaling_factor", "parallel_block",
	"scale_attn_weights", "scale_attn_by_inverse_layer_idx", "causal", "moe_every_n_layers", "max_trained_positions",
	NULL
};

static const char *const irrelevant[] = {
	"model_type", "architectures", "auto_map", "_name_or_path", "name_or_path", "_attn_implementation_autoset", "torch_dtype", "dtype",
	"transformers_version", "id2label", "label2id", "num_labels", "problem_type", "attn_pdrop", "embd_pdrop", "resid_pdrop",
	"summary_first_dropout", "summary_activation", "summary_proj_to_labels", "summary_type", "summary_use_proj",
	"initializer_range", "use_cache", "use_flash_attn", "use_xentropy", "dense_seq_output", "fused_bias_fc",
	"fused_dropout_add_ln", "fused_mlp", "last_layer_subset", "pad_vocab_size_multiple", "bos_token_id", "eos_token_id",
	"pad_token_id", "reorder_and_upcast_attn", "tie_word_embeddings", "gradient_checkpointing", "moe_top_k",
	"moe_impl", "moe_normalize_expert_weights", "moe_resid_pdrop", "num_experts", "num_shared_experts", "ffn_div",
	"expert_choice_router", "router_aux_loss_coef", "max_position_embeddings", "hidden_size", "num_hidden_layers",
	"num_attention_heads", "intermediate_size", NULL
};

static bool
read_sizes(struct folder *f, const struct object *config)
{
	struct encoder *e = f->encoder;

	if (!object_whole(config, "n_embd", 1, FOLDER_SIZE_MAX, &e->hidden) ||
		!config_layers(f, config, "n_layer") ||
		!object_whole(config, "n_head", 1, FOLDER_SIZE_MAX, &e->heads) ||
		!object_whole_or(config, "n_inner", 1, FOLDER_SIZE_MAX, 4 * e->hidden, &e->intermediate) ||
		!object_whole(config, "vocab_size", 1, FOLDER_SIZE_MAX, &e->vocabulary) ||
		!object_whole(config, "n_positions", 1, FOLDER_TOKENS_MAX, &f->positions_usable) ||
		!object_whole_or(config, "type_vocab_size", 0, FOLDER_SIZE_MAX, 2, &f->layout.types_count))
		return false;
	e->types_used = f->layout.types_count > 0;
	f->positions_from = "config.json (n_positions)";
	return true;
}

/* glu, swiglu and geglu are gated: fc11 times the activation of fc12, their widths rounded up to 256. */
static bool
read_mlp(struct folder *f, const struct object *config)
{
	struct encoder *e = f->encoder;
	struct layout *l = &f->layout;
	const char *name;
	bool		bias1, bias2;

	if (!object_text_or(config, "activation_function", "", &name) || !object_bool_or(config, "mlp_fc1_bias", true, &bias1) ||
		!object_bool_or(config, "mlp_fc2_bias", true, &bias2))
		return false;
	l->up_bias = l->gate_bias = bias1;
	l->down_bias = bias2;
	e->activation = strcmp(name, "swiglu") == 0 ? ENCODER_SILU : strcmp(name, "geglu") == 0 ? ENCODER_GELU :
		strcmp(name, "glu") == 0 ? ENCODER_SIGMOID : 0;
	e->gated = e->activation != 0;
	if (e->gated)
	{
		l->up = "mlp.fc11";
		l->gate = "mlp.fc12";
		e->intermediate = (e->intermediate + 255) / 256 * 256;
		return true;
	}
	l->gate_bias = false;
	e->activation = ENCODER_GELU;
	return strcmp(name, "gelu") == 0 || object_unsupported(config, "activation_function");
}

/*
 * Where there is a scaling factor, the base depends on the length of texts that are longer than
 * those of the training: such texts are over the limit.
 */
static bool
read_scaling(struct folder *f, const struct object *config)
{
	double		factor;
	int64_t		trained;

	if (!object_number_or(config, "rotary_scaling_factor", 0, &factor) ||
		!object_whole_or(config, "max_trained_positions", 1, FOLDER_TOKENS_MAX, 2048, &trained))
		return false;
	if (factor != 0 && trained < f->positions_usable)
	{
		f->positions_usable = trained;
		f->positions_from = "config.json (max_trained_positions)";
	}
	return true;
}

static bool
read_rotary(struct folder *f, const struct object *config)
{
	struct encoder *e = f->encoder;
	double		fraction;
	bool		interleaved;

	if (!object_number_or(config, "rotary_emb_fraction", 0, &fraction) ||
		!object_number_or(config, "rotary_emb_base", 10000, &e->rotary_theta) ||
		!object_bool_or(config, "rotary_emb_interleaved", false, &interleaved))
		return false;
	if (!(fraction > 0 && fraction <= 1))
		return object_unsupported(config, "rotary_emb_fraction");
	e->positions = ENCODER_POSITIONS_ROTARY;
	e->rotary_size = (int64_t) (fraction * (double) (e->hidden / e->heads));
	e->rotary_neighbours = interleaved;
	e->rotary_theta_local = e->rotary_theta;
	e->rotary_scaling = 1;
	return e->rotary_size > 0 || object_unsupported(config, "rotary_emb_fraction");
}

static bool
nomic_config(struct folder *f, const struct object *config)
{
	static const char *const refused[] = {
		"prenorm", "use_rms_norm", "parallel_block", "scale_attn_by_inverse_layer_idx", "causal", "moe_every_n_layers",
		"rotary_emb_scale_base", NULL
	};
	bool		scaled, bias;

	f->layout = nomic_layout;
	if (!object_known(config, known, irrelevant) || !object_refuse(config, refused) || !read_sizes(f, config) ||
		!read_mlp(f, config) || !read_scaling(f, config) || !read_rotary(f, config) || !object_bool_or(config, "scale_attn_weights", true, &scaled) ||
		!object_bool_or(config, "qkv_proj_bias", true, &bias) ||
		!object_number_or(config, "layer_norm_epsilon", 1e-5, &f->encoder->norm_epsilon))
		return false;
	f->layout.qkv_bias = f->layout.attention_output_bias = bias;
	return scaled || object_unsupported(config, "scale_attn_weights");
}

const struct family family_nomic = {
	.model_type = "nomic_bert", .class = "NomicBert", .prefix = "bert.", .read_config = nomic_config
};
