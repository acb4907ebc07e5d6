/*
 * source.c
 *	  What is read: a table, or a query; and the statement that reads it.
 *
 * A query is read by key, like a table, if it is a plain scan: columns and rows of one table, by conditions
 * that give the same answer chunk by chunk.  Any other query is read once, from beginning to end.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "parts.h"

/* ---- what a background worker cannot read ---- */

static void
check_relation(const RangeTblEntry *entry)
{
	if (entry->rtekind == RTE_RELATION && get_rel_persistence(entry->relid) == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" is temporary", get_rel_name(entry->relid)),
				 errdetail("A job runs in a session of its own, which does not see other sessions' temporary tables."),
				 errhint("Use a permanent table; it may be UNLOGGED.")));
}

static bool
check_node(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		check_relation((RangeTblEntry *) node);
		return false;
	}
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		if (query->hasModifyingCTE || query->commandType != CMD_SELECT)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a job's query may only read"),
					 errhint("Write in a statement of its own before the job is submitted.")));
		if (query->rowMarks != NIL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a job's query may not lock rows"),
					 errdetail("It holds no locks while the model computes."),
					 errhint("Leave out FOR UPDATE or FOR SHARE.")));
		return query_tree_walker(query, check_node, context, QTW_EXAMINE_RTES_BEFORE);
	}
	return expression_tree_walker(node, check_node, context);
}

/* Raises for what a query, or one within it, may not do. */
static void
check_query(Query *query)
{
	(void) check_node((Node *) query, NULL);
}

/* ---- plain scans ---- */

static bool
is_plain_table(const RangeTblEntry *entry)
{
	return entry->rtekind == RTE_RELATION && entry->tablesample == NULL &&
		(entry->relkind == RELKIND_PARTITIONED_TABLE ? entry->inh :
		 entry->relkind == RELKIND_RELATION && find_inheritance_children(entry->relid, NoLock) == NIL);
}

/* ORDER BY alone changes nothing. */
static bool
is_plain(Query *query)
{
	return list_length(query->rtable) == 1 && list_length(query->jointree->fromlist) == 1 &&
		is_plain_table(linitial(query->rtable)) &&
		!query->hasAggs && !query->hasWindowFuncs && !query->hasTargetSRFs && !query->hasSubLinks &&
		query->cteList == NIL && query->groupClause == NIL && query->groupingSets == NIL &&
		query->havingQual == NULL && query->distinctClause == NIL && query->setOperations == NULL &&
		query->limitOffset == NULL && query->limitCount == NULL &&
		!contain_volatile_functions((Node *) query->targetList) &&
		!contain_volatile_functions(query->jointree->quals);
}

/* The column of the table that a column of the query is; NULL: it is none. */
static const char *
plain_column(const Query *plain, const char *name)
{
	ListCell   *cell;

	foreach(cell, plain->targetList)
	{
		const TargetEntry *target = lfirst(cell);
		const Var  *column = (const Var *) target->expr;

		if (!target->resjunk && strcmp(target->resname, name) == 0)
			return IsA(column, Var) && column->varattno > 0 ?
				get_attname(linitial_node(RangeTblEntry, plain->rtable)->relid, column->varattno, false) : NULL;
	}
	return NULL;
}

/*
 * Names of a query's columns in the order of the index that knows the rows of the table that it scans.  NIL: there is none.
 */
static List *
order_keys(const Query *plain, const List *names)
{
	List	   *columns = NIL;
	List	   *ordered = NIL;
	Relation	table;
	ListCell   *cell;
	ListCell   *name;

	foreach(cell, names)
	{
		const char *column = plain_column(plain, lfirst(cell));

		if (column == NULL)
			return NIL;
		columns = lappend(columns, unconstify(char *, column));
	}
	table = plan_open(linitial_node(RangeTblEntry, plain->rtable)->relid, NULL);
	foreach(cell, plan_unique_names(table, columns))
	{
		foreach(name, columns)
			if (strcmp(lfirst(name), lfirst(cell)) == 0)
				ordered = lappend(ordered, list_nth(names, foreach_current_index(name)));
	}
	relation_close(table, NoLock);
	return ordered;
}

void
plan_query_keys(PlanWork *work)
{
	List	   *ordered;

	if (work->plain == NULL)
		return;
	ordered = order_keys(work->plain, work->keys);
	if (ordered == NIL)
		work->plain = NULL;
	else
		work->keys = ordered;
}

typedef struct PullUp
{
	const Query *plain;
	bool		failed;
} PullUp;

/* In place of the columns of the query around it what they are within. */
static Node *
pull_up_node(Node *node, void *context)
{
	PullUp	   *pull_up = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, SubLink) || (IsA(node, Var) && ((Var *) node)->varattno <= 0))
		pull_up->failed = true;
	else if (IsA(node, Var))
		return copyObject((Node *) ((TargetEntry *) list_nth(pull_up->plain->targetList,
															  ((Var *) node)->varattno - 1))->expr);
	if (pull_up->failed)
		return node;
	return expression_tree_mutator(node, pull_up_node, context);
}

/* Keys and inputs as expressions of the scanned table; NIL: the query is to be read from beginning to end. */
static List *
plain_expressions(PlanWork *work)
{
	PullUp		pull_up = {.plain = work->plain};
	List	   *expressions = NIL;
	ListCell   *cell;

	foreach(cell, work->read->targetList)
		expressions = lappend(expressions, pull_up_node((Node *) ((TargetEntry *) lfirst(cell))->expr, &pull_up));
	return pull_up.failed || contain_volatile_functions((Node *) expressions) ? NIL : expressions;
}

/* ---- the source ---- */

static SelectStmt *
select_from(Node *item)
{
	SelectStmt *select = makeNode(SelectStmt);

	select->fromClause = list_make1(item);
	return select;
}

static List *
table_columns(Relation table)
{
	TupleDesc	desc = RelationGetDescr(table);
	List	   *columns = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (attribute->attisdropped)
			continue;
		columns = lappend(columns, makeTargetEntry((Expr *) makeVar(1, attribute->attnum, attribute->atttypid,
																   attribute->atttypmod, attribute->attcollation, 0),
												   list_length(columns) + 1, pstrdup(NameStr(attribute->attname)),
												   false));
	}
	return columns;
}

static void
take_table(PlanWork *work)
{
	work->table = plan_open(work->request->table, work->request->table_name);
	plan_check_table(work->table, "table");
	work->what = psprintf("table \"%s\"", RelationGetRelationName(work->table));
	work->from = select_from((Node *) makeRangeVar(get_namespace_name(RelationGetNamespace(work->table)),
												   pstrdup(RelationGetRelationName(work->table)), -1));
	work->columns = table_columns(work->table);
}

static void
take_query(PlanWork *work)
{
	const char *text = work->request->source;
	SelectStmt *select = plan_parse_query(text, "source");
	Query	   *query = plan_analyse(select, text, "source");
	RangeSubselect *from = makeNode(RangeSubselect);
	ListCell   *cell;

	check_query(query);
	work->what = "the query";
	from->subquery = (Node *) select;
	from->alias = makeAlias(PLAN_SOURCE, NIL);
	work->from = select_from((Node *) from);
	foreach(cell, query->targetList)
		if (!((TargetEntry *) lfirst(cell))->resjunk)
			work->columns = lappend(work->columns, lfirst(cell));
	work->plain = is_plain(query) ? query : NULL;
}

void
plan_source(PlanWork *work)
{
	const JobRequest *request = work->request;

	if (OidIsValid(request->table) == (request->source != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 OidIsValid(request->table) ? errmsg("both a table and a query were given") :
				 errmsg("neither a table nor a query was given"),
				 errhint("Give what is to be read: \"table\" or source.")));
	if (request->source != NULL && request->condition != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"condition\" is for tables"),
				 errhint("Write it into the query.")));
	if (OidIsValid(request->table))
		take_table(work);
	else
		take_query(work);
}

/* ---- the statement ---- */

/* The condition of a table's rows, as an expression of its columns; NULL: none. */
static Node *
analyse_condition(PlanWork *work)
{
	SelectStmt *select;
	Query	   *query;

	if (work->request->condition == NULL)
		return NULL;
	select = copyObject(work->from);
	select->whereClause = plan_parse_condition(work->request->condition, "condition");
	query = plan_analyse(select, work->request->condition, "condition");
	check_query(query);
	if (contain_volatile_functions(query->jointree->quals))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"condition\" has a volatile function"),
				 errdetail("The rows that are read must not change from chunk to chunk by themselves."),
				 errhint("Read the rows with a query: source => 'SELECT ...' with key and target.")));
	return query->jointree->quals;
}

static char *
write_expression(Expr *expr, List *context)
{
	char	   *text = deparse_expression((Node *) expr, context, true, false);

	/* a whole row, which would be its columns one by one */
	if (IsA(expr, Var) && ((Var *) expr)->varattno == 0)
		text = psprintf("%s::%s", text, format_type_extended(((Var *) expr)->vartype, -1, FORMAT_TYPE_FORCE_QUALIFY));
	return text;
}

static void
write_columns(JobColumn *columns, int count, List *expressions, int first, List *context)
{
	for (int i = 0; i < count; i++)
	{
		Expr	   *expr = list_nth(expressions, first + i);

		columns[i].sql = write_expression(expr, context);
		columns[i].number = IsA(expr, Var) && ((Var *) expr)->varattno > 0 ? ((Var *) expr)->varattno : 0;
	}
}

static void
write_scan(PlanWork *work, Oid table, List *expressions, Node *condition)
{
	JobPlan    *plan = work->plan;
	List	   *context = deparse_context_for(PLAN_SOURCE, table);

	plan->source = JOB_SOURCE_SCAN;
	plan->unchanged = true;
	plan->table = table;
	plan->table_sql = quote_qualified_identifier(get_namespace_name(get_rel_namespace(table)), get_rel_name(table));
	plan->from_sql = psprintf("FROM %s AS %s WHERE (%s)", plan->table_sql, PLAN_SOURCE,
							  condition == NULL ? "true" : deparse_expression(condition, context, true, false));
	write_columns(plan->keys, plan->keys_count, expressions, 0, context);
	write_columns(plan->inputs, plan->inputs_count, expressions, plan->keys_count, context);
}

static void
write_query(PlanWork *work)
{
	JobPlan    *plan = work->plan;

	plan->source = JOB_SOURCE_INPUT;
	plan->from_sql = pg_get_querydef(work->read, false);
	for (int i = 0; i < plan->keys_count; i++)
		plan->keys[i].sql = pstrdup(quote_identifier(plan->keys[i].name));
	for (int i = 0; i < plan->inputs_count; i++)
		plan->inputs[i].sql = pstrdup(quote_identifier(plan->inputs[i].name));
}

/* Names and types, of scans and others. */
static JobColumn *
describe(const List *targets, int first, int count)
{
	JobColumn  *columns = palloc0(sizeof(JobColumn) * Max(count, 1));

	for (int i = 0; i < count; i++)
	{
		const TargetEntry *target = list_nth(targets, first + i);
		Node	   *expr = (Node *) target->expr;

		columns[i].name = target->resname;
		plan_column_type(&columns[i], exprType(expr), exprTypmod(expr), exprCollation(expr));
	}
	return columns;
}

/* Of a table; what they hold must be the same whenever it is looked at. */
static List *
table_expressions(PlanWork *work)
{
	List	   *expressions = NIL;
	ListCell   *cell;

	foreach(cell, work->read->targetList)
		expressions = lappend(expressions, ((TargetEntry *) lfirst(cell))->expr);
	if (contain_volatile_functions((Node *) expressions))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"input\" has a volatile function"),
				 errdetail("A row's input is compared with what was read before its result is written."),
				 errhint("Read the rows with a query: source => 'SELECT ...' with key and target.")));
	return expressions;
}

void
plan_read(PlanWork *work)
{
	JobPlan    *plan = work->plan;
	List	   *targets = work->read->targetList;
	List	   *expressions;

	check_query(work->read);
	plan->keys = describe(targets, 0, plan->keys_count);
	plan->inputs_count = list_length(targets) - plan->keys_count;
	plan->inputs = describe(targets, plan->keys_count, plan->inputs_count);
	if (work->table != NULL)
		write_scan(work, RelationGetRelid(work->table), table_expressions(work), analyse_condition(work));
	else if (work->plain != NULL && (expressions = plain_expressions(work)) != NIL)
		write_scan(work, linitial_node(RangeTblEntry, work->plain->rtable)->relid, expressions,
				   work->plain->jointree->quals);
	else
		write_query(work);
}
