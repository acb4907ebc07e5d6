/*
 * objects.c
 *	  jsonb into inputs: an object by key, an array for a whole input, a scalar for an
 *	  element.
 *
 * What a document holds differs from row to row, so everything that is wrong with it is
 * that row's own error (22023, 22003, 22004).
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "parts.h"

#define JSON_DIMS_MAX	INFER_RANK_MAX

static const char *
json_kind(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			return "null";
		case jbvString:
			return "a string";
		case jbvNumeric:
			return "a number";
		case jbvBool:
			return "a boolean";
		case jbvBinary:
			return JsonContainerIsArray(value->val.binary.data) ? "an array" : "an object";
		default:
			return "a value";
	}
}

static void
kind_error(const InferBinding *binding, uint32 input, uint64 element, const char *given,
		   const char *wanted)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s of model \"%s\" takes %s, but %s was given",
					value_where(binding, input, element), binding->model->name, wanted, given),
			 errhint("Give %s.", wanted)));
}

static void
as_document(Datum value, JsonbValue *root)
{
	Jsonb	   *jsonb = DatumGetJsonbP(value);

	if (JB_ROOT_IS_SCALAR(jsonb))
		*root = *getIthJsonbValueFromContainer(&jsonb->root, 0);
	else
	{
		root->type = jbvBinary;
		root->val.binary.data = &jsonb->root;
		root->val.binary.len = VARSIZE(jsonb) - VARHDRSZ;
	}
}

/* A JSON scalar for an element.  Numbers are numeric, so its rules hold. */
void
value_put_json(ValueSink *sink, uint64 element, const JsonbValue *value)
{
	bool		wants_text = sink->type == INFER_TYPE_STRING;

	switch (value->type)
	{
		case jbvNull:
			value_put_missing(sink, element);
			return;
		case jbvNumeric:
			if (!wants_text)
			{
				value_put(sink, element, SOURCE_NUMERIC, NumericGetDatum(value->val.numeric));
				return;
			}
			break;
		case jbvBool:
			if (!wants_text)
			{
				value_put(sink, element, SOURCE_BOOL, BoolGetDatum(value->val.boolean));
				return;
			}
			break;
		case jbvString:
			if (wants_text)
			{
				value_put_string(sink, element, value->val.string.val, value->val.string.len);
				return;
			}
			break;
		default:
			break;
	}
	kind_error(sink->binding, sink->input, element, json_kind(value), wants_text ? "a string" : "a number");
}

void
value_put_jsonb(ValueSink *sink, uint64 element, Datum value)
{
	JsonbValue	root;

	as_document(value, &root);
	value_put_json(sink, element, &root);
}

/* ---- arrays ---- */

typedef struct JsonShape			/* of an array: as deep as its first elements are */
{
	int			ndim;
	int			dims[JSON_DIMS_MAX];
	uint64		count;
} JsonShape;

static void
ragged_error(const InferBinding *binding, uint32 input)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the array for input \"%s\" of model \"%s\" is nested unevenly",
					binding->inputs[input].tensor->name, binding->model->name),
			 errhint("Give a flat array, or one nested like the input's shape.")));
}

/*
 * Walks a JSON array.  With sink NULL it takes the shape, raising what is uneven; with a
 * sink it writes the elements in row-major order.
 */
static void
walk_array(const InferBinding *binding, uint32 input, JsonbContainer *container,
		   ValueSink *sink, JsonShape *shape)
{
	JsonbIterator *iterator = JsonbIteratorInit(container);
	JsonbIteratorToken token;
	JsonbValue	value;
	int			depth = 0;
	int			counts[JSON_DIMS_MAX + 1] = {0};
	uint64		leaves = 0;
	int			ndim = 0;

	while ((token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE)
	{
		if (token == WJB_BEGIN_ARRAY)
		{
			if (depth == JSON_DIMS_MAX || (ndim > 0 && depth == ndim))
				ragged_error(binding, input);
			counts[++depth] = 0;
		}
		else if (token == WJB_END_ARRAY)
		{
			if (sink == NULL && shape->dims[depth - 1] < 0)
				shape->dims[depth - 1] = counts[depth];
			else if (shape->dims[depth - 1] != counts[depth])
				ragged_error(binding, input);
			if (--depth > 0)
				counts[depth]++;
		}
		else if (token == WJB_ELEM)
		{
			if (ndim == 0)
				ndim = depth;
			if (depth != ndim)
				ragged_error(binding, input);
			counts[depth]++;
			if (sink != NULL)
				value_put_json(sink, leaves, &value);
			leaves++;
		}
		else
			kind_error(binding, input, leaves, "an object", "a scalar");
	}
	if (sink == NULL)
	{
		shape->ndim = ndim;
		shape->count = leaves;
	}
}

static void
put_array(const InferBinding *binding, uint32 input, JsonbContainer *container)
{
	JsonShape	shape;

	memset(&shape, 0xff, sizeof(shape));
	walk_array(binding, input, container, NULL, &shape);
	value_check_dims(binding, input, shape.ndim, shape.dims, shape.count);
	walk_array(binding, input, container, &binding->sinks[input], &shape);
}

/* A JSON value for a whole input. */
void
value_put_json_input(const InferBinding *binding, uint32 input, const JsonbValue *value)
{
	const InputShape *shape = &binding->inputs[input];

	if (value->type == jbvNull)
		value_put_missing_input(binding, input);
	else if (value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data))
		put_array(binding, input, value->val.binary.data);
	else if (value->type != jbvBinary && shape->width == 1)
		value_put_json(&binding->sinks[input], 0, value);
	else
		kind_error(binding, input, WHOLE_INPUT, json_kind(value), shape->width == 1 ? "a scalar" : "an array");
}

void
value_put_jsonb_input(const InferBinding *binding, uint32 input, Datum value)
{
	JsonbValue	root;

	as_document(value, &root);
	value_put_json_input(binding, input, &root);
}

/* ---- objects ---- */

static bool
find_key(JsonbContainer *object, const char *key, int length, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(object, key, length, value) != NULL;
}

/* One key for each of the input's features.  Returns the names that the object lacks. */
static List *
put_features(const InferBinding *binding, uint32 input, JsonbContainer *object)
{
	const InputShape *shape = &binding->inputs[input];
	List	   *missing = NIL;
	JsonbValue	value;

	for (uint32 i = 0; i < shape->names_count; i++)
	{
		if (!find_key(object, shape->names[i], shape->names_length[i], &value))
			missing = lappend(missing, unconstify(char *, shape->names[i]));
		else if (missing == NIL)
			value_put_json(&binding->sinks[input], i, &value);
	}
	return missing;
}

static List *
put_by_key(const InferBinding *binding, uint32 input, JsonbContainer *object)
{
	const InputShape *shape = &binding->inputs[input];
	List	   *missing;
	JsonbValue	value;

	if (!shape->features)
		missing = list_make1(shape->tensor->name);
	else if ((missing = put_features(binding, input, object)) == NIL)
		return NIL;
	if (!find_key(object, shape->tensor->name, shape->name_length, &value))
		return missing;
	value_put_json_input(binding, input, &value);
	return NIL;
}

static void
put_object(const InferBinding *binding, JsonbContainer *object)
{
	List	   *missing = NIL;

	for (int i = 0; i < binding->inputs_count; i++)
		missing = list_concat(missing, put_by_key(binding, i, object));
	if (missing == NIL)
		return;
	if (binding->inputs_count == 1 && binding->inputs[0].names_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the features of model \"%s\" have no names for an object's keys to match",
						binding->model->name),
				 errhint("Declare them with infer.create_model(..., options => '{\"features\": [\"...\"]}'), or give an array under the key \"%s\".",
						 binding->inputs[0].tensor->name)));
	value_names_missing(binding, HOLDER_OBJECT, missing);
}

void
binding_object_write(const InferBinding *binding, InferCall *call, uint32 row, Datum value)
{
	JsonbValue	root;

	binding_open(binding, call, row);
	as_document(value, &root);
	if (root.type == jbvBinary && JsonContainerIsObject(root.val.binary.data))
		put_object(binding, root.val.binary.data);
	else if (binding->inputs_count == 1)
		value_put_json_input(binding, 0, &root);
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("model \"%s\" has %d inputs, but %s was given", binding->model->name,
						binding->inputs_count, json_kind(&root)),
				 errhint("Give an object whose keys are the inputs' names.")));
}
