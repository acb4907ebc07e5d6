/*
 * protect.c
 *	  Loops over the rows of a batch, in which errors are kept.
 *
 * An expression is evaluated for rows that may never be asked for, so its error is kept.  Where
 * arguments, guards or quals can raise errors they run in a subtransaction, one for a whole
 * loop over rows unless one fails.  Not where none can be had (subplans, whose nodes do not
 * survive an error; parallel mode, but for workers from 17 on): there an error is raised at once.
 * Neither are errors kept that concern the session and not the row: cancellation, resources, deadlocks.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "node.h"

bool
infer_batch_error_is_rows(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case MAKE_SQLSTATE('0', '8', '0', '0', '0'):	/* connection */
		case MAKE_SQLSTATE('4', '0', '0', '0', '0'):	/* transaction rollback */
		case MAKE_SQLSTATE('5', '3', '0', '0', '0'):	/* resources */
		case MAKE_SQLSTATE('5', '7', '0', '0', '0'):	/* operator intervention */
		case MAKE_SQLSTATE('5', '8', '0', '0', '0'):	/* system */
		case MAKE_SQLSTATE('X', 'X', '0', '0', '0'):	/* internal */
			return false;
		default:
			return true;
	}
}

void
infer_batch_keep_error(Batch *batch, int stage, int row)
{
	MemoryContextSwitchTo(batch->context);
	batch->errors[row] = CopyErrorData();
	batch->failed_in[row] = stage;
	FlushErrorState();
}

static bool
loop_rows(InferBatchState *node, Batch *batch, RowLoop *loop, int last)
{
	for (; loop->place < last; loop->place++)
	{
		int			row = batch->live[loop->place];

		CHECK_FOR_INTERRUPTS();
		if (batch->errors[row] == NULL && !loop->step(node, batch, loop->what, row))
			return false;
	}
	return true;
}

static bool
loop_protected(InferBatchState *node, Batch *batch, RowLoop *loop)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool whole = true;
	volatile bool failed;

	do
	{
		failed = false;
		BeginInternalSubTransaction(NULL);
		MemoryContextSwitchTo(context);
		PG_TRY();
		{
			whole = loop_rows(node, batch, loop, loop->last);
			ReleaseCurrentSubTransaction();
		}
		PG_CATCH();
		{
			if (!infer_batch_error_is_rows(geterrcode()))
				PG_RE_THROW();
			infer_batch_keep_error(batch, loop->stage, batch->live[loop->place]);
			RollbackAndReleaseCurrentSubTransaction();
			failed = true;
			loop->place++;
		}
		PG_END_TRY();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	} while (failed);
	return whole;
}

/* Whether an evaluation may run an InitPlan, whose nodes would not survive an error. */
static bool
may_run_initplan(const InferBatchState *node)
{
	int			param = -1;

	while ((param = bms_next_member(node->params, param)) >= 0)
		if (node->css.ss.ps.state->es_param_exec_vals[param].execPlan != NULL)
			return true;
	return false;
}

/* Unprotected until the InitPlans have run, which the first row does as a rule. */
bool
infer_batch_run_rows(InferBatchState *node, Batch *batch, RowLoop *loop)
{
	if (!loop->protect || !infer_can_subtransact())
		return loop_rows(node, batch, loop, loop->last);
	while (loop->place < loop->last && may_run_initplan(node))
		if (!loop_rows(node, batch, loop, loop->place + 1))
			return false;
	return loop_protected(node, batch, loop);
}
