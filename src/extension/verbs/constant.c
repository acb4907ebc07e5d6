/*
 * constant.c
 *	  Answers of single calls whose texts are constants.
 *
 * Where no node computes it, a call of constants is made for each row: ORDER BY infer.cosine_similarity(v,
 * infer.embed('m', 'words')), say, without batches.  Its answer holds for the statement, so for verbs whose
 * arguments are all varlenas the last one is kept, as long as the command, the user, the model and the
 * arguments (a parameter's value may be another the next time) are the same.  Errors are not kept.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "single.h"

typedef struct VerbRemembered
{
	MemoryContext context;			/* of the copies */
	bool		constant;			/* whether the call's arguments are, as far as the plan tells */
	uint64		checks;				/* the command's number; 0: nothing is kept */
	struct varlena *arguments[FUNC_MAX_ARGS];	/* NULL: that one was */
	Datum		result;
} VerbRemembered;

static VerbRemembered *
remembered(FunctionCallInfo fcinfo, VerbAsked *asked)
{
	VerbRemembered *kept = asked->remembered;

	if (kept == NULL)
	{
		kept = asked->remembered = MemoryContextAllocZero(asked->context, sizeof(VerbRemembered));
		kept->context = AllocSetContextCreate(asked->context, "infer constant", ALLOCSET_SMALL_SIZES);
		kept->constant = true;
		for (int i = 0; i < PG_NARGS(); i++)
			kept->constant &= get_fn_expr_arg_stable(fcinfo->flinfo, i);
	}
	return kept;
}

static bool
is_same(FunctionCallInfo fcinfo, const VerbRemembered *kept)
{
	for (int i = 0; i < PG_NARGS(); i++)
	{
		const struct varlena *given = (const struct varlena *) PG_GETARG_POINTER(i);

		if ((kept->arguments[i] == NULL) != PG_ARGISNULL(i))
			return false;
		if (!PG_ARGISNULL(i) && (VARSIZE_ANY(given) != VARSIZE_ANY(kept->arguments[i]) ||
								 memcmp(given, kept->arguments[i], VARSIZE_ANY(given)) != 0))
			return false;
	}
	return true;
}

bool
single_recall(FunctionCallInfo fcinfo, SingleCall *single)
{
	const VerbRemembered *kept = remembered(fcinfo, single->asked);

	if (!kept->constant || kept->checks != single->asked->checks || !is_same(fcinfo, kept))
		return false;
	single->result = datumCopy(kept->result, verb_by_value(single->def->verb), -1);
	return true;
}

void
single_remember(FunctionCallInfo fcinfo, const SingleCall *single)
{
	VerbRemembered *kept = single->asked->remembered;
	MemoryContext old;

	if (!kept->constant)
		return;
	kept->checks = 0;
	MemoryContextReset(kept->context);
	old = MemoryContextSwitchTo(kept->context);
	for (int i = 0; i < PG_NARGS(); i++)
		kept->arguments[i] = PG_ARGISNULL(i) ? NULL :
			(struct varlena *) DatumGetPointer(datumCopy(PG_GETARG_DATUM(i), false, -1));
	kept->result = datumCopy(single->result, verb_by_value(single->def->verb), -1);
	MemoryContextSwitchTo(old);
	kept->checks = single->asked->checks;
}
