/*
 * fate.c
 *	  What becomes of a job that nobody runs, and its end.
 *
 * A job is looked at twice: by the scan, and, if something is to be done with it, again under its lock.
 */
#include "postgres.h"

#include "scanning.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define ROWS_MAX		10000		/* that are removed in a transaction */

/* Why the job's role cannot run it; NULL: it can. */
static char *
problem_of_role(const JobRecord *record, int *sqlstate)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(record->owner));
	bool		can_login;

	if (!HeapTupleIsValid(tuple))
	{
		*sqlstate = ERRCODE_UNDEFINED_OBJECT;
		return psprintf("role \"%s\" does not exist any more", record->owner_name);
	}
	can_login = infer_worker_skips_login || ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
	ReleaseSysCache(tuple);
	if (!can_login)
	{
		*sqlstate = ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
		return psprintf("role \"%s\" is not permitted to log in any more", record->owner_name);
	}
	if (infer_database_aclcheck(MyDatabaseId, record->owner, ACL_CONNECT) != ACLCHECK_OK)
	{
		*sqlstate = ERRCODE_INSUFFICIENT_PRIVILEGE;
		return psprintf("role \"%s\" may not connect to the database any more", record->owner_name);
	}
	return NULL;
}

/* Each runner that begins is counted, and is a fault until it gets on: shards may begin side by side. */
static int
faults_max(int64 job)
{
	int			count;

	(void) job_shards(job, &count);
	return JOB_FAULTS_MAX * Max(1, Min(count, infer_max_job_workers));
}

Fate
scan_fate_of_ended(const JobRecord *record)
{
	TimestampTz ended = record->finished != 0 ? record->finished : record->submitted;
	TimestampTz forget;

	if (infer_job_retention == 0)
		return FATE_NONE;
	forget = ended + (int64) infer_job_retention * USECS_PER_SEC;
	if (forget <= scan_time)
		return FATE_FORGOTTEN;
	scan_again_at(forget);
	return FATE_NONE;
}

Fate
scan_fate(const JobRecord *record, char **problem, int *sqlstate)
{
	if (job_has_ended(record->state))
		return scan_fate_of_ended(record);
	if (strcmp(record->origin, scan_origin) != 0)
		return FATE_RESTORED;
	if (job_has_runner(MyDatabaseId, record->job))
		return FATE_NONE;			/* which ends it itself */
	if (record->state == JOB_CANCELLING)
		return FATE_CANCELLED;
	if (record->expires != 0 && record->expires <= scan_time)
		return FATE_EXPIRED;
	*problem = problem_of_role(record, sqlstate);
	if (*problem != NULL)
		return FATE_FAILED;
	if (record->faults > faults_max(record->job))
	{
		*sqlstate = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
		*problem = psprintf("it ended its background worker or the server %d times in a row%s%s", record->faults,
							record->message == NULL ? "" : ": ", record->message == NULL ? "" : record->message);
		return FATE_FAILED;
	}
	return FATE_NONE;
}

bool
scan_end_job(JobRecord *record)
{
	char	   *problem = NULL;
	int			sqlstate = 0;
	Fate		fate = scan_fate(record, &problem, &sqlstate);

	switch (fate)
	{
		case FATE_RESTORED:
			job_end(record, JOB_CANCELLED, NULL, "restored from a dump: it was unfinished there");
			break;
		case FATE_CANCELLED:
			job_end(record, JOB_CANCELLED, NULL, NULL);
			break;
		case FATE_EXPIRED:
			job_end(record, JOB_EXPIRED, NULL, "its completion window has passed");
			break;
		case FATE_FAILED:
			job_end(record, JOB_FAILED, unpack_sql_state(sqlstate), problem);
			break;
		case FATE_FORGOTTEN:
			if (!job_delete_some(record->job, ROWS_MAX))
				job_delete(record->job);
			break;
		case FATE_NONE:
			break;
	}
	return fate == FATE_FORGOTTEN;
}

/* What failed or was left may be tried again by infer.retry_job. */
bool
scan_is_over(int64 job)
{
	JobRecord  *record = job_get(job);
	JobShard  **shards;
	int			count;
	int64		left = 0;

	if (record == NULL || (job_has_ended(record->state) && strcmp(record->origin, scan_origin) != 0))
		return true;
	if (record->state != JOB_COMPLETED)
		return false;
	shards = job_shards(job, &count);
	for (int i = 0; i < count; i++)
		left += shards[i]->failed + shards[i]->expired + shards[i]->cancelled;
	return left == 0;
}
