/*
 * parts.h
 *	  What the files share that work out what a job's request means.
 *
 * Nouns
 *	source		what is read: a table, or a query
 *	plain scan	a query of some columns and rows of one table, that can be read by key like the table itself
 *	read		the analysed query SELECT keys, inputs FROM source: what it says of types and columns is so
 *
 * Loop (plan.c)
 *	model → source → target → keys → output and verb → inputs → statements → privileges
 *
 * Files
 *	parse.c			texts that users wrote, each by itself, as parse trees: so that nothing of one can
 *					leak into another
 *	source.c		tables and queries, plain scans, the statement that reads
 *	columns.c		keys, targets, and what they may be
 *	verb.c			which verb, with which options, of what type
 *	inputs.c		which columns the model gets
 *	rights.c		privileges, and whether a worker can connect as the role
 *
 * Invariants
 *	- Statements are made of analysed expressions (ruleutils), never of users' texts.
 *	- Tables are locked (AccessShareLock) from their first look to the transaction's end.
 */
#ifndef INFER_JOBS_PLAN_PARTS_H
#define INFER_JOBS_PLAN_PARTS_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "utils/relcache.h"

#include "../job.h"

#define PLAN_SOURCE		"source"	/* what a statement calls the table that is scanned */

typedef struct PlanWork
{
	JobPlan    *plan;
	const JobRequest *request;
	const InferModel *model;
	const char *verb_name;

	/* source.c */
	Relation	table;				/* NULL: the source is a query */
	const char *what;				/* the source, for messages */
	SelectStmt *from;				/* SELECT FROM the source, without targets */
	List	   *columns;			/* TargetEntry: what the source has; of a table Vars */
	Query	   *plain;				/* the query, if it is a plain scan; else NULL */

	/* columns.c */
	Relation	target;				/* the table that is written */
	List	   *keys;				/* char *: the columns' names in the source */

	/* inputs.c */
	Query	   *read;				/* SELECT keys, inputs FROM the source */
} PlanWork;

/* ---- parse.c: argument is its name, for the error's context ---- */

/* A select list: ResTarget. */
extern List *plan_parse_list(const char *text, const char *argument);
extern Node *plan_parse_condition(const char *text, const char *argument);
extern SelectStmt *plan_parse_query(const char *text, const char *argument);

/* Identifiers with commas between them: char *, folded unless quoted.  Raises for none, and one twice. */
extern List *plan_parse_names(const char *text, const char *argument);
extern char *plan_parse_name(const char *text, const char *argument);	/* exactly one */

/* Analyses it (it is copied); text is where its errors are shown. */
extern Query *plan_analyse(const SelectStmt *statement, const char *text, const char *argument);

/* For messages: as SQL writes them, or each in double quotes. */
extern const char *plan_names_list(const List *names, bool as_sql);

extern ResTarget *plan_column_target(const char *name);

/* ---- source.c ---- */

extern void plan_source(PlanWork *work);

/* When the keys of a query are known: whether it is a plain scan by them, and in which order. */
extern void plan_query_keys(PlanWork *work);

/* When keys and inputs are known (work->read): scan or not, and the statement. */
extern void plan_read(PlanWork *work);

/* ---- columns.c ---- */

/* Raises unless it is a permanent table whose rows can be read by key, and written. */
extern void plan_check_table(Relation relation, const char *argument);

/* Opens it and locks it; name: as it was called, for the error if it is gone. */
extern Relation plan_open(Oid oid, const char *name);

extern void plan_target(PlanWork *work);
extern void plan_keys(PlanWork *work);

/* When the columns that are written are known: whether a new row can be made of them. */
extern void plan_check_new_rows(PlanWork *work);

/*
 * The columns of a unique index that knows each row of the table (char *), in its order: of exactly these columns, or
 * (NIL) of the primary key.  NIL: there is none.
 */
extern List *plan_unique_names(Relation relation, List *names);

extern bool plan_has_name(const List *names, const char *name);		/* of char * */
extern void plan_column_type(JobColumn *column, Oid type, int32 typmod, Oid collation);

/* ---- verb.c ---- */

extern void plan_output(PlanWork *work);	/* output and version column, verb */
extern void plan_call(PlanWork *work);		/* when inputs are known */

/* ---- inputs.c ---- */

extern void plan_inputs(PlanWork *work);

/* ---- rights.c ---- */

extern void plan_check_role(void);
extern void plan_check_statements(const JobPlan *plan);

#endif							/* INFER_JOBS_PLAN_PARTS_H */
