/*
 * start.c
 *	  Starting an engine: when, and after what.
 *
 * Not before an old engine has let go of the lock, nor before the back-off is over.
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define BACKOFF_FIRST	100			/* ms, after the second end in a row */
#define BACKOFF_MAX		5000		/* ms */
#define BACKOFF_SERVED	800			/* ms, at most, if the engine that ended had been ready */
#define OLD_ENGINE_TIME	500			/* ms that an old engine has to leave by itself */

/* ---- old engines ---- */

/* Whether the process is an engine: a lock file may outlive its writer, and numbers return. */
static bool
is_engine(pid_t pid)
{
	char		path[MAXPGPATH];
	char		comm[32] = "";
	int			fd;
	ssize_t		length;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, comm, sizeof(comm) - 1);
	close(fd);
	return length > 0 && strncmp(comm, "infer-engine", 12) == 0;
}

/* Whether an old engine holds the lock; *holder is its process, 0 if it cannot be told. */
static bool
lock_is_held(pid_t *holder)
{
	char		text[32] = "";
	int			fd = open(INFER_LOCK, O_RDWR | O_CLOEXEC);
	bool		held;

	*holder = 0;
	if (fd < 0)
		return false;
	held = flock(fd, LOCK_EX | LOCK_NB) < 0;
	if (held && read(fd, text, sizeof(text) - 1) > 0)
		*holder = atoi(text);
	close(fd);
	if (*holder <= 1 || !is_engine(*holder))
		*holder = 0;
	return held;
}

/* It ends by itself when its supervisor goes; one that does not is killed. */
bool
supervisor_old_engine_gone(TimestampTz now)
{
	pid_t		holder;

	if (!lock_is_held(&holder))
	{
		supervisor.old_since = 0;
		supervisor.old_killed = false;
		return true;
	}
	if (supervisor.old_since == 0)
		supervisor.old_since = now;
	if (!supervisor.old_killed && holder != 0 && now >= after_ms(supervisor.old_since, OLD_ENGINE_TIME))
	{
		ereport(LOG, (errmsg("infer: killing an engine left over from before, process %d", (int) holder)));
		kill(holder, SIGKILL);
		supervisor.old_killed = true;
	}
	supervisor.start_at = after_ms(now, 10);
	return false;
}

/* ---- starting ---- */

void
supervisor_back_off(TimestampTz now)
{
	int			delay_max = supervisor.failures == 0 && supervisor.was_ready ? BACKOFF_SERVED : BACKOFF_MAX;
	int			delay = 0;

	if (supervisor.ends > 0)
	{
		delay = BACKOFF_FIRST;
		for (int i = 1; i < supervisor.ends && delay < delay_max; i++)
			delay *= 2;
	}
	supervisor.ends++;
	supervisor.start_at = after_ms(now, Min(delay, delay_max));
}

/*
 * Our folders: nobody but the server's user may look into them.  They are made before each
 * start, since whoever cleans up may have taken them away.
 */
static bool
make_directories(char *error, size_t size)
{
	static const char *const paths[] = {"pg_infer", INFER_DIRECTORY, INFER_CACHE};

	for (int i = 0; i < lengthof(paths); i++)
	{
		struct stat st;

		if (mkdir(paths[i], S_IRWXU) == 0)
			continue;
		if (errno == EEXIST && stat(paths[i], &st) == 0)
		{
			if (S_ISDIR(st.st_mode))
				continue;
			snprintf(error, size, "\"%s\" exists but is not a directory", paths[i]);
		}
		else
			snprintf(error, size, "could not create directory \"%s\": %s", paths[i], strerror(errno));
		return false;
	}
	return true;
}

void
supervisor_start_engine(TimestampTz now)
{
	char		error[256];
	bool		folders = make_directories(error, sizeof(error));

	if (!folders || !engine_process_start(supervisor_without_gpu(now), error, sizeof(error)))
	{
		ereport(LOG,
				(errmsg("infer: the engine could not be started"),
				 errdetail("%s.", error),
				 folders ?
				 errhint("Install infer-engine beside the server's programs (make install).") :
				 errhint("Let the server's user write there, and move away what is no folder.")));
		supervisor_share_error(error);
		supervisor.was_ready = false;
		supervisor.ends = Max(supervisor.ends, FAILED_MAX);
		supervisor_back_off(now);
		return;
	}

	supervisor.started_at = now;
	supervisor.was_ready = false;
	supervisor.ordered = false;
	supervisor.hung = false;
	supervisor.kill_at = 0;
	supervisor.loop_beat = supervisor.device_beat = supervisor.load_beat = 0;
	supervisor_watch_reset(now);

	LWLockAcquire(infer_shared->lock, LW_EXCLUSIVE);
	infer_shared->engine_pid = engine_process_pid();
	infer_shared->engine_starts++;
	LWLockRelease(infer_shared->lock);
}
