/*
 * encoder_model.h
 *	  An encoder as a model that reads text: what the files of this folder share.
 *
 * Nouns
 *	encoder		layers and head as a reader found them in the files; see ../../transformer/
 *	row			a text, or a pair of them, as tokens that lie in its request's memory
 *	prepared	a request's rows as tokens: made by prepare, read by runs, freed by release
 *	part		rows of a batch that run together: as many tokens as the buffers may hold; where a graph is
 *				run as it is (../../transformer/graph/), rows of one length
 *	buffers		what a part lies in, grown to the largest so far
 *
 * Invariants
 *	- Everything but buffers and the pool of arenas is immutable after open.  Each run has buffers of its own
 *	  (../sets.h).  The pool has a lock, and so have a graph's programs.
 *	- A row's tokens depend on the row alone, and nothing is computed for a row that has none.
 */
#ifndef ENGINE_MODEL_ENCODER_MODEL_H
#define ENGINE_MODEL_ENCODER_MODEL_H

#include <pthread.h>

#include "../../device.h"
#include "../../graph/memory.h"
#include "../../text/chunk/chunk.h"
#include "../../text/tokenizer.h"
#include "../../transformer/encoder.h"
#include "../../transformer/graph/text_graph.h"
#include "../../transformer/program.h"
#include "../model.h"
#include "../sets.h"

#define ENCODER_PART_BYTES		(UINT64_C(8) << 20)		/* of a part's activations: they stay in the cache; */
#define ENCODER_PART_DEVICE		(UINT64_C(256) << 20)	/* or where a device has memory of its own, enough for all of it */
#define ENCODER_PART_TOKENS		512u	/* at least, or weights would be read for too few */
#define ENCODER_BUFFERS_KEPT	(UINT64_C(64) << 20)	/* bytes; what one very long row needs beyond is given back */
#define ENCODER_REQUEST_TOKENS	(UINT64_C(1) << 25)		/* of all rows of one request */
#define ENCODER_USUAL_TOKENS	128u	/* of a row of which nothing is known */
#define ENCODER_ARENAS_KEPT		8u

/* ---- the signature's columns, in their order ---- */

enum encoder_input
{
	ENCODER_INPUT_TEXT = 0,
	ENCODER_INPUT_PAIR,
	ENCODER_INPUT_PROMPT,
	ENCODER_INPUT_OPTIONS,
	ENCODER_INPUTS
};

/* What there is of results comes first, then the three that are hidden. */
#define ENCODER_RESULTS_MAX		3
#define ENCODER_OUTPUTS_MAX		(ENCODER_RESULTS_MAX + 3)

/* ---- rows ---- */

struct encoder_row
{
	uint64_t	first;				/* token, among the request's */
	uint32_t	tokens;				/* 0: nothing is to be computed */
	uint32_t	dimensions;			/* of the embedding */
	uint32_t	prompt_characters;	/* of the text before the user's own */
	uint32_t	passed_over;		/* tokens of a prompt that pooling passes over */
	bool		normalize;
	uint64_t	text_first;			/* its text with the prompt, for entities: among the request's */
	uint64_t	text_bytes;
};

struct encoder_request				/* model_request.prepared */
{
	struct encoder_row *rows;
	uint64_t	tokens;
	uint64_t	space;				/* of the arrays below, elements */
	int32_t    *ids;
	int32_t    *types;				/* NULL: the program does not read them */
	uint8_t    *sources;			/* like places, for entities; else NULL */
	struct token_place *places;
	char	   *texts;				/* likewise */
	uint64_t	texts_used;
	uint64_t	texts_space;
};

struct encoder_row_ref
{
	struct model_request *request;
	uint32_t	row;
};

struct encoder_arena				/* what tokenizing works in: one per thread at a time */
{
	struct encoder_arena *next;
	struct tokenizer_arena *tokenizer;
	char	   *texts;				/* a row's prompt and text, then its pair */
	uint64_t	texts_space;
	struct chunks chunks;
	uint32_t	space;				/* elements of each below */
	int32_t    *ids;
	int32_t    *types;
	uint8_t    *sources;
	struct token_place *places;
};

/* ---- buffers ---- */

struct encoder_block				/* that grows */
{
	void	   *data;
	uint64_t	bytes;
};

struct encoder_buffers
{
	struct model_set set;			/* first: see sets.h */
	uint32_t	tokens;				/* that they hold */
	uint32_t	rows;
	void	   *bindings[ENCODER_BINDINGS];	/* STAGING */
	void	   *arena;				/* the device's: never looked into */
	uint32_t   *row_off;
	uint32_t   *row_first;
	uint32_t   *row_error;
	const char **row_message;
	struct encoder_row_ref *refs;	/* of each row */
	uint64_t	bytes;				/* of all these */

	/* of a graph */
	struct encoder_block graph_arena;	/* the device's */
	struct encoder_block graph_ids;	/* STAGING: what it takes of tokens */
	struct encoder_block graph_types;
};

struct encoder_part					/* what the buffers hold now */
{
	uint32_t	rows;
	uint32_t	tokens;
	uint32_t	max_len;
	uint64_t	pairs;
	const struct text_graph_program *graph;	/* that makes what the program gets; or NULL */
};

struct encoder_model
{
	struct model model;				/* first: see struct model */
	struct device *device;
	struct encoder *encoder;
	struct tokenizer *tokenizer;
	struct encoder_program program;
	struct graph_memory memory;		/* of the signature */
	uint32_t	prompt_tokens[ENCODER_PROMPTS_MAX];	/* that pooling passes over; 0 where it does not */
	uint32_t	outputs_results;	/* how many of the outputs are not hidden; those follow */
	struct device_text *labels;		/* of the classes */
	struct entity_labels *entities;	/* ENTITIES: from the tokens' labels to entities, */
	int32_t    *entity_types;		/* and from each type to the signature's class */
	uint64_t	token_bytes;		/* activations of a token, and of a row */
	uint64_t	row_bytes;
	uint32_t	part_tokens;		/* of a part of several rows, at most, */
	uint64_t	part_bytes;			/* which are as many as these hold */

	bool		graph_kept;			/* a graph's weights may be kept packed */
	uint64_t	work_longest;		/* of a graph: bytes that the longest text's row takes in it */
	uint64_t	work_left;			/* that rows together may take */

	double		nsec_row;			/* predicted of a row among many: this, */
	double		nsec_token;			/* for each token, */
	double		nsec_pair;			/* and for each two of its tokens */
	double		graph_nsec[3];		/* of these, a graph's share */

	pthread_mutex_t arenas_lock;
	struct encoder_arena *arenas;
	uint32_t	arenas_count;

	struct model_sets sets;			/* of struct encoder_buffers */
};

/* A run of it. */
struct encoder_run
{
	struct encoder_model *m;
	struct device_queue *queue;
	struct model_yield *yield;		/* NULL: to its end */
	struct encoder_buffers *buffers;
};

static inline const struct encoder_request *
encoder_prepared(const struct model_request *request)
{
	return request->prepared;
}

static inline bool
encoder_wants(const struct model_request *request, uint32_t output)
{
	return request->outputs[output].type != INFER_TYPE_NONE;
}

/* ---- signature.c ---- */

extern bool encoder_signature(struct encoder_model *m, struct status *status);

/* ---- prepare.c ---- */

extern bool encoder_model_prepare(struct model *model, struct model_request *request, struct status *status);
extern void encoder_model_release(struct model *model, struct model_request *request);

/* ---- call.c ---- */

struct encoder_call					/* what a row asks for */
{
	const char *text;				/* with the prompt before it; in the arena */
	uint64_t	text_bytes;
	const char *pair;				/* NULL: there is none */
	uint64_t	pair_bytes;
	uint64_t	prompt_bytes;
	uint32_t	prompt_characters;
	uint32_t	prompt_tokens;		/* that pooling passes over */
	uint32_t	dimensions;
	bool		normalize;
	bool		truncate;
	bool		truncate_asked;		/* by the call itself */
	uint32_t	chunk_tokens;
	uint32_t	chunk_overlap;
	uint32_t	chunk_border;		/* enum infer_border */
};

/*
 * Copies a row's texts and options out of the region and checks them.  false and a status:
 * the row fails, or, if it is INFER_ERROR_MEMORY, the request.
 */
extern bool encoder_call_read(const struct encoder_model *m, const struct model_request *request, uint32_t row,
							  struct encoder_arena *arena, struct encoder_call *call, struct status *status);

/* ---- prompts.c ---- */

/* Fills prompt_tokens. */
extern bool encoder_prompts_count(struct encoder_model *m, struct status *status);

/* ---- arenas.c ---- */

extern struct encoder_arena *encoder_arena_take(struct encoder_model *m);	/* NULL: out of memory */
extern void encoder_arena_give(struct encoder_model *m, struct encoder_arena *arena);
extern void encoder_arenas_free(struct encoder_model *m);

/* Room for so many tokens, and for so many bytes of texts; what was there stays. */
extern bool encoder_arena_tokens(struct encoder_arena *arena, uint32_t tokens);
extern bool encoder_arena_texts(struct encoder_arena *arena, uint64_t bytes);

/* ---- run.c ---- */

extern bool encoder_model_run(struct model *model, struct device_queue *queue, struct model_yield *yield,
							  const struct model_slice *slices, uint32_t slices_count, struct status *status);

/* Segments [first, last) of the program, or of the part's graph, over the part. */
extern bool encoder_compute(struct encoder_run *run, bool graph, uint32_t first, uint32_t last,
							const struct encoder_part *part, struct status *status);

/* ---- lengths.c: where a graph is run as it is ---- */

/* What texts take of memory and time. */
extern bool encoder_graph_measure(struct encoder_model *m, struct status *status);

/* How many rows of its length run together. */
extern uint32_t encoder_graph_rows(const struct encoder_model *m, const struct text_graph_program *program);

/* A row's tokens into the place of the row-th. */
extern void encoder_graph_gather(struct encoder_run *run, const struct encoder_part *part, const struct encoder_row_ref *ref, uint32_t row);

#define ENCODER_GRAPH_BINDINGS	3	/* at most: tokens, types, the output */

extern void encoder_graph_bindings(const struct encoder_run *run, const struct encoder_part *part, void *bindings[ENCODER_GRAPH_BINDINGS]);

/* ---- results.c ---- */

/* The part's results into the replies; marks rows that failed. */
extern void encoder_scatter(const struct encoder_run *run, const struct encoder_part *part);

/* ---- buffers.c ---- */

/* For a run on a queue; NULL and a status: out of memory. */
extern struct encoder_buffers *encoder_buffers_take(struct encoder_model *m, struct device_queue *queue, struct status *status);

/* The run is over; frees what one very long row left behind. */
extern void encoder_buffers_give(struct encoder_model *m, struct encoder_buffers *b);

/* Room for a part; of one that has a graph, also for what that works in. */
extern bool encoder_buffers_grow(struct encoder_run *run, const struct encoder_part *part, struct status *status);

/* Before the first batch: what a token takes, where that is nobody's memory in particular. */
extern bool encoder_buffers_begin(struct encoder_model *m, struct status *status);
extern void encoder_buffers_free(struct encoder_model *m);

/* Bytes that buffers for so many take. */
extern uint64_t encoder_buffers_bytes(const struct encoder_model *m, uint32_t rows, uint32_t tokens);

/* ---- profile.c, describe.c ---- */

/* Segment by segment, and the time of each into the reply of the part's one row. */
extern bool encoder_compute_profiled(struct encoder_run *run, const struct encoder_part *part,
									 struct model_request *request, struct status *status);
extern void encoder_model_describe(struct model *model);

#endif							/* ENGINE_MODEL_ENCODER_MODEL_H */
