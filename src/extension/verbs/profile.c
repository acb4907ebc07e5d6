/*
 * profile.c
 *	  infer.profile: a call that says where its time went.
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"

#include "single.h"

enum { PROFILE_COLUMNS = 5 };

static text *
take_text(struct infer_reader *profile)
{
	uint32_t	length;
	const char *bytes = infer_get_string(profile, &length);

	return cstring_to_text(infer_client_text(bytes == NULL ? "" : pnstrdup(bytes, length)));
}

static Datum
text_or_null(struct infer_reader *profile, bool *null)
{
	text	   *value = take_text(profile);

	*null = VARSIZE_ANY_EXHDR(value) == 0;
	return PointerGetDatum(value);
}

/* PROTOCOL.md has the encoding. */
static void
put_profile(ReturnSetInfo *result, struct infer_reader *profile)
{
	uint32_t	count = infer_get_u32(profile);

	for (uint32_t i = 0; i < count && !profile->failed; i++)
	{
		Datum		values[PROFILE_COLUMNS];
		bool		nulls[PROFILE_COLUMNS] = {false};

		values[0] = text_or_null(profile, &nulls[0]);
		values[1] = text_or_null(profile, &nulls[1]);
		values[2] = text_or_null(profile, &nulls[2]);
		values[3] = PointerGetDatum(take_text(profile));
		values[4] = Float8GetDatum(infer_get_u64(profile) / 1e6);
		if (!profile->failed)
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	if (profile->failed)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the engine's profile is malformed")));
}

PG_FUNCTION_INFO_V1(infer_profile);
Datum
infer_profile(PG_FUNCTION_ARGS)
{
	SingleArguments arguments;
	VerbAsked  *asked;
	InferCall  *call;
	struct infer_error_text error;
	struct infer_reader profile;

	infer_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0) || !single_arguments(fcinfo, &infer_verbs[VERB_INFER], &arguments))
		return (Datum) 0;
	asked = single_ask(fcinfo, &infer_verbs[VERB_INFER], &arguments.given);
	call = infer_client_begin(asked->model, 1, INFER_CLASS_INTERACTIVE);
	infer_binding_write(asked->binding, call, 0, arguments.given.values, arguments.given.nulls, NULL);
	infer_client_ask_profile(call);
	infer_client_submit(call, asked->wanted);
	infer_client_wait(call);
	if (infer_client_row(call, 0, NULL) != INFER_OK)
	{
		infer_client_row(call, 0, &error);
		infer_client_raise(&error);
	}
	if (!infer_client_profile(call, &profile))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("model \"%s\" has no operators to be timed", asked->model->name),
				 errhint("See the compute time of infer.stats instead.")));
	put_profile((ReturnSetInfo *) fcinfo->resultinfo, &profile);
	infer_client_end(call);
	return (Datum) 0;
}
