/*
 * workers.c
 *	  What a node has done, counted over parallel workers, and whose numerics its results are.
 *
 * Each process counts for itself.  When a worker's node is shut down it adds its counters to those in
 * shared memory, and the leader's takes the sum before that memory goes.  Results of all are of one numerics: that of
 * whichever answer came first.  Before its own answers are taken, a process hears of it, so they fail as those of its own
 * scope do; afterwards it looks again, for another process may have taken its first ones at the same time.
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
	infer_batch_share_scope((InferBatchState *) css);
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

void
infer_batch_share_scope(InferBatchState *node)
{
	NodeShared *shared = node->shared;
	InferScope *own = &node->scope;
	char		first[INFER_NUMERICS_MAX];

	if (shared == NULL)
		return;
	SpinLockAcquire(&shared->mutex);
	if (shared->numerics_id[0] == '\0')
		memcpy(shared->numerics_id, own->numerics_id, sizeof(first));
	memcpy(first, shared->numerics_id, sizeof(first));
	SpinLockRelease(&shared->mutex);
	if (own->numerics_id[0] == '\0')
		memcpy(own->numerics_id, first, sizeof(first));
	if (strcmp(own->numerics_id, first) == 0)
		return;
	memcpy(own->refused, own->numerics_id, sizeof(first));
	memcpy(own->numerics_id, first, sizeof(first));
	infer_client_scope_check(own);
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
	infer_batch_share_scope(node);
	SpinLockAcquire(&shared->mutex);
	if (IsParallelWorker())
		add_counters(&shared->counters, &own);
	else
		add_counters(&node->reported, &shared->counters);
	SpinLockRelease(&shared->mutex);
	node->shared = NULL;
}
