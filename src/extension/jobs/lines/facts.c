/*
 * facts.c
 *	  What is kept of the models that a job's lines are for: the manifest tells it, and a model that was dropped
 *	  and made anew under its name is not taken for the one that was meant.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "../../catalog/internal.h"
#include "../json.h"
#include "lines.h"

static void
put_model(StringInfo json, const InferModel *model)
{
	json_begin(json, NULL, '{');
	json_text(json, "model", psprintf("%s@%d", model->name, model->version));
	json_text(json, "name", model->name);
	json_number(json, "version", model->version);
	json_text(json, "digest", json_hex(model->digest, INFER_KEY_BYTES));
	json_text(json, "key", json_hex(model->key, INFER_KEY_BYTES));
	json_text(json, "id", infer_uuid_text(&model->id));
	json_raw(json, "options", model->options != NULL && model->options[0] != '\0' ? infer_client_text(model->options) : "{}");
	json_end(json, '}');
}

Jsonb *
lines_facts(const LineCheck *check)
{
	StringInfoData json;
	const InferModel *model;

	initStringInfo(&json);
	json_begin(&json, NULL, '{');
	json_begin(&json, "models", '[');
	for (int i = 0; (model = line_check_model(check, i)) != NULL; i++)
		put_model(&json, model);
	json_end(&json, ']');
	json_server(&json);
	json_end(&json, '}');
	return json_finish(&json);
}

/* The key that a model of that name and version had; NULL: not told. */
static char *
known_key(const Jsonb *facts, const InferModel *model)
{
	JsonbValue	models;
	char	   *pinned = psprintf("%s@%d", model->name, model->version);

	if (getKeyJsonValueFromContainer(unconstify(JsonbContainer *, &facts->root), "models", 6, &models) == NULL ||
		models.type != jbvBinary)
		return NULL;
	for (int i = 0; i < JsonContainerSize(models.val.binary.data); i++)
	{
		Jsonb	   *known = JsonbValueToJsonb(getIthJsonbValueFromContainer(models.val.binary.data, i));

		if (strcmp(json_get(known, NULL, "model"), pinned) == 0)
			return json_get(known, NULL, "key");
	}
	return NULL;
}

void
lines_check_model(const JobRecord *record, const InferModel *model)
{
	char	   *known = record->facts != NULL ? known_key(record->facts, model) : NULL;

	if (known != NULL && strcmp(known, json_hex(model->key, INFER_KEY_BYTES)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s@%d\" is another model than when the lines were imported", model->name, model->version),
				 errhint("Import them anew.")));
}
