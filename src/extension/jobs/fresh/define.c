/*
 * define.c
 *	  What is kept: from the arguments to two triggers.  definition.c has the way back.
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
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

#include "../plan/parts.h"
#include "fresh.h"

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

int
fresh_begin_writing(void)
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
	nest = fresh_begin_writing();
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
