/*
 * share.c
 *	  The guaranteed share of the lower classes.
 *
 * A lower class that waits, or is suspended between two segments, is owed share percent of
 * all device time that passes; what it gets is taken off.  When it is owed its next batch it
 * goes before higher classes.  What it gets while nothing higher waits is for nothing, and
 * what it is owed is bounded: a class cannot save up to hold others off.  A class that got more
 * than it was owed, by a row that cannot be cut, pays that off before it is owed again.
 * Whatever the share, of what all classes want the higher ones keep their part.
 */
#include "policy.h"

#include "../../../protocol/protocol.h"

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

static bool
waits(const struct batch_policy *policy, uint32_t class_)
{
	return policy->rows_class[class_] > 0 || policy->suspended[class_] > 0;
}

/* Percent: not more than leaves as much to the classes that are owed nothing. */
static uint64_t
share_now(const struct batch_policy *policy)
{
	uint32_t	claimants = 1;

	for (uint32_t c = INFER_CLASS_STATEMENT; c < BATCH_CLASSES; c++)
		claimants += waits(policy, c);
	return policy->share < 100 / claimants ? policy->share : 100 / claimants;
}

void
share_charge(struct batch_policy *policy, const struct batch *batch, uint64_t nsec)
{
	int64_t		most = policy->slice > 0 ? 2 * (int64_t) policy->slice : OWED_MAX;
	int64_t		earned = (int64_t) (nsec * share_now(policy) / 100);

	for (uint32_t c = INFER_CLASS_STATEMENT; c < BATCH_CLASSES; c++)
	{
		uint64_t	own = batch->rows_class[c] == 0 ? 0 : batch_part(batch, batch->cost_class[c], nsec);
		int64_t		before = policy->owed[c];
		int64_t		owed = before - (int64_t) own;
		int64_t		floor = before < 0 ? before : 0;

		if (waits(policy, c) || own > 0 || before < 0)
			owed += earned;
		if (batch->unopposed && owed < floor)
			owed = floor;
		if (!waits(policy, c) && owed > 0)
			owed = 0;
		policy->owed[c] = owed > most ? most : owed;
	}
}
