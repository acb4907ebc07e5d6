/*
 * keep.c
 *	  infer.keep_fresh, drop_fresh and stale_rows.
 *
 * Columns are kept by who owns their table; the job runs as that role, the keeping one, which must be a member
 * of the table's owner.  A superuser who keeps another's table has it kept as its owner.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "../../compat.h"
#include "../plan/parts.h"
#include "fresh.h"

PG_FUNCTION_INFO_V1(infer_keep_fresh);
PG_FUNCTION_INFO_V1(infer_drop_fresh);
PG_FUNCTION_INFO_V1(infer_stale_rows);

static char *
text_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(number));
}

static char *
needed_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	if (PG_ARGISNULL(number))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be NULL", name)));
	return text_argument(fcinfo, number);
}

/* ---- the table ---- */

/* Locked as CREATE TRIGGER does. */
static Relation
open_table(Oid oid)
{
	Relation	table;

	LockRelationOid(oid, ShareRowExclusiveLock);
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(oid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table with oid %u does not exist", oid)));
	if (!infer_class_ownercheck(oid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(oid));
	table = relation_open(oid, NoLock);
	if (table->rd_rel->relkind != RELKIND_RELATION && table->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", RelationGetRelationName(table))));
	return table;
}

static Oid
keeping_role(Relation table)
{
	Oid			owner = table->rd_rel->relowner;

	return is_member_of_role_nosuper(GetUserId(), owner) ? GetUserId() : owner;
}

/* ---- kept columns ---- */

typedef struct Kept
{
	Fresh	   *fresh;
	FreshDefinition *definition;
} Kept;

static const char *
name_of_model(const Fresh *fresh)
{
	int			count;
	InferAnchor *anchors = infer_anchor_list(&count);

	for (int i = 0; i < count; i++)
		if (memcmp(&anchors[i].id, &fresh->model_id, sizeof(pg_uuid_t)) == 0)
			return anchors[i].name;
	return NULL;
}

/* name or name@version, as it was given, is that of the kept column */
static bool
is_of_model(const Fresh *fresh, const char *model)
{
	const char *name = name_of_model(fresh);
	Size		length;
	int32		version;

	return name != NULL && infer_name_split(model, &length, &version) && strlen(name) == length &&
		strncmp(name, model, length) == 0 && (version == 0 || version == fresh->model_version);
}

/* Those of a table; model, output: NULL, or of these only.  A column's name is folded unless quoted. */
static List *
kept_columns(Oid table, const char *model, const char *output)
{
	List	   *triggers = fresh_triggers();
	List	   *kept = NIL;
	ListCell   *lc;

	foreach(lc, fresh_list())
	{
		Fresh	   *fresh = lfirst(lc);
		FreshDefinition *definition;
		Kept	   *one;

		if (OidIsValid(fresh->table) && fresh->table != table)
			continue;
		definition = fresh_definition(fresh, triggers, true);
		if (definition == NULL || definition->table != table || definition->output == 0 || (model != NULL && !is_of_model(fresh, model)) ||
			(output != NULL && strcmp(get_attname(table, definition->output, false), output) != 0))
			continue;
		one = palloc(sizeof(Kept));
		one->fresh = fresh;
		one->definition = definition;
		kept = lappend(kept, one);
	}
	return kept;
}

static char *
column_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	return PG_ARGISNULL(number) ? NULL : plan_parse_name(text_argument(fcinfo, number), name);
}

static Kept *
the_kept_column(FunctionCallInfo fcinfo, Oid table)
{
	char	   *model = text_argument(fcinfo, 0);
	char	   *output = column_argument(fcinfo, 2, "output");
	List	   *kept = kept_columns(table, model, output);

	if (kept == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg(output != NULL ? "column \"%s\" of \"%s\" is not kept fresh%s%s%s" :
						"%sno column of \"%s\" is kept fresh%s%s%s", output != NULL ? output : "", get_rel_name(table),
						model != NULL ? " by model \"" : "", model != NULL ? infer_model_name_shown(model) : "",
						model != NULL ? "\"" : ""),
				 errhint("See infer.fresh_columns.")));
	if (list_length(kept) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_AMBIGUOUS_COLUMN),
				 errmsg("more than one column of \"%s\" is kept fresh%s%s%s", get_rel_name(table),
						model != NULL ? " by model \"" : "", model != NULL ? infer_model_name_shown(model) : "",
						model != NULL ? "\"" : ""),
				 errhint("Say which one: output => '...'.")));
	return linitial(kept);
}

/*
 * Triggers that came with the table, from a dump of it alone, say: nobody knows them here, or they have the number
 * of another one.
 */
static void
drop_strays(Oid table)
{
	ListCell   *lc;

	foreach(lc, fresh_triggers())
	{
		FreshTrigger *trigger = lfirst(lc);
		Fresh	   *fresh;

		if (trigger->definition.table != table)
			continue;
		fresh = fresh_get(trigger->number);
		if (fresh == NULL || (OidIsValid(fresh->table) && fresh->table != table))
			fresh_undefine(trigger->number, &trigger->definition);
	}
}

/* ---- keep_fresh ---- */

static void
read_request(FunctionCallInfo fcinfo, JobRequest *request)
{
	request->model = needed_argument(fcinfo, 0, "model");
	if (PG_ARGISNULL(1))
		needed_argument(fcinfo, 1, "table");
	request->table = PG_GETARG_OID(1);
	request->input = text_argument(fcinfo, 2);
	request->output = needed_argument(fcinfo, 3, "output");
	request->version_column = needed_argument(fcinfo, 4, "version_column");
	request->condition = text_argument(fcinfo, 5);
	request->key = text_argument(fcinfo, 6);
	request->verb = text_argument(fcinfo, 7);
	request->class_ = text_argument(fcinfo, 8);
	request->priority = PG_ARGISNULL(9) ? 0 : PG_GETARG_INT32(9);
	if (PG_ARGISNULL(10))
		request->options = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	else
		request->options = PG_GETARG_JSONB_P(10);
	request->max_failures = JOB_MAX_FAILURES;
	request->shards = 1;
	job_request_note_session(request);
}

static void
check_not_kept(Oid table, const JobPlan *plan)
{
	ListCell   *lc;

	foreach(lc, kept_columns(table, NULL, NULL))
	{
		Kept	   *kept = lfirst(lc);
		AttrNumber	columns[] = {plan->output.number, plan->version_column->number};

		for (int i = 0; i < lengthof(columns); i++)
			if (kept->definition->output == columns[i] || kept->definition->version == columns[i])
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_OBJECT),
						 errmsg("column \"%s\" of \"%s\" is kept fresh already",
								get_attname(table, columns[i], false), get_rel_name(table)),
						 errhint("Drop that first with infer.drop_fresh().")));
	}
}

static void
check_version_type(const JobPlan *plan)
{
	Oid			type = getBaseType(plan->version_column->type);

	if (type != INT2OID && type != INT4OID && type != INT8OID && type != TEXTOID && type != VARCHAROID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("version_column \"%s\" is of type %s, and must be text or an integer",
						plan->version_column->name, format_type_be(plan->version_column->type))));
}

/* What a job for it would find wrong, as the role that it would run as. */
static JobPlan *
plan_as(Oid role, const JobRequest *request)
{
	JobPlan    *plan;
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	if (role == user)
		return job_plan_make(request, CurrentMemoryContext);
	/* an error's clean-up puts the user back */
	SetUserIdAndSecContext(role, context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	plan = job_plan_make(request, CurrentMemoryContext);
	SetUserIdAndSecContext(user, context);
	return plan;
}

Datum
infer_keep_fresh(PG_FUNCTION_ARGS)
{
	JobRequest	request = {0};
	Fresh		fresh = {0};
	Relation	table;
	JobPlan    *plan;
	Size		length;

	job_check_may_write("infer.keep_fresh()");
	read_request(fcinfo, &request);
	table = open_table(request.table);
	fresh.owner = keeping_role(table);
	plan = plan_as(fresh.owner, &request);
	check_version_type(plan);
	check_not_kept(request.table, plan);
	drop_strays(request.table);

	fresh.number = fresh_next_number();
	(void) fresh_lock(fresh.number, true);
	fresh.owner_name = GetUserNameFromId(fresh.owner, false);
	fresh.model_id = plan->model->id;
	(void) infer_name_split(request.model, &length, &fresh.model_version);
	fresh.verb = request.verb;
	fresh.class_ = request.class_;
	fresh.options = request.options;
	fresh.priority = request.priority;
	fresh.search_path = request.search_path;
	fresh.time_zone = request.time_zone;
	fresh.date_order = request.date_order;
	fresh_define(&fresh, table, &request, plan, plan->model->server);
	fresh_insert(&fresh);
	relation_close(table, NoLock);
	infer_jobs_changed();			/* the scanner marks what it has not seen before */
	PG_RETURN_VOID();
}

/* ---- drop_fresh ---- */

/* One that has not ended is cancelled, and what it has done is history like any other job's. */
static void
drop_job(int64 job)
{
	JobRecord  *record;

	if (job == 0)
		return;
	(void) job_lock(job, true);
	record = job_get(job);
	if (record == NULL)
		return;
	if (job_has_ended(record->state))
		job_delete(job);
	else if (record->state != JOB_CANCELLING)
	{
		record->state = JOB_CANCELLING;
		record->message = pstrdup("the column is not kept fresh any more");
		job_update(record);
		infer_jobs_cancel(job);
	}
}

Datum
infer_drop_fresh(PG_FUNCTION_ARGS)
{
	Kept	   *kept;
	Fresh	   *fresh;
	Relation	table;

	job_check_may_write("infer.drop_fresh()");
	if (PG_ARGISNULL(1))
		needed_argument(fcinfo, 1, "table");
	table = open_table(PG_GETARG_OID(1));
	kept = the_kept_column(fcinfo, RelationGetRelid(table));
	(void) fresh_lock(kept->fresh->number, true);
	relation_close(table, NoLock);
	fresh_undefine(kept->fresh->number, kept->definition);
	fresh = fresh_get(kept->fresh->number);
	if (fresh != NULL)
	{
		drop_job(fresh->job);
		drop_job(fresh->job_before);
		fresh_delete(fresh);
	}
	infer_jobs_changed();
	PG_RETURN_VOID();
}

/* ---- stale_rows ---- */

/*
 * The condition is the owner's code: it is evaluated as the keeping role, and never as whoever counts, with nothing of that
 * one's search_path.  So who counts must be allowed to read what it tells, and to see all rows.
 */
static void
check_may_count(const Fresh *fresh, const FreshDefinition *definition)
{
	Oid			table = definition->table;

	if (GetUserId() == fresh->owner)
		return;
	if (pg_class_aclcheck(table, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
		pg_attribute_aclcheck(table, definition->version, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(table));
	if (check_enable_rls(table, GetUserId(), true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("stale rows of \"%s\" cannot be counted under row-level security", get_rel_name(table)),
				 errhint("Count those that you see by their column %s.", definition->version_sql)));
}

static int64
count_rows(const char *query)
{
	bool		isnull;
	int64		rows;

	SPI_connect();
	if (SPI_execute(query, true, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "stale rows cannot be counted");
	rows = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	return rows;
}

/* An error's clean-up puts user and settings back. */
static int64
count_stale(const Fresh *fresh, const FreshDefinition *definition, const char *model, int32 version)
{
	char	   *query = psprintf("SELECT pg_catalog.count(*) FROM %s WHERE %s", definition->table_sql,
								 fresh_condition(definition, model, version, true, true));
	int			nest = NewGUCNestLevel();
	int64		rows;
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
	if (user != fresh->owner)
		SetUserIdAndSecContext(fresh->owner, context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	rows = count_rows(query);
	SetUserIdAndSecContext(user, context);
	AtEOXact_GUC(true, nest);
	return rows;
}

Datum
infer_stale_rows(PG_FUNCTION_ARGS)
{
	Kept	   *kept;
	InferAnchor anchor;
	int32		version;
	const char *problem;
	InferModel	model = {0};

	infer_require_preload();
	if (PG_ARGISNULL(1))
		needed_argument(fcinfo, 1, "table");
	kept = the_kept_column(fcinfo, PG_GETARG_OID(1));
	problem = fresh_problem(kept->fresh, kept->definition, &anchor, &version);
	if (problem != NULL && (version == 0 || kept->definition->damaged != NULL ||
							!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(kept->fresh->owner))))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("column \"%s\" of \"%s\" cannot be kept fresh: %s",
						get_attname(kept->definition->table, kept->definition->output, false),
						get_rel_name(kept->definition->table), problem)));
	check_may_count(kept->fresh, kept->definition);
	model.server = anchor.server;
	strlcpy(model.name, anchor.name, NAMEDATALEN);
	infer_model_check_usage(&model);
	PG_RETURN_INT64(count_stale(kept->fresh, kept->definition, anchor.name, version));
}
