/*
 * values.h
 *	  Datum ⇄ typed columns: the one place where SQL values become a model's inputs and a
 *	  model's outputs become SQL values.  docs/sql.md has the table of what is accepted.
 *
 * Nouns
 *	binding		how a call's arguments map to a model's inputs: made once per FmgrInfo and
 *				model version (by name for a row or an object, by position otherwise), used for
 *				every row
 *	text options	what a call asks of a text beside the text itself: they go into the hidden inputs of
 *				models that read texts
 */
#ifndef INFER_VALUES_H
#define INFER_VALUES_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/bitmapset.h"
#include "utils/jsonb.h"

#include "catalog.h"
#include "client.h"

typedef struct InferBinding InferBinding;

typedef struct InferTextOptions
{
	int32		numbers[INFER_TEXT_OPTIONS];	/* enum infer_text_option */
	int			prompt_length;
	const char *prompt;				/* a name, in the server's encoding; "": none was named */
} InferTextOptions;

enum InferTextKey					/* of a verb's options; a set of them */
{
	INFER_KEY_PROMPT = 1,
	INFER_KEY_TRUNCATE = 2,
	INFER_KEY_DIMENSIONS = 4,
	INFER_KEY_NORMALIZE = 8,
	INFER_KEY_BORDER = 16
};

/*
 * Read a verb's options, of which it takes these keys.  Allocates in the current memory context.
 * Errors: 22023 with the key, and what there is instead.
 */
extern void infer_text_options_read(const InferModel *model, Jsonb *jsonb, uint32 keys,
									InferTextOptions *options);

/*
 * Plan how arguments of these types reach the model's inputs.  Allocates in context.
 * Errors: 42804 for a type that cannot be a feature, 22023 for counts and names that do
 * not match (both counts or the missing names in the message, the remedy in the hint).
 */
extern InferBinding *infer_binding_make(const InferModel *model, int nargs, const Oid *types,
										MemoryContext context);

/*
 * The names by which a row's columns reach the model, one for each element of its inputs, in order; NULL: some
 * have none.  *count: how many elements there are.  In the current memory context.
 */
extern const char **infer_model_names(const InferModel *model, int *count);

/* How many texts a row of the model has; 0: it does not read texts. */
extern int	infer_model_texts(const InferModel *model);

/*
 * The same for rows of a named composite type whose columns come one by one, as they are in the type
 * (dropped ones too), so that the row need not be formed: values[i] is column i, from 0.
 */
extern InferBinding *infer_binding_make_columns(const InferModel *model, Oid type, MemoryContext context);

/* Of such a binding: the columns that a write looks at.  In the current memory context. */
extern Bitmapset *infer_binding_columns(const InferBinding *binding);

/*
 * Look at what of a row's shape only its values tell (the columns of a composite value),
 * raising what is wrong with it before the first write: 22023, 42804, 42702; and fetch what
 * lies in TOAST tables, in place, so that a write touches memory only.  Optional:
 * infer_binding_write does it as well.  Whoever must tell a row's own errors, which
 * infer.try hides, from the statement's calls it first.
 */
extern void infer_binding_prepare(const InferBinding *binding, Datum *values, const bool *nulls);

/*
 * Write row number row of a call.  Errors: 22003 for what does not fit the input's type,
 * 22004 for NULL where the model has no notion of a missing value, 22023 for wrong
 * lengths.  options: of a model that reads texts; NULL: as the model says.
 */
extern void infer_binding_write(const InferBinding *binding, InferCall *call, uint32 row,
								const Datum *values, const bool *nulls, const InferTextOptions *options);

/*
 * The same for numbers of fixed size, quickly: false if there is more to it, or something wrong;
 * then nothing is raised, and infer_binding_write is to write the row.
 */
extern bool infer_binding_write_plain(const InferBinding *binding, InferCall *call, uint32 row,
									  const Datum *values, const bool *nulls);

/* Asks for all columns of a call, before its first row is written: see infer_client_unwrite. */
extern void infer_binding_open(const InferBinding *binding, InferCall *call);

/* ---- results ---- */

typedef enum InferVerb
{
	INFER_VERB_INFER,				/* infer(), infer.try() */
	INFER_VERB_PREDICT,
	INFER_VERB_OUTPUTS,
	INFER_VERB_CLASSIFY,
	INFER_VERB_PROBABILITIES,
	INFER_VERB_PROBABILITY,
	INFER_VERB_EMBED,				/* and those after it: of models that read texts */
	INFER_VERB_RERANK,
	INFER_VERB_TOKENIZE,
	INFER_VERB_TOKEN_COUNT,
	INFER_VERB_ENTITIES,
	INFER_VERB_CHUNK
} InferVerb;

/*
 * Checks that the model has what the verb asks for (42809 with the verb that fits), and
 * returns the outputs to ask the engine for.  Once per model and verb, before any result.
 */
extern uint32 infer_result_wanted(const InferModel *model, InferVerb verb);

/* Whether it has a label or classes, so that infer.classify() or infer.probability() fit. */
extern bool infer_result_is_classifier(const InferModel *model);

/* How many numbers an embedding, or what infer.outputs() returns, has; 0: that varies. */
extern uint64 infer_result_width(const InferModel *model, InferVerb verb);

/* The output to ask for beside others, for infer_result_token_count; 0: the model counts no tokens. */
extern uint32 infer_result_tokens_counted(const InferModel *model);

/* The number of a class; 22023 with the list of classes if there is none of that name. */
extern int	infer_result_class(const InferModel *model, const char *class_, Size length);

/* Of a row whose status is INFER_OK.  Errors: IF008 for what is not finite, 42809 for
 * scores that turn out not to be probabilities. */
extern Datum infer_result_jsonb(const InferModel *model, InferCall *call, uint32 row);		/* infer() */
extern float8 infer_result_number(const InferModel *model, InferCall *call, uint32 row);	/* predict */
extern Datum infer_result_numbers(const InferModel *model, InferCall *call, uint32 row);	/* outputs */
extern text *infer_result_label(const InferModel *model, InferCall *call, uint32 row);		/* classify */
extern Datum infer_result_probabilities(const InferModel *model, InferCall *call, uint32 row);
extern float8 infer_result_probability(const InferModel *model, InferCall *call, uint32 row, int class_);

/* real[]; dimensions: only the first so many, 0 all. */
extern Datum infer_result_embedding(const InferModel *model, InferCall *call, uint32 row, int dimensions);
extern float8 infer_result_score(const InferModel *model, InferCall *call, uint32 row);		/* rerank */
extern Datum infer_result_tokens(const InferModel *model, InferCall *call, uint32 row);		/* int[] */
extern int32 infer_result_token_count(const InferModel *model, InferCall *call, uint32 row);

typedef struct InferEntity
{
	const char *type;				/* in the server's encoding */
	text	   *text;
	int			first;				/* character, from 1 as substring() counts */
	int			last;
	double		score;
} InferEntity;

/* Palloc'd; how many there are is the answer. */
extern int	infer_result_entities(const InferModel *model, InferCall *call, uint32 row, InferEntity **entities);

typedef struct InferChunk
{
	text	   *text;
	int			tokens;
} InferChunk;

/* given: the text that was given, of which the chunks are parts. */
extern int	infer_result_chunks(const InferModel *model, InferCall *call, uint32 row, const text *given,
								InferChunk **chunks);

#endif							/* INFER_VALUES_H */
