/*
 * rows.h
 *	  What the files that read and write rows share.
 *
 * Nouns
 *	statement	a saved plan of a user's tables, made when it is first needed
 *	given		rows that a statement is given as a relation: infer_job_row, of which plans know the
 *				columns, and each execution the rows
 *
 * Files
 *	statement.c		statements, and what they are given		attempt.c		steps that may fail
 *	read.c			job.h's calls, and the chunk as a receiver of rows
 *	read_scan.c		rows of a table, in the order of their key		read_input.c	those of infer.job_input
 *	sample.c		how many rows there are, and where ranges of them end
 *	write.c			job.h's calls, subtransactions, and rows whose write fails
 *	write_lock.c	the rows as they are now, locked where nobody else has
 *	write_update.c, write_insert.c		what is written how
 */
#ifndef INFER_JOB_ROWS_H
#define INFER_JOB_ROWS_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "tcop/dest.h"
#include "utils/portal.h"
#include "utils/tuplestore.h"

#include "../job.h"

/* ---- attempt.c ---- */

/*
 * Runs it in a subtransaction; NULL: it succeeded.  Else its error, in the current memory context, and all is as it was
 * before.
 */
extern ErrorData *job_attempt(void (*step) (void *arg), void *arg);

/* Whether an expression may have raised it because of a row's values. */
extern bool job_error_may_be_of_row(int sqlerrcode);

/* ---- statement.c ---- */

#define JOB_GIVEN	"infer_job_row"	/* the name of the relation in a statement */

typedef struct JobStatement
{
	SPIPlanPtr	plan;				/* NULL: not made yet */
	TupleDesc	given;				/* NULL: none */
} JobStatement;

/* SPI connected, with a snapshot to plan with, and the caller's memory context again. */
extern void job_spi_begin(void);
extern void job_spi_end(void);

/* As SPI_execute of one statement, which must succeed. */
extern void job_spi_execute(const char *sql);

/* given: columns of the relation, or NULL.  cursor_options: CURSOR_OPT_CUSTOM_PLAN, ...  SPI is connected. */
extern void job_statement_prepare(JobStatement *statement, const char *sql, int parameters, Oid *types,
								  TupleDesc given, int cursor_options);

/* Statements end with that memory context: their plans lie elsewhere.  They lie in it themselves. */
extern void job_statements_end_with(MemoryContext context, JobStatement *statements, int count);

/* Gives the next execution its rows; job_statement_take ends that. */
extern void job_statement_give(const JobStatement *statement, Tuplestorestate *rows);
extern void job_statement_take(void);

/*
 * For the planner alone: what makes it read a table by the order of an index, or look up each row by itself.
 */
typedef enum JobPlanning
{
	JOB_PLANNING_FREE,
	JOB_PLANNING_BY_INDEX,
	JOB_PLANNING_BY_ROW
} JobPlanning;

/* Has a statement planned, if it is not: whatever its parameters. */
extern void job_statement_plan(const JobStatement *statement, JobPlanning planning);

typedef struct JobPlanned			/* what a query's plan does */
{
	bool		sorts;				/* all of its rows, before the first one */
	bool		filters;			/* rows that no index told apart */
	double		cost;				/* of all of its rows, without its limit */
} JobPlanned;

/*
 * Runs a query, which sends its rows to receive until that returns false.  accept, unless NULL, is asked first: false
 * leaves it at that.
 */
typedef bool (*JobReceive) (TupleTableSlot *slot, void *arg);
typedef bool (*JobAccept) (const JobPlanned *planned, void *arg);
extern void job_statement_query(const JobStatement *statement, Datum *values, JobPlanning planning,
								JobAccept accept, JobReceive receive, void *arg);

/* Runs a statement that returns nothing; the rows that it changed. */
extern uint64 job_statement_execute(const JobStatement *statement, Datum *values);

/* A row descriptor: names are c1, c2 ... */
extern TupleDesc job_given_columns(int count, const Oid *types);

/* ---- operators of keys: statement.c ---- */

typedef struct JobKeyType
{
	Oid			type;				/* no domain */
	int16		length;
	bool		by_value;
	Oid			collation;
	const char *less;				/* "OPERATOR(schema.<)" */
	const char *less_equal;
	const char *equal;
	const char *greater;
	const char *greater_equal;
	FmgrInfo	compare;
} JobKeyType;

extern JobKeyType *job_key_types(int count, const JobColumn *columns, MemoryContext context);
extern int	job_keys_compare(const JobKeyType *types, int count, const Datum *a, const Datum *b);

/* AND the key > (or <=) parameters from first_parameter on: indexable */
extern void job_sql_behind(StringInfo sql, const JobPlan *plan, const JobKeyType *types, int first_parameter);
extern void job_sql_up_to(StringInfo sql, const JobPlan *plan, const JobKeyType *types, int first_parameter);

/*
 * AND the columns, behind a prefix, = those of the given relation, from c<first> on, which are cast to their types, or have
 * them.
 */
extern void job_sql_equal_given(StringInfo sql, int count, const JobColumn *columns, const char *prefix,
								const JobKeyType *types, int first, bool cast);

extern void job_sql_columns(StringInfo sql, int count, const JobColumn *columns);	/* ", a, b" */
extern void job_sql_order(StringInfo sql, const JobPlan *plan, const JobKeyType *types);

/* from_sql, which can be continued by AND; and the same of all rows of the table. */
extern char *job_sql_from(const JobPlan *plan);
extern char *job_sql_from_all(const JobPlan *plan);

/* ---- readers ---- */

typedef struct JobReader JobReader;

enum								/* a reader's statements */
{
	JOB_READ_ROWS,					/* four: from the first key, behind a position; to the last key, up to one */
	JOB_READ_AHEAD = JOB_READ_ROWS + 4,	/* two: the key that is so many further, from the first, or behind a position */
	JOB_READ_ITEMS = JOB_READ_AHEAD + 2,
	JOB_READ_PLACE,					/* of a row with a key, whether it meets the condition or not */
	JOB_READ_STATEMENTS
};

typedef struct JobReaderOps
{
	int64		(*count) (JobRun *run, bool *estimated);
	JobKey	   *(*ranges) (JobRun *run, int shards, int *count);
	void		(*read) (JobRun *run, JobChunk *chunk, int rows_max);	/* moves run->position on */
	void		(*read_items) (JobRun *run, JobChunk *chunk);
	void		(*read_back) (JobRun *run, const JobRow *row);	/* beyond run->position; may be NULL */
} JobReaderOps;

struct JobReader
{
	const JobReaderOps *ops;
	JobKeyType *key_types;
	Datum	   *low;				/* of the shard; NULL: from the first */
	Datum	   *high;				/* NULL: to the last */
	MemoryContext positions[2];		/* run->position is in one of them */
	int			position_at;

	/* of a scan */
	char	   *from;
	JobStatement statements[JOB_READ_STATEMENTS];
	int			sorted;				/* times that a full chunk was sorted */
	bool		by_index;			/* planner is told to read by the index */
	int64		keys_ahead;			/* that a read passes over at most; 0: no matter */
	int64		keys_careful;		/* likewise, near a row that cannot be read: see runner/reading.c */

	/* of infer.job_input */
	bool		placed;				/* the next two are known */
	int64		number;				/* of the last row that was read */
	int64		number_high;		/* of the last one of the shard */
	FmgrInfo   *functions;			/* input functions of keys and inputs */
	Oid		   *parameters;
	int32	   *typmods;
};

extern const JobReaderOps job_reader_scan_ops;
extern const JobReaderOps job_reader_input_ops;
extern const JobReaderOps job_reader_lines_ops;	/* lines/rows.c */

/* Where rows are being put. */
typedef struct JobFilling
{
	JobRun	   *run;
	JobChunk   *chunk;
	int			rows_max;
	int			rows_space;
	Size		bytes;
	bool		full;				/* something was left */
	char	   *carved;				/* the next piece of memory */
	Size		carved_left;		/* bytes behind it */
	Oid			tableoid;			/* of a scan: the last row's, and its file */
	Oid			file;
} JobFilling;

/* NULL: full.  A new row with room for its keys and inputs. */
extern JobRow *job_filling_row(JobFilling *filling);

/* Copies a value into the chunk, detoasted; counts its bytes. */
extern Datum job_filling_value(JobFilling *filling, Datum value, int16 length, bool by_value);

/* Sets run->position to a copy of these; NULL: none. */
extern void job_reader_move(JobRun *run, const Datum *keys);

/*
 * A scan's next row behind run->position, whether it meets the condition or not; false: there is none.  And the
 * row with row->keys.  Sets place and keys, not the inputs.  In the current memory context.
 */
extern bool job_scan_next(JobRun *run, JobRow *row);
extern bool job_scan_place(JobRun *run, JobRow *row);

/* ---- writers ---- */

typedef struct JobWriter JobWriter;

enum								/* a writer's statements */
{
	JOB_WRITE_ROWS,
	JOB_WRITE_NOW,					/* rows as they are now: see job_rows_look */
	JOB_WRITE_THERE,
	JOB_WRITE_TARGET_THERE,			/* of an INSERT */
	JOB_WRITE_TARGET_LOCK,
	JOB_WRITE_STATEMENTS
};

typedef struct JobWriterOps
{
	/*
	 * Within a subtransaction and SPI: the rows become WRITTEN, LOCKED, CHANGED or GONE; or whatever error
	 * stops them is raised.  No rows: runs the statement all the same.  surely: takes the rows' locks first, so
	 * that nobody else comes in between; else looks only whether they are free, and raises 40001 or 55P03 if
	 * somebody did come.
	 */
	void		(*write) (JobRun *run, JobRow **rows, int count, bool surely);

	/* NULL: nothing to be done after an error */
	void		(*give_up) (void);
} JobWriterOps;

struct JobWriter
{
	const JobWriterOps *ops;
	JobKeyType *key_types;			/* of the source */
	JobKeyType *target_key_types;
	JobStatement statements[JOB_WRITE_STATEMENTS];
	MemoryContext context;			/* of one try */
	int			surely;				/* so many chunks more are written with their locks taken first */
};

/*
 * Runs the statement that writes these rows, which become WRITTEN.  given: or NULL.  Raises 09000 if it wrote fewer.
 */
extern void job_rows_write(JobRun *run, const JobStatement *statement, JobPlanning planning, Datum *values,
						   Tuplestorestate *given, JobRow **rows, int count);

extern const JobWriterOps job_writer_update_ops;
extern const JobWriterOps job_writer_insert_ops;

/* ---- write_lock.c ---- */

typedef enum JobLook
{
	JOB_LOOK_ONLY,					/* whatever others have locked */
	JOB_LOOK_FREE,					/* rows that seem to be free are taken for that */
	JOB_LOOK_LOCK					/* rows are locked */
} JobLook;

/*
 * Looks at the versions of the rows that were read.  Those that are still the latest ones stay COMPUTED; the
 * others, too, if they are found by their key with the same inputs, and then become what was found.  The rest
 * become LOCKED, CHANGED or GONE.
 */
extern void job_rows_look(JobRun *run, JobRow **rows, int count, JobLook how);

/* Whether the version that was read is still there, and the latest one that the active snapshot sees. */
extern bool job_row_stays(const JobPlan *plan, const JobRow *row);

/* Rows of the target with the keys of rows that are COMPUTED: locked, or else the row becomes LOCKED. */
extern void job_rows_lock_target(JobRun *run, JobRow **rows, int count);

/* The value for the version column, as SQL. */
extern char *job_version_sql(const JobPlan *plan);

/* Raises 55P03 at once if the table is locked by somebody else in a way that keeps us out. */
extern void job_table_lock(Oid table, LOCKMODE mode);

/* ---- sample.c ---- */

extern int64 job_scan_count(JobRun *run, bool *estimated);
extern JobKey *job_scan_ranges(JobRun *run, int shards, int *count);

#endif							/* INFER_JOB_ROWS_H */
