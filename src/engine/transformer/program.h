/*
 * program.h
 *	  An encoder as a program of the device: from tokens to one result for each row, or, with
 *	  a head for tokens, for each token.
 *
 * Nouns
 *	program		the ops of all layers and of the head, compiled, with its weights and tables; the head
 *				alone where a graph that is run as it is (graph/) stands in the place of the layers
 *	binding		what a run gives and gets: ids of tokens, their places, their types, results
 *	precision	of the products of the layers; what is between them (norms, softmax, sums) and the
 *				head are always F32
 *
 * Invariants
 *	- Tokens of a batch's rows lie end to end; nothing is computed that is not a token or a row.
 *	- The encoder and the files outlive the program: tables are read where they lie.
 */
#ifndef ENGINE_TRANSFORMER_PROGRAM_H
#define ENGINE_TRANSFORMER_PROGRAM_H

#include "../device.h"
#include "../graph/memory.h"
#include "../model/packed.h"

struct encoder;
struct model_files;

enum encoder_binding
{
	ENCODER_IDS = 0,				/* I32 of each token */
	ENCODER_PLACES,					/* I32 of each token: its row of the table of positions */
	ENCODER_TYPES,					/* I32 of each token */
	ENCODER_GIVEN,					/* F32 of each token, or each row: what a graph that is run as it is makes */
	ENCODER_RESULT,					/* F32 [result_width] of each row, or each token */
	ENCODER_BINDINGS
};

struct encoder_work					/* products and attention: twice the multiply-adds */
{
	double		token;
	double		row;
	double		pair;				/* of each pair of tokens of a row, in layers that see all of it */
	double		pair_local;			/* likewise in layers that see a window: of each pair in it */
};

struct encoder_program
{
	const struct encoder *encoder;
	struct device *device;
	struct device_program *program;
	struct graph_memory memory;		/* constants that were made, and all the arrays below */
	uint8_t		precision;			/* enum device_precision */
	uint8_t		result_lead;		/* DEVICE_LEAD_ROWS or DEVICE_LEAD_TOKENS */
	uint32_t	result_width;
	bool		bound[ENCODER_BINDINGS];	/* whether the program reads or writes it */
	uint64_t	weights_bytes;		/* packed */
	uint64_t	tables_bytes;		/* read where they lie in the files */
	uint64_t	constants_bytes;	/* all that the program reads: tables, norms, biases */
	struct encoder_work work;
	struct packed_form form;		/* to be kept; no weights: not worth it */

	/* as compiled, for people and for profiles */
	uint32_t	ops_count;
	struct device_op *ops;
	const char **labels;			/* of each op: what of the encoder it is */
	struct device_tensor *tensors;
	uint32_t	weights_count;
	struct device_weight **weights;
};

/* false: the status says why.  encoder_program_free is due either way. */
extern bool encoder_program_make(struct encoder_program *program, const struct encoder *encoder,
								 const struct model_files *files, struct device *device, struct status *status);
extern void encoder_program_free(struct encoder_program *program);

#endif							/* ENGINE_TRANSFORMER_PROGRAM_H */
