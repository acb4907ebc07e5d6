/*
 * statement.c
 *	  Statements of users' tables, that are run by SPI.
 *
 * Plans are saved: parsed once, and again when something that they use changes.  Rows reach a statement as
 * an ephemeral named relation, a tuplestore, which plans know by its columns only; and leave it through a
 * receiver of our own, which may stop it, and copies what it wants once.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parser.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/queryenvironment.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "rows.h"

#define GIVEN_ABOUT	1000			/* rows that the planner expects to be given */

/* ---- SPI ---- */

void
job_spi_begin(void)
{
	MemoryContext context = CurrentMemoryContext;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(context);
}

void
job_spi_end(void)
{
	MemoryContext context = CurrentMemoryContext;

	PopActiveSnapshot();
	SPI_finish();
	MemoryContextSwitchTo(context);
}

void
job_spi_execute(const char *sql)
{
	MemoryContext context = CurrentMemoryContext;
	int			result = SPI_execute(sql, false, 0);

	MemoryContextSwitchTo(context);
	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
}

/* ---- given rows ---- */

TupleDesc
job_given_columns(int count, const Oid *types)
{
	TupleDesc	columns = CreateTemplateTupleDesc(count);

	for (int i = 0; i < count; i++)
	{
		char		name[NAMEDATALEN];

		snprintf(name, sizeof(name), "c%d", i + 1);
		TupleDescInitEntry(columns, i + 1, name, types[i], -1, 0);
	}
	return columns;
}

static void
give(TupleDesc columns, Tuplestorestate *rows)
{
	EphemeralNamedRelation given = palloc0(sizeof(EphemeralNamedRelationData));

	given->md.name = pstrdup(JOB_GIVEN);
	given->md.tupdesc = columns;
	given->md.enrtype = ENR_NAMED_TUPLESTORE;
	given->md.enrtuples = GIVEN_ABOUT;
	given->reldata = rows;
	if (SPI_register_relation(given) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register rows that a statement is given");
}

void
job_statement_give(const JobStatement *statement, Tuplestorestate *rows)
{
	give(statement->given, rows);
}

void
job_statement_take(void)
{
	SPI_unregister_relation(JOB_GIVEN);
}

/* ---- statements ---- */

void
job_statement_prepare(JobStatement *statement, const char *sql, int parameters, Oid *types, TupleDesc given,
					  int cursor_options)
{
	MemoryContext context = CurrentMemoryContext;
	SPIPlanPtr	plan;

	if (given != NULL)
		give(given, NULL);
	plan = SPI_prepare_cursor(sql, parameters, types, cursor_options);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_keepplan failed");
	statement->plan = plan;			/* until then SPI's, which frees it at an error */
	statement->given = given;
	if (given != NULL)
		job_statement_take();
	MemoryContextSwitchTo(context);
}

typedef struct StatementsEnd
{
	MemoryContextCallback callback;
	JobStatement *statements;
	int			count;
} StatementsEnd;

static void
end_statements(void *arg)
{
	StatementsEnd *end = arg;

	for (int i = 0; i < end->count; i++)
		if (end->statements[i].plan != NULL)
			SPI_freeplan(end->statements[i].plan);
}

void
job_statements_end_with(MemoryContext context, JobStatement *statements, int count)
{
	StatementsEnd *end = MemoryContextAlloc(context, sizeof(StatementsEnd));

	end->statements = statements;
	end->count = count;
	end->callback.func = end_statements;
	end->callback.arg = end;
	MemoryContextRegisterResetCallback(context, &end->callback);
}

/* Settings of the planner, until AtEOXact_GUC of what is returned. */
static int
begin_planning(JobPlanning planning)
{
	static const char *const off[][8] = {
		[JOB_PLANNING_FREE] = {NULL},
		[JOB_PLANNING_BY_INDEX] = {"enable_seqscan", "enable_bitmapscan", "enable_sort", NULL},
		[JOB_PLANNING_BY_ROW] = {"enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_bitmapscan",
		"enable_material", "enable_memoize", NULL},
	};
	int			level = NewGUCNestLevel();

	for (const char *const *name = off[planning]; *name != NULL; name++)
		(void) set_config_option(*name, "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

void
job_statement_plan(const JobStatement *statement, JobPlanning planning)
{
	int			level = begin_planning(planning);
	CachedPlan *plan = SPI_plan_get_cached_plan(statement->plan);

	ReleaseCachedPlan(plan, CurrentResourceOwner);
	AtEOXact_GUC(true, level);
}

uint64
job_statement_execute(const JobStatement *statement, Datum *values)
{
	MemoryContext context = CurrentMemoryContext;
	int			result = SPI_execute_plan(statement->plan, values, NULL, false, 0);

	MemoryContextSwitchTo(context);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
	return SPI_processed;
}

/* ---- queries ---- */

typedef struct Receiver
{
	DestReceiver receiver;
	JobReceive	receive;
	void	   *arg;
	MemoryContext context;			/* that receive is called in */
} Receiver;

static void
start_up(DestReceiver *self, int operation, TupleDesc columns)
{
}

static void
shut_down(DestReceiver *self)
{
}

static bool
receive_slot(TupleTableSlot *slot, DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;
	MemoryContext old = MemoryContextSwitchTo(receiver->context);
	bool		more = receiver->receive(slot, receiver->arg);

	MemoryContextSwitchTo(old);
	return more;
}

static void
look_at(const Plan *plan, JobPlanned *planned)
{
	List	   *parts = NIL;
	ListCell   *cell;

	if (plan == NULL)
		return;
	planned->sorts |= IsA(plan, Sort);
	planned->filters |= plan->qual != NIL;
	switch (nodeTag(plan))
	{
		case T_Append:
			parts = ((const Append *) plan)->appendplans;
			break;
		case T_MergeAppend:
			parts = ((const MergeAppend *) plan)->mergeplans;
			break;
		case T_SubqueryScan:
			look_at(((const SubqueryScan *) plan)->subplan, planned);
			break;
		default:
			look_at(plan->lefttree, planned);
	}
	foreach(cell, parts)
		look_at(lfirst(cell), planned);
}

static bool
is_accepted(const Plan *plan, JobAccept accept, void *arg)
{
	JobPlanned	planned = {0};

	if (accept == NULL)
		return true;
	look_at(plan, &planned);
	planned.cost = IsA(plan, Limit) ? plan->lefttree->total_cost : plan->total_cost;
	return accept(&planned, arg);
}

void
job_statement_query(const JobStatement *statement, Datum *values, JobPlanning planning, JobAccept accept,
					JobReceive receive, void *arg)
{
	Receiver	receiver = {{receive_slot, start_up, shut_down, shut_down, DestNone}, receive, arg, CurrentMemoryContext};
	int			level = begin_planning(planning);
	Portal		portal = SPI_cursor_open(NULL, statement->plan, values, NULL, false);

	AtEOXact_GUC(true, level);
	if (is_accepted(portal->queryDesc->plannedstmt->planTree, accept, arg))
		PortalRunFetch(portal, FETCH_FORWARD, FETCH_ALL, &receiver.receiver);
	SPI_cursor_close(portal);
	MemoryContextSwitchTo(receiver.context);
}

/* ---- keys ---- */

static const char *
operator_sql(Oid family, Oid type, int strategy)
{
	Oid			oid = get_opfamily_member(family, type, type, strategy);
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(oid));
	Form_pg_operator form;
	char	   *sql;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", oid);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	sql = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
				   NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return sql;
}

JobKeyType *
job_key_types(int count, const JobColumn *columns, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	JobKeyType *types = palloc0(sizeof(JobKeyType) * count);

	for (int i = 0; i < count; i++)
	{
		JobKeyType *type = &types[i];
		TypeCacheEntry *entry;

		type->type = getBaseType(columns[i].type);
		type->collation = columns[i].collation;
		get_typlenbyval(type->type, &type->length, &type->by_value);
		entry = lookup_type_cache(type->type, TYPECACHE_BTREE_OPFAMILY | TYPECACHE_CMP_PROC);
		if (!OidIsValid(entry->btree_opf) || !OidIsValid(entry->cmp_proc))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("type %s of key column %s has no order", format_type_be(type->type), columns[i].sql)));
		fmgr_info_cxt(entry->cmp_proc, &type->compare, context);
		type->less = operator_sql(entry->btree_opf, entry->btree_opintype, BTLessStrategyNumber);
		type->less_equal = operator_sql(entry->btree_opf, entry->btree_opintype, BTLessEqualStrategyNumber);
		type->equal = operator_sql(entry->btree_opf, entry->btree_opintype, BTEqualStrategyNumber);
		type->greater = operator_sql(entry->btree_opf, entry->btree_opintype, BTGreaterStrategyNumber);
		type->greater_equal = operator_sql(entry->btree_opf, entry->btree_opintype, BTGreaterEqualStrategyNumber);
	}
	MemoryContextSwitchTo(old);
	return types;
}

int
job_keys_compare(const JobKeyType *types, int count, const Datum *a, const Datum *b)
{
	for (int i = 0; i < count; i++)
	{
		int			order = DatumGetInt32(FunctionCall2Coll((FmgrInfo *) &types[i].compare, types[i].collation, a[i], b[i]));

		if (order != 0)
			return order;
	}
	return 0;
}

/* ---- pieces of SQL ---- */

void
job_sql_columns(StringInfo sql, int count, const JobColumn *columns)
{
	for (int i = 0; i < count; i++)
		appendStringInfo(sql, ", %s", columns[i].sql);
}

void
job_sql_order(StringInfo sql, const JobPlan *plan, const JobKeyType *types)
{
	for (int i = 0; i < plan->keys_count; i++)
		appendStringInfo(sql, "%s%s USING %s", i == 0 ? " ORDER BY " : ", ", plan->keys[i].sql, types[i].less);
}

/* Whether one operator's name does for all columns. */
static bool
is_same(const JobPlan *plan, const JobKeyType *types, bool behind)
{
	for (int i = 1; i < plan->keys_count; i++)
		if (behind ? strcmp(types[i].greater, types[0].greater) != 0 :
			strcmp(types[i].less_equal, types[0].less_equal) != 0)
			return false;
	return true;
}

/* (a, b) > ($1, $2), whose operators cannot be named at once: a >= $1 AND (a > $1 OR a = $1 AND (b > $2)) */
static void
compare_one_by_one(StringInfo sql, const JobPlan *plan, const JobKeyType *types, int first_parameter, bool behind)
{
	for (int i = 0; i < plan->keys_count; i++)
	{
		const char *column = plan->keys[i].sql;
		int			parameter = first_parameter + i;
		bool		is_last = i + 1 == plan->keys_count;

		appendStringInfo(sql, "(%s %s $%d", column,
						 behind ? types[i].greater : is_last ? types[i].less_equal : types[i].less, parameter);
		if (!is_last)
			appendStringInfo(sql, " OR %s %s $%d AND ", column, types[i].equal, parameter);
	}
	for (int i = 0; i < plan->keys_count; i++)
		appendStringInfoChar(sql, ')');
}

static void
compare(StringInfo sql, const JobPlan *plan, const JobKeyType *types, int first_parameter, bool behind)
{
	if (plan->keys_count == 1)
		appendStringInfo(sql, "\n AND %s %s $%d", plan->keys[0].sql,
						 behind ? types[0].greater : types[0].less_equal, first_parameter);
	else if (is_same(plan, types, behind))
	{
		for (int i = 0; i < plan->keys_count; i++)
			appendStringInfo(sql, "%s%s", i == 0 ? "\n AND ROW(" : ", ", plan->keys[i].sql);
		appendStringInfo(sql, ") %s ROW(", behind ? types[0].greater : types[0].less_equal);
		for (int i = 0; i < plan->keys_count; i++)
			appendStringInfo(sql, "%s$%d", i == 0 ? "" : ", ", first_parameter + i);
		appendStringInfoChar(sql, ')');
	}
	else
	{
		appendStringInfo(sql, "\n AND %s %s $%d AND ", plan->keys[0].sql,
						 behind ? types[0].greater_equal : types[0].less_equal, first_parameter);
		compare_one_by_one(sql, plan, types, first_parameter, behind);
	}
}

void
job_sql_behind(StringInfo sql, const JobPlan *plan, const JobKeyType *types, int first_parameter)
{
	compare(sql, plan, types, first_parameter, true);
}

void
job_sql_up_to(StringInfo sql, const JobPlan *plan, const JobKeyType *types, int first_parameter)
{
	compare(sql, plan, types, first_parameter, false);
}

void
job_sql_equal_given(StringInfo sql, int count, const JobColumn *columns, const char *prefix, const JobKeyType *types,
					int first, bool cast)
{
	for (int i = 0; i < count; i++)
		appendStringInfo(sql, "\n AND %s%s %s " JOB_GIVEN ".c%d%s%s", prefix, columns[i].sql, types[i].equal, first + i,
						 cast ? "::" : "", cast ? format_type_extended(types[i].type, -1, FORMAT_TYPE_FORCE_QUALIFY) : "");
}

static SelectStmt *
parse_from(const JobPlan *plan)
{
	List	   *statements = raw_parser(psprintf("SELECT\n %s", plan->from_sql), RAW_PARSE_DEFAULT);
	RawStmt    *raw = list_length(statements) == 1 ? linitial_node(RawStmt, statements) : NULL;

	if (raw == NULL || !IsA(raw->stmt, SelectStmt))
		elog(ERROR, "a job's source is no scan: %s", plan->from_sql);
	return castNode(SelectStmt, raw->stmt);
}

char *
job_sql_from(const JobPlan *plan)
{
	return psprintf("\n %s%s", plan->from_sql, parse_from(plan)->whereClause == NULL ? "\n WHERE true" : "");
}

char *
job_sql_from_all(const JobPlan *plan)
{
	RangeVar   *table = linitial_node(RangeVar, parse_from(plan)->fromClause);

	return psprintf("\n FROM %s%s%s\n WHERE true", plan->table_sql, table->alias == NULL ? "" : " AS ",
					table->alias == NULL ? "" : quote_identifier(table->alias->aliasname));
}
