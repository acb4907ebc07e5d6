/*
 * fresh.h
 *	  Columns that are kept fresh, and what the files of fresh/ share.
 *
 * Nouns
 *	kept column	a row of infer.fresh and two triggers of its table
 *	definition	what is computed from what: input, output, version column, key, condition; it stands in the
 *				keeping trigger's WHEN, where PostgreSQL itself follows renames, keeps dependencies and dumps it
 *	version column	says what made the value of its row: "model@version", or the version's number; that with
 *				" failed" behind it, or below zero, that the version failed on it; NULL: something changed since
 *	stale		a row whose version column is not the active version, failed or not
 *	mark		in shared memory: rows of a kept column may be stale, "rows": those with NULL only
 *
 * Loop
 *	A row that is inserted or changed makes its transaction mark the column at commit, as does a version that is
 *	activated.  The scanner makes a job of marks, whose condition says which rows; the job's beginning takes the
 *	marks it serves, and they are served when it has completed: what is marked later leads to another one.
 *
 * Invariants
 *	- Marks only say more than there is, never less: a kept column that has no place in shared memory yet, since
 *	  the server's start, is marked when it gets one.
 *	- Nobody but the runner, as the keeping role, evaluates a definition.  The scanner only writes it down.
 *	- The keeping role is a member of the role that owns the table, superuser or not: checked for each job.
 *	- A row of infer.fresh is written under fresh_lock(), for which the scanner does not wait.
 *
 * Files
 *	table.c		infer.fresh ⇄ structs				define.c		arguments → triggers
 *	definition.c	triggers → texts
 *	triggers.c	what the triggers call				version.c		what a settled row says
 *	notes.c		in a transaction, until its commit	marks.c			in shared memory (places.h)
 *	keep.c		the SQL functions					shown.c			what is to be seen
 *	scan.c		marks → jobs
 *	failed.c	rows that a version fails on
 */
#ifndef INFER_FRESH_H
#define INFER_FRESH_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "../../catalog/internal.h"
#include "../job.h"

/* ---- table.c ---- */

typedef struct Fresh				/* a row of infer.fresh */
{
	int64		number;
	Oid			owner;				/* the keeping role */
	char	   *owner_name;
	Oid			table;				/* InvalidOid: restored, and not seen with its triggers yet */
	pg_uuid_t	model_id;
	int32		model_version;		/* 0: whichever is active */
	List	   *input_names;		/* char *; NIL: found by the model's features */
	char	   *verb;				/* NULL: by the output's type */
	char	   *class_;
	Jsonb	   *options;
	int32		priority;
	char	   *search_path;		/* of the session that keeps it; so the next two */
	char	   *time_zone;
	char	   *date_order;
	int64		job;				/* the last one; 0: none */
	int64		job_before;			/* that it follows, and that is dropped when it has ended well */
	ItemPointerData tid;
} Fresh;

/* Until the transaction's end; false: wait was false and somebody else has it. */
extern bool fresh_lock(int64 number, bool wait);
extern int64 fresh_next_number(void);
extern void fresh_insert(const Fresh *fresh);
extern void fresh_update(Fresh *fresh);
extern void fresh_delete(Fresh *fresh);
extern Fresh *fresh_get(int64 number);	/* NULL: there is none */
extern List *fresh_list(void);		/* of Fresh * */

/* ---- define.c, definition.c ---- */

typedef struct FreshDefinition
{
	const char *damaged;			/* why it is not to be believed; NULL: it is */
	Oid			trigger;			/* that keeps */
	Oid			table;
	char		enabled;			/* as pg_trigger.tgenabled */
	AttrNumber	output;
	AttrNumber	version;
	/* texts that mean the same in any session; NULL where the table was locked */
	char	   *table_sql;
	char	   *input;				/* a select list */
	char	   *output_sql;
	char	   *version_sql;
	Oid			version_type;
	char	   *key;				/* NULL: the primary key */
	char	   *condition;			/* NULL: none */
} FreshDefinition;

/*
 * The table's triggers for a request whose plan is right; dependencies on them; fills in input_names and table.
 * Raises 0A000 for what cannot be watched.  The table is locked as for CREATE TRIGGER.
 */
extern void fresh_define(Fresh *fresh, Relation table, const JobRequest *request, const JobPlan *plan, Oid server);

/* Expressions are written so that they mean the same in any session, as pg_dump does; until AtEOXact_GUC. */
extern int	fresh_begin_writing(void);

/* Of each kept column with a trigger in this database, without the texts; also two for one number. */
typedef struct FreshTrigger
{
	int64		number;
	FreshDefinition definition;
	Node	   *qual;
} FreshTrigger;

extern List *fresh_triggers(void);

/* The keeping trigger of one, by its name; InvalidOid: it is not known where, or not there. */
extern Oid	fresh_trigger_oid(const Fresh *fresh);

/*
 * The definition with its texts; NULL: there is none.  triggers: NIL to look for this one's only.  wait: for the table's
 * lock; otherwise the texts may be NULL, as they are of a damaged one.
 */
extern FreshDefinition *fresh_definition(const Fresh *fresh, List *triggers, bool wait);

/* Drops the triggers. */
extern void fresh_undefine(int64 number, const FreshDefinition *definition);

/* Dependencies that a dump does not carry. */
extern void fresh_depend(const Fresh *fresh, const FreshDefinition *definition, Oid server);

/* Both names of a kept column's triggers. */
extern char *fresh_trigger_name(int64 number);
extern char *fresh_clear_name(int64 number);

/* ---- version.c ---- */

typedef struct FreshVersion			/* what a settled row says */
{
	int32		number;				/* 0: not known */
	uint64		text_hash;			/* of name@version */
	uint64		failed_hash;		/* with " failed" */
} FreshVersion;

extern void fresh_version_make(const char *model, int32 number, FreshVersion *version);
extern char *fresh_version_text(const char *model, int32 number);
extern char *fresh_version_failed(const char *model, int32 number);
extern uint64 fresh_text_hash(const char *text, Size length);

/* Whether a version column's value, not NULL, says that version. */
extern bool fresh_version_says(const FreshVersion *version, Datum value, Oid type);

/* ---- notes.c ---- */

/* In a transaction: at its commit the column is marked. */
extern void fresh_mark(int64 number, bool all);
extern void fresh_note(int64 number, Datum version, bool isnull, Oid type);

/* ---- marks.c ---- */

typedef struct FreshMarks
{
	bool		known;				/* it has a place */
	bool		rows;				/* there are marks that no job has served */
	bool		all;
	bool		held;				/* its job was cancelled, and it has not been marked since */
	bool		prepared;			/* marks of prepared transactions wait for these to end */
	int32		failures;			/* of jobs in a row */
	uint32		all_count;			/* of marks of all rows */
} FreshMarks;

/* The place of a kept column, made (and marked) where it has none; false: there is no room. */
extern bool fresh_marks_get(int64 number, FreshMarks *marks);
extern void fresh_marks_peek(int64 number, FreshMarks *marks);
extern void fresh_marks_version(int64 number, const FreshVersion *version, FreshMarks *marks);
extern void fresh_marks_prepared(int64 number, bool none, FreshMarks *marks);
extern void fresh_marks_submitted(int64 number, int64 job, bool all, uint32 all_count);
extern void fresh_marks_ended(int64 number, int64 job, JobState state);
extern void fresh_marks_forget(int64 number);
extern void fresh_marks_all(int64 number);	/* marks all of it at once */

/* Forgets the places of this database's that are none of these numbers, and of databases that are gone. */
extern void fresh_marks_retain(List *fresh);

/* ---- scan.c ---- */

/* The rows of it that a job is for; failed_too: with those that the version has failed on. */
extern char *fresh_condition(const FreshDefinition *definition, const char *model, int32 version, bool all,
							 bool failed_too);

/* Why no job may be made for it, NULL: nothing; the model's name and version, where they are known. */
extern const char *fresh_problem(const Fresh *fresh, const FreshDefinition *definition, InferAnchor *anchor,
								 int32 *version);

#endif							/* INFER_FRESH_H */
