/*
 * plan.c
 *	  What a request means: columns, types, model, verb, statements.
 */
#include "postgres.h"

#include "../job.h"

JobPlan *
job_plan_make(const JobRequest *request, MemoryContext context)
{
	elog(ERROR, "not there yet");
}

