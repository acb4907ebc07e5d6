/*
 * json.c
 *	  JSON objects written member by member.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/json.h"

#include "../compat.h"
#include "json.h"

/* A comma but at the beginning, and the name. */
static void
member(StringInfo json, const char *name)
{
	if (json->len > 0 && json->data[json->len - 1] != '{' && json->data[json->len - 1] != '[')
		appendStringInfoChar(json, ',');
	if (name == NULL)
		return;
	escape_json(json, name);
	appendStringInfoChar(json, ':');
}

void
json_begin(StringInfo json, const char *name, char bracket)
{
	member(json, name);
	appendStringInfoChar(json, bracket);
}

void
json_end(StringInfo json, char bracket)
{
	appendStringInfoChar(json, bracket);
}

void
json_raw(StringInfo json, const char *name, const char *value)
{
	member(json, name);
	appendStringInfoString(json, value == NULL ? "null" : value);
}

void
json_text(StringInfo json, const char *name, const char *value)
{
	member(json, name);
	if (value == NULL)
		appendStringInfoString(json, "null");
	else
		escape_json(json, value);
}

void
json_number(StringInfo json, const char *name, int64 value)
{
	member(json, name);
	appendStringInfo(json, INT64_FORMAT, value);
}

void
json_double(StringInfo json, const char *name, double value, int places)
{
	if (isfinite(value))
		json_raw(json, name, psprintf("%.*f", places, value));
	else
		json_raw(json, name, NULL);
}

void
json_bool(StringInfo json, const char *name, bool value)
{
	json_raw(json, name, value ? "true" : "false");
}

void
json_time(StringInfo json, const char *name, TimestampTz value)
{
	char		text[MAXDATELEN + 1];

	if (value == 0)
	{
		json_raw(json, name, NULL);
		return;
	}
	JsonEncodeDateTime(text, TimestampTzGetDatum(value), TIMESTAMPTZOID, NULL);
	json_text(json, name, text);
}

void
json_jsonb(StringInfo json, const char *name, Jsonb *value)
{
	json_raw(json, name, value == NULL ? NULL : JsonbToCString(NULL, &value->root, VARSIZE(value)));
}

void
json_server(StringInfo json)
{
	json_begin(json, "versions", '{');
	json_text(json, "server", GetConfigOptionByName("server_version", NULL, false));
	json_text(json, "extension", INFER_VERSION);
	json_end(json, '}');
	json_text(json, "encoding", GetDatabaseEncodingName());
}

Jsonb *
json_finish(StringInfo json)
{
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json->data)));
}

char *
json_hex(const uint8 *bytes, int count)
{
	char	   *text = palloc0(count * 2 + 1);

	hex_encode((const char *) bytes, count, text);
	return text;
}

char *
json_get(Jsonb *jsonb, const char *object, const char *key)
{
	JsonbContainer *container = &jsonb->root;
	JsonbValue	value;

	if (object != NULL)
	{
		if (!JsonContainerIsObject(container) ||
			getKeyJsonValueFromContainer(container, object, strlen(object), &value) == NULL || value.type != jbvBinary)
			return NULL;
		container = value.val.binary.data;
	}
	if (!JsonContainerIsObject(container) ||
		getKeyJsonValueFromContainer(container, key, strlen(key), &value) == NULL || value.type != jbvString)
		return NULL;
	return pnstrdup(value.val.string.val, value.val.string.len);
}
