/*
 * internal.h
 *	  What the files of the engine's process share; the supervisor sees ../engine_process.h.
 *
 * Files
 *	process.c	the process: its start, its signals, its end
 *	launch.c	what a start opens, and the spawning itself
 *	settings.c	what the engine is told: the command line and the control pipe
 *	log.c		what the engine says: the log pipe
 */
#ifndef INFER_ENGINE_PROCESS_INTERNAL_H
#define INFER_ENGINE_PROCESS_INTERNAL_H

#include "postgres.h"

#include "../engine_process.h"

#include <unistd.h>

#define ENGINE_FD_STATUS 3
#define ENGINE_FD_CONTROL 4

static inline void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- launch.c ---- */

typedef struct Launch				/* what a start has opened so far; -1: not yet */
{
	int			null_fd;
	int			status_fd;
	int			control[2];			/* read by the engine, written by us */
	int			log[2];				/* read by us, written by the engine */
	void	   *page;
} Launch;

/* Whose part has failed is in errno; launch_close is due in any case. */
extern bool launch_open(Launch *launch);

/* Marks all descriptors of ours to be closed by exec. */
extern bool launch_mark_descriptors(void);

/* The engine's ends, in our process. */
extern void launch_close_theirs(Launch *launch);
extern void launch_close(Launch *launch);

/* Returns an errno. */
extern int	launch_spawn(const Launch *launch, char *path, char **argv, pid_t *pid);

/* ---- settings.c ---- */

/*
 * The command line, in the current memory context; notes what was sent.  library: of the CUDA device, or NULL;
 * without_cuda: why that is not to be used, or NULL.
 */
extern char **settings_arguments(char *path, char *library, const char *without_cuda);

/* Takes the control pipe's end over. */
extern void settings_begin(int fd);
extern void settings_end(void);

/* ---- log.c ---- */

/* Takes the log pipe's end over. */
extern void log_begin(int fd);
extern void log_end(void);

#endif							/* INFER_ENGINE_PROCESS_INTERNAL_H */
