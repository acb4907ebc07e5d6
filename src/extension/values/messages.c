/*
 * messages.c
 *	  What features and inputs are called in errors, and the errors about how many there
 *	  are and which are missing.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "parts.h"

#define NAMES_SHOWN 20			/* of a list in a message */

/* What an element, or WHOLE_INPUT, is called. */
const char *
value_where(const InferBinding *binding, uint32 input, uint64 element)
{
	const InputShape *shape = &binding->inputs[input];

	if (shape->features && element < shape->names_count)
		return psprintf("feature \"%s\"", shape->names[element]);
	if (element == WHOLE_INPUT || shape->width == 1)
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

static const char *
count_hint(const InferBinding *binding, ValueHolder holder)
{
	if (holder == HOLDER_ROW)
		return "Declare the features' names with infer.create_model(..., options => '{\"features\": [\"...\"]}'), then columns are matched by name.";
	if (binding->inputs_count > 1)
		return psprintf("Give each feature once, in order, or one array for each of the %d inputs.",
						binding->inputs_count);
	return "Give each feature once, in order, or all of them in one array.";
}

static bool
reads_texts(const InferBinding *binding)
{
	return binding->inputs[0].tensor->role == INFER_ROLE_TEXT;
}

static void
texts_count_error(const InferBinding *binding, uint64 given)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("model \"%s\" takes " UINT64_FORMAT " text%s, but " UINT64_FORMAT " %s given", binding->model->name,
					binding->elements, binding->elements == 1 ? "" : "s", given, given == 1 ? "was" : "were"),
			 binding->elements == 1 ? errhint("Give the text as the only input.") :
			 errhint("Give the query and the document, in this order.")));
}

/* Both counts, in what holds the features. */
void
value_count_error(const InferBinding *binding, uint64 given, ValueHolder holder)
{
	const char *plural = given == 1 ? "" : "s";
	const char *but;

	if (holder != HOLDER_ROW && reads_texts(binding))
		texts_count_error(binding, given);

	if (holder == HOLDER_ROW)
		but = psprintf("but the row has " UINT64_FORMAT " column%s", given, plural);
	else if (holder == HOLDER_ARRAY)
		but = psprintf("but the array has " UINT64_FORMAT " element%s", given, plural);
	else
		but = psprintf("but " UINT64_FORMAT " %s given", given, given == 1 ? "was" : "were");

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("model \"%s\" takes " UINT64_FORMAT " feature%s, %s", binding->model->name,
					binding->elements, binding->elements == 1 ? "" : "s", but),
			 binding->named && binding->elements > 1 ? errdetail("They are %s.", all_names(binding)) : 0,
			 errhint("%s", count_hint(binding, holder))));
}

void
value_width_error(const InferBinding *binding, uint32 input, uint64 given)
{
	const InputShape *shape = &binding->inputs[input];

	if (binding->inputs_count == 1)
		value_count_error(binding, given, HOLDER_ARRAY);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("input \"%s\" of model \"%s\" takes " UINT64_FORMAT " values, but " UINT64_FORMAT " were given",
					shape->tensor->name, binding->model->name, shape->width, given),
			 errhint("Give the input's values in one array.")));
}

/* missing: names that a row or an object lacks */
void
value_names_missing(const InferBinding *binding, ValueHolder holder, List *missing)
{
	const char **names = palloc(sizeof(char *) * list_length(missing));
	int			count = 0;
	ListCell   *cell;

	foreach(cell, missing)
		names[count++] = lfirst(cell);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the %s lacks %s of model \"%s\": %s", holder == HOLDER_ROW ? "row" : "object",
					count == 1 ? "a feature" : psprintf("%d features", count),
					binding->model->name, value_names_list(count, names)),
			 errdetail("Features are matched by name, exactly and case-sensitively."),
			 holder == HOLDER_ROW ?
			 errhint("Name the columns like the features, for example with column aliases in a subquery.") :
			 errhint("Add the key; its value may be null where the model accepts missing values.")));
}
