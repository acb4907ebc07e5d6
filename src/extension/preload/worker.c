/*
 * worker.c
 *	  The background worker that has the engine load the models of one database.
 *
 * Invariants
 *	- While the engine loads, the worker holds no transaction, snapshot or lock; only files that
 *	  are not in the cache are written in one.
 *	- Whoever wants the database for himself (DROP DATABASE) gets it: the worker looks twice
 *	  a second and leaves.
 *	- A model whose load has ended an engine is not tried at all until infer.load_model.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/extension.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "../catalog.h"
#include "../client.h"
#include "internal.h"

#define LOAD_TIME		"10min"		/* infer.timeout of a worker: nobody waits for it */
#define LOCK_TIME		"10s"

extern PGDLLEXPORT void infer_preload_main(Datum arg);

static char worker_database[NAMEDATALEN];
static bool worker_retries;			/* left to the supervisor at the end */
static emit_log_hook_type prev_emit_log_hook = NULL;

static void
worker_exit(int code, Datum arg)
{
	if (!worker_retries)
		return;
	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	infer_shared->preload_retry = true;
	LWLockRelease(infer_shared->lock);
}

/*
 * A database that is not there, or lets nobody in, ends a process that connects to it; what
 * the log says of it shall be ours: a warning that names the setting.  The texts are freed
 * by the caller.
 */
static void
explain_fatal(ErrorData *edata)
{
	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
	if (edata->elevel != FATAL || edata->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
		return;
	if (edata->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE || edata->sqlerrcode == ERRCODE_CANNOT_CONNECT_NOW)
		worker_retries = true;
	edata->elevel = WARNING;
	if (edata->detail == NULL)
		edata->detail = psprintf("%s.", edata->message);
	edata->message = psprintf("infer: could not preload models of database \"%s\"", worker_database);
	edata->hint = pstrdup(worker_retries ? "It is tried again." :
						  edata->sqlerrcode == ERRCODE_UNDEFINED_DATABASE ? "Create the database, or correct infer.preload." :
						  "Let it accept connections, or take it out of infer.preload.");
}

/*
 * Called while the engine is waited for.  A lock that somebody holds who wants the database for
 * himself cannot be had; he waits no longer than a few seconds for us to go.
 */
static void
yield_database(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL)
	{
		LockRelease(&tag, RowExclusiveLock, true);
		return;
	}
	worker_retries = true;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("database \"%s\" is wanted by another session", worker_database)));
}

static InferModel *
resolve(const char *name, MemoryContext context)
{
	InferModel *model;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	(void) pg_verifymbstr(name, strlen(name), false);
	if (!OidIsValid(get_extension_oid("infer", true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"infer\" is not installed in database \"%s\"", worker_database),
				 errhint("Run CREATE EXTENSION infer there, or correct infer.preload.")));
	model = infer_model_resolve(name, context);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return model;
}

static void
load(const char *name, MemoryContext context)
{
	InferModel *model = resolve(name, context);

	if (infer_client_is_suspect(model))
		ereport(ERROR,
				(errcode(ERRCODE_INFER_MODEL_DISABLED),
				 errmsg("it has ended the engine before"),
				 errhint("Look into the server's log for the reason; infer.load_model() tries it again.")));
	infer_client_load(model, 0, NULL, context);
}

/* The error is why a model is not loaded: no more than a warning, to go on with the next. */
static void
report(const char *name, const ErrorData *edata)
{
	ereport(worker_retries ? LOG : WARNING,
			(errcode(edata->sqlerrcode),
			 errmsg("infer: could not preload model \"%s\" of database \"%s\"", name, worker_database),
			 edata->detail != NULL ? errdetail("%s: %s", edata->message, edata->detail) : errdetail("%s.", edata->message),
			 worker_retries ? errhint("It is tried again.") :
			 edata->hint != NULL ? errhint("%s", edata->hint) :
			 errhint("Load it with infer.load_model() when the reason is gone.")));
}

static bool
load_or_report(const char *name, MemoryContext context)
{
	char	   *activity;
	volatile bool loaded = false;

	MemoryContextSwitchTo(context);
	activity = psprintf("preloading model \"%s\"", name);
	pgstat_report_activity(STATE_RUNNING, activity);
	PG_TRY();
	{
		load(name, context);
		loaded = true;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		if (edata->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE || edata->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
			worker_retries = true;
		MemoryContextSwitchTo(context);
		report(name, edata);
	}
	PG_END_TRY();
	pgstat_report_activity(STATE_IDLE, NULL);
	MemoryContextSwitchTo(TopMemoryContext);
	MemoryContextReset(context);
	return loaded;
}

static void
worker_begin(void)
{
	strlcpy(worker_database, MyBgworkerEntry->bgw_extra, NAMEDATALEN);
	before_shmem_exit(worker_exit, (Datum) 0);
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = explain_fatal;
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	SetConfigOption("application_name", WORKER_TYPE, PGC_USERSET, PGC_S_SESSION);
	BackgroundWorkerInitializeConnection(worker_database, NULL, 0);

	SetConfigOption("default_transaction_read_only", "on", PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("infer.timeout", LOAD_TIME, PGC_USERSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", LOCK_TIME, PGC_USERSET, PGC_S_OVERRIDE);
	infer_client_watch(yield_database);
}

void
infer_preload_main(Datum arg)
{
	MemoryContext context;
	const char *p = infer_preload;
	const char *problem;
	Entry		entry;
	int			entries = 0;
	int			loaded = 0;
	bool		first = true;

	worker_begin();
	context = AllocSetContextCreate(TopMemoryContext, "infer preload", ALLOCSET_DEFAULT_SIZES);
	while (!worker_retries && preload_next_entry(&p, first, &entry, &problem) == ENTRY_FOUND)
	{
		first = false;
		if (strcmp(entry.database, worker_database) != 0)
			continue;
		entries++;
		if (load_or_report(entry.model, context))
			loaded++;
	}
	if (!worker_retries)
		ereport(LOG,
				(errmsg("infer: preloaded %d of %d models of database \"%s\"", loaded, entries, worker_database)));
	proc_exit(0);
}
