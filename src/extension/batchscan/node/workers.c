/*
 * workers.c
 *	  What a node has done, counted over parallel workers.
 *
 * Each process counts for itself.  When a worker's node is shut down it adds its counters to those in
 * shared memory, and the leader's takes the sum before that memory goes.
 */
#include "postgres.h"

#include "node.h"

Size
infer_batch_estimate_shared(CustomScanState *css, ParallelContext *context)
{
	return sizeof(NodeShared);
}

void
infer_batch_init_shared(CustomScanState *css, ParallelContext *context, void *place)
{
	NodeShared *shared = place;

	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->mutex);
	((InferBatchState *) css)->shared = shared;
}

void
infer_batch_reinit_shared(CustomScanState *css, ParallelContext *context, void *place)
{
}

void
infer_batch_init_worker(CustomScanState *css, shm_toc *toc, void *place)
{
	((InferBatchState *) css)->shared = place;
}

static void
add_counters(InferSiteCounters *sum, const InferSiteCounters *one)
{
	sum->calls += one->calls;
	sum->reused += one->reused;
	sum->batches += one->batches;
	sum->tokens += one->tokens;
	sum->queue_nsec += one->queue_nsec;
	sum->device_nsec += one->device_nsec;
	if (one->device[0] != '\0')
		memcpy(sum->device, one->device, sizeof(sum->device));
}

void
infer_batch_counters(const InferBatchState *node, InferSiteCounters *sum)
{
	*sum = node->reported;
	for (int i = 0; i < node->calls_count; i++)
		if (node->calls[i].site != NULL)
		{
			InferSiteCounters one;

			infer_site_counters(node->calls[i].site, &one);
			add_counters(sum, &one);
		}
}

/*
 * Workers hand their counters over; the leader takes them before the memory goes.  It does so once:
 * a node below a subquery that two expressions share is shut down for each of them.
 */
void
infer_batch_shutdown(CustomScanState *css)
{
	InferBatchState *node = (InferBatchState *) css;
	NodeShared *shared = node->shared;
	InferSiteCounters own;

	if (shared == NULL)
		return;
	infer_batch_counters(node, &own);
	SpinLockAcquire(&shared->mutex);
	if (IsParallelWorker())
		add_counters(&shared->counters, &own);
	else
		add_counters(&node->reported, &shared->counters);
	SpinLockRelease(&shared->mutex);
	node->shared = NULL;
}
