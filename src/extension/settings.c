/*
 * settings.c
 *	  Every setting, alphabetical.
 *
 * docs/settings.md has a row for each: when to change it.  Those that the engine needs
 * are passed to it by the supervisor under the name without "infer." and in the unit
 * given here (the table in engine_process/settings.c).
 */
#include "postgres.h"

#include "infer.h"

#include <limits.h>

#include "compat.h"
#include "jobs/job.h"
#include "miscadmin.h"
#include "preload.h"
#include "utils/guc.h"
#include "utils/plancache.h"

int			infer_batch_delay;
int			infer_batch_rows;
int			infer_batch_tokens;
bool		infer_batching = true;
int			infer_cache_size;
int			infer_cpu_threads;
#ifdef INFER_DEVELOPER
bool		infer_debug_batch_all;
#endif
char	   *infer_device;
int			infer_engine_timeout;
int			infer_gpu_memory;
int			infer_job_retention;
int			infer_job_share;
bool		infer_log_requests;
int			infer_max_job_workers;
int			infer_memory;
int			infer_nice;
int			infer_on_error;
int			infer_payload_limit;
char	   *infer_preload;
int			infer_queue_limit;
int			infer_request_class;
int			infer_slice;
int			infer_spin_time;
int			infer_statement_batch_rows;
int			infer_timeout;

static const struct config_enum_entry on_error_options[] = {
	{"error", INFER_ON_ERROR_ERROR, false},
	{"null", INFER_ON_ERROR_NULL, false},
	{NULL, 0, false}
};

static const struct config_enum_entry request_class_options[] = {
	{"auto", INFER_REQUEST_AUTO, false},
	{"interactive", INFER_REQUEST_INTERACTIVE, false},
	{"statement", INFER_REQUEST_STATEMENT, false},
	{"job", INFER_REQUEST_JOB, false},
	{NULL, 0, false}
};

/*
 * The text goes to the engine's command line; its meaning is checked there, where the
 * devices are known.  A line break would begin another line of a log that names it.
 */
static bool
check_device(char **newval, void **extra, GucSource source)
{
	for (const char *p = *newval; *p != '\0'; p++)
	{
		if ((unsigned char) *p < ' ' || *p == 0x7f)
		{
			GUC_check_errdetail("A device's name has no control characters.");
			return false;
		}
	}
	if (**newval == '\0')
	{
		GUC_check_errdetail("A device's name is not empty.");
		GUC_check_errhint("Use auto to have the engine choose.");
		return false;
	}
	return true;
}

/* ---- of the engine: at the server's start ---- */

static void
define_engine_settings(void)
{
	DefineCustomIntVariable("infer.cache_size",
							"Sets the disk space that model files may take in the data directory.",
							"The files longest unused go first; 0 means no limit.",
							&infer_cache_size,
							10240, 0, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.cpu_threads",
							"Sets the number of threads that compute.",
							"0 means all processors that the server may use.",
							&infer_cpu_threads,
							0, 0, 1024,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("infer.device",
							   "Sets the device that models run on.",
							   "auto, cpu, cuda, cuda:N, or for tests null:FAULT,...",
							   &infer_device,
							   "auto",
							   PGC_POSTMASTER, 0, check_device, NULL, NULL);
	DefineCustomIntVariable("infer.gpu_memory",
							"Sets the memory of each GPU that the engine may use.",
							"0 means what is free when the engine starts, but for a reserve.",
							&infer_gpu_memory,
							0, 0, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.memory",
							"Sets the memory that the engine may use for models.",
							"The models longest unused are evicted first.",
							&infer_memory,
							4096, 16, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.nice",
							"Sets how much the engine gives way to other processes.",
							"As nice(1) counts: 0 not at all, 19 as much as can be.",
							&infer_nice,
							0, 0, 19,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("infer.preload",
							   "Lists the models that are loaded whenever the engine has started.",
							   "A comma-separated list of database.model and database.model@version.",
							   &infer_preload,
							   "",
							   PGC_POSTMASTER, GUC_LIST_INPUT, infer_preload_check, NULL, NULL);
}

/* ---- of the engine: at reload ---- */

static void
define_scheduling_settings(void)
{
	DefineCustomIntVariable("infer.batch_delay",
							"Sets the time in microseconds that a batch waits for more rows.",
							"0 means that a free device runs what there is at once.",
							&infer_batch_delay,
							0, 0, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.batch_rows",
							"Sets the rows that one batch holds at most.",
							NULL,
							&infer_batch_rows,
							256, 1, 65536,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.batch_tokens",
							"Sets the tokens of texts that one batch holds at most.",
							"A text with more is computed by itself; 0 means no limit.",
							&infer_batch_tokens,
							16384, 0, 1 << 30,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.engine_timeout",
							"Sets how long the engine may give no sign of life before it is replaced.",
							NULL,
							&infer_engine_timeout,
							10000, 1000, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.job_share",
							"Sets the percentage of device time that statements and jobs get each, whatever else waits.",
							"0 means that they run only when no call of a higher class waits.",
							&infer_job_share,
							5, 0, 50,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("infer.log_requests",
							 "Writes a line to the server's log for each call, without its values.",
							 "Who called which model version, how many rows and bytes, how long it took, how it ended.",
							 &infer_log_requests,
							 false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.payload_limit",
							"Sets the memory that the values of all calls in flight may take.",
							"One call may not take more than this, nor more than 2 GB.",
							&infer_payload_limit,
							1024 * 1024, 1024, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.queue_limit",
							"Sets the number of single calls that may wait in the engine.",
							"Those beyond it are refused at once; statements and jobs are not counted, and wait.",
							&infer_queue_limit,
							1000, 1, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.slice",
							"Sets the time in microseconds that a new single call may have to wait for what is running.",
							"Batches, and segments of long ones, are predicted to be no longer; 0 means 10 milliseconds.",
							&infer_slice,
							0, 0, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* ---- of jobs: at reload ---- */

static void
define_job_settings(void)
{
	DefineCustomIntVariable("infer.job_retention",
							"Sets how long jobs are kept that have ended.",
							"Then they leave infer.jobs, with their errors and manifest; 0 means for ever.",
							&infer_job_retention,
							30 * SECS_PER_DAY, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.max_job_workers",
							"Sets the number of background workers that run jobs, in all databases together.",
							"Each is one of max_worker_processes; 0 pauses all jobs.",
							&infer_max_job_workers,
							2, 0, JOB_SLOTS_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* ---- of the session ---- */

/* Plans were made for the other value. */
static void
assign_batching(bool newval, void *extra)
{
	if (newval != infer_batching)
		ResetPlanCache();
}

#ifdef INFER_DEVELOPER
static void
assign_debug_batch_all(bool newval, void *extra)
{
	if (newval != infer_debug_batch_all)
		ResetPlanCache();
}
#endif

static void
define_session_settings(void)
{
	DefineCustomBoolVariable("infer.batching",
							 "Computes the calls of a statement in batches of rows.",
							 "Off: row by row, with the same results.",
							 &infer_batching,
							 true,
							 PGC_USERSET, 0, NULL, assign_batching, NULL);
#ifdef INFER_DEVELOPER
	DefineCustomBoolVariable("infer.debug_batch_all",
							 "Computes every function that is not volatile as if it were a verb.",
							 "For tests of the batch scan, in builds for developers only.",
							 &infer_debug_batch_all,
							 false,
							 PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, assign_debug_batch_all, NULL);
#endif
	DefineCustomEnumVariable("infer.on_error",
							 "Sets what a call gives that fails for its row or for want of the engine.",
							 "With null it gives NULL where infer.try() would.",
							 &infer_on_error,
							 INFER_ON_ERROR_ERROR, on_error_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("infer.request_class",
							 "Sets which calls go first, and which are refused when the engine is full.",
							 "Interactive calls (auto: single ones) go first and may be refused; then statements, then jobs.",
							 &infer_request_class,
							 INFER_REQUEST_AUTO, request_class_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.spin_time",
							"Sets the time in microseconds that a call watches for its result before it sleeps.",
							"Only short calls watch, and only while a processor is free.",
							&infer_spin_time,
							50, 0, 10000,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.statement_batch_rows",
							"Sets the rows of a statement that are sent to the engine together at most.",
							"Fewer where a model's rows take long.",
							&infer_statement_batch_rows,
							256, 1, 65536,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("infer.timeout",
							"Sets how long a call may take.",
							"0 means no limit.",
							&infer_timeout,
							60000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
}

/*
 * Settings of the postmaster can only be defined while it loads the library; a library
 * loaded later has no engine to set.
 */
void
infer_settings_init(void)
{
	if (process_shared_preload_libraries_in_progress)
		define_engine_settings();
	define_scheduling_settings();
	define_job_settings();
	define_session_settings();
	MarkGUCPrefixReserved("infer");
}
