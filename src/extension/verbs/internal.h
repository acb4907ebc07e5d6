/*
 * internal.h
 *	  What the files of the verbs share.
 *
 * Nouns
 *	asked		what a call asks: the model that a name meant, and how arguments of certain types
 *				reach its inputs
 *	arguments	of one call, after the model and the class; those of a VARIADIC array one by one
 *
 * Files
 *	table.c			which verbs there are
 *	asked.c			models, arguments, results: of one call and of many
 *	single.c		one call at a time, as SQL makes it
 *	constant.c		what a call of constants has answered
 *	sets.c			calls that give several rows
 *	profile.c		infer.profile
 *	site.c			many calls of one place in a plan
 *	rows.c			those of them that are sent together: beginning, sending, waiting
 *	add.c			a row more of these
 *	answers.c		their results and errors
 *	memo.c			results that a site remembers
 *	cost.c			what a call costs, for the planner
 */
#ifndef INFER_VERBS_INTERNAL_H
#define INFER_VERBS_INTERNAL_H

#include "postgres.h"

#include "../infer.h"
#include "../verbs.h"

/* ---- table.c ---- */

typedef enum VerbNumber
{
	VERB_INFER,
	VERB_TRY,
	VERB_PREDICT,
	VERB_OUTPUTS,
	VERB_CLASSIFY,
	VERB_PROBABILITIES,
	VERB_PROBABILITY,
	VERB_EMBED,
	VERB_RERANK,
	VERB_TOKENIZE,
	VERB_TOKEN_COUNT,
	VERB_EMBED_ALL,
	VERB_ENTITIES,
	VERB_CHUNK,
	VERBS
} VerbNumber;

extern const InferVerbDef infer_verbs[VERBS];

/* ---- asked.c ---- */

typedef struct VerbArguments
{
	int			count;
	Oid			element;			/* VARIADIC array: its element type, else invalid */
	Datum	   *values;
	bool	   *nulls;
} VerbArguments;

typedef struct VerbAsked
{
	MemoryContext context;			/* of everything here */
	InferModel *model;
	InferBinding *binding;
	uint32		wanted;				/* outputs */
	int			name_length;
	char	   *name;				/* as the call gave it */
	int			nargs;				/* of the model's arguments */
	Oid			element;

	/* the options that came last */
	struct varlena *options_given;	/* NULL: none have come */
	InferTextOptions options;

	struct VerbRemembered *remembered;	/* constant.c; NULL: nothing */

	/* for whom and when the privilege was last checked */
	Oid			checked_user;
	TimestampTz checked_transaction;
	TimestampTz checked_statement;
	CommandId	checked_command;
	uint64		checks;				/* how often */
} VerbAsked;

/* VARIADIC array: its elements are the arguments, made in the current memory context. */
extern void verb_spread(Datum array, VerbArguments *arguments);

/*
 * Resolves the name and binds arguments of these types; columns: the one argument is a row of that
 * type that comes as its columns, else InvalidOid.  In a context of its own below the current one.
 */
extern VerbAsked *verb_ask(InferVerb verb, const char *name, int name_length, int nargs, Oid element,
						   const Oid *types, Oid columns);

/* Whether a call with that name and such arguments asks the same. */
static inline bool
verb_asks(const VerbAsked *asked, const char *name, int name_length, int nargs, Oid element)
{
	return name_length == asked->name_length && memcmp(name, asked->name, name_length) == 0 &&
		nargs == asked->nargs && element == asked->element;
}

/* Whether the answer is NULL without asking: one single input that is NULL, or any of a verb's texts. */
static inline bool
verb_has_null(const InferVerbDef *def, const VerbArguments *arguments)
{
	if (def->inputs_count == 0)
		return arguments->count == 1 && arguments->nulls[0];
	for (int i = 0; i < arguments->count; i++)
		if (arguments->nulls[i])
			return true;
	return false;
}

/* Raises 42501 unless the user may use the model; once per command and user. */
extern void verb_check_usage(VerbAsked *asked);

/*
 * What options (a jsonb, as the call gives it) ask of the verb's texts; NULL: nothing.  It holds until the
 * next ones come.  Raises what is wrong with them.
 */
extern const InferTextOptions *verb_options(VerbAsked *asked, const InferVerbDef *def, Datum options, bool null);

/* detail: a class's number, or an embedding's dimensions (0: all). */
extern Datum verb_result(const VerbAsked *asked, InferVerb verb, InferCall *call, uint32 row, int detail);

/* Of a type whose Datum is the value itself. */
static inline bool
verb_by_value(InferVerb verb)
{
	return verb == INFER_VERB_PREDICT || verb == INFER_VERB_PROBABILITY || verb == INFER_VERB_RERANK ||
		verb == INFER_VERB_TOKEN_COUNT;
}

/* Errors that a row's values raise while they are converted or while its result is. */
extern bool verb_error_is_rows(int sqlerrcode);

#endif							/* INFER_VERBS_INTERNAL_H */
