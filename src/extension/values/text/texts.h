/*
 * texts.h
 *	  What ../result.c leaves to results.c: models that read texts.
 */
#ifndef INFER_VALUES_TEXTS_H
#define INFER_VALUES_TEXTS_H

#include "postgres.h"

#include "../results.h"

/* The outputs that such a verb asks for; 42809 with the verb that fits if the model has none. */
extern uint32 texts_wanted(const InferModel *model, InferVerb verb);

/* 42809 if the model's task is about texts, and not what this other verb is for. */
extern void texts_check_verb(const InferModel *model, InferVerb verb);

extern Datum entities_jsonb(const InferModel *model, InferCall *call, uint32 row);

#endif							/* INFER_VALUES_TEXTS_H */
