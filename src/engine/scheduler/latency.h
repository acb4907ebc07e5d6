/*
 * latency.h
 *	  How long a batch of so much cost will take: a model's own measurements, forgotten
 *	  exponentially, over a prior.
 *
 * Cost is rows, or where rows differ the sum of what the model itself predicts of each, so that
 * b is how far off that is.
 *
 * time(cost) = a + b · cost by weighted least squares while the batches seen differ in
 * size; otherwise the prior scaled by how far off it has been.  A single outlier (a first
 * touch, a preempted thread) teaches little; several in a row are the truth.
 */
#ifndef ENGINE_SCHEDULER_LATENCY_H
#define ENGINE_SCHEDULER_LATENCY_H

#include <stdint.h>

#define LATENCY_FORGET	0.95			/* weight that is left of a sample after the next one */

struct latency						/* zeroed: nothing is known; guarded by the engine's lock */
{
	double		n;					/* weighted count, and sums of … */
	double		x;					/* cost */
	double		y;					/* nsec */
	double		xx;
	double		xy;
	uint32_t	outliers;			/* in a row */
};

#define LATENCY_ERRORS	64				/* predictions that the median is over */

struct latency_errors				/* zeroed: none */
{
	uint64_t	count;
	uint16_t	per_mille[LATENCY_ERRORS];	/* |predicted - actual| / actual of the last ones */
};

extern void latency_errors_record(struct latency_errors *errors, uint64_t predicted, uint64_t actual);

/* Per mille; 0 if there is none. */
extern uint32_t latency_errors_median(const struct latency_errors *errors);

extern void latency_record(struct latency *latency, uint64_t cost, uint64_t nsec);

/*
 * nsec; prior_nsec is what the model itself predicts for this batch, prior_mean_nsec what it
 * predicts for latency_mean_cost, 0 if nothing.
 */
extern uint64_t latency_estimate(const struct latency *latency, uint64_t cost, uint64_t prior_nsec, uint64_t prior_mean_nsec);

/* Of the batches measured; 0: none. */
extern uint64_t latency_mean_cost(const struct latency *latency);

/* Whether anything was measured. */
static inline int
latency_has_run(const struct latency *latency)
{
	return latency->n > 0;
}

/* Whether enough was measured for the prior to be of no use. */
extern int	latency_is_known(const struct latency *latency, uint64_t cost);

#endif							/* ENGINE_SCHEDULER_LATENCY_H */
