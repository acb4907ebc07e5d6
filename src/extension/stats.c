/*
 * stats.c
 *	  What the engine counts, and what it does now, as relations: infer.stats,
 *	  infer.loaded_models, infer.devices, infer.activity.
 *
 * The engine knows keys only; names and versions are those of this database.  One engine
 * serves all databases, so a key may be unknown here, and several versions may share one
 * (equal files and options): each of them is then shown with the same figures.
 *
 * Who sees what: the models that one may use.  Members of pg_read_all_stats see all, those of
 * other databases without a name; names of this one's are no secret, pg_foreign_server has
 * them.  Devices and their load are none either.  Calls in flight are shown to the role that
 * made them, to members of it, and to those of pg_read_all_stats, as pg_stat_activity does
 * with what sessions do.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "foreign/foreign.h"
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

static void
read_stats(EngineStats *stats)
{
	infer_require_preload();
	infer_client_stats(false, stats);
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

static const char *
class_name(uint32 class_)
{
	switch (class_)
	{
		case INFER_CLASS_INTERACTIVE:
			return "interactive";
		case INFER_CLASS_STATEMENT:
			return "statement";
		case INFER_CLASS_JOB:
			return "job";
		default:
			return "unknown";
	}
}

/* To so many places as a reader wants to see: a quotient prints 17 digits. */
static Datum
rounded(double value, double places)
{
	return Float8GetDatum(rint(value * places) / places);
}

/* Of the time since the last reset. */
static Datum
share(const EngineStats *stats, uint64 busy_usec)
{
	return rounded(stats->head.elapsed_usec == 0 ? 0 :
				   Min(1.0, (double) busy_usec / stats->head.elapsed_usec), 1e4);
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
	models = infer_model_list(all, &count);
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

enum { STATS_COLUMNS = 26 };

static void
put_percentiles(Datum *values, bool *nulls, const uint64_t *nsec, bool none)
{
	for (int i = 0; i < INFER_PERCENTILES; i++)
	{
		values[i] = Float8GetDatum(nsec[i] / 1e6);
		nulls[i] = none;
	}
}

static void
put_class(ReturnSetInfo *result, const EngineStats *stats, const struct infer_stats_class *counters,
		  const InferModel *model)
{
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {false};
	const struct infer_stats_model *all = &stats->models[counters->model];

	put_name(values, nulls, model);
	values[2] = CStringGetTextDatum(class_name(counters->class_));
	values[3] = Int64GetDatum(counters->calls);
	values[4] = Int64GetDatum(counters->rows);
	values[5] = Int64GetDatum(counters->tokens);
	values[6] = Int64GetDatum(counters->batches);
	nulls[7] = counters->batches == 0;
	values[7] = rounded(nulls[7] ? 0 : (double) counters->batch_rows / counters->batches, 1e2);
	nulls[8] = counters->room == 0;
	values[8] = rounded(nulls[8] ? 0 : (double) counters->filled / counters->room, 1e4);
	values[9] = Int64GetDatum(counters->errors);
	values[10] = Int64GetDatum(counters->cancelled);
	values[11] = Int64GetDatum(counters->inline_calls);
	values[12] = milliseconds(counters->prepare_usec);
	values[13] = milliseconds(counters->queue_usec);
	put_percentiles(&values[14], &nulls[14], counters->queue_nsec, counters->timed == 0);
	values[17] = milliseconds(counters->compute_usec);
	put_percentiles(&values[18], &nulls[18], counters->compute_nsec, counters->timed == 0);
	values[21] = share(stats, counters->compute_usec);
	values[22] = time_datum(stats->head.since);
	values[23] = Int64GetDatum(all->interrupted);
	values[24] = Int64GetDatum(all->segments_long);
	nulls[25] = all->predictions == 0;
	values[25] = Float8GetDatum(all->predicted_error / 1000.0);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* A row for each class of calls that the version had. */
static void
put_stats(ReturnSetInfo *result, const EngineStats *stats, const struct infer_stats_model *counters,
		  const InferModel *model)
{
	for (int i = 0; i < stats->head.classes_count; i++)
		if (&stats->models[stats->classes[i].model] == counters)
			put_class(result, stats, &stats->classes[i], model);
}

enum { LOADED_COLUMNS = 9 };

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
	nulls[7] = nulls[8] = counters->loaded_at == 0;
	values[7] = milliseconds(counters->load_usec);
	values[8] = BoolGetDatum(counters->from_cache != 0);
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

enum { DEVICE_COLUMNS = 14 };

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
		values[7] = share(&stats, device->busy_usec);
		values[8] = CStringGetTextDatum(infer_client_text(device->arch));
		values[9] = CStringGetTextDatum(infer_client_text(device->numerics_id));
		values[10] = time_datum(stats.head.since);
		values[11] = CStringGetTextDatum(infer_client_text(device->detail));
		values[12] = Int64GetDatum(device->host_copies);
		values[13] = Int64GetDatum(device->host_bytes);
		for (int column = 3; column < 11; column++)
			nulls[column] = device->in_use == 0;	/* it is not there */
		nulls[1] = device->description[0] == '\0';
		nulls[11] = device->detail[0] == '\0';
		nulls[12] = nulls[13] = device->in_use == 0;
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
	infer_client_stats(true, &stats);
	PG_RETURN_VOID();
}

/* ---- what waits and runs ---- */

static bool
may_see_calls_of(Oid role)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) || has_privs_of_role(GetUserId(), role);
}

static const char *
activity_state_name(uint32 state)
{
	switch (state)
	{
		case INFER_ACTIVITY_QUEUED:
			return "queued";
		case INFER_ACTIVITY_RUNNING:
			return "running";
		case INFER_ACTIVITY_LOADING:
			return "loading";
		case INFER_ACTIVITY_PREPARING:
			return "preparing";
		default:
			return "unknown";
	}
}

static Datum
text_unless_null(const char *text, bool *null)
{
	*null = text == NULL;
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

/* The name of a model of this database; NULL if it is another's, or gone. */
static char *
model_name(const struct infer_activity *activity)
{
	ForeignServer *server = NULL;

	if (activity->database == MyDatabaseId)
		server = GetForeignServerExtended(activity->model, FSV_MISSING_OK);
	return server == NULL ? NULL : server->servername;
}

enum { ACTIVITY_COLUMNS = 11 };

static void
put_activity(ReturnSetInfo *result, const struct infer_activity *activity)
{
	Datum		values[ACTIVITY_COLUMNS];
	bool		nulls[ACTIVITY_COLUMNS] = {false};
	bool		running = activity->state == INFER_ACTIVITY_RUNNING;

	values[0] = Int32GetDatum(activity->pid);
	values[1] = text_unless_null(get_database_name(activity->database), &nulls[1]);
	values[2] = text_unless_null(GetUserNameFromId(activity->role, true), &nulls[2]);
	values[3] = text_unless_null(model_name(activity), &nulls[3]);
	nulls[4] = activity->version == 0;
	values[4] = Int32GetDatum(activity->version);
	nulls[5] = nulls[6] = nulls[7] = activity->rows == 0;	/* waits for the model, and sends its call then */
	values[5] = CStringGetTextDatum(class_name(activity->class_));
	values[6] = Int32GetDatum(activity->rows);
	values[7] = Int32GetDatum(activity->rows_done);
	values[8] = CStringGetTextDatum(activity_state_name(activity->state));
	values[9] = milliseconds(activity->queue_usec);
	nulls[10] = !running;
	values[10] = milliseconds(activity->compute_usec);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

PG_FUNCTION_INFO_V1(infer_read_activity);
Datum
infer_read_activity(PG_FUNCTION_ARGS)
{
	struct infer_activity *activities;
	int			count;

	infer_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	activities = infer_client_activity(&count);
	for (int i = 0; i < count; i++)
		if (may_see_calls_of(activities[i].role))
			put_activity((ReturnSetInfo *) fcinfo->resultinfo, &activities[i]);
	return (Datum) 0;
}
