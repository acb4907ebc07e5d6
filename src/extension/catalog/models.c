/*
 * models.c
 *	  The functions that make and change models.
 *
 * Each takes GetUserId() as it is, checks what that role may, and only then opens the
 * tables (tables.c), which the role has no privileges on.  Owner, name and privileges are
 * changed by PostgreSQL's own code for foreign servers, so that what a function does and
 * what DDL does are the same.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "commands/alter.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "../catalog.h"
#include "../client.h"
#include "../compat.h"
#include "../infer.h"
#include "../jobs.h"
#include "internal.h"

PG_FUNCTION_INFO_V1(infer_check_install);
PG_FUNCTION_INFO_V1(infer_create_model);
PG_FUNCTION_INFO_V1(infer_activate_model);
PG_FUNCTION_INFO_V1(infer_drop_model);
PG_FUNCTION_INFO_V1(infer_drop_model_version);
PG_FUNCTION_INFO_V1(infer_rename_model);
PG_FUNCTION_INFO_V1(infer_grant_model);
PG_FUNCTION_INFO_V1(infer_revoke_model);
PG_FUNCTION_INFO_V1(infer_load_model);
PG_FUNCTION_INFO_V1(infer_unload_model);

/* The install script's first call: says what is wrong before anything is made. */
Datum
infer_check_install(PG_FUNCTION_ARGS)
{
	char	   *own_schema = text_to_cstring(PG_GETARG_TEXT_PP(0));

	infer_require_preload();
	if (strcmp(own_schema, INFER_SCHEMA) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("extension infer cannot be created in schema \"%s\"", INFER_SCHEMA),
				 errdetail("It makes that schema itself."),
				 errhint("Drop the schema, and create the extension in another one, such as public.")));
	if (OidIsValid(get_namespace_oid(INFER_SCHEMA, true)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_SCHEMA),
				 errmsg("schema \"%s\" exists already", INFER_SCHEMA),
				 errdetail("Extension infer makes it itself."),
				 errhint("Rename or drop the schema.")));
	PG_RETURN_VOID();
}

static void
check_may_write(const char *function)
{
	infer_require_preload();
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
}

/* The lock under which files are added and removed; internal.h says why. */
static Relation
open_files_locked(void)
{
	return table_open(infer_table_oid(INFER_TABLE_FILE), ShareRowExclusiveLock);
}

void
infer_check_may_create(void)
{
	Oid			wrapper = infer_wrapper_oid();

	if (!OidIsValid(wrapper) || infer_wrapper_aclcheck(wrapper, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to create models"),
				 errhint("The database's owner can allow it with GRANT USAGE ON FOREIGN DATA WRAPPER %s.",
						 INFER_WRAPPER)));
}

/* ---- create_model ---- */

/* Whether the model is there already; raises if the name or the model is not the caller's to use. */
static bool
find_or_check_new(const char *name, InferAnchor *anchor)
{
	bool		other_wrapper;

	if (infer_anchor_find(name, anchor, &other_wrapper))
	{
		infer_anchor_check_owner(anchor);
		return true;
	}
	if (other_wrapper)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("foreign server \"%s\" exists already and is not a model", name),
				 errdetail("Models share their names with foreign servers."),
				 errhint("Choose another name.")));
	infer_check_may_create();
	return false;
}

static void
make_anchor(const char *name, InferAnchor *anchor)
{
	CreateForeignServerStmt *stmt = makeNode(CreateForeignServerStmt);
	pg_uuid_t	id = infer_uuid_make();

	stmt->servername = pstrdup(name);
	stmt->fdwname = pstrdup(INFER_WRAPPER);
	stmt->options = list_make1(makeDefElem(pstrdup(INFER_ID_OPTION), (Node *) makeString(infer_uuid_text(&id)), -1));
	CreateForeignServer(stmt);
	CommandCounterIncrement();
	infer_anchor_get(name, anchor);
}

static void
check_may_read(const char *path)
{
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to read \"%s\" from the server", path),
				 errdetail("Only roles with privileges of pg_read_server_files may give a path."),
				 errhint("Send the model with data => ... or with infer.begin_upload() and infer.upload().")));
}

/* The one of path, data and upload that was given. */
static InferSource *
open_source(FunctionCallInfo fcinfo, const InferOptions *options)
{
	bool		path = !PG_ARGISNULL(1);
	bool		data = !PG_ARGISNULL(3);
	bool		upload = !PG_ARGISNULL(4);

	if (path + data + upload != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("exactly one of path, data and upload must be given")));
	if (options->by_reference && !path)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only a path can be stored by reference")));
	if (path)
	{
		char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(1));

		check_may_read(name);
		return infer_source_path(name);
	}
	if (data)
		return infer_source_data(PG_GETARG_BYTEA_PP(3), infer_options_file(options));
	return infer_source_upload(text_to_cstring(PG_GETARG_TEXT_PP(4)));
}

/* Stores the files unless another version has brought them. */
static void
store_files(InferSource *source, Relation files)
{
	if (!infer_files_stored(files, source->digest))
		infer_source_store(source, files);
}

/* Has the engine check the files, and learns what the model takes and returns. */
static void
check_with_engine(const InferAnchor *anchor, const InferSource *source, const InferOptions *options,
				  char *reference, struct infer_signature *signature)
{
	InferModel	model = {0};

	model.server = anchor->server;
	model.owner = anchor->owner;
	strlcpy(model.name, anchor->name, NAMEDATALEN);
	model.id = anchor->id;
	memcpy(model.digest, source->digest, INFER_KEY_BYTES);
	infer_key_make(source->digest, options->engine, model.key);
	model.options = options->engine;
	model.reference = reference;
	infer_client_load(&model, INFER_LOAD_CHECK | INFER_LOAD_RETRY, signature, CurrentMemoryContext);
}

/* The first version activates itself. */
static int32
insert_version(const InferAnchor *anchor, const InferSource *source, const InferOptions *options,
			   const char *reference, const struct infer_signature *signature)
{
	Datum		values[Natts_version];
	bool		nulls[Natts_version] = {false};
	int32		version = infer_counter_next(&anchor->id);

	values[Anum_version_model_id - 1] = UUIDPGetDatum(&anchor->id);
	values[Anum_version_version - 1] = Int32GetDatum(version);
	values[Anum_version_active - 1] = BoolGetDatum(!infer_version_any(&anchor->id));
	values[Anum_version_kind - 1] = CStringGetTextDatum(signature->kind);
	values[Anum_version_format - 1] = CStringGetTextDatum(signature->format);
	values[Anum_version_digest - 1] = PointerGetDatum(infer_make_bytea(source->digest, INFER_KEY_BYTES));
	values[Anum_version_bytes - 1] = Int64GetDatum((int64) source->bytes);
	values[Anum_version_signature - 1] = JsonbPGetDatum(infer_signature_to_jsonb(signature));
	values[Anum_version_options - 1] = JsonbPGetDatum(options->jsonb);
	values[Anum_version_created - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (reference != NULL)
		values[Anum_version_reference - 1] = CStringGetTextDatum(reference);
	else
		nulls[Anum_version_reference - 1] = true;
	infer_version_insert(values, nulls);
	return version;
}

static void
check_not_null(FunctionCallInfo fcinfo, int argument, const char *name)
{
	if (PG_ARGISNULL(argument))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be NULL", name)));
}

Datum
infer_create_model(PG_FUNCTION_ARGS)
{
	char	   *name;
	char	   *reference = NULL;
	InferOptions options;
	InferAnchor anchor;
	InferSource *source;
	struct infer_signature signature;
	Relation	files;
	int32		version;

	check_may_write("infer.create_model()");
	check_not_null(fcinfo, 0, "name");
	check_not_null(fcinfo, 2, "options");
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	infer_model_name_check(name);
	(void) find_or_check_new(name, &anchor);
	infer_options_parse(PG_GETARG_JSONB_P(2), &options);
	source = open_source(fcinfo, &options);
	infer_source_digest(source, options.by_reference ? 0 : (uint64) infer_cache_size * 1024 * 1024);
	if (options.by_reference)
		reference = text_to_cstring(PG_GETARG_TEXT_PP(1));

	files = open_files_locked();
	if (!find_or_check_new(name, &anchor))	/* again, as somebody may have made it meanwhile */
		make_anchor(name, &anchor);
	infer_anchor_lock(&anchor);
	infer_sweep(files);
	if (reference == NULL)
		store_files(source, files);
	check_with_engine(&anchor, source, &options, reference, &signature);
	infer_options_check(&options, &signature);
	infer_options_settle(&options, &signature);
	version = insert_version(&anchor, source, &options, reference, &signature);
	if (!PG_ARGISNULL(4))
		infer_upload_delete(text_to_cstring(PG_GETARG_TEXT_PP(4)));
	table_close(files, NoLock);
	PG_RETURN_INT32(version);
}

/* ---- versions, names, privileges ---- */

/* The anchor of a model that the current user owns, locked. */
static void
get_own_model(const char *name, InferAnchor *anchor)
{
	infer_anchor_get(name, anchor);
	infer_anchor_check_owner(anchor);
	infer_anchor_lock(anchor);
}

static void
no_version(const char *name, int32 version)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("model \"%s\" has no version %d", name, version),
			 errhint("See infer.model_versions.")));
}

Datum
infer_activate_model(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int32		version = PG_GETARG_INT32(1);
	InferAnchor anchor;

	check_may_write("infer.activate_model()");
	get_own_model(name, &anchor);
	if (!infer_version_activate(&anchor.id, version))
		no_version(name, version);
	infer_fresh_activated(&anchor.id);
	PG_RETURN_VOID();
}

Datum
infer_drop_model(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	InferAnchor anchor;
	ObjectAddress address;
	Relation	files;

	check_may_write("infer.drop_model()");
	files = open_files_locked();
	get_own_model(name, &anchor);
	ObjectAddressSet(address, ForeignServerRelationId, anchor.server);
	performDeletion(&address, DROP_RESTRICT, 0);
	CommandCounterIncrement();
	infer_sweep(files);			/* of which this model's rows are part now */
	table_close(files, NoLock);
	PG_RETURN_VOID();
}

Datum
infer_drop_model_version(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int32		version = PG_GETARG_INT32(1);
	InferAnchor anchor;
	Relation	files;
	int			state;

	check_may_write("infer.drop_model()");
	files = open_files_locked();
	get_own_model(name, &anchor);
	state = infer_version_state(&anchor.id, version);
	if (state < 0)
		no_version(name, version);
	if (state > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("version %d of model \"%s\" is active", version, name),
				 errhint("Activate another version first with infer.activate_model(), or drop the whole model.")));
	infer_version_delete(&anchor.id, version);
	infer_sweep(files);
	table_close(files, NoLock);
	PG_RETURN_VOID();
}

Datum
infer_rename_model(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *new_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	InferAnchor anchor;
	RenameStmt *stmt;

	check_may_write("infer.rename_model()");
	infer_anchor_get(name, &anchor);
	infer_anchor_check_owner(&anchor);
	infer_model_name_check(new_name);
	if (OidIsValid(get_foreign_server_oid(new_name, true)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("a model or foreign server \"%s\" exists already", new_name),
				 errhint("Choose another name.")));
	stmt = makeNode(RenameStmt);
	stmt->renameType = OBJECT_FOREIGN_SERVER;
	stmt->object = (Node *) makeString(name);
	stmt->newname = new_name;
	ExecRenameStmt(stmt);
	PG_RETURN_VOID();
}

/* GRANT or REVOKE USAGE ON FOREIGN SERVER; the role public means PUBLIC, as no role may be called that. */
static void
change_usage(const char *name, const char *role, bool grant)
{
	InferAnchor anchor;
	GrantStmt  *stmt = makeNode(GrantStmt);
	AccessPriv *usage = makeNode(AccessPriv);
	RoleSpec   *grantee = makeNode(RoleSpec);

	infer_anchor_get(name, &anchor);
	if (!infer_server_ownercheck(anchor.server, GetUserId()) &&
		infer_server_aclcheck(anchor.server, GetUserId(), ACL_GRANT_OPTION_FOR(ACL_USAGE)) != ACLCHECK_OK)
		infer_anchor_check_owner(&anchor);
	usage->priv_name = pstrdup("usage");
	grantee->roletype = strcmp(role, "public") == 0 ? ROLESPEC_PUBLIC : ROLESPEC_CSTRING;
	grantee->rolename = grantee->roletype == ROLESPEC_PUBLIC ? NULL : pstrdup(role);
	grantee->location = -1;
	stmt->is_grant = grant;
	stmt->targtype = ACL_TARGET_OBJECT;
	stmt->objtype = OBJECT_FOREIGN_SERVER;
	stmt->objects = list_make1(makeString(pstrdup(name)));
	stmt->privileges = list_make1(usage);
	stmt->grantees = list_make1(grantee);
	stmt->behavior = DROP_RESTRICT;
	ExecuteGrantStmt(stmt);
}

Datum
infer_grant_model(PG_FUNCTION_ARGS)
{
	check_may_write("infer.grant_model()");
	change_usage(text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1)), true);
	PG_RETURN_VOID();
}

Datum
infer_revoke_model(PG_FUNCTION_ARGS)
{
	check_may_write("infer.revoke_model()");
	change_usage(text_to_cstring(PG_GETARG_TEXT_PP(0)), text_to_cstring(PG_GETARG_TEXT_PP(1)), false);
	PG_RETURN_VOID();
}

/* ---- the engine's memory ---- */

/* Also one that was disabled: it gets another chance. */
Datum
infer_load_model(PG_FUNCTION_ARGS)
{
	InferModel *model = infer_model_resolve(text_to_cstring(PG_GETARG_TEXT_PP(0)), CurrentMemoryContext);
	struct infer_signature signature;

	infer_client_load(model, INFER_LOAD_RETRY, &signature, CurrentMemoryContext);
	PG_RETURN_VOID();
}

/* Others would have to wait for it to be loaded again, so this is the owner's. */
Datum
infer_unload_model(PG_FUNCTION_ARGS)
{
	InferModel *model = infer_model_resolve(text_to_cstring(PG_GETARG_TEXT_PP(0)), CurrentMemoryContext);
	InferAnchor anchor;

	infer_anchor_get(model->name, &anchor);
	infer_anchor_check_owner(&anchor);
	infer_client_unload(model);
	PG_RETURN_VOID();
}
