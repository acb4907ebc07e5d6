/*
 * share.c
 *	  The guaranteed share of the lower classes.
 *
 * A lower class that waits, or is suspended between two segments, is owed share percent of
 * all device time that passes; what it gets is taken off.  When it is owed its next batch it
 * goes before higher classes.  What it gets while nothing higher waits is for nothing, and
 * what it is owed is bounded: a class cannot save up to hold others off.
 */
#include "policy.h"

#include "../../protocol/protocol.h"

#define OWED_MAX	1000000000		/* nsec, where there is no slice */

static uint64_t
bounded(const struct batch_policy *policy, uint64_t nsec)
{
	return policy->slice > 0 && nsec > policy->slice ? policy->slice : nsec;
}

bool
share_is_owed(const struct batch_policy *policy, uint32_t class_, uint64_t nsec)
{
	return class_ != INFER_CLASS_INTERACTIVE && policy->owed[class_] > 0 &&
		policy->owed[class_] >= (int64_t) bounded(policy, nsec);
}

void
share_charge(struct batch_policy *policy, const struct batch *batch, uint64_t nsec)
{
	int64_t		most = policy->slice > 0 ? 2 * (int64_t) policy->slice : OWED_MAX;

	for (uint32_t c = INFER_CLASS_STATEMENT; c < BATCH_CLASSES; c++)
	{
		bool		waits = policy->rows_class[c] > 0 || policy->suspended[c] > 0;
		uint64_t	own = batch->rows_class[c] == 0 ? 0 : nsec * batch->rows_class[c] / batch->rows;
		int64_t		before = policy->owed[c];
		int64_t		owed = before - (int64_t) own;

		if (!waits && own == 0 && before == 0)
			continue;
		if (waits || own > 0)
			owed += (int64_t) (nsec * policy->share / 100);
		if (batch->unopposed || !waits)
		{
			int64_t		floor = before < 0 ? before : 0;

			if (owed < floor)
				owed = floor;
		}
		if (!waits && owed > 0)
			owed = 0;
		policy->owed[c] = owed > most ? most : owed;
	}
}
