/*
 * control.c
 *	  What is done to jobs that are there: cancel, retry, wait, drop.
 */
#include "postgres.h"

#include "job.h"

PG_FUNCTION_INFO_V1(infer_cancel_job);

Datum
infer_cancel_job(PG_FUNCTION_ARGS)
{
	elog(ERROR, "not there yet");
}

PG_FUNCTION_INFO_V1(infer_retry_job);

Datum
infer_retry_job(PG_FUNCTION_ARGS)
{
	elog(ERROR, "not there yet");
}

PG_FUNCTION_INFO_V1(infer_wait_job);

Datum
infer_wait_job(PG_FUNCTION_ARGS)
{
	elog(ERROR, "not there yet");
}

PG_FUNCTION_INFO_V1(infer_drop_job);

Datum
infer_drop_job(PG_FUNCTION_ARGS)
{
	elog(ERROR, "not there yet");
}
