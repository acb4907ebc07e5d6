/*
 * write.c
 *	  Results of a chunk into the target.
 */
#include "postgres.h"

#include "job.h"

struct JobWriter *
job_writer_make(JobRun *run)
{
	elog(ERROR, "not there yet");
}

void
job_write(JobRun *run, JobChunk *chunk)
{
	elog(ERROR, "not there yet");
}

