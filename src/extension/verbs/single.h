/*
 * single.h
 *	  What SQL functions that ask a model once (single.c, profile.c) share.
 */
#ifndef INFER_VERBS_SINGLE_H
#define INFER_VERBS_SINGLE_H

#include "postgres.h"

#include "fmgr.h"

#include "internal.h"

typedef struct SingleArguments
{
	VerbArguments given;			/* its arrays are those below, or palloc'd */
	Datum		values[FUNC_MAX_ARGS];
	bool		nulls[FUNC_MAX_ARGS];
} SingleArguments;

/* false if the call's answer is NULL without asking. */
extern bool single_arguments(FunctionCallInfo fcinfo, const InferVerbDef *def, SingleArguments *arguments);

/* What the call asks: what its FmgrInfo keeps, if that still stands. */
extern VerbAsked *single_ask(FunctionCallInfo fcinfo, const InferVerbDef *def, const VerbArguments *arguments);

typedef struct SingleCall
{
	const InferVerbDef *def;
	VerbAsked  *asked;
	VerbArguments *arguments;
	const InferTextOptions *options;	/* NULL: none */
	int			detail;				/* of the result: see verb_result */
	Datum		result;
	void	   *arg;				/* of make */

	/* Makes the result; NULL: verb_result does. */
	void		(*make) (struct SingleCall *single, InferCall *call);
} SingleCall;

/* One call, with the errors or NULLs that the verb and infer.on_error say; false: NULL. */
extern bool single_run(SingleCall *single);

/* ---- constant.c ---- */

/* Of a verb about texts: the answer of the same constants within this command; false: none is kept. */
extern bool single_recall(FunctionCallInfo fcinfo, SingleCall *single);

/* After single_recall: the answer, if the arguments are constants. */
extern void single_remember(FunctionCallInfo fcinfo, const SingleCall *single);

#endif							/* INFER_VERBS_SINGLE_H */
