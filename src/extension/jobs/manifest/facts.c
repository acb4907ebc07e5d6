/*
 * facts.c
 *	  What a job's manifest needs, and nobody can know later: what was submitted, and what computed it.
 *
 * Facts are made once, from the plan, when the job is submitted: a model may be dropped, and a server
 * upgraded, before anybody asks.  The engine may be another one after each restart, so each shard
 * keeps those that computed it, as far as they differ.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/timestamp.h"

#include "../../catalog/internal.h"
#include "../../client.h"
#include "../json.h"
#include "../job.h"

#define ENGINES_MAX 16				/* different ones of a shard that are kept */

/* ---- statements ---- */

static void
append_columns(StringInfo text, const JobColumn *columns, int count)
{
	for (int i = 0; i < count; i++)
		appendStringInfo(text, "%s%s", i > 0 ? ", " : "", columns[i].sql);
}

/* Each row once, in the order of the key. */
static char *
read_statement(const JobPlan *plan)
{
	StringInfoData text;

	if (plan->source == JOB_SOURCE_REQUESTS)
		return NULL;
	if (plan->source == JOB_SOURCE_INPUT)
		return pstrdup(plan->from_sql);
	initStringInfo(&text);
	appendStringInfoString(&text, "SELECT ");
	append_columns(&text, plan->keys, plan->keys_count);
	for (int i = 0; i < plan->inputs_count; i++)
		appendStringInfo(&text, ", %s", plan->inputs[i].sql);
	appendStringInfo(&text, " %s ORDER BY ", plan->from_sql);
	append_columns(&text, plan->keys, plan->keys_count);
	return text.data;
}

/* With $1, $2 … for the inputs. */
static char *
call_statement(const JobPlan *plan)
{
	StringInfoData text;
	ListCell   *cell;
	Oid			function;

	if (plan->call == NULL)
		return NULL;
	function = plan->call->funcid;
	initStringInfo(&text);
	appendStringInfo(&text, "%s(", quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
															   get_func_name(function)));
	foreach(cell, plan->call->args)
		appendStringInfo(&text, "%s%s", foreach_current_index(cell) > 0 ? ", " : "",
						 deparse_expression(lfirst(cell), NIL, false, false));
	appendStringInfoChar(&text, ')');
	return text.data;
}

static char *
write_statement(const JobPlan *plan)
{
	StringInfoData text;
	const char *output = plan->output.sql;

	if (plan->target == JOB_TARGET_RESPONSES)
		return NULL;
	initStringInfo(&text);
	if (plan->target == JOB_TARGET_UPDATE)
		appendStringInfo(&text, "UPDATE %s SET %s = result", plan->target_sql, output);
	else
	{
		appendStringInfo(&text, "INSERT INTO %s (", plan->target_sql);
		append_columns(&text, plan->target_keys, plan->keys_count);
		appendStringInfo(&text, ", %s) VALUES (key, result) ON CONFLICT (", output);
		append_columns(&text, plan->target_keys, plan->keys_count);
		appendStringInfo(&text, ") DO UPDATE SET %s = excluded.%s", output, output);
	}
	if (plan->version_column != NULL)
		appendStringInfo(&text, ", %s = version", plan->version_column->sql);
	return text.data;
}

/* SHA-256 of the statements, each with a terminating 0. */
static char *
fingerprint(char **statements, int count)
{
	InferHash  *hash = infer_hash_begin();
	uint8		digest[INFER_KEY_BYTES];

	for (int i = 0; i < count; i++)
		infer_hash_update(hash, statements[i] ? statements[i] : "", statements[i] ? strlen(statements[i]) + 1 : 1);
	infer_hash_final(hash, digest);
	return json_hex(digest, sizeof(digest));
}

static void
put_query(StringInfo json, const JobPlan *plan)
{
	char	   *statements[] = {read_statement(plan), call_statement(plan), write_statement(plan)};

	json_begin(json, "query", '{');
	json_text(json, "read", statements[0]);
	json_text(json, "call", statements[1]);
	json_text(json, "write", statements[2]);
	json_text(json, "search_path", plan->request->search_path);
	json_text(json, "fingerprint", fingerprint(statements, lengthof(statements)));
	json_end(json, '}');
}

/* ---- what was submitted ---- */

static void
put_columns(StringInfo json, const char *name, const JobColumn *columns, int count)
{
	json_begin(json, name, '[');
	for (int i = 0; i < count; i++)
	{
		json_begin(json, NULL, '{');
		json_text(json, "name", columns[i].name);
		json_text(json, "type", columns[i].type_sql);
		json_end(json, '}');
	}
	json_end(json, ']');
}

static void
put_model(StringInfo json, const InferModel *model)
{
	json_begin(json, "model", '{');
	json_text(json, "name", model->name);
	json_number(json, "version", model->version);
	json_text(json, "digest", json_hex(model->digest, INFER_KEY_BYTES));
	json_text(json, "key", json_hex(model->key, INFER_KEY_BYTES));
	json_text(json, "id", infer_uuid_text(&model->id));
	json_raw(json, "options", model->options != NULL && model->options[0] != '\0' ?
			 infer_client_text(model->options) : "{}");
	json_end(json, '}');
}

Jsonb *
job_facts(const JobPlan *plan)
{
	StringInfoData json;

	initStringInfo(&json);
	json_begin(&json, NULL, '{');
	put_query(&json, plan);
	if (plan->model != NULL)
		put_model(&json, plan->model);
	json_begin(&json, "columns", '{');
	put_columns(&json, "key", plan->keys, plan->keys_count);
	put_columns(&json, "inputs", plan->inputs, plan->inputs_count);
	if (plan->target != JOB_TARGET_RESPONSES)
		put_columns(&json, "output", &plan->output, 1);
	json_end(&json, '}');
	json_server(&json);
	json_end(&json, '}');
	return json_finish(&json);
}

pg_noreturn static void
raise_another_model(const JobPlan *plan)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"%s\" is another model than when the job was submitted", plan->model_pinned),
			 errhint("Submit the job anew.")));
}

char *
job_model_now(const JobRecord *record)
{
	const char *id = record->facts == NULL ? NULL : json_get(record->facts, "model", "id");
	int			count = 0;
	InferAnchor *anchors = id == NULL ? NULL : infer_anchor_list(&count);

	for (int i = 0; i < count; i++)
		if (strcmp(infer_uuid_text(&anchors[i].id), id) == 0)
			return psprintf("%s%s", anchors[i].name, strrchr(record->model, '@'));
	return record->model;
}

void
job_facts_check(const JobRecord *record, const JobPlan *plan)
{
	char	   *known;

	if (record->facts == NULL || plan->model == NULL)
		return;
	known = json_get(record->facts, "model", "key");
	if (known != NULL && strcmp(known, json_hex(plan->model->key, INFER_KEY_BYTES)) != 0)
		raise_another_model(plan);
}

void
job_model_check(const JobPlan *plan)
{
	const InferModel *model;

	if (plan->model == NULL || infer_model_current(plan->model))
		return;
	model = infer_model_resolve(plan->model_pinned, CurrentMemoryContext);
	if (memcmp(model->key, plan->model->key, INFER_KEY_BYTES) != 0)
		raise_another_model(plan);
}

/* ---- what computed it ---- */

/* Settings that say how fast it was, and with which device. */
static const char *const settings[] = {
	"infer.device", "infer.memory", "infer.batch_rows", "infer.batch_tokens", "infer.slice", "infer.job_share"
};

/* The device in use; false: there is none. */
static bool
put_engine(StringInfo json)
{
	EngineStats stats;

	infer_client_stats(false, &stats);
	for (int i = 0; i < stats.head.devices_count; i++)
	{
		const struct infer_stats_device *device = &stats.devices[i];

		if (!device->in_use)
			continue;
		json_text(json, "version", INFER_VERSION);
		json_text(json, "device", infer_client_text(device->name));
		json_text(json, "description", infer_client_text(device->description));
		json_text(json, "isa", infer_client_text(device->arch));
		json_text(json, "numerics_id", infer_client_text(device->numerics_id));
		json_number(json, "threads", device->threads);
		json_begin(json, "settings", '{');
		for (int k = 0; k < lengthof(settings); k++)
			json_text(json, settings[k], GetConfigOptionByName(settings[k], NULL, false));
		json_end(json, '}');
		return true;
	}
	return false;
}

/* All have the same keys, so what contains one equals it. */
static Jsonb *
add_engine(Jsonb *engines, JsonbValue *engine)
{
	Datum		none = DirectFunctionCall1(jsonb_in, CStringGetDatum("[]"));
	Datum		more = DirectFunctionCall2(jsonb_concat, none, JsonbPGetDatum(JsonbValueToJsonb(engine)));

	if (JB_ROOT_COUNT(engines) >= ENGINES_MAX ||
		DatumGetBool(DirectFunctionCall2(jsonb_contains, JsonbPGetDatum(engines), more)))
		return engines;
	return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(engines), more));
}

Jsonb *
job_engines_add(Jsonb *engines, Jsonb *more)
{
	if (engines == NULL)
		return more;
	for (int i = 0; more != NULL && i < JB_ROOT_COUNT(more); i++)
		engines = add_engine(engines, getIthJsonbValueFromContainer(&more->root, i));
	return engines;
}

static uint64
engine_starts(void)
{
	uint64		starts;

	LWLockAcquire(infer_shared->lock, LW_SHARED);
	starts = infer_shared->engine_starts;
	LWLockRelease(infer_shared->lock);
	return starts;
}

void
job_note_engine(JobShard *shard, MemoryContext context)
{
	static int64 noted_job;
	static int32 noted_shard;
	static uint64 noted_starts;
	uint64		starts = engine_starts();
	MemoryContext scratch;
	MemoryContext old;
	StringInfoData json;

	if (noted_job == shard->job && noted_shard == shard->shard && noted_starts == starts)
		return;
	scratch = AllocSetContextCreate(CurrentMemoryContext, "infer job engines", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(scratch);
	initStringInfo(&json);
	json_begin(&json, NULL, '[');
	json_begin(&json, NULL, '{');
	if (put_engine(&json))
	{
		Jsonb	   *engines;

		json_end(&json, '}');
		json_end(&json, ']');
		engines = job_engines_add(shard->engines, json_finish(&json));
		MemoryContextSwitchTo(context);
		shard->engines = engines == shard->engines ? engines : DatumGetJsonbPCopy(JsonbPGetDatum(engines));
		noted_job = shard->job;
		noted_shard = shard->shard;
		noted_starts = starts;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
}
