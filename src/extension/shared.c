/*
 * shared.c
 *	  The shared memory of the extension, and the error for a library that has none.
 *
 * One struct InferShared, filled by the supervisor (engine_*, supervisor_*) and by
 * backends (restart_requested, guilty, measured), and by preload.c's workers (preload_retry); its
 * lock protects all of it but the atomics.
 */
#include "postgres.h"

#include "infer.h"

#include "compat.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#define TRANCHE_NAME "infer"

InferShared *infer_shared = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shared_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(MAXALIGN(sizeof(InferShared)));
	RequestNamedLWLockTranche(TRANCHE_NAME, 1);
}

static void
init_measured(void)
{
	for (int i = 0; i < INFER_MEASURED_MAX; i++)
	{
		InferMeasured *measured = &infer_shared->measured[i];

		pg_atomic_init_u64(&measured->model, 0);
		for (int time = 0; time < INFER_ROW_TIMES; time++)
			pg_atomic_init_u64(&measured->nsec[time], 0);
		pg_atomic_init_u32(&measured->used, 0);
	}
}

/* Runs again after a crash restart, on fresh memory. */
static void
shared_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	infer_shared = ShmemInitStruct("infer", sizeof(InferShared), &found);
	if (!found)
	{
		memset(infer_shared, 0, sizeof(InferShared));
		infer_shared->lock = &GetNamedLWLockTranche(TRANCHE_NAME)->lock;
		init_measured();
	}
	LWLockRelease(AddinShmemInitLock);
}

void
infer_shared_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shared_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shared_startup;
}

void
infer_require_preload(void)
{
	if (infer_shared != NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("infer must be loaded when the server starts"),
			 errdetail("The engine is started, and its settings are read, by a library that is in \"shared_preload_libraries\"."),
			 errhint("Add the line shared_preload_libraries = 'infer' to postgresql.conf (or append infer to the list there) and restart the server.")));
}
