/*
 * explain.c
 *	  What EXPLAIN shows of the node InferBatch.
 *
 *	Infer: infer.classify('tumour'::text, tumours.*)
 *	Calls: 9990  Reused: 0  Batches: 40  Queue Time: 1.2 ms  Device Time: 83.4 ms  Device: cpu
 *
 * Of models that read texts with "Tokens: 81512" after the batches.
 *
 * The second line only with ANALYZE; other formats have a property for each of its parts.
 * Nothing here asks the engine.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"

#include "node.h"

static List *
calls_as_text(InferBatchState *node, List *ancestors, ExplainState *es)
{
	CustomScan *scan = (CustomScan *) node->css.ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, &scan->scan.plan, ancestors);
	bool		prefix = list_length(es->rtable) > 1 || es->verbose;
	List	   *texts = NIL;

	for (int i = 0; i < node->calls_count; i++)
	{
		TargetEntry *entry = list_nth(scan->custom_scan_tlist, node->child_columns + i);
		char	   *text = deparse_expression((Node *) entry->expr, context, prefix, false);

		texts = lappend(texts, node->calls[i].plan.guard == NULL ? text : psprintf("%s (conditional)", text));
	}
	return texts;
}

static void
show_counters_as_text(const InferSiteCounters *counters, ExplainState *es)
{
	appendStringInfoSpaces(es->str, es->indent * 2);
	appendStringInfo(es->str, "Calls: %lld  Reused: %lld  Batches: %lld",
					 (long long) counters->calls, (long long) counters->reused, (long long) counters->batches);
	if (counters->tokens > 0)
		appendStringInfo(es->str, "  Tokens: %lld", (long long) counters->tokens);
	appendStringInfo(es->str, "  Queue Time: %.1f ms  Device Time: %.1f ms",
					 counters->queue_nsec / 1e6, counters->device_nsec / 1e6);
	if (counters->device[0] != '\0')
		appendStringInfo(es->str, "  Device: %s", counters->device);
	appendStringInfoChar(es->str, '\n');
}

static void
show_counters(const InferSiteCounters *counters, ExplainState *es)
{
	ExplainPropertyInteger("Calls", NULL, counters->calls, es);
	ExplainPropertyInteger("Reused", NULL, counters->reused, es);
	ExplainPropertyInteger("Batches", NULL, counters->batches, es);
	if (counters->tokens > 0)
		ExplainPropertyInteger("Tokens", NULL, counters->tokens, es);
	ExplainPropertyFloat("Queue Time", "ms", counters->queue_nsec / 1e6, 3, es);
	ExplainPropertyFloat("Device Time", "ms", counters->device_nsec / 1e6, 3, es);
	if (counters->device[0] != '\0')
		ExplainPropertyText("Device", counters->device, es);
}

void
infer_batch_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	InferBatchState *node = (InferBatchState *) css;
	InferSiteCounters counters;

	ExplainPropertyList("Infer", calls_as_text(node, ancestors, es), es);
	if (!es->analyze)
		return;
	infer_batch_counters(node, &counters);
	if (es->format == EXPLAIN_FORMAT_TEXT)
		show_counters_as_text(&counters, es);
	else
		show_counters(&counters, es);
}
