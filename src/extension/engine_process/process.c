/*
 * process.c
 *	  The engine as a child process of the supervisor: its start, its signals, its end.
 *
 * Nouns
 *	status page		a memfd that the engine writes; a new one for each engine, so that nobody
 *					mistakes a dead one's words for the living one's
 *
 * Invariants
 *	- engine_pid is set and cleared with the signals blocked whose handlers kill by it.
 */
#include "postgres.h"

#include "internal.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "miscadmin.h"

#define ENGINE_PROGRAM "infer-engine"
#define CUDA_LIBRARY "infer_cuda.so"

static volatile sig_atomic_t engine_pid = 0;
static const struct infer_status_page *page = NULL;
static bool tries_gpu = false;
static bool lost_gpu = false;

pid_t
engine_process_pid(void)
{
	return engine_pid;
}

const struct infer_status_page *
engine_process_page(void)
{
	return page;
}

bool
engine_process_tries_gpu(void)
{
	return tries_gpu;
}

bool
engine_process_has_gpu(void)
{
	return page != NULL && strncmp(page->device, "cuda", 4) == 0;
}

bool
engine_process_lost_gpu(void)
{
	return lost_gpu;
}

/* ---- starting ---- */

/* The engine lies where the server's programs do. */
static void
engine_path(char *path, Size bytes)
{
	char	   *slash;

	strlcpy(path, my_exec_path, bytes);
	slash = strrchr(path, '/');
	if (slash != NULL)
		slash[1] = '\0';
	else
		path[0] = '\0';
	strlcat(path, ENGINE_PROGRAM, bytes);
}

/* The CUDA device lies beside the extension's library; false: it was not installed. */
static bool
cuda_path(char *path, Size bytes)
{
	snprintf(path, bytes, "%s/%s", pkglib_path, CUDA_LIBRARY);
	return access(path, R_OK) == 0;
}

/* The signals whose handlers kill the engine by engine_pid. */
static void
block_handlers(sigset_t *before)
{
	sigset_t	set;

	sigemptyset(&set);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGABRT);
	sigprocmask(SIG_BLOCK, &set, before);
}

bool
engine_process_start(const char *without_cuda, char *error, Size bytes)
{
	Launch		launch = {-1, -1, {-1, -1}, {-1, -1}, NULL};
	char		path[MAXPGPATH];
	char		library[MAXPGPATH];
	char	  **argv;
	bool		has_library = cuda_path(library, sizeof(library));
	sigset_t	before;
	pid_t		pid = 0;
	int			failed;

	Assert(engine_pid == 0);
	tries_gpu = has_library && without_cuda == NULL;
	engine_path(path, sizeof(path));
	argv = settings_arguments(path, has_library ? library : NULL, without_cuda);
	if (!launch_open(&launch) || !launch_mark_descriptors())
	{
		snprintf(error, bytes, "could not prepare the engine's descriptors: %s", strerror(errno));
		launch_close(&launch);
		return false;
	}

	block_handlers(&before);
	failed = launch_spawn(&launch, path, argv, &pid);
	if (failed == 0)
		engine_pid = pid;
	sigprocmask(SIG_SETMASK, &before, NULL);

	if (failed != 0)
	{
		snprintf(error, bytes, "could not run \"%s\": %s", path, strerror(failed));
		launch_close(&launch);
		return false;
	}
	launch_close_theirs(&launch);
	page = launch.page;
	settings_begin(launch.control[1]);
	log_begin(launch.log[0]);
	return true;
}

/* ---- ending ---- */

void
engine_process_signal(int signo)
{
	if (engine_pid != 0)
		kill(engine_pid, signo);
}

/* After waitpid: nothing of the process is left. */
static void
forget_engine(void)
{
	engine_process_log();
	settings_end();
	log_end();
	lost_gpu = engine_process_has_gpu() && infer_load_acquire32(&page->device_lost) != 0;
	if (page != NULL)
		munmap(unconstify(struct infer_status_page *, page), INFER_REGION_HEAD);
	page = NULL;
}

/* waitpid and engine_pid change together, as the handlers see it. */
static bool
wait_engine(int *status, int options)
{
	sigset_t	before;
	pid_t		got;

	block_handlers(&before);
	do
	{
		got = waitpid(engine_pid, status, options);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		*status = 0;			/* there is no such child, so there is nothing to reap */
	if (got != 0)
		engine_pid = 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return got != 0;
}

bool
engine_process_reap(int *status)
{
	if (engine_pid == 0 || !wait_engine(status, WNOHANG))
		return false;
	forget_engine();
	return true;
}

void
engine_process_kill(int *status)
{
	*status = 0;
	if (engine_pid == 0)
		return;
	kill(engine_pid, SIGKILL);
	(void) wait_engine(status, 0);
	forget_engine();
}

/* Only what may be done in a signal handler. */
void
engine_process_kill_in_handler(void)
{
	if (engine_pid == 0)
		return;
	kill(engine_pid, SIGKILL);
	while (waitpid(engine_pid, NULL, 0) < 0 && errno == EINTR)
		;
}
