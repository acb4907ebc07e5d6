/*
 * request.c
 *	  submit_job's arguments as jsonb, and back.
 */
#include "postgres.h"

#include "job.h"

Jsonb *
job_request_to_jsonb(const JobRequest *request)
{
	elog(ERROR, "not there yet");
}

JobRequest *
job_request_from_jsonb(const Jsonb *jsonb, MemoryContext context)
{
	elog(ERROR, "not there yet");
}

