/*
 * lines.h
 *	  Files of JSON lines: requests in, responses out, as in the public batch file formats.
 *
 * Nouns
 *	line		of a file, by its number from 1; a row of infer.job_request
 *	url			what a line asks for: /v1/embeddings, /v1/rerank, /v1/infer
 *	ask			what a line's body means: calls of a verb, one for each text or document
 *	bad			a line that cannot be run; its row says why, and it fails when its turn comes
 *	response	the body of what a line was answered, as JSON text
 *
 * Files
 *	source.c	a file or a text as lines		validate.c	a line, as far as can be told without running it
 *	ask.c		a body, as verbs see it		table.c		infer.job_request ⇄ structs
 *	import.c	infer.submit_job_file, infer.import_requests		facts.c		what is kept of the models
 *	rows.c		a job of lines as the runner sees it
 *	compute.c	asks to the engine		respond.c	its answers as responses
 *	export.c	infer.export_results
 *
 * Invariants
 *	- What is wrong with a line is that line's own error.  Of the whole file: custom_ids that come twice, a
 *	  file without a line that can be run, one that cannot be read.
 *	- A line names a version of its model from the time of the import on.
 *	- A response's bytes depend on the request, the model's version and the numerics alone.
 */
#ifndef INFER_JOB_LINES_H
#define INFER_JOB_LINES_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

#include "../job.h"

#define LINES_BYTES_MAX		(16 << 20)	/* of one line */
#define LINES_CALLS_MAX		2048		/* texts of one line, as the public APIs bound them */
#define LINES_MODELS_MAX	64			/* names of models in one file */

/* ---- source.c ---- */

typedef struct LineSource LineSource;

/* In the server's own file, or in a text of the database's encoding. */
extern LineSource *line_source_file(const char *path);
extern LineSource *line_source_text(text *lines);

/*
 * The next line that is not blank; false: there is none.  It is terminated, holds until the next one is
 * asked for, and is in the encoding that source says.  NULL: it is longer than LINES_BYTES_MAX.
 */
extern bool line_source_next(LineSource *source, int64 *number, char **line, Size *length);
extern bool line_source_is_utf8(const LineSource *source);	/* else the database's */
extern void line_source_close(LineSource *source);

/* ---- ask.c ---- */

typedef enum LineUrl
{
	LINE_EMBEDDINGS,
	LINE_RERANK,
	LINE_INFER,
	LINE_URLS
} LineUrl;

/* Raises 0A000 with those there are. */
extern LineUrl line_url(const char *url);

typedef enum LineVerb				/* whose sites are shared by all lines */
{
	LINE_VERB_EMBED,
	LINE_VERB_RERANK,
	LINE_VERB_INFER_TEXT,
	LINE_VERB_INFER_JSONB,
	LINE_VERBS
} LineVerb;

typedef struct LineAsk
{
	LineUrl		url;
	LineVerb	verb;
	bool		several;			/* the input is an array of texts */
	int			count;				/* of calls */
	Datum	   *texts;				/* texts or documents; of /v1/infer, the one input */
	Datum		query;				/* rerank */
	Datum		options;			/* jsonb, of the verb */
	bool		base64;				/* encoding_format */
	bool		with_documents;		/* rerank: they come back */
	int			top;				/* likewise: so many results at most */
} LineAsk;

/* Texts or documents of a body, at a glance. */
extern int	line_calls(const Jsonb *body);

/* Raises what is wrong with it.  In the current memory context.  model: for what depends on it. */
extern void line_ask(LineUrl url, const Jsonb *body, const InferModel *model, LineAsk *ask);

/* The verb of a url, and the options that its bodies may have. */
extern const InferVerbDef *line_verb_def(LineVerb verb);

/* ---- table.c ---- */

typedef struct JobLine				/* a row of infer.job_request */
{
	int64		job;
	int64		line;
	char	   *custom_id;			/* NULL: it has none */
	char	   *url;				/* likewise, as all of the next */
	char	   *model;				/* name@version */
	Jsonb	   *body;
	char	   *sqlstate;			/* of a bad line */
	char	   *message;
	text	   *response;			/* JSON; NULL: none */
} JobLine;

typedef struct LineTable LineTable;	/* the table, open; the snapshot is the latest when it was opened */

extern LineTable *line_table_open(bool for_writing);
extern void line_table_close(LineTable *table);

extern void line_insert(LineTable *table, const JobLine *line);

/* The row of that line gets a response; false: there is no such row. */
extern bool line_respond(LineTable *table, int64 job, int64 line, text *response);

/*
 * Lines of a job behind after, up to upto, in order, until each says false.  Each is read, and each called, in
 * that context.  Returns how many.
 */
extern int64 line_each(LineTable *table, int64 job, int64 after, int64 upto, MemoryContext context,
					   bool (*each) (JobLine *line, void *arg), void *arg);

extern JobLine *line_get(LineTable *table, int64 job, int64 line);	/* NULL: there is none */

/* ---- validate.c ---- */

typedef struct LineCheck LineCheck;	/* models that lines named so far */

extern LineCheck *line_check_make(const char *model);	/* of lines that name none; NULL: each must */

/* Reads a line into line, as far as that goes; what is wrong with it is put there too.  In the current context. */
extern void line_check(LineCheck *check, bool is_utf8, char *text, Size length, JobLine *line);

/* The models that lines use, one by one from 0; NULL: no more. */
extern const InferModel *line_check_model(const LineCheck *check, int number);

/* The one model, with its version, that all lines are for; NULL: several or none. */
extern const char *line_check_only_model(const LineCheck *check);

/* ---- respond.c ---- */

typedef struct LineAnswers LineAnswers;

extern LineAnswers *line_answers_make(const char *model, const LineAsk *ask);

/* The result of the line's next call; tokens: -1 for not known. */
extern void line_answer(LineAnswers *answers, Datum result, int tokens);
extern text *line_answers_response(LineAnswers *answers);

/* ---- compute.c: as job.h says of job_compute_fill ... ---- */

extern struct LinesRun *lines_run_make(MemoryContext context);
extern void lines_counters(const JobRun *run, InferSiteCounters *sum);

extern void lines_fill(JobRun *run, JobChunk *chunk);
extern void lines_send(JobRun *run, JobChunk *chunk);
extern void lines_wait(JobRun *run, JobChunk *chunk);
extern void lines_collect(JobRun *run, JobChunk *chunk);

/* ---- rows.c: as job.h says of job_read ... ---- */

typedef enum LineInput				/* of a row's inputs */
{
	LINE_INPUT_URL,
	LINE_INPUT_MODEL,
	LINE_INPUT_BODY,
	LINE_INPUTS
} LineInput;

extern void lines_plan(JobPlan *plan);	/* lines name their models one by one, so it has none */
extern void lines_write(JobRun *run, JobChunk *chunk);

/* ---- facts.c: which models a job's lines are for ---- */

/* For JobRecord.facts. */
extern Jsonb *lines_facts(const LineCheck *check);

/* Raises 55000 unless the model is the one that was named so when the lines were imported. */
extern void lines_check_model(const JobRecord *record, const InferModel *model);

#endif							/* INFER_JOB_LINES_H */
