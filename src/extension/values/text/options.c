/*
 * options.c
 *	  What the options of a verb about texts may say: {"prompt": "query", "truncate": true,
 *	  "dimensions": 256, "normalize": false, "border": "sentence"}.
 *
 * prompt		the name of one of the model's prompts; null: none, not even the default one
 * truncate		a text that is too long is cut, or is an error
 * dimensions	of an embedding: its first so many numbers
 * normalize	an embedding has length 1, or is as the pooling left it
 * border		where chunks begin and end
 *
 * What is not there is as the model says.  What a verb does not take is refused by its name.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "../results.h"

static const struct
{
	uint32		key;
	const char *name;
}			option_names[] = {
	{INFER_KEY_PROMPT, "prompt"},
	{INFER_KEY_TRUNCATE, "truncate"},
	{INFER_KEY_DIMENSIONS, "dimensions"},
	{INFER_KEY_NORMALIZE, "normalize"},
	{INFER_KEY_BORDER, "border"},
};

static const char *const border_names[] = {
	[INFER_BORDER_TOKEN] = "token",
	[INFER_BORDER_SENTENCE] = "sentence",
	[INFER_BORDER_PARAGRAPH] = "paragraph",
};

static void
check_value(bool good, const char *option, const char *expected)
{
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value of option \"%s\"", option),
				 errdetail("It must be %s.", expected)));
}

/* For a hint. */
static const char *
keys_list(uint32 keys)
{
	const char *names[lengthof(option_names)];
	int			count = 0;

	for (int i = 0; i < lengthof(option_names); i++)
		if (keys & option_names[i].key)
			names[count++] = option_names[i].name;
	return psprintf("The option%s %s.", count == 1 ? " is" : "s are", value_names_list(count, names));
}

/* Which of the keys it is. */
static uint32
find_key(const char *name, uint32 keys)
{
	for (int i = 0; i < lengthof(option_names); i++)
		if ((keys & option_names[i].key) && strcmp(option_names[i].name, name) == 0)
			return option_names[i].key;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown option \"%s\"", name),
			 errhint("%s", keys_list(keys))));
	return 0;
}

static bool
boolean_value(const char *option, const JsonbValue *value)
{
	check_value(value->type == jbvBool, option, "true or false");
	return value->val.boolean;
}

/* ---- prompts ---- */

/* The names of the model's prompts as its facts have them; -1: these do not tell. */
static int
prompt_names(const InferModel *model, const char ***names)
{
	const char *facts = model->signature.facts;
	JsonbValue	prompts;
	JsonbValue	name;
	JsonbIterator *it;
	JsonbIteratorToken token;
	Jsonb	   *jsonb;
	int			count = 0;

	if (facts[0] == '\0')
		return -1;
	jsonb = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(pg_any_to_server(facts, strlen(facts), PG_UTF8))));
	if (!JB_ROOT_IS_OBJECT(jsonb) || getKeyJsonValueFromContainer(&jsonb->root, "prompts", 7, &prompts) == NULL ||
		prompts.type != jbvBinary)
		return -1;
	*names = palloc(sizeof(char *) * (JsonContainerSize(prompts.val.binary.data) + 1));
	it = JsonbIteratorInit(prompts.val.binary.data);
	while ((token = JsonbIteratorNext(&it, &name, true)) != WJB_DONE)
		if ((token == WJB_KEY || token == WJB_ELEM) && name.type == jbvString)
			(*names)[count++] = pnstrdup(name.val.string.val, name.val.string.len);
	return count;
}

static void
check_prompt(const InferModel *model, const char *prompt)
{
	const char **names;
	int			count = prompt_names(model, &names);

	for (int i = 0; i < count; i++)
		if (strcmp(names[i], prompt) == 0)
			return;
	if (count >= 0 || prompt[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("model \"%s\" has no prompt \"%s\"", model->name, prompt),
				 count > 0 ? errhint("Its prompts are %s; null is for none.", value_names_list(count, names)) :
				 errhint("It has none that has a name: put the words before the text, and leave option \"prompt\" out.")));
}

static void
read_prompt(const InferModel *model, const JsonbValue *value, InferTextOptions *options)
{
	if (value->type == jbvNull)
	{
		options->numbers[INFER_TEXT_FLAGS] |= INFER_TEXT_NO_PROMPT;
		return;
	}
	check_value(value->type == jbvString, "prompt", "the name of one of the model's prompts, or null for none");
	options->prompt_length = value->val.string.len;
	options->prompt = pnstrdup(value->val.string.val, value->val.string.len);
	check_prompt(model, options->prompt);
}

/* ---- the others ---- */

static void
read_dimensions(const InferModel *model, const JsonbValue *value, InferTextOptions *options)
{
	int			output = output_of_role(model, INFER_ROLE_EMBEDDING);
	uint64		most = output < 0 ? PG_INT32_MAX : output_width(&model->signature.outputs[output]);
	const char *expected = psprintf("a whole number from 1 to " UINT64_FORMAT ", as many as the model's embeddings have", most);
	bool		wrong = value->type != jbvNumeric;
	int32		number = 0;

	if (!wrong)
		number = numeric_int4_opt_error(value->val.numeric, &wrong);
	check_value(!wrong && number >= 1 && number <= most &&
				DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(value->val.numeric),
												 NumericGetDatum(int64_to_numeric(number)))),
				"dimensions", expected);
	options->numbers[INFER_TEXT_DIMENSIONS] = number;
}

static void
read_border(const JsonbValue *value, InferTextOptions *options)
{
	for (int i = 0; i < lengthof(border_names) && value->type == jbvString; i++)
		if (strlen(border_names[i]) == value->val.string.len &&
			memcmp(border_names[i], value->val.string.val, value->val.string.len) == 0)
		{
			options->numbers[INFER_TEXT_CHUNK_BORDER] = i;
			return;
		}
	check_value(false, "border", "\"token\", \"sentence\" or \"paragraph\"");
}

static void
read_option(const InferModel *model, uint32 key, const JsonbValue *value, InferTextOptions *options)
{
	int32	   *flags = &options->numbers[INFER_TEXT_FLAGS];

	switch ((enum InferTextKey) key)
	{
		case INFER_KEY_PROMPT:
			read_prompt(model, value, options);
			break;
		case INFER_KEY_TRUNCATE:
			*flags |= boolean_value("truncate", value) ? INFER_TEXT_TRUNCATE : INFER_TEXT_REFUSE;
			break;
		case INFER_KEY_DIMENSIONS:
			read_dimensions(model, value, options);
			break;
		case INFER_KEY_NORMALIZE:
			*flags |= boolean_value("normalize", value) ? INFER_TEXT_NORMALIZE : INFER_TEXT_RAW;
			break;
		case INFER_KEY_BORDER:
			read_border(value, options);
			break;
	}
}

void
infer_text_options_read(const InferModel *model, Jsonb *jsonb, uint32 keys, InferTextOptions *options)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	uint32		key = 0;

	*options = (InferTextOptions) {.prompt = ""};
	if (!JB_ROOT_IS_OBJECT(jsonb))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("options must be a JSON object"),
				 errhint("%s", keys_list(keys))));
	it = JsonbIteratorInit(&jsonb->root);
	JsonbIteratorNext(&it, &value, true);	/* the object's begin */
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			key = find_key(pnstrdup(value.val.string.val, value.val.string.len), keys);
		else if (token == WJB_VALUE)
			read_option(model, key, &value, options);
	}
}
