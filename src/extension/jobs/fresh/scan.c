/*
 * scan.c
 *	  Marks become jobs: the scanner's part, so no user's code runs here.
 *
 * Loop, for each kept column, in a transaction of its own
 *	Skip it if somebody has its lock.  If its last job has ended, take note of that, and forget jobs of it that tell
 *	nothing.  Forget it if its trigger is gone.  If it has no job that has not ended, and is marked, submit one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "../../compat.h"
#include "../launcher/launcher.h"
#include "fresh.h"

#define INTERVAL		1			/* seconds from the end of a job to the next one */
#define INTERVAL_FAILED	10			/* after one that failed, then twice that and so on */
#define INTERVAL_MAX	3600
#define ITEMS_LOOK		1000
#define LOOK_BUSY		1			/* seconds until the next look, where somebody had a lock */
#define LOOK_STOPPED	10			/* where something is in the way, that nobody tells when it is gone */
#define LOOK_RESTORED	60			/* where the trigger may come yet */

static bool submitted;				/* a job, by this scan */
static TimestampTz next_look;		/* 0: when it is told */

static void
look_again(int seconds)
{
	TimestampTz time = GetCurrentTimestamp() + seconds * USECS_PER_SEC;

	if (next_look == 0 || time < next_look)
		next_look = time;
}

/* ---- what a kept column is ---- */

static bool
find_anchor(const pg_uuid_t *id, InferAnchor *anchor)
{
	int			count;
	InferAnchor *anchors = infer_anchor_list(&count);

	for (int i = 0; i < count; i++)
		if (memcmp(&anchors[i].id, id, sizeof(*id)) == 0)
		{
			*anchor = anchors[i];
			return true;
		}
	return false;
}

const char *
fresh_problem(const Fresh *fresh, const FreshDefinition *definition, InferAnchor *anchor, int32 *version)
{
	Oid			owner = InvalidOid;
	HeapTuple	tuple;

	memset(anchor, 0, sizeof(*anchor));
	*version = 0;
	if (definition->damaged != NULL)
		return definition->damaged;
	if (!find_anchor(&fresh->model_id, anchor))
		return "its model was dropped";
	*version = fresh->model_version != 0 ? fresh->model_version : infer_version_active(&anchor->id);
	if (*version == 0 || infer_version_state(&anchor->id, *version) < 0)
		return "the version of its model was dropped";
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(fresh->owner)))
		return psprintf("role \"%s\" was dropped", fresh->owner_name);
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(definition->table));
	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	if (!OidIsValid(owner) || !is_member_of_role_nosuper(fresh->owner, owner))
		return psprintf("role \"%s\" does not own the table any more", GetUserNameFromId(fresh->owner, false));
	if (definition->enabled == TRIGGER_DISABLED)
		return "its trigger is disabled";
	return NULL;
}

/* ---- jobs ---- */

static int64
rows_of(int64 job, int64 *failed)
{
	int			count;
	JobShard  **shards = job_shards(job, &count);
	int64		rows = 0;

	*failed = 0;
	for (int i = 0; i < count; i++)
	{
		rows += shards[i]->done + shards[i]->failed + shards[i]->gone + shards[i]->expired + shards[i]->cancelled;
		*failed += shards[i]->failed;
	}
	return rows;
}

/* Rows have failed that may not the next time: they are left marked, and the next job waits. */
static bool
is_to_be_tried_again(int64 job)
{
	int			count;
	TimestampTz next_due;
	JobItem    *items = job_items(job, 0, JOB_ITEM_FAILED, 0, ITEMS_LOOK, 0, &count, &next_due);

	for (int i = 0; i < count; i++)
		if (items[i].retryable)
			return true;
	return false;
}

/* A job that did nothing is forgotten, and of those that did all well only the last one is kept. */
static void
settle(Fresh *fresh, const JobRecord *last)
{
	int64		failed;
	int64		rows = rows_of(last->job, &failed);
	bool		again = last->state == JOB_COMPLETED && failed > 0 && is_to_be_tried_again(last->job);

	fresh_marks_ended(fresh->number, last->job, again ? JOB_FAILED : last->state);
	if (last->state == JOB_COMPLETED && rows == 0)
	{
		if (!job_lock(last->job, false))
			return;
		job_delete(last->job);
		fresh->job = fresh->job_before;
		fresh->job_before = 0;
		fresh_update(fresh);
	}
	else if (fresh->job_before != 0)
	{
		JobRecord  *before = job_get(fresh->job_before);

		if (before != NULL && before->state == JOB_COMPLETED && rows_of(before->job, &failed) > 0 && failed == 0)
		{
			if (!job_lock(before->job, false))
				return;
			job_delete(before->job);
		}
		fresh->job_before = 0;
		fresh_update(fresh);
	}
}

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Of rows only: those that changed, or are new.  A version that failed on a row is not tried on it again. */
char *
fresh_condition(const FreshDefinition *definition, const char *model, int32 version, bool all, bool failed_too)
{
	StringInfoData text;
	const char *column = definition->version_sql;

	initStringInfo(&text);
	if (!all)
		appendStringInfo(&text, "%s IS NULL", column);
	else if (is_integer(definition->version_type))
	{
		appendStringInfo(&text, "%s IS DISTINCT FROM %d", column, version);
		if (!failed_too)
			appendStringInfo(&text, " AND %s IS DISTINCT FROM -%d", column, version);
	}
	else
	{
		appendStringInfo(&text, "%s IS DISTINCT FROM %s", column, quote_literal_cstr(fresh_version_text(model, version)));
		if (!failed_too)
			appendStringInfo(&text, " AND %s IS DISTINCT FROM %s", column,
							 quote_literal_cstr(fresh_version_failed(model, version)));
	}
	if (definition->condition != NULL)
		appendStringInfo(&text, " AND (%s)", definition->condition);
	return text.data;
}

static void
submit(Fresh *fresh, const FreshDefinition *definition, const InferAnchor *anchor, int32 version,
	   const FreshMarks *marks, TimestampTz resume_at)
{
	JobRequest	request = {0};
	JobRecord	record = {0};

	request.model = fresh_version_text(anchor->name, version);
	request.table = definition->table;
	request.table_name = definition->table_sql;
	request.input = definition->input;
	request.output = definition->output_sql;
	request.condition = fresh_condition(definition, anchor->name, version, marks->all, false);
	request.key = definition->key;
	request.verb = fresh->verb;
	request.class_ = fresh->class_;
	request.version_column = definition->version_sql;
	request.name = psprintf("fresh %s.%s", definition->table_sql, definition->output_sql);
	request.priority = fresh->priority;
	request.options = fresh->options;
	request.max_failures = JOB_MAX_FAILURES;
	request.shards = 1;
	request.search_path = fresh->search_path;
	request.time_zone = fresh->time_zone;
	request.date_order = fresh->date_order;
	request.fresh = fresh->number;

	record.job = job_next_number();
	record.origin = job_origin();
	record.name = request.name;
	record.owner = fresh->owner;
	record.owner_name = GetUserNameFromId(fresh->owner, false);
	record.model = request.model;
	record.state = JOB_VALIDATING;
	record.priority = fresh->priority;
	record.request = job_request_to_jsonb(&request);
	record.total = -1;
	record.submitted = GetCurrentTimestamp();
	record.resume_at = resume_at;
	job_insert(&record);

	fresh->job_before = fresh->job;
	fresh->job = record.job;
	fresh_update(fresh);
	fresh_marks_submitted(fresh->number, record.job, marks->all, marks->all_count);
	submitted = true;
}

static TimestampTz
resume_time(const JobRecord *last, int failures)
{
	int			seconds = INTERVAL;
	TimestampTz time;

	if (last == NULL)
		return 0;
	if (failures > 0)
		seconds = failures > 9 ? INTERVAL_MAX : Min(INTERVAL_FAILED << (failures - 1), INTERVAL_MAX);
	time = (last->finished != 0 ? last->finished : last->submitted) + seconds * USECS_PER_SEC;
	return time > GetCurrentTimestamp() ? time : 0;
}

/* ---- the loop ---- */

/* Names of what it knows may be others, in a database that was restored. */
static void
adopt(Fresh *fresh, const FreshDefinition *definition, const InferAnchor *anchor)
{
	char	   *owner = GetUserNameFromId(fresh->owner, false);

	if (fresh->table != definition->table || strcmp(owner, fresh->owner_name) != 0)
	{
		fresh->table = definition->table;
		fresh->owner_name = owner;
		fresh_update(fresh);
		fresh_depend(fresh, definition, anchor->server);
	}
}

/* Without its trigger: of a restored one it may come yet, and without a place its first writer tells. */
static void
forget(Fresh *fresh)
{
	fresh_marks_forget(fresh->number);
	if (OidIsValid(fresh->table))
		fresh_delete(fresh);
	else
		look_again(LOOK_RESTORED);
}

/* What it is now; false: no job can be made of it. */
static bool
look_closely(Fresh *fresh, const FreshDefinition *definition, FreshMarks *marks, InferAnchor *anchor, int32 *version)
{
	FreshVersion known;
	uint32		all_count;

	if (fresh_problem(fresh, definition, anchor, version) != NULL)
	{
		fresh_marks_all(fresh->number);	/* what happens meanwhile may go unseen */
		look_again(LOOK_STOPPED);
		return false;
	}
	if (definition->input == NULL)
	{
		look_again(LOOK_BUSY);	/* the table is locked */
		return false;
	}
	adopt(fresh, definition, anchor);
	fresh_version_make(anchor->name, *version, &known);
	fresh_marks_version(fresh->number, &known, marks);
	if (marks->prepared)
		fresh_marks_prepared(fresh->number, job_prepared_lock(ShareLock, false), marks);
	all_count = marks->all_count;
	fresh_marks_peek(fresh->number, marks);
	marks->all_count = all_count;
	return true;
}

static void
look(Fresh *fresh)
{
	JobRecord  *last = fresh->job != 0 ? job_get(fresh->job) : NULL;
	FreshDefinition *definition;
	FreshMarks	marks;
	InferAnchor anchor;
	int32		version;

	if (last != NULL && !job_has_ended(last->state))
		return;
	if (last != NULL)
		settle(fresh, last);
	if (!fresh_marks_get(fresh->number, &marks))
	{
		ereport(LOG,
				(errmsg("infer: no room for another column that is kept fresh")));
		return;
	}
	if (!marks.rows && !marks.all && !marks.prepared && OidIsValid(fresh_trigger_oid(fresh)))
		return;
	definition = fresh_definition(fresh, NIL, false);
	if (definition == NULL)
		forget(fresh);
	else if (look_closely(fresh, definition, &marks, &anchor, &version) && (marks.rows || marks.all))
		submit(fresh, definition, &anchor, version, &marks, resume_time(last, marks.failures));
}

static void
look_in_transaction(int64 number)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (fresh_lock(number, false))
	{
		Fresh	   *fresh = fresh_get(number);

		if (fresh != NULL)
			look(fresh);
	}
	else
		look_again(LOOK_BUSY);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* Whatever is wrong with one is not in the way of the others, nor of jobs. */
static void
look_safely(int64 number, MemoryContext context)
{
	PG_TRY();
	{
		look_in_transaction(number);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		look_again(LOOK_STOPPED);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
}

/* In no transaction. */
bool
job_fresh_scan(TimestampTz *again)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "infer fresh", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	List	   *numbers = NIL;
	List	   *rows;
	ListCell   *lc;

	next_look = 0;
	submitted = false;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rows = fresh_list();
	fresh_marks_retain(rows);
	foreach(lc, rows)
	{
		int64	   *number = MemoryContextAlloc(context, sizeof(int64));
		MemoryContext inner = MemoryContextSwitchTo(context);

		*number = ((Fresh *) lfirst(lc))->number;
		numbers = lappend(numbers, number);
		MemoryContextSwitchTo(inner);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);

	foreach(lc, numbers)
	{
		CHECK_FOR_INTERRUPTS();
		look_safely(*(int64 *) lfirst(lc), context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	*again = next_look;
	return submitted;
}

/* ---- a version was activated: in that transaction ---- */

void
infer_fresh_activated(const pg_uuid_t *model_id)
{
	ListCell   *lc;

	foreach(lc, fresh_list())
	{
		Fresh	   *fresh = lfirst(lc);

		if (fresh->model_version == 0 && memcmp(&fresh->model_id, model_id, sizeof(*model_id)) == 0)
			fresh_mark(fresh->number, true);
	}
}
