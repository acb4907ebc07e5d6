/*
 * predict.h
 *	  What a model's batches are predicted to take, and how good that was.  Lock held.
 *
 * cost is as the policy counts it: rows, or the sum of what the model's kind predicts of each.
 */
#ifndef ENGINE_SCHEDULER_PREDICT_H
#define ENGINE_SCHEDULER_PREDICT_H

#include "../engine.h"

/* nsec, of any batch of so much cost; of one with its rows. */
extern uint64_t predict_nsec(struct entry *entry, uint64_t cost);
extern uint64_t predict_batch(struct entry *entry, const struct batch *batch);

/* nsec that the model itself predicts of a batch, unmeasured; 0: it does not. */
extern uint64_t predict_prior(struct entry *entry, const struct batch *batch);

/* A whole batch was predicted and took so much. */
extern void predict_learn(struct engine *engine, struct entry *entry, uint64_t cost, uint64_t predicted, uint64_t nsec);

/* The model has been loaded, and nothing waits for it: nothing is known but its own prediction. */
extern void predict_reset(struct engine *engine, struct entry *entry);

#endif							/* ENGINE_SCHEDULER_PREDICT_H */
