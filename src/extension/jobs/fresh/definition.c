/*
 * definition.c
 *	  What is kept: from the arguments to two triggers, and back.
 *
 * The keeping trigger, infer_fresh_N, is
 *
 *	AFTER INSERT OR UPDATE FOR EACH ROW WHEN (infer.fresh_note(N, new.version) AND
 *		infer.fresh_of(ROW(new.input, ...), new.output, new.version, ROW(new.key, ...), condition))
 *
 * fresh_note marks the column, where the row is stale, and is never true: so nothing is queued, and fresh_of,
 * which is there to be read, never called.  The clearing trigger, zz_infer_fresh_N, is
 *
 *	BEFORE UPDATE FOR EACH ROW WHEN (new.version IS NOT NULL AND (infer.fresh_differs(old.a, new.a) OR ...))
 *
 * of the columns that the inputs are made of, and sets the version column to NULL.  It has no list of columns,
 * and a name that comes late: another trigger before it may be what changes an input.  Being row triggers, both
 * are on each partition too.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteManip.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "../plan/parts.h"
#include "fresh.h"

#define ANONYMOUS "?column?"			/* what SQL calls an expression that nobody named */

char *
fresh_trigger_name(int64 number)
{
	return psprintf("infer_fresh_" INT64_FORMAT, number);
}

char *
fresh_clear_name(int64 number)
{
	return psprintf("zz_infer_fresh_" INT64_FORMAT, number);
}

/* ---- arguments → expressions over the table, whose varno is 1 ---- */

static void
not_watched(const char *what, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s cannot be kept fresh", what),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

/* As the plan's statements call the table. */
static ParseState *
begin_parse(Relation table, const char *text)
{
	ParseState *state = make_parsestate(NULL);
	ParseNamespaceItem *item;

	state->p_sourcetext = text;
	item = addRangeTableEntryForRelation(state, table, AccessShareLock, makeAlias(PLAN_SOURCE, NIL), false, true);
	addNSItemToQuery(state, item, true, true, true);
	return state;
}

static Node *
analyse(Relation table, const char *text, Node *parsed, bool boolean, const char *argument)
{
	ParseState *state = begin_parse(table, text);
	Node	   *node = transformExpr(state, copyObject(parsed), boolean ? EXPR_KIND_WHERE : EXPR_KIND_SELECT_TARGET);

	if (boolean)
		node = coerce_to_boolean(state, node, "WHERE");
	else if (exprType(node) == UNKNOWNOID)
		node = coerce_type(state, node, UNKNOWNOID, TEXTOID, -1, COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1);
	assign_expr_collations(state, node);
	if (state->p_hasSubLinks || state->p_hasAggs || state->p_hasWindowFuncs || state->p_hasTargetSRFs)
		not_watched(argument, "Only expressions over the columns of a row can be watched.",
					"Keep the value in a column of the table, and give that column.");
	if (contain_volatile_functions(node))
		not_watched(argument, "A volatile function may give another value for the same row.",
					"Keep the value in a column of the table, and give that column.");
	free_parsestate(state);
	return node;
}

/* What the plan makes of the input, so that a * is resolved. */
static List *
analyse_inputs(Relation table, const JobPlan *plan)
{
	List	   *inputs = NIL;

	for (int i = 0; i < plan->inputs_count; i++)
	{
		const char *sql = plan->inputs[i].sql;
		List	   *targets = plan_parse_list(sql, "input");

		inputs = lappend(inputs, analyse(table, sql, linitial_node(ResTarget, targets)->val, false, "input"));
	}
	return inputs;
}

/* ---- which columns are watched ---- */

/* Adds the columns of an expression; of a generated one those that it is made of. */
static void
add_columns(Relation table, Node *expression, Bitmapset **columns)
{
	Bitmapset  *found = NULL;
	int			member = -1;

	pull_varattnos(expression, 1, &found);
	while ((member = bms_next_member(found, member)) >= 0)
	{
		AttrNumber	attribute = member + FirstLowInvalidHeapAttributeNumber;

		if (attribute == InvalidAttrNumber)
			not_watched("input", "A whole row also has the columns that are written.",
						"Name the columns that the model reads.");
		if (attribute < 0)
			not_watched("input", "It reads a system column.", "Name columns of the table.");
		if (TupleDescAttr(RelationGetDescr(table), attribute - 1)->attgenerated != '\0')
			add_columns(table, build_column_default(table, attribute), columns);
		else
			*columns = bms_add_member(*columns, attribute);
	}
}

static void
check_columns(Relation table, const JobPlan *plan, const Bitmapset *columns)
{
	const char *output = plan->output.name;
	const char *version = plan->version_column->name;

	if (plan->output.number == plan->version_column->number)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column \"%s\" cannot be both output and version_column", output)));
	if (bms_is_member(plan->output.number, columns) || bms_is_member(plan->version_column->number, columns))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("column \"%s\" is written, and cannot be an input as well",
						bms_is_member(plan->output.number, columns) ? output : version),
				 errhint("Name the columns that the model reads.")));
	if (columns == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the input has no column of \"%s\"", RelationGetRelationName(table))));
	if (TupleDescAttr(RelationGetDescr(table), plan->version_column->number - 1)->attnotnull)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("version_column \"%s\" must allow NULL", version),
				 errdetail("A row whose input has changed is marked by NULL there."),
				 errhint("Use ALTER TABLE ... ALTER COLUMN %s DROP NOT NULL.", quote_identifier(version))));
}

/* ---- expressions → triggers ---- */

/* Expressions are written so that they mean the same in any session, as pg_dump does; until AtEOXact_GUC. */
static int
begin_writing(void)
{
	static const char *const settings[][2] = {
		{"search_path", ""}, {"datestyle", "ISO"}, {"intervalstyle", "postgres"}, {"extra_float_digits", "1"}
	};
	int			nest = NewGUCNestLevel();

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
								 false);
	return nest;
}

static void
add_column(StringInfo text, const char *row, Relation table, AttrNumber attribute)
{
	appendStringInfo(text, "%s.%s", row,
					 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(table), attribute - 1)->attname)));
}

static void
make_trigger(Relation table, const char *text)
{
	CreateTrigStmt *stmt = castNode(CreateTrigStmt,
									linitial_node(RawStmt, raw_parser(text, RAW_PARSE_DEFAULT))->stmt);

	CreateTrigger(stmt, text, RelationGetRelid(table), InvalidOid, InvalidOid, InvalidOid, InvalidOid, InvalidOid, NULL,
				  false, false);
	CommandCounterIncrement();
}

static const char *
table_name(Relation table)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table)), RelationGetRelationName(table));
}

static void
make_keeping(int64 number, Relation table, const JobRequest *request, const JobPlan *plan, List *inputs,
			 Node *condition)
{
	List	   *context = deparse_context_for("new", RelationGetRelid(table));
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	appendStringInfo(&text, "CREATE TRIGGER %s AFTER INSERT OR UPDATE ON %s FOR EACH ROW WHEN (%s.fresh_note('"
					 INT64_FORMAT "'::pg_catalog.int8, ", fresh_trigger_name(number), table_name(table), INFER_SCHEMA,
					 number);
	add_column(&text, "new", table, plan->version_column->number);
	appendStringInfo(&text, ") AND %s.fresh_of(ROW(", INFER_SCHEMA);
	foreach(lc, inputs)
		appendStringInfo(&text, "%s%s", foreach_current_index(lc) > 0 ? ", " : "",
						 deparse_expression(lfirst(lc), context, true, false));
	appendStringInfoString(&text, "), ");
	add_column(&text, "new", table, plan->output.number);
	appendStringInfoString(&text, ", ");
	add_column(&text, "new", table, plan->version_column->number);
	appendStringInfoString(&text, ", ROW(");
	for (int i = 0; request->key != NULL && i < plan->keys_count; i++)
	{
		appendStringInfoString(&text, i > 0 ? ", " : "");
		add_column(&text, "new", table, plan->keys[i].number);
	}
	appendStringInfo(&text, "), %s)) EXECUTE FUNCTION %s.fresh_kept('" INT64_FORMAT "')",
					 condition == NULL ? "NULL::pg_catalog.bool" : deparse_expression(condition, context, true, false),
					 INFER_SCHEMA, number);
	make_trigger(table, text.data);
}

static void
make_clearing(int64 number, Relation table, const JobPlan *plan, const Bitmapset *columns)
{
	StringInfoData text;
	int			attribute = -1;
	const char *separator = "";

	initStringInfo(&text);
	appendStringInfo(&text, "CREATE TRIGGER %s BEFORE UPDATE ON %s FOR EACH ROW WHEN (", fresh_clear_name(number),
					 table_name(table));
	add_column(&text, "new", table, plan->version_column->number);
	appendStringInfoString(&text, " IS NOT NULL AND (");
	while ((attribute = bms_next_member(columns, attribute)) >= 0)
	{
		appendStringInfo(&text, "%s%s.fresh_differs(", separator, INFER_SCHEMA);
		add_column(&text, "old", table, attribute);
		appendStringInfoString(&text, ", ");
		add_column(&text, "new", table, attribute);
		appendStringInfoChar(&text, ')');
		separator = " OR ";
	}
	appendStringInfo(&text, ")) EXECUTE FUNCTION %s.fresh_clear()", INFER_SCHEMA);
	make_trigger(table, text.data);
}

/* Nothing, or a * alone: the model's features are found by name, by each job again. */
static bool
is_star(const char *input)
{
	return input == NULL || strspn(input, " \t\n\r*") == strlen(input);
}

void
fresh_define(Fresh *fresh, Relation table, const JobRequest *request, const JobPlan *plan, Oid server)
{
	List	   *inputs;
	Node	   *condition = NULL;
	Bitmapset  *columns = NULL;
	FreshDefinition definition = {0};
	int			nest;

	inputs = analyse_inputs(table, plan);
	if (request->condition != NULL)
		condition = analyse(table, request->condition, plan_parse_condition(request->condition, "condition"), true,
							"condition");
	add_columns(table, (Node *) inputs, &columns);
	check_columns(table, plan, columns);

	for (int i = 0; !is_star(request->input) && i < plan->inputs_count; i++)
		fresh->input_names = lappend(fresh->input_names, pstrdup(plan->inputs[i].name));
	fresh->table = RelationGetRelid(table);
	nest = begin_writing();
	make_keeping(fresh->number, table, request, plan, inputs, condition);
	make_clearing(fresh->number, table, plan, columns);
	AtEOXact_GUC(true, nest);
	definition.table = fresh->table;
	definition.trigger = get_trigger_oid(fresh->table, fresh_trigger_name(fresh->number), false);
	fresh_depend(fresh, &definition, server);
}

/* ---- dependencies ---- */

static void
depend_once(const ObjectAddress *depender, const ObjectAddress *referenced, DependencyType type)
{
	Relation	table = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(depender->classId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(depender->objectId));
	scan = systable_beginscan(table, DependDependerIndexId, true, NULL, 2, keys);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		found = form->refclassid == referenced->classId && form->refobjid == referenced->objectId;
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	if (!found)
		recordDependencyOn(depender, referenced, type);
}

/*
 * The clearing trigger goes with the keeping one and not without it; the model does not go while its column is kept.
 */
void
fresh_depend(const Fresh *fresh, const FreshDefinition *definition, Oid server)
{
	Oid			clearing = get_trigger_oid(definition->table, fresh_clear_name(fresh->number), true);
	ObjectAddress keeping;
	ObjectAddress other;

	ObjectAddressSet(keeping, TriggerRelationId, definition->trigger);
	if (OidIsValid(clearing))
	{
		ObjectAddressSet(other, TriggerRelationId, clearing);
		depend_once(&other, &keeping, DEPENDENCY_INTERNAL);
	}
	ObjectAddressSet(other, ForeignServerRelationId, server);
	depend_once(&keeping, &other, DEPENDENCY_NORMAL);
	CommandCounterIncrement();
}

static void
drop_trigger(Oid trigger)
{
	ObjectAddress address;

	ObjectAddressSet(address, TriggerRelationId, trigger);
	performDeletion(&address, DROP_RESTRICT, 0);
	CommandCounterIncrement();
}

/* In a database that was just restored, one may not depend on the other yet. */
void
fresh_undefine(int64 number, const FreshDefinition *definition)
{
	Oid			clearing;

	drop_trigger(definition->trigger);
	clearing = get_trigger_oid(definition->table, fresh_clear_name(number), true);
	if (OidIsValid(clearing))
		drop_trigger(clearing);
}

/* ---- triggers → definitions ---- */

static Oid
keeping_function(void)
{
	Oid			none;
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("fresh_kept"),
										   PointerGetDatum(buildoidvector(&none, 0)),
										   ObjectIdGetDatum(get_namespace_oid(INFER_SCHEMA, false)));

	if (!OidIsValid(function))
		elog(ERROR, "function infer.fresh_kept() does not exist");
	return function;
}

static FuncExpr *
call_of(Node *node, const char *function, int arguments)
{
	FuncExpr   *call = (FuncExpr *) node;
	char	   *name;

	if (node == NULL || !IsA(node, FuncExpr) || list_length(call->args) != arguments)
		return NULL;
	name = get_func_name(call->funcid);
	return name != NULL && strcmp(name, function) == 0 ? call : NULL;
}

static AttrNumber
column_of(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node != NULL && IsA(node, Var) && ((Var *) node)->varattno > 0 ? ((Var *) node)->varattno : 0;
}

/* The call of fresh_of in a trigger's WHEN; NULL: it is not as fresh_define wrote it. */
static FuncExpr *
call_in(Node *qual)
{
	BoolExpr   *and = (BoolExpr *) qual;

	if (qual == NULL || !is_andclause(qual) || list_length(and->args) != 2 ||
		call_of(linitial(and->args), "fresh_note", 2) == NULL)
		return NULL;
	return call_of(lsecond(and->args), "fresh_of", 5);
}

static char *
first_argument(HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, Anum_pg_trigger_tgargs, desc, &isnull);
	bytea	   *bytes;

	if (isnull || ((Form_pg_trigger) GETSTRUCT(tuple))->tgnargs != 1)
		return NULL;
	bytes = DatumGetByteaPP(value);		/* texts that end with a zero byte */
	return pnstrdup(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
}

static FreshTrigger *
trigger_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);
	FreshTrigger *trigger = palloc0(sizeof(FreshTrigger));
	char	   *argument = first_argument(tuple, desc);
	bool		isnull;
	Datum		qual = heap_getattr(tuple, Anum_pg_trigger_tgqual, desc, &isnull);

	trigger->number = argument != NULL ? strtoll(argument, NULL, 10) : 0;
	trigger->definition.trigger = form->oid;
	trigger->definition.table = form->tgrelid;
	trigger->definition.enabled = form->tgenabled;
	if (!isnull)
	{
		FuncExpr   *call;

		trigger->qual = stringToNode(TextDatumGetCString(qual));
		call = call_in(trigger->qual);
		if (call != NULL)
		{
			trigger->definition.output = column_of(lsecond(call->args));
			trigger->definition.version = column_of(lthird(call->args));
		}
	}
	return trigger;
}

static void
add_trigger(Relation table, Oid oid, Oid function, List **triggers)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	scan = systable_beginscan(table, TriggerOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);

		if (form->tgfoid == function && !OidIsValid(form->tgparentid))
			*triggers = lappend(*triggers, trigger_from_tuple(tuple, RelationGetDescr(table)));
	}
	systable_endscan(scan);
}

List *
fresh_triggers(void)
{
	Oid			function = keeping_function();
	Relation	dependencies = table_open(DependRelationId, AccessShareLock);
	Relation	table = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *triggers = NIL;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(ProcedureRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(function));
	scan = systable_beginscan(dependencies, DependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == TriggerRelationId)
			add_trigger(table, form->objid, function, &triggers);
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	table_close(dependencies, AccessShareLock);
	return triggers;
}

/* ---- definitions → texts ---- */

static char *
list_text(List *expressions, List *names, List *context)
{
	StringInfoData text;
	ListCell   *lc;
	int			i = 0;

	initStringInfo(&text);
	foreach(lc, expressions)
	{
		const char *name = i < list_length(names) ? list_nth(names, i) : ANONYMOUS;
		char	   *expression = deparse_expression((Node *) lfirst(lc), context, false, false);

		appendStringInfo(&text, "%s%s", i++ > 0 ? ", " : "", expression);
		if (names != NIL && strcmp(name, ANONYMOUS) != 0 && strcmp(quote_identifier(name), expression) != 0)
			appendStringInfo(&text, " AS %s", quote_identifier(name));
	}
	return text.data;
}

static bool
is_null_constant(Node *node)
{
	return IsA(node, Const) && ((Const *) node)->constisnull;
}

static void
add_texts(FreshDefinition *definition, const Fresh *fresh, FuncExpr *call)
{
	char	   *name = get_rel_name(definition->table);
	List	   *context;
	RowExpr    *key = (RowExpr *) lfourth(call->args);
	Node	   *condition = (Node *) list_nth(call->args, 4);
	int			nest = begin_writing();

	ChangeVarNodes((Node *) call, PRS2_NEW_VARNO, 1, 0);
	context = deparse_context_for(name, definition->table);
	if (fresh->input_names == NIL)
		definition->input = pstrdup("*");
	else
		definition->input = list_text(((RowExpr *) linitial(call->args))->args, fresh->input_names, context);
	if (key->args != NIL)
		definition->key = list_text(key->args, NIL, context);
	if (!is_null_constant(condition))
		definition->condition = deparse_expression(condition, context, false, false);
	AtEOXact_GUC(true, nest);
	definition->table_sql = quote_qualified_identifier(get_namespace_name(get_rel_namespace(definition->table)), name);
	definition->output_sql = pstrdup(quote_identifier(get_attname(definition->table, definition->output, false)));
	definition->version_sql = pstrdup(quote_identifier(get_attname(definition->table, definition->version, false)));
	definition->version_type = getBaseType(get_atttype(definition->table, definition->version));
}

Oid
fresh_trigger_oid(const Fresh *fresh)
{
	if (!OidIsValid(fresh->table) || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(fresh->table)))
		return InvalidOid;
	return get_trigger_oid(fresh->table, fresh_trigger_name(fresh->number), true);
}

/* Those that may be of this one: by name, or wherever they are. */
static List *
triggers_of(const Fresh *fresh)
{
	Oid			oid = fresh_trigger_oid(fresh);
	Relation	table;
	List	   *triggers = NIL;

	if (!OidIsValid(oid))
		return fresh_triggers();
	table = table_open(TriggerRelationId, AccessShareLock);
	add_trigger(table, oid, keeping_function(), &triggers);
	table_close(table, AccessShareLock);
	return triggers;
}

/* The one of these that is its own; *several: there are more. */
static FreshTrigger *
own_trigger(const Fresh *fresh, List *triggers, bool *several)
{
	FreshTrigger *found = NULL;
	ListCell   *lc;

	*several = false;
	foreach(lc, triggers)
	{
		FreshTrigger *trigger = lfirst(lc);

		if (trigger->number != fresh->number || (OidIsValid(fresh->table) && trigger->definition.table != fresh->table))
			continue;
		*several = found != NULL;
		found = trigger;
	}
	return found;
}

static const char *
find_damage(const Fresh *fresh, const FreshTrigger *trigger, const FuncExpr *call)
{
	if (call == NULL || trigger->definition.output == 0 || trigger->definition.version == 0 ||
		!IsA(linitial(call->args), RowExpr) || !IsA(lfourth(call->args), RowExpr))
		return "its trigger was replaced";
	if (!OidIsValid(get_trigger_oid(trigger->definition.table, fresh_clear_name(fresh->number), true)))
		return "one of its triggers is missing";
	return NULL;
}

FreshDefinition *
fresh_definition(const Fresh *fresh, List *triggers, bool wait)
{
	bool		several;
	FreshTrigger *found = own_trigger(fresh, triggers != NIL ? triggers : triggers_of(fresh), &several);
	FreshDefinition *definition;
	FuncExpr   *call;

	if (found == NULL)
		return NULL;
	call = call_in(found->qual);
	definition = palloc(sizeof(FreshDefinition));
	*definition = found->definition;
	definition->damaged = several ? "several tables have its trigger" : find_damage(fresh, found, call);
	if (definition->damaged != NULL)
		return definition;
	if (wait)
		LockRelationOid(definition->table, AccessShareLock);
	else if (!ConditionalLockRelationOid(definition->table, AccessShareLock))
		return definition;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(definition->table)))
		return NULL;			/* dropped meanwhile */
	add_texts(definition, fresh, copyObject(call));
	return definition;
}
