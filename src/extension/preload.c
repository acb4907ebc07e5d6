/*
 * preload.c
 *	  infer.preload: models that are loaded before anybody calls them.
 *
 * Nouns
 *	entry		database.model or database.model@version in the list
 *	pass		what follows each start of an engine: every database of the list, once
 *	worker		a dynamic background worker for one database; the supervisor runs one at a time,
 *				so that the list takes one of max_worker_processes, however long it is
 *	retry		a worker's word, left in shared memory, that it had to leave early and why it
 *				is no fault of the list: the database's lock, a standby's conflict
 *
 * Loop
 *	Supervisor: when an engine is ready, want every database; start a worker for the first
 *	that is wanted and due; when it has ended, take the next.
 *	Worker: connect; for each model of its database resolve the name in a short
 *	transaction, have the engine load it outside of any, and say so if that fails.
 *
 * Invariants
 *	- While the engine loads, the worker holds no transaction, snapshot or lock; only files that
 *	  are not in the cache are written in one.
 *	- Whoever wants the database for himself (DROP DATABASE) gets it: the worker looks twice
 *	  a second and leaves.
 *	- Nothing is tried for ever: ATTEMPTS_MAX times in a pass, and a model whose load has ended
 *	  an engine not at all until infer.load_model.
 */
#include "postgres.h"

#include "infer.h"

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

#include "catalog.h"
#include "client.h"
#include "preload.h"

#define WORKER_TYPE		"infer preload"
#define POLL_INTERVAL	50			/* ms between looks at a worker that runs */
#define RETRY_FIRST		500			/* ms, then twice that and so on */
#define RETRY_MAX		60000		/* ms */
#define ATTEMPTS_MAX	10			/* for one database in one pass: some four minutes */
#define LOAD_TIME		"10min"		/* infer.timeout of a worker: nobody waits for it */
#define LOCK_TIME		"10s"

extern PGDLLEXPORT void infer_preload_main(Datum arg);

/* ---- the list ---- */

#define MODEL_MAX (NAMEDATALEN + 12)	/* name@version */

typedef struct Entry
{
	char		database[NAMEDATALEN];
	char		model[MODEL_MAX];
} Entry;

enum EntryEnd { ENTRY_FOUND, ENTRY_NONE, ENTRY_BAD };

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/*
 * A name at *p, as an identifier in SQL: in double quotes as it is, else in lower case up to a
 * character that cannot stand there.  Returns what is wrong with it, or NULL.
 */
static const char *
read_name(const char **p, const char *stops, char name[NAMEDATALEN])
{
	const char *c = *p;
	bool		quoted = *c == '"';
	int			length = 0;

	if (quoted)
		c++;
	for (;; c++)
	{
		if (quoted && *c == '\0')
			return "a name in double quotes does not end";
		if (quoted && *c == '"' && *++c != '"')
			break;
		if (!quoted && (*c == '\0' || is_space(*c) || strchr(stops, *c) != NULL))
			break;
		if (length == NAMEDATALEN - 1)
			return "a name is too long";
		name[length++] = quoted ? *c : pg_ascii_tolower((unsigned char) *c);
	}
	name[length] = '\0';
	*p = c;
	return length == 0 ? "a name is missing" : NULL;
}

/* The version behind a model's name, appended to it. */
static const char *
read_version(const char **p, char model[MODEL_MAX])
{
	const char *digits = ++*p;
	int64		version = 0;

	while (**p >= '0' && **p <= '9' && version <= PG_INT32_MAX)
		version = version * 10 + *(*p)++ - '0';
	if (*digits == '0' || version < 1 || version > PG_INT32_MAX)
		return "a version is no number above 0";
	snprintf(model + strlen(model), MODEL_MAX - strlen(model), "@%d", (int) version);
	return NULL;
}

/* The entry at *p, behind which *p then stands.  first: nothing need separate it. */
static enum EntryEnd
next_entry(const char **p, bool first, Entry *entry, const char **problem)
{
	while (is_space(**p))
		(*p)++;
	if (**p == '\0')
		return ENTRY_NONE;
	if (!first)
	{
		*problem = "a comma is missing";
		if (**p != ',')
			return ENTRY_BAD;
		(*p)++;
		while (is_space(**p))
			(*p)++;
	}
	*problem = read_name(p, ".,\"", entry->database);
	if (*problem == NULL && **p != '.')
		*problem = "a dot between database and model is missing";
	if (*problem != NULL)
		return ENTRY_BAD;
	(*p)++;
	*problem = read_name(p, ".,@\"", entry->model);
	if (*problem == NULL && **p == '@')
		*problem = read_version(p, entry->model);
	if (*problem == NULL && **p != '\0' && **p != ',' && !is_space(**p))
		*problem = "something follows the model";
	return *problem == NULL ? ENTRY_FOUND : ENTRY_BAD;
}

bool
infer_preload_check(char **newval, void **extra, GucSource source)
{
	const char *p = *newval;
	const char *problem;
	Entry		entry;

	for (int number = 1;; number++)
	{
		switch (next_entry(&p, number == 1, &entry, &problem))
		{
			case ENTRY_FOUND:
				break;
			case ENTRY_NONE:
				return true;
			case ENTRY_BAD:
				GUC_check_errdetail("In entry %d, %s.", number, problem);
				GUC_check_errhint("Write database.model or database.model@version, with commas between them, and double quotes around names with other characters than lower-case letters, digits, _ and -.");
				return false;
		}
	}
}

/* ---- in the supervisor ---- */

typedef struct Database
{
	char		name[NAMEDATALEN];
	bool		wanted;				/* by this pass, and no worker has been started */
	int			attempts;			/* of this pass */
	TimestampTz due;
} Database;

static Database *databases = NULL;
static int	databases_count = 0;
static BackgroundWorkerHandle *running = NULL;
static Database *running_in;

/* Each database of the list once, in its order. */
static void
read_databases(void)
{
	const char *p = infer_preload;
	const char *problem;
	Entry		entry;
	bool		first = true;

	while (next_entry(&p, first, &entry, &problem) == ENTRY_FOUND)
	{
		int			i = 0;

		first = false;
		while (i < databases_count && strcmp(databases[i].name, entry.database) != 0)
			i++;
		if (i < databases_count)
			continue;
		databases_count++;
		if (databases == NULL)
			databases = MemoryContextAllocZero(TopMemoryContext, sizeof(Database));
		else
			databases = repalloc(databases, databases_count * sizeof(Database));
		memset(&databases[i], 0, sizeof(Database));
		strlcpy(databases[i].name, entry.database, NAMEDATALEN);
	}
}

void
infer_preload_begin(void)
{
	if (databases == NULL)
		read_databases();
	for (int i = 0; i < databases_count; i++)
	{
		databases[i].wanted = true;
		databases[i].attempts = 0;
		databases[i].due = 0;
	}
}

/* Later again, if not too often; returns whether. */
static bool
put_off(Database *database, TimestampTz now)
{
	int			delay = RETRY_FIRST;

	for (int i = 0; i < database->attempts && delay < RETRY_MAX; i++)
		delay *= 2;
	database->wanted = ++database->attempts < ATTEMPTS_MAX;
	database->due = TimestampTzPlusMilliseconds(now, Min(delay, RETRY_MAX));
	return database->wanted;
}

static void
start_worker(Database *database, TimestampTz now)
{
	BackgroundWorker worker;
	MemoryContext old;
	bool		started;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "infer", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "infer_preload_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, WORKER_TYPE " %s", database->name);
	strlcpy(worker.bgw_type, WORKER_TYPE, BGW_MAXLEN);
	strlcpy(worker.bgw_extra, database->name, BGW_EXTRALEN);

	old = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &running);
	MemoryContextSwitchTo(old);
	database->wanted = false;
	if (started)
	{
		running_in = database;
		return;
	}
	running = NULL;
	if (!put_off(database, now))
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("infer: gave up preloading models of database \"%s\"", database->name),
				 errdetail("No background worker slot was free %d times.", ATTEMPTS_MAX),
				 errhint("Raise max_worker_processes.")));
	else if (database->attempts == 1)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("infer: models of database \"%s\" are not preloaded yet", database->name),
				 errdetail("No background worker slot is free."),
				 errhint("Raise max_worker_processes.")));
}

/* Whether the worker that ended asked for another. */
static bool
take_retry(void)
{
	bool		retry;

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	retry = infer_shared->preload_retry;
	infer_shared->preload_retry = false;
	LWLockRelease(infer_shared->lock);
	return retry;
}

static bool
worker_ended(TimestampTz now)
{
	pid_t		pid;

	if (GetBackgroundWorkerPid(running, &pid) != BGWH_STOPPED)
		return false;
	pfree(running);
	running = NULL;
	if (take_retry() && !put_off(running_in, now))
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("infer: gave up preloading models of database \"%s\"", running_in->name),
				 errdetail("It was in use otherwise %d times.", ATTEMPTS_MAX),
				 errhint("Load them with infer.load_model().")));
	return true;
}

long
infer_preload_round(TimestampTz now)
{
	long		wait = -1;

	if (running != NULL && !worker_ended(now))
		return POLL_INTERVAL;
	for (int i = 0; i < databases_count; i++)
	{
		Database   *database = &databases[i];

		if (!database->wanted)
			continue;
		if (database->due <= now)
			start_worker(database, now);
		if (running != NULL)
			return POLL_INTERVAL;
		if (database->wanted)
		{
			long		left = TimestampDifferenceMilliseconds(now, database->due);

			wait = wait < 0 ? left : Min(wait, left);
		}
	}
	return wait;
}

/* ---- in the worker ---- */

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
	while (!worker_retries && next_entry(&p, first, &entry, &problem) == ENTRY_FOUND)
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
