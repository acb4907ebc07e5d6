/*
 * parse.c
 *	  Texts that users wrote as parse trees.
 *
 * Each text is parsed by itself and must be exactly what it is said to be: a select list, an expression, a
 * query.  Trees are put together, never texts, so a comment or a parenthesis ends with its text.
 * Errors show the text that they are in, as an internal query.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "parser/analyze.h"
#include "parser/parse_node.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

#include "parts.h"

typedef struct ParsePlace
{
	const char *text;
	const char *argument;
	ErrorContextCallback callback;
} ParsePlace;

/* A position within the text must not be taken for one in the statement that called us. */
static void
add_place(void *arg)
{
	const ParsePlace *place = arg;
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(place->text);
	}
	errcontext("argument \"%s\" of a job", place->argument);
}

static void
enter(ParsePlace *place, const char *text, const char *argument)
{
	place->text = text;
	place->argument = argument;
	place->callback.callback = add_place;
	place->callback.arg = place;
	place->callback.previous = error_context_stack;
	error_context_stack = &place->callback;
}

static void
leave(const ParsePlace *place)
{
	error_context_stack = place->callback.previous;
}

/* What a backslash means there depends on a setting that the job's own session may have otherwise. */
static void
check_strings(const char *text, const char *argument)
{
	if (!standard_conforming_strings && strchr(text, '\\') != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" has a backslash, and standard_conforming_strings is off", argument),
				 errhint("Set standard_conforming_strings to on, and write E'...' where escapes are meant.")));
}

/* As trees of statements; errors are within the text. */
static List *
parse(const char *text, const char *argument, RawParseMode mode)
{
	ParsePlace	place;
	List	   *statements;

	check_strings(text, argument);
	enter(&place, text, argument);
	statements = raw_parser(text, mode);
	leave(&place);
	return statements;
}

static bool
is_list_only(const SelectStmt *select)
{
	return select->distinctClause == NIL && select->intoClause == NULL && select->fromClause == NIL &&
		select->whereClause == NULL && select->groupClause == NIL && select->havingClause == NULL &&
		select->windowClause == NIL && select->valuesLists == NIL && select->sortClause == NIL &&
		select->limitOffset == NULL && select->limitCount == NULL && select->lockingClause == NIL &&
		select->withClause == NULL && select->op == SETOP_NONE;
}

static List *
parse_targets(const char *text, const char *argument, const char *what, const char *hint)
{
	List	   *statements = parse(text, argument, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *select;

	select = castNode(SelectStmt, castNode(RawStmt, linitial(statements))->stmt);
	if (!is_list_only(select) || select->targetList == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("\"%s\" is not %s", argument, what),
				 text[0] == '\0' ? errdetail("It is empty.") : errdetail("It is: %s", text),
				 errhint("%s", hint)));
	return select->targetList;
}

List *
plan_parse_list(const char *text, const char *argument)
{
	return parse_targets(text, argument, "a list of expressions",
						 "Write it as between SELECT and FROM; anything else belongs into source.");
}

Node *
plan_parse_condition(const char *text, const char *argument)
{
	List	   *targets = parse_targets(text, argument, "one expression", "Write it as behind WHERE.");
	ResTarget  *target = linitial(targets);
	bool		star = IsA(target->val, ColumnRef) && IsA(llast(((ColumnRef *) target->val)->fields), A_Star);

	if (list_length(targets) != 1 || target->name != NULL || star)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("\"%s\" is not one expression", argument),
				 errdetail("It is: %s", text),
				 errhint("Write it as behind WHERE.")));
	return target->val;
}

SelectStmt *
plan_parse_query(const char *text, const char *argument)
{
	List	   *statements = parse(text, argument, RAW_PARSE_DEFAULT);
	Node	   *statement;

	statement = list_length(statements) == 1 ? castNode(RawStmt, linitial(statements))->stmt : NULL;
	if (statement == NULL || !IsA(statement, SelectStmt) || ((SelectStmt *) statement)->intoClause != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("\"%s\" is not one query", argument),
				 text[0] == '\0' ? errdetail("It is empty.") : errdetail("It is: %s", text),
				 errhint("Give one SELECT, whose columns are the key and what the model gets.")));
	return (SelectStmt *) statement;
}

List *
plan_parse_names(const char *text, const char *argument)
{
	List	   *names;
	ListCell   *cell;

	if (!SplitIdentifierString(pstrdup(text), ',', &names) || names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 text[strspn(text, " ")] == '\0' ? errmsg("\"%s\" names no column", argument) :
				 errmsg("\"%s\" does not name columns: %s", argument, text),
				 errhint("Write names as in SQL, with commas between them; in double quotes if they have upper-case letters or other characters.")));
	foreach(cell, names)
	{
		for (int i = 0; i < foreach_current_index(cell); i++)
			if (strcmp(lfirst(cell), list_nth(names, i)) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("\"%s\" names column \"%s\" twice", argument, (char *) lfirst(cell))));
	}
	return names;
}

char *
plan_parse_name(const char *text, const char *argument)
{
	List	   *names = plan_parse_names(text, argument);

	if (list_length(names) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" names %d columns", argument, list_length(names)),
				 errhint("Name one column.")));
	return linitial(names);
}

/* Without the hooks for statements: what is analysed here is none, and its places are in several texts. */
Query *
plan_analyse(const SelectStmt *statement, const char *text, const char *argument)
{
	ParsePlace	place;
	RawStmt    *raw = makeNode(RawStmt);
	ParseState *state;
	Query	   *query;

	raw->stmt = (Node *) copyObject(unconstify(SelectStmt *, statement));
	raw->stmt_location = -1;
	enter(&place, text, argument);
	state = make_parsestate(NULL);
	state->p_sourcetext = text;
	query = transformTopLevelStmt(state, raw);
	free_parsestate(state);
	leave(&place);
	return query;
}

const char *
plan_names_list(const List *names, bool as_sql)
{
	StringInfoData list;
	ListCell   *cell;

	initStringInfo(&list);
	foreach(cell, names)
		appendStringInfo(&list, "%s%s", foreach_current_index(cell) > 0 ? ", " : "",
						 as_sql ? quote_identifier(lfirst(cell)) : psprintf("\"%s\"", (char *) lfirst(cell)));
	return list.data;
}

ResTarget *
plan_column_target(const char *name)
{
	ColumnRef  *column = makeNode(ColumnRef);
	ResTarget  *target = makeNode(ResTarget);

	column->fields = list_make1(makeString(pstrdup(name)));
	column->location = -1;
	target->val = (Node *) column;
	target->location = -1;
	return target;
}
