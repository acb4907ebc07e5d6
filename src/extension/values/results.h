/*
 * results.h
 *	  What the files share that make SQL values of a model's outputs: outputs.c knows their
 *	  elements, classes.c labels and scores, text/ what texts give and where in them that lies, result.c
 *	  the verbs.
 */
#ifndef INFER_VALUES_RESULTS_H
#define INFER_VALUES_RESULTS_H

#include "postgres.h"

#include "../infer.h"
#include "parts.h"

/* ---- outputs.c ---- */

/* How many outputs are not hidden; *first (may be NULL): the first of them. */
extern int	outputs_shown(const InferModel *model, int *first);

static inline bool
output_is_hidden(const InferModel *model, int output)
{
	return (model->signature.outputs[output].flags & INFER_TENSOR_HIDDEN) != 0;
}

/* The first output of that role, or -1. */
extern int	output_of_role(const InferModel *model, uint32 role);

pg_noreturn extern void output_not_finite(const InferModel *model, const struct infer_tensor *tensor);
pg_noreturn extern void output_malformed(const InferModel *model, const struct infer_tensor *tensor);

extern bool output_is_number(uint32 type);

/* Elements of a row; 0 if that varies. */
extern uint64 output_width(const struct infer_tensor *tensor);

/* Raises IF008 for NaN and infinity. */
extern double output_number(const InferModel *model, const struct infer_tensor *tensor,
							const InferOutput *output, uint64 i);

/* A string element in the server's encoding; not terminated. */
extern const char *output_string(const InferOutput *output, uint64 i, int *length);

extern void output_json(JsonbValue *json, const InferModel *model, const struct infer_tensor *tensor,
						const InferOutput *output, uint64 i);
extern void output_json_float(JsonbValue *json, double value, bool single);
extern void output_json_string(JsonbValue *json, const char *text);
extern void output_push_key(JsonbParseState **state, const char *key);

/*
 * An output's value: a scalar of one element, an array otherwise, nested like its shape.
 * token says what it is to what is being built; *state NULL: nothing is, and the value is
 * the result, in scalar if it is one.
 */
extern JsonbValue *output_push(JsonbParseState **state, JsonbIteratorToken token, const InferModel *model,
							   const struct infer_tensor *tensor, const InferOutput *output,
							   JsonbValue *scalar);

/* ---- classes.c ---- */

typedef struct ClassifierView
{
	int			label;			/* output, or -1 */
	int			scores;			/* output, or -1 */
	bool		declared;		/* scores were recognised by the classes alone */
} ClassifierView;

typedef struct Scores
{
	const struct infer_tensor *tensor;
	InferOutput output;
	bool		single;			/* float32, not double */
	bool		second_only;	/* one number, that of the second of two classes */
} Scores;

/* Whether the model is a classifier, and which outputs say so. */
extern bool classifier_view(const InferModel *model, ClassifierView *view);
extern const char *classifier_label(const InferModel *model, InferCall *call, uint32 row,
									const ClassifierView *view, bool *is_integer);
extern Datum classifier_jsonb(const InferModel *model, InferCall *call, uint32 row,
							  const ClassifierView *view);

extern void scores_read(const InferModel *model, InferCall *call, uint32 row, const ClassifierView *view,
						Scores *scores);
extern double score_at(const InferModel *model, const Scores *scores, int i);	/* of a class */
extern void scores_check_probabilities(const InferModel *model, const Scores *scores, bool declared);
extern JsonbValue *scores_push(JsonbParseState **state, const InferModel *model, const Scores *scores);

#endif							/* INFER_VALUES_RESULTS_H */
