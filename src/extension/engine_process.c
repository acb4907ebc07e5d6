/*
 * engine_process.c
 *	  The engine as a child process of the supervisor.
 *
 * Nouns
 *	status page		a memfd that the engine writes; a new one for each engine, so that nobody
 *					mistakes a dead one's words for the living one's
 *	control pipe	lines name=value to the engine; its end of file tells the engine that its
 *					supervisor is gone
 *	log pipe		lines LEVEL: text from the engine (its standard output and error)
 *	setting			what the engine is told on its command line and, changed, by the pipe
 *
 * Invariants
 *	- The engine inherits five descriptors and nothing else: 0 (/dev/null), 1 and 2 (log),
 *	  3 (status page), 4 (control).  It starts with default signal actions and an empty mask.
 *	- All four pipe ends are non-blocking: neither side can be held up by the other.
 *	- engine_pid is set and cleared with the signals blocked whose handlers kill by it.
 */
#include "postgres.h"

#include "engine_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"

#define ENGINE_PROGRAM "infer-engine"
#define ENGINE_FD_STATUS 3
#define ENGINE_FD_CONTROL 4
#define SOURCE_FD_MIN 10			/* above the engine's own numbers, so that dup2 collides with none */

#define LOG_LINE_MAX 1024			/* bytes; longer lines are cut into several */
#define LOG_READ_MAX 65536			/* bytes in one call: a flood does not starve the heartbeats */

typedef struct EngineSetting
{
	const char *name;
	const int  *number;
	char	  *const *text;			/* instead of number */
	bool		reloads;
	int			sent;				/* the number that the engine was told last */
	const bool *flag;				/* instead of number: 0 or 1 */
} EngineSetting;

static EngineSetting settings[] = {
	{"device", NULL, &infer_device, false},
	{"cpu_threads", &infer_cpu_threads, NULL, false},
	{"memory", &infer_memory, NULL, false},				/* MB */
	{"cache_size", &infer_cache_size, NULL, false},		/* MB */
	{"nice", &infer_nice, NULL, false},
	{"batch_rows", &infer_batch_rows, NULL, true},
	{"batch_delay", &infer_batch_delay, NULL, true},	/* usec */
	{"job_share", &infer_job_share, NULL, true},		/* percent */
	{"slice", &infer_slice, NULL, true},	/* usec */
	{"queue_limit", &infer_queue_limit, NULL, true},
	{"payload_limit", &infer_payload_limit, NULL, true},	/* kB */
	{"engine_timeout", &infer_engine_timeout, NULL, true},	/* ms */
	{"log_requests", NULL, NULL, true, .flag = &infer_log_requests},
};

static int
setting_number(const EngineSetting *setting)
{
	return setting->flag != NULL ? *setting->flag : *setting->number;
}

static volatile sig_atomic_t engine_pid = 0;
static const struct infer_status_page *page = NULL;
static int	control_fd = -1;
static int	log_fd = -1;

static char log_line[LOG_LINE_MAX + 1];
static int	log_used = 0;

static char control_line[128];		/* a line that is being written */
static int	control_used = 0;
static int	control_sent = 0;

int
engine_process_log_fd(void)
{
	return log_fd;
}

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

/* ---- starting ---- */

typedef struct Launch				/* what a start has opened so far; -1: not yet */
{
	int			null_fd;
	int			status_fd;
	int			control[2];			/* read by the engine, written by us */
	int			log[2];				/* read by us, written by the engine */
	void	   *page;
} Launch;

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The engine's ends, in our process. */
static void
launch_close_theirs(Launch *launch)
{
	close_fd(&launch->null_fd);
	close_fd(&launch->status_fd);
	close_fd(&launch->control[0]);
	close_fd(&launch->log[1]);
}

static void
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

static bool
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
static bool
mark_descriptors(void)
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

#define ENGINE_ARGUMENTS (16 + 2 * lengthof(settings))

/* The command line, in the current memory context; notes what was sent. */
static void
engine_arguments(char *path, char **argv)
{
	int			n = 0;

	argv[n++] = path;
	argv[n++] = "--socket";
	argv[n++] = INFER_SOCKET;
	argv[n++] = "--lock";
	argv[n++] = INFER_LOCK;
	argv[n++] = "--cache";
	argv[n++] = INFER_CACHE;
	argv[n++] = "--status-fd";
	argv[n++] = psprintf("%d", ENGINE_FD_STATUS);
	argv[n++] = "--control-fd";
	argv[n++] = psprintf("%d", ENGINE_FD_CONTROL);
	for (int i = 0; i < lengthof(settings); i++)
	{
		EngineSetting *setting = &settings[i];

		argv[n++] = "--setting";
		if (setting->text != NULL)
			argv[n++] = psprintf("%s=%s", setting->name, *setting->text);
		else
			argv[n++] = psprintf("%s=%d", setting->name, setting->sent = setting_number(setting));
	}
	argv[n] = NULL;
}

static int
spawn(const Launch *launch, char *path, char **argv, pid_t *pid)
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
engine_process_start(char *error, Size bytes)
{
	Launch		launch = {-1, -1, {-1, -1}, {-1, -1}, NULL};
	char		path[MAXPGPATH];
	char	   *argv[ENGINE_ARGUMENTS];
	sigset_t	before;
	pid_t		pid = 0;
	int			failed;

	Assert(engine_pid == 0);
	engine_path(path, sizeof(path));
	engine_arguments(path, argv);
	if (!launch_open(&launch) || !mark_descriptors())
	{
		snprintf(error, bytes, "could not prepare the engine's descriptors: %s", strerror(errno));
		launch_close(&launch);
		return false;
	}

	block_handlers(&before);
	failed = spawn(&launch, path, argv, &pid);
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
	control_fd = launch.control[1];
	log_fd = launch.log[0];
	log_used = 0;
	control_used = control_sent = 0;
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
	close_fd(&control_fd);
	close_fd(&log_fd);
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

/* ---- the engine's log ---- */

static int
level_of(const char *line, const char **text)
{
	static const struct
	{
		const char *name;
		int			level;
	}			levels[] = {
		{"DEBUG: ", DEBUG1},
		{"INFO: ", LOG},
		{"LOG: ", LOG},
		{"NOTICE: ", LOG},
		{"WARNING: ", WARNING},
		{"ERROR: ", LOG},		/* of the engine, not of this process */
		{"FATAL: ", LOG},
	};

	for (int i = 0; i < lengthof(levels); i++)
	{
		Size		length = strlen(levels[i].name);

		if (strncmp(line, levels[i].name, length) == 0)
		{
			*text = line + length;
			return levels[i].level;
		}
	}
	*text = line;
	return LOG;
}

/* What a terminal or a log reader could stumble over becomes a question mark. */
static void
log_flush(void)
{
	const char *text;
	int			level;

	if (log_used == 0)
		return;
	for (int i = 0; i < log_used; i++)
	{
		unsigned char c = log_line[i];

		if (c == '\t')
			log_line[i] = ' ';
		else if (c < ' ' || c == 0x7f)
			log_line[i] = '?';
	}
	log_line[log_used] = '\0';
	if (pg_encoding_verifymbstr(PG_UTF8, log_line, log_used) != log_used)
	{
		for (int i = 0; i < log_used; i++)
			if (IS_HIGHBIT_SET(log_line[i]))
				log_line[i] = '?';
	}
	log_used = 0;
	level = level_of(log_line, &text);
	ereport(level, (errmsg("infer engine: %s", text)));
}

void
engine_process_log(void)
{
	char		buffer[4096];
	Size		total = 0;
	ssize_t		got;

	while (log_fd >= 0 && total < LOG_READ_MAX)
	{
		got = read(log_fd, buffer, sizeof(buffer));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
		{
			/* at the end of the pipe the process is gone, or soon will be: stop waiting for it */
			if (got == 0 && engine_pid != 0)
				close_fd(&log_fd);
			break;
		}
		total += got;
		for (ssize_t i = 0; i < got; i++)
		{
			if (buffer[i] != '\n')
				log_line[log_used++] = buffer[i];
			if (buffer[i] == '\n' || log_used == LOG_LINE_MAX)
				log_flush();
		}
	}
	if (engine_pid == 0)
		log_flush();
}

/* ---- settings at a reload ---- */

/* The next setting to tell, as a line in control_line; false: the engine knows them all. */
static bool
control_next(void)
{
	for (int i = 0; i < lengthof(settings); i++)
	{
		EngineSetting *setting = &settings[i];

		if (setting->reloads && setting->sent != setting_number(setting))
		{
			setting->sent = setting_number(setting);
			control_used = snprintf(control_line, sizeof(control_line), "%s=%d\n",
									setting->name, setting->sent);
			control_sent = 0;
			return true;
		}
	}
	return false;
}

bool
engine_process_settings(void)
{
	ssize_t		sent;

	while (control_fd >= 0 && (control_sent < control_used || control_next()))
	{
		sent = write(control_fd, control_line + control_sent, control_used - control_sent);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN;		/* EPIPE: the engine has gone, and a new one is told all */
		control_sent += sent;
	}
	return false;
}
