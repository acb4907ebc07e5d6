/*
 * stats.c
 *	  What the engine counts, as relations: infer.stats, infer.loaded_models, infer.devices.
 *
 * The engine knows keys only; names and versions are those of this database.  One engine
 * serves all databases, so a key may be unknown here, and several versions may share one
 * (equal files and options): each of them is then shown with the same figures.
 *
 * Who sees what: the models that one may use.  Members of pg_read_all_stats see the other
 * databases' models too, without a name.  Devices and their load are no secret.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "client.h"
#include "compat.h"
#include "infer.h"

#define EPOCH_SHIFT_USEC \
	((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * USECS_PER_SEC)

typedef struct EngineStats
{
	struct infer_stats_head head;
	struct infer_stats_device *devices;
	struct infer_stats_model *models;
} EngineStats;

static void
read_stats(EngineStats *stats)
{
	infer_require_preload();
	infer_client_stats(false, &stats->head, &stats->devices, &stats->models);
}

static Datum
time_datum(uint64 unix_usec)
{
	return TimestampTzGetDatum((int64) unix_usec - EPOCH_SHIFT_USEC);
}

static Datum
milliseconds(uint64 usec)
{
	return Float8GetDatum(usec / 1000.0);
}

static const char *
state_name(uint32 state)
{
	switch (state)
	{
		case INFER_MODEL_LOADING:
			return "loading";
		case INFER_MODEL_LOADED:
			return "loaded";
		case INFER_MODEL_FAILED:
			return "failed";
		case INFER_MODEL_EVICTED:
			return "evicted";
		default:
			return "unknown";
	}
}

typedef void (*PutModel) (ReturnSetInfo *result, const EngineStats *stats,
						  const struct infer_stats_model *counters, const InferModel *model);

/* Calls put for each pair of counters and version; model NULL: not of this database. */
static void
each_model(ReturnSetInfo *result, PutModel put)
{
	EngineStats stats;
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	int			count;
	InferModel **models;

	read_stats(&stats);
	models = infer_model_list(&count);
	for (int i = 0; i < stats.head.models_count; i++)
	{
		const struct infer_stats_model *counters = &stats.models[i];
		bool		known = false;

		for (int k = 0; k < count; k++)
			if (memcmp(models[k]->key, counters->key, INFER_KEY_BYTES) == 0)
			{
				put(result, &stats, counters, models[k]);
				known = true;
			}
		if (!known && all)
			put(result, &stats, counters, NULL);
	}
}

static void
put_name(Datum *values, bool *nulls, const InferModel *model)
{
	nulls[0] = nulls[1] = model == NULL;
	if (model == NULL)
		return;
	values[0] = CStringGetTextDatum(model->name);
	values[1] = Int32GetDatum(model->version);
}

enum { STATS_COLUMNS = 12 };

static void
put_stats(ReturnSetInfo *result, const EngineStats *stats, const struct infer_stats_model *counters,
		  const InferModel *model)
{
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {false};

	put_name(values, nulls, model);
	values[2] = Int64GetDatum(counters->calls);
	values[3] = Int64GetDatum(counters->rows);
	values[4] = Int64GetDatum(counters->batches);
	nulls[5] = counters->batches == 0;
	values[5] = Float8GetDatum(nulls[5] ? 0 : (double) counters->rows / counters->batches);
	values[6] = Int64GetDatum(counters->errors);
	values[7] = Int64GetDatum(counters->cancelled);
	values[8] = Int64GetDatum(counters->inline_calls);
	values[9] = milliseconds(counters->queue_usec);
	values[10] = milliseconds(counters->compute_usec);
	values[11] = time_datum(stats->head.since);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

enum { LOADED_COLUMNS = 7 };

static void
put_loaded(ReturnSetInfo *result, const EngineStats *stats, const struct infer_stats_model *counters,
		   const InferModel *model)
{
	Datum		values[LOADED_COLUMNS];
	bool		nulls[LOADED_COLUMNS] = {false};
	char		key[INFER_KEY_BYTES * 2 + 1] = {0};

	put_name(values, nulls, model);
	hex_encode((const char *) counters->key, INFER_KEY_BYTES, key);
	values[2] = CStringGetTextDatum(key);
	values[3] = CStringGetTextDatum(state_name(counters->state));
	values[4] = Int64GetDatum(counters->bytes);
	nulls[5] = counters->loaded_at == 0;
	values[5] = time_datum(counters->loaded_at);
	nulls[6] = counters->last_used_at == 0;
	values[6] = time_datum(counters->last_used_at);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(infer_read_stats);
Datum
infer_read_stats(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	each_model((ReturnSetInfo *) fcinfo->resultinfo, put_stats);
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(infer_read_loaded_models);
Datum
infer_read_loaded_models(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	each_model((ReturnSetInfo *) fcinfo->resultinfo, put_loaded);
	return (Datum) 0;
}

enum { DEVICE_COLUMNS = 8 };

PG_FUNCTION_INFO_V1(infer_read_devices);
Datum
infer_read_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	EngineStats stats;

	InitMaterializedSRF(fcinfo, 0);
	read_stats(&stats);
	for (int i = 0; i < stats.head.devices_count; i++)
	{
		const struct infer_stats_device *device = &stats.devices[i];
		Datum		values[DEVICE_COLUMNS];
		bool		nulls[DEVICE_COLUMNS] = {false};

		values[0] = CStringGetTextDatum(infer_client_text(device->name));
		values[1] = CStringGetTextDatum(infer_client_text(device->description));
		values[2] = BoolGetDatum(device->in_use != 0);
		values[3] = Int32GetDatum(device->threads);
		values[4] = Int64GetDatum(device->bytes_budget);
		values[5] = Int64GetDatum(device->bytes_used);
		values[6] = milliseconds(device->busy_usec);
		values[7] = CStringGetTextDatum(infer_client_text(device->numerics_id));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

PG_FUNCTION_INFO_V1(infer_reset_stats);
Datum
infer_reset_stats(PG_FUNCTION_ARGS)
{
	EngineStats stats;

	infer_require_preload();
	infer_client_stats(true, &stats.head, &stats.devices, &stats.models);
	PG_RETURN_VOID();
}
