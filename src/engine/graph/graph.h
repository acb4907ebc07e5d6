/*
 * graph.h
 *	  A model's graph between the ONNX file and the device's program, and what operators are
 *	  written with.
 *
 * Nouns
 *	value		a tensor of the graph: its type and shape at batch 1 and, if it is constant, its
 *				elements.  Named by an index; GRAPH_ABSENT is an absent optional input,
 *				GRAPH_FAILED what a failed function gives
 *	rows		a value depends on the row (its tensor has one item per row) if any input of the
 *				op that computes it does.  Everything else is constant: an op on constants alone
 *				is computed when it is emitted, by the device itself
 *	view		a value that shares another's memory under another shape (Reshape, Identity …)
 *	op			one primitive of the device (device.h) with the values it takes and makes
 *	operator	an ONNX operator: an entry of a table and a function that lowers a node to ops
 *	role		what a value is to the user: the label or the scores of a classifier
 *
 *	base		a model's first graph, of several that differ in the length of their inputs alone:
 *				what depends on no input is computed and packed there, and the others borrow it
 *
 * Loop
 *	onnx_read → graph_lower (operators → ops) → graph_fuse → graph_compile (support, weights,
 *	memory plan, program).
 *
 * Invariants
 *	- Shapes are those at batch 1, so all of them are numbers, and Shape gives constants.
 *	- The first failure stands in graph->status.  A function that gets GRAPH_FAILED among
 *	  its inputs gives GRAPH_FAILED and says nothing: an operator may go on and let the
 *	  last call tell.
 *	- An operator reads each attribute and asks for each input that it knows; those that it
 *	  did not are refused by name when it returns.
 *	- A constant's elements are aligned to their size.
 *
 * To add an operator: one entry in a family's table under ops/, one function
 * bool lower_x(struct graph *, const struct onnx_node *), and its test.
 */
#ifndef ENGINE_GRAPH_GRAPH_H
#define ENGINE_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "../device.h"
#include "../model/packed.h"
#include "../status.h"
#include "memory.h"
#include "onnx/onnx.h"

#define GRAPH_ABSENT		(-1)
#define GRAPH_FAILED		(-2)
#define GRAPH_VALUES_MAX	(1u << 20)
#define GRAPH_OPS_MAX		(1u << 20)
#define GRAPH_ELEMENTS_MAX	(INT64_C(1) << 31)	/* of one item of a computed value */

struct graph_value
{
	const char *name;				/* of the ONNX value, or NULL */
	uint8_t		type;				/* enum device_type */
	uint8_t		rank;
	int64_t		dims[DEVICE_RANK_MAX];	/* of one item: at batch 1 */
	int64_t		elements;			/* of one item */
	bool		rows;				/* one item per row; else constant */
	int32_t		root;				/* what it is a view of, itself if of nothing: see graph_root */
	int32_t		producer;			/* op that computes it, or -1 */

	/* constants */
	const void *data;				/* NULL until graph_data, if it must be decoded */
	const struct onnx_tensor *tensor;	/* where to decode it from */
	void	   *owned;				/* a block that holds data, or NULL */
	const uint8_t *undefined;		/* of a root: a flag for each element that is no number, see undefined.c; or NULL */
	const struct onnx_node *undefined_by;	/* the cast that made them */
	bool		read;				/* by others than weights.c */

	/* roles */
	uint8_t		role;				/* enum infer_role */
	uint8_t		flags;				/* INFER_TENSOR_MAP */
	uint32_t	classes_count;		/* of SCORES: the elements' labels; 0 not known */
	char	  **classes;
	bool		maps;				/* stands for ZipMap's sequence of maps */
	bool		map;				/* stands for a map: an input that DictVectorizer alone takes */

	/* after graph_compile */
	int32_t		binding;			/* of the root, or -1 */
	int32_t		tensor_index;		/* in the program, or -1 */
	uint32_t	uses;				/* of a root: by ops that stay, and as outputs */
	int32_t		last;				/* of a root: the last op that reads it or a view of it */
	uint64_t	offset;				/* in the arena, bytes per item */
};

struct graph_op
{
	struct device_op device;		/* inputs and output are values; weight as compiled */
	bool		on_host;			/* compiled: the device leaves it to its host */
	bool		removed;			/* fused into another, or nobody wants what it computes */
	int32_t		matrix;				/* GEMM: the constant value [K,N], or [N,K] if transposed */
	bool		transposed;
	double	   *scale;				/* GEMM: factors of the columns [N], folded into the matrix */
	double	   *shift;				/* GEMM: with scale, the bias [N] */
	int32_t		fused[4];			/* nodes that were fused into this op */
	uint32_t	fused_count;
};

struct graph_input					/* of the model */
{
	int32_t		value;
	bool		batch;				/* its first dimension is the batch */
	bool		fixed;				/* the file fixes it to 1 */
	bool		missing;			/* NaN only reaches what knows what to do with it */
};

struct graph_dim_option				/* {"dims": {"seq": 16}} */
{
	const char *symbol;
	int64_t		value;
	bool		used;
};

struct graph_source					/* what a weight was made of */
{
	uint64_t	recipe;				/* see packed.h */
	struct packed_range range;		/* of the model's files; no bytes: something computed */
	int64_t		k;
	int64_t		n;
	bool		borrowed;			/* the weight is the base's */
};

struct graph_given					/* an input of a graph for one length: [1, length] */
{
	bool		constant;			/* of numbers that follow from the length: */
	int64_t		first;				/* first + step · place */
	int64_t		step;
};

struct graph
{
	struct graph_memory *memory;
	struct status *status;
	const struct onnx_model *model;
	const struct model_files *files;	/* while the graph is built, with their packed form; or NULL */
	struct device *device;
	struct device_queue *queue;		/* of who folds (graph_folds); while the graph is built */
	const struct onnx_node *node;	/* that is being lowered, or NULL */
	uint64_t	attributes_read;	/* of that node, a bit each */
	uint32_t	inputs_read;		/* of that node: so many were asked for */
	int32_t    *by_name;			/* value of each of the model's names, or GRAPH_ABSENT */

	uint32_t	dims_count;
	struct graph_dim_option *dims;

	/* of graphs for one length each; set before graph_lower */
	int64_t		length;				/* 0: shapes are the file's */
	const struct graph_given *given;	/* of each of the model's inputs */
	bool		keeps;				/* it is a base */
	const struct graph *base;		/* outlives this one; or NULL */
	bool	   *fixed;				/* of each of the model's names: it depends on no input */

	uint32_t	values_count;
	uint32_t	values_space;
	struct graph_value *values;
	uint32_t	ops_count;
	uint32_t	ops_space;
	struct graph_op *ops;
	uint32_t	folded;				/* ops computed at load */
	uint64_t	folded_work;		/* multiply-adds that they took */

	uint32_t	inputs_count;
	struct graph_input *inputs;
	uint32_t	outputs_count;
	int32_t    *outputs;			/* values */
	bool		row_by_row;			/* the file fixes the batch */
	const struct onnx_attribute *vocabulary;	/* of an input that is a map, or NULL */

	/* after graph_compile */
	struct device_program *program;
	uint32_t	bindings_count;
	int32_t    *bindings;			/* value (a root) of each */
	uint32_t	weights_count;
	struct device_weight **weights;
	struct graph_source *sources;	/* of each weight */
	uint64_t	weights_bytes;
	uint64_t	constants_bytes;	/* that the program reads */
	struct packed_form form;		/* to be kept; no weights: not worth it, or nothing known of the files */
	uint64_t	arena_item_bytes;	/* per row */
	uint32_t   *program_ops;		/* op of each op of the program */
	uint32_t	program_ops_count;
};

/* ---- the table of operators ---- */

enum graph_missing					/* what an operator does to a missing value (NaN) */
{
	GRAPH_MISSING_COMPUTES = 0,		/* takes it for a number */
	GRAPH_MISSING_PASSES,			/* hands it on: what is made of NaN is NaN, and nothing else is */
	GRAPH_MISSING_TAKES				/* knows what to put in its place */
};

struct graph_operator
{
	const char *domain;				/* "" or ONNX_DOMAIN_ML */
	const char *name;
	uint32_t	first;				/* versions of the operator set that are claimed; where the */
	uint32_t	last;				/* meaning changed, the function looks at node->version */
	bool		(*lower) (struct graph *graph, const struct onnx_node *node);
	uint8_t		missing;			/* enum graph_missing */
};

/* Each family's table ends with an entry without a name. */
extern const struct graph_operator graph_linear_operators[];		/* ops/linear.c */
extern const struct graph_operator graph_elementwise_operators[];	/* ops/elementwise.c */
extern const struct graph_operator graph_activation_operators[];	/* ops/activation.c */
extern const struct graph_operator graph_shape_operators[];			/* ops/shape.c */
extern const struct graph_operator graph_constant_operators[];		/* ops/constant.c */
extern const struct graph_operator graph_select_operators[];		/* ops/select.c */
extern const struct graph_operator graph_reduce_operators[];		/* ops/reduce.c */
extern const struct graph_operator graph_norm_operators[];			/* ops/norm.c */
extern const struct graph_operator graph_ml_operators[];			/* ops/ml.c */
extern const struct graph_operator graph_index_operators[];			/* ops/index.c */
extern const struct graph_operator graph_fill_operators[];			/* ops/fill.c */

/* All of them; NULL at the end. */
extern const struct graph_operator *const graph_operator_families[];

/* NULL if there is none of that name and version; *name_known says if some version is. */
extern const struct graph_operator *graph_operator_find(const struct onnx_node *node, bool *name_known);

/* ---- for operators: the node (node.c) ---- */

/*
 * The value of the node's i-th input.  graph_input: absent is an error; the other gives
 * GRAPH_ABSENT.  A value that stands for ZipMap's maps is refused.
 */
extern int32_t graph_input(struct graph *graph, const struct onnx_node *node, uint32_t i);
extern int32_t graph_input_optional(struct graph *graph, const struct onnx_node *node, uint32_t i);

/* Names the node's i-th output; false if value is GRAPH_FAILED.  Unwanted ones are ignored. */
extern bool graph_output(struct graph *graph, const struct onnx_node *node, uint32_t i, int32_t value);
extern bool graph_output_wanted(const struct onnx_node *node, uint32_t i);

/*
 * Attributes.  *out gets fallback if the node does not have it; one of another type is an
 * error, and false.  graph_attribute_has reads nothing; graph_attribute_ignore counts as
 * read what is known to change nothing.
 */
extern bool graph_attribute_has(const struct onnx_node *node, const char *name);
extern void graph_attribute_ignore(struct graph *graph, const struct onnx_node *node, const char *name);
extern bool graph_attribute_int(struct graph *graph, const struct onnx_node *node, const char *name,
								int64_t fallback, int64_t *out);
extern bool graph_attribute_float(struct graph *graph, const struct onnx_node *node, const char *name,
								  double fallback, double *out);

/* A copy, or fallback (which may be NULL). */
extern bool graph_attribute_string(struct graph *graph, const struct onnx_node *node, const char *name,
								   const char *fallback, const char **out);

/* The attribute itself, of that type (enum onnx_attribute_type), or NULL in *out. */
extern bool graph_attribute_list(struct graph *graph, const struct onnx_node *node, const char *name,
								 uint32_t type, const struct onnx_attribute **out);

/*
 * Likewise a tensor of a type that values can have, or of bytes (uint8).  Its elements, and
 * how many; *data is NULL where the attribute is not there.
 */
extern bool graph_attribute_numbers(struct graph *graph, const struct onnx_node *node, const char *name,
									uint8_t *type, uint32_t *count, const void **data);

/* Always false: "operator OP (node "N") …"; the class is INFER_ERROR_MODEL or _UNSUPPORTED. */
extern bool graph_malformed(struct graph *graph, const struct onnx_node *node, const char *format,...)
			__attribute__((format(printf, 3, 4)));
extern bool graph_unsupported(struct graph *graph, const struct onnx_node *node, const char *format,...)
			__attribute__((format(printf, 3, 4)));

/* ---- for operators: values (value.c) ---- */

static inline struct graph_value *
graph_value(const struct graph *graph, int32_t value)
{
	return &graph->values[value];
}

/* The value whose memory this one has. */
static inline int32_t
graph_root(const struct graph *graph, int32_t value)
{
	while (graph->values[value].root != value)
		value = graph->values[value].root;
	return value;
}

/* Whether it is constant; false for GRAPH_ABSENT and GRAPH_FAILED. */
extern bool graph_is_constant(const struct graph *graph, int32_t value);

/* A constant's elements, aligned; NULL and a status if there is no memory. */
extern const void *graph_data(struct graph *graph, int32_t value);

/* A new constant; its elements are copied (strings: the texts' bytes are not). */
extern int32_t graph_constant(struct graph *graph, uint8_t type, int rank, const int64_t *dims,
							  const void *data);

/* A new constant whose zeroed elements the caller fills through *data. */
extern int32_t graph_constant_make(struct graph *graph, uint8_t type, int rank, const int64_t *dims,
								   void **data);

/* A scalar of a numeric type or BOOL. */
extern int32_t graph_constant_number(struct graph *graph, uint8_t type, double number);
extern int32_t graph_constant_ints(struct graph *graph, uint32_t count, const int64_t *ints);	/* I64 [count] */

/*
 * Reads a constant of type I32 or I64 with at most max elements.  Not constant: unsupported
 * (what names the input).  Returns how many, or -1.
 */
extern int	graph_ints(struct graph *graph, int32_t value, const char *what, int64_t *ints, int max);

/* Likewise one number of any numeric type. */
extern bool graph_number(struct graph *graph, int32_t value, const char *what, double *number);

/* A value under another shape with as many elements; constants stay constants. */
extern int32_t graph_view(struct graph *graph, int32_t value, int rank, const int64_t *dims);

/* Takes role, flags and classes over from another value of the same meaning. */
extern void graph_role_copy(struct graph *graph, int32_t to, int32_t from);

/*
 * Marks the label, and the scores with one class per element of the last axis.  labels
 * has type I64 or STRING; the texts are copied.
 */
extern bool graph_role_label(struct graph *graph, int32_t value);
extern bool graph_role_scores(struct graph *graph, int32_t value, uint8_t label_type,
							  uint32_t count, const void *labels, bool map);

/* [-rank, rank) → [0, rank); out of range is malformed, and false. */
extern bool graph_axis(struct graph *graph, const struct onnx_node *node, int64_t axis, int rank, int *out);

/* ---- for operators: ops (emit/) ---- */

/*
 * Each gives the new value, computed at once if all inputs are constant.  Types of the
 * inputs are checked as device.h says; shapes are derived here.
 */
extern int32_t graph_unary(struct graph *graph, uint16_t fn, int32_t x, double f0, double f1);
extern int32_t graph_binary(struct graph *graph, uint16_t fn, int32_t a, int32_t b);
extern int32_t graph_where(struct graph *graph, int32_t condition, int32_t a, int32_t b);
extern int32_t graph_cast(struct graph *graph, int32_t x, uint8_t type);	/* x itself if it has the type */
extern int32_t graph_copy(struct graph *graph, int32_t x, int rank, const int64_t *dims,
						  int64_t start, const int64_t *strides);	/* y[j…] = x.flat[start + Σ jd · strides[d]] */
extern int32_t graph_transpose(struct graph *graph, int32_t x, const int *axes);	/* y's axis i is x's axes[i] */
extern int32_t graph_expand(struct graph *graph, int32_t x, int rank, const int64_t *dims);	/* to exactly dims */
extern int32_t graph_concat(struct graph *graph, uint32_t count, const int32_t *inputs, int axis);
extern int32_t graph_gather(struct graph *graph, int32_t x, int32_t indices, int axis);
extern int32_t graph_matmul(struct graph *graph, int32_t a, int32_t b);	/* both of rank ≥ 2 */

/* x[…,K] · matrix[K,N] (or [N,K] if transposed), matrix constant of rank 2, x not constant. */
extern int32_t graph_gemm(struct graph *graph, int32_t x, int32_t matrix, bool transposed);
extern int32_t graph_reduce(struct graph *graph, uint16_t fn, int32_t x, uint32_t axes, bool keep);
extern int32_t graph_softmax(struct graph *graph, uint16_t fn, int32_t x, int axis, int following);
extern int32_t graph_arg(struct graph *graph, uint16_t fn, int32_t x, int axis, bool keep, bool last);
extern int32_t graph_normalize(struct graph *graph, uint16_t fn, int32_t x);

/* table, with its keys and values, lies in the pool: a constant's data may be gone at run time. */
extern int32_t graph_lookup(struct graph *graph, const struct device_lookup *table, int32_t x);

extern int32_t graph_cumsum(struct graph *graph, int32_t x, int axis, bool exclusive, bool reverse);
extern int32_t graph_topk(struct graph *graph, uint16_t fn, int32_t x, int axis, int64_t k);	/* places */

/* [..., q] indices into an array of q sizes, row-major: [...] places, times factor. */
extern int32_t graph_offset(struct graph *graph, int32_t indices, const int64_t *sizes, int64_t factor);
extern int32_t graph_scatter(struct graph *graph, uint16_t fn, int32_t x, int32_t places, int32_t updates);
extern int32_t graph_distance(struct graph *graph, int32_t x, int32_t points);	/* points [S,F], constant */
extern int32_t graph_couple(struct graph *graph, int32_t pairs, int64_t classes);

/* The general form, for what has none above: op with f, i, fn, params set. */
extern int32_t graph_emit(struct graph *graph, const struct device_op *op, uint32_t count,
						  const int32_t *inputs, uint8_t type, int rank, const int64_t *dims);

/* ONNX's broadcasting of two shapes; false (and no status) if they do not fit. */
extern bool graph_broadcast(int rank_a, const int64_t *dims_a, int rank_b, const int64_t *dims_b,
							int *rank, int64_t *dims);

/* ---- the stages, for graph_model.c ---- */

extern void graph_init(struct graph *graph, struct graph_memory *memory,
					   const struct onnx_model *model, struct device *device, struct status *status);

/* Inputs, initialisers, nodes, outputs; refuses all missing operators in one error. */
extern bool graph_lower(struct graph *graph);
extern void graph_missing_inputs(struct graph *graph);	/* inputs[].missing */
extern void graph_roles(struct graph *graph);			/* labels that the file does not name as such */
extern bool graph_fuse(struct graph *graph);
extern bool graph_plan(struct graph *graph);			/* bindings and arena; part of graph_compile */
extern bool graph_compile(struct graph *graph);
extern void graph_release(struct graph *graph);			/* program, weights, queue; not the memory */
extern void graph_queue_free(struct graph *graph);

/* Who computes constants: a device that has a host lets that do it. */
static inline struct device *
graph_folds(const struct graph *graph)
{
	return graph->device->host != NULL ? graph->device->host : graph->device;
}

#endif							/* ENGINE_GRAPH_GRAPH_H */
