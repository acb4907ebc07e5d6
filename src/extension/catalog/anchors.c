/*
 * anchors.c
 *	  Models as foreign servers of the wrapper "infer", and the ids that join them to tables.
 *
 * Servers are looked up in the system caches, so under the latest snapshot, as a table's
 * name is.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "../compat.h"
#include "internal.h"

Oid
infer_wrapper_oid(void)
{
	return get_foreign_data_wrapper_oid(INFER_WRAPPER, true);
}

/* A uuid in its usual form, lower case; unlike uuid_in without raising. */
bool
infer_uuid_parse(const char *text, pg_uuid_t *id)
{
	int			digits = 0;

	memset(id, 0, sizeof(*id));
	for (int i = 0; text[i] != '\0'; i++)
	{
		char		c = text[i];
		int			value;

		if (i == 8 || i == 13 || i == 18 || i == 23)
		{
			if (c != '-')
				return false;
			continue;
		}
		if (c >= '0' && c <= '9')
			value = c - '0';
		else if (c >= 'a' && c <= 'f')
			value = c - 'a' + 10;
		else
			return false;
		if (digits == 2 * UUID_LEN)
			return false;
		id->data[digits / 2] |= value << (digits % 2 == 0 ? 4 : 0);
		digits++;
	}
	return digits == 2 * UUID_LEN;
}

char *
infer_uuid_text(const pg_uuid_t *id)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(id)));
}

pg_uuid_t
infer_uuid_make(void)
{
	return *DatumGetUUIDP(OidFunctionCall0(F_GEN_RANDOM_UUID));
}

bool
infer_anchor_id(List *options, pg_uuid_t *id)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, INFER_ID_OPTION) == 0)
			return option->arg != NULL && infer_uuid_parse(defGetString(option), id);
	}
	return false;
}

bool
infer_anchor_find(const char *name, InferAnchor *anchor, bool *other_wrapper)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	if (other_wrapper != NULL)
		*other_wrapper = false;
	if (server == NULL)
		return false;
	if (server->fdwid != infer_wrapper_oid() || !infer_anchor_id(server->options, &anchor->id))
	{
		if (other_wrapper != NULL)
			*other_wrapper = true;
		return false;
	}
	anchor->server = server->serverid;
	anchor->owner = server->owner;
	strlcpy(anchor->name, server->servername, NAMEDATALEN);
	return true;
}

void
infer_anchor_get(const char *name, InferAnchor *anchor)
{
	if (!infer_anchor_find(name, anchor, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("model \"%s\" does not exist", infer_model_name_shown(name)),
				 errhint("See infer.models, or make it with infer.create_model().")));
}

void
infer_anchor_check_owner(const InferAnchor *anchor)
{
	if (!infer_server_ownercheck(anchor->server, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of model \"%s\"", anchor->name),
				 errhint("Its owner is \"%s\".", GetUserNameFromId(anchor->owner, false))));
}

void
infer_anchor_lock(const InferAnchor *anchor)
{
	LockDatabaseObject(ForeignServerRelationId, anchor->server, 0, ShareUpdateExclusiveLock);
	if (!SearchSysCacheExists1(FOREIGNSERVEROID, ObjectIdGetDatum(anchor->server)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("model \"%s\" was dropped meanwhile", anchor->name)));
}

InferAnchor *
infer_anchor_list(int *count)
{
	Oid			wrapper = infer_wrapper_oid();
	int			room = 16;
	InferAnchor *anchors = palloc(sizeof(InferAnchor) * room);
	Relation	servers = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(servers, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	*count = 0;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_server form = (Form_pg_foreign_server) GETSTRUCT(tuple);
		InferAnchor *anchor;
		Datum		options;
		bool		isnull;

		options = heap_getattr(tuple, Anum_pg_foreign_server_srvoptions, RelationGetDescr(servers), &isnull);
		if (form->srvfdw != wrapper || isnull)
			continue;
		if (*count == room)
			anchors = repalloc(anchors, sizeof(InferAnchor) * (room *= 2));
		anchor = &anchors[*count];
		if (!infer_anchor_id(untransformRelOptions(options), &anchor->id))
			continue;
		anchor->server = form->oid;
		anchor->owner = form->srvowner;
		strlcpy(anchor->name, NameStr(form->srvname), NAMEDATALEN);
		(*count)++;
	}
	systable_endscan(scan);
	table_close(servers, AccessShareLock);
	return anchors;
}

