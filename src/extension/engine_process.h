/*
 * engine_process.h
 *	  The engine as a child process of the supervisor: start, signals, pipes, end.
 *
 * One engine at a time; the supervisor alone calls this.  No function here raises an
 * error while an engine runs; engine_process_start may, before it has spawned one.
 */
#ifndef INFER_ENGINE_PROCESS_H
#define INFER_ENGINE_PROCESS_H

#include "infer.h"

#include "../protocol/protocol.h"

/* The pipe of the engine's log, to wait on; PGINVALID_SOCKET while none runs. */
extern int	engine_process_log_fd(void);

/* 0: none runs. */
extern pid_t engine_process_pid(void);

/* NULL while none runs; else read-only, and the engine changes it at any time. */
extern const struct infer_status_page *engine_process_page(void);

/* Whether the engine that runs, or ran last, looks for a GPU as it starts; and whether it has opened one. */
extern bool engine_process_tries_gpu(void);
extern bool engine_process_has_gpu(void);

/*
 * Spawn the engine.  Returns false with the reason in error (bytes long) if that failed;
 * nothing is left over then.  without_cuda: why it is not to look for a GPU, or NULL.
 */
extern bool engine_process_start(const char *without_cuda, char *error, Size bytes);

extern void engine_process_signal(int signo);

/* Whether it has ended (its status as waitpid gives it, pipes drained and closed). */
extern bool engine_process_reap(int *status);

/* SIGKILL and wait for the end: never fails, at exit and in signal handlers too. */
extern void engine_process_kill(int *status);
extern void engine_process_kill_in_handler(void);

/* Move what there is of the engine's log into the server's; never blocks. */
extern void engine_process_log(void);

/* What it said of its end: the text of its last FATAL line, or "". */
extern const char *engine_process_last_words(void);

/* The last one that was reaped had a GPU, and ended because of it. */
extern bool engine_process_lost_gpu(void);

/* Send the settings that have changed; true if some still wait for room in the pipe. */
extern bool engine_process_settings(void);

#endif							/* INFER_ENGINE_PROCESS_H */
