/*
 * inputs.c
 *	  Which columns of the source the model gets, and how.
 *
 * As they are written, one by one, as behind the model's name in a verb.  Where nothing is written, or a *, the columns
 * that are called as the model's features, wherever these have names; of a model that reads texts the one column with a text; of
 * a query for a model of one feature its one column.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "parts.h"

/* ---- what is there ---- */

static bool
is_text(Oid type)
{
	char		category;
	bool		preferred;

	get_type_category_preferred(getBaseType(type), &category, &preferred);
	return category == TYPCATEGORY_STRING;
}

/* Keys and what the job writes are no inputs unless they are named. */
static bool
is_apart(const PlanWork *work, const char *name)
{
	const JobPlan *plan = work->plan;
	ListCell   *cell;

	foreach(cell, work->keys)
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	if (plan->target != JOB_TARGET_UPDATE)
		return false;
	return strcmp(plan->output.name, name) == 0 ||
		(plan->version_column != NULL && strcmp(plan->version_column->name, name) == 0);
}

static List *
names_apart(const PlanWork *work, bool texts_only)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, work->columns)
	{
		TargetEntry *column = lfirst(cell);

		if (!is_apart(work, column->resname) && (!texts_only || is_text(exprType((Node *) column->expr))))
			names = lappend(names, column->resname);
	}
	return names;
}

static List *
targets_of(const List *names)
{
	List	   *targets = NIL;
	ListCell   *cell;

	foreach(cell, names)
		targets = lappend(targets, plan_column_target(lfirst(cell)));
	return targets;
}

/* ---- where nothing was written ---- */

static List *
only_text(PlanWork *work)
{
	List	   *names = names_apart(work, true);
	int			count = infer_model_texts(work->model);

	if (count == 1 && list_length(names) == 1)
		return targets_of(names);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 count > 1 ? errmsg("model \"%s\" reads %d texts, and nothing says which", work->model->name, count) :
			 errmsg("nothing says which text model \"%s\" reads", work->model->name),
			 names == NIL ? errdetail("There is no column with a text in %s, beside its key and what the job writes.", work->what) :
			 errdetail("Columns of %s with texts are %s.", work->what, plan_names_list(names, false)),
			 count > 1 ? errhint("Name the query and the document: input => 'query, document'.") :
			 errhint("Name the column: input => '...'.")));
}

/* Columns called as inputs, for models whose inputs are wider than a column. */
static List *
named_inputs(const PlanWork *work, const List *names)
{
	const struct infer_signature *signature = &work->model->signature;
	List	   *found = NIL;

	for (uint32 i = 0; i < signature->inputs_count; i++)
		if (!(signature->inputs[i].flags & INFER_TENSOR_HIDDEN) && plan_has_name(names, signature->inputs[i].name))
			found = lappend(found, pstrdup(signature->inputs[i].name));
	return found;
}

static List *
all_names(const PlanWork *work)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, work->columns)
		names = lappend(names, ((TargetEntry *) lfirst(cell))->resname);
	return names;
}

static void
names_missing(const PlanWork *work, const List *missing)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("%s lacks %s of model \"%s\": %s", work->what,
					list_length(missing) == 1 ? "a feature" : psprintf("%d features", list_length(missing)),
					work->model->name, plan_names_list(missing, false)),
			 errdetail("Features are matched by name, exactly and case-sensitively."),
			 errhint("Name what the model gets: input => '...', in the order of its features.")));
}

/* Scalars, one for each name; whatever else there is comes as a row. */
static bool
are_scalars(const PlanWork *work, const List *names)
{
	ListCell   *name;
	ListCell   *cell;

	foreach(name, names)
		foreach(cell, work->columns)
		{
			TargetEntry *column = lfirst(cell);
			Oid			type = getBaseType(exprType((Node *) column->expr));

			if (strcmp(column->resname, lfirst(name)) == 0 &&
				(OidIsValid(get_element_type(type)) || type == JSONBOID || type_is_rowtype(type)))
				return false;
		}
	return true;
}

static List *
by_name(PlanWork *work, const char **names, int count)
{
	List	   *columns = all_names(work);
	List	   *wanted = NIL;
	List	   *missing = NIL;
	List	   *whole = named_inputs(work, columns);

	for (int i = 0; names != NULL && i < count; i++)
	{
		if (plan_has_name(columns, names[i]))
			wanted = lappend(wanted, pstrdup(names[i]));
		else
			missing = lappend(missing, pstrdup(names[i]));
	}
	if (missing != NIL && whole == NIL)
		names_missing(work, missing);
	if (names != NULL && missing == NIL && are_scalars(work, wanted))
		return targets_of(wanted);
	work->plan->as_row = true;
	for (int i = 0; i < list_length(whole); i++)
		if (!plan_has_name(wanted, list_nth(whole, i)))
			wanted = lappend(wanted, list_nth(whole, i));
	return targets_of(wanted);
}

static List *
choose_inputs(PlanWork *work)
{
	const char **names;
	int			count;

	if (infer_model_texts(work->model) > 0)
		return only_text(work);
	names = infer_model_names(work->model, &count);
	if (work->table == NULL && count == 1 && list_length(names_apart(work, false)) == 1)
		return targets_of(names_apart(work, false));
	if (names != NULL || named_inputs(work, all_names(work)) != NIL)
		return by_name(work, names, count);
	if (work->table != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("nothing says what model \"%s\" gets", work->model->name),
				 errdetail("Its features have no names by which columns could be found."),
				 errhint("Name the columns in the order of its features: input => '...'.")));
	return targets_of(names_apart(work, false));
}

/* ---- what was written ---- */

static bool
is_star(const ResTarget *target)
{
	const ColumnRef *column = (const ColumnRef *) target->val;

	return IsA(column, ColumnRef) && IsA(llast(column->fields), A_Star);
}

static List *
written_inputs(PlanWork *work)
{
	List	   *targets = plan_parse_list(work->request->input, "input");
	ListCell   *cell;

	if (list_length(targets) == 1 && is_star(linitial(targets)))
		return choose_inputs(work);
	foreach(cell, targets)
		if (is_star(lfirst(cell)))
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("\"input\" has a * among others"),
					 errhint("Name the columns one by one, or write * alone: then the model's features are found by name.")));
	return targets;
}

/* By themselves, as with the key an aggregate would be another error. */
static void
check_inputs(const PlanWork *work, const List *inputs)
{
	SelectStmt *select = copyObject(work->from);
	const Query *read;
	const RangeTblEntry *entry;

	select->targetList = unconstify(List *, inputs);
	read = plan_analyse(select, work->request->input == NULL ? "" : work->request->input, "input");
	entry = linitial(read->rtable);
	if (work->table != NULL && entry->relid != RelationGetRelid(work->table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%s was renamed meanwhile", work->what),
				 errhint("Submit the job again.")));
	if (read->hasAggs || read->hasWindowFuncs || read->hasTargetSRFs)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"input\" has %s", read->hasAggs ? "an aggregate function" :
						read->hasWindowFuncs ? "a window function" : "a function that returns a set"),
				 errdetail("A row's input depends on that row alone."),
				 errhint("Compute it in a query: source => 'SELECT ...' with key and target.")));
}

/* Verbs about texts are functions of texts: what SQL would cast for them is cast here. */
static void
coerce_text(PlanWork *work, TargetEntry *target)
{
	Oid			type = exprType((Node *) target->expr);
	Oid			text = TEXTOID;

	if (type == TEXTOID)
		return;
	if (!can_coerce_type(1, &type, &text, COERCION_IMPLICIT))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("verb \"%s\" takes texts, not type %s", work->verb_name, format_type_be(type)),
				 errhint("Cast it: input => '%s::text'.", target->resname)));
	target->expr = (Expr *) coerce_to_target_type(NULL, (Node *) target->expr, type, TEXTOID, -1, COERCION_IMPLICIT,
												  COERCE_EXPLICIT_CAST, -1);
}

static void
check_types(const PlanWork *work, const List *inputs)
{
	ListCell   *cell;

	foreach(cell, inputs)
	{
		const TargetEntry *target = lfirst(cell);

		if (exprType((Node *) target->expr) == RECORDOID)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("\"input\" has a row without a type"),
					 errhint("Name its columns one by one.")));
	}
}

static void
coerce_texts(PlanWork *work, List *inputs)
{
	int			count = work->plan->verb->inputs_count;
	ListCell   *cell;

	if (count == 0)
		return;
	if (list_length(inputs) != count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("verb \"%s\" takes %d text%s, but %d %s given", work->verb_name, count, count == 1 ? "" : "s",
						list_length(inputs), list_length(inputs) == 1 ? "was" : "were"),
				 count == 1 ? errhint("Give the text as the only input.") :
				 errhint("Give the query and the document: input => 'query, document'.")));
	foreach(cell, inputs)
		coerce_text(work, lfirst(cell));
}

/* ---- do they reach the model? ---- */

static TupleDesc
row_of(const List *inputs)
{
	TupleDesc	desc = CreateTemplateTupleDesc(list_length(inputs));
	ListCell   *cell;

	foreach(cell, inputs)
	{
		const TargetEntry *target = lfirst(cell);
		Node	   *expr = (Node *) target->expr;

		TupleDescInitEntry(desc, foreach_current_index(cell) + 1, target->resname, exprType(expr), exprTypmod(expr), 0);
		TupleDescInitEntryCollation(desc, foreach_current_index(cell) + 1, exprCollation(expr));
	}
	return BlessTupleDesc(desc);
}

/* A row of NULLs shows whether its columns are those that the model wants. */
static void
check_row(const InferBinding *binding, TupleDesc desc)
{
	Datum	   *values = palloc0(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);
	Datum		row;
	bool		null = false;

	memset(nulls, true, desc->natts);
	row = HeapTupleHeaderGetDatum(heap_form_tuple(desc, values, nulls)->t_data);
	infer_binding_prepare(binding, &row, &null);
}

static void
check_binding(PlanWork *work, const List *inputs)
{
	const InferModel *model = work->model;
	int			count = list_length(inputs);
	Oid		   *types = palloc(sizeof(Oid) * Max(count, 1));
	ListCell   *cell;

	if (work->plan->as_row)
	{
		types[0] = RECORDOID;
		check_row(infer_binding_make(model, 1, types, CurrentMemoryContext), work->plan->row_desc);
		return;
	}
	foreach(cell, inputs)
		types[foreach_current_index(cell)] = exprType((Node *) ((TargetEntry *) lfirst(cell))->expr);
	if (count == 1 && type_is_rowtype(types[0]))
		(void) infer_binding_make_columns(model, getBaseType(types[0]), CurrentMemoryContext);
	else
		(void) infer_binding_make(model, count, types, CurrentMemoryContext);
}

void
plan_inputs(PlanWork *work)
{
	const char *text = work->request->input;
	SelectStmt *select = copyObject(work->from);
	List	   *inputs = text == NULL ? choose_inputs(work) : written_inputs(work);

	check_inputs(work, inputs);
	select->targetList = list_concat(targets_of(work->keys), inputs);
	work->read = plan_analyse(select, text == NULL ? "" : text, "input");
	inputs = list_copy_tail(work->read->targetList, work->plan->keys_count);
	check_types(work, inputs);
	coerce_texts(work, inputs);
	if (work->plan->as_row)
		work->plan->row_desc = row_of(inputs);
	check_binding(work, inputs);
}
