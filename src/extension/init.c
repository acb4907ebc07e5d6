/*
 * init.c
 *	  _PG_init: a list of calls.
 */
#include "postgres.h"

#include "infer.h"
#include "batchscan/batchscan.h"
#include "jobs.h"

#include "fmgr.h"
#include "miscadmin.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

/*
 * The library is also loaded outside shared_preload_libraries: by pg_upgrade, by LOAD, by
 * CREATE FUNCTION.  That is no error; calls then fail by infer_require_preload.
 */
void
_PG_init(void)
{
	infer_settings_init();
	infer_shared_init();
	infer_supervisor_init();
	infer_catalog_init();
	infer_batch_init();
	infer_jobs_init();
	infer_fresh_init();
}
