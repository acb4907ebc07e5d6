/*
 * results.c
 *	  What models make of texts: embeddings, scores, entities, tokens, chunks.
 *
 * Invariants
 *	- An embedding or score that is not finite never leaves: it is the row's error (IF008).
 *	- Places and classes that the engine names are checked against the text and the model.
 *	- An entity's text and a chunk are what substring() gives for their characters.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "port/pg_bitutils.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "places.h"
#include "../results.h"
#include "texts.h"

/* The output of that role; its shape was checked by infer_result_wanted. */
static const struct infer_tensor *
read_role(const InferModel *model, InferCall *call, uint32 row, uint32 role, InferOutput *output)
{
	int			number = output_of_role(model, role);

	infer_client_output(call, row, number, output);
	return &model->signature.outputs[number];
}

static ArrayType *
make_array(Oid type, const void *data, uint64 count)
{
	Size		bytes = ARR_OVERHEAD_NONULLS(1) + count * 4;
	ArrayType  *array;

	if (count == 0)
		return construct_empty_array(type);
	if (!AllocSizeIsValid(bytes))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the result has more elements than an array can have")));
	array = palloc(bytes);
	SET_VARSIZE(array, bytes);
	array->ndim = 1;
	array->dataoffset = 0;
	array->elemtype = type;
	ARR_DIMS(array)[0] = (int) count;
	ARR_LBOUND(array)[0] = 1;
	memcpy(ARR_DATA_PTR(array), data, count * 4);
	return array;
}

/* ---- vectors and scores ---- */

Datum
infer_result_embedding(const InferModel *model, InferCall *call, uint32 row, int dimensions)
{
	InferOutput output;
	const struct infer_tensor *tensor = read_role(model, call, row, INFER_ROLE_EMBEDDING, &output);
	uint64		count = dimensions > 0 ? Min((uint64) dimensions, output.width) : output.width;
	ArrayType  *array = make_array(FLOAT4OID, output.data, count);
	const float *values = (const float *) ARR_DATA_PTR(array);
	bool		finite = true;

	for (uint64 i = 0; i < count; i++)
		finite &= isfinite(values[i]) != 0;
	if (!finite)
		output_not_finite(model, tensor);
	return PointerGetDatum(array);
}

float8
infer_result_score(const InferModel *model, InferCall *call, uint32 row)
{
	InferOutput output;
	const struct infer_tensor *tensor = read_role(model, call, row, INFER_ROLE_SCORE, &output);

	return output_number(model, tensor, &output, 0);
}

/* ---- tokens ---- */

Datum
infer_result_tokens(const InferModel *model, InferCall *call, uint32 row)
{
	InferOutput output;

	read_role(model, call, row, INFER_ROLE_TOKENS, &output);
	return PointerGetDatum(make_array(INT4OID, output.data, output.width));
}

int32
infer_result_token_count(const InferModel *model, InferCall *call, uint32 row)
{
	InferOutput output;

	read_role(model, call, row, INFER_ROLE_TOKEN_COUNT, &output);
	return *(const int32 *) output.data;
}

/* ---- entities ---- */

/* The text that the model was given, in the database's encoding. */
static const char *
given_text(const InferModel *model, InferCall *call, uint32 row, int *length)
{
	uint32		input = 0;
	Size		bytes;
	const char *utf8;
	char	   *copy;
	char	   *text;

	while (input < model->signature.inputs_count && model->signature.inputs[input].role != INFER_ROLE_TEXT)
		input++;
	utf8 = infer_client_text_given(call, row, input, &bytes);
	copy = palloc(bytes + 1);
	memcpy(copy, utf8, bytes);
	copy[bytes] = '\0';
	text = pg_any_to_server(copy, bytes, PG_UTF8);
	*length = text == copy ? (int) bytes : (int) strlen(text);
	return text;
}

int
infer_result_entities(const InferModel *model, InferCall *call, uint32 row, InferEntity **entities)
{
	InferOutput types;
	InferOutput spans;
	InferOutput scores;
	TextPlaces	places;
	const struct infer_tensor *tensor;
	const char *text;
	int			length;
	int			count;

	read_role(model, call, row, INFER_ROLE_ENTITY_TYPES, &types);
	tensor = read_role(model, call, row, INFER_ROLE_ENTITY_PLACES, &spans);
	read_role(model, call, row, INFER_ROLE_ENTITY_SCORES, &scores);
	count = (int) types.width;
	if (types.width > PG_INT32_MAX / sizeof(InferEntity) || spans.width != 2 * types.width || scores.width != types.width)
		output_malformed(model, tensor);

	*entities = palloc(sizeof(InferEntity) * Max(count, 1));
	text = given_text(model, call, row, &length);
	places_init(&places, text, length);
	for (int i = 0; i < count; i++)
	{
		InferEntity *entity = &(*entities)[i];
		int32		class_ = ((const int32 *) types.data)[i];
		const int32 *span = (const int32 *) spans.data + 2 * i;

		if (class_ < 0 || class_ >= model->classes_count || !places_find(&places, span[0], span[1]))
			output_malformed(model, tensor);
		entity->type = model->classes[class_];
		entity->text = cstring_to_text_with_len(text + places.begin.bytes, places.end.bytes - places.begin.bytes);
		entity->first = places.begin.counted + 1;
		entity->last = places.end.counted;
		entity->score = output_number(model, tensor, &scores, i);
	}
	return count;
}

static void
push_number(JsonbParseState **state, const char *key, int64 number)
{
	JsonbValue	value = {.type = jbvNumeric};

	output_push_key(state, key);
	value.val.numeric = int64_to_numeric(number);
	pushJsonbValue(state, WJB_VALUE, &value);
}

/* [{"entity": "PER", "text": "Ada", "start": 1, "end": 3, "score": 0.99}, …] */
Datum
entities_jsonb(const InferModel *model, InferCall *call, uint32 row)
{
	JsonbParseState *state = NULL;
	InferEntity *entities;
	int			count = infer_result_entities(model, call, row, &entities);
	JsonbValue	value;

	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < count; i++)
	{
		const InferEntity *entity = &entities[i];

		pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		output_push_key(&state, "entity");
		output_json_string(&value, entity->type);
		pushJsonbValue(&state, WJB_VALUE, &value);
		output_push_key(&state, "text");
		value.type = jbvString;
		value.val.string.val = VARDATA_ANY(entity->text);
		value.val.string.len = VARSIZE_ANY_EXHDR(entity->text);
		pushJsonbValue(&state, WJB_VALUE, &value);
		push_number(&state, "start", entity->first);
		push_number(&state, "end", entity->last);
		output_push_key(&state, "score");
		output_json_float(&value, entity->score, true);
		pushJsonbValue(&state, WJB_VALUE, &value);
		pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	}
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL)));
}

/* ---- chunks ---- */

int
infer_result_chunks(const InferModel *model, InferCall *call, uint32 row, const text *given, InferChunk **chunks)
{
	const char *text = VARDATA_ANY(given);
	InferOutput output;
	TextPlaces	places;
	const struct infer_tensor *tensor = read_role(model, call, row, INFER_ROLE_CHUNKS, &output);
	int			count = (int) (output.width / 3);

	if (output.width % 3 != 0 || output.width > PG_INT32_MAX / sizeof(InferChunk))
		output_malformed(model, tensor);
	*chunks = palloc(sizeof(InferChunk) * Max(count, 1));
	places_init(&places, text, VARSIZE_ANY_EXHDR(given));
	for (int i = 0; i < count; i++)
	{
		const int32 *span = (const int32 *) output.data + 3 * i;

		if (!places_find(&places, span[0], span[1]))
			output_malformed(model, tensor);
		(*chunks)[i].text = cstring_to_text_with_len(text + places.begin.bytes, places.end.bytes - places.begin.bytes);
		(*chunks)[i].tokens = span[2];
	}
	return count;
}

/* ---- what is asked of a model ---- */

typedef struct RoleShape			/* what an output of the role must be */
{
	uint32		role;
	uint32		type;
	uint32		rank;
	bool		varies;				/* its first dimension does */
	int64		last;				/* its last one; 0: any */
} RoleShape;

static const RoleShape shapes[] = {
	{INFER_ROLE_EMBEDDING, INFER_TYPE_F32, 1, false, 0},
	{INFER_ROLE_ENTITY_TYPES, INFER_TYPE_I32, 1, true, 0},
	{INFER_ROLE_ENTITY_PLACES, INFER_TYPE_I32, 2, true, 2},
	{INFER_ROLE_ENTITY_SCORES, INFER_TYPE_F32, 1, true, 0},
	{INFER_ROLE_TOKENS, INFER_TYPE_I32, 1, true, 0},
	{INFER_ROLE_CHUNKS, INFER_TYPE_I32, 2, true, 3},
};

/* A signature comes from a table that may have been restored from anywhere. */
static void
check_shape(const InferModel *model, const struct infer_tensor *tensor)
{
	bool		good = output_is_number(tensor->type);

	for (int i = 0; i < lengthof(shapes); i++)
	{
		const RoleShape *shape = &shapes[i];

		if (shape->role == tensor->role)
			good = tensor->type == shape->type && tensor->rank == shape->rank &&
				(tensor->dims[0] < 0) == shape->varies &&
				(shape->last == 0 || tensor->dims[shape->rank - 1] == shape->last);
	}
	if (tensor->role == INFER_ROLE_SCORE || tensor->role == INFER_ROLE_TOKEN_COUNT)
		good = tensor->type == (tensor->role == INFER_ROLE_SCORE ? INFER_TYPE_F32 : INFER_TYPE_I32) &&
			output_width(tensor) == 1;
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("output \"%s\" of model \"%s\" is not what its role says", tensor->name, model->name),
				 errhint("Create the version again with infer.create_model().")));
}

/* The bit of the output of that role; 0: the model has none. */
static uint32
role_bit(const InferModel *model, uint32 role)
{
	int			output = output_of_role(model, role);

	if (output < 0 || output >= 32)
		return 0;
	check_shape(model, &model->signature.outputs[output]);
	return (uint32) 1 << output;
}

static const char *
verb_of_task(const InferModel *model)
{
	switch ((enum infer_task) model->signature.task)
	{
		case INFER_TASK_NETWORK:
			return "Use infer() or infer.outputs().";
		case INFER_TASK_REGRESSION:
			return "Use infer.predict().";
		case INFER_TASK_CLASSIFIER:
			return "Use infer.classify() or infer.probabilities().";
		case INFER_TASK_EMBEDDING:
			return "Use infer.embed().";
		case INFER_TASK_RERANKER:
			return "Use infer.rerank().";
		case INFER_TASK_ENTITIES:
			return "Use infer.entities().";
	}
	return "Use infer().";
}

pg_noreturn static void
wrong_verb(const InferModel *model, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("model \"%s\" %s", model->name, what),
			 errhint("%s", verb_of_task(model))));
}

uint32
texts_wanted(const InferModel *model, InferVerb verb)
{
	uint32		wanted = 0;

	switch (verb)
	{
		case INFER_VERB_EMBED:
			if ((wanted = role_bit(model, INFER_ROLE_EMBEDDING)) == 0)
				wrong_verb(model, "does not make embeddings of texts");
			return wanted;
		case INFER_VERB_RERANK:
			if ((wanted = role_bit(model, INFER_ROLE_SCORE)) == 0)
				wrong_verb(model, "does not compare a query with a document");
			return wanted;
		case INFER_VERB_ENTITIES:
			wanted = role_bit(model, INFER_ROLE_ENTITY_TYPES) | role_bit(model, INFER_ROLE_ENTITY_PLACES) |
				role_bit(model, INFER_ROLE_ENTITY_SCORES);
			if (pg_popcount32(wanted) != 3)
				wrong_verb(model, "does not find entities");
			return wanted;
		case INFER_VERB_TOKENIZE:
			wanted = role_bit(model, INFER_ROLE_TOKENS);
			break;
		case INFER_VERB_TOKEN_COUNT:
			wanted = role_bit(model, INFER_ROLE_TOKEN_COUNT);
			break;
		case INFER_VERB_CHUNK:
			wanted = role_bit(model, INFER_ROLE_CHUNKS);
			break;
		default:
			elog(ERROR, "unexpected verb %d", (int) verb);
	}
	if (wanted == 0)
		wrong_verb(model, "does not read texts by tokens");
	return wanted;
}

uint32
infer_result_tokens_counted(const InferModel *model)
{
	return role_bit(model, INFER_ROLE_TOKEN_COUNT);
}

void
texts_check_verb(const InferModel *model, InferVerb verb)
{
	bool		numbers = verb == INFER_VERB_PREDICT || verb == INFER_VERB_OUTPUTS;

	switch ((enum infer_task) model->signature.task)
	{
		case INFER_TASK_EMBEDDING:
			if (verb != INFER_VERB_OUTPUTS && verb != INFER_VERB_INFER)
				wrong_verb(model, numbers ? "makes embeddings, not a single number" : "makes embeddings, it is not a classifier");
			break;
		case INFER_TASK_RERANKER:
			if (!numbers && verb != INFER_VERB_INFER)
				wrong_verb(model, "compares a query with a document, it is not a classifier");
			break;
		case INFER_TASK_ENTITIES:
			if (verb != INFER_VERB_INFER)
				wrong_verb(model, numbers ? "finds entities, it does not return numbers" : "finds entities, it is not a classifier");
			(void) texts_wanted(model, INFER_VERB_ENTITIES);
			break;
		default:
			break;
	}
}
