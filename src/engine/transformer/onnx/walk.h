/*
 * walk.h
 *	  Recognising an encoder in an ONNX graph, and reading it into struct encoder.
 *
 * Nouns
 *	name		of a value of the graph: the index that onnx.h gives it
 *	fact		what is known of a value for one text, of any length, whose mask is all ones:
 *				its sizes, and where it is no matter of the weights, what it holds
 *	size		a dimension: constant + batch · B + length · L, for any B and L from 1
 *	alias		the name of another value that this one always equals
 *	sum			a value as what it is the sum of
 *
 * Way
 *	facts.c goes through the nodes from the first to the last: shapes, masks and places become
 *	facts, and what they do to a value (adding a mask of zeros) becomes an alias.  Then walk.c
 *	goes from the wanted output back to the inputs, and every node on the way must be just
 *	what an encoder has at that place.
 *
 * Invariants
 *	- A node that does not fit is refused by its operator and name.  Nothing is guessed: a value
 *	  without a fact has none.
 *	- Nodes that the output does not depend on are not looked at.
 *	- Rows of different length are never padded here, so a mask of ones is all that a row sees.
 */
#ifndef ENGINE_TRANSFORMER_WALK_H
#define ENGINE_TRANSFORMER_WALK_H

#include "../../graph/onnx/onnx.h"
#include "../folder/reader.h"

#define FACT_INTS_MAX	8
#define WALK_DISTANCE	(ENCODER_RELATIVE_MAX - 1)
#define WALK_LOOKED_MAX	(INT64_C(1) << 26)	/* elements of constants that are looked at, of one file */
#define WALK_TERMS_MAX	8			/* of a sum or a product */
#define WALK_DEPTH_MAX	32

struct size
{
	int64_t		constant;
	int64_t		batch;
	int64_t		length;
};

enum fact_kind
{
	FACT_NONE = 0,
	FACT_DATA,						/* numbers; only the shape is known */
	FACT_CONSTANT,					/* of the file */
	FACT_INTS,						/* a list of whole numbers, or a single one (rank 0) */
	FACT_SAME,						/* one number at every place; or that number times L */
	FACT_IDS,						/* the tokens */
	FACT_TYPES,						/* their type ids */
	FACT_PADDING,					/* whether a token is the padding */
	FACT_REAL,						/* whether it is not */
	FACT_COUNT,						/* how many are not, up to each token */
	FACT_POSITIONS,					/* first + 0, 1, 2 … along L, or as RoBERTa counts */
	FACT_COLUMN,					/* the same, along the last axis but one: facts_distances.c */
	FACT_DISTANCES,
	FACT_BIAS
};

struct fact
{
	uint8_t		kind;				/* enum fact_kind */
	uint8_t		rank;
	bool		times_length;		/* SAME */
	bool		real;				/* SAME, DISTANCES: of a type with fractions */
	bool		masked;				/* COUNT: 0 at the padding */
	int32_t		alias;				/* its own name, if there is no other */
	struct size dims[DEVICE_RANK_MAX];
	const struct onnx_tensor *tensor;	/* CONSTANT; BIAS: the table */
	const double *distances;		/* DISTANCES, BIAS */
	uint32_t	count;				/* INTS */
	struct size ints[FACT_INTS_MAX];
	double		value;				/* SAME */
	int64_t		first;				/* POSITIONS */
	int64_t		places;				/* POSITIONS: so many at most; 0: any number */
	int64_t		padding;			/* PADDING, REAL, COUNT, POSITIONS; −1: of no matter */
};

struct walk
{
	struct folder *folder;
	struct status *status;
	struct graph_memory *memory;	/* of the reading; what is kept lies in the folder's */
	const struct onnx_model *model;
	struct fact *facts;				/* by name */
	const struct onnx_node **makers;	/* by name; NULL: an input or an initialiser */
	int64_t		looked;				/* elements of constants so far */
	bool		biased;				/* attention has a bias: this one */
	const struct onnx_tensor *bias_tensor;
	const double *bias_distances;
};

/* ---- nodes (node.c) ---- */

extern const struct onnx_attribute *node_attribute(const struct onnx_node *node, const char *name);
extern int64_t node_int(const struct onnx_node *node, const char *name, int64_t otherwise);
extern double node_float(const struct onnx_node *node, const char *name, double otherwise);
extern bool node_is(const struct onnx_node *node, const char *op);		/* of ONNX's own operators */
extern bool node_is_contrib(const struct onnx_node *node, const char *op);	/* of com.microsoft's */
extern int32_t node_input(const struct onnx_node *node, uint32_t i);	/* −1: absent */

/* Always false: the graph is not that of a known encoder; the node is named. */
extern bool walk_refuse(struct walk *w, int32_t name, const char *wanted);

/* The value that it equals, through aliases. */
extern int32_t walk_same(const struct walk *w, int32_t name);

/* The node that makes a value (that it equals), or NULL. */
extern const struct onnx_node *walk_maker(const struct walk *w, int32_t name);

/* The fact of a value; of −1: nothing is known. */
extern const struct fact *walk_fact(const struct walk *w, int32_t name);

/* A small constant's elements as numbers; false: it is none, or larger. */
extern bool walk_numbers(struct walk *w, int32_t name, double *numbers, uint32_t space, uint32_t *count);

/* Whether so many elements of a constant may be looked at. */
extern bool walk_may_look(struct walk *w, int64_t elements);

/* A value that is the same number everywhere, constant or known. */
extern bool walk_number(struct walk *w, int32_t name, double *number);

extern int64_t whole_number(double number);

/* A list of whole numbers from a second input, or, in older versions, an attribute. */
extern bool walk_axes(struct walk *w, const struct onnx_node *node, uint32_t input, const char *attribute, int64_t *axes,
					   uint32_t *count);

/* ---- facts (size.c, facts.c, and a file for each kind) ---- */

extern struct size size_of(int64_t constant);
extern struct size size_batch(void);
extern struct size size_length(void);
extern bool size_small(struct size size);	/* so that sums and products of two do not overflow */
extern bool size_is(struct size size, int64_t constant);
extern bool size_equal(struct size a, struct size b);
extern bool size_constant(struct size size, int64_t *constant);
extern bool shape_is(const struct fact *fact, uint32_t rank, const struct size *dims);

/* By the rule of ONNX; false: not known to fit. */
extern bool shape_broadcast(const struct fact *a, const struct fact *b, struct fact *result);

/* The shape that Reshape makes of one of fact's; false: not known. */
extern bool shape_reshape(const struct fact *fact, const struct fact *wanted, bool zero_copies, struct fact *result);

extern bool walk_facts(struct walk *w);

/* What a node that only moves elements makes of a shape; *first: where a slice begins on the last axis. */
extern bool facts_moved(struct walk *w, const struct onnx_node *node, const struct fact *fact, struct fact *shape, int64_t *first);

/* What a node that reduces axes (flags) makes of a shape. */
extern bool facts_reduced(struct walk *w, const struct onnx_node *node, const struct fact *fact, bool flags[DEVICE_RANK_MAX],
						  struct fact *shape);

/* Of one node each; what they do not know, they leave. */
extern void facts_ints(struct walk *w, const struct onnx_node *node, struct fact *result);
extern void facts_same(struct walk *w, const struct onnx_node *node, struct fact *result);
extern void facts_tokens(struct walk *w, const struct onnx_node *node, struct fact *result);
extern void facts_distances(struct walk *w, const struct onnx_node *node, struct fact *result);
extern void facts_data(struct walk *w, const struct onnx_node *node, struct fact *result);

/* ---- pieces (pieces.c) ---- */

struct sum
{
	uint32_t	terms_count;
	int32_t		terms[WALK_TERMS_MAX];	/* values */
	int32_t		bias;				/* a vector along the last axis, or −1 */
};

struct product						/* factor · terms */
{
	double		factor;
	uint32_t	terms_count;
	int32_t		terms[WALK_TERMS_MAX];
};

struct normed						/* norm(sum) */
{
	struct sum	sum;
	int32_t		weight;
	int32_t		bias;
	double		epsilon;
};

extern bool walk_sum(struct walk *w, int32_t name, struct sum *sum);
extern void walk_product(struct walk *w, int32_t name, struct product *product);
extern bool walk_normed(struct walk *w, int32_t name, struct normed *normed);

/* A constant matrix times a value: into the weight; not its bias. */
extern bool walk_times(struct walk *w, int32_t name, int32_t *input, struct encoder_tensor *weight);

/* That and a bias. */
extern bool walk_linear(struct walk *w, int32_t name, int32_t *input, struct encoder_linear *linear);

/* Into a sum that was begun. */
extern bool walk_sum_add(struct walk *w, int32_t name, struct sum *sum);

/* Of a sum of one product of a matrix, and a bias. */
extern bool walk_linear_of(struct walk *w, int32_t name, const struct sum *sum, int32_t *input, struct encoder_linear *linear);

/* An activation of a sum. */
extern bool walk_activation(struct walk *w, int32_t name, struct sum *inner, enum encoder_activation *activation);

/* A constant of floats as a weight of these dims, file's order; false with a status. */
extern bool walk_weight(struct walk *w, int32_t name, uint32_t rank, struct encoder_tensor *tensor);

/* ---- attention.c, facts_distances.c, embeddings.c, pooling.c, walk.c ---- */

struct heads
{
	int64_t		count;
	double		scale;
	bool		biased;				/* by distance */
};

/* softmax(scale · q · kᵀ) · v of one value's q, k and v. */
extern bool walk_attention(struct walk *w, int32_t name, int32_t *input, struct encoder_layer *layer, struct heads *heads);

/* A BIAS as the encoder's, which all layers have alike. */
extern bool walk_bias(struct walk *w, int32_t name, int64_t heads);

/* The norm of a sum of embeddings, of a value for which walk_is_embeddings. */
extern bool walk_is_embeddings(struct walk *w, int32_t name);
extern bool walk_embeddings(struct walk *w, int32_t name);

/* A vector for each text that is made of its tokens' vectors. */
extern bool walk_pooled(struct walk *w, int32_t name, int32_t *tokens, enum encoder_pooling *pooling, bool *normalized);

/* Layers and embeddings, from the last layer's output back. */
extern bool walk_stack(struct walk *w, int32_t name);

/* A norm's weights, whose epsilon is that of all. */
extern bool walk_take_norm(struct walk *w, int32_t name, const struct normed *normed, struct encoder_norm *norm);

#endif							/* ENGINE_TRANSFORMER_WALK_H */
