/*
 * shared.c
 *	  The shared memory of the extension, and the error for a library that has none.
 *
 * Parts, one of each module that has something to share; they are made together.  The extension's own is
 * one struct InferShared, filled by the supervisor (engine_*, supervisor_*) and by
 * backends (restart_requested, guilty, measured), and by workers of preload/ (preload_retry); its
 * lock protects all of it but the atomics.
 */
#include "postgres.h"

#include "infer.h"

#include "compat.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#define PARTS_MAX	4

typedef struct Part
{
	const char *name;				/* of the memory, and of its lock's tranche */
	Size		size;
	void	  **memory;
	void		(*init) (void *memory, LWLock *lock);
} Part;

InferShared *infer_shared = NULL;

static Part parts[PARTS_MAX];
static int	parts_count = 0;
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shared_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < parts_count; i++)
	{
		RequestAddinShmemSpace(MAXALIGN(parts[i].size));
		RequestNamedLWLockTranche(parts[i].name, 1);
	}
}

/* Runs again after a crash restart, on fresh memory. */
static void
shared_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < parts_count; i++)
	{
		const Part *part = &parts[i];
		bool		found;

		*part->memory = ShmemInitStruct(part->name, part->size, &found);
		if (found)
			continue;
		memset(*part->memory, 0, part->size);
		part->init(*part->memory, &GetNamedLWLockTranche(part->name)->lock);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
infer_shared_add(const char *name, Size size, void **memory, void (*init) (void *memory, LWLock *lock))
{
	Assert(process_shared_preload_libraries_in_progress && parts_count < PARTS_MAX);
	parts[parts_count++] = (Part) {name, size, memory, init};
}

/* ---- the extension's own ---- */

static void
init_shared(void *memory, LWLock *lock)
{
	InferShared *shared = memory;

	shared->lock = lock;
	for (int i = 0; i < INFER_MEASURED_MAX; i++)
	{
		InferMeasured *measured = &shared->measured[i];

		pg_atomic_init_u64(&measured->model, 0);
		for (int time = 0; time < INFER_ROW_TIMES; time++)
			pg_atomic_init_u64(&measured->nsec[time], 0);
		pg_atomic_init_u32(&measured->used, 0);
	}
}

void
infer_shared_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	infer_shared_add("infer", sizeof(InferShared), (void **) &infer_shared, init_shared);
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
