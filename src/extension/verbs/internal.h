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
 *	profile.c		infer.profile
 *	site.c			many calls of one place in a plan
 *	rows.c			those of them that are sent together: adding, sending, waiting
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

	/* for whom and when the privilege was last checked */
	Oid			checked_user;
	TimestampTz checked_transaction;
	TimestampTz checked_statement;
	CommandId	checked_command;
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

/* Raises 42501 unless the user may use the model; once per command and user. */
extern void verb_check_usage(VerbAsked *asked);

extern Datum verb_result(const VerbAsked *asked, InferVerb verb, InferCall *call, uint32 row, int class_);

/* Errors that a row's values raise while they are converted or while its result is. */
extern bool verb_error_is_rows(int sqlerrcode);

#endif							/* INFER_VERBS_INTERNAL_H */
