/*
 * text_graph.h
 *	  An ONNX file that takes tokens and is no encoder that is known, run as it is: a program for
 *	  each length of a text, since a graph's shapes are numbers.
 *
 * Nouns
 *	text graph	the file, and what all lengths have alike: the base graph, whose weights are packed once
 *	given		what an input gets that follows from the length: a mask of ones, places
 *	program		the graph of one length, compiled when a text of that length comes; the ones that were used
 *				last are kept
 *
 * Invariants
 *	- Rows of a batch have one length, so that nothing is padded and masks are constants.
 *	- Several runs may take programs at a time.  What is written after opening (programs and their counters)
 *	  has lock, which is never held while something is compiled; that has compiling: one at a time, since the base
 *	  is read, and noted in, meanwhile.
 *	- A program that is in use stays.
 */
#ifndef ENGINE_TRANSFORMER_TEXT_GRAPH_H
#define ENGINE_TRANSFORMER_TEXT_GRAPH_H

#include <pthread.h>

#include "../../graph/graph.h"
#include "../../model/model.h"

#define TEXT_GRAPH_PROGRAMS_MAX		256u
#define TEXT_GRAPH_PROGRAMS_BYTES	(UINT64_C(128) << 20)	/* of all programs that are kept for another time; */
#define TEXT_GRAPH_PROGRAMS_SHARE	8			/* but no more of the device's memory than one in so many */

enum text_graph_output
{
	TEXT_GRAPH_TOKENS = 1,			/* a vector, or logits, of each token */
	TEXT_GRAPH_TEXT					/* of the text */
};

struct text_graph_op				/* of a program, for people */
{
	int32_t		node;				/* or -1 */
	uint16_t	op;
	uint16_t	fn;
	bool		on_host;			/* the device leaves it to its host */
};

struct text_graph_input				/* of tokens */
{
	int32_t		binding;			/* -1: nothing reads it */
	uint8_t		type;				/* DEVICE_I64 or DEVICE_I32 */
};

struct text_graph_program
{
	struct text_graph_program *next;	/* used before this one */
	uint32_t	length;
	uint32_t	users;
	struct device_program *program;
	struct text_graph_input ids;
	struct text_graph_input types;
	int32_t		output;				/* its binding */
	uint32_t	bindings_count;
	uint64_t	row_bytes;			/* of arena and tokens, without the output */
	uint32_t	ops_count;
	struct text_graph_op *ops;
	struct graph_memory memory;		/* constants and ops; and all of the graph, if that is kept */
	struct graph graph;				/* device NULL: it is not needed any more */
	uint64_t	bytes;				/* of all */
};

struct text_graph
{
	struct device *device;
	struct graph_memory memory;
	struct model_files files;		/* which outlive it */
	struct onnx_model onnx;			/* of nodes, those that the output needs */
	struct graph_given *given;		/* of each input */
	int32_t		ids;				/* inputs, by their number; -1: none */
	int32_t		types;
	struct graph base;
	enum text_graph_output output;
	uint32_t	width;				/* numbers of the output, of each token or of the text */

	pthread_mutex_t compiling;		/* taken before lock */
	pthread_mutex_t lock;
	struct text_graph_program *programs;	/* last used first */
	uint32_t	programs_count;
	uint64_t	programs_bytes;		/* atomic: read without the lock */
	uint64_t   *counted;			/* in which they count, too, from when it is set; or NULL */
	uint64_t	programs_most;		/* bytes of them, if not more are in use */
	uint64_t	compiled;			/* counted: programs */
};

/* What is to be opened of an ONNX file, and what is known of its inputs. */
struct text_graph_source
{
	const struct model_files *files;
	const struct model_file *file;
	const char *output;
	bool		places_known;		/* position_ids count from 0 */
};

/* NULL and a status: malformed, or something in it is not implemented. */
extern struct text_graph *text_graph_open(const struct text_graph_source *source, struct device *device, struct status *status);
extern void text_graph_close(struct text_graph *g);

/*
 * The program of a length, compiled if there is none yet: constants are computed on the queue, which
 * does nothing else meanwhile (NULL: on one of its own).  Used until text_graph_give.  NULL and a status: not
 * enough memory, or a text of that length is not computed.
 */
extern struct text_graph_program *text_graph_take(struct text_graph *g, uint32_t length, struct device_queue *queue, struct status *status);
extern void text_graph_give(struct text_graph *g, struct text_graph_program *program);

/* Arena and tokens' bindings of so many rows, each of these aligned. */
extern uint64_t text_graph_bytes(const struct text_graph *g, const struct text_graph_program *program, uint32_t rows);

/* ---- programs.c ---- */

/* Compiles the graph of a length into memory; base NULL: it is the base. */
extern bool text_graph_compile(struct text_graph *g, const struct graph *base, int64_t length, struct device_queue *queue,
							   struct graph_memory *memory, struct graph *graph, struct status *status);

#endif							/* ENGINE_TRANSFORMER_TEXT_GRAPH_H */
