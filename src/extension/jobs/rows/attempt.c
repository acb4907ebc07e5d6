/*
 * attempt.c
 *	  Steps that may fail: the transaction goes on without what they did.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "rows.h"

ErrorData *
job_attempt(void (*step) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		step(arg);
		MemoryContextSwitchTo(context);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/* What a row's values can be the reason of, in an expression that is evaluated for it. */
bool
job_error_may_be_of_row(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_TO_CATEGORY(ERRCODE_CARDINALITY_VIOLATION):
		case ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION):
		case ERRCODE_TO_CATEGORY(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_EXTERNAL_ROUTINE_INVOCATION_EXCEPTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_PROGRAM_LIMIT_EXCEEDED):
		case ERRCODE_TO_CATEGORY(ERRCODE_PLPGSQL_ERROR):
			return true;
	}
	return false;
}
