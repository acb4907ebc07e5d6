/*
 * databases.c
 *	  The databases that the launcher knows of.
 */
#include "postgres.h"

#include "launching.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define CLOSED_INTERVAL		60000		/* ms between looks at databases that let nobody in */
#define INVALID_DATABASE	(-2)		/* datconnlimit of one whose DROP DATABASE was interrupted */

JobDatabase *launcher_databases = NULL;
int			launcher_databases_count = 0;

static int	databases_space = 0;

static JobDatabase *
find_database(Oid oid)
{
	for (int i = 0; i < launcher_databases_count; i++)
		if (launcher_databases[i].oid == oid)
			return &launcher_databases[i];
	return NULL;
}

JobDatabase *
launcher_database(Oid oid)
{
	JobDatabase *database = find_database(oid);

	if (database != NULL)
		return database;
	if (launcher_databases_count == databases_space)
	{
		databases_space = Max(16, databases_space * 2);
		launcher_databases = launcher_databases == NULL ?
			MemoryContextAlloc(TopMemoryContext, sizeof(JobDatabase) * databases_space) :
			repalloc(launcher_databases, sizeof(JobDatabase) * databases_space);
	}
	database = &launcher_databases[launcher_databases_count++];
	memset(database, 0, sizeof(JobDatabase));
	database->oid = oid;
	return database;
}

void
launcher_forget_candidates(JobDatabase *database)
{
	if (database->candidates != NULL)
		pfree(database->candidates);
	database->candidates = NULL;
	database->candidates_count = 0;
	database->candidates_next = 0;
}

/* ---- pg_database ---- */

static void
look_at_database(Form_pg_database form, bool all, TimestampTz now)
{
	JobDatabase *database;
	bool		closed = !form->datallowconn || form->datconnlimit == INVALID_DATABASE;

	if (closed && form->datistemplate)	/* template0 */
		return;
	if (!all && find_database(form->oid) == NULL)
		return;
	database = launcher_database(form->oid);
	database->known = true;
	database->scan |= all;
	if (closed)
		database->due = after_ms(now, CLOSED_INTERVAL);
	else if (all || database->closed)
		database->due = 0;
	database->closed = closed;
}

static void
forget_unknown(void)
{
	for (int i = 0; i < launcher_databases_count;)
	{
		JobDatabase *database = &launcher_databases[i];

		if (database->known)
		{
			i++;
			continue;
		}
		job_forget_database(database->oid);
		launcher_forget_candidates(database);
		*database = launcher_databases[--launcher_databases_count];
	}
}

void
launcher_read_databases(bool all, TimestampTz now)
{
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;
	MemoryContext context = CurrentMemoryContext;

	for (int i = 0; i < launcher_databases_count; i++)
		launcher_databases[i].known = false;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	relation = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(relation, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
		look_at_database((Form_pg_database) GETSTRUCT(tuple), all, now);
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);

	forget_unknown();
}

/* ---- what asks for scans ---- */

static void
take_flags(TimestampTz now)
{
	Oid			flags[JOB_FLAGS_MAX];
	int			count;
	bool		all;
	bool		unknown = false;

	LWLockAcquire(jobs_shared->lock, LW_EXCLUSIVE);
	count = jobs_shared->flags_count;
	memcpy(flags, jobs_shared->flags, sizeof(Oid) * count);
	all = jobs_shared->scan_all;
	jobs_shared->flags_count = 0;
	jobs_shared->scan_all = false;
	LWLockRelease(jobs_shared->lock);

	for (int i = 0; i < count; i++)
	{
		JobDatabase *database;

		unknown |= find_database(flags[i]) == NULL;
		database = launcher_database(flags[i]);
		database->scan = true;
		if (database->closed)		/* until now */
			database->due = 0;
	}
	if (all || unknown)				/* it may let nobody in */
		launcher_read_databases(all, now);
}

void
launcher_look_at_databases(TimestampTz now)
{
	take_flags(now);
	for (int i = 0; i < launcher_databases_count; i++)
	{
		JobDatabase *database = &launcher_databases[i];

		if (database->scan_at == 0 || database->scan_at > now)
			continue;
		database->scan = true;
		database->scan_at = 0;
	}
}
