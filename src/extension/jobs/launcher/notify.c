/*
 * notify.c
 *	  What a transaction did to jobs, told when it commits; and what a statement is about to do to their database.
 *
 * Nouns
 *	change		a database's jobs changed: the launcher looks at them; with a job: it is to be cancelled, and
 *				its runners are told
 *	prepared	a transaction with changes that is kept for COMMIT PREPARED
 *
 * Changes are kept with the nesting level that made them, as subtransactions end: committed ones become their
 * parent's, aborted ones are forgotten.
 *
 * COMMIT PREPARED runs no callbacks, and other sessions than the one that prepared run it.  So a prepared
 * transaction holds a lock, which survives restarts and which scanners try to take: until they can, the
 * database is looked at again and again; and once more whenever one has been committed by statement.
 */
#include "postgres.h"

#include "launcher.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lock.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "../../catalog/internal.h"

typedef struct Change
{
	int			level;				/* of the transaction that made it */
	Oid			database;
	int64		job;				/* to be cancelled; 0: none */
	struct Change *next;
} Change;

static Change *changes = NULL;		/* in TopTransactionContext */
static bool callbacks_registered = false;
static ProcessUtility_hook_type prev_process_utility = NULL;

/* ---- prepared transactions ---- */

/*
 * Transactions that were prepared hold it together (RowExclusiveLock); a scanner that gets ShareLock knows that
 * there is none.  No job has the number 0: see job_lock().
 */
bool
job_prepared_lock(LOCKMODE mode, bool wait)
{
	LOCKTAG		tag;
	Oid			schema = get_namespace_oid(INFER_SCHEMA, true);
	Oid			table = OidIsValid(schema) ? get_relname_relid("job", schema) : InvalidOid;

	if (!OidIsValid(table))			/* dropped in the same transaction, with its jobs */
		return true;
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, table, 0, 0);
	return LockAcquire(&tag, mode, false, !wait) != LOCKACQUIRE_NOT_AVAIL;
}

/* ---- the end of a transaction ---- */

static void
tell(void)
{
	for (Change *change = changes; change != NULL; change = change->next)
	{
		job_flag_database(change->database);
		if (change->job != 0)
			job_slots_cancel(change->database, change->job);
	}
}

static void
at_end(XactEvent event, void *arg)
{
	if (changes == NULL)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			(void) job_prepared_lock(RowExclusiveLock, true);
			break;
		case XACT_EVENT_PREPARE:
			job_flag_prepared(MyDatabaseId);
			changes = NULL;
			break;
		case XACT_EVENT_COMMIT:
			tell();
			changes = NULL;
			break;
		case XACT_EVENT_ABORT:
			changes = NULL;
			break;
		default:
			break;
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId me, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	Change	  **at = &changes;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	while (*at != NULL)
	{
		if ((*at)->level < level)
			at = &(*at)->next;
		else if (event == SUBXACT_EVENT_COMMIT_SUB)
		{
			(*at)->level = level - 1;
			at = &(*at)->next;
		}
		else
			*at = (*at)->next;
	}
}

static void
add_change(Oid database, int64 job)
{
	Change	   *change;

	if (!callbacks_registered)
	{
		RegisterXactCallback(at_end, NULL);
		RegisterSubXactCallback(at_subtransaction_end, NULL);
		callbacks_registered = true;
	}
	for (change = changes; change != NULL; change = change->next)
		if (change->database == database && change->job == job)
			return;					/* of this level or one around it */
	change = MemoryContextAlloc(TopTransactionContext, sizeof(Change));
	change->level = GetCurrentTransactionNestLevel();
	change->database = database;
	change->job = job;
	change->next = changes;
	changes = change;
}

void
infer_jobs_changed(void)
{
	add_change(MyDatabaseId, 0);
}

void
infer_jobs_cancel(int64 job)
{
	add_change(MyDatabaseId, job);
}

/* ---- statements ---- */

static bool
commits_prepared(const Node *stmt)
{
	return IsA(stmt, TransactionStmt) && ((const TransactionStmt *) stmt)->kind == TRANS_STMT_COMMIT_PREPARED;
}

/* After it, jobs may be there that nobody has looked at, or that are this version's to run. */
static bool
brings_jobs(const Node *stmt)
{
	const char *name = IsA(stmt, CreateExtensionStmt) ? ((const CreateExtensionStmt *) stmt)->extname :
		IsA(stmt, AlterExtensionStmt) ? ((const AlterExtensionStmt *) stmt)->extname : NULL;

	return name != NULL && strcmp(name, "infer") == 0;
}

/* The name of a database that was copied, or may have been opened; NULL: another statement. */
static const char *
opened_database(const Node *stmt)
{
	return IsA(stmt, CreatedbStmt) ? ((const CreatedbStmt *) stmt)->dbname :
		IsA(stmt, AlterDatabaseStmt) ? ((const AlterDatabaseStmt *) stmt)->dbname : NULL;
}

/* The last one of a name, as the server takes them; NULL: it is not given. */
static DefElem *
find_option(List *options, const char *name)
{
	DefElem    *found = NULL;
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst(lc);

		if (strcmp(option->defname, name) == 0 && option->arg != NULL)
			found = option;
	}
	return found;
}

static const char *
template_of(const CreatedbStmt *stmt)
{
	DefElem    *option = find_option(stmt->options, "template");

	return option != NULL ? defGetString(option) : "template1";
}

/* Whose files are moved; its other options need no peace. */
static const char *
moved_database(const AlterDatabaseStmt *stmt)
{
	return find_option(stmt->options, "tablespace") != NULL ? stmt->dbname : NULL;
}

/* The name of a database that nobody may be connected to, for which the statement waits a few seconds; NULL: none. */
static const char *
wanted_database(const Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_DropdbStmt:
			return ((const DropdbStmt *) stmt)->dbname;
		case T_RenameStmt:
			return ((const RenameStmt *) stmt)->renameType == OBJECT_DATABASE ? ((const RenameStmt *) stmt)->subname : NULL;
		case T_AlterDatabaseStmt:
			return moved_database((const AlterDatabaseStmt *) stmt);
		case T_CreatedbStmt:
			return template_of((const CreatedbStmt *) stmt);
		default:
			return NULL;
	}
}

static bool
is_template(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	bool		is = HeapTupleIsValid(tuple) && ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return is;
}

static bool
creates_databases(Oid role)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
	bool		does = HeapTupleIsValid(tuple) && ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return does;
}

/* Its owner may do all of it, and whoever creates databases may copy one that is marked as a template. */
static bool
may_want(const Node *stmt, Oid database)
{
	return infer_database_ownercheck(database, GetUserId()) ||
		(IsA(stmt, CreatedbStmt) && is_template(database) && creates_databases(GetUserId()));
}

/* Whoever may not do it does not hold up others' jobs. */
static void
have_way_made(const Node *stmt)
{
	const char *name = wanted_database(stmt);
	Oid			database = name != NULL ? get_database_oid(name, true) : InvalidOid;

	if (OidIsValid(database) && may_want(stmt, database))
		job_slots_make_way(database);
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *qc)
{
	bool		prepared = commits_prepared(pstmt->utilityStmt);
	bool		extension = brings_jobs(pstmt->utilityStmt);
	const char *opened = opened_database(pstmt->utilityStmt);

	have_way_made(pstmt->utilityStmt);
	if (prev_process_utility != NULL)
		prev_process_utility(pstmt, query, read_only_tree, context, params, environment, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params, environment, dest, qc);

	if (prepared)
		job_prepared_committed(MyDatabaseId);
	else if (extension)
		infer_jobs_changed();
	else if (opened != NULL && OidIsValid(get_database_oid(opened, true)))
		add_change(get_database_oid(opened, true), 0);
}

void
infer_jobs_notify_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

PG_FUNCTION_INFO_V1(infer_jobs_came);

/* A row of infer.job says itself, of a shard, an item or a line its job. */
static bool
is_of_here(const TriggerData *data)
{
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	const JobRecord *record;
	bool		null;
	Datum		job;

	if (RelationGetRelid(data->tg_relation) == infer_relation_oid("job"))
	{
		char	   *origin = SPI_getvalue(data->tg_trigtuple, desc, SPI_fnumber(desc, "origin"));

		return origin != NULL && strcmp(origin, job_origin()) == 0;
	}
	job = SPI_getbinval(data->tg_trigtuple, desc, SPI_fnumber(desc, "job"), &null);
	record = null ? NULL : job_get(DatumGetInt64(job));
	return record != NULL && strcmp(record->origin, job_origin()) == 0;
}

/*
 * The trigger of infer.job and its kin: rows that pg_restore or replication put there, which are not ours to run.  A
 * database's owner, who may restore them, could otherwise write a job of another role's, a superuser's say, or into it.
 */
Datum
infer_jobs_came(PG_FUNCTION_ARGS)
{
	const TriggerData *data = (const TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) || !TRIGGER_FIRED_BEFORE(data->tg_event) ||
		RelationGetNamespace(data->tg_relation) != get_namespace_oid(INFER_SCHEMA, false))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("infer.jobs_came() is a trigger of infer.job")));
	if (!superuser() && is_of_here(data))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to insert a job of this server and database"),
				 errhint("Submit jobs with infer.submit_job().")));
	infer_jobs_changed();
	return PointerGetDatum(data->tg_trigtuple);
}
