/*
 * runner.c
 *	  The loop of a shard: read, compute, write, chunk by chunk.
 */
#include "postgres.h"

#include "job.h"

extern PGDLLEXPORT void infer_job_runner_main(Datum arg);

void
infer_job_runner_main(Datum arg)
{
	elog(ERROR, "not there yet");
}
