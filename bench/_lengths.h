/*
 * _lengths.h
 *	  Lengths of texts as they come: log-normal, a median of 20 tokens, a tenth above 65, from 4 to 249; in a drawn order that is always
 *	  the same.
 */
#ifndef BENCH_LENGTHS_H
#define BENCH_LENGTHS_H

#include <math.h>
#include <stdint.h>

#define LENGTHS_MEDIAN	20.0
#define LENGTHS_NINTH	65.0
#define LENGTHS_MOST	249

/* The place on the normal distribution below which a share of it lies. */
static inline double
normal_quantile(double share)
{
	double		low = -8;
	double		high = 8;

	for (int i = 0; i < 60; i++)
	{
		double		middle = (low + high) / 2;

		if (0.5 * erfc(-middle / sqrt(2)) < share)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static inline void
mixed_lengths(uint32_t *lengths, uint32_t count)
{
	double		spread = log(LENGTHS_NINTH / LENGTHS_MEDIAN) / normal_quantile(0.9);
	uint64_t	random = 7;

	for (uint32_t i = 0; i < count; i++)
	{
		double		length = rint(LENGTHS_MEDIAN * exp(spread * normal_quantile((i + 0.5) / count)));

		lengths[i] = length < 4 ? 4 : length > LENGTHS_MOST ? LENGTHS_MOST : (uint32_t) length;
	}
	for (uint32_t i = count; i-- > 1;)
	{
		uint32_t	j;
		uint32_t	kept = lengths[i];

		random = random * 6364136223846793005u + 1442695040888963407u;
		j = (uint32_t) (random >> 33) % (i + 1);
		lengths[i] = lengths[j];
		lengths[j] = kept;
	}
}

#endif							/* BENCH_LENGTHS_H */
