/*
 * engine_process.h
 *	  Engines for tests: started from the test program itself (engine_main with the toy
 *	  kind, or with ENGINE_REAL_KINDS those of the engine), supervised as the server's worker
 *	  does it, in a folder of their own.
 */
#ifndef TEST_ENGINE_PROCESS_H
#define TEST_ENGINE_PROCESS_H

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine/model/files.h"
#include "engine/process/serve.h"
#include "raw_client.h"
#ifndef ENGINE_REAL_KINDS
#include "toy_kind.h"
#endif

#ifndef ENGINE_PATIENCE
#define ENGINE_PATIENCE	RAW_TIMEOUT		/* msec until it is ready, or gone */
#endif

struct engine_process
{
	char		folder[64];
	char		socket[96];
	char		log[96];
	pid_t		pid;
	int			control;			/* writing end */
	struct infer_status_page *page;
};

static RAW_UNUSED void
engine_folder(struct engine_process *e)
{
	char		path[128];

	snprintf(e->folder, sizeof(e->folder), "/tmp/infer-test-XXXXXX");
	if (mkdtemp(e->folder) == NULL)
		raw_fail("mkdtemp");
	snprintf(path, sizeof(path), "%s/models", e->folder);
	mkdir(path, 0700);
	snprintf(e->socket, sizeof(e->socket), "%s/engine.sock", e->folder);
	snprintf(e->log, sizeof(e->log), "%s/log", e->folder);
}

/* Starts one in e->folder (made by engine_folder); settings: NAME=VALUE, NULL at the end. */
static RAW_UNUSED void
engine_start(struct engine_process *e, const char *const *settings)
{
	char		lock[128];
	char		cache[128];
	char	   *argv[64] = {"infer-engine", "engine", "--socket", e->socket, "--lock", lock, "--cache", cache,
		"--status-fd", "100", "--control-fd", "101"};
	int			argc = 12;
	int			page = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int			pipes[2];

	snprintf(lock, sizeof(lock), "%s/engine.lock", e->folder);
	snprintf(cache, sizeof(cache), "%s/models", e->folder);
	for (int i = 0; settings != NULL && settings[i] != NULL; i++)
	{
		argv[argc++] = "--setting";
		argv[argc++] = (char *) settings[i];
	}
	if (ftruncate(page, INFER_REGION_HEAD) < 0 || pipe2(pipes, O_CLOEXEC) < 0)
		raw_fail("engine_start");
	e->page = mmap(NULL, INFER_REGION_HEAD, PROT_READ, MAP_SHARED, page, 0);
	e->control = pipes[1];
	e->pid = fork();
	if (e->pid == 0)
	{
		int			log = open(e->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		int			stray = open("/dev/null", O_RDONLY);	/* must not survive in the engine */
		sigset_t	all;

		(void) stray;
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);		/* nor this mask */
		dup2(log, 2);
		dup2(page, 100);
		dup2(pipes[0], 101);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(page);
	close(pipes[0]);
	for (int i = 0; i < ENGINE_PATIENCE && __atomic_load_n(&e->page->state, __ATOMIC_ACQUIRE) != INFER_ENGINE_READY; i++)
	{
		if (waitpid(e->pid, NULL, WNOHANG) == e->pid)
			break;
		usleep(1000);
	}
}

/* The exit status as waitpid gives it, or -1: still running after timeout msec. */
static RAW_UNUSED int
engine_wait(struct engine_process *e, int timeout)
{
	int			status;

	for (int i = 0; i < timeout; i++)
	{
		if (waitpid(e->pid, &status, WNOHANG) == e->pid)
			return status;
		usleep(1000);
	}
	return -1;
}

static RAW_UNUSED void
engine_stop(struct engine_process *e)
{
	kill(e->pid, SIGKILL);
	engine_wait(e, ENGINE_PATIENCE);
	close(e->control);
	munmap(e->page, INFER_REGION_HEAD);
}

/* What a sanitizer has found in the engine stands in its log, and ended it. */
static RAW_UNUSED void
engine_show_findings(struct engine_process *e)
{
	FILE	   *log = fopen(e->log, "r");
	char		line[512];
	int			left = 0;

	while (log != NULL && fgets(line, sizeof(line), log) != NULL)
	{
		if (left == 0 && (strstr(line, "Sanitizer: ") != NULL || strstr(line, "runtime error: ") != NULL))
			left = 80;
		if (left > 0 && left-- > 0)
			fprintf(stderr, "# %s", line);
	}
	if (log != NULL)
		fclose(log);
}

/* What an engine said that did not start. */
static RAW_UNUSED void
engine_show_log(struct engine_process *e)
{
	FILE	   *log = fopen(e->log, "r");
	char		line[512];

	while (log != NULL && fgets(line, sizeof(line), log) != NULL)
		printf("# %s", line);
	if (log != NULL)
		fclose(log);
}

static RAW_UNUSED void
engine_remove_folder(struct engine_process *e)
{
	char		command[128];

	engine_show_findings(e);
	if (getenv("INFER_TEST_KEEP") != NULL)
		return;					/* to look at the log */
	snprintf(command, sizeof(command), "rm -rf '%s'", e->folder);
	if (system(command) != 0)
		raw_fail(command);
}

static RAW_UNUSED bool
engine_lives(struct engine_process *e)
{
	return waitpid(e->pid, NULL, WNOHANG) == 0;
}

/* Whether the log has a line with this text, now or soon. */
static RAW_UNUSED bool
engine_logged(struct engine_process *e, const char *text)
{
	for (int i = 0; i < RAW_TIMEOUT / 10; i++)
	{
		char		buffer[65536];
		int			fd = open(e->log, O_RDONLY | O_CLOEXEC);
		off_t		size = lseek(fd, 0, SEEK_END);
		off_t		at = lseek(fd, size > 60000 ? size - 60000 : 0, SEEK_SET);
		ssize_t		got = at >= 0 ? read(fd, buffer, sizeof(buffer) - 1) : -1;

		close(fd);
		if (got > 0)
		{
			buffer[got] = '\0';
			if (strstr(buffer, text) != NULL)
				return true;
		}
		usleep(10000);
	}
	return false;
}

/* Descriptors that the engine has open. */
static RAW_UNUSED int
engine_descriptors(struct engine_process *e)
{
	char		path[64];
	DIR		   *dir;
	int			count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int) e->pid);
	dir = opendir(path);
	while (dir != NULL && readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count - 2;
}

/* A number from /proc/PID/status, as base says. */
static RAW_UNUSED uint64_t
engine_status(struct engine_process *e, const char *name, int base)
{
	char		path[64];
	char		line[256];
	uint64_t	value = 0;
	FILE	   *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int) e->pid);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
			value = strtoull(line + strlen(name) + 1, NULL, base);
	}
	fclose(file);
	return value;
}

/* The digest of a model of one file, and the file in the cache if write_it says so. */
static RAW_UNUSED void
engine_model(struct engine_process *e, const char *name, const void *contents, size_t size, bool write_it,
			 uint8_t digest[INFER_KEY_BYTES])
{
	struct model_file file = {.name = name, .data = contents, .size = size};
	struct model_files files = {.count = 1, .files = &file};
	char		path[256];
	int			used;
	FILE	   *out;

	files_digest(&files, digest);
	if (!write_it)
		return;
	used = snprintf(path, sizeof(path), "%s/models/", e->folder);
	for (int i = 0; i < INFER_KEY_BYTES; i++)
		used += sprintf(path + used, "%02x", digest[i]);
	mkdir(path, 0700);
	snprintf(path + used, sizeof(path) - (size_t) used, "/%s", name);
	out = fopen(path, "w");
	fwrite(contents, 1, size, out);
	fclose(out);
}

static RAW_UNUSED void
engine_toy(struct engine_process *e, const char *contents, bool write_it, uint8_t digest[INFER_KEY_BYTES])
{
	engine_model(e, "toy", contents, strlen(contents), write_it, digest);
}

/* Puts a file into the cache as model.onnx. */
static RAW_UNUSED void
engine_put_onnx(struct engine_process *e, const char *path, uint8_t key[INFER_KEY_BYTES])
{
	static char contents[1 << 20];
	FILE	   *file = fopen(path, "r");
	size_t		size;

	if (file == NULL)
		raw_fail(path);
	size = fread(contents, 1, sizeof(contents), file);
	fclose(file);
	engine_model(e, "model.onnx", contents, size, true, key);
}

/* Loads it, too; true if it is there. */
static RAW_UNUSED bool
engine_load_onnx(struct engine_process *e, struct raw_client *c, const char *path, uint8_t key[INFER_KEY_BYTES])
{
	engine_put_onnx(e, path, key);
	return raw_load(c, key, key, 0) && raw_receive(c, RAW_TIMEOUT) == INFER_FRAME_LOADED;
}

/* Loads a toy of the cache by its digest; true if it is there. */
static RAW_UNUSED bool
engine_load_toy(struct engine_process *e, struct raw_client *c, const char *contents, uint8_t key[INFER_KEY_BYTES])
{
	engine_toy(e, contents, true, key);
	return raw_load(c, key, key, 0) && raw_receive(c, RAW_TIMEOUT) == INFER_FRAME_LOADED;
}

#endif							/* TEST_ENGINE_PROCESS_H */
