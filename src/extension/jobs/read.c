/*
 * read.c
 *	  Rows of a job's source, chunk by chunk.
 */
#include "postgres.h"

#include "job.h"

struct JobReader *
job_reader_make(JobRun *run)
{
	elog(ERROR, "not there yet");
}

int64
job_reader_materialise(JobRun *run)
{
	elog(ERROR, "not there yet");
}

int64
job_reader_count(JobRun *run, bool *estimated)
{
	elog(ERROR, "not there yet");
}

JobKey *
job_reader_ranges(JobRun *run, int shards, int *count)
{
	elog(ERROR, "not there yet");
}

void
job_read(JobRun *run, JobChunk *chunk, int rows_max)
{
	elog(ERROR, "not there yet");
}

void
job_read_items(JobRun *run, JobChunk *chunk, JobItem *items, int items_count)
{
	elog(ERROR, "not there yet");
}

void
job_read_back(JobRun *run, const JobRow *row)
{
	elog(ERROR, "not there yet");
}

