/*
 * utility.c
 *	  Keeps a model's id, an option of its foreign server, from being changed or copied.
 *
 * The id joins the server to its versions: who could choose it could take another's model.
 * So ALTER SERVER may not touch it, and CREATE SERVER may bring one only if no server has
 * it and no rows wait for it: as pg_dump's script does, where the servers come before the
 * tables' data.  The database's owner and superusers, who may write those tables anyhow,
 * may also make the server for rows that are there.
 *
 * Everything else that is done to servers (GRANT, OWNER TO, RENAME, DROP, COMMENT) is right
 * for models as it is.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "../compat.h"
#include "internal.h"

#define NAME_SHOWN (2 * NAMEDATALEN)

static ProcessUtility_hook_type prev_process_utility = NULL;

/* A name in a message: callers may give any text. */
const char *
infer_model_name_shown(const char *name)
{
	int			length = strlen(name);

	if (length <= NAME_SHOWN)
		return name;
	return psprintf("%.*s...", pg_mbcliplen(name, length, NAME_SHOWN), name);
}

void
infer_model_name_check(const char *name)
{
	const char *fault = NULL;

	if (name[0] == '\0')
		fault = "It is empty.";
	else if (strlen(name) >= NAMEDATALEN)
		fault = psprintf("It has more than %d bytes.", NAMEDATALEN - 1);
	else if (strchr(name, '@') != NULL)
		fault = "The character \"@\" separates a name from a version.";
	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("invalid model name \"%s\"", infer_model_name_shown(name)),
				 errdetail("%s", fault)));
}

/* Whether a server of that name is there and is a model. */
static bool
is_model(const char *name)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	return server != NULL && server->fdwid == infer_wrapper_oid();
}

static DefElem *
find_id(List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, INFER_ID_OPTION) == 0)
			return option;
	}
	return NULL;
}

/* The server that has an id, or NULL. */
static const char *
id_holder(const pg_uuid_t *id)
{
	int			count;
	InferAnchor *anchors = infer_anchor_list(&count);

	for (int i = 0; i < count; i++)
		if (memcmp(&anchors[i].id, id, sizeof(*id)) == 0)
			return anchors[i].name;
	return NULL;
}

static void
check_create(CreateForeignServerStmt *stmt)
{
	DefElem    *option;
	pg_uuid_t	id;
	const char *holder;

	if (strcmp(stmt->fdwname, INFER_WRAPPER) != 0)
		return;
	if (stmt->if_not_exists && OidIsValid(get_foreign_server_oid(stmt->servername, true)))
		return;
	infer_model_name_check(stmt->servername);
	option = find_id(stmt->options);
	if (option == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a server of foreign-data wrapper \"%s\" is a model", INFER_WRAPPER),
				 errhint("Make models with infer.create_model().")));
	if (!infer_uuid_parse(defGetString(option), &id))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"%s\" of a model must be a uuid in lower case", INFER_ID_OPTION)));

	/* Two sessions may not bring the same one at once. */
	table_close(table_open(infer_table_oid(INFER_TABLE_VERSION), ShareUpdateExclusiveLock), NoLock);
	holder = id_holder(&id);
	if (holder != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("model \"%s\" has this id already", holder),
				 errhint("Make models with infer.create_model().")));
	if (infer_version_any(&id) && !infer_database_ownercheck(MyDatabaseId, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for the id of a model that was dropped"),
				 errhint("Make models with infer.create_model().")));
}

static void
check_alter(AlterForeignServerStmt *stmt)
{
	if (find_id(stmt->options) != NULL && is_model(stmt->servername))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("option \"%s\" of model \"%s\" cannot be changed", INFER_ID_OPTION, stmt->servername),
				 errhint("Change models with the functions of schema infer; rename, grant and drop work as for any server.")));
}

static void
check_rename(RenameStmt *stmt)
{
	if (stmt->renameType == OBJECT_FOREIGN_SERVER && is_model(strVal(stmt->object)))
		infer_model_name_check(stmt->newname);
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;

	/* pg_upgrade's servers come before the tables, with the ids that they had */
	if (!IsBinaryUpgrade &&
		(IsA(stmt, CreateForeignServerStmt) || IsA(stmt, AlterForeignServerStmt) || IsA(stmt, RenameStmt)) &&
		OidIsValid(get_extension_oid("infer", true)))
	{
		if (IsA(stmt, CreateForeignServerStmt))
			check_create((CreateForeignServerStmt *) stmt);
		else if (IsA(stmt, AlterForeignServerStmt))
			check_alter((AlterForeignServerStmt *) stmt);
		else
			check_rename((RenameStmt *) stmt);
	}
	if (prev_process_utility != NULL)
		prev_process_utility(pstmt, query, read_only_tree, context, params, environment, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only_tree, context, params, environment, dest, qc);
}

void
infer_utility_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
