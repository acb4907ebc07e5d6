/*
 * shown.c
 *	  What infer.fresh_columns reads.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "fresh.h"

PG_FUNCTION_INFO_V1(infer_read_fresh_columns);

enum
{
	Anum_read_table = 1,
	Anum_read_output,
	Anum_read_input,
	Anum_read_condition,
	Anum_read_version_column,
	Anum_read_model,
	Anum_read_version,
	Anum_read_owner,
	Anum_read_state,
	Anum_read_job,
	Anum_read_problem,
	Natts_read = Anum_read_problem
};

static bool
may_see(const Fresh *fresh, Oid table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return (OidIsValid(owner) && has_privs_of_role(GetUserId(), owner)) ||
		has_privs_of_role(GetUserId(), fresh->owner) || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/* What is being done about it. */
static const char *
state_of(const Fresh *fresh, const JobRecord *last, const char *problem)
{
	FreshMarks	marks;

	if (last != NULL && !job_has_ended(last->state) && last->state != JOB_VALIDATING)
		return "updating";
	if (problem != NULL)
		return "stopped";
	if (last != NULL && !job_has_ended(last->state))
		return "waiting";
	fresh_marks_peek(fresh->number, &marks);
	if (marks.held)
		return "stopped";
	return !marks.known || marks.rows || marks.all ? "waiting" : "fresh";
}

/* What became of the last job that was run; NULL: it did all. */
static char *
failure_of(const Fresh *fresh, const JobRecord *last)
{
	if (last != NULL && last->state == JOB_VALIDATING)
		last = fresh->job_before != 0 ? job_get(fresh->job_before) : NULL;
	if (last != NULL && last->state == JOB_CANCELLED)
		return psprintf("job " INT64_FORMAT " was cancelled", last->job);
	if (last == NULL || last->state != JOB_FAILED)
		return NULL;
	return psprintf("job " INT64_FORMAT " failed: %s", last->job, last->message != NULL ? last->message : "");
}

static void
set_text(Datum *values, bool *nulls, int attribute, const char *text)
{
	nulls[attribute - 1] = text == NULL;
	values[attribute - 1] = text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

static void
put_row(ReturnSetInfo *result, const Fresh *fresh, const FreshDefinition *definition)
{
	Datum		values[Natts_read] = {0};
	bool		nulls[Natts_read] = {false};
	InferAnchor anchor;
	int32		version;
	const char *problem = fresh_problem(fresh, definition, &anchor, &version);
	JobRecord  *last = fresh->job != 0 ? job_get(fresh->job) : NULL;

	values[Anum_read_table - 1] = ObjectIdGetDatum(definition->table);
	set_text(values, nulls, Anum_read_output, get_attname(definition->table, definition->output, true));
	set_text(values, nulls, Anum_read_input, definition->input);
	set_text(values, nulls, Anum_read_condition, definition->condition);
	set_text(values, nulls, Anum_read_version_column, get_attname(definition->table, definition->version, true));
	set_text(values, nulls, Anum_read_model, anchor.name[0] != '\0' ? anchor.name : NULL);
	values[Anum_read_version - 1] = Int32GetDatum(version);
	nulls[Anum_read_version - 1] = version == 0;
	set_text(values, nulls, Anum_read_owner, GetUserNameFromId(fresh->owner, true));
	set_text(values, nulls, Anum_read_state, state_of(fresh, last, problem));
	values[Anum_read_job - 1] = Int64GetDatum(fresh->job);
	nulls[Anum_read_job - 1] = fresh->job == 0;
	set_text(values, nulls, Anum_read_problem, problem != NULL ? problem : failure_of(fresh, last));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* In shared memory only on a primary; on a standby everything waits. */
Datum
infer_read_fresh_columns(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *triggers = fresh_triggers();
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, fresh_list())
	{
		Fresh	   *fresh = lfirst(lc);
		FreshDefinition *definition = fresh_definition(fresh, triggers, false);

		if (definition != NULL && may_see(fresh, definition->table))
			put_row(result, fresh, definition);
	}
	return (Datum) 0;
}
