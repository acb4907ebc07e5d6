/*
 * keys.c
 *	  Keys of rows as texts, and as values.
 *
 * Texts are those of the types' output functions, under the runner's settings (ISO dates, shortest
 * exact floats), which their input functions read back exactly.  A domain is its base type here: its
 * constraints may be newer than the rows.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/lsyscache.h"

#include "../job.h"

void
job_key_make(const JobPlan *plan, const Datum *values, JobKey *key)
{
	key->count = plan->keys_count;
	key->texts = palloc(sizeof(char *) * Max(key->count, 1));
	for (int i = 0; i < key->count; i++)
	{
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(getBaseType(plan->keys[i].type), &function, &is_varlena);
		key->texts[i] = OidOutputFunctionCall(function, values[i]);
	}
}

Datum *
job_key_values(const JobPlan *plan, const JobKey *key)
{
	Datum	   *values;

	if (key->count == 0)
		return NULL;
	if (key->count != plan->keys_count)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("a key of the job has %d columns instead of %d", key->count, plan->keys_count)));
	values = palloc(sizeof(Datum) * key->count);
	for (int i = 0; i < key->count; i++)
	{
		int32		typmod = plan->keys[i].typmod;
		Oid			type = getBaseTypeAndTypmod(plan->keys[i].type, &typmod);
		Oid			function;
		Oid			parameter;

		getTypeInputInfo(type, &function, &parameter);
		values[i] = OidInputFunctionCall(function, key->texts[i], parameter, typmod);
	}
	return values;
}
