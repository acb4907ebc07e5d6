/*
 * sets.h
 *	  What a run of a model lies in (its buffers), one set for each run that is not over: taken as it
 *	  begins, given back as it ends, and kept for the next one.
 *
 * Nouns
 *	set			the first member of a kind's own struct of buffers
 *	place		whose memory a set is of: a queue's where a device has memory of its own (ARENA of this
 *				queue), else nobody's in particular
 *
 * Invariants
 *	- A run that begins while others of the model are under way, on other queues or between two segments of one, has
 *	  a set that none of them has.
 *	- Of those that fit the one that was given back last is taken, so the set that a model uses alone is the
 *	  one that has grown; a model has as many sets as runs were ever under way at once.
 *	- What all sets take counts in model.bytes; any thread may read that.  Sets of several GPUs count as what they take of
 *	  one on average, since the budget is that of each.
 */
#ifndef ENGINE_MODEL_SETS_H
#define ENGINE_MODEL_SETS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct device_queue;
struct model;
struct status;

struct model_set
{
	struct model_set *next;			/* while nobody has it */
	struct device_queue *place;		/* NULL: nobody's in particular */
	uint64_t	bytes;				/* as counted in model.bytes: a GPU's share */
};

struct model_sets
{
	pthread_mutex_t lock;
	struct device *device;
	struct model *model;
	size_t		set_size;
	uint32_t	units;				/* GPUs, or 1 */
	struct model_set *free;			/* last given back first */
};

/* set_size: of the kind's own struct, which begins zeroed. */
extern void model_sets_init(struct model_sets *sets, struct model *model, struct device *device, size_t set_size);

/* For a run on a queue; NULL and a status: out of memory. */
extern struct model_set *model_sets_take(struct model_sets *sets, struct device_queue *queue, struct status *status);
extern void model_sets_give(struct model_sets *sets, struct model_set *set);

/* Who has a set: it takes so many bytes now. */
extern void model_sets_count(struct model_sets *sets, struct model_set *set, uint64_t bytes);

/* None is taken: one after another, for the caller to free; NULL: there is none left. */
extern struct model_set *model_sets_close(struct model_sets *sets);
extern void model_sets_destroy(struct model_sets *sets);

#endif							/* ENGINE_MODEL_SETS_H */
