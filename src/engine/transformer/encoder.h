/*
 * encoder.h
 *	  What an encoder is, whatever file it came from: the one form between the readers of
 *	  folders (Hugging Face, sentence-transformers, ONNX) and the program that computes it.
 *
 * Nouns
 *	encoder		a stack of layers that turns the tokens of a text into one vector each, and
 *				the head behind it: everything that a reader must say and that a program needs
 *	tensor		a weight where it lies in the model's files; not copied, not converted
 *	linear		y = x · Wᵀ + b, as torch stores it: W is [outputs, inputs] row-major
 *	head		what becomes of the tokens' vectors: a pooled vector (embedding), classes or
 *				a score of the whole text, classes of each token
 *
 * Invariants
 *	- A reader fills every field, or refuses by the name of what it does not know: there is
 *	  no quiet default here.
 *	- All tensors have the shapes below; a reader checks them against the sizes.
 *
 * Names are those of transformers' configuration files.
 */
#ifndef ENGINE_TRANSFORMER_ENCODER_H
#define ENGINE_TRANSFORMER_ENCODER_H

#include <stdbool.h>
#include <stdint.h>

#define ENCODER_LAYERS_MAX		256
#define ENCODER_PROMPTS_MAX		64
#define ENCODER_DENSES_MAX		8
#define ENCODER_POOLINGS_MAX	6
#define ENCODER_RELATIVE_MAX	4096	/* distances on either side that an attention bias tells apart */

enum encoder_storage
{
	ENCODER_ABSENT = 0,
	ENCODER_F32,
	ENCODER_F16,
	ENCODER_BF16
};

struct encoder_tensor
{
	uint8_t		storage;			/* enum encoder_storage; ABSENT: the model has none */
	uint8_t		rank;
	bool		transposed;			/* a matrix whose file has [inputs, outputs] */
	int64_t		dims[4];			/* as if it were not transposed */
	const void *data;				/* in the files' mapping, which outlives the encoder; not aligned to
									 * anything */
	const char *name;				/* in the file, for messages; the encoder's memory */
};

struct encoder_linear
{
	struct encoder_tensor weight;	/* [outputs, inputs] */
	struct encoder_tensor bias;		/* [outputs], or absent */
};

struct encoder_norm					/* weight absent: no norm at all at this place */
{
	struct encoder_tensor weight;	/* [hidden] */
	struct encoder_tensor bias;		/* [hidden], or absent */
};

enum encoder_activation
{
	ENCODER_GELU = 1,				/* by erf */
	ENCODER_GELU_TANH,				/* gelu_new, gelu_pytorch_tanh, gelu_fast */
	ENCODER_RELU,
	ENCODER_SILU,
	ENCODER_TANH,
	ENCODER_SIGMOID,
	ENCODER_IDENTITY
};

enum encoder_positions
{
	ENCODER_POSITIONS_ABSOLUTE = 1,	/* a table, from position_first on */
	ENCODER_POSITIONS_ROTARY,
	ENCODER_POSITIONS_NONE
};

struct encoder_layer
{
	bool		local;				/* attends to local_window tokens on either side only */

	struct encoder_norm attention_norm;	/* post-norm: behind the addition; pre-norm: of the input */
	struct encoder_linear qkv;		/* [3 · hidden, hidden], or absent: */
	struct encoder_linear query;	/* [hidden, hidden] each */
	struct encoder_linear key;
	struct encoder_linear value;
	struct encoder_linear attention_output;	/* [hidden, hidden] */

	struct encoder_norm mlp_norm;	/* likewise */
	struct encoder_linear up;		/* [intermediate, hidden]; gated and gate absent: [2 · intermediate, hidden] */
	struct encoder_linear gate;		/* [intermediate, hidden]: gated, in a matrix of its own: what is activated;
									 * up is the other one */
	struct encoder_linear down;		/* [hidden, intermediate] */
};

enum encoder_pooling
{
	ENCODER_POOL_CLS = 1,
	ENCODER_POOL_MEAN,
	ENCODER_POOL_MAX,
	ENCODER_POOL_MEAN_SQRT_LEN,
	ENCODER_POOL_LAST,
	ENCODER_POOL_WEIGHTED_MEAN,		/* by the token's place, from 1 */
	ENCODER_POOLINGS,
	ENCODER_POOL_OWN				/* whatever a graph that is run as it is does */
};

enum encoder_task
{
	ENCODER_EMBEDDING = 1,
	ENCODER_CLASSIFIER,				/* of the whole text; single_label: softmax, else a sigmoid each */
	ENCODER_RERANKER,				/* of a pair: one number */
	ENCODER_REGRESSION,				/* of the whole text: one number */
	ENCODER_ENTITIES				/* of each token; softmax */
};

struct encoder_dense				/* x → activation(linear(x)), on the pooled vector (or each token's) */
{
	struct encoder_linear linear;
	enum encoder_activation activation;
	struct encoder_norm norm;		/* behind the activation, or absent */
	double		norm_epsilon;
};

struct encoder_prompt
{
	const char *name;
	const char *text;				/* put before the user's, UTF-8 */
};

struct encoder
{
	struct text_graph *graph;		/* an ONNX file that is run as it is: embeddings and layers below are
									 * empty, hidden is its output's width; or NULL */
	const char *architecture;		/* "bert", "modernbert" …: config.json's model_type */
	const char *format;				/* for the signature: "safetensors (bert, float32)" */

	/* sizes */
	int64_t		hidden;
	int64_t		heads;
	int64_t		head_size;			/* heads · head_size = hidden */
	int64_t		intermediate;
	int64_t		vocabulary;
	uint32_t	layers_count;

	/* embeddings: word + position + type, then norm */
	struct encoder_tensor words;	/* [vocabulary, hidden] */
	enum encoder_positions positions;
	struct encoder_tensor position_table;	/* [positions in all, hidden]; ABSOLUTE */
	int64_t		position_first;		/* row of the first token: 0, or 2 (RoBERTa) */
	int64_t		position_padding;	/* RoBERTa, MPNet: tokens of this id, if a text has them, are at row
									 * position_first − 1 and are not counted; −1: all are counted */
	struct encoder_tensor types;	/* [types, hidden], or absent */
	bool		types_used;			/* the tokenizer's type ids choose the row; else row 0 always */
	struct encoder_norm embedding_norm;

	/* layers */
	bool		pre_norm;			/* x + f(norm(x)), else norm(x + f(x)) */
	double		norm_epsilon;
	bool		norm_rms;
	enum encoder_activation activation;
	bool		gated;				/* down(activation(a) · b) */
	bool		gate_second;		/* of up's two halves the second one is activated, not the first */
	double		attention_scale;	/* mostly 1 / √head_size */
	int64_t		rotary_size;		/* numbers of each head that are turned; ROTARY */
	bool		rotary_neighbours;	/* pairs are neighbours, else half a rotary_size apart */
	double		rotary_theta;
	double		rotary_theta_local;	/* of local layers */
	double		rotary_scaling;		/* what every frequency, theta^(−2i / rotary_size), is multiplied by; 1: none */
	int64_t		local_window;		/* tokens on either side */
	int64_t		relative_max;		/* 0: no bias by distance; else of −max … max, beyond: the ends */
	const float *relative_bias;		/* [heads, 2 · relative_max + 1], by the key's place less the query's;
									 * added to the scaled score; the encoder's memory */
	struct encoder_layer *layers;
	struct encoder_norm final_norm;	/* of pre-norm stacks, or absent */

	/* head */
	enum encoder_task task;
	enum encoder_pooling pooling;	/* not for ENTITIES */
	uint32_t	more_count;			/* EMBEDDING: other poolings of the same tokens, put behind the first one */
	enum encoder_pooling more[ENCODER_POOLINGS_MAX - 1];
	bool		prompt_excluded;	/* EMBEDDING: pooling passes over a prompt's tokens; not CLS */
	uint32_t	denses_count;		/* on the pooled vector, or on each token's */
	struct encoder_dense denses[ENCODER_DENSES_MAX];
	struct encoder_linear output;	/* logits, or absent: EMBEDDING, or the graph's output is logits */
	bool		normalize;			/* EMBEDDING: to length 1 */
	bool		single_label;		/* CLASSIFIER */
	enum encoder_activation score;	/* RERANKER: SIGMOID or IDENTITY */
	uint32_t	classes_count;		/* CLASSIFIER, ENTITIES: id2label in order */
	const char **classes;

	/* texts */
	uint32_t	tokens_max;			/* special ones included */
	const char *tokens_max_from;	/* the file or option that set it, for people */
	bool		truncate;			/* option: what is longer is cut */
	uint32_t	prompts_count;
	struct encoder_prompt prompts[ENCODER_PROMPTS_MAX];
	const char *prompt_default;		/* a name of these, or NULL */

	/* options of create_model */
	const char *precision;			/* "f32", "bf16", "int8", or NULL: what the device prefers */

	void	   *memory;				/* of all the above; encoder_free */
};

#endif							/* ENGINE_TRANSFORMER_ENCODER_H */
