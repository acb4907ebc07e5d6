/*
 * latency.c
 *	  See latency.h.
 */
#include "latency.h"

#define SAMPLES_MIN	3.0				/* weighted; below it the prior decides */
#define UNKNOWN_NSEC_PER_ROW	1000000	/* no prior, no measurement: not a small request */

void
latency_record(struct latency *latency, uint32_t rows, uint64_t nsec)
{
	double		x = rows;
	double		y = (double) nsec;
	double		mean = latency->n > 0 ? latency->y / latency->n : 0;

	/* one outlier (a first touch, a preempted thread) must not teach for long */
	if (latency->n >= SAMPLES_MIN && rows <= 2 * latency->x / latency->n && y > 8 * mean)
		y = 8 * mean;
	latency->n = latency->n * LATENCY_FORGET + 1;
	latency->x = latency->x * LATENCY_FORGET + x;
	latency->y = latency->y * LATENCY_FORGET + y;
	latency->xx = latency->xx * LATENCY_FORGET + x * x;
	latency->xy = latency->xy * LATENCY_FORGET + x * y;
}

/* Weighted variance of the sizes seen, relative to their mean squared. */
static double
spread(const struct latency *latency)
{
	double		mean = latency->x / latency->n;

	return (latency->xx / latency->n - mean * mean) / (mean * mean);
}

int
latency_is_known(const struct latency *latency, uint32_t rows)
{
	double		mean;

	if (latency->n < SAMPLES_MIN)
		return 0;
	mean = latency->x / latency->n;
	return spread(latency) > 0.05 || (rows >= mean * 0.5 && rows <= mean * 2);
}

uint64_t
latency_estimate(const struct latency *latency, uint32_t rows, uint64_t prior_nsec)
{
	double		mean_x;
	double		mean_y;
	double		slope;
	double		value;

	if (latency->n < SAMPLES_MIN)
		return prior_nsec > 0 ? prior_nsec : (uint64_t) rows * UNKNOWN_NSEC_PER_ROW;
	mean_x = latency->x / latency->n;
	mean_y = latency->y / latency->n;
	if (spread(latency) > 0.05)
	{
		slope = (latency->xy / latency->n - mean_x * mean_y) /
			(latency->xx / latency->n - mean_x * mean_x);
		if (slope < 0)
			slope = 0;
		value = mean_y + slope * (rows - mean_x);
		if (value < slope * rows)
			value = slope * rows;	/* never a negative constant part */
	}
	else if (rows >= mean_x * 0.5 && rows <= mean_x * 2)
		value = mean_y;
	else if (prior_nsec > 0 && rows > mean_x)
		value = mean_y > (double) prior_nsec ? mean_y : (double) prior_nsec;
	else if (rows > mean_x)
		value = mean_y * rows / mean_x;	/* an upper bound: no constant part */
	else
		value = mean_y;
	return value > 1 ? (uint64_t) value : 1;
}
