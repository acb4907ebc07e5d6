/*
 * stretch.c
 *	  How much longer than predicted a model's batches may take, and so how much shorter bulk work's must be
 *	  for calls to wait no more than a slice.
 *
 * Predictions are means.  What a call waits for is whatever batch runs when it comes; where other
 * processes take cores from the engine now and then, some take twice as long.  A model's stretch
 * is the ratio that about 3 % of its batches exceed: it rises with each that does, and sinks with each that
 * does not, by as much less.  So it is up within a tenth of a second, and down after some seconds of quiet.
 *
 * Bulk rows then have as much less time of a batch, but no less than its constant part, as far as they had that: batches
 * of few rows would be all constant part.
 */
#include "policy.h"

#define MOST		1667			/* shorter batches would be many: each has its wakings */
#define UP			64
#define DOWN		2
#define TOLD_PART	16				/* of a slice: what is shorter is jitter, and delays nobody */

void
batch_took(const struct batch_policy *policy, struct batch_model *model, uint64_t predicted, uint64_t nsec)
{
	if (predicted == 0 || predicted < policy->slice / TOLD_PART)
		return;
	if ((unsigned __int128) nsec * BATCH_AS_PREDICTED > (unsigned __int128) predicted * model->stretch)
		model->stretch += model->stretch + UP <= MOST ? UP : MOST - model->stretch;
	else
		model->stretch -= model->stretch >= BATCH_AS_PREDICTED + DOWN ? DOWN : model->stretch - BATCH_AS_PREDICTED;
}

uint64_t
stretch_slice(const struct batch_policy *policy, const struct batch_model *model)
{
	return model->stretch > BATCH_AS_PREDICTED ? policy->slice * BATCH_AS_PREDICTED / model->stretch : policy->slice;
}

uint64_t
stretch_worth(const struct batch_model *model, uint64_t nsec, uint64_t less)
{
	uint64_t	worth = nsec < model->nsec_batch ? nsec : model->nsec_batch;

	return less > worth ? less : worth;
}
