/*
 * ask.c
 *	  What a request's body means: which calls of which verb.
 *
 * Bodies are those of the public APIs, and what verbs have as options may stand beside them:
 *	/v1/embeddings	{"model", "input": text or [texts], "dimensions", "prompt", "truncate", "normalize",
 *					"encoding_format": "float" or "base64", "user"}
 *	/v1/rerank		{"model", "query", "documents": [texts, or {"text"}], "top_n", "return_documents", "truncate", "user"}
 *	/v1/infer		{"model", "input": what infer() takes}
 *
 * Whatever else stands there is refused by its name: what it asks for would not be done.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "lines.h"

typedef enum BodyKey
{
	KEY_IGNORED,					/* says nothing of the answer */
	KEY_OWN,						/* read here */
	KEY_OPTION						/* of the verb */
} BodyKey;

typedef struct BodyKeyDef
{
	const char *name;
	BodyKey		key;
} BodyKeyDef;

static const BodyKeyDef embeddings_keys[] = {
	{"model", KEY_OWN}, {"input", KEY_OWN}, {"encoding_format", KEY_OWN}, {"user", KEY_IGNORED},
	{"dimensions", KEY_OPTION}, {"prompt", KEY_OPTION}, {"truncate", KEY_OPTION}, {"normalize", KEY_OPTION}, {NULL}
};

static const BodyKeyDef rerank_keys[] = {
	{"model", KEY_OWN}, {"query", KEY_OWN}, {"documents", KEY_OWN}, {"top_n", KEY_OWN}, {"return_documents", KEY_OWN},
	{"user", KEY_IGNORED}, {"truncate", KEY_OPTION}, {NULL}
};

static const BodyKeyDef infer_keys[] = {
	{"model", KEY_OWN}, {"input", KEY_OWN}, {"user", KEY_IGNORED}, {NULL}
};

static const struct
{
	const char *name;
	const BodyKeyDef *keys;
}			urls[LINE_URLS] = {
	[LINE_EMBEDDINGS] = {"/v1/embeddings", embeddings_keys},
	[LINE_RERANK] = {"/v1/rerank", rerank_keys},
	[LINE_INFER] = {"/v1/infer", infer_keys},
};

static const char *const verb_sources[LINE_VERBS] = {
	[LINE_VERB_EMBED] = "infer_embed",
	[LINE_VERB_RERANK] = "infer_rerank",
	[LINE_VERB_INFER_TEXT] = "infer",
	[LINE_VERB_INFER_JSONB] = "infer",
};

LineUrl
line_url(const char *url)
{
	for (int i = 0; i < LINE_URLS; i++)
		if (strcmp(urls[i].name, url) == 0)
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("url \"%s\" is not supported", url),
			 errdetail("A line's url is /v1/embeddings, /v1/rerank or /v1/infer.")));
}

const InferVerbDef *
line_verb_def(LineVerb verb)
{
	return infer_verb_by_source(verb_sources[verb]);
}

/* ---- values ---- */

static bool
find(JsonbContainer *object, const char *key, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(object, key, strlen(key), value) != NULL;
}

static bool
is_array(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data);
}

static bool
is_object(const JsonbValue *value)
{
	return value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

static void
must_be(bool good, const char *key, const char *expected)
{
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be %s", key, expected)));
}

static Datum
text_of(const JsonbValue *value)
{
	return PointerGetDatum(cstring_to_text_with_len(value->val.string.val, value->val.string.len));
}

static void
find_needed(JsonbContainer *body, const char *key, JsonbValue *value)
{
	if (!find(body, key, value))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("body has no \"%s\"", key)));
}

static bool
find_bool(JsonbContainer *body, const char *key)
{
	JsonbValue	value;

	if (!find(body, key, &value) || value.type == jbvNull)
		return false;
	must_be(value.type == jbvBool, key, "true or false");
	return value.val.boolean;
}

int
line_calls(const Jsonb *body)
{
	JsonbContainer *root;
	JsonbValue	value;

	if (body == NULL)				/* of a bad line */
		return 1;
	root = unconstify(JsonbContainer *, &body->root);
	if ((find(root, "documents", &value) || find(root, "input", &value)) && is_array(&value))
		return JsonContainerSize(value.val.binary.data);
	return 1;
}

/* ---- arrays of texts ---- */

static void
check_count(const char *key, int count)
{
	if (count < 1 || count > LINES_CALLS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must have 1 to %d elements, but has %d", key, LINES_CALLS_MAX, count)));
}

/* objects: an element may also be one with a key "text". */
static void
read_texts(const char *key, const JsonbValue *array, bool objects, LineAsk *ask)
{
	JsonbContainer *container = array->val.binary.data;
	int			count = JsonContainerSize(container);

	check_count(key, count);
	ask->count = count;
	ask->texts = palloc(sizeof(Datum) * count);
	for (int i = 0; i < count; i++)
	{
		JsonbValue *element = getIthJsonbValueFromContainer(container, i);
		JsonbValue	inner;

		if (objects && is_object(element) && find(element->val.binary.data, "text", &inner))
			element = &inner;
		must_be(element->type == jbvString, key, objects ? "an array of texts, or of objects with a \"text\"" : "a text or an array of texts");
		ask->texts[i] = text_of(element);
	}
}

/* ---- options ---- */

static const BodyKeyDef *
find_key(LineUrl url, const char *name)
{
	for (const BodyKeyDef *def = urls[url].keys; def->name != NULL; def++)
		if (strcmp(def->name, name) == 0)
			return def;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown key \"%s\" in the body", name)));
}

/* The body's keys that are the verb's options, as its jsonb. */
static Datum
read_options(LineUrl url, const Jsonb *body)
{
	JsonbParseState *state = NULL;
	JsonbIterator *iterator = JsonbIteratorInit(unconstify(JsonbContainer *, &body->root));
	JsonbIteratorToken token;
	JsonbValue	value;
	bool		is_option = false;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	JsonbIteratorNext(&iterator, &value, true);	/* the object's begin */
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			is_option = find_key(url, pnstrdup(value.val.string.val, value.val.string.len))->key == KEY_OPTION;
		if (is_option && (token == WJB_KEY || token == WJB_VALUE))
			pushJsonbValue(&state, token, &value);
	}
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

/* ---- urls ---- */

static void
ask_embeddings(JsonbContainer *body, LineAsk *ask)
{
	JsonbValue	value;

	ask->verb = LINE_VERB_EMBED;
	find_needed(body, "input", &value);
	ask->several = is_array(&value);
	if (ask->several)
		read_texts("input", &value, false, ask);
	else
	{
		must_be(value.type == jbvString, "input", "a text or an array of texts");
		ask->count = 1;
		ask->texts = palloc(sizeof(Datum));
		ask->texts[0] = text_of(&value);
	}
	if (find(body, "encoding_format", &value) && value.type != jbvNull)
	{
		const char *format = value.type == jbvString ? pnstrdup(value.val.string.val, value.val.string.len) : "";

		ask->base64 = strcmp(format, "base64") == 0;
		must_be(ask->base64 || strcmp(format, "float") == 0, "encoding_format", "\"float\" or \"base64\"");
	}
}

static void
ask_rerank(JsonbContainer *body, LineAsk *ask)
{
	JsonbValue	value;

	ask->verb = LINE_VERB_RERANK;
	find_needed(body, "query", &value);
	must_be(value.type == jbvString, "query", "a text");
	ask->query = text_of(&value);
	find_needed(body, "documents", &value);
	must_be(is_array(&value), "documents", "an array of texts, or of objects with a \"text\"");
	read_texts("documents", &value, true, ask);
	ask->several = true;
	ask->with_documents = find_bool(body, "return_documents");
	ask->top = ask->count;
	if (find(body, "top_n", &value) && value.type != jbvNull)
	{
		bool		wrong = value.type != jbvNumeric;
		int32		top = wrong ? 0 : numeric_int4_opt_error(value.val.numeric, &wrong);

		wrong = wrong || !DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(value.val.numeric),
														  NumericGetDatum(int64_to_numeric(top))));
		must_be(!wrong && top >= 1, "top_n", "a whole number from 1");
		ask->top = Min(top, ask->count);
	}
}

/* ---- infer() ---- */

/* The names that the elements of an array stand for; 0: it is passed as it is. */
static uint32
names_of_elements(const InferModel *model, uint32 count, const char **names)
{
	const struct infer_signature *signature = &model->signature;
	uint32		inputs = 0;

	for (uint32 i = 0; i < signature->inputs_count; i++)
		if (!(signature->inputs[i].flags & INFER_TENSOR_HIDDEN) && inputs++ < count)
			names[inputs - 1] = signature->inputs[i].name;
	if (inputs == 1)
		return 0;
	if (inputs == count)
		return count;
	if (model->features_count != count)
		return 0;
	for (uint32 i = 0; i < count; i++)
		names[i] = model->features[i];
	return count;
}

/* An array for a model of several inputs, as the object that infer() takes. */
static Jsonb *
named(const InferModel *model, const JsonbValue *array)
{
	JsonbContainer *container = array->val.binary.data;
	uint32		count = JsonContainerSize(container);
	const char **names = palloc(sizeof(char *) * Max(count, 1));
	JsonbParseState *state = NULL;

	if (count == 0 || names_of_elements(model, count, names) == 0)
		return JsonbValueToJsonb(unconstify(JsonbValue *, array));
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (uint32 i = 0; i < count; i++)
	{
		JsonbValue	name = {.type = jbvString};

		name.val.string.val = unconstify(char *, names[i]);
		name.val.string.len = strlen(names[i]);
		pushJsonbValue(&state, WJB_KEY, &name);
		pushJsonbValue(&state, WJB_VALUE, getIthJsonbValueFromContainer(container, i));
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static void
ask_infer(JsonbContainer *body, const InferModel *model, LineAsk *ask)
{
	JsonbValue	value;

	find_needed(body, "input", &value);
	must_be(value.type != jbvNull, "input", "a text, a number, an array or an object");
	ask->count = 1;
	ask->texts = palloc(sizeof(Datum));
	ask->verb = value.type == jbvString ? LINE_VERB_INFER_TEXT : LINE_VERB_INFER_JSONB;
	if (value.type == jbvString)
		ask->texts[0] = text_of(&value);
	else if (is_array(&value))
		ask->texts[0] = JsonbPGetDatum(named(model, &value));
	else
		ask->texts[0] = JsonbPGetDatum(JsonbValueToJsonb(&value));
}

void
line_ask(LineUrl url, const Jsonb *body, const InferModel *model, LineAsk *ask)
{
	JsonbContainer *root = unconstify(JsonbContainer *, &body->root);
	InferTextOptions options;
	const InferVerbDef *def;

	*ask = (LineAsk) {.url = url};
	ask->options = read_options(url, body);
	switch (url)
	{
		case LINE_EMBEDDINGS:
			ask_embeddings(root, ask);
			break;
		case LINE_RERANK:
			ask_rerank(root, ask);
			break;
		case LINE_INFER:
			ask_infer(root, model, ask);
			break;
		case LINE_URLS:
			break;
	}
	def = line_verb_def(ask->verb);
	(void) infer_result_wanted(model, def->verb);
	if (def->options != 0)
		infer_text_options_read(model, DatumGetJsonbP(ask->options), def->options, &options);
}
