/*
 * reader.h
 *	  The readers of a text model's folder, among themselves.
 *
 * Nouns
 *	folder		a reading in progress: the files, what was understood so far, and the encoder
 *				that is being filled
 *	weights		every tensor of the folder's safetensors files, by name; nothing is copied
 *	family		what is the same for all models of one model_type of config.json
 *	layout		how a family names its weights, and which of them have a bias
 *	object		a piece of JSON with the name that messages give it
 *
 * Loop (folder.c)
 *	options → config.json: family, sizes, layout → files of weights → weights of the stack →
 *	modules.json or the head → labels, prompts, length.  Where an ONNX file (../onnx) takes the place
 *	of the weights, it gives sizes, stack and head; the rest is the same.
 *
 * Invariants
 *	- Every function that returns bool or a pointer says in the folder's status why it returns
 *	  false or NULL: INFER_ERROR_MODEL where a file is malformed or files contradict one another,
 *	  INFER_ERROR_UNSUPPORTED where they ask for what is not implemented.
 *	- What is kept lies in the folder's memory, which becomes the encoder's, or in the files.
 *	- JSON is held only while it is read.
 */
#ifndef ENGINE_TRANSFORMER_READER_H
#define ENGINE_TRANSFORMER_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../../protocol/protocol.h"
#include "../../graph/memory.h"
#include "../../model/model.h"
#include "../../status.h"
#include "../encoder.h"
#include "../folder.h"

#define FOLDER_JSON_BYTES		(1u << 20)	/* of a JSON file here, and of a safetensors header */
#define FOLDER_MEMORY			(UINT64_C(1) << 30)	/* bytes that a folder's reading may keep */
#define FOLDER_NUMBER_MAX		9007199254740992.0	/* 2^53: whole numbers are exact below */
#define FOLDER_SIZE_MAX			(1 << 24)	/* of a dimension of a model */
#define FOLDER_CLASSES_MAX		(1 << 16)
#define FOLDER_TOKENS_MAX		(1 << 20)	/* of a text */
#define FOLDER_TEXT_MAX			4096		/* bytes of a prompt or a label */
#define FOLDER_MODULES_MAX		16

/* ---- files (folder.c) ---- */

/* Whether encoder_files shows what is in this folder (with its '/'). */
extern bool folder_shows(const struct model_files *files, const char *inner);

/* ---- JSON (json.c) ---- */

struct object
{
	json_t	   *json;
	const char *where;				/* for messages: a file's name, or "the options" */
	struct status *status;
};

/* A whole file whose top is an object or an array; numbers are reals.  NULL: the status is set. */
extern json_t *folder_json(const struct model_file *file, bool array, struct status *status);

/*
 * Members.  absent: NULL or null in the file; what is there must be of the type.  A whole
 * number is from first to last; required: absent is an error.
 */
extern json_t *object_get(const struct object *object, const char *key);
extern bool object_whole(const struct object *object, const char *key, int64_t first, int64_t last, int64_t *value);
extern bool object_whole_or(const struct object *object, const char *key, int64_t first, int64_t last, int64_t otherwise,
							int64_t *value);
extern bool object_number_or(const struct object *object, const char *key, double otherwise, double *value);
extern bool object_bool_or(const struct object *object, const char *key, bool otherwise, bool *value);
extern bool object_text_or(const struct object *object, const char *key, const char *otherwise, const char **value);

/* Always false: INFER_ERROR_MODEL, "KEY" of "WHERE" is not WHAT. */
extern bool object_malformed(const struct object *object, const char *key, const char *what);

/* Always false: INFER_ERROR_UNSUPPORTED, "KEY" of "WHERE" is not supported, with the value in the detail. */
extern bool object_unsupported(const struct object *object, const char *key);

/* Refuses a member that is neither absent nor false (nor empty, nor 0). */
extern bool object_refuse(const struct object *object, const char *const *keys);

/* Refuses members that are not in either list (NULL ends a list, and may be one). */
extern bool object_known(const struct object *object, const char *const *keys, const char *const *more);

/* ---- weights (safetensors.c, weights.c) ---- */

#define WEIGHT_RANK_MAX	8

enum weight_type
{
	WEIGHT_OTHER = 0,				/* no number that an encoder is made of */
	WEIGHT_F32,
	WEIGHT_F16,
	WEIGHT_BF16
};

struct weight
{
	const char *name;
	const struct model_file *file;
	const char *type_name;			/* as the file says it; static */
	uint8_t		type;				/* enum weight_type */
	uint8_t		rank;
	bool		used;
	int64_t		dims[WEIGHT_RANK_MAX];
	const uint8_t *data;
	uint64_t	bytes;
};

struct weights
{
	uint32_t	count;
	uint32_t	space;
	struct weight *list;			/* sorted by name once they are all read */
};

/* Appends the tensors of one file. */
extern bool safetensors_read(const struct model_file *file, struct graph_memory *memory, struct weights *weights,
							 struct status *status);

/* Sorts; refuses a name that is there twice. */
extern bool weights_sort(struct weights *weights, struct status *status);

/*
 * The weights of a folder, or of a module's folder below it (with its '/'; "" is the folder
 * itself): model.safetensors, or the files that its index names.
 */
extern bool weights_read(const struct model_files *files, const char *below, struct graph_memory *memory,
						 struct weights *weights, struct status *status);

extern struct weight *weights_find(const struct weights *weights, const char *name);

/* ---- the reading ---- */

struct folder_options
{
	const char *precision;			/* or NULL */
	const char *file;				/* or NULL */
	bool		truncate;
	int64_t		tokens_max;			/* 0: none given */
	enum encoder_pooling pooling;	/* 0: none given */
	int			normalize;			/* -1: not given */
	enum encoder_task task;			/* 0: none given */
	uint32_t	prompts_count;
	struct encoder_prompt prompts[ENCODER_PROMPTS_MAX];
	bool		prompt_default_given;
	const char *prompt_default;
	uint32_t	labels_count;
	const char **labels;
};

/* A weight and its bias are NAME.weight and NAME.bias; NULL: the family has none. */
struct layout
{
	const char *words;
	const char *positions;
	const char *types;
	const char *embedding_norm;
	const char *layer;				/* what stands before a layer's number; a '.' follows it */
	const char *qkv;
	const char *query;
	const char *key;
	const char *value;
	const char *attention_output;
	const char *attention_norm;
	const char *up;
	const char *gate;
	const char *down;
	const char *mlp_norm;
	const char *final_norm;
	const char *relative;			/* [buckets, heads] */
	bool		first_norm_absent;	/* the first layer has no attention_norm */
	bool		qkv_bias;			/* and of query, key and value */
	bool		attention_output_bias;
	bool		up_bias;
	bool		gate_bias;
	bool		down_bias;
	bool		norm_bias;
	int64_t		types_count;		/* rows of types; 0: none */
	int64_t		positions_count;	/* rows of positions */
	int64_t		relative_buckets;
};

/* A dense layer before the classifier, if any; names are from the folder's root, or below the prefix. */
struct head_layout
{
	const char *dense;				/* or NULL */
	bool		dense_in_base;		/* below the encoder's own prefix */
	bool		dense_bias;
	enum encoder_activation activation;
	const char *norm;				/* behind the activation, or NULL */
	bool		norm_bias;
	const char *output;
	enum encoder_pooling pooling;
};

struct folder;

struct family
{
	const char *model_type;
	const char *class;				/* what its architectures' names begin with */
	const char *prefix;				/* that whole models put before the encoder's names */
	bool		native;				/* the reference's code is the library's own, and reads known attributes only */
	bool		(*read_config) (struct folder *folder, const struct object *config);
	/* NULL in a layout's output: there is no such head */
	void		(*text_head) (struct folder *folder, struct head_layout *head);
	void		(*token_head) (struct folder *folder, struct head_layout *head);
};

struct folder
{
	const struct model_files *files;
	struct device *device;			/* or NULL */
	struct status *status;
	struct graph_memory *memory;
	struct encoder *encoder;
	struct folder_options options;
	struct weights weights;
	const struct family *family;
	const char *prefix;				/* before the encoder's names in the weights */
	struct layout layout;
	int64_t		positions_usable;	/* tokens of the longest text that the positions allow */
	const char *positions_from;		/* for people */

	/* of config.json, for the head */
	const char *architecture_name;	/* for people; or NULL */
	const char *architecture;		/* the class's name without the family's; NULL: none, or of another one */
	const char *problem_type;		/* or NULL */
	uint32_t	labels_count;
	const char **labels;
	const char *labels_wrong;		/* what keeps them from being used, or NULL */
	enum encoder_activation cross_activation;	/* 0: not said to be a cross-encoder */
	enum encoder_pooling classifier_pooling;	/* of ModernBERT */
	enum encoder_activation classifier_activation;
	bool		classifier_bias;

	/* of an ONNX file in the place of weights */
	bool		graph;
	bool		graph_pooled;		/* its output is a vector for each text already */

	/* of the other files */
	bool		modules;			/* there is a modules.json */
	bool		cross_encoder;		/* sentence-transformers says so */
	bool		lower_case;			/* sentence-transformers wants texts in lower case */
	int64_t		sentence_length;	/* max_seq_length, or 0 */
	const char *sentence_file;		/* that says so */
};

/* options.c */
extern bool folder_options_read(struct folder *folder, const char *options);
extern bool folder_task_parse(const char *text, enum encoder_task *task);
extern bool folder_pooling_parse(const char *text, enum encoder_pooling *pooling);

/* config.c */
extern bool folder_config_read(struct folder *folder);

/* By transformers' names; 0: unknown. */
extern enum encoder_activation folder_activation(const char *name);

/* By a class of torch.nn; 0: unknown. */
extern enum encoder_activation folder_torch_activation(const char *name);

/* The number of layers, and room for them. */
extern bool config_layers(struct folder *folder, const struct object *config, const char *key);

/* Reads an activation of config.json; absent: by its name otherwise. */
extern bool config_activation(const struct object *config, const char *key, const char *otherwise,
							  enum encoder_activation *activation);

/* bert.c, modernbert.c, nomic.c, gte.c; NULL ends the list */
extern const struct family *const folder_families[];
extern const struct family family_bert, family_roberta, family_xlm_roberta, family_camembert, family_distilbert,
			family_mpnet, family_modernbert, family_nomic, family_gte;

/* stack.c: fills the encoder's embeddings and layers by the layout */
extern bool folder_stack_read(struct folder *folder);

/* What is below the stack's names and was not read is something that this reader does not know. */
extern bool folder_stack_complete(const struct folder *folder);

/* NAME.weight [outputs, inputs] and NAME.bias, in these weights. */
extern bool folder_linear(struct folder *folder, const struct weights *weights, const char *name, int64_t outputs,
						  int64_t inputs, bool bias, struct encoder_linear *linear);
extern bool folder_norm(struct folder *folder, const struct weights *weights, const char *name, int64_t width, bool bias,
						struct encoder_norm *norm);

/* head.c: the task, and what is behind the layers */
extern bool folder_is_classifier(const struct folder *folder);	/* of whole texts or of tokens */
extern bool folder_head_read(struct folder *folder);

/* modules.c: sentence-transformers' files */
extern bool folder_sentence_files(struct folder *folder);
extern bool folder_modules_read(struct folder *folder);

/* The folder of the first Transformer of modules.json, with its '/'; "" where it has none of its own. */
extern bool folder_transformer(const struct model_files *files, char inner[INFER_NAME_MAX], struct status *status);

/* onnx/read.c: an ONNX file among the files; and the encoder that it is, with a classifier (logits) or without */
extern bool folder_has_graph(const struct model_files *files);
extern bool folder_graph_read(struct folder *folder, bool logits);

/* graph.c: an ONNX file that is to be run as it is; and that it computes the longest text */
extern bool folder_graph_run(struct folder *folder, const struct model_file *file, const char *output, bool logits);
extern bool folder_graph_probe(struct folder *folder);

/* length.c: the tokenizer's settings, and the length limit */
extern bool folder_length_read(struct folder *folder);

/* A pool text; NULL: the status is set. */
extern const char *folder_text(struct folder *folder, const char *format,...)
			__attribute__((format(printf, 2, 3)));

#endif							/* ENGINE_TRANSFORMER_READER_H */
