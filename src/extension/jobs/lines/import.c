/*
 * import.c
 *	  infer.submit_job_file, infer.import_requests: a file's lines become a job.
 *
 * Loop
 *	for each line: check it → its custom_id is new? → a row of infer.job_request.  Then the job itself.
 *
 * Lines that cannot be run are stored with their errors, and told of at once in a warning.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "lines.h"

#define BAD_LINES_TOLD	10			/* in the warning */

typedef struct CustomId
{
	const char *id;
	int64		line;
	char		status;
} CustomId;

#define SH_PREFIX		ids
#define SH_ELEMENT_TYPE	CustomId
#define SH_KEY_TYPE		const char *
#define SH_KEY			id
#define SH_HASH_KEY(table, key)	hash_bytes((const unsigned char *) (key), strlen(key))
#define SH_EQUAL(table, a, b)	(strcmp(a, b) == 0)
#define SH_SCOPE		static inline
#define SH_DEFINE
#define SH_DECLARE
#include "lib/simplehash.h"

typedef struct Import
{
	int64		job;
	LineSource *source;
	LineCheck  *check;
	LineTable  *table;
	MemoryContext ids_context;
	ids_hash   *ids;
	MemoryContext line_context;		/* of the line that is read */
	int64		lines;
	int64		bad;
	StringInfoData told;			/* of bad lines */
} Import;

/* ---- lines ---- */

static void
check_custom_id(Import *import, const JobLine *line)
{
	CustomId   *entry;
	bool		found;

	if (line->custom_id == NULL)
		return;
	entry = ids_insert(import->ids, line->custom_id, &found);
	if (found)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg("custom_id \"%s\" comes twice", line->custom_id),
				 errdetail("It is on line " INT64_FORMAT " and on line " INT64_FORMAT ".", entry->line, line->line),
				 errhint("Give each line a custom_id of its own: its response is known by it.")));
	entry->id = MemoryContextStrdup(import->ids_context, line->custom_id);
	entry->line = line->line;
}

static void
tell_bad(Import *import, const JobLine *line)
{
	if (line->sqlstate == NULL || import->bad++ >= BAD_LINES_TOLD)
		return;
	if (import->told.len > 0)
		appendStringInfoChar(&import->told, '\n');
	appendStringInfo(&import->told, "line " INT64_FORMAT ": %s", line->line, line->message);
}

static void
import_lines(Import *import)
{
	MemoryContext old = MemoryContextSwitchTo(import->line_context);
	char	   *text;
	Size		length;
	JobLine		line;

	while (memset(&line, 0, sizeof(line)), line_source_next(import->source, &line.line, &text, &length))
	{
		line.job = import->job;
		line_check(import->check, line_source_is_utf8(import->source), text, length, &line);
		check_custom_id(import, &line);
		line_insert(import->table, &line);
		tell_bad(import, &line);
		import->lines++;
		MemoryContextReset(import->line_context);
	}
	MemoryContextSwitchTo(old);
}

/* ---- what is wrong with the whole ---- */

static void
check_any(const Import *import)
{
	if (import->lines == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no request"),
				 errhint("Give one JSON object on each line: {\"custom_id\": \"...\", \"method\": \"POST\", \"url\": \"/v1/embeddings\", \"body\": {\"model\": \"...\", \"input\": \"...\"}}.")));
	if (import->bad == import->lines)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no line can be run"),
				 errdetail_internal("%s", import->told.data)));
	if (import->bad > 0)
		ereport(WARNING,
				(errmsg(INT64_FORMAT " of " INT64_FORMAT " lines cannot be run", import->bad, import->lines),
				 errdetail_internal("%s%s", import->told.data, import->bad > BAD_LINES_TOLD ? "\n..." : ""),
				 errhint("The others are run; infer.export_results() has the errors as well.")));
}

/* ---- the job ---- */

static LineSource *
open_source(FunctionCallInfo fcinfo, bool file)
{
	char	   *path;

	if (!file)
		return line_source_text(PG_GETARG_TEXT_PP(0));
	path = text_to_cstring(PG_GETARG_TEXT_PP(0));
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to read \"%s\" from the server", path),
				 errdetail("Only roles with privileges of pg_read_server_files may give a path."),
				 errhint("Send the lines with infer.import_requests().")));
	return line_source_file(path);
}

static void
read_request(FunctionCallInfo fcinfo, bool file, JobRequest *request)
{
	*request = (JobRequest) {.requests = true, .shards = 1, .max_failures = -1};
	if (file)
		request->source = text_to_cstring(PG_GETARG_TEXT_PP(0));
	if (!PG_ARGISNULL(1))
		request->model = text_to_cstring(PG_GETARG_TEXT_PP(1));
	if (!PG_ARGISNULL(2))
		request->name = text_to_cstring(PG_GETARG_TEXT_PP(2));
	if (!PG_ARGISNULL(3))
		request->priority = PG_GETARG_INT32(3);
	if (!PG_ARGISNULL(4))
		request->completion_window = PG_GETARG_INTERVAL_P(4);
	if (!PG_ARGISNULL(5))
		request->max_failures = PG_GETARG_FLOAT8(5);
	if (!PG_ARGISNULL(6))
		request->shards = PG_GETARG_INT32(6);
}

static void
import_begin(Import *import, LineSource *source, const JobRequest *request)
{
	import->source = source;
	import->check = line_check_make(request->model);
	import->table = line_table_open(true);
	import->ids_context = AllocSetContextCreate(CurrentMemoryContext, "infer custom_ids", ALLOCSET_DEFAULT_SIZES);
	import->ids = ids_create(import->ids_context, 1024, NULL);
	import->line_context = AllocSetContextCreate(CurrentMemoryContext, "infer line", ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&import->told);
}

static void
import_all(Import *import)
{
	import_lines(import);
	line_source_close(import->source);
	line_table_close(import->table);
	check_any(import);
}

static int64
import(FunctionCallInfo fcinfo, bool file)
{
	Import		import = {0};
	JobRequest	request;
	JobRecord	record;
	LineSource *source;
	const char *only;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must be given", file ? "a path" : "lines")));
	read_request(fcinfo, file, &request);
	source = open_source(fcinfo, file);
	import.job = job_submit_find(&request);
	if (import.job != 0)
	{
		line_source_close(source);
		return import.job;
	}
	job_submit_record(&record, &request, job_plan_make(&request, CurrentMemoryContext));
	import.job = record.job;
	import_begin(&import, source, &request);
	import_all(&import);
	if ((only = line_check_only_model(import.check)) != NULL)
		record.model = pstrdup(only);
	record.total = import.lines;
	record.facts = lines_facts(import.check);
	job_insert(&record);
	infer_jobs_changed();
	return record.job;
}

PG_FUNCTION_INFO_V1(infer_submit_job_file);
Datum
infer_submit_job_file(PG_FUNCTION_ARGS)
{
	job_check_may_write("infer.submit_job_file()");
	PG_RETURN_INT64(import(fcinfo, true));
}

PG_FUNCTION_INFO_V1(infer_import_requests);
Datum
infer_import_requests(PG_FUNCTION_ARGS)
{
	job_check_may_write("infer.import_requests()");
	PG_RETURN_INT64(import(fcinfo, false));
}
