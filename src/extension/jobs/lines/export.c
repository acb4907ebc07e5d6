/*
 * export.c
 *	  infer.export_results: one line for each line that was imported, in their order.
 *
 *	{"id":"job-17-line-3","custom_id":"...","response":{"status_code":200,"request_id":"job-17-line-3","body":...},"error":null}
 *	{"id":"job-17-line-4","custom_id":"...","response":null,"error":{"code":"...","message":"...","sqlstate":"22023","line":4}}
 *
 * The same bytes whenever it is called, until infer.retry_job.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/memutils.h"

#include "lines.h"

typedef struct LineEnd				/* of a line without a response */
{
	int64		line;
	JobItemState state;
	char	   *sqlstate;
	char	   *message;
	char		status;
} LineEnd;

#define SH_PREFIX		ends
#define SH_ELEMENT_TYPE	LineEnd
#define SH_KEY_TYPE		int64
#define SH_KEY			line
#define SH_HASH_KEY(table, key)	((uint32) (key) * 2654435761u)
#define SH_EQUAL(table, a, b)	((a) == (b))
#define SH_SCOPE		static inline
#define SH_DEFINE
#define SH_DECLARE
#include "lib/simplehash.h"

typedef struct Export
{
	JobRecord  *record;
	ReturnSetInfo *set;
	ends_hash  *ends;
	MemoryContext line_context;
} Export;

/* ---- errors ---- */

static const struct
{
	int			sqlstate;			/* 0: of the rest of that class */
	const char *class_;
	const char *code;
}			codes[] = {
	{ERRCODE_UNDEFINED_OBJECT, NULL, "model_not_found"},
	{ERRCODE_INSUFFICIENT_PRIVILEGE, NULL, "permission_denied"},
	{ERRCODE_INFER_BUSY, NULL, "server_busy"},
	{ERRCODE_INFER_TIMEOUT, NULL, "timeout"},
	{ERRCODE_INFER_NOT_FINITE, NULL, "not_finite"},
	{ERRCODE_INFER_ROW_KILLED_ENGINE, NULL, "engine_killed"},
	{0, "0A", "not_supported"},
	{0, "22", "invalid_request"},
	{0, "42", "invalid_request"},
	{0, "54", "too_large"},
};

static const char *
code_of(const char *sqlstate)
{
	for (int i = 0; i < lengthof(codes) && sqlstate != NULL; i++)
		if (codes[i].class_ != NULL ? strncmp(codes[i].class_, sqlstate, 2) == 0 :
			strcmp(unpack_sql_state(codes[i].sqlstate), sqlstate) == 0)
			return codes[i].code;
	return "server_error";
}

static void
append_member(StringInfo to, const char *name, const char *value)
{
	appendStringInfo(to, "\"%s\":", name);
	if (value == NULL)
		appendStringInfoString(to, "null");
	else
		escape_json(to, value);
}

static void
append_error(StringInfo to, int64 line, const char *code, const char *message, const char *sqlstate)
{
	appendStringInfoString(to, "\"response\":null,\"error\":{");
	append_member(to, "code", code);
	appendStringInfoChar(to, ',');
	append_member(to, "message", message);
	appendStringInfoChar(to, ',');
	append_member(to, "sqlstate", sqlstate);
	appendStringInfo(to, ",\"line\":" INT64_FORMAT "}", line);
}

/* A line that the job did not come to. */
static void
append_not_run(StringInfo to, int64 line, const JobRecord *record)
{
	if (record->state == JOB_EXPIRED)
		append_error(to, line, "batch_expired", "the request was not run within the completion window", NULL);
	else if (record->state == JOB_CANCELLED)
		append_error(to, line, "batch_cancelled", "the job was cancelled before the request was run", NULL);
	else
		append_error(to, line, "batch_failed", record->message != NULL ? record->message : "the job failed before the request was run",
					 record->sqlstate);
}

static void
append_end(StringInfo to, const LineEnd *end, const JobRecord *record)
{
	if (end->state == JOB_ITEM_FAILED)
		append_error(to, end->line, code_of(end->sqlstate), end->message, end->sqlstate);
	else if (end->state == JOB_ITEM_EXPIRED)
		append_error(to, end->line, "batch_expired", "the request was not run within the completion window", NULL);
	else if (end->state == JOB_ITEM_CANCELLED)
		append_error(to, end->line, "batch_cancelled", "the job was cancelled before the request was run", NULL);
	else
		append_not_run(to, end->line, record);
}

/* ---- lines ---- */

static void
append_line(StringInfo to, const JobLine *line, const Export *export)
{
	char	   *id = psprintf("job-" INT64_FORMAT "-line-" INT64_FORMAT, line->job, line->line);
	LineEnd    *end = line->response == NULL ? ends_lookup(export->ends, line->line) : NULL;

	appendStringInfoChar(to, '{');
	append_member(to, "id", id);
	appendStringInfoChar(to, ',');
	append_member(to, "custom_id", line->custom_id);
	appendStringInfoChar(to, ',');
	if (line->response != NULL)
	{
		appendStringInfo(to, "\"response\":{\"status_code\":200,\"request_id\":\"%s\",\"body\":", id);
		appendBinaryStringInfo(to, VARDATA_ANY(line->response), VARSIZE_ANY_EXHDR(line->response));
		appendStringInfoString(to, "},\"error\":null");
	}
	else if (line->sqlstate != NULL)
		append_error(to, line->line, code_of(line->sqlstate), line->message, line->sqlstate);
	else if (end != NULL)
		append_end(to, end, export->record);
	else
		append_not_run(to, line->line, export->record);
	appendStringInfoChar(to, '}');
}

static bool
export_line(JobLine *line, void *arg)
{
	Export	   *export = arg;
	StringInfoData to;
	Datum		value;
	bool		null = false;

	initStringInfo(&to);
	append_line(&to, line, export);
	value = PointerGetDatum(cstring_to_text_with_len(to.data, to.len));
	tuplestore_putvalues(export->set->setResult, export->set->setDesc, &value, &null);
	MemoryContextReset(export->line_context);
	return true;
}

static void
read_ends(Export *export, JobItemState state)
{
	int			count;
	TimestampTz next_due;
	JobItem    *items = job_items(export->record->job, 0, state, 0, job_items_count(export->record->job, 0, state), 0, &count, &next_due);

	for (int i = 0; i < count; i++)
	{
		bool		found;
		LineEnd    *end = ends_insert(export->ends, strtoll(items[i].key.texts[0], NULL, 10), &found);

		end->state = state;
		end->sqlstate = items[i].sqlstate;
		end->message = items[i].message;
	}
}

/* ---- SQL ---- */

PG_FUNCTION_INFO_V1(infer_export_results);
Datum
infer_export_results(PG_FUNCTION_ARGS)
{
	Export		export = {0};
	int64		job = PG_GETARG_INT64(0);
	LineTable  *table;

	export.record = job_find(job);
	job_check_ended(export.record, "exported");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	export.set = (ReturnSetInfo *) fcinfo->resultinfo;
	export.ends = ends_create(CurrentMemoryContext, 256, NULL);
	read_ends(&export, JOB_ITEM_FAILED);
	read_ends(&export, JOB_ITEM_EXPIRED);
	read_ends(&export, JOB_ITEM_CANCELLED);
	table = line_table_open(false);
	export.line_context = AllocSetContextCreate(CurrentMemoryContext, "infer line", ALLOCSET_DEFAULT_SIZES);
	if (line_each(table, job, 0, PG_INT64_MAX, export.line_context, export_line, &export) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("job " INT64_FORMAT " has no lines", job),
				 errdetail("Only jobs of infer.submit_job_file() and infer.import_requests() have."),
				 errhint("The results of others are in their tables.")));
	line_table_close(table);
	return (Datum) 0;
}
