/*
 * run.h
 *	  A batch's rows through their model, whatever fails: each row has its result or its
 *	  error in the end, unless the device is lost.
 */
#ifndef ENGINE_SCHEDULER_RUN_H
#define ENGINE_SCHEDULER_RUN_H

#include "../engine.h"

enum run_result
{
	RUN_WHOLE,						/* the batch ran at once */
	RUN_PARTS,						/* some of it did */
	RUN_REFUSED,					/* the device took no part of it */
	RUN_UNWANTED					/* it was given up between two segments: nobody wants it */
};

/*
 * The turn's lane is the caller's, no lock is held.  If a batch fails, memory is made by
 * evicting idle models (once), and the batch is run in halves, down to single rows, whose
 * failure is theirs.  A lost device ends the process: calls in flight are sent again to
 * the next one.
 */
extern enum run_result run_slices(struct turn *turn);

/* Ends the process if the status is that of a lost device, wherever that was noticed. */
extern void run_lost(const struct status *status);

#endif							/* ENGINE_SCHEDULER_RUN_H */
