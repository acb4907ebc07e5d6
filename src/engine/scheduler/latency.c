/*
 * latency.c
 *	  See latency.h.
 */
#include "latency.h"

#include <string.h>

#define SAMPLES_MIN	3.0				/* weighted; below it the prior decides */
#define OUTLIER		2.0				/* times what was predicted */
#define OUTLIERS_MAX	4			/* so many in a row are none */
#define UNKNOWN_NSEC_PER_ROW	1000000	/* no prior, no measurement: not a small request */

void
latency_record(struct latency *latency, uint64_t cost, uint64_t nsec)
{
	double		x = (double) cost;
	double		y = (double) nsec;
	double		most = y;

	/* not for what is plainly none: as large a batch as the others, and not much longer */
	if ((x * latency->n < latency->x || y * latency->n > OUTLIER * latency->y) && latency_is_known(latency, cost))
		most = OUTLIER * (double) latency_estimate(latency, cost, 0, 0);
	latency->outliers = y > most ? latency->outliers + 1 : 0;
	if (y > most && latency->outliers < OUTLIERS_MAX)
		y = most;
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
latency_is_known(const struct latency *latency, uint64_t cost)
{
	double		x = (double) cost;
	double		mean;

	if (latency->n < SAMPLES_MIN)
		return 0;
	mean = latency->x / latency->n;
	return spread(latency) > 0.05 || (x >= mean * 0.5 && x <= mean * 2);
}

uint64_t
latency_mean_cost(const struct latency *latency)
{
	return latency->n > 0 ? (uint64_t) (latency->x / latency->n + 0.5) : 0;
}

uint64_t
latency_estimate(const struct latency *latency, uint64_t cost, uint64_t prior_nsec, uint64_t prior_mean_nsec)
{
	double		x = (double) cost;
	double		mean_x;
	double		mean_y;
	double		slope;
	double		value;

	if (latency->n < SAMPLES_MIN)
		return prior_nsec > 0 ? prior_nsec : cost * UNKNOWN_NSEC_PER_ROW;
	mean_x = latency->x / latency->n;
	mean_y = latency->y / latency->n;
	if (spread(latency) > 0.05)
	{
		slope = (latency->xy / latency->n - mean_x * mean_y) /
			(latency->xx / latency->n - mean_x * mean_x);
		if (slope < 0)
			slope = 0;
		value = mean_y + slope * (x - mean_x);
		if (value < slope * x)
			value = slope * x;	/* never a negative constant part */
	}
	else if (x >= mean_x * 0.5 && x <= mean_x * 2)
		value = mean_y;
	else if (prior_nsec > 0 && prior_mean_nsec > 0)
		value = mean_y * (double) prior_nsec / (double) prior_mean_nsec;
	else if (x > mean_x)
		value = mean_y * x / mean_x;	/* an upper bound: no constant part */
	else
		value = mean_y;
	return value > 1 ? (uint64_t) value : 1;
}

void
latency_errors_record(struct latency_errors *errors, uint64_t predicted, uint64_t actual)
{
	uint64_t	off = predicted > actual ? predicted - actual : actual - predicted;
	double		relative = 1000.0 * (double) off / (double) (actual > 0 ? actual : 1);

	errors->per_mille[errors->count++ % LATENCY_ERRORS] = relative < UINT16_MAX ? (uint16_t) relative : UINT16_MAX;
}

uint32_t
latency_errors_median(const struct latency_errors *errors)
{
	uint16_t	sorted[LATENCY_ERRORS];
	uint32_t	count = errors->count < LATENCY_ERRORS ? (uint32_t) errors->count : LATENCY_ERRORS;

	memcpy(sorted, errors->per_mille, sizeof(sorted));
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t j = i; j > 0 && sorted[j] < sorted[j - 1]; j--)
		{
			uint16_t	swap = sorted[j];

			sorted[j] = sorted[j - 1];
			sorted[j - 1] = swap;
		}
	return count > 0 ? sorted[count / 2] : 0;
}
