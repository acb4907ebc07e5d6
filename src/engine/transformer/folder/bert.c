/*
 * bert.c
 *	  BERT and what differs from it by little: RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT
 *	  and MPNet.  Attributes and names: transformers' classes of these names.
 */
#include "reader.h"

#include <string.h>

/* ---- attributes ---- */

struct size_names
{
	const char *hidden;
	const char *layers;
	const char *heads;
	const char *intermediate;
	const char *activation;
};

static bool
read_sizes(struct folder *f, const struct object *config, const struct size_names *names)
{
	struct encoder *e = f->encoder;

	if (!object_whole(config, names->hidden, 1, FOLDER_SIZE_MAX, &e->hidden) ||
		!config_layers(f, config, names->layers) ||
		!object_whole(config, names->heads, 1, FOLDER_SIZE_MAX, &e->heads) ||
		!object_whole(config, names->intermediate, 1, FOLDER_SIZE_MAX, &e->intermediate) ||
		!object_whole(config, "vocab_size", 1, FOLDER_SIZE_MAX, &e->vocabulary) ||
		!object_whole(config, "max_position_embeddings", 1, FOLDER_TOKENS_MAX, &f->layout.positions_count) ||
		!config_activation(config, names->activation, "gelu", &e->activation))
		return false;
	e->positions = ENCODER_POSITIONS_ABSOLUTE;
	f->positions_usable = f->layout.positions_count;
	f->positions_from = "config.json (max_position_embeddings)";
	return true;
}

static const struct size_names usual_names = {
	"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"
};

static bool
read_types(struct folder *f, const struct object *config, int64_t otherwise)
{
	const char *positions;

	if (!object_text_or(config, "position_embedding_type", "absolute", &positions) ||
		!object_whole_or(config, "type_vocab_size", 0, FOLDER_SIZE_MAX, otherwise, &f->layout.types_count))
		return false;
	return strcmp(positions, "absolute") == 0 || object_unsupported(config, "position_embedding_type");
}

/* Places count from behind the padding's, which is its id. */
static bool
set_first(struct folder *f, const struct object *config, int64_t padding)
{
	f->encoder->position_first = padding + 1;
	f->encoder->position_padding = padding;
	f->positions_usable = f->layout.positions_count - f->encoder->position_first;
	f->positions_from = "config.json (max_position_embeddings, less those before the first token's)";
	return f->positions_usable > 0 || object_unsupported(config, "max_position_embeddings");
}

/* ---- names ---- */

static const struct layout bert_layout = {
	.words = "embeddings.word_embeddings",
	.positions = "embeddings.position_embeddings",
	.types = "embeddings.token_type_embeddings",
	.embedding_norm = "embeddings.LayerNorm",
	.layer = "encoder.layer",
	.query = "attention.self.query",
	.key = "attention.self.key",
	.value = "attention.self.value",
	.attention_output = "attention.output.dense",
	.attention_norm = "attention.output.LayerNorm",
	.up = "intermediate.dense",
	.down = "output.dense",
	.mlp_norm = "output.LayerNorm",
	.qkv_bias = true, .attention_output_bias = true, .up_bias = true, .down_bias = true, .norm_bias = true
};

static const struct layout distilbert_layout = {
	.words = "embeddings.word_embeddings",
	.positions = "embeddings.position_embeddings",
	.embedding_norm = "embeddings.LayerNorm",
	.layer = "transformer.layer",
	.query = "attention.q_lin",
	.key = "attention.k_lin",
	.value = "attention.v_lin",
	.attention_output = "attention.out_lin",
	.attention_norm = "sa_layer_norm",
	.up = "ffn.lin1",
	.down = "ffn.lin2",
	.mlp_norm = "output_layer_norm",
	.qkv_bias = true, .attention_output_bias = true, .up_bias = true, .down_bias = true, .norm_bias = true
};

static const struct layout mpnet_layout = {
	.words = "embeddings.word_embeddings",
	.positions = "embeddings.position_embeddings",
	.embedding_norm = "embeddings.LayerNorm",
	.layer = "encoder.layer",
	.query = "attention.attn.q",
	.key = "attention.attn.k",
	.value = "attention.attn.v",
	.attention_output = "attention.attn.o",
	.attention_norm = "attention.LayerNorm",
	.up = "intermediate.dense",
	.down = "output.dense",
	.mlp_norm = "output.LayerNorm",
	.relative = "encoder.relative_attention_bias",
	.qkv_bias = true, .attention_output_bias = true, .up_bias = true, .down_bias = true, .norm_bias = true
};

/* ---- configurations ---- */

static bool
bert_config(struct folder *f, const struct object *config)
{
	f->layout = bert_layout;
	f->encoder->types_used = true;
	return read_sizes(f, config, &usual_names) && read_types(f, config, 2) &&
		object_number_or(config, "layer_norm_eps", 1e-12, &f->encoder->norm_epsilon);
}

/* Its tokenizers give no type ids. */
static bool
roberta_config(struct folder *f, const struct object *config)
{
	int64_t		padding;

	f->layout = bert_layout;
	return read_sizes(f, config, &usual_names) && read_types(f, config, 2) &&
		object_whole_or(config, "pad_token_id", 0, FOLDER_SIZE_MAX, 1, &padding) && set_first(f, config, padding) &&
		object_number_or(config, "layer_norm_eps", 1e-12, &f->encoder->norm_epsilon);
}

static bool
distilbert_config(struct folder *f, const struct object *config)
{
	static const struct size_names names = {"dim", "n_layers", "n_heads", "hidden_dim", "activation"};

	f->layout = distilbert_layout;
	f->encoder->norm_epsilon = 1e-12;	/* no attribute: the class's own */
	return read_sizes(f, config, &names);
}

/*
 * The class's own padding is 1, whatever the configuration says.  A quarter of the buckets are single distances,
 * the rest end at 128: so many that those alone reach 128 leave none.
 */
#define MPNET_BUCKETS_MAX	511

static bool
mpnet_config(struct folder *f, const struct object *config)
{
	f->layout = mpnet_layout;
	return read_sizes(f, config, &usual_names) && set_first(f, config, 1) &&
		object_whole_or(config, "relative_attention_num_buckets", 4, MPNET_BUCKETS_MAX, 32, &f->layout.relative_buckets) &&
		object_number_or(config, "layer_norm_eps", 1e-12, &f->encoder->norm_epsilon);
}

/* ---- heads ---- */

static void
pooler_head(struct folder *f, struct head_layout *head)
{
	*head = (struct head_layout) {.dense = "pooler.dense", .dense_in_base = true, .dense_bias = true,
	.activation = ENCODER_TANH, .output = "classifier", .pooling = ENCODER_POOL_CLS};
}

static void
roberta_head(struct folder *f, struct head_layout *head)
{
	*head = (struct head_layout) {.dense = "classifier.dense", .dense_bias = true, .activation = ENCODER_TANH,
	.output = "classifier.out_proj", .pooling = ENCODER_POOL_CLS};
}

static void
distilbert_head(struct folder *f, struct head_layout *head)
{
	*head = (struct head_layout) {.dense = "pre_classifier", .dense_bias = true, .activation = ENCODER_RELU,
	.output = "classifier", .pooling = ENCODER_POOL_CLS};
}

static void
plain_token_head(struct folder *f, struct head_layout *head)
{
	*head = (struct head_layout) {.output = "classifier"};
}

/* ---- families ---- */

const struct family family_bert = {
	.model_type = "bert", .class = "Bert", .prefix = "bert.", .native = true,
	.read_config = bert_config, .text_head = pooler_head, .token_head = plain_token_head
};

const struct family family_roberta = {
	.model_type = "roberta", .class = "Roberta", .prefix = "roberta.", .native = true,
	.read_config = roberta_config, .text_head = roberta_head, .token_head = plain_token_head
};

const struct family family_xlm_roberta = {
	.model_type = "xlm-roberta", .class = "XLMRoberta", .prefix = "roberta.", .native = true,
	.read_config = roberta_config, .text_head = roberta_head, .token_head = plain_token_head
};

const struct family family_camembert = {
	.model_type = "camembert", .class = "Camembert", .prefix = "roberta.", .native = true,
	.read_config = roberta_config, .text_head = roberta_head, .token_head = plain_token_head
};

const struct family family_distilbert = {
	.model_type = "distilbert", .class = "DistilBert", .prefix = "distilbert.", .native = true,
	.read_config = distilbert_config, .text_head = distilbert_head, .token_head = plain_token_head
};

const struct family family_mpnet = {
	.model_type = "mpnet", .class = "MPNet", .prefix = "mpnet.", .native = true,
	.read_config = mpnet_config, .text_head = roberta_head, .token_head = plain_token_head
};
