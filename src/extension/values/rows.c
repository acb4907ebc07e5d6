/*
 * rows.c
 *	  Composite values: columns to inputs, by name where names are known.
 *
 * The columns of a record are known only from the value, and those of a table change with
 * ALTER TABLE, so the plan belongs to a row type in one definition and is made anew when a
 * value of another one comes.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "parts.h"

static int
find_column(const RowPlan *plan, const char *name)
{
	int			found = -1;

	for (int i = 0; i < plan->desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(plan->desc, i);

		if (attribute->attisdropped || strcmp(NameStr(attribute->attname), name) != 0)
			continue;
		if (found >= 0)
			ereport(ERROR,
					(errcode(ERRCODE_AMBIGUOUS_COLUMN),
					 errmsg("the row has more than one column \"%s\"", name),
					 errhint("Give all but one of them another name, with a column alias.")));
		found = i;
	}
	return found;
}

static void
plan_column(const InferBinding *binding, RowPlan *plan, StepKind kind, int column, uint32 input,
			uint64 element)
{
	BindingStep *step = &plan->steps.steps[plan->steps.count++];

	step->kind = kind;
	step->from = column;
	step->input = input;
	step->element = element;
	step->type = value_type(TupleDescAttr(plan->desc, column)->atttypid);
	value_check_accepts(binding, input, kind == STEP_INPUT ? WHOLE_INPUT : element, &step->type);
}

/* A column named like the input holds all of it.  false if there is none. */
static bool
plan_whole_input(const InferBinding *binding, RowPlan *plan, uint32 input)
{
	const InputShape *shape = &binding->inputs[input];
	int			column = find_column(plan, shape->tensor->name);
	ValueType	type;

	if (column < 0)
		return false;
	type = value_type(TupleDescAttr(plan->desc, column)->atttypid);
	if (type.array || type.source == SOURCE_JSONB)
		plan_column(binding, plan, STEP_INPUT, column, input, 0);
	else if (shape->width == 1)
		plan_column(binding, plan, STEP_ELEMENT, column, input, 0);
	else
		value_width_error(binding, input, 1);
	return true;
}

/* One column for each of the input's features.  Returns the names that the row lacks. */
static List *
plan_features(const InferBinding *binding, RowPlan *plan, uint32 input)
{
	const InputShape *shape = &binding->inputs[input];
	int			first = plan->steps.count;
	List	   *missing = NIL;

	for (uint32 i = 0; i < shape->names_count; i++)
	{
		int			column = find_column(plan, shape->names[i]);

		if (column < 0)
			missing = lappend(missing, unconstify(char *, shape->names[i]));
		else if (missing == NIL)
			plan_column(binding, plan, STEP_ELEMENT, column, input, i);
	}
	if (missing != NIL)
		plan->steps.count = first;
	return missing;
}

static void
plan_by_name(const InferBinding *binding, RowPlan *plan)
{
	List	   *missing = NIL;

	for (int i = 0; i < binding->inputs_count; i++)
	{
		const InputShape *shape = &binding->inputs[i];
		List	   *lacking;

		if (!shape->features)
			lacking = list_make1(shape->tensor->name);
		else if ((lacking = plan_features(binding, plan, i)) == NIL)
			continue;
		if (!plan_whole_input(binding, plan, i))
			missing = list_concat(missing, lacking);
	}
	if (missing != NIL)
		value_names_missing(binding, HOLDER_ROW, missing);
}

static void
plan_by_position(const InferBinding *binding, RowPlan *plan)
{
	int			natts = plan->desc->natts;
	ValueType  *types = palloc(sizeof(ValueType) * Max(natts, 1));
	int		   *from = palloc(sizeof(int) * Max(natts, 1));
	int			count = 0;

	for (int i = 0; i < natts; i++)
	{
		if (TupleDescAttr(plan->desc, i)->attisdropped)
			continue;
		types[count] = value_type(TupleDescAttr(plan->desc, i)->atttypid);
		from[count++] = i;
	}
	if (!(count == 1 && types[0].array) && binding->elements != count)
		value_count_error(binding, count, HOLDER_ROW);
	binding_plan_positional(binding, count, types, from, &plan->steps);
}

static RowPlan *
plan_row(const InferBinding *binding, Oid type, int32 typmod, uint64 identifier)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "infer row plan",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RowPlan    *plan = palloc0(sizeof(RowPlan));
	TupleDesc	desc = lookup_rowtype_tupdesc(type, typmod);

	plan->context = context;
	plan->type = type;
	plan->typmod = typmod;
	plan->identifier = identifier;
	plan->desc = CreateTupleDescCopyConstr(desc);
	ReleaseTupleDesc(desc);
	plan->values = palloc(sizeof(Datum) * Max(plan->desc->natts, 1));
	plan->nulls = palloc(sizeof(bool) * Max(plan->desc->natts, 1));

	if (binding->inputs_count == 1 && binding->inputs[0].names_count == 0 &&
		find_column(plan, binding->inputs[0].tensor->name) < 0)
		plan_by_position(binding, plan);
	else
	{
		Size		steps = binding->inputs_count;

		for (int i = 0; i < binding->inputs_count; i++)
			steps += binding->inputs[i].names_count;
		plan->steps.steps = palloc0(sizeof(BindingStep) * steps);
		plan_by_name(binding, plan);
		binding_plan_plain(binding, &plan->steps);
	}
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, binding->context);
	return plan;
}

const RowPlan *
binding_row_plan(const InferBinding *binding, Oid type)
{
	return plan_row(binding, type, -1, 0);
}

static RowPlan *
current_plan(const InferBinding *binding, HeapTupleHeader header)
{
	Oid			type = HeapTupleHeaderGetTypeId(header);
	int32		typmod = HeapTupleHeaderGetTypMod(header);
	uint64		identifier = assign_record_type_identifier(type, typmod);
	RowPlan    *plan = *binding->row;

	if (plan != NULL && plan->type == type && plan->typmod == typmod && plan->identifier == identifier)
		return plan;
	if (plan != NULL)
	{
		*binding->row = NULL;
		MemoryContextDelete(plan->context);
	}
	*binding->row = plan_row(binding, type, typmod, identifier);
	return *binding->row;
}

void
binding_row_prepare(const InferBinding *binding, Datum value)
{
	(void) current_plan(binding, DatumGetHeapTupleHeader(value));
}

void
binding_row_write(const InferBinding *binding, InferCall *call, uint32 row, Datum value)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(value);
	RowPlan    *plan = current_plan(binding, header);
	HeapTupleData tuple;

	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	heap_deform_tuple(&tuple, plan->desc, plan->values, plan->nulls);
	binding_run_steps(binding, call, row, &plan->steps, plan->values, plan->nulls);
}
