/*
 * predict.h
 *	  What a model's batches are predicted to take, and how good that was.  Lock held.
 */
#ifndef ENGINE_SCHEDULER_PREDICT_H
#define ENGINE_SCHEDULER_PREDICT_H

#include "../engine.h"

/* nsec. */
extern uint64_t predict_nsec(struct entry *entry, uint32_t rows);

/* nsec that the model itself predicts, unmeasured; 0: it does not. */
extern uint64_t predict_prior(struct entry *entry, uint32_t rows);

/* A whole batch was predicted and took so much. */
extern void predict_learn(struct engine *engine, struct entry *entry, uint32_t rows, uint64_t predicted, uint64_t nsec);

/* The model has been loaded: nothing is known but its own prediction. */
extern void predict_reset(struct engine *engine, struct entry *entry);

#endif							/* ENGINE_SCHEDULER_PREDICT_H */
