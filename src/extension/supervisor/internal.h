/*
 * internal.h
 *	  What the files of the supervisor share; nobody else includes it.
 *
 * Nouns
 *	supervisor	registered at preload, connected to no database, on standbys too
 *	old engine	one whose supervisor has died: it holds the lock file still
 *	watch		what the supervisor saw last of the engine's heartbeats, and since when
 *	back-off	how long the next start waits: nothing after the first end, then longer each
 *				time, forgotten when an engine has lived for a while
 *	loss		an engine's end by its GPU, with infer.device = auto: nobody's guilt, since the CPU
 *				can stand in for it
 *
 * Loop (supervisor.c)
 *	Start the engine once no old engine holds the lock (start.c); wait (latch, log pipe, SIGCHLD,
 *	the postmaster's death); pass log and settings on; look at the heartbeats (watch.c); when the
 *	engine has ended, say so (end.c) and start another, on the CPU if the GPU keeps being lost (gpu.c).
 *
 * Invariants
 *	- The supervisor never leaves before it has killed and reaped the engine, on any path:
 *	  before_shmem_exit for every proc_exit (an ERROR included), a handler for SIGQUIT and
 *	  SIGABRT.  Where the postmaster is PID 1, an orphan that ends with another status than
 *	  0 or 1 would restart the cluster.
 *	- It exits with 1, never 0: a worker that exits with 0 is not started again.
 *	- No error is raised while infer_shared->lock is held: the exit callback takes it.
 */
#ifndef INFER_SUPERVISOR_INTERNAL_H
#define INFER_SUPERVISOR_INTERNAL_H

#include "postgres.h"

#include "utils/timestamp.h"

#include "../engine_process.h"
#include "../infer.h"

#define FAILED_MAX		3			/* starts in a row without a ready engine: callers are told */

typedef struct Supervisor
{
	TimestampTz started_at;			/* of the running engine */
	bool		was_ready;
	bool		ordered;			/* its end was asked for */
	TimestampTz kill_at;			/* of an ordered end; 0: none */
	TimestampTz start_at;			/* not before */
	int			ends;				/* in a row, without having lived */
	int			failures;			/* starts in a row that never became ready */
	TimestampTz old_since;			/* an old engine was first seen; 0: none */
	bool		old_killed;

	bool		hung;				/* its GPU gave no sign of life */
	TimestampTz lost_at;			/* the last loss of the GPU; 0: none */
	TimestampTz cpu_until;			/* the CPU stands in for engines that start before; 0: no */
	char		cpu_why[128];		/* as infer.devices shows it */

	uint64		loop_beat;			/* the watch */
	uint64		device_beat;
	uint64		load_beat;
	TimestampTz loop_at;
	TimestampTz device_at;
	TimestampTz load_at;
	TimestampTz watched_at;
} Supervisor;

/* ---- supervisor.c ---- */

extern Supervisor supervisor;

/*
 * The time in usec, for differences only.  Not the wall's clock: set back, it would put off a
 * start, or the end of an engine that hangs, by as much.
 */
extern TimestampTz supervisor_clock(void);

static inline TimestampTz
after_ms(TimestampTz from, int ms)
{
	return TimestampTzPlusMilliseconds(from, ms);
}

/* What callers are told of why there is no engine; "": nothing. */
extern void supervisor_share_error(const char *error);

/* ---- start.c ---- */

/* True once no old engine is left; else the next start is put off a little. */
extern bool supervisor_old_engine_gone(TimestampTz now);
extern void supervisor_start_engine(TimestampTz now);

/* Another end, or start that failed: when the next start may be. */
extern void supervisor_back_off(TimestampTz now);

/* ---- watch.c ---- */

/* Look at the heartbeats; kill an engine that has none, or that does not stop as asked. */
extern void supervisor_watch(TimestampTz now);
extern void supervisor_watch_reset(TimestampTz now);
extern int	supervisor_watch_interval(void);	/* ms */

/* ---- gpu.c ---- */

/* Whether the end of the engine, which has been reaped, was a loss; then it is noted. */
extern bool supervisor_gpu_lost(TimestampTz now);

/* Why an engine that starts now is to leave the GPU alone; NULL: it is not. */
extern const char *supervisor_without_gpu(TimestampTz now);

/* Somebody has asked for another try. */
extern void supervisor_gpu_forget(void);

/* ---- end.c ---- */

/* The engine has been reaped. */
extern void supervisor_engine_ended(int status, TimestampTz now);

/* infer.restart_engine() */
extern void supervisor_stop_engine(TimestampTz now);

/* The server's shutdown: wait, but not for long. */
extern void supervisor_stop_engine_for_good(void);

#endif							/* INFER_SUPERVISOR_INTERNAL_H */
