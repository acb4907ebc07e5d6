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

#include "access/detoast.h"
#include "access/htup_details.h"
#include "utils/builtins.h"

#include "parts.h"

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
		if (!types[i].array && types[i].source != SOURCE_JSONB && shape->width != 1)
			value_width_error(binding, i, 1);
		add_step(out, types[i].array || types[i].source == SOURCE_JSONB ? STEP_INPUT : STEP_ELEMENT,
				 from[i], i, 0, &types[i]);
	}
}

static void
plan_elements(const InferBinding *binding, int count, const ValueType *types, const int *from, StepList *out)
{
	uint32		input = 0;

	for (int i = 0; i < count; i++)
	{
		while (i >= binding->inputs[input].first + binding->inputs[input].width)
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
	else if (binding->elements == count)
		plan_elements(binding, count, types, from, out);
	else
		value_count_error(binding, count, HOLDER_ARGUMENTS);
	binding_plan_plain(binding, out);
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
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("input \"%s\" has a dimension that varies from row to row", tensor->name),
					 errhint("Create a version whose option \"dims\" fixes it.")));
		shape->width *= tensor->dims[i];
		if (shape->width == 0 || shape->width > INFER_REGION_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("input \"%s\" takes more or fewer values than a call can carry", tensor->name)));
	}
}

/* Declared names count only if there is one for each element. */
static void
shapes_init(InferBinding *binding)
{
	const InferModel *model = binding->model;

	for (uint32 i = 0; i < model->signature.inputs_count; i++)
	{
		const struct infer_tensor *tensor = &model->signature.inputs[i];
		InputShape *shape = &binding->inputs[binding->inputs_count];

		if (tensor->flags & INFER_TENSOR_HIDDEN)
			shape = &binding->hidden[binding->hidden_count++];
		else
			binding->inputs_count++;
		shape_init(shape, tensor, binding->elements);
		shape->number = i;
		if (!(tensor->flags & INFER_TENSOR_HIDDEN))
			binding->elements += shape->width;
	}
	binding->named = true;
	for (int i = 0; i < binding->inputs_count; i++)
	{
		InputShape *shape = &binding->inputs[i];

		shape->features = model->features_count > 0 && model->features_count == binding->elements;
		if (shape->features)
			shape_names(shape, shape->width, (const char **) model->features + shape->first);
		else if (shape->width == 1)
			shape_names(shape, 1, (const char **) &shape->tensor->name);
		else
			binding->named = false;
	}
}

static InferBinding *
binding_new(const InferModel *model, MemoryContext context)
{
	InferBinding *binding = palloc0(sizeof(InferBinding));

	binding->model = model;
	binding->context = context;
	binding->inputs = palloc0(sizeof(InputShape) * Max(model->signature.inputs_count, 1));
	binding->hidden = palloc0(sizeof(InputShape) * Max(model->signature.inputs_count, 1));
	binding->sinks = palloc0(sizeof(ValueSink) * Max(model->signature.inputs_count, 1));
	binding->row = palloc0(sizeof(RowPlan *));
	binding->moves = palloc0(sizeof(uint64));
	shapes_init(binding);
	if (binding->inputs_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" has no inputs", model->name)));
	for (int i = 0; i < binding->inputs_count; i++)
	{
		binding->sinks[i].binding = binding;
		binding->sinks[i].input = i;
		binding->sinks[i].number = binding->inputs[i].number;
		binding->sinks[i].type = binding->inputs[i].tensor->type;
		binding->sinks[i].missing = (binding->inputs[i].tensor->flags & INFER_TENSOR_MISSING) != 0;
	}
	return binding;
}

const char **
infer_model_names(const InferModel *model, int *count)
{
	const InferBinding *binding = binding_new(model, CurrentMemoryContext);
	const char **names;
	int			found = 0;

	*count = binding->elements;
	if (!binding->named)
		return NULL;
	names = palloc(sizeof(char *) * binding->elements);
	for (int i = 0; i < binding->inputs_count; i++)
		for (uint32 k = 0; k < binding->inputs[i].names_count; k++)
			names[found++] = binding->inputs[i].names[k];
	return names;
}

int
infer_model_texts(const InferModel *model)
{
	int			count = 0;

	for (uint32 i = 0; i < model->signature.inputs_count; i++)
		count += !(model->signature.inputs[i].flags & INFER_TENSOR_HIDDEN) &&
			(model->signature.inputs[i].role == INFER_ROLE_TEXT || model->signature.inputs[i].role == INFER_ROLE_PAIR);
	return count;
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
					 errhint("%s", value_refusal_hint(&types[i], binding->inputs[0].tensor->type == INFER_TYPE_STRING))));
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

InferBinding *
infer_binding_make_columns(const InferModel *model, Oid type, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	InferBinding *binding = binding_new(model, context);

	binding->mode = BINDING_ROW;
	binding->columns = binding_row_plan(binding, type);
	MemoryContextSwitchTo(old);
	return binding;
}

Bitmapset *
infer_binding_columns(const InferBinding *binding)
{
	const StepList *steps = &binding->columns->steps;
	Bitmapset  *columns = NULL;

	for (int i = 0; i < steps->count; i++)
		columns = bms_add_member(columns, steps->steps[i].from);
	return columns;
}

/* ---- writing ---- */

/* Points all sinks at this row.  Rows are written in order: the first one makes the columns. */
void
binding_open(const InferBinding *binding, InferCall *call, uint32 row)
{
	for (int i = 0; i < binding->inputs_count; i++)
	{
		ValueSink  *sink = &binding->sinks[i];

		sink->call = call;
		sink->width = binding->inputs[i].width;
		sink->base = row * sink->width;
		sink_find(sink);
	}
	if (row == 0)
		for (int i = 0; i < binding->hidden_count; i++)
			(void) infer_client_column(call, binding->hidden[i].number, binding->hidden[i].width);
	if (row == 0 && binding->inputs_count + binding->hidden_count > 1)
		++*binding->moves;		/* those found first may have moved when later ones were made */
}

/* Ask for the address again. */
void
sink_find(ValueSink *sink)
{
	sink->data = infer_client_column(sink->call, sink->number, sink->width);
	sink->data += sink->base * infer_type_bytes(sink->type);
	sink->moves = *sink->binding->moves;
}

static void
run_step(const InferBinding *binding, const BindingStep *step, Datum value, bool isnull)
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
				value_put_missing_input(binding, step->input);
			else if (step->type.array)
				value_put_array(binding, step->input, &step->type, value);
			else
				value_put_jsonb_input(binding, step->input, value);
			break;
		case STEP_SPREAD:
			if (!isnull)
				value_put_spread(binding, &step->type, value);
			else
				for (int i = 0; i < binding->inputs_count; i++)
					value_put_missing_input(binding, i);
			break;
	}
}

void
binding_run_steps(const InferBinding *binding, InferCall *call, uint32 row, const StepList *steps,
				  const Datum *values, const bool *nulls)
{
	binding_open(binding, call, row);
	if (steps->plain != NULL && binding_run_plain(binding, steps, values, nulls))
		return;
	for (int i = 0; i < steps->count; i++)
	{
		const BindingStep *step = &steps->steps[i];

		run_step(binding, step, values[step->from], nulls[step->from]);
	}
}

/* A value that lies in a TOAST table, fetched; any other as it is. */
static Datum
fetch_toasted(Datum value)
{
	struct varlena *varlena = (struct varlena *) DatumGetPointer(value);

	return VARATT_IS_EXTERNAL_ONDISK(varlena) ? PointerGetDatum(detoast_external_attr(varlena)) : value;
}

static bool
is_varlena(const ValueType *type)
{
	return type->array || type->source == SOURCE_NUMERIC || type->source == SOURCE_TEXT ||
		type->source == SOURCE_BPCHAR || type->source == SOURCE_JSONB;
}

static void
prepare_steps(const StepList *steps, Datum *values, const bool *nulls)
{
	for (int i = 0; i < steps->count; i++)
	{
		const BindingStep *step = &steps->steps[i];

		if (is_varlena(&step->type) && !nulls[step->from])
			values[step->from] = fetch_toasted(values[step->from]);
	}
}

void
infer_binding_prepare(const InferBinding *binding, Datum *values, const bool *nulls)
{
	switch (binding->mode)
	{
		case BINDING_POSITIONAL:
			prepare_steps(&binding->steps, values, nulls);
			break;
		case BINDING_ROW:
			if (binding->columns != NULL)
			{
				prepare_steps(&binding->columns->steps, values, nulls);
				break;
			}
			if (nulls[0])
				break;
			values[0] = PointerGetDatum(DatumGetHeapTupleHeader(values[0]));
			binding_row_prepare(binding, values[0]);
			break;
		case BINDING_OBJECT:
			if (!nulls[0])
				values[0] = fetch_toasted(values[0]);
			break;
	}
}

void
infer_binding_write(const InferBinding *binding, InferCall *call, uint32 row,
					const Datum *values, const bool *nulls, const InferTextOptions *options)
{
	switch (binding->mode)
	{
		case BINDING_POSITIONAL:
			binding_run_steps(binding, call, row, &binding->steps, values, nulls);
			break;
		case BINDING_ROW:
			if (binding->columns != NULL)
				binding_run_steps(binding, call, row, &binding->columns->steps, values, nulls);
			else
				binding_row_write(binding, call, row, values[0]);
			break;
		case BINDING_OBJECT:
			binding_object_write(binding, call, row, values[0]);
			break;
	}
	binding_write_hidden(binding, call, row, options);
}

bool
infer_binding_write_plain(const InferBinding *binding, InferCall *call, uint32 row,
						  const Datum *values, const bool *nulls)
{
	const StepList *steps = binding->columns != NULL ? &binding->columns->steps : &binding->steps;

	if (steps->plain == NULL)
		return false;
	binding_open(binding, call, row);
	return binding_run_plain(binding, steps, values, nulls);
}

void
infer_binding_open(const InferBinding *binding, InferCall *call)
{
	binding_open(binding, call, 0);
}
