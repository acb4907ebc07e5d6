/*
 * infer.h
 *	  What the files of the extension share: modules to start, settings, shared memory,
 *	  SQLSTATEs.
 *
 * _PG_init calls each module's *_init; nothing else runs at load.
 */
#ifndef INFER_H
#define INFER_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/errcodes.h"

#include "compat.h"

/* SQLSTATEs of our own; docs/sql.md has the table */
#define ERRCODE_INFER_ENGINE_UNAVAILABLE	MAKE_SQLSTATE('I', 'F', '0', '0', '1')	/* not running, or lost during the call */
#define ERRCODE_INFER_BUSY					MAKE_SQLSTATE('I', 'F', '0', '0', '2')	/* queue_limit, payload_limit */
#define ERRCODE_INFER_TIMEOUT				MAKE_SQLSTATE('I', 'F', '0', '0', '3')	/* infer.timeout */
#define ERRCODE_INFER_ROW_KILLED_ENGINE		MAKE_SQLSTATE('I', 'F', '0', '0', '4')	/* this row, alone, ended the engine */
#define ERRCODE_INFER_MODEL_DISABLED		MAKE_SQLSTATE('I', 'F', '0', '0', '5')	/* its rows killed the engine too often */
#define ERRCODE_INFER_INVALID_MODEL			MAKE_SQLSTATE('I', 'F', '0', '0', '6')	/* malformed model file */
#define ERRCODE_INFER_DEVICE				MAKE_SQLSTATE('I', 'F', '0', '0', '7')	/* the device failed */
#define ERRCODE_INFER_NOT_FINITE			MAKE_SQLSTATE('I', 'F', '0', '0', '8')	/* the model's output is NaN or infinite */

/* files, relative to the data directory */
#define INFER_DIRECTORY		"pg_infer/pgsql_tmp"
#define INFER_SOCKET		INFER_DIRECTORY "/engine.sock"
#define INFER_LOCK			INFER_DIRECTORY "/engine.lock"
#define INFER_CACHE			INFER_DIRECTORY "/models"

/* ---- settings.c ---- */

enum InferOnError { INFER_ON_ERROR_ERROR, INFER_ON_ERROR_NULL };
enum InferRequestClass { INFER_REQUEST_AUTO, INFER_REQUEST_INTERACTIVE, INFER_REQUEST_STATEMENT, INFER_REQUEST_JOB };

extern char *infer_device;				/* postmaster */
extern int	infer_gpu_memory;				/* MB */
extern int	infer_cpu_threads;
extern int	infer_memory;				/* MB */
extern int	infer_cache_size;			/* MB */
extern int	infer_nice;
extern char *infer_preload;
extern int	infer_batch_rows;			/* sighup */
extern int	infer_batch_tokens;			/* sighup */
extern int	infer_batch_delay;			/* usec */
extern int	infer_job_retention;		/* seconds, 0 for ever */
extern int	infer_job_share;			/* percent */
extern int	infer_max_job_workers;
extern int	infer_slice;				/* usec, 0 the device's own */
extern int	infer_queue_limit;			/* requests */
extern int	infer_payload_limit;		/* kB */
extern int	infer_engine_timeout;		/* ms */
extern bool infer_log_requests;
extern bool infer_batching;				/* userset */
#ifdef INFER_DEVELOPER
extern bool infer_debug_batch_all;		/* userset */
#endif
extern int	infer_statement_batch_rows;	/* userset */
extern int	infer_timeout;				/* userset, ms, 0 none */
extern int	infer_spin_time;			/* userset, usec */
extern int	infer_on_error;				/* userset */
extern int	infer_request_class;		/* userset */

extern void infer_settings_init(void);

/* ---- shared memory (shared.c) ---- */

#define INFER_GUILTY_MAX	64			/* versions remembered as engine killers */
#define INFER_GUILTY_TIMES	5			/* different inputs within the window: disabled */
#define INFER_GUILTY_WINDOW	600			/* seconds */

typedef struct InferGuilty
{
	uint8		key[32];				/* as in SUBMIT */
	int32		count;
	bool		disabled;
	bool		ended_load;				/* an engine ended whenever it loaded the model */
	uint64		inputs[INFER_GUILTY_TIMES];		/* hashes of the rows that did it */
	TimestampTz times[INFER_GUILTY_TIMES];
} InferGuilty;

#define INFER_MEASURED_MAX	256			/* models whose rows were measured */

enum { INFER_ROW_ALONE, INFER_ROW_OF_MANY, INFER_ROW_TIMES };

typedef struct InferMeasured			/* client/measured.c */
{
	pg_atomic_uint64 model;				/* first bytes of its key, not 0; 0: free */
	pg_atomic_uint64 nsec[INFER_ROW_TIMES];	/* of a row on the device, 48 bits, below 16 bits of model; 0: not known */
	pg_atomic_uint32 used;				/* about when, seconds since 2000 */
} InferMeasured;

typedef struct InferShared
{
	LWLock	   *lock;					/* protects all of it but the atomics */
	pid_t		engine_pid;				/* 0: not running */
	uint64		engine_starts;
	char		engine_error[384];		/* why the last start failed, or "" */
	pid_t		supervisor_pid;
	struct Latch *supervisor_latch;		/* its process latch, or NULL */
	bool		restart_requested;
	bool		preload_retry;			/* the worker that ended wants to be started again */
	uint64		engine_blameless;		/* ends of an engine that are nobody's guilt: ordered, or of a GPU that the CPU stands in for */
	int			guilty_count;
	InferGuilty guilty[INFER_GUILTY_MAX];
	InferMeasured measured[INFER_MEASURED_MAX];	/* the lock is for new models only */
} InferShared;

extern InferShared *infer_shared;		/* NULL: not preloaded */

extern void infer_shared_init(void);	/* hooks for request and startup */

/*
 * At preload: memory of that name that all processes share, zeroed, with a lock of its own.  *memory is set
 * when the server starts, and again after a crash restart, on fresh memory; then init, in the postmaster, makes of
 * it what is not all zero.
 */
extern void infer_shared_add(const char *name, Size size, void **memory, void (*init) (void *memory, LWLock *lock));

/* Raises the error with the line to add, unless the library was preloaded. */
extern void infer_require_preload(void);

/* ---- supervisor/ ---- */

extern void infer_supervisor_init(void);	/* registers the background worker */

/* ---- models (catalog/) ---- */

extern void infer_catalog_init(void);		/* relcache callback, ProcessUtility hook */

#endif							/* INFER_H */
