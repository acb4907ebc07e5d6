/*
 * signature.c
 *	  What a model takes and returns: struct infer_signature ⇄ jsonb, as kept in
 *	  infer.model_version and shown by infer.model_versions.
 *
 * {"task": "classifier", "kind": "graph", "format": "…", "notes": "…", "bytes": 1234,
 *  "alone_nsec": 5678, "row_nsec": 123, "row_by_row": true, "facts": {"dimensions": 384},
 *  "inputs": [{"name": "x", "type": "float32", "dims": [30], "batch": true, "missing": true}],
 *  "outputs": [{"name": "label", "type": "int64", "dims": [], "batch": true, "role": "label", "map": true}],
 *  "classes": ["benign", "malignant"], "features": ["age", "bmi"]}
 *
 * What is false, empty or zero is left out, but for task, kind, format, inputs, outputs
 * and their names, types and dims.
 *
 * Whoever restores a dump writes that table, and need not be a superuser: what is read is
 * checked as if it came from the engine.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "../compat.h"
#include "internal.h"

static const char *const task_names[] = {
	[INFER_TASK_NETWORK] = "network",
	[INFER_TASK_REGRESSION] = "regression",
	[INFER_TASK_CLASSIFIER] = "classifier",
	[INFER_TASK_EMBEDDING] = "embedding",
	[INFER_TASK_RERANKER] = "reranker",
	[INFER_TASK_ENTITIES] = "entities",
};

static const char *const role_names[] = {
	[INFER_ROLE_VALUE] = "value",
	[INFER_ROLE_LABEL] = "label",
	[INFER_ROLE_SCORES] = "scores",
	[INFER_ROLE_TEXT] = "text",
	[INFER_ROLE_PAIR] = "pair",
	[INFER_ROLE_PROMPT] = "prompt",
	[INFER_ROLE_OPTIONS] = "options",
	[INFER_ROLE_EMBEDDING] = "embedding",
	[INFER_ROLE_SCORE] = "score",
	[INFER_ROLE_ENTITY_TYPES] = "entity_types",
	[INFER_ROLE_ENTITY_PLACES] = "entity_places",
	[INFER_ROLE_ENTITY_SCORES] = "entity_scores",
	[INFER_ROLE_TOKENS] = "tokens",
	[INFER_ROLE_TOKEN_COUNT] = "token_count",
	[INFER_ROLE_CHUNKS] = "chunks",
};

static const struct
{
	uint32		flag;
	const char *name;
}			tensor_flags[] = {
	{INFER_TENSOR_MISSING, "missing"},
	{INFER_TENSOR_MAP, "map"},
	{INFER_TENSOR_BATCH, "batch"},
	{INFER_TENSOR_HIDDEN, "hidden"},
};

/* ---- to jsonb ---- */

/* The engine's texts are UTF-8, or so it says: what is not is an error here. */
static void
push_string(JsonbParseState **state, JsonbIteratorToken token, const char *text)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = pg_any_to_server(text, strlen(text), PG_UTF8);
	value.val.string.len = strlen(value.val.string.val);
	pushJsonbValue(state, token, &value);
}

static void
push_number(JsonbParseState **state, JsonbIteratorToken token, int64 number)
{
	JsonbValue	value;

	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	pushJsonbValue(state, token, &value);
}

static void
push_true(JsonbParseState **state, const char *key)
{
	JsonbValue	value;

	push_string(state, WJB_KEY, key);
	value.type = jbvBool;
	value.val.boolean = true;
	pushJsonbValue(state, WJB_VALUE, &value);
}

static void
push_pair(JsonbParseState **state, const char *key, const char *text)
{
	push_string(state, WJB_KEY, key);
	push_string(state, WJB_VALUE, text);
}

static void
push_nsec(JsonbParseState **state, const char *key, uint64 nsec)
{
	if (nsec == 0)
		return;
	push_string(state, WJB_KEY, key);
	push_number(state, WJB_VALUE, (int64) Min(nsec, INFER_ROW_NSEC_MAX));
}

static void
push_tensor(JsonbParseState **state, const struct infer_tensor *tensor)
{
	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	push_pair(state, "name", tensor->name);
	push_pair(state, "type", infer_type_name(tensor->type));
	push_string(state, WJB_KEY, "dims");
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	for (uint32 i = 0; i < tensor->rank; i++)
		push_number(state, WJB_ELEM, tensor->dims[i]);
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
	if (tensor->role != INFER_ROLE_VALUE && tensor->role < lengthof(role_names))
		push_pair(state, "role", role_names[tensor->role]);
	for (int i = 0; i < lengthof(tensor_flags); i++)
		if (tensor->flags & tensor_flags[i].flag)
			push_true(state, tensor_flags[i].name);
	pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

static void
push_tensors(JsonbParseState **state, const char *key, const struct infer_tensor *tensors, uint32 count)
{
	push_string(state, WJB_KEY, key);
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	for (uint32 i = 0; i < count; i++)
		push_tensor(state, &tensors[i]);
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

static void
push_texts(JsonbParseState **state, const char *key, char **texts, uint32 count)
{
	if (count == 0)
		return;
	push_string(state, WJB_KEY, key);
	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	for (uint32 i = 0; i < count; i++)
		push_string(state, WJB_ELEM, texts[i]);
	pushJsonbValue(state, WJB_END_ARRAY, NULL);
}

/* A JSON object as text, from the engine: what is none is an error here. */
static void
push_facts(JsonbParseState **state, const char *facts)
{
	Jsonb	   *jsonb;
	JsonbValue	value;

	if (facts[0] == '\0')
		return;
	jsonb = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(pg_any_to_server(facts, strlen(facts), PG_UTF8))));
	if (!JB_ROOT_IS_OBJECT(jsonb))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the inference engine says of a model what is not an object")));
	push_string(state, WJB_KEY, "facts");
	value.type = jbvBinary;
	value.val.binary.data = &jsonb->root;
	value.val.binary.len = VARSIZE(jsonb) - VARHDRSZ;
	pushJsonbValue(state, WJB_VALUE, &value);
}

Jsonb *
infer_signature_to_jsonb(const struct infer_signature *signature)
{
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_pair(&state, "task", task_names[signature->task < lengthof(task_names) ? signature->task : 0]);
	push_pair(&state, "kind", signature->kind);
	push_pair(&state, "format", signature->format);
	if (signature->notes[0] != '\0')
		push_pair(&state, "notes", signature->notes);
	push_facts(&state, signature->facts);
	push_string(&state, WJB_KEY, "bytes");
	push_number(&state, WJB_VALUE, (int64) signature->bytes);
	push_nsec(&state, "alone_nsec", signature->alone_nsec);
	push_nsec(&state, "row_nsec", signature->row_nsec);
	if (signature->flags & INFER_SIGNATURE_ROW_BY_ROW)
		push_true(&state, "row_by_row");
	push_tensors(&state, "inputs", signature->inputs, signature->inputs_count);
	push_tensors(&state, "outputs", signature->outputs, signature->outputs_count);
	push_texts(&state, "classes", signature->classes, signature->classes_count);
	push_texts(&state, "features", signature->features, signature->features_count);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* ---- from jsonb ---- */

static void
malformed(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a row of infer.model_version has a malformed signature"),
			 errdetail("Member \"%s\" is missing, or not as it can be.", what),
			 errhint("Create the version again with infer.create_model().")));
}

static JsonbValue *
member(JsonbContainer *object, const char *key, JsonbValue *value)
{
	if (!JsonContainerIsObject(object))
		malformed(key);
	return getKeyJsonValueFromContainer(object, key, strlen(key), value);
}

static char *
member_text(JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	if (member(object, key, &value) == NULL)
		return pstrdup("");
	if (value.type != jbvString)
		malformed(key);
	return pnstrdup(value.val.string.val, value.val.string.len);
}

/* An object as text in UTF-8, or "". */
static char *
member_object(JsonbContainer *object, const char *key)
{
	JsonbValue	value;
	char	   *text;

	if (member(object, key, &value) == NULL)
		return pstrdup("");
	if (value.type != jbvBinary || !JsonContainerIsObject(value.val.binary.data))
		malformed(key);
	text = JsonbToCString(NULL, value.val.binary.data, value.val.binary.len);
	return pg_server_to_any(text, strlen(text), PG_UTF8);
}

static bool
member_true(JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return member(object, key, &value) != NULL && value.type == jbvBool && value.val.boolean;
}

static int64
number_value(const JsonbValue *value, const char *key)
{
	if (value == NULL || value->type != jbvNumeric)
		malformed(key);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(value->val.numeric)));
}

/* A time under a key of an object; 0 if there is none, or none that can be.  Raises nothing. */
uint64
infer_jsonb_nsec(Jsonb *jsonb, const char *key)
{
	JsonbValue	value;
	double		nsec;

	if (!JB_ROOT_IS_OBJECT(jsonb) ||
		getKeyJsonValueFromContainer(&jsonb->root, key, strlen(key), &value) == NULL || value.type != jbvNumeric)
		return 0;
	nsec = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(value.val.numeric)));
	return nsec >= 1 ? (uint64) Min(nsec, (double) INFER_ROW_NSEC_MAX) : 0;
}

static JsonbContainer *
member_array(JsonbContainer *object, const char *key, uint32 most, uint32 *count)
{
	JsonbValue	value;

	*count = 0;
	if (member(object, key, &value) == NULL)
		return NULL;
	if (value.type != jbvBinary || !JsonContainerIsArray(value.val.binary.data) ||
		JsonContainerSize(value.val.binary.data) > most)
		malformed(key);
	*count = JsonContainerSize(value.val.binary.data);
	return value.val.binary.data;
}

static char **
member_texts(JsonbContainer *object, const char *key, uint32 *count)
{
	JsonbContainer *array = member_array(object, key, PG_INT32_MAX / sizeof(char *), count);
	char	  **texts;

	if (*count == 0)
		return NULL;
	texts = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(char *) * *count);
	for (uint32 i = 0; i < *count; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(array, i);

		if (value->type != jbvString)
			malformed(key);
		texts[i] = pnstrdup(value->val.string.val, value->val.string.len);
		pfree(value);
	}
	return texts;
}

char **
infer_jsonb_strings(Jsonb *jsonb, const char *key, uint32 *count)
{
	return member_texts(&jsonb->root, key, count);
}

/* Which of names the text is; raises if none. */
static uint32
name_index(const char *text, const char *const *names, int count, const char *key)
{
	for (int i = 0; i < count; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	malformed(key);
	return 0;
}

static uint32
type_from_name(const char *name)
{
	for (uint32 type = INFER_TYPE_NONE + 1; type <= INFER_TYPE_LAST; type++)
		if (strcmp(name, infer_type_name(type)) == 0)
			return type;
	malformed("type");
	return INFER_TYPE_NONE;
}

static void
read_tensor(JsonbContainer *object, struct infer_tensor *tensor)
{
	JsonbContainer *dims;
	char	   *role = member_text(object, "role");

	memset(tensor, 0, sizeof(*tensor));
	tensor->name = member_text(object, "name");
	tensor->type = type_from_name(member_text(object, "type"));
	if (role[0] != '\0')
		tensor->role = name_index(role, role_names, lengthof(role_names), "role");
	for (int i = 0; i < lengthof(tensor_flags); i++)
		if (member_true(object, tensor_flags[i].name))
			tensor->flags |= tensor_flags[i].flag;
	dims = member_array(object, "dims", INFER_RANK_MAX, &tensor->rank);
	for (uint32 i = 0; i < tensor->rank; i++)
		tensor->dims[i] = number_value(getIthJsonbValueFromContainer(dims, i), "dims");
	if (infer_dims_check(tensor->dims, tensor->rank) != NULL)
		malformed("dims");
}

static struct infer_tensor *
read_tensors(JsonbContainer *object, const char *key, uint32 *count)
{
	JsonbContainer *array = member_array(object, key, INFER_COLUMNS_MAX, count);
	struct infer_tensor *tensors = palloc(sizeof(struct infer_tensor) * Max(1, *count));

	for (uint32 i = 0; i < *count; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(array, i);

		if (value->type != jbvBinary)
			malformed(key);
		read_tensor(value->val.binary.data, &tensors[i]);
	}
	return tensors;
}

void
infer_signature_from_jsonb(Jsonb *jsonb, struct infer_signature *signature)
{
	JsonbContainer *root = &jsonb->root;
	JsonbValue	value;

	memset(signature, 0, sizeof(*signature));
	signature->task = name_index(member_text(root, "task"), task_names, lengthof(task_names), "task");
	signature->kind = member_text(root, "kind");
	signature->format = member_text(root, "format");
	signature->notes = member_text(root, "notes");
	signature->facts = member_object(root, "facts");
	signature->bytes = (uint64) number_value(member(root, "bytes", &value), "bytes");
	signature->alone_nsec = infer_jsonb_nsec(jsonb, "alone_nsec");
	signature->row_nsec = infer_jsonb_nsec(jsonb, "row_nsec");
	if (member_true(root, "row_by_row"))
		signature->flags |= INFER_SIGNATURE_ROW_BY_ROW;
	signature->inputs = read_tensors(root, "inputs", &signature->inputs_count);
	signature->outputs = read_tensors(root, "outputs", &signature->outputs_count);
	signature->classes = member_texts(root, "classes", &signature->classes_count);
	signature->features = member_texts(root, "features", &signature->features_count);
}

/* ---- copies ---- */

static struct infer_tensor *
copy_tensors(const struct infer_tensor *tensors, uint32 count)
{
	struct infer_tensor *copy = palloc(sizeof(struct infer_tensor) * Max(1, count));

	for (uint32 i = 0; i < count; i++)
	{
		copy[i] = tensors[i];
		copy[i].name = pstrdup(tensors[i].name);
	}
	return copy;
}

char **
infer_copy_texts(char **texts, uint32 count)
{
	char	  **copy;

	if (count == 0)
		return NULL;
	copy = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(char *) * count);
	for (uint32 i = 0; i < count; i++)
		copy[i] = pstrdup(texts[i]);
	return copy;
}

void
infer_signature_copy(const struct infer_signature *from, struct infer_signature *to)
{
	*to = *from;
	to->kind = pstrdup(from->kind);
	to->format = pstrdup(from->format);
	to->notes = pstrdup(from->notes);
	to->facts = pstrdup(from->facts);
	to->inputs = copy_tensors(from->inputs, from->inputs_count);
	to->outputs = copy_tensors(from->outputs, from->outputs_count);
	to->classes = infer_copy_texts(from->classes, from->classes_count);
	to->features = infer_copy_texts(from->features, from->features_count);
}
