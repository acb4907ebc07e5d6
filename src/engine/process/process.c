/*
 * process.c
 *	  See process.h.
 *
 * Order of an end: whatever the reason, the page says STOPPING, the socket is unlinked,
 * and the process is gone.  Nothing is waited for: a hanging device must not hold up the
 * server's shutdown, and clients learn from the closed socket.
 *
 * Invariants
 *	- TERM, INT, QUIT and ABRT end with status 0 or 1, even inside a hanging kernel of a
 *	  model; SEGV, BUS, ILL and FPE keep their default action, so a fault ends at once.
 *	- No core is dumped: the limit is one byte, which is below every dump's size, and which
 *	  the kernel also takes as "no dump" where core_pattern is a pipe (0 would not be).  The
 *	  process stays dumpable in the sense of /proc, so that its owner can look at it.
 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../protocol/protocol.h"
#include "../status.h"

#define DESCRIPTORS_MAX 65536

static struct infer_status_page *exit_page;
static const char *exit_socket;

void
process_on_exit(struct infer_status_page *page, const char *socket_path)
{
	exit_page = page;
	exit_socket = socket_path;
}

void
process_exit(int code)
{
	if (exit_page != NULL)
		infer_store_release32(&exit_page->state, INFER_ENGINE_STOPPING);
	if (exit_socket != NULL)
		unlink(exit_socket);
	_exit(code);
}

void
process_exit_device_lost(void)
{
	if (exit_page != NULL)
		infer_store_release32(&exit_page->device_lost, 1);
	process_exit(1);
}

static void
handle_end(int signo)
{
	process_exit(signo == SIGTERM || signo == SIGINT ? 0 : 1);
}

static void
signals_init(void)
{
	static const int ends[] = {SIGTERM, SIGINT, SIGQUIT, SIGABRT};
	static const int ignored[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2};
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t	none;

	sigemptyset(&action.sa_mask);
	for (int signo = 1; signo < NSIG; signo++)
		sigaction(signo, &action, NULL);
	action.sa_handler = handle_end;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &action, NULL);
	action.sa_handler = SIG_IGN;
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		sigaction(ignored[i], &action, NULL);	/* the postmaster signals whole groups */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void
process_close_inherited(int keep1, int keep2)
{
	unsigned	low = (unsigned) (keep1 < keep2 ? keep1 : keep2);
	unsigned	high = (unsigned) (keep1 < keep2 ? keep2 : keep1);
	unsigned	next = STDERR_FILENO + 1;
	unsigned	keep[2] = {low, high};

	for (int i = 0; i < 2; i++)
	{
		if ((int) keep[i] < (int) next)
			continue;
		if (keep[i] > next)
			syscall(SYS_close_range, next, keep[i] - 1, 0);
		fcntl((int) keep[i], F_SETFD, FD_CLOEXEC);
		next = keep[i] + 1;
	}
	syscall(SYS_close_range, next, ~0u, 0);
}

bool
process_init(bool supervised, uint32_t nice_value, struct status *status)
{
	struct rlimit limit = {.rlim_cur = 1, .rlim_max = 1};

	signals_init();
	if (supervised)
	{
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() == 1)
			return status_set(status, INFER_ERROR_INTERNAL, "the supervisor is gone");
	}
	setrlimit(RLIMIT_CORE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max < DESCRIPTORS_MAX ? limit.rlim_max : DESCRIPTORS_MAX;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (nice_value > 0)
		setpriority(PRIO_PROCESS, 0, (int) nice_value);
	return true;
}

uint32_t
process_descriptors_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > DESCRIPTORS_MAX)
		return DESCRIPTORS_MAX;
	return (uint32_t) limit.rlim_cur;
}

int
process_lock(const char *path, struct status *status)
{
	char		pid[32];
	int			length;
	int			fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
	{
		status_set(status, INFER_ERROR_INTERNAL, "could not open the lock file \"%s\": %s", path, strerror(errno));
		return -1;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
	{
		status_set(status, INFER_ERROR_INTERNAL, "another engine holds the lock file \"%s\"", path);
		status_hint(status, "Wait until it has ended, or end it.");
		close(fd);
		return -1;
	}
	length = snprintf(pid, sizeof(pid), "%d\n", (int) getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t) length, 0) != length)
	{
		status_set(status, INFER_ERROR_INTERNAL, "could not write the lock file \"%s\": %s", path, strerror(errno));
		close(fd);
		return -1;
	}
	return fd;
}

/* The cgroup's quota in whole cores, or 0 if there is none. */
static uint32_t
cgroup_cores(void)
{
	FILE	   *file = fopen("/sys/fs/cgroup/cpu.max", "re");
	long		quota;
	long		period;
	uint32_t	cores = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0)
		cores = (uint32_t) ((quota + period - 1) / period);
	fclose(file);
	return cores;
}

uint32_t
process_cores(void)
{
	cpu_set_t	set;
	uint32_t	cores = 1;
	uint32_t	quota = cgroup_cores();

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		cores = (uint32_t) CPU_COUNT(&set);
	if (quota > 0 && quota < cores)
		cores = quota;
	return cores > 0 ? cores : 1;
}

uint64_t
process_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

struct timespec
process_time_after(uint64_t nsec)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	nsec += (uint64_t) until.tv_nsec;
	until.tv_sec += (time_t) (nsec / 1000000000);
	until.tv_nsec = (long) (nsec % 1000000000);
	return until;
}

uint64_t
process_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000;
}
