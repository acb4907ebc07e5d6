/*
 * request.c
 *	  submit_job's arguments as jsonb, and back.
 *
 * Tables are kept as {"oid": …, "name": …}: the oid is what counts, the name is for people and for the error when
 * the table is gone.  What was not given is not there.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "../job.h"
#include "../json.h"

/* ---- to jsonb ---- */

static void
put_text(StringInfo json, const char *name, const char *value)
{
	if (value != NULL)
		json_text(json, name, value);
}

/* The qualified, quoted name; NULL: it is gone. */
static char *
table_name(Oid oid)
{
	char	   *name = get_rel_name(oid);

	return name == NULL ? NULL : quote_qualified_identifier(get_namespace_name(get_rel_namespace(oid)), name);
}

static void
put_table(StringInfo json, const char *name, Oid oid, const char *known)
{
	if (!OidIsValid(oid))
		return;
	json_begin(json, name, '{');
	json_number(json, "oid", oid);
	put_text(json, "name", known != NULL ? known : table_name(oid));
	json_end(json, '}');
}

static void
put_interval(StringInfo json, const char *name, const Interval *interval)
{
	if (interval == NULL)
		return;
	json_begin(json, name, '{');
	json_number(json, "months", interval->month);
	json_number(json, "days", interval->day);
	json_number(json, "microseconds", interval->time);
	json_end(json, '}');
}

/* JSON has no infinity: any number is below 1e308. */
static void
put_number(StringInfo json, const char *name, double value)
{
	json_raw(json, name, psprintf("%.17g", Max(-1e308, Min(value, 1e308))));
}

Jsonb *
job_request_to_jsonb(const JobRequest *request)
{
	StringInfoData json;

	initStringInfo(&json);
	json_begin(&json, NULL, '{');
	put_text(&json, "model", request->model);
	put_table(&json, "table", request->table, request->table_name);
	put_text(&json, "input", request->input);
	put_text(&json, "output", request->output);
	put_text(&json, "condition", request->condition);
	put_text(&json, "source", request->source);
	put_text(&json, "key", request->key);
	put_table(&json, "target", request->target, request->target_name);
	put_text(&json, "verb", request->verb);
	put_text(&json, "class", request->class_);
	put_text(&json, "version_column", request->version_column);
	put_text(&json, "name", request->name);
	json_number(&json, "job_priority", request->priority);
	put_interval(&json, "completion_window", request->completion_window);
	if (request->options != NULL)
		json_jsonb(&json, "options", request->options);
	put_number(&json, "max_failures", request->max_failures);
	json_number(&json, "shards", request->shards);
	put_text(&json, "search_path", request->search_path);
	put_text(&json, "time_zone", request->time_zone);
	put_text(&json, "date_order", request->date_order);
	json_bool(&json, "requests", request->requests);
	if (request->fresh != 0)
		json_number(&json, "fresh", request->fresh);
	json_end(&json, '}');
	return json_finish(&json);
}

/* ---- from jsonb ---- */

static bool
member(const JsonbContainer *object, const char *key, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(unconstify(JsonbContainer *, object), key, strlen(key), value) != NULL;
}

static bool
has_member(const JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return member(object, key, &value);
}

static JsonbContainer *
object_member(const JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return member(object, key, &value) && value.type == jbvBinary ? value.val.binary.data : NULL;
}

static char *
text_member(const JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return member(object, key, &value) && value.type == jbvString ?
		pnstrdup(value.val.string.val, value.val.string.len) : NULL;
}

static Datum
number_member(const JsonbContainer *object, const char *key, PGFunction as)
{
	JsonbValue	value;

	if (!member(object, key, &value) || value.type != jbvNumeric)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("a job's request has no number \"%s\"", key),
				 errhint("Only infer's own functions may write its tables.")));
	return DirectFunctionCall1(as, NumericGetDatum(value.val.numeric));
}

static int64
int_member(const JsonbContainer *object, const char *key)
{
	return DatumGetInt64(number_member(object, key, numeric_int8));
}

static void
get_table(const JsonbContainer *object, const char *key, Oid *oid, char **name)
{
	const JsonbContainer *table = object_member(object, key);

	if (table == NULL)
		return;
	*oid = (Oid) int_member(table, "oid");
	*name = text_member(table, "name");
}

static Interval *
interval_member(const JsonbContainer *object, const char *key)
{
	const JsonbContainer *given = object_member(object, key);
	Interval   *interval;

	if (given == NULL)
		return NULL;
	interval = palloc0(sizeof(Interval));
	interval->month = (int32) int_member(given, "months");
	interval->day = (int32) int_member(given, "days");
	interval->time = int_member(given, "microseconds");
	return interval;
}

static Jsonb *
jsonb_member(const JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return member(object, key, &value) ? JsonbValueToJsonb(&value) : NULL;
}

static bool
bool_member(const JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return member(object, key, &value) && value.type == jbvBool && value.val.boolean;
}

JobRequest *
job_request_from_jsonb(const Jsonb *jsonb, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	JobRequest *request = palloc0(sizeof(JobRequest));
	const JsonbContainer *object = &jsonb->root;

	request->model = text_member(object, "model");
	get_table(object, "table", &request->table, &request->table_name);
	request->input = text_member(object, "input");
	request->output = text_member(object, "output");
	request->condition = text_member(object, "condition");
	request->source = text_member(object, "source");
	request->key = text_member(object, "key");
	get_table(object, "target", &request->target, &request->target_name);
	request->verb = text_member(object, "verb");
	request->class_ = text_member(object, "class");
	request->version_column = text_member(object, "version_column");
	request->name = text_member(object, "name");
	request->priority = (int32) int_member(object, "job_priority");
	request->completion_window = interval_member(object, "completion_window");
	request->options = jsonb_member(object, "options");
	request->max_failures = DatumGetFloat8(number_member(object, "max_failures", numeric_float8));
	request->shards = (int32) int_member(object, "shards");
	request->search_path = text_member(object, "search_path");
	request->time_zone = text_member(object, "time_zone");
	request->date_order = text_member(object, "date_order");
	request->requests = bool_member(object, "requests");
	if (has_member(object, "fresh"))
		request->fresh = int_member(object, "fresh");
	MemoryContextSwitchTo(old);
	return request;
}
