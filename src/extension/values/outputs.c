/*
 * outputs.c
 *	  The elements of a model's outputs as numbers, strings and JSON.
 *
 * Invariants
 *	- A float is shown with the digits that give the same float back, no more.
 *	- NaN and infinity never leave as a number: they are the row's error.
 */
#include "postgres.h"

#include <math.h>

#include "common/shortest_dec.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "results.h"

bool
output_is_number(uint32 type)
{
	return type != INFER_TYPE_STRING && infer_type_bytes(type) > 0;
}

int
outputs_shown(const InferModel *model, int *first)
{
	int			count = 0;

	for (int i = 0; i < model->signature.outputs_count; i++)
	{
		if (output_is_hidden(model, i))
			continue;
		if (count++ == 0 && first != NULL)
			*first = i;
	}
	return count;
}

int
output_of_role(const InferModel *model, uint32 role)
{
	for (int i = 0; i < model->signature.outputs_count; i++)
		if (model->signature.outputs[i].role == role)
			return i;
	return -1;
}

void
output_malformed(const InferModel *model, const struct infer_tensor *tensor)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("the engine's reply is malformed"),
			 errdetail("Output \"%s\" of model \"%s\" is not as it can be.", tensor->name, model->name)));
}

/* Elements of a row; 0 if that varies. */
uint64
output_width(const struct infer_tensor *tensor)
{
	uint64		width = 1;

	for (uint32 i = 0; i < tensor->rank; i++)
	{
		if (tensor->dims[i] <= 0)
			return 0;
		width *= tensor->dims[i];
	}
	return width;
}

void
output_not_finite(const InferModel *model, const struct infer_tensor *tensor)
{
	ereport(ERROR,
			(errcode(ERRCODE_INFER_NOT_FINITE),
			 errmsg("output \"%s\" of model \"%s\" is not finite", tensor->name, model->name)));
}

double
output_number(const InferModel *model, const struct infer_tensor *tensor, const InferOutput *output, uint64 i)
{
	double		value;

	switch (output->type)
	{
		case INFER_TYPE_F32:
			value = ((const float *) output->data)[i];
			break;
		case INFER_TYPE_F64:
			value = ((const double *) output->data)[i];
			break;
		case INFER_TYPE_I32:
			return ((const int32 *) output->data)[i];
		case INFER_TYPE_I64:
			return ((const int64 *) output->data)[i];
		case INFER_TYPE_BOOL:
			return ((const uint8 *) output->data)[i] != 0;
		default:
			elog(ERROR, "output \"%s\" of model \"%s\" is not a number", tensor->name, model->name);
	}
	if (unlikely(!isfinite(value)))
		output_not_finite(model, tensor);
	return value;
}

/* A string element in the server's encoding, copied before it is verified; not terminated. */
const char *
output_string(const InferOutput *output, uint64 i, int *length)
{
	const struct infer_span *span = (const struct infer_span *) output->data + i;
	char	   *text = pnstrdup(output->texts + span->begin, span->length);
	char	   *server = pg_any_to_server(text, span->length, PG_UTF8);

	*length = server == text ? span->length : strlen(server);
	return server;
}

static Datum
numeric_from_text(char *text)
{
	return DirectFunctionCall3(numeric_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

void
output_json_float(JsonbValue *json, double value, bool single)
{
	char		text[DOUBLE_SHORTEST_DECIMAL_LEN];

	if (single)
		float_to_shortest_decimal_buf((float) value, text);
	else
		double_to_shortest_decimal_buf(value, text);
	json->type = jbvNumeric;
	json->val.numeric = DatumGetNumeric(numeric_from_text(text));
}

void
output_json(JsonbValue *json, const InferModel *model, const struct infer_tensor *tensor,
			 const InferOutput *output, uint64 i)
{
	switch (output->type)
	{
		case INFER_TYPE_F32:
		case INFER_TYPE_F64:
			output_json_float(json, output_number(model, tensor, output, i), output->type == INFER_TYPE_F32);
			break;
		case INFER_TYPE_I32:
			json->type = jbvNumeric;
			json->val.numeric = int64_to_numeric(((const int32 *) output->data)[i]);
			break;
		case INFER_TYPE_I64:
			json->type = jbvNumeric;
			json->val.numeric = int64_to_numeric(((const int64 *) output->data)[i]);
			break;
		case INFER_TYPE_BOOL:
			json->type = jbvBool;
			json->val.boolean = ((const uint8 *) output->data)[i] != 0;
			break;
		case INFER_TYPE_STRING:
			json->type = jbvString;
			json->val.string.val = unconstify(char *, output_string(output, i, &json->val.string.len));
			break;
		default:
			elog(ERROR, "output \"%s\" of model \"%s\" has no value", tensor->name, model->name);
	}
}

void
output_json_string(JsonbValue *json, const char *text)
{
	json->type = jbvString;
	json->val.string.val = unconstify(char *, text);
	json->val.string.len = strlen(text);
}

void
output_push_key(JsonbParseState **state, const char *key)
{
	JsonbValue	json;

	output_json_string(&json, key);
	pushJsonbValue(state, WJB_KEY, &json);
}

/* ---- as JSON ---- */

/* One level of a nested array; returns the number of the next element. */
static uint64
push_level(JsonbParseState **state, const InferModel *model, const struct infer_tensor *tensor,
		   const InferOutput *output, int level, uint64 next, JsonbValue **result)
{
	bool		nested = tensor->rank > 1 && output_width(tensor) == output->width;
	int			depth = nested ? tensor->rank : 1;
	uint64		count = nested ? (uint64) tensor->dims[level] : output->width;
	JsonbValue	json;

	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	for (uint64 i = 0; i < count; i++)
	{
		if (level + 1 < depth)
			next = push_level(state, model, tensor, output, level + 1, next, result);
		else
		{
			output_json(&json, model, tensor, output, next++);
			pushJsonbValue(state, WJB_ELEM, &json);
		}
	}
	*result = pushJsonbValue(state, WJB_END_ARRAY, NULL);
	return next;
}

/*
 * An output's value: a scalar of one element, an array otherwise, nested like its shape.
 * token says what it is to what is being built; state NULL inside: nothing is.
 */
JsonbValue *
output_push(JsonbParseState **state, JsonbIteratorToken token, const InferModel *model,
			const struct infer_tensor *tensor, const InferOutput *output, JsonbValue *scalar)
{
	JsonbValue *result = scalar;

	if (output->width == 1 && output_width(tensor) == 1)
	{
		output_json(scalar, model, tensor, output, 0);
		if (*state != NULL)
			pushJsonbValue(state, token, scalar);
	}
	else
		push_level(state, model, tensor, output, 0, 0, &result);
	return result;
}
