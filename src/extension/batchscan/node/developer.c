/*
 * developer.c
 *	  Builds for developers: the node computes any function that is not volatile, so that tests
 *	  which know nothing of models run through it (infer.debug_batch_all).
 */
#include "postgres.h"

#ifdef INFER_DEVELOPER

#include "fmgr.h"
#include "nodes/nodeFuncs.h"

#include "node.h"

typedef struct NodeFunction
{
	FmgrInfo	function;
	FunctionCallInfo fcinfo;
} NodeFunction;

void
infer_batch_function_init(InferBatchState *node, NodeCall *call)
{
	Node	   *expression = (Node *) call->plan.call;
	Oid			oid = infer_called_function(expression);
	int			count = list_length(call->plan.args);
	NodeFunction *function = palloc0(sizeof(NodeFunction));

	fmgr_info(oid, &function->function);
	fmgr_info_set_expr(expression, &function->function);
	function->fcinfo = palloc0(SizeForFunctionCallInfo(count));
	InitFunctionCallInfoData(*function->fcinfo, &function->function, count,
							 exprInputCollation(expression), NULL, NULL);
	call->function = function;
}

Datum
infer_batch_function_run(NodeCall *call, bool *null)
{
	FunctionCallInfo fcinfo = call->function->fcinfo;
	Datum		value;

	for (int i = 0; i < call->arguments_count; i++)
	{
		fcinfo->args[i].value = call->values[i];
		fcinfo->args[i].isnull = call->nulls[i];
		if (call->nulls[i] && call->function->function.fn_strict)
		{
			*null = true;
			return (Datum) 0;
		}
	}
	fcinfo->isnull = false;
	value = FunctionCallInvoke(fcinfo);
	*null = fcinfo->isnull;
	return value;
}

#endif							/* INFER_DEVELOPER */
