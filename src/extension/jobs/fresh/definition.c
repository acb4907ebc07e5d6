/*
 * definition.c
 *	  What is kept: from triggers, as define.c has made them, back to texts.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteManip.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "fresh.h"

#define ANONYMOUS "?column?"			/* what SQL calls an expression that nobody named */

/* ---- triggers → definitions ---- */

static Oid
keeping_function(void)
{
	Oid			none = InvalidOid;
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("fresh_kept"),
										   PointerGetDatum(buildoidvector(&none, 0)),
										   ObjectIdGetDatum(get_namespace_oid(INFER_SCHEMA, false)));

	if (!OidIsValid(function))
		elog(ERROR, "function infer.fresh_kept() does not exist");
	return function;
}

/* The node as a call of that function of ours; NULL: it is none. */
static FuncExpr *
call_of(Node *node, const char *function, int arguments)
{
	FuncExpr   *call = (FuncExpr *) node;
	char	   *name;

	if (node == NULL || !IsA(node, FuncExpr) || list_length(call->args) != arguments)
		return NULL;
	name = get_func_name(call->funcid);
	return name != NULL && strcmp(name, function) == 0 &&
		get_func_namespace(call->funcid) == get_namespace_oid(INFER_SCHEMA, false) ? call : NULL;
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
	int			nest = fresh_begin_writing();

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
