/*
 * launch.c
 *	  What a start of the engine opens, and the spawning itself.
 *
 * Invariants
 *	- The engine inherits five descriptors and nothing else: 0 (/dev/null), 1 and 2 (log),
 *	  3 (status page), 4 (control).  It starts with default signal actions and an empty mask.
 *	- All four pipe ends are non-blocking: neither side can be held up by the other.
 */
#include "postgres.h"

#include "internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "storage/fd.h"

#define SOURCE_FD_MIN 10			/* above the engine's own numbers, so that dup2 collides with none */

void
launch_close_theirs(Launch *launch)
{
	close_fd(&launch->null_fd);
	close_fd(&launch->status_fd);
	close_fd(&launch->control[0]);
	close_fd(&launch->log[1]);
}

void
launch_close(Launch *launch)
{
	launch_close_theirs(launch);
	close_fd(&launch->control[1]);
	close_fd(&launch->log[0]);
	if (launch->page != NULL)
		munmap(launch->page, INFER_REGION_HEAD);
	launch->page = NULL;
}

/* Out of the way of the numbers that the engine's descriptors will have. */
static bool
move_fd(int *fd)
{
	int			moved = fcntl(*fd, F_DUPFD_CLOEXEC, SOURCE_FD_MIN);

	if (moved < 0)
		return false;
	close(*fd);
	*fd = moved;
	return true;
}

bool
launch_open(Launch *launch)
{
	launch->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	launch->status_fd = memfd_create("infer-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (launch->null_fd < 0 || launch->status_fd < 0)
		return false;

	/* the engine adds F_SEAL_FUTURE_WRITE once it has mapped the page */
	if (ftruncate(launch->status_fd, INFER_REGION_HEAD) < 0 ||
		fcntl(launch->status_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return false;
	launch->page = mmap(NULL, INFER_REGION_HEAD, PROT_READ, MAP_SHARED, launch->status_fd, 0);
	if (launch->page == MAP_FAILED)
	{
		launch->page = NULL;
		return false;
	}
	if (pipe2(launch->control, O_CLOEXEC | O_NONBLOCK) < 0 ||
		pipe2(launch->log, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	return move_fd(&launch->null_fd) && move_fd(&launch->status_fd) &&
		move_fd(&launch->control[0]) && move_fd(&launch->log[1]);
}

/*
 * Nothing of ours survives exec, whoever opened it: before 16 the server's own files are
 * not close-on-exec.
 */
bool
launch_mark_descriptors(void)
{
	DIR		   *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	if (dir == NULL)
		return syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0;
	while ((entry = readdir(dir)) != NULL)
	{
		int			fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd > STDERR_FILENO)
			(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	closedir(dir);
	return true;
}

int
launch_spawn(const Launch *launch, char *path, char **argv, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t	all,
				none;
	int			error;

	sigfillset(&all);
	sigemptyset(&none);
	if ((error = posix_spawn_file_actions_init(&actions)) != 0)
		return error;
	if ((error = posix_spawnattr_init(&attributes)) != 0)
	{
		posix_spawn_file_actions_destroy(&actions);
		return error;
	}

	if ((error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)) == 0 &&
		(error = posix_spawnattr_setsigdefault(&attributes, &all)) == 0 &&
		(error = posix_spawnattr_setsigmask(&attributes, &none)) == 0 &&
		(error = posix_spawn_file_actions_adddup2(&actions, launch->null_fd, STDIN_FILENO)) == 0 &&
		(error = posix_spawn_file_actions_adddup2(&actions, launch->log[1], STDOUT_FILENO)) == 0 &&
		(error = posix_spawn_file_actions_adddup2(&actions, launch->log[1], STDERR_FILENO)) == 0 &&
		(error = posix_spawn_file_actions_adddup2(&actions, launch->status_fd, ENGINE_FD_STATUS)) == 0 &&
		(error = posix_spawn_file_actions_adddup2(&actions, launch->control[0], ENGINE_FD_CONTROL)) == 0)
		error = posix_spawn(pid, path, &actions, &attributes, argv, environ);

	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}
