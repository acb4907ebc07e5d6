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

/* false if the call's answer is NULL without asking: one single input that is NULL. */
extern bool single_arguments(FunctionCallInfo fcinfo, int first, SingleArguments *arguments);

/* What the call asks: what its FmgrInfo keeps, if that still stands. */
extern VerbAsked *single_ask(FunctionCallInfo fcinfo, InferVerb verb, int first,
							 const VerbArguments *arguments);

#endif							/* INFER_VERBS_SINGLE_H */
