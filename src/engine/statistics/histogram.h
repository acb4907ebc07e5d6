/*
 * histogram.h
 *	  How long things took, as counts from which percentiles can be told: log-linear, of
 *	  fixed size, one increment for each sample.
 *
 * Each power of two is cut into eight equal buckets, and a percentile is the middle of the
 * bucket that the sample of its rank lies in.  So it differs from that sample by at most a
 * sixteenth of it (6.25 %); below HISTOGRAM_LINEAR by at most 32 nsec.  From HISTOGRAM_MAX on
 * (nine minutes) all samples are counted in the last bucket.
 */
#ifndef ENGINE_STATISTICS_HISTOGRAM_H
#define ENGINE_STATISTICS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS		3	/* buckets of a power of two: 8 */
#define HISTOGRAM_LINEAR_BITS	9
#define HISTOGRAM_MAX_BITS		39
#define HISTOGRAM_LINEAR		(UINT64_C(1) << HISTOGRAM_LINEAR_BITS)	/* nsec: below, buckets are 64 nsec wide */
#define HISTOGRAM_MAX			(UINT64_C(1) << HISTOGRAM_MAX_BITS)		/* nsec */
#define HISTOGRAM_BUCKETS		((1 + HISTOGRAM_MAX_BITS - HISTOGRAM_LINEAR_BITS) << HISTOGRAM_SUB_BITS)

struct histogram					/* zeroed: no sample */
{
	uint32_t	counts[HISTOGRAM_BUCKETS];
};

extern void histogram_add(struct histogram *histogram, uint64_t nsec);

/*
 * The samples of rank share · samples, as above; 0 if there are none.  shares: above 0, at most 1,
 * ascending.  Returns the number of samples.
 */
extern uint64_t histogram_percentiles(const struct histogram *histogram, const double *shares, uint32_t count,
									  uint64_t *nsec);

#endif							/* ENGINE_STATISTICS_HISTOGRAM_H */
