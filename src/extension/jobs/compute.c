/*
 * compute.c
 *	  A chunk's rows to the engine, and their results back.
 */
#include "postgres.h"

#include "job.h"

void
job_compute_send(JobRun *run, JobChunk *chunk)
{
	elog(ERROR, "not there yet");
}

void
job_compute_wait(JobRun *run, JobChunk *chunk)
{
	elog(ERROR, "not there yet");
}

void
job_compute_collect(JobRun *run, JobChunk *chunk)
{
	elog(ERROR, "not there yet");
}

bool
job_error_is_transient(int sqlerrcode)
{
	elog(ERROR, "not there yet");
}

