/*
 * read_input.c
 *	  Rows of a query, which are put into infer.job_input first.
 */
#include "postgres.h"

#include "rows.h"

int64
job_reader_materialise(JobRun *run)
{
	elog(ERROR, "not there yet");
}

const JobReaderOps job_reader_input_ops = {0};
