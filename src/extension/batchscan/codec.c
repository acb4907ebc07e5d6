/*
 * codec.c
 *	  BatchInfo as nodes: plans are copied, kept in caches, and sent to parallel workers as text.
 *
 *	custom_exprs	for each call: (call, guard or NULL).  The call's arguments are those over
 *					INDEX_VAR.
 *	custom_private	(stages of the calls, (drained, one_by_one), bound)
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"

#include "batchscan.h"
#include "rewrite/rewrite.h"

void
infer_batch_put(CustomScan *scan, const BatchInfo *info)
{
	List	   *calls = NIL;
	List	   *stages = NIL;
	ListCell   *cell;

	foreach(cell, info->calls)
	{
		BatchCall  *call = lfirst(cell);

		Assert(infer_call_arguments((Node *) call->call) == call->args);
		calls = lappend(calls, list_make2(call->call, call->guard));
		stages = lappend_int(stages, call->stage);
	}
	scan->custom_exprs = calls;
	scan->custom_private = list_make3(stages,
									  list_make2_int(info->drained, info->one_by_one),
									  makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
												Int64GetDatum(info->bound), false, FLOAT8PASSBYVAL));
}

void
infer_batch_get(const CustomScan *scan, BatchInfo *info)
{
	List	   *stages = linitial(scan->custom_private);
	List	   *flags = lsecond(scan->custom_private);
	ListCell   *cell;
	ListCell   *stage;

	info->calls = NIL;
	forboth(cell, scan->custom_exprs, stage, stages)
	{
		List	   *parts = lfirst(cell);
		BatchCall  *call = palloc(sizeof(BatchCall));

		call->call = linitial(parts);
		call->args = infer_call_arguments((Node *) call->call);
		call->guard = lsecond(parts);
		call->stage = lfirst_int(stage);
		info->calls = lappend(info->calls, call);
	}
	info->drained = linitial_int(flags) != 0;
	info->one_by_one = lsecond_int(flags) != 0;
	info->bound = DatumGetInt64(lthird_node(Const, scan->custom_private)->constvalue);
}
