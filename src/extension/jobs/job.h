/*
 * job.h
 *	  What the files of jobs/ share.
 *
 * Nouns
 *	request		submit_job's arguments, as they were given; kept as jsonb with the job
 *	plan		what a request means: columns, types, model, verb, statements; worked out by submit_job,
 *				which raises what is wrong with it, and again by each runner
 *	key			the columns that a row is known by; in tables as the texts of their values
 *	row			an item: key, inputs as they were read, what became of it
 *	chunk		rows that are read, computed and written together, about a second's worth or less
 *	checkpoint	the last key, in order, up to which all rows are settled: written, or an item
 *	item		a row of infer.job_item: one that is not simply done
 *
 * Files
 *	tables/			infer.job, job_shard, job_item ⇄ structs			json.c		JSON objects, member by member
 *	submit/			submit_job, its arguments as jsonb; cancel, retry, wait, drop
 *	plan/			what a request means
 *	launcher/		what starts runners, ends jobs, and tells of both; slots
 *	runner/			the loop of a shard: its begin, chunk → engine → results, rows that come back, ends
 *	rows/			source → chunk, chunk → target; keys ⇄ texts
 *	lines/			jobs of JSON lines: in, computed, out
 *	fresh/			columns that are kept fresh
 *	manifest/		what is kept for the manifest, digests, and infer.job_manifest
 *
 * Invariants
 *	- A chunk's results, its items and its checkpoint commit in one transaction.
 *	- No transaction is open, and no lock held, while the engine computes.
 *	- Our own tables are read and written by C, without SPI; user's statements run by SPI, as the role
 *	  that submitted them.
 */
#ifndef INFER_JOB_H
#define INFER_JOB_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "datatype/timestamp.h"
#include "executor/spi.h"
#include "storage/itemptr.h"
#include "utils/array.h"
#include "utils/jsonb.h"

#include "../infer.h"
#include "../jobs.h"
#include "../verbs.h"

/* ---- states ---- */

typedef enum JobState
{
	JOB_VALIDATING,					/* submitted: waits for a slot, or is checked again */
	JOB_IN_PROGRESS,
	JOB_FINALIZING,
	JOB_COMPLETED,
	JOB_FAILED,
	JOB_EXPIRED,
	JOB_CANCELLING,
	JOB_CANCELLED
} JobState;

static inline bool
job_has_ended(JobState state)
{
	return state == JOB_COMPLETED || state == JOB_FAILED || state == JOB_EXPIRED || state == JOB_CANCELLED;
}

extern const char *job_state_name(JobState state);
extern JobState job_state_from_name(const char *name);	/* XX000 for none of them */

/* ---- submit/request.c ---- */

struct JobRecord;
struct JobPlan;

typedef struct JobRequest			/* NULL, 0: not given */
{
	char	   *model;				/* as given; pinned: see JobPlan.model_pinned */
	Oid			table;
	char	   *table_name;			/* as it was called when the job was submitted */
	char	   *input;				/* a select list */
	char	   *output;				/* identifiers, as in SQL: folded unless in double quotes */
	char	   *condition;
	char	   *source;				/* a query */
	char	   *key;				/* identifiers, with commas */
	Oid			target;
	char	   *target_name;
	char	   *verb;
	char	   *class_;
	char	   *version_column;
	char	   *name;
	int32		priority;
	Interval   *completion_window;
	Jsonb	   *options;
	double		max_failures;		/* 1 and more: a count; below 1: a share of the total; negative: no limit */
	int32		shards;
	char	   *search_path;		/* of the session that submitted it; so the next two */
	char	   *time_zone;
	char	   *date_order;			/* of its DateStyle: MDY, DMY or YMD */
	bool		requests;			/* lines of infer.job_request instead of rows: lines/ */
	int64		fresh;				/* the kept column whose stale rows it is for; 0: none */
} JobRequest;

#define JOB_MAX_FAILURES	10000	/* unless given; as in sql/jobs.sql */

/* job_request_to_jsonb also keeps the names of table and target: {"table": {"oid", "name"}, …}. */
extern Jsonb *job_request_to_jsonb(const JobRequest *request);
extern JobRequest *job_request_from_jsonb(const Jsonb *jsonb, MemoryContext context);

/* ---- submit/submit.c ---- */

/* The job's number; that of the unfinished one of the same owner and name, with a notice, if there is one. */
extern int64 job_submit(JobRequest *request);

/*
 * The same in steps: the one of that name, 0 for none (what request leaves to the session is filled in); then a
 * record for a new one, with its number, for job_insert and infer_jobs_changed.
 */
extern int64 job_submit_find(JobRequest *request);
extern void job_submit_record(struct JobRecord *record, const JobRequest *request, const struct JobPlan *plan);

/* Sets search_path, time_zone and date_order as they are in this session; job_submit does it where there is no search_path. */
extern void job_request_note_session(JobRequest *request);

/* An unfinished job of that owner and name, 0: none; nobody else makes one until the transaction's end. */
extern int64 job_find_named(Oid owner, const char *name);

extern TimestampTz job_time_after(TimestampTz time, Interval *interval);
extern TimestampTz job_expiry(const JobRequest *request, TimestampTz submitted);	/* 0: none */

/* Raises where nothing can be written, or no job can run. */
extern void job_check_may_write(const char *function);

/* ---- submit/control.c ---- */

/* As it is now; raises unless there is such a job, and the current user has its owner's rights. */
extern struct JobRecord *job_find(int64 job);

/* Raises unless it has; what: "dropped". */
extern void job_check_ended(const struct JobRecord *record, const char *what);

/* ---- tables/ ---- */

typedef struct JobTotals			/* sums over a job's shards */
{
	int64		done;
	int64		failed;
	int64		gone;
	int64		expired;
	int64		cancelled;
	int64		recomputed;
	int64		tokens;
	int32		shards;
} JobTotals;

typedef struct JobRecord			/* a row of infer.job */
{
	int64		job;
	char	   *origin;
	char	   *name;				/* NULL: none */
	Oid			owner;
	char	   *owner_name;
	char	   *model;
	JobState	state;
	char	   *sqlstate;			/* NULL: none */
	char	   *message;			/* likewise */
	int32		priority;
	Jsonb	   *request;
	int64		total;				/* -1: not known */
	bool		total_estimated;
	int32		faults;
	TimestampTz submitted;
	TimestampTz started;			/* 0: not; so the others */
	TimestampTz finished;
	TimestampTz expires;
	TimestampTz resume_at;			/* of all shards, or of a job that has none yet */
	Jsonb	   *facts;				/* job_facts(); NULL: none */
	JobTotals  *totals;				/* of a job that has ended, here; NULL: it has not */
	/* where it was read */
	ItemPointerData tid;
	TransactionId xmin;
} JobRecord;

typedef struct JobKey				/* texts of the key's columns; count 0: none */
{
	int			count;
	char	  **texts;
} JobKey;

#define JOB_DIGEST_BYTES 16

typedef struct JobShard				/* a row of infer.job_shard */
{
	int64		job;
	int32		shard;
	bool		completed;
	JobKey		low;
	JobKey		high;
	JobKey		checkpoint;
	bool		read_to_end;
	int64		done;
	int64		failed;
	int64		gone;
	int64		expired;
	int64		cancelled;
	int64		recomputed;
	int64		tokens;
	int64		chunks;
	double		rows_per_second;	/* negative: not known */
	double		read_time;			/* ms, and the next four */
	double		prepare_time;
	double		queue_time;
	double		compute_time;
	double		write_time;
	uint8		input_digest[JOB_DIGEST_BYTES];
	uint8		output_digest[JOB_DIGEST_BYTES];
	int32		starts;
	TimestampTz started;
	TimestampTz updated;
	Jsonb	   *engines;			/* job_note_engine(); NULL: none yet */
	int32		faults;				/* in a row, of its runner's, which has left it or waits */
	TimestampTz resume_at;			/* 0: at once */
	ItemPointerData tid;
} JobShard;

typedef enum JobItemState
{
	JOB_ITEM_PENDING,
	JOB_ITEM_FAILED,
	JOB_ITEM_EXPIRED,
	JOB_ITEM_CANCELLED
} JobItemState;

typedef struct JobItem				/* a row of infer.job_item */
{
	int64		job;
	int32		shard;
	int64		item;				/* 0: a new one */
	JobKey		key;
	JobItemState state;
	int32		attempts;
	char	   *sqlstate;
	char	   *message;
	bool		retryable;
	TimestampTz due;
	TimestampTz updated;
	ItemPointerData tid;
} JobItem;

/* The server and the installation of the extension in this database; palloc'd. */
extern char *job_origin(void);

/*
 * State of a job changes under this lock only, which lasts until the transaction's end.  Progress (job_shard,
 * job_item) is its runner's alone and needs none.  false: wait was false and somebody else has it.
 */
extern bool job_lock(int64 job, bool wait);

/* Until the transaction's end, nobody else submits jobs of that owner and name. */
extern void job_lock_name(Oid owner, const char *name);

/*
 * Latest committed rows, and those of the own transaction.  Allocated in the current memory context.
 * update: of the row as it was read (tid): nobody else may have changed it.
 */
extern int64 job_next_number(void);
extern void job_insert(const JobRecord *record);
extern JobRecord *job_get(int64 job);		/* NULL: there is none */
extern void job_update(JobRecord *record);	/* tid and xmin become those of the new row */
extern void job_delete(int64 job);			/* with shards, items, inputs */

/* The first job after that one that has rows in infer.job_input (0: none); deletes up to max of them, false: all. */
extern int64 job_input_next(int64 after);
extern bool job_input_delete_some(int64 job, int max);

/* The same for all that job_delete() deletes but the job and its shards. */
extern bool job_delete_some(int64 job, int max);

/*
 * Each job that has not ended; each that has, in the order of their ends.  The others are freed meanwhile; false
 * from each: no more of them.
 */
extern void job_each_unfinished(bool (*each) (JobRecord *record, void *arg), void *arg);
extern void job_each_ended(bool (*each) (JobRecord *record, void *arg), void *arg);

extern void job_shard_insert(JobShard *shard);
extern JobShard *job_shard_get(int64 job, int32 shard);
extern JobShard **job_shards(int64 job, int *count);	/* by number */
extern JobShard **job_shards_locked(int64 job, int *count); /* until the transaction's end */
extern void job_shard_update(JobShard *shard);

extern void job_item_insert(JobItem *item);	/* gives it the next number */
extern void job_item_update(JobItem *item);
extern void job_item_delete(JobItem *item);

/*
 * Items of a shard (0: of all) in that state, by number, above the item after; at most max.  due: pending ones
 * that are due by then (0: whatever).  *next_due: the earliest of those that are not; 0: none.
 */
extern JobItem *job_items(int64 job, int32 shard, JobItemState state, int64 after, int max, TimestampTz due,
						  int *count, TimestampTz *next_due);
extern int64 job_items_count(int64 job, int32 shard, JobItemState state);

/* ---- manifest/manifest.c ---- */

/*
 * Whether the current user has the rights of a job's owner.  Of a job that was submitted elsewhere (a dump's)
 * the owner is the role of that name, if there is one.
 */
extern bool job_is_owned(const JobRecord *record);

/* ---- plan/ ---- */

typedef struct JobColumn
{
	char	   *sql;				/* as it is written in a statement: a quoted name, or an expression */
	char	   *name;				/* of a column; of an expression what SQL would call it */
	Oid			type;
	int32		typmod;
	Oid			collation;
	int16		length;
	bool		by_value;
	char	   *type_sql;			/* format_type_with_typemod, qualified */
	AttrNumber	number;				/* of a plain column in its table; 0: an expression */
} JobColumn;

typedef enum JobSource
{
	JOB_SOURCE_SCAN,				/* a table, or a query that is a plain scan of one: read by key, in order */
	JOB_SOURCE_INPUT,				/* a query, whose rows are put into infer.job_input first */
	JOB_SOURCE_REQUESTS				/* infer.job_request */
} JobSource;

typedef enum JobTarget
{
	JOB_TARGET_UPDATE,				/* the output column of the scanned table itself */
	JOB_TARGET_INSERT,				/* INSERT ... ON CONFLICT (key) DO UPDATE */
	JOB_TARGET_RESPONSES			/* infer.job_request */
} JobTarget;

typedef struct JobPlan
{
	MemoryContext context;			/* of everything here */
	const JobRequest *request;

	InferModel *model;				/* as resolved; its version is the job's */
	char	   *model_pinned;		/* name@version */
	const InferVerbDef *verb;
	FuncExpr   *call;				/* for infer_site_make: its arguments are Params or Consts of the right types */
	int			arguments_count;	/* of call */

	JobSource	source;
	Oid			table;				/* that is scanned; invalid for JOB_SOURCE_INPUT */
	char	   *table_sql;			/* its qualified, quoted name */

	/*
	 * Of a scan: "FROM ... AS source WHERE (...)", without the key's range; the sql of keys and inputs says
	 * "source.column".  Else the whole query, whose columns are the keys and then the inputs.
	 */
	char	   *from_sql;
	int			keys_count;
	JobColumn  *keys;				/* NOT NULL and unique in a scanned table, in the order of its index; of a query as it comes */
	int			inputs_count;
	JobColumn  *inputs;
	bool		as_row;				/* the model takes the inputs as one row (row_desc), else one by one */
	TupleDesc	row_desc;			/* blessed */

	JobTarget	target;
	Oid			target_table;
	char	   *target_sql;
	JobColumn  *target_keys;		/* keys_count of them; sql here, of output and version_column is the quoted name alone */
	JobColumn	output;
	JobColumn  *version_column;		/* NULL: none; of an integer type it gets the version's number, else model_pinned */
	Oid			result_type;		/* of the verb, before it is assigned to the output */
	bool		unchanged;			/* rows of the source are compared with what was read, when they are written */
} JobPlan;

/*
 * Works out what a request means, as the current user and under the current search_path (the runner sets the
 * request's).  Raises what is wrong with it: 22023, 42703, 42P01, 42501, 42804, 42830 ...  In a transaction.
 */
extern JobPlan *job_plan_make(const JobRequest *request, MemoryContext context);

/* ---- chunks ---- */

typedef enum JobOutcome
{
	JOB_ROW_READ,					/* not computed yet */
	JOB_ROW_COMPUTED,				/* result is there */
	JOB_ROW_WRITTEN,
	JOB_ROW_LOCKED,					/* by somebody else: comes back */
	JOB_ROW_CHANGED,				/* since it was read: comes back */
	JOB_ROW_GONE,					/* deleted, or not to be computed any more */
	JOB_ROW_TRANSIENT,				/* error is one that may not be there next time */
	JOB_ROW_FAILED					/* error is the row's */
} JobOutcome;

typedef struct JobRow
{
	Datum	   *keys;				/* in the chunk's context, detoasted, as the inputs */
	Datum	   *inputs;
	bool	   *inputs_null;
	Oid			tableoid;			/* of a scan: the version of the row that was read */
	Oid			file;				/* of the table then: rewritten, it has other rows in the same places */
	ItemPointerData tid;
	TransactionId xmin;
	TransactionId horizon;			/* transactions before had ended then */
	int64		number;				/* of infer.job_input */
	JobItem    *item;				/* NULL: read in order */
	int			request;			/* of the chunk, and the ticket there */
	int			ticket;				/* or INFER_TICKET_NULL */
	JobOutcome	outcome;
	Datum		result;
	bool		result_null;
	ErrorData  *error;
} JobRow;

#define JOB_CHUNK_REQUESTS	4		/* to the engine, at most */
#define JOB_CHUNK_BYTES		(8 << 20)	/* of keys and inputs, beyond one row */

struct LinesChunk;					/* lines/ */
struct LinesRun;

typedef struct JobChunk
{
	MemoryContext context;			/* of rows and results */
	int64		number;
	bool		of_items;
	int			rows_count;
	JobRow	   *rows;
	bool		last;				/* nothing was left to read behind it */
	bool		careful;			/* an engine died while it computed these rows */
	bool		is_cut;				/* rows were read that found no room: see job_compute_fill */
	InferRows  *requests[JOB_CHUNK_REQUESTS];
	int			requests_count;
	instr_time	begun;				/* when it was read, how long that took, and writing it */
	instr_time	read_time;
	instr_time	write_time;
	InferSiteCounters used;			/* what computing it added to the site's */
	struct LinesChunk *lines;		/* JOB_SOURCE_REQUESTS: lines/compute.c's own */
} JobChunk;

typedef struct JobRun				/* a runner's work */
{
	MemoryContext context;
	JobRecord  *record;
	JobShard   *shard;
	JobPlan    *plan;
	InferSite  *site;
	struct JobReader *reader;		/* rows/read.c's own */
	struct JobWriter *writer;		/* rows/write.c's own */
	struct LinesRun *lines;			/* JOB_SOURCE_REQUESTS: instead of site */
	Datum	   *position;			/* keys of the last row that was read, in context; NULL: none */
	InferScope	scope;				/* of all results, as equal rows have those of chunks before */
} JobRun;

/* ---- rows/keys.c ---- */

/* The texts of a row's key; and back, NULL for none.  In the current memory context. */
extern void job_key_make(const JobPlan *plan, const Datum *values, JobKey *key);
extern Datum *job_key_values(const JobPlan *plan, const JobKey *key);

/*
 * ---- rows/read.c: in a short transaction of the caller's, with SPI connected or not ----
 *
 * A table that somebody else has locked is 55P03 after lock_timeout: no fault of the job's, it waits.
 */

extern struct JobReader *job_reader_make(JobRun *run);

/*
 * JOB_SOURCE_INPUT: reads the query into infer.job_input, in the caller's transaction; returns the rows.  Raises 22004 for
 * a key that is NULL, 23505 for one that is there twice.  Before count and ranges.
 */
extern int64 job_reader_materialise(JobRun *run);

/* The rows of a source: exact where that is cheap, else an estimate. */
extern int64 job_reader_count(JobRun *run, bool *estimated);

/*
 * The bounds between shards ranges of keys of about equal size, each the last key of one: so one less than ranges, and
 * fewer where there are not that many keys.
 */
extern JobKey *job_reader_ranges(JobRun *run, int shards, int *count);

/*
 * The next rows behind run->position, which moves on; up to rows_max of them and JOB_CHUNK_BYTES.  Where few rows
 * meet a condition it may be none, and yet not the last chunk.  Before the first read the caller sets run->position
 * to job_key_values of the checkpoint, or to NULL: from the shard's low key.  Later ones are the reader's.
 */
extern void job_read(JobRun *run, JobChunk *chunk, int rows_max);

/* The rows of these items as they are now; those that are not there any more are JOB_ROW_GONE. */
extern void job_read_items(JobRun *run, JobChunk *chunk, JobItem *items, int items_count);

/* Have the next job_read begin behind this row of a chunk that was read (it was not sent). */
extern void job_read_back(JobRun *run, const JobRow *row);

/* ---- rows/write.c: in a transaction of the caller's ---- */

extern struct JobWriter *job_writer_make(JobRun *run);

/*
 * Writes the rows that are JOB_ROW_COMPUTED, each of which becomes WRITTEN, LOCKED, CHANGED, GONE, TRANSIENT
 * or FAILED.  Waits for nobody: what somebody else has locked is LOCKED.  Errors of a row are its own; others
 * (a table that is gone, a privilege) are raised.
 */
extern void job_write(JobRun *run, JobChunk *chunk);

/* ---- runner/compute.c ---- */

/* The site, or what lines have instead. */
extern void job_compute_begin(JobRun *run);

/*
 * Has the rows that are JOB_ROW_READ ready to be sent.  In the transaction that read them.  Rows at the end that
 * found no room are cut off the chunk (never the first): the caller reads them again.
 */
extern void job_compute_fill(JobRun *run, JobChunk *chunk);

/* Sends them, and waits for them.  In no transaction: both may have to wait for the engine. */
extern void job_compute_send(JobRun *run, JobChunk *chunk);
extern void job_compute_wait(JobRun *run, JobChunk *chunk);

/*
 * Rows become COMPUTED, TRANSIENT or FAILED; the engine's requests are given back.  In the transaction that
 * writes them.  Raises IF005: it is nobody's row's.
 */
extern void job_compute_collect(JobRun *run, JobChunk *chunk);

/* The site's; of lines, their sites' sums. */
extern void job_compute_counters(const JobRun *run, InferSiteCounters *counters);

/* Whether an error may be gone when it is tried again. */
extern bool job_error_is_transient(int sqlerrcode);

/* Whether it tells of other transactions: it will be gone when they have ended, however long that takes. */
extern bool job_error_is_of_others(const ErrorData *error);

/* ---- manifest/digest.c ---- */

/* Adds a written row to the shard's digests: sums of hashes, so in any order. */
extern void job_digest_add(const JobPlan *plan, const JobRow *row, JobShard *shard);

/* Adds another shard's. */
extern void job_digest_sum(uint8 *digest, const uint8 *other);

/* ---- runner/finish.c ---- */

/*
 * Ends a job, in whatever state: its shards have ended (a runner that still writes for one finds its row changed,
 * and its transaction is lost); what was left of it is counted as expired or cancelled, where that is the state;
 * infer_jobs is notified and the log told.  In a transaction with job_lock(), of the record as it is now.
 * message, sqlstate: NULL: none.
 */
extern void job_end(JobRecord *record, JobState state, const char *sqlstate, const char *message);

/* ---- manifest/facts.c: what the manifest needs and nobody knows later ---- */

/*
 * What a plan means: the model with its digest, the statements and their fingerprint, types, versions.  For
 * JobRecord.facts, when the job is submitted.  In the current memory context.
 */
extern Jsonb *job_facts(const JobPlan *plan);

/* The name@version of a job's model, which may have been renamed since; as it was if there is none any more. */
extern char *job_model_now(const JobRecord *record);

/*
 * Raises 55000 unless the plan's model is the one that the job was submitted with: name@version may have been
 * made anew since.
 */
extern void job_facts_check(const JobRecord *record, const JobPlan *plan);

/* The same of the plan's model, under the active snapshot: it may have been made anew since the plan was. */
extern void job_model_check(const JobPlan *plan);

/*
 * Adds the engine, its device and its settings to shard->engines, in context, if they are others than what is
 * there.  After each chunk that was computed, before the transaction that writes it: it costs next to nothing
 * while no other engine has been started.  Raises as calls do (IF001 ...) where the engine is lost.
 */
extern void job_note_engine(JobShard *shard, MemoryContext context);

/* An array of engines, with those of another one that it has not. */
extern Jsonb *job_engines_add(Jsonb *engines, Jsonb *more);

/* ---- fresh/ ---- */

/*
 * The scanner's, in no transaction: makes jobs of kept columns that may have stale rows; whether it made any.
 * again: when to scan the database again, whatever happens; 0: need not.  Raises nothing.
 */
extern bool job_fresh_scan(TimestampTz *again);

/* A runner's, for a job of a kept column, when it prepares it: before its first snapshot of the rows. */
extern void job_fresh_begin(int64 fresh, int64 job);

/*
 * Likewise, in the transaction that writes a chunk, when its rows are settled: those that are JOB_ROW_FAILED are marked
 * as such in the version column, so that the next job leaves them out.
 */
extern void job_fresh_failed(const JobRun *run, const JobChunk *chunk);

/* ---- launcher/ ---- */

#define JOB_SLOTS_MAX	64			/* infer.max_job_workers at most */

typedef enum JobPhase
{
	JOB_PHASE_STARTING,
	JOB_PHASE_READING,
	JOB_PHASE_COMPUTING,
	JOB_PHASE_WRITING,
	JOB_PHASE_ENDING
} JobPhase;

/* ---- in a runner ---- */

/*
 * The job and shard (0: a job without shards, which is to be prepared) that this runner was started for.  Call
 * it first, before the connection.  From then on the slot is given back at exit, and the launcher told: exit
 * code 0 is a runner that left in good order, any other a death, whose last error the scanner judges.
 *
 * Then, in a first transaction: job_lock(), and job_get() anew (it may have ended meanwhile: leave with 0);
 * faults + 1, which says that a run has begun; job_slot_phase(JOB_PHASE_READING, ...) after its commit.  With the
 * first chunk that is committed, and as it leaves in good order, a runner sets faults back to 0.  So a job that
 * ends its runner each time, or the whole server, is found: above JOB_FAULTS_MAX the scanner ends it.
 */
extern void job_slot_attach(Datum arg, Oid *database, Oid *owner, int64 *job, int32 *shard);

/* The one that prepared the job goes on with this shard; others may now start. */
extern void job_slot_shard(int32 shard);

/* What infer.jobs shows of it. */
extern void job_slot_phase(JobPhase phase, int64 chunk, int rows);

/* Whether infer.cancel_job asked for its end (committed; its state is JOB_CANCELLING). */
extern bool job_slot_is_cancelled(void);

/* Whether others wait for a slot, or it must be left. */
extern bool job_slot_is_wanted(void);

/*
 * Whether to leave after the next checkpoint, in good order: infer.max_job_workers has been lowered, or somebody
 * wants the database for himself (DROP DATABASE, CREATE DATABASE ... TEMPLATE), who does not wait long.
 */
extern bool job_slot_must_leave(void);
extern bool job_database_is_wanted(void);

/*
 * Whether a statement has begun that will want the database: one of ours that runs long is ended then, and
 * whether to leave is looked at; and that this was done.  For signal handlers, which cannot look at locks.
 */
extern bool job_slot_makes_way(void);
extern void job_slot_made_way(void);

/* ---- in a session ---- */

/* infer_jobs_changed(), and at the commit the job's runners are told: job_slot_is_cancelled(). */
extern void infer_jobs_cancel(int64 job);

/* At once.  Never raises. */
extern void job_slots_cancel(Oid database, int64 job);
extern void job_slots_make_way(Oid database);

#endif							/* INFER_JOB_H */
