/*
 * binding.c
 *	  How a call's arguments reach a model's inputs.
 *
 * Loop
 *	infer_binding_make looks at types alone and plans steps; infer_binding_write runs them
 *	for each row.  What only a value can tell (a row's type, an object's keys, an array's
 *	length) is looked at then.
 *
 * Invariants
 *	- A write leaves no element of an input untouched.
 *	- Names are exact and case-sensitive.  Where the elements of an input have names, a
 *	  row or object is matched by them and what else it holds is ignored; where they have
 *	  none, the count must match.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "parts.h"

#define NAMES_SHOWN 20			/* of a list in a message */

/* ---- types ---- */

static ValueSource
source_of_base_type(Oid base)
{
	switch (base)
	{
		case INT2OID:
			return SOURCE_INT2;
		case INT4OID:
			return SOURCE_INT4;
		case INT8OID:
			return SOURCE_INT8;
		case FLOAT4OID:
			return SOURCE_FLOAT4;
		case FLOAT8OID:
			return SOURCE_FLOAT8;
		case NUMERICOID:
			return SOURCE_NUMERIC;
		case BOOLOID:
			return SOURCE_BOOL;
		case TEXTOID:
		case VARCHAROID:
			return SOURCE_TEXT;
		case BPCHAROID:
			return SOURCE_BPCHAR;
		case UNKNOWNOID:
			return SOURCE_CSTRING;
		case NAMEOID:
			return SOURCE_NAME;
		case CHAROID:
			return SOURCE_CHAR;
		case DATEOID:
			return SOURCE_DATE;
		case JSONBOID:
			return SOURCE_JSONB;
		default:
			if (type_is_rowtype(base))
				return SOURCE_ROW;
			return type_is_enum(base) ? SOURCE_ENUM : SOURCE_OTHER;
	}
}

/* What a declared type is to the conversions; domains count as their base types. */
ValueType
value_type(Oid type)
{
	ValueType	result = {.type = type};
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);

	if (OidIsValid(element))
	{
		result.array = true;
		get_typlenbyvalalign(element, &result.length, &result.byval, &result.align);
		base = getBaseType(element);
	}
	result.source = source_of_base_type(base);
	return result;
}

static const char *
refusal_hint(const ValueType *type, bool wants_text)
{
	switch (getBaseType(type->type))
	{
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case TIMEOID:
		case TIMETZOID:
		case INTERVALOID:
			return wants_text ? "Write the text that the model expects, for example with to_char()."
				: "Give a number, for example extract(epoch from …).";
		case JSONOID:
			return "Cast it to jsonb.";
		default:
			break;
	}
	if (type->source == SOURCE_ROW)
		return "Give the row as the only input, or its columns one by one.";
	if (wants_text)
		return "Cast it to text in the form that the model expects.";
	if (type->source == SOURCE_ENUM)
		return "Map the labels to numbers, for example with CASE.";
	return "Cast it to a number.";
}

/*
 * Raises 42804 unless values of the type can be an element of the input.  Text for a
 * number passes: only a NULL is acceptable then, and the value itself decides the hint.
 */
void
value_check_accepts(const InferBinding *binding, uint32 input, uint64 element, const ValueType *type)
{
	bool		wants_text = binding->inputs[input].tensor->type == INFER_TYPE_STRING;
	bool		accepted;

	switch (type->source)
	{
		case SOURCE_INT2:
		case SOURCE_INT4:
		case SOURCE_INT8:
		case SOURCE_JSONB:
		case SOURCE_TEXT:
		case SOURCE_BPCHAR:
		case SOURCE_CSTRING:
		case SOURCE_NAME:
		case SOURCE_CHAR:
			accepted = true;
			break;
		case SOURCE_FLOAT4:
		case SOURCE_FLOAT8:
		case SOURCE_NUMERIC:
		case SOURCE_BOOL:
			accepted = !wants_text;
			break;
		case SOURCE_ENUM:
		case SOURCE_DATE:
			accepted = wants_text;
			break;
		default:
			accepted = false;
	}
	if (!accepted)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("%s of model \"%s\" does not take type %s", value_where(binding, input, element),
						binding->model->name, format_type_be(type->type)),
				 errdetail("The model takes %s.", wants_text ? "text" : "numbers"),
				 errhint("%s", refusal_hint(type, wants_text))));
}

/* ---- messages ---- */

const char *
value_where(const InferBinding *binding, uint32 input, uint64 element)
{
	const InputShape *shape = &binding->inputs[input];

	if (shape->features && element < shape->names_count)
		return psprintf("feature \"%s\"", shape->names[element]);
	if (element == WHOLE_INPUT || (shape->width == 1 && !shape->varies))
		return psprintf("input \"%s\"", shape->tensor->name);
	return psprintf("element " UINT64_FORMAT " of input \"%s\"", element + 1, shape->tensor->name);
}

const char *
value_names_list(int count, const char *const *names)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < count && i < NAMES_SHOWN; i++)
		appendStringInfo(&list, "%s\"%s\"", i > 0 ? ", " : "", names[i]);
	if (count > NAMES_SHOWN)
		appendStringInfo(&list, " and %d more", count - NAMES_SHOWN);
	return list.data;
}

static const char *
all_names(const InferBinding *binding)
{
	const char **names = palloc(sizeof(char *) * (binding->elements + 1));
	int			count = 0;

	for (int i = 0; i < binding->inputs_count; i++)
		for (uint32 k = 0; k < binding->inputs[i].names_count; k++)
			names[count++] = binding->inputs[i].names[k];
	return value_names_list(count, names);
}

void
value_count_error(const InferBinding *binding, uint64 given, const char *noun)
{
	bool		row = strcmp(noun, "row") == 0;
	const char *format =
		row ? "model \"%s\" takes " UINT64_FORMAT " feature%s, but the row has " UINT64_FORMAT " column%s" :
		strcmp(noun, "array") == 0 ?
		"model \"%s\" takes " UINT64_FORMAT " feature%s, but the array has " UINT64_FORMAT " element%s" :
		"model \"%s\" takes " UINT64_FORMAT " feature%s, but " UINT64_FORMAT " %s given";
	bool		counted = strcmp(noun, "arguments") != 0;
	char	   *message = psprintf(format, binding->model->name, binding->elements,
								   binding->elements == 1 ? "" : "s", given,
								   counted ? (given == 1 ? "" : "s") : given == 1 ? "was" : "were");

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg_internal("%s", message),
			 binding->named && binding->elements > 1 ? errdetail("They are %s.", all_names(binding)) : 0,
			 row ?
			 errhint("Declare the features' names with infer.create_model(…, options => '{\"features\": [\"…\"]}'), then columns are matched by name.") :
			 binding->inputs_count > 1 ?
			 errhint("Give each feature once, in order, or one array for each of the %d inputs.", binding->inputs_count) :
			 errhint("Give each feature once, in order, or all of them in one array.")));
}

void
value_width_error(const InferBinding *binding, uint32 input, uint64 given)
{
	const InputShape *shape = &binding->inputs[input];

	if (shape->varies)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("input \"%s\" of model \"%s\" takes a multiple of " UINT64_FORMAT " values, but " UINT64_FORMAT " were given",
						shape->tensor->name, binding->model->name, shape->width, given),
				 errhint("Give as many values as the input's shape asks for.")));
	if (binding->inputs_count == 1)
		value_count_error(binding, given, "array");
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("input \"%s\" of model \"%s\" takes " UINT64_FORMAT " values, but " UINT64_FORMAT " were given",
					shape->tensor->name, binding->model->name, shape->width, given),
			 errhint("Give the input's values in one array.")));
}

/* holder: "row" or "object"; missing: names that it lacks */
void
value_names_missing(const InferBinding *binding, const char *holder, List *missing)
{
	const char **names = palloc(sizeof(char *) * list_length(missing));
	int			count = 0;
	ListCell   *cell;

	foreach(cell, missing)
		names[count++] = lfirst(cell);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the %s lacks %s of model \"%s\": %s", holder,
					count == 1 ? "a feature" : psprintf("%d features", count),
					binding->model->name, value_names_list(count, names)),
			 errdetail("Features are matched by name, exactly and case-sensitively."),
			 strcmp(holder, "row") == 0 ?
			 errhint("Name the columns like the features, for example with column aliases in a subquery.") :
			 errhint("Add the key; its value may be null where the model accepts missing values.")));
}

/* ---- planning ---- */

static BindingStep *
add_step(StepList *list, StepKind kind, int from, uint32 input, uint64 element, const ValueType *type)
{
	BindingStep *step = &list->steps[list->count++];

	step->kind = kind;
	step->from = from;
	step->input = input;
	step->element = element;
	step->type = *type;
	return step;
}

static void
plan_one_array(const InferBinding *binding, const ValueType *type, int from, StepList *out)
{
	for (int i = 0; i < binding->inputs_count; i++)
		value_check_accepts(binding, i, WHOLE_INPUT, type);
	if (binding->inputs_count > 1 && binding->elements == 0)
		value_count_error(binding, 1, "arguments");
	add_step(out, binding->inputs_count == 1 ? STEP_INPUT : STEP_SPREAD, from, 0, 0, type);
}

static void
plan_inputs(const InferBinding *binding, int count, const ValueType *types, const int *from, StepList *out)
{
	if (count != binding->inputs_count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("model \"%s\" takes %d inputs, but %d values, some of them arrays, were given",
						binding->model->name, binding->inputs_count, count),
				 errhint("Give one array for each input, or all features one by one.")));
	for (int i = 0; i < count; i++)
	{
		const InputShape *shape = &binding->inputs[i];

		value_check_accepts(binding, i, WHOLE_INPUT, &types[i]);
		if (!types[i].array && types[i].source != SOURCE_JSONB && (shape->varies || shape->width != 1))
			value_width_error(binding, i, 1);
		add_step(out, types[i].array || types[i].source == SOURCE_JSONB ? STEP_INPUT : STEP_ELEMENT,
				 from[i], i, 0, &types[i]);
	}
}

static void
plan_elements(const InferBinding *binding, int count, const ValueType *types, const int *from, StepList *out)
{
	uint32		input = 0;

	if (binding->elements == 0 && binding->inputs_count == 1)
	{
		if (count % binding->inputs[0].width != 0)
			value_width_error(binding, 0, count);
		out->scalars = count;
	}
	for (int i = 0; i < count; i++)
	{
		while (out->scalars == 0 && i >= binding->inputs[input].first + binding->inputs[input].width)
			input++;
		value_check_accepts(binding, input, i - binding->inputs[input].first, &types[i]);
		add_step(out, STEP_ELEMENT, from[i], input, i - binding->inputs[input].first, &types[i]);
	}
}

/*
 * Plan values by their order: one array for everything, one value for each input, or
 * one scalar for each element.  from: where each comes from.  Allocates in the current
 * memory context.
 */
void
binding_plan_positional(const InferBinding *binding, int count, const ValueType *types,
						const int *from, StepList *out)
{
	bool		arrays = false;

	out->count = 0;
	out->scalars = 0;
	out->steps = palloc0(sizeof(BindingStep) * Max(count, 1));

	for (int i = 0; i < count; i++)
		arrays |= types[i].array;
	if (count == 1 && arrays)
		plan_one_array(binding, &types[0], from[0], out);
	else if (arrays)
		plan_inputs(binding, count, types, from, out);
	else if (count == 1 && binding->elements != 1 && binding->inputs[0].tensor->type != INFER_TYPE_STRING &&
			 (types[0].source == SOURCE_TEXT || types[0].source == SOURCE_CSTRING))
		/* an error whose hint depends on the text: is it an object, an array? */
		add_step(out, STEP_ELEMENT, from[0], 0, 0, &types[0]);
	else if (binding->elements == count || (binding->elements == 0 && binding->inputs_count == 1))
		plan_elements(binding, count, types, from, out);
	else
		value_count_error(binding, count, "arguments");
}

/* ---- shapes ---- */

static void
shape_names(InputShape *shape, uint32 count, const char **names)
{
	shape->names_count = count;
	shape->names = names;
	shape->names_length = palloc(sizeof(int) * count);
	for (uint32 i = 0; i < count; i++)
		shape->names_length[i] = strlen(names[i]);
}

static void
shape_init(InputShape *shape, const struct infer_tensor *tensor, uint64 first)
{
	shape->tensor = tensor;
	shape->name_length = strlen(tensor->name);
	shape->first = first;
	shape->width = 1;
	for (uint32 i = 0; i < tensor->rank; i++)
	{
		if (tensor->dims[i] < 0)
			shape->varies = true;
		else
			shape->width *= tensor->dims[i];
		if (shape->width == 0 || shape->width > INFER_REGION_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("input \"%s\" takes more or fewer values than a call can carry", tensor->name)));
	}
}

static void
shapes_init(InferBinding *binding)
{
	const InferModel *model = binding->model;
	bool		varies = false;

	for (int i = 0; i < binding->inputs_count; i++)
	{
		shape_init(&binding->inputs[i], &model->signature.inputs[i], binding->elements);
		binding->elements += binding->inputs[i].width;
		varies |= binding->inputs[i].varies;
	}
	if (model->features_count > 0 && !varies && model->features_count != binding->elements)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("model \"%s\" declares %u features, but takes " UINT64_FORMAT, model->name,
						model->features_count, binding->elements),
				 errhint("Create a version whose option \"features\" names each of them once.")));

	binding->named = !varies;
	for (int i = 0; i < binding->inputs_count; i++)
	{
		InputShape *shape = &binding->inputs[i];

		shape->features = model->features_count > 0 && !varies;
		if (shape->features)
			shape_names(shape, shape->width, (const char **) model->features + shape->first);
		else if (shape->width == 1 && !shape->varies)
			shape_names(shape, 1, (const char **) &shape->tensor->name);
		else
			binding->named = false;
	}
	if (varies)
		binding->elements = 0;
}

static InferBinding *
binding_new(const InferModel *model, MemoryContext context)
{
	InferBinding *binding = palloc0(sizeof(InferBinding));

	binding->model = model;
	binding->context = context;
	binding->inputs_count = model->signature.inputs_count;
	binding->inputs = palloc0(sizeof(InputShape) * Max(binding->inputs_count, 1));
	binding->sinks = palloc0(sizeof(ValueSink) * Max(binding->inputs_count, 1));
	binding->row = palloc0(sizeof(RowPlan *));
	binding->moves = palloc0(sizeof(uint64));
	if (binding->inputs_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" has no inputs", model->name)));
	shapes_init(binding);
	for (int i = 0; i < binding->inputs_count; i++)
	{
		binding->sinks[i].binding = binding;
		binding->sinks[i].input = i;
		binding->sinks[i].type = binding->inputs[i].tensor->type;
		binding->sinks[i].missing = (binding->inputs[i].tensor->flags & INFER_TENSOR_MISSING) != 0;
	}
	return binding;
}

/* What no position can take is refused before positions are counted. */
static void
check_arguments(const InferBinding *binding, int nargs, const ValueType *types)
{
	for (int i = 0; i < nargs; i++)
	{
		bool		row = types[i].source == SOURCE_ROW && (nargs > 1 || types[i].array);

		if (row || types[i].source == SOURCE_OTHER)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 row ? errmsg("a row must be the only input of model \"%s\"", binding->model->name)
					 : errmsg("model \"%s\" does not take type %s", binding->model->name,
							  format_type_be(types[i].type)),
					 errhint("%s", refusal_hint(&types[i], binding->inputs[0].tensor->type == INFER_TYPE_STRING))));
	}
}

InferBinding *
infer_binding_make(const InferModel *model, int nargs, const Oid *types, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	InferBinding *binding = binding_new(model, context);
	ValueType  *values = palloc(sizeof(ValueType) * Max(nargs, 1));
	int		   *from = palloc(sizeof(int) * Max(nargs, 1));

	for (int i = 0; i < nargs; i++)
	{
		values[i] = value_type(types[i]);
		from[i] = i;
	}
	check_arguments(binding, nargs, values);
	if (nargs == 1 && !values[0].array && values[0].source == SOURCE_ROW)
		binding->mode = BINDING_ROW;
	else if (nargs == 1 && !values[0].array && values[0].source == SOURCE_JSONB)
		binding->mode = BINDING_OBJECT;
	else
	{
		binding->mode = BINDING_POSITIONAL;
		binding_plan_positional(binding, nargs, values, from, &binding->steps);
	}
	MemoryContextSwitchTo(old);
	return binding;
}

/* ---- writing ---- */

/*
 * Open an input's column for this row, once per write.  count: elements of a varying
 * input; others know theirs.
 */
void
binding_open(const InferBinding *binding, InferCall *call, uint32 row, uint32 input, uint64 count)
{
	const InputShape *shape = &binding->inputs[input];
	ValueSink  *sink = &binding->sinks[input];

	if (sink->call != NULL)
		return;
	sink->call = call;
	sink->width = shape->varies ? count : shape->width;
	sink->base = row * sink->width;
	sink_find(sink);
}

/* Columns move while others are asked for; ask for the address again. */
void
sink_find(ValueSink *sink)
{
	sink->data = infer_client_column(sink->call, sink->input, sink->width);
	sink->data += sink->base * infer_type_bytes(sink->type);
	sink->moves = ++*sink->binding->moves;
}

static void
run_step(const InferBinding *binding, InferCall *call, uint32 row, const BindingStep *step,
		 Datum value, bool isnull)
{
	ValueSink  *sink = &binding->sinks[step->input];

	switch (step->kind)
	{
		case STEP_ELEMENT:
			if (isnull)
				value_put_missing(sink, step->element);
			else
				value_put(sink, step->element, step->type.source, value);
			break;
		case STEP_INPUT:
			if (isnull)
				value_put_missing_input(binding, call, row, step->input);
			else if (step->type.array)
				value_put_array(binding, call, row, step->input, &step->type, value);
			else
				value_put_jsonb_input(binding, call, row, step->input, value);
			break;
		case STEP_SPREAD:
			if (!isnull)
				value_put_spread(binding, &step->type, value);
			else
				for (int i = 0; i < binding->inputs_count; i++)
					value_put_missing_input(binding, call, row, i);
			break;
	}
}

void
binding_run_steps(const InferBinding *binding, InferCall *call, uint32 row, const StepList *steps,
				  const Datum *values, const bool *nulls)
{
	for (int i = 0; i < binding->inputs_count; i++)
	{
		binding->sinks[i].call = NULL;
		if (!binding->inputs[i].varies || steps->scalars > 0)
			binding_open(binding, call, row, i, steps->scalars);
	}
	for (int i = 0; i < steps->count; i++)
	{
		const BindingStep *step = &steps->steps[i];

		run_step(binding, call, row, step, values[step->from], nulls[step->from]);
	}
}

void
infer_binding_prepare(const InferBinding *binding, const Datum *values, const bool *nulls)
{
	if (binding->mode == BINDING_ROW && !nulls[0])
		binding_row_prepare(binding, values[0]);
}

void
infer_binding_write(const InferBinding *binding, InferCall *call, uint32 row,
					const Datum *values, const bool *nulls)
{
	switch (binding->mode)
	{
		case BINDING_POSITIONAL:
			binding_run_steps(binding, call, row, &binding->steps, values, nulls);
			break;
		case BINDING_ROW:
			binding_row_write(binding, call, row, values[0]);
			break;
		case BINDING_OBJECT:
			binding_object_write(binding, call, row, values[0]);
			break;
	}
}
