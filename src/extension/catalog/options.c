/*
 * options.c
 *	  What create_model's options may say, and what of it the engine sees.
 *
 * features	names of a single wide input's elements: for rows and objects by name
 * classes	labels, in the order of the model's scores
 * dims		sizes of the file's symbolic dimensions, by their names: the engine needs them
 * store	"copy" (the files go into the database) or "reference" (path and digest only)
 * file		the name that data given as bytea is stored under; of a folder: which of its ONNX files
 *
 * The others are of models that read texts.  They, dims and file go to the engine, whose reader says what
 * is wrong with them.
 *
 * Options that change what is computed are part of the model's key: two versions of equal
 * files and other dims are two models to the engine; other features or classes are not.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "../compat.h"
#include "internal.h"

#define DEFAULT_FILE "model.onnx"

/* What the engine sees; the first few are checked here as well. */
static const char *const engine_options[] = {
	"dims", "file",
	"precision", "truncate", "max_tokens", "pooling", "normalize", "prompts", "default_prompt", "task", "labels"
};

static bool
is_engine_option(const char *key, int length)
{
	for (int i = 0; i < lengthof(engine_options); i++)
		if (strlen(engine_options[i]) == length && memcmp(engine_options[i], key, length) == 0)
			return true;
	return false;
}

static void
check_option(bool good, const char *option, const char *expected)
{
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value of option \"%s\"", option),
				 errdetail("It must be %s.", expected)));
}

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* An array of distinct, non-empty strings. */
static void
check_names(const char *option, const JsonbValue *value)
{
	const char *expected = "an array of distinct strings that are not empty";
	JsonbContainer *array = value->val.binary.data;
	char	  **texts;
	uint32		count;

	check_option(value->type == jbvBinary && JsonContainerIsArray(array) && JsonContainerSize(array) > 0,
				 option, expected);
	count = JsonContainerSize(array);
	texts = palloc(sizeof(char *) * count);
	for (uint32 i = 0; i < count; i++)
	{
		JsonbValue *element = getIthJsonbValueFromContainer(array, i);

		check_option(element->type == jbvString && element->val.string.len > 0, option, expected);
		texts[i] = pnstrdup(element->val.string.val, element->val.string.len);
	}
	qsort(texts, count, sizeof(char *), compare_texts);
	for (uint32 i = 1; i < count; i++)
		if (strcmp(texts[i - 1], texts[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("option \"%s\" names \"%s\" twice", option, texts[i])));
}

/* An object of whole numbers from 1. */
static void
check_dims(const JsonbValue *value)
{
	const char *expected = "an object that gives each symbolic dimension a whole number from 1 to 2147483647";
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	element;

	check_option(value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data), "dims", expected);
	it = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &element, true)) != WJB_DONE)
	{
		bool		wrong;
		int32		number;

		if (token != WJB_VALUE)
			continue;
		check_option(element.type == jbvNumeric, "dims", expected);
		number = numeric_int4_opt_error(element.val.numeric, &wrong);
		check_option(!wrong && number >= 1 &&
					 DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(element.val.numeric),
													  NumericGetDatum(int64_to_numeric(number)))),
					 "dims", expected);
	}
}

static char *
option_text(const char *option, const JsonbValue *value)
{
	check_option(value->type == jbvString && value->val.string.len > 0, option, "a string that is not empty");
	return pnstrdup(value->val.string.val, value->val.string.len);
}

void
infer_options_parse(Jsonb *jsonb, InferOptions *options)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	char	   *key = NULL;

	options->jsonb = jsonb;
	options->by_reference = false;
	options->file = NULL;
	if (!JB_ROOT_IS_OBJECT(jsonb))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("options must be a JSON object")));
	it = JsonbIteratorInit(&jsonb->root);
	JsonbIteratorNext(&it, &value, true);	/* the object's begin */
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key = pnstrdup(value.val.string.val, value.val.string.len);
		if (token != WJB_VALUE)
			continue;
		if (strcmp(key, "features") == 0 || strcmp(key, "classes") == 0)
			check_names(key, &value);
		else if (strcmp(key, "dims") == 0)
			check_dims(&value);
		else if (strcmp(key, "file") == 0)
		{
			options->file = infer_file_name_from_table(option_text(key, &value));
			infer_file_name_check(options->file);
		}
		else if (strcmp(key, "store") == 0)
		{
			char	   *store = option_text(key, &value);

			check_option(strcmp(store, "copy") == 0 || strcmp(store, "reference") == 0,
						 key, "\"copy\" or \"reference\"");
			options->by_reference = strcmp(store, "reference") == 0;
		}
		else if (!is_engine_option(key, strlen(key)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("unknown option \"%s\"", key),
					 errhint("The options are features, classes, dims, store and file; for models that read texts also precision, truncate, max_tokens, pooling, normalize, prompts, default_prompt, task and labels.")));
	}
	options->engine = infer_options_engine(jsonb);
}

const char *
infer_options_file(const InferOptions *options)
{
	return options->file != NULL ? options->file : DEFAULT_FILE;
}

/* Those that arguments reach; *last: the last of them. */
static int
inputs_shown(const struct infer_signature *signature, uint32 *last)
{
	int			count = 0;

	for (uint32 i = 0; i < signature->inputs_count; i++)
	{
		if (signature->inputs[i].flags & INFER_TENSOR_HIDDEN)
			continue;
		*last = i;
		count++;
	}
	return count;
}

static int
outputs_shown(const struct infer_signature *signature)
{
	int			count = 0;

	for (uint32 i = 0; i < signature->outputs_count; i++)
		if (!(signature->outputs[i].flags & INFER_TENSOR_HIDDEN))
			count++;
	return count;
}

static void
check_count(const char *option, uint32 given, uint64 expected)
{
	if (expected != INFER_WIDTH_VARIES && given != expected)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"%s\" has %u name%s, but the model needs " UINT64_FORMAT, option, given,
						given == 1 ? "" : "s", expected),
				 errhint("Name each of the model's %s once, in the model's order.", option)));
}

void
infer_options_check(const InferOptions *options, const struct infer_signature *signature)
{
	uint32		count;
	uint32		input = 0;
	int			inputs = inputs_shown(signature, &input);

	infer_jsonb_strings(options->jsonb, "features", &count);
	if (count > 0)
	{
		if (inputs != 1)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("option \"features\" is for models with one input, but this one has %d", inputs),
					 errhint("Leave the option out: columns and keys find the inputs by their own names. infer-engine check lists them.")));
		check_count("features", count, infer_tensor_width(&signature->inputs[input]));
	}
	infer_jsonb_strings(options->jsonb, "classes", &count);
	if (count > 0)
	{
		const struct infer_tensor *scores = NULL;

		for (uint32 i = 0; i < signature->outputs_count; i++)
			if (signature->outputs[i].role == INFER_ROLE_SCORES ||
				(outputs_shown(signature) == 1 && signature->outputs[i].role == INFER_ROLE_VALUE))
				scores = &signature->outputs[i];
		if (scores == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("option \"classes\" is for models with one output of scores, but this one has none"),
					 errhint("Leave the option out.")));
		/* of two classes one number is enough: the second one's probability */
		if (!(count == 2 && signature->classes_count == 0 && infer_tensor_width(scores) == 1))
			check_count("classes", count,
						signature->classes_count > 0 ? signature->classes_count : infer_tensor_width(scores));
	}
}

static void
push_key(JsonbParseState **state, const char *key)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = pstrdup(key);
	value.val.string.len = strlen(key);
	pushJsonbValue(state, WJB_KEY, &value);
}

void
infer_options_settle(InferOptions *options, const struct infer_signature *signature)
{
	static const char key[] = "precision";
	JsonbParseState *state = NULL;
	JsonbValue	value;
	Jsonb	   *facts;
	Jsonb	   *chosen;

	if (signature->facts[0] == '\0' ||
		getKeyJsonValueFromContainer(&options->jsonb->root, key, strlen(key), &value) != NULL)
		return;
	facts = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(pg_any_to_server(signature->facts, strlen(signature->facts), PG_UTF8))));
	if (!JB_ROOT_IS_OBJECT(facts) || getKeyJsonValueFromContainer(&facts->root, key, strlen(key), &value) == NULL)
		return;
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_key(&state, key);
	pushJsonbValue(&state, WJB_VALUE, &value);
	chosen = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
	options->jsonb = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(options->jsonb), JsonbPGetDatum(chosen)));
	options->engine = infer_options_engine(options->jsonb);
}

char *
infer_options_engine(Jsonb *jsonb)
{
	JsonbParseState *state = NULL;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	Jsonb	   *engine;
	bool		wanted = false;
	int			count = 0;
	char	   *text;

	if (!JB_ROOT_IS_OBJECT(jsonb))
		return pstrdup("");
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	it = JsonbIteratorInit(&jsonb->root);
	JsonbIteratorNext(&it, &value, true);	/* the object's begin */
	while ((token = JsonbIteratorNext(&it, &value, true)) == WJB_KEY || token == WJB_VALUE)
	{
		if (token == WJB_KEY)
			wanted = is_engine_option(value.val.string.val, value.val.string.len);
		if (!wanted)
			continue;
		pushJsonbValue(&state, token, &value);
		count += token == WJB_VALUE;
	}
	engine = JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
	if (count == 0)
		return pstrdup("");
	text = JsonbToCString(NULL, &engine->root, VARSIZE(engine));
	return pg_server_to_any(text, strlen(text), PG_UTF8);
}

void
infer_key_make(const uint8 *digest, const char *engine_options, uint8 *key)
{
	InferHash  *hash;

	if (engine_options[0] == '\0')
	{
		memcpy(key, digest, INFER_KEY_BYTES);
		return;
	}
	hash = infer_hash_begin();
	infer_hash_update(hash, digest, INFER_KEY_BYTES);
	infer_hash_update(hash, engine_options, strlen(engine_options));
	infer_hash_final(hash, key);
}
