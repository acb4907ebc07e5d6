/*
 * rights.c
 *	  Whether a worker can connect as the role, and the role do what the job's statements do.
 *
 * Statements are explained: that checks the privileges that running them would check, on the columns
 * that they name, and runs nothing.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "parts.h"

static void
check_login(Oid role)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
	bool		may = HeapTupleIsValid(tuple) &&
		(infer_worker_skips_login || ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin);

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (!may)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("role \"%s\" is not permitted to log in", GetUserNameFromId(role, false)),
				 errdetail("A job runs in a session of its own, as the role that submits it."),
				 errhint("Allow it with ALTER ROLE ... LOGIN, or submit the job as another role.")));
}

static void
check_database(Oid role)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);
	bool		open = database->datallowconn;
	char	   *name = pstrdup(NameStr(database->datname));

	ReleaseSysCache(tuple);
	if (!open)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("database \"%s\" is not currently accepting connections", name),
				 errhint("Allow them with ALTER DATABASE ... ALLOW_CONNECTIONS true.")));
	if (infer_database_aclcheck(MyDatabaseId, role, ACL_CONNECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_DATABASE, name);
}

void
plan_check_role(void)
{
	check_login(GetUserId());
	check_database(GetUserId());
}

static void
explain(const char *statement)
{
	if (SPI_execute(psprintf("EXPLAIN %s", statement), false, 0) < 0)
		elog(ERROR, "could not explain: %s", statement);
}

static void
append_names(StringInfo text, const JobColumn *columns, int count, const char *prefix)
{
	for (int i = 0; i < count; i++)
		appendStringInfo(text, "%s%s%s", i > 0 ? ", " : "", prefix, columns[i].sql);
}

static void
check_read(const JobPlan *plan)
{
	StringInfoData text;

	if (plan->source == JOB_SOURCE_INPUT)
	{
		explain(plan->from_sql);
		return;
	}
	initStringInfo(&text);
	appendStringInfo(&text, "SELECT %s.tableoid, %s.ctid, %s.xmin, ", PLAN_SOURCE, PLAN_SOURCE, PLAN_SOURCE);
	append_names(&text, plan->keys, plan->keys_count, "");
	for (int i = 0; i < plan->inputs_count; i++)
		appendStringInfo(&text, ", %s", plan->inputs[i].sql);
	appendStringInfo(&text, " %s", plan->from_sql);
	explain(text.data);
}

static const char *
version_type(const JobPlan *plan)
{
	return plan->version_column->type == INT2OID || plan->version_column->type == INT4OID ||
		plan->version_column->type == INT8OID ? plan->version_column->type_sql : "pg_catalog.text";
}

static void
check_update(const JobPlan *plan, const char *result)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "UPDATE %s SET %s = NULL::%s", plan->target_sql, plan->output.sql, result);
	if (plan->version_column != NULL)
		appendStringInfo(&text, ", %s = NULL::%s", plan->version_column->sql, version_type(plan));
	appendStringInfoString(&text, " WHERE false");
	explain(text.data);
}

static void
check_insert(const JobPlan *plan, const char *result)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "INSERT INTO %s (", plan->target_sql);
	append_names(&text, plan->target_keys, plan->keys_count, "");
	appendStringInfo(&text, ", %s", plan->output.sql);
	if (plan->version_column != NULL)
		appendStringInfo(&text, ", %s", plan->version_column->sql);
	appendStringInfoString(&text, ") SELECT ");
	for (int i = 0; i < plan->keys_count; i++)
		appendStringInfo(&text, "NULL::%s, ", plan->keys[i].type_sql);
	appendStringInfo(&text, "NULL::%s", result);
	if (plan->version_column != NULL)
		appendStringInfo(&text, ", NULL::%s", version_type(plan));
	appendStringInfoString(&text, " WHERE false ON CONFLICT (");
	append_names(&text, plan->target_keys, plan->keys_count, "");
	appendStringInfo(&text, ") DO UPDATE SET %s = excluded.%s", plan->output.sql, plan->output.sql);
	if (plan->version_column != NULL)
		appendStringInfo(&text, ", %s = excluded.%s", plan->version_column->sql, plan->version_column->sql);
	explain(text.data);
}

static void
check_lock(const JobPlan *plan)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, "SELECT ");
	append_names(&text, plan->target_keys, plan->keys_count, "");
	appendStringInfo(&text, " FROM %s FOR NO KEY UPDATE SKIP LOCKED", plan->target_sql);
	explain(text.data);
}

void
plan_check_statements(const JobPlan *plan)
{
	const char *result = format_type_extended(plan->result_type, -1, FORMAT_TYPE_FORCE_QUALIFY);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	check_read(plan);
	if (plan->target == JOB_TARGET_UPDATE)
		check_update(plan, result);
	else
		check_insert(plan, result);
	check_lock(plan);
	SPI_finish();
}
