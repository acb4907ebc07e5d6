/*
 * validate.c
 *	  A line of a file: what it asks for, or why it cannot be run.
 *
 * What was read before something turned out wrong is kept: a bad line has its custom_id, where it has one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "../../verbs/many.h"
#include "lines.h"

typedef struct CheckedModel
{
	char	   *name;				/* as lines have it */
	char	   *pinned;				/* name@version */
	InferModel *model;				/* NULL: error says why */
	ErrorData  *error;
	bool		used;
} CheckedModel;

struct LineCheck
{
	MemoryContext context;
	const char *model;				/* the default; NULL: there is none */
	int			models_count;
	CheckedModel models[LINES_MODELS_MAX];
};

typedef struct LineReading
{
	LineCheck  *check;
	bool		is_utf8;
	char	   *text;
	Size		length;
	Jsonb	   *jsonb;				/* of the whole line */
	JobLine    *line;
} LineReading;

/* ---- models ---- */

/* In a subtransaction: looking a model up may leave something open when it fails. */
static void
resolve(LineCheck *check, CheckedModel *entry)
{
	MemoryContext old = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		entry->model = infer_model_resolve(entry->name, check->context);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(check->context);
		entry->error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	CurrentResourceOwner = owner;
	if (entry->error == NULL)
		entry->pinned = MemoryContextStrdup(check->context, psprintf("%s@%d", entry->model->name, entry->model->version));
}

static CheckedModel *
add_model(LineCheck *check, const char *name)
{
	CheckedModel *entry;

	if (check->models_count == LINES_MODELS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("model \"%s\" is one too many", name),
				 errdetail("The lines of a file may name at most %d models.", LINES_MODELS_MAX)));
	entry = &check->models[check->models_count++];
	*entry = (CheckedModel) {.name = MemoryContextStrdup(check->context, name)};
	return entry;
}

static CheckedModel *
find_model(LineCheck *check, const char *name)
{
	for (int i = 0; i < check->models_count; i++)
		if (strcmp(check->models[i].name, name) == 0)
			return &check->models[i];
	return NULL;
}

LineCheck *
line_check_make(const char *model)
{
	LineCheck  *check = palloc0(sizeof(LineCheck));
	CheckedModel *entry;

	check->context = AllocSetContextCreate(CurrentMemoryContext, "infer lines", ALLOCSET_DEFAULT_SIZES);
	check->model = model;
	if (model == NULL)
		return check;
	entry = add_model(check, model);
	entry->model = infer_model_resolve(model, check->context);	/* what is wrong with it is the statement's */
	entry->pinned = MemoryContextStrdup(check->context, psprintf("%s@%d", entry->model->name, entry->model->version));
	return check;
}

/* The same model may have been named in several ways. */
static bool
is_first_of_its_model(const LineCheck *check, int number)
{
	for (int i = 0; i < number; i++)
		if (check->models[i].used && strcmp(check->models[i].pinned, check->models[number].pinned) == 0)
			return false;
	return true;
}

const InferModel *
line_check_model(const LineCheck *check, int number)
{
	for (int i = 0; i < check->models_count; i++)
		if (check->models[i].used && is_first_of_its_model(check, i) && number-- == 0)
			return check->models[i].model;
	return NULL;
}

const char *
line_check_only_model(const LineCheck *check)
{
	const char *only = NULL;

	for (int i = 0; i < check->models_count; i++)
	{
		const CheckedModel *entry = &check->models[i];

		if (!entry->used)
			continue;
		if (only != NULL && strcmp(only, entry->pinned) != 0)
			return NULL;
		only = entry->pinned;
	}
	return only;
}

/* ---- reading a line ---- */

/* What is wrong with a value of JSON itself keeps its own words. */
static void
parse(void *arg)
{
	LineReading *reading = arg;
	char	   *text = reading->text;

	if (reading->is_utf8)
		text = pg_any_to_server(text, reading->length, PG_UTF8);
	reading->jsonb = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
	if (!JB_ROOT_IS_OBJECT(reading->jsonb))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("a line must be a JSON object")));
}

static bool
find(const LineReading *reading, const char *key, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(&reading->jsonb->root, key, strlen(key), value) != NULL;
}

/* NULL: it is not there. */
static char *
find_string(const LineReading *reading, const char *key)
{
	JsonbValue	value;

	if (!find(reading, key, &value))
		return NULL;
	if (value.type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be a string", key)));
	return pnstrdup(value.val.string.val, value.val.string.len);
}

static void
missing(const char *key)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the line has no \"%s\"", key)));
}

static void
check_keys(const LineReading *reading)
{
	static const char *const keys[] = {"custom_id", "method", "url", "body"};
	JsonbIterator *iterator = JsonbIteratorInit(&reading->jsonb->root);
	JsonbIteratorToken token;
	JsonbValue	value;

	JsonbIteratorNext(&iterator, &value, true);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		bool		known = token != WJB_KEY;

		for (int i = 0; i < lengthof(keys) && !known; i++)
			known = strlen(keys[i]) == value.val.string.len && memcmp(keys[i], value.val.string.val, value.val.string.len) == 0;
		if (!known)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("unknown key \"%s\"", pnstrdup(value.val.string.val, value.val.string.len)),
					 errdetail("A line has \"custom_id\", \"method\", \"url\" and \"body\".")));
	}
}

static void
read_method(const LineReading *reading)
{
	const char *method = find_string(reading, "method");

	if (method != NULL && strcmp(method, "POST") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("method \"%s\" is not supported", method),
				 errdetail("A line's method is POST.")));
}

static void
read_body(LineReading *reading)
{
	JsonbValue	value;

	if (!find(reading, "body", &value))
		missing("body");
	if (value.type != jbvBinary || !JsonContainerIsObject(value.val.binary.data))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"body\" must be an object")));
	reading->line->body = JsonbValueToJsonb(&value);
}

static const char *
model_name(const LineReading *reading)
{
	JsonbValue	value;

	if (getKeyJsonValueFromContainer(&reading->line->body->root, "model", 5, &value) == NULL)
	{
		if (reading->check->model == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("body has no \"model\""),
					 errhint("Name one, or give the argument model for lines that name none.")));
		return reading->check->model;
	}
	if (value.type != jbvString)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"model\" must be a string")));
	return pnstrdup(value.val.string.val, value.val.string.len);
}

static void
read_ids(void *arg)
{
	LineReading *reading = arg;
	JobLine    *line = reading->line;

	line->custom_id = find_string(reading, "custom_id");
	if (line->custom_id == NULL)
		missing("custom_id");
	check_keys(reading);
	read_method(reading);
	line->url = find_string(reading, "url");
	if (line->url == NULL)
		missing("url");
	(void) line_url(line->url);
	read_body(reading);
	line->model = unconstify(char *, model_name(reading));
}

static void
read_ask(void *arg)
{
	LineReading *reading = arg;
	JobLine    *line = reading->line;
	CheckedModel *entry = find_model(reading->check, line->model);
	LineAsk		ask;

	if (entry == NULL)
		entry = add_model(reading->check, line->model);
	if (entry->model == NULL && entry->error == NULL)
		resolve(reading->check, entry);
	if (entry->error != NULL)
		ReThrowError(entry->error);
	line_ask(line_url(line->url), line->body, entry->model, &ask);
	entry->used = true;
	line->model = entry->pinned;
}

/* ---- what is wrong ---- */

static void
set_error(JobLine *line, const ErrorData *error)
{
	line->sqlstate = pstrdup(unpack_sql_state(error->sqlerrcode));
	line->message = error->detail == NULL ? pstrdup(error->message) :
		psprintf("%s: %s", error->message, error->detail);
}

static void
set_too_long(JobLine *line)
{
	line->sqlstate = pstrdup(unpack_sql_state(ERRCODE_PROGRAM_LIMIT_EXCEEDED));
	line->message = psprintf("the line is longer than %d MB", LINES_BYTES_MAX >> 20);
}

void
line_check(LineCheck *check, bool is_utf8, char *text, Size length, JobLine *line)
{
	LineReading reading = {.check = check, .is_utf8 = is_utf8, .text = text, .length = length, .line = line};
	static void (*const steps[]) (void *) = {parse, read_ids, read_ask};

	if (text == NULL)
	{
		set_too_long(line);
		return;
	}
	for (int i = 0; i < lengthof(steps); i++)
	{
		ErrorData  *error = answer_try(steps[i], &reading, CurrentMemoryContext);

		if (error == NULL)
			continue;
		set_error(line, error);
		return;
	}
}
