/*
 * columns.c
 *	  Tables that jobs read and write, and the columns that a row is known by.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "parts.h"

/* ---- tables ---- */

Relation
plan_open(Oid oid, const char *name)
{
	Relation	relation = try_relation_open(oid, AccessShareLock);

	if (relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 name != NULL ? errmsg("relation %s does not exist any more", name) :
				 errmsg("relation with OID %u does not exist", oid)));
	return relation;
}

static void
refuse_kind(Relation relation, const char *argument, const char *what)
{
	bool		writes = strcmp(argument, "target") == 0;

	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is %s", RelationGetRelationName(relation), what),
			 writes ? errhint("Give a table as target.") :
			 errhint("Give a table, or read it with a query: source => 'SELECT ...', key => '...', target => '...'.")));
}

static void
check_kind(Relation relation, const char *argument)
{
	switch (relation->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
			break;
		case RELKIND_VIEW:
			refuse_kind(relation, argument, "a view");
			break;
		case RELKIND_MATVIEW:
			refuse_kind(relation, argument, "a materialized view");
			break;
		case RELKIND_FOREIGN_TABLE:
			refuse_kind(relation, argument, "a foreign table");
			break;
		default:
			refuse_kind(relation, argument, "not a table");
	}
}

/* Such rows are written by the server and by us, each in its own way. */
static void
check_owned(Relation relation)
{
	Oid			infer = get_extension_oid("infer", false);

	if (IsCatalogRelation(relation))
		refuse_kind(relation, "target", "a system catalog");
	if (getExtensionOfObject(RelationRelationId, RelationGetRelid(relation)) == infer)
		refuse_kind(relation, "target", "a table of the extension itself");
}

static bool
has_children(Relation relation)
{
	return relation->rd_rel->relkind == RELKIND_RELATION &&
		find_inheritance_children(RelationGetRelid(relation), NoLock) != NIL;
}

void
plan_check_table(Relation relation, const char *argument)
{
	const char *name = RelationGetRelationName(relation);

	check_kind(relation, argument);
	if (strcmp(argument, "table") == 0 && has_children(relation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("tables inherit from table \"%s\"", name),
				 errdetail("A key is unique within one of them only."),
				 errhint("Submit a job for each table that inherits; for the rows of this one use source => 'SELECT ... FROM ONLY ...' with a target.")));
	if (relation->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" is temporary", name),
				 errdetail("A job runs in a session of its own, which does not see other sessions' temporary tables."),
				 errhint("Use a permanent table; it may be UNLOGGED.")));
	if (relation->rd_rules != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" has rules", name),
				 errdetail("A rule may write other rows than the job says."),
				 errhint("Make a trigger of the rule, or give another table as target.")));
}

/* ---- columns ---- */

void
plan_column_type(JobColumn *column, Oid type, int32 typmod, Oid collation)
{
	column->type = type;
	column->typmod = typmod;
	column->collation = collation;
	get_typlenbyval(type, &column->length, &column->by_value);
	column->type_sql = format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

/* Whether no row can have NULL there. */
static bool
is_not_null(Relation relation, AttrNumber number)
{
	return infer_is_not_null(RelationGetDescr(relation), number - 1);
}

/* The names of an index's columns, in its order, if it knows each row of the table at once; NIL: it does not. */
static List *
index_names(Relation relation, HeapTuple tuple)
{
	Form_pg_index index = (Form_pg_index) GETSTRUCT(tuple);
	List	   *names = NIL;

	if (!index->indisunique || !index->indimmediate || !index->indisvalid || !index->indisready ||
		!heap_attisnull(tuple, Anum_pg_index_indpred, NULL) || !heap_attisnull(tuple, Anum_pg_index_indexprs, NULL))
		return NIL;
	for (int i = 0; i < index->indnkeyatts; i++)
	{
		AttrNumber	number = index->indkey.values[i];

		if (number <= 0 || !is_not_null(relation, number))
			return NIL;
		names = lappend(names, pstrdup(NameStr(TupleDescAttr(RelationGetDescr(relation), number - 1)->attname)));
	}
	return names;
}

bool
plan_has_name(const List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	return false;
}

static bool
are_same(const List *a, const List *b)
{
	ListCell   *cell;

	if (list_length(a) != list_length(b))
		return false;
	foreach(cell, a)
		if (!plan_has_name(b, lfirst(cell)))
			return false;
	return true;
}

List *
plan_unique_names(Relation relation, List *names)
{
	List	   *indexes = RelationGetIndexList(relation);
	List	   *found = NIL;
	ListCell   *cell;

	foreach(cell, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));
		List	   *columns;

		if (!HeapTupleIsValid(tuple))
			continue;
		columns = index_names(relation, tuple);
		if (names == NIL ? ((Form_pg_index) GETSTRUCT(tuple))->indisprimary : are_same(columns, names))
			found = columns;
		ReleaseSysCache(tuple);
		if (found != NIL)
			break;
	}
	list_free(indexes);
	return found;
}

/* ---- targets ---- */

static char *
table_sql(Relation table)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(table)), RelationGetRelationName(table));
}

void
plan_target(PlanWork *work)
{
	const JobRequest *request = work->request;
	JobPlan    *plan = work->plan;

	if (OidIsValid(request->target) && request->target != request->table)
	{
		work->target = plan_open(request->target, request->target_name);
		plan_check_table(work->target, "target");
		plan->target = JOB_TARGET_INSERT;
	}
	else if (work->table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a query needs a target"),
				 errhint("Name the table that gets the results: target => '...'.")));
	else
	{
		work->target = work->table;
		plan->target = JOB_TARGET_UPDATE;
	}
	check_owned(work->target);
	plan->target_table = RelationGetRelid(work->target);
	plan->target_sql = table_sql(work->target);
}

/* A new row has the key, the result, and what the table itself gives it. */
void
plan_check_new_rows(PlanWork *work)
{
	const JobPlan *plan = work->plan;
	TupleDesc	desc = RelationGetDescr(work->target);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);
		bool		given = attribute->attisdropped || !attribute->attnotnull || attribute->atthasdef ||
			attribute->attidentity != '\0' || attribute->attnum == plan->output.number ||
			(plan->version_column != NULL && attribute->attnum == plan->version_column->number);

		for (int k = 0; k < plan->keys_count; k++)
			given |= attribute->attnum == plan->target_keys[k].number;
		if (!given)
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("column \"%s\" of table \"%s\" is NOT NULL, has no default, and gets nothing",
							NameStr(attribute->attname), RelationGetRelationName(work->target)),
					 errdetail("A job writes the key, the output, and the version_column if there is one."),
					 errhint("Give it a default, or use another target.")));
	}
}

/* ---- keys ---- */

static TargetEntry *
find_column(PlanWork *work, const char *name, const char *argument)
{
	TargetEntry *found = NULL;
	ListCell   *cell;

	foreach(cell, work->columns)
	{
		TargetEntry *column = lfirst(cell);

		if (strcmp(column->resname, name) != 0)
			continue;
		if (found != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_AMBIGUOUS_COLUMN),
					 errmsg("%s has more than one column \"%s\"", work->what, name),
					 errhint("Give all but one of them another name, with a column alias.")));
		found = column;
	}
	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("%s has no column \"%s\"", work->what, name),
				 errdetail("It was named by \"%s\".", argument)));
	return found;
}

static bool
source_has(const PlanWork *work, const List *names)
{
	ListCell   *name;
	ListCell   *cell;

	foreach(name, names)
	{
		bool		found = false;

		foreach(cell, work->columns)
			found |= strcmp(((TargetEntry *) lfirst(cell))->resname, lfirst(name)) == 0;
		if (!found)
			return false;
	}
	return names != NIL;
}

/* A table's rows must be known by it. */
static List *
check_unique(Relation relation, List *names)
{
	List	   *found = plan_unique_names(relation, names);

	if (found == NIL && names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FOREIGN_KEY),
				 errmsg("table \"%s\" has no primary key", RelationGetRelationName(relation)),
				 errdetail("A job knows rows by a key that is unique at any time: a deferrable one does not suffice."),
				 errhint("Add one, or name the columns of a unique index: key => '...'.")));
	if (found == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FOREIGN_KEY),
				 errmsg("there is no unique index on (%s) of table \"%s\"", plan_names_list(names, true),
						RelationGetRelationName(relation)),
				 errdetail("It must have exactly these columns, all NOT NULL, and be neither partial nor deferrable."),
				 errhint("Add it: CREATE UNIQUE INDEX CONCURRENTLY ON %s (%s), and set NOT NULL what is not.",
						 table_sql(relation), plan_names_list(names, true))));
	return found;
}

/* Keys of a query come in the order in which they were named. */
static List *
choose_keys(PlanWork *work)
{
	const JobRequest *request = work->request;
	List	   *names = request->key == NULL ? NIL : plan_parse_names(request->key, "key");
	ListCell   *cell;

	foreach(cell, names)
		find_column(work, lfirst(cell), "key");
	if (work->table != NULL)
		return check_unique(work->table, names);
	if (names != NIL)
		return names;
	names = plan_unique_names(work->target, NIL);
	if (!source_has(work, names))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a query needs a key"),
				 errhint("Name the columns of the query that its rows are known by: key => '...'.")));
	return names;
}

static void
check_orderable(const TargetEntry *column)
{
	Oid			type = exprType((Node *) column->expr);

	if (!OidIsValid(lookup_type_cache(type, TYPECACHE_LT_OPR)->lt_opr))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("key column \"%s\" has type %s, whose values have no order", column->resname,
						format_type_be(type)),
				 errhint("Use another key.")));
}

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Whether different keys stay different when they are assigned to the target's column. */
static bool
keeps_keys_apart(Oid from, Oid to)
{
	from = getBaseType(from);
	to = getBaseType(to);
	return IsBinaryCoercible(from, to) ||
		(is_integer(from) && (is_integer(to) || to == NUMERICOID) && can_coerce_type(1, &from, &to, COERCION_IMPLICIT));
}

static void
set_target_key(PlanWork *work, JobColumn *key, const char *name, const TargetEntry *from)
{
	AttrNumber	number = get_attnum(RelationGetRelid(work->target), name);
	Form_pg_attribute attribute;
	Oid			type = exprType((Node *) from->expr);

	Assert(number > 0);			/* a unique index has it */
	attribute = TupleDescAttr(RelationGetDescr(work->target), number - 1);
	key->name = pstrdup(name);
	key->sql = pstrdup(quote_identifier(name));
	key->number = number;
	plan_column_type(key, attribute->atttypid, attribute->atttypmod, attribute->attcollation);
	if (!keeps_keys_apart(type, key->type))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("key column \"%s\" is of type %s in %s, but %s in table \"%s\"", name, format_type_be(type),
						work->what, format_type_be(key->type), RelationGetRelationName(work->target)),
				 work->table == NULL ? errhint("Cast it in the query.") :
				 errhint("Read the table with a query that casts it: source => 'SELECT ...'.")));
}

void
plan_keys(PlanWork *work)
{
	JobPlan    *plan = work->plan;
	ListCell   *cell;

	work->keys = choose_keys(work);
	plan_query_keys(work);
	if (plan->target == JOB_TARGET_INSERT)
		check_unique(work->target, work->keys);
	plan->keys_count = list_length(work->keys);
	plan->target_keys = palloc0(sizeof(JobColumn) * plan->keys_count);
	foreach(cell, work->keys)
	{
		TargetEntry *column = find_column(work, lfirst(cell), "key");

		check_orderable(column);
		set_target_key(work, &plan->target_keys[foreach_current_index(cell)], lfirst(cell), column);
	}
}
