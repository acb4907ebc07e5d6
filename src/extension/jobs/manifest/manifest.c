/*
 * manifest.c
 *	  infer.job_manifest(), and who may see a job.
 *
 * A manifest tells what was asked for, by which model, statements and engine it was done, what came of it and
 * where the time went.  Everything in it was written down while it happened: the model may be gone by now.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "../job.h"
#include "../json.h"

/* ---- who sees what ---- */

/* The owner's role here; invalid: there is none. */
static Oid
owner_here(const char *origin, Oid owner, const char *owner_name)
{
	if (strcmp(origin, job_origin()) == 0)
		return owner;
	return get_role_oid(owner_name, true);
}

static bool
has_rights_of(Oid owner)
{
	return superuser() || (OidIsValid(owner) && has_privs_of_role(GetUserId(), owner));
}

bool
job_is_owned(const JobRecord *record)
{
	return has_rights_of(owner_here(record->origin, record->owner, record->owner_name));
}

static bool
may_see_job_of(Oid owner)
{
	return has_rights_of(owner) || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

PG_FUNCTION_INFO_V1(infer_read_job_owner);
Datum
infer_read_job_owner(PG_FUNCTION_ARGS)
{
	char	   *owner_name = text_to_cstring(PG_GETARG_TEXT_PP(2));
	Oid			owner = owner_here(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_OID(1), owner_name);
	char	   *name;

	if (!may_see_job_of(owner))
		PG_RETURN_NULL();
	name = OidIsValid(owner) ? GetUserNameFromId(owner, true) : NULL;
	PG_RETURN_TEXT_P(cstring_to_text(name != NULL ? name : owner_name));
}

/* ---- the manifest ---- */

typedef struct Sums
{
	JobShard	all;				/* its counts, times and digests, over the shards */
	Jsonb	   *engines;
} Sums;

static void
add_shard(Sums *sums, const JobShard *shard)
{
	JobShard   *all = &sums->all;

	all->done += shard->done;
	all->failed += shard->failed;
	all->gone += shard->gone;
	all->expired += shard->expired;
	all->cancelled += shard->cancelled;
	all->recomputed += shard->recomputed;
	all->tokens += shard->tokens;
	all->chunks += shard->chunks;
	all->read_time += shard->read_time;
	all->prepare_time += shard->prepare_time;
	all->queue_time += shard->queue_time;
	all->compute_time += shard->compute_time;
	all->write_time += shard->write_time;
	job_digest_sum(all->input_digest, shard->input_digest);
	job_digest_sum(all->output_digest, shard->output_digest);
	sums->engines = job_engines_add(sums->engines, shard->engines);
}

static void
put_counts(StringInfo json, const JobShard *shard)
{
	json_number(json, "done", shard->done);
	json_number(json, "failed", shard->failed);
	json_number(json, "gone", shard->gone);
	json_number(json, "expired", shard->expired);
	json_number(json, "cancelled", shard->cancelled);
	json_number(json, "recomputed", shard->recomputed);
	json_number(json, "tokens", shard->tokens);
	json_number(json, "chunks", shard->chunks);
}

static void
put_times(StringInfo json, const JobShard *shard)
{
	json_double(json, "read", shard->read_time, 3);
	json_double(json, "prepare", shard->prepare_time, 3);
	json_double(json, "queue", shard->queue_time, 3);
	json_double(json, "compute", shard->compute_time, 3);
	json_double(json, "write", shard->write_time, 3);
}

static void
put_digests(StringInfo json, const JobShard *shard)
{
	json_begin(json, "digests", '{');
	json_text(json, "input", json_hex(shard->input_digest, JOB_DIGEST_BYTES));
	json_text(json, "output", json_hex(shard->output_digest, JOB_DIGEST_BYTES));
	json_end(json, '}');
}

static void
put_key(StringInfo json, const char *name, const JobKey *key)
{
	if (key->count == 0)
	{
		json_raw(json, name, NULL);
		return;
	}
	json_begin(json, name, '[');
	for (int i = 0; i < key->count; i++)
		json_text(json, NULL, key->texts[i]);
	json_end(json, ']');
}

static void
put_shard(StringInfo json, const JobShard *shard)
{
	json_begin(json, NULL, '{');
	json_number(json, "shard", shard->shard);
	json_text(json, "state", job_state_name(shard->completed ? JOB_COMPLETED : JOB_IN_PROGRESS));
	put_key(json, "above", &shard->low);
	put_key(json, "up_to", &shard->high);
	put_key(json, "checkpoint", &shard->checkpoint);
	json_begin(json, "counts", '{');
	put_counts(json, shard);
	json_end(json, '}');
	json_begin(json, "times", '{');
	put_times(json, shard);
	json_end(json, '}');
	if (shard->rows_per_second >= 0)
		json_double(json, "rows_per_second", shard->rows_per_second, 1);
	put_digests(json, shard);
	json_jsonb(json, "engines", shard->engines);
	json_number(json, "starts", shard->starts);
	json_time(json, "started", shard->started);
	json_time(json, "updated", shard->updated);
	json_end(json, '}');
}

static void
put_job(StringInfo json, const JobRecord *record)
{
	json_number(json, "job", record->job);
	json_text(json, "name", record->name);
	json_text(json, "owner", record->owner_name);
	json_text(json, "origin", record->origin);
	json_text(json, "state", job_state_name(record->state));
	json_begin(json, "error", '{');
	json_text(json, "sqlstate", record->sqlstate);
	json_text(json, "message", record->message);
	json_end(json, '}');
	json_jsonb(json, "request", record->request);
}

static void
put_elapsed(StringInfo json, const JobRecord *record, const JobShard *all)
{
	TimestampTz until = record->finished != 0 ? record->finished : GetCurrentTimestamp();

	json_begin(json, "times", '{');
	json_time(json, "submitted", record->submitted);
	json_time(json, "started", record->started);
	json_time(json, "finished", record->finished);
	if (record->started != 0)
		json_double(json, "seconds", (until - record->started) / 1e6, 3);
	put_times(json, all);
	json_end(json, '}');
}

/* The one of all engines; NULL where they differ, or there is none. */
static char *
numerics_id(Jsonb *engines)
{
	char	   *only = NULL;

	for (int i = 0; engines != NULL && i < JB_ROOT_COUNT(engines); i++)
	{
		char	   *id = json_get(JsonbValueToJsonb(getIthJsonbValueFromContainer(&engines->root, i)), NULL, "numerics_id");

		if (id == NULL || (only != NULL && strcmp(only, id) != 0))
			return NULL;
		only = id;
	}
	return only;
}

static Jsonb *
manifest(const JobRecord *record, JobShard **shards, int shards_count)
{
	StringInfoData json;
	Sums		sums = {0};
	Jsonb	   *rest;

	for (int i = 0; i < shards_count; i++)
		add_shard(&sums, shards[i]);
	initStringInfo(&json);
	json_begin(&json, NULL, '{');
	put_job(&json, record);
	json_begin(&json, "counts", '{');
	if (record->total >= 0)
		json_number(&json, "total", record->total);
	put_counts(&json, &sums.all);
	json_end(&json, '}');
	put_digests(&json, &sums.all);
	json_text(&json, "numerics_id", numerics_id(sums.engines));
	json_jsonb(&json, "engines", sums.engines);
	put_elapsed(&json, record, &sums.all);
	json_begin(&json, "shards", '[');
	for (int i = 0; i < shards_count; i++)
		put_shard(&json, shards[i]);
	json_end(&json, ']');
	json_end(&json, '}');
	rest = json_finish(&json);
	if (record->facts == NULL)
		return rest;
	return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(record->facts), JsonbPGetDatum(rest)));
}

PG_FUNCTION_INFO_V1(infer_job_manifest);
Datum
infer_job_manifest(PG_FUNCTION_ARGS)
{
	int64		job = PG_GETARG_INT64(0);
	JobRecord  *record = job_get(job);
	JobShard  **shards;
	int			shards_count;

	if (record == NULL || !may_see_job_of(owner_here(record->origin, record->owner, record->owner_name)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no job " INT64_FORMAT, job),
				 errhint("See infer.jobs for those there are.")));
	shards = job_shards(job, &shards_count);
	PG_RETURN_JSONB_P(manifest(record, shards, shards_count));
}
