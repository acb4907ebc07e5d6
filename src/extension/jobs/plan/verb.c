/*
 * verb.c
 *	  Which verb makes the results, from the type of the column that gets them; its options; the call.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "parts.h"

/* ---- columns that are written ---- */

static Form_pg_attribute
find_written(PlanWork *work, const char *name, const char *argument)
{
	AttrNumber	number = get_attnum(RelationGetRelid(work->target), name);
	Form_pg_attribute attribute;
	const char *table = RelationGetRelationName(work->target);

	if (number <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("table \"%s\" has no column \"%s\"", table, name),
				 errdetail("It was named by \"%s\".", argument),
				 errhint("Add it with ALTER TABLE, or name another one.")));
	attribute = TupleDescAttr(RelationGetDescr(work->target), number - 1);
	if (attribute->attgenerated != '\0' || attribute->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("column \"%s\" of table \"%s\" is generated", name, table),
				 errhint("Name an ordinary column.")));
	for (int i = 0; i < work->plan->keys_count; i++)
		if (work->plan->target_keys[i].number == number)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("column \"%s\" is the key, or part of it", name),
					 errhint("Name another column with \"%s\".", argument)));
	return attribute;
}

static void
set_written(JobColumn *column, Form_pg_attribute attribute)
{
	column->name = pstrdup(NameStr(attribute->attname));
	column->sql = pstrdup(quote_identifier(column->name));
	column->number = attribute->attnum;
	plan_column_type(column, attribute->atttypid, attribute->atttypmod, attribute->attcollation);
}

/* ---- the verb's function ---- */

static bool
is_verb_function(Oid function, const char *source)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		null;
	Datum		prosrc;
	bool		found;

	if (!HeapTupleIsValid(tuple))
		return false;
	prosrc = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &null);
	found = !null && strcmp(TextDatumGetCString(prosrc), source) == 0;
	ReleaseSysCache(tuple);
	return found;
}

/* Names and schemas of functions are the user's to change: it is known by the extension and its symbol. */
static Oid
verb_function(const char *source)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			found = InvalidOid;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(ExtensionRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_extension_oid("infer", false)));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, keys);
	while (!OidIsValid(found) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend member = (Form_pg_depend) GETSTRUCT(tuple);

		if (member->classid == ProcedureRelationId && member->deptype == DEPENDENCY_EXTENSION &&
			is_verb_function(member->objid, source))
			found = member->objid;
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	if (!OidIsValid(found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("extension infer has no function for symbol \"%s\"", source),
				 errhint("The extension is damaged: make it anew with DROP EXTENSION and CREATE EXTENSION.")));
	return found;
}

/* ---- which verb ---- */

static bool
is_number(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID || type == FLOAT4OID || type == FLOAT8OID ||
		type == NUMERICOID;
}

/* An array of numbers, or what these can be assigned to, as vectors.  Not of integers: they would be rounded. */
static bool
is_vector(Oid type)
{
	Oid			element = get_element_type(type);
	Oid			array = FLOAT4ARRAYOID;

	if (!OidIsValid(element))
		return can_coerce_type(1, &array, &type, COERCION_ASSIGNMENT);
	element = getBaseType(element);
	return element == FLOAT4OID || element == FLOAT8OID || element == NUMERICOID;
}

static bool
is_string(Oid type)
{
	char		category;
	bool		preferred;

	get_type_category_preferred(type, &category, &preferred);
	return category == TYPCATEGORY_STRING;
}

static const char *
number_verb(const PlanWork *work)
{
	const InferModel *model = work->model;

	if (work->request->class_ != NULL)
		return "probability";
	if (infer_model_texts(model) == 2)
		return "rerank";
	if (infer_result_is_classifier(model))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("model \"%s\" is a classifier, and column \"%s\" takes a number", model->name,
						work->plan->output.name),
				 errhint("Name the class whose probability it gets: class => '...'; or give a column of type text for the label.")));
	return "predict";
}

static const char *
verb_of_type(const PlanWork *work)
{
	const JobColumn *output = &work->plan->output;
	Oid			type = getBaseType(output->type);

	if (type == JSONBOID || type == JSONOID)
		return "infer";
	if (is_number(type))
		return number_verb(work);
	if (is_string(type))
		return "classify";
	if (is_vector(type))
		return infer_model_texts(work->model) > 0 && infer_result_width(work->model, INFER_VERB_EMBED) > 0 ?
			"embed" : "outputs";
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" of type %s does not tell which verb is meant", output->name,
					format_type_be(output->type)),
			 errdetail("Text takes a label, a number a prediction or probability, an array or vector an embedding or the outputs, jsonb what infer() gives."),
			 errhint("Name the verb, for example verb => 'infer', or another column.")));
}

static const InferVerbDef *
find_verb(const char *name)
{
	bool		plain = strcmp(name, "infer") == 0;
	const InferVerbDef *def = infer_verb_by_source(plain ? name : psprintf("infer_%s", name));

	if (def == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no verb \"%s\"", name),
				 errhint("Verbs of jobs are infer, predict, outputs, classify, probabilities, probability, embed, rerank, tokenize and token_count.")));
	if (def->quiet)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("verb \"%s\" is not one of jobs", name),
				 errdetail("A row that fails is kept with its error, and the others go on."),
				 errhint("Use verb => 'infer'.")));
	if (!def->hoist)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("verb \"%s\" gives several rows for one", name),
				 errdetail("A job writes one value for each row."),
				 def->verb == INFER_VERB_ENTITIES ?
				 errhint("Use verb => 'infer', which gives all entities as one jsonb.") :
				 errhint("Make the rows first, with INSERT ... SELECT.")));
	return def;
}

static void
tell_why_verb(void *arg)
{
	errcontext("%s", (const char *) arg);
}

/* Whether the model does that; an error about a verb that nobody named says where it comes from. */
static void
check_verb(const PlanWork *work)
{
	const JobColumn *output = &work->plan->output;
	ErrorContextCallback callback = {.previous = error_context_stack,.callback = tell_why_verb};

	if (work->request->verb == NULL)
	{
		callback.arg = psprintf("verb \"%s\" of a job, which is meant because column \"%s\" is of type %s",
								work->verb_name, output->name, format_type_be(output->type));
		error_context_stack = &callback;
	}
	(void) infer_result_wanted(work->model, work->plan->verb->verb);
	error_context_stack = callback.previous;
}

/* ---- class, options, width ---- */

static void
check_class(const PlanWork *work)
{
	const char *class_ = work->request->class_;
	bool		wanted = work->plan->verb->verb == INFER_VERB_PROBABILITY;

	if (wanted && class_ == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("verb \"probability\" needs a class"),
				 errhint("Name it: class => '...'.")));
	if (!wanted && class_ != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("verb \"%s\" takes no class", work->verb_name),
				 errhint("Leave it out, or use verb => 'probability'.")));
	if (wanted)
		(void) infer_result_class(work->model, class_, strlen(class_));
}

static void
read_options(const PlanWork *work, InferTextOptions *options)
{
	Jsonb	   *jsonb = work->request->options;

	memset(options, 0, sizeof(*options));
	if (work->plan->verb->options != 0)
		infer_text_options_read(work->model, jsonb, work->plan->verb->options, options);
	else if (!JB_ROOT_IS_OBJECT(jsonb) || JB_ROOT_COUNT(jsonb) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("verb \"%s\" takes no options", work->verb_name),
				 errhint("Leave them out.")));
}

/* How many numbers a column of pgvector's types must have; 0: that is not said, or it is no such column. */
static int
column_width(const JobColumn *column)
{
	Oid			extension = getExtensionOfObject(TypeRelationId, getBaseType(column->type));
	int32		typmod = column->typmod;

	if (!OidIsValid(extension) || strcmp(get_extension_name(extension), "vector") != 0)
		return 0;
	(void) getBaseTypeAndTypmod(column->type, &typmod);
	return Max(typmod, 0);
}

static void
check_width(const PlanWork *work, const InferTextOptions *options)
{
	const JobColumn *output = &work->plan->output;
	InferVerb	verb = work->plan->verb->verb;
	int			column;
	uint64		width;

	if (verb != INFER_VERB_EMBED && verb != INFER_VERB_OUTPUTS)
		return;
	column = column_width(output);
	width = infer_result_width(work->model, verb);
	if (options->numbers[INFER_TEXT_DIMENSIONS] > 0)
		width = options->numbers[INFER_TEXT_DIMENSIONS];
	if (column > 0 && width > 0 && column != width)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" takes %d numbers, but model \"%s\" gives " UINT64_FORMAT, output->name, column,
						work->model->name, width),
				 errhint("Change the column to %s(" UINT64_FORMAT "), or use another model.",
						 format_type_be(getBaseType(output->type)), width)));
}

static void
check_assignment(const PlanWork *work)
{
	const JobPlan *plan = work->plan;
	Oid			from = plan->result_type;
	Oid			to = plan->output.type;

	if (!can_coerce_type(1, &from, &to, COERCION_ASSIGNMENT))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, but verb \"%s\" gives type %s", plan->output.name,
						format_type_be(to), work->verb_name, format_type_be(from)),
				 errhint("Name another column or verb.")));
}

static void
set_version_column(PlanWork *work)
{
	JobPlan    *plan = work->plan;
	char	   *name;
	Form_pg_attribute attribute;
	Oid			type;

	if (work->request->version_column == NULL)
		return;
	name = plan_parse_name(work->request->version_column, "version_column");
	attribute = find_written(work, name, "version_column");
	type = getBaseType(attribute->atttypid);
	if (attribute->attnum == plan->output.number)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column \"%s\" is both output and version_column", name)));
	if (!is_string(type) && type != INT2OID && type != INT4OID && type != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of type %s cannot keep a model's version", name, format_type_be(attribute->atttypid)),
				 errhint("Make it text, for \"%s\", or integer, for %d.", plan->model_pinned, work->model->version)));
	plan->version_column = palloc0(sizeof(JobColumn));
	set_written(plan->version_column, attribute);
}

void
plan_output(PlanWork *work)
{
	const JobRequest *request = work->request;
	JobPlan    *plan = work->plan;
	InferTextOptions options;

	if (request->output == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("nothing says where the results go"),
				 errhint("Name the column: output => '...'.")));
	set_written(&plan->output, find_written(work, plan_parse_name(request->output, "output"), "output"));
	set_version_column(work);
	work->verb_name = request->verb != NULL ? request->verb : verb_of_type(work);
	plan->verb = find_verb(work->verb_name);
	check_verb(work);
	plan->result_type = get_func_rettype(verb_function(plan->verb->source));
	check_assignment(work);
	check_class(work);
	read_options(work, &options);
	check_width(work, &options);
}

/* ---- the call ---- */

static Const *
text_constant(const char *text)
{
	return makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1, CStringGetTextDatum(text), false, false);
}

static Param *
parameter(int number, Oid type, int32 typmod, Oid collation)
{
	Param	   *param = makeNode(Param);

	param->paramkind = PARAM_EXTERN;
	param->paramid = number;
	param->paramtype = type;
	param->paramtypmod = typmod;
	param->paramcollid = collation;
	param->location = -1;
	return param;
}

void
plan_call(PlanWork *work)
{
	JobPlan    *plan = work->plan;
	List	   *arguments = list_make1(text_constant(plan->model_pinned));

	if (plan->verb->verb == INFER_VERB_PROBABILITY)
		arguments = lappend(arguments, text_constant(work->request->class_));
	if (plan->as_row)
		arguments = lappend(arguments, parameter(1, RECORDOID, plan->row_desc->tdtypmod, InvalidOid));
	for (int i = 0; i < plan->inputs_count && !plan->as_row; i++)
		arguments = lappend(arguments, parameter(i + 1, plan->inputs[i].type, plan->inputs[i].typmod,
												 plan->inputs[i].collation));
	if (plan->verb->options != 0)
		arguments = lappend(arguments, makeConst(JSONBOID, -1, InvalidOid, -1,
												 JsonbPGetDatum(work->request->options), false, false));
	plan->call = makeFuncExpr(verb_function(plan->verb->source), plan->result_type, arguments, InvalidOid,
							  InvalidOid, COERCE_EXPLICIT_CALL);
	plan->arguments_count = list_length(arguments);
}
