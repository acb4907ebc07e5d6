/*
 * digest.c
 *	  Digests of what a job read and wrote.
 */
#include "postgres.h"

#include "job.h"

void
job_digest_add(const JobPlan *plan, const JobRow *row, JobShard *shard)
{
	elog(ERROR, "not there yet");
}

