/*
 * engine_faults.c
 *	  The engine as a process: what it inherits, how it ends, by itself and by others, and what a model that fails, hangs or
 *	  kills does to it.
 */
#include <signal.h>
#include <sys/resource.h>

#include "engine_process.h"
#include "tap.h"

static struct engine_process engine;

static void
test_inheritance(void)
{
	struct engine_process e = {0};
	char		path[64];
	char		target[256];
	bool		stray = false;
	struct rlimit core = {.rlim_cur = 99};

	engine_folder(&e);
	engine_start(&e, NULL);
	tap_ok(engine_status(&e, "SigBlk", 16) == 0, "the engine's signal mask is empty");
	tap_ok((engine_status(&e, "SigCgt", 16) & (1ull << (SIGSEGV - 1))) == 0, "a fault has its default action");
	for (int fd = 3; fd < 200; fd++)
	{
		ssize_t		length;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int) e.pid, fd);
		length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		stray = stray || strcmp(target, e.log) == 0 || (strncmp(target, "/dev/null", 9) == 0 && fd == 3);
	}
	tap_ok(!stray, "no stray descriptor survives");
	prlimit(e.pid, RLIMIT_CORE, NULL, &core);
	tap_ok(core.rlim_cur <= 1 && core.rlim_max <= 1, "no core is dumped");
	tap_ok(engine_status(&e, "NoNewPrivs", 10) == 1 && engine_status(&e, "Seccomp", 10) == 2, "it is in its sandbox");
	engine_stop(&e);
	engine_remove_folder(&e);
}

static void
test_exit(const char *name, int signo, int expected)
{
	struct engine_process e = {0};
	int			status;

	engine_folder(&e);
	engine_start(&e, NULL);
	if (signo > 0)
		kill(e.pid, signo);
	else
		close(e.control);
	status = engine_wait(&e, RAW_TIMEOUT);
	tap_ok(status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == expected && access(e.socket, F_OK) < 0,
		   "%s ends it with status %d", name, expected);
	engine_remove_folder(&e);
}

/* Even while a model hangs, on the loop's own thread. */
static void
test_exit_while_hanging(void)
{
	struct engine_process e = {0};
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];
	float		sleeps = TOY_SLEEP + 60000;
	float		x = 1;
	int			status;

	engine_folder(&e);
	engine_start(&e, NULL);
	raw_connect(&c, e.socket);
	engine_load_toy(&e, &c, "plain", key);
	raw_region(&c, 0, 1 << 16);
	raw_call(&c, &c.regions[0], key, &x, 1);	/* a model that has run is run by the loop */
	raw_fill(&c.regions[0], key, &sleeps, 1);
	raw_submit(&c, &c.regions[0]);
	while (!__atomic_load_n(&c.page->device_busy, __ATOMIC_ACQUIRE))
		usleep(1000);
	kill(e.pid, SIGTERM);
	status = engine_wait(&e, RAW_TIMEOUT);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "SIGTERM ends it while a model hangs");
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == 0 && c.regions[0].map->run_state == INFER_RUN_RUNNING,
		   "and the client learns of it, and that its request was running");
	raw_close(&c);
	engine_remove_folder(&e);
}

/* What a model does first, it does beside the loop: others are served. */
static void
test_first_run(void)
{
	struct raw_client c[2];
	uint8_t		key[INFER_KEY_BYTES];
	float		sleeps = TOY_SLEEP + 1000;
	bool		busy;

	raw_connect(&c[0], engine.socket);
	engine_load_toy(&engine, &c[0], "plain, not yet run", key);
	raw_fill(raw_region(&c[0], 0, 1 << 16), key, &sleeps, 1);
	raw_submit(&c[0], &c[0].regions[0]);
	while (!__atomic_load_n(&c[0].page->device_busy, __ATOMIC_ACQUIRE))
		usleep(1000);
	raw_connect(&c[1], engine.socket);
	busy = __atomic_load_n(&c[0].page->device_busy, __ATOMIC_ACQUIRE) != 0;
	tap_ok(busy && infer_load_acquire64(&c[0].regions[0].map->done_seq) == 0,
		   "a model that hangs in its first run does not hang the loop");
	raw_wait(&c[0], &c[0].regions[0], RAW_TIMEOUT);
	raw_close(&c[0]);
	raw_close(&c[1]);
}

/* Whether calls calls of x, one after the other, all end with an error of their row. */
static bool
rows_fail(struct raw_client *c, const uint8_t *key, float x, int calls)
{
	bool		good = true;

	for (int i = 0; i < calls; i++)
		good = good && raw_call(c, &c->regions[0], key, &x, 1) &&
			raw_row_status(&c->regions[0], 0) == INFER_ERROR_DEVICE;
	return good;
}

static void
test_refusing_device(void)
{
	struct engine_process e = {0};
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];
	float		x = 1;
	bool		good;
	int			status;

	engine_folder(&e);
	engine_start(&e, NULL);
	raw_connect(&c, e.socket);
	engine_load_toy(&e, &c, "plain", key);
	raw_region(&c, 0, 1 << 16);
	good = rows_fail(&c, key, TOY_BATCH_ERROR, 15) && raw_call(&c, &c.regions[0], key, &x, 1) &&
		rows_fail(&c, key, TOY_BATCH_ERROR, 15);
	tap_ok(good && engine_lives(&e), "a device that fails now and then is kept");
	good = rows_fail(&c, key, TOY_BATCH_ERROR, 1);
	status = engine_wait(&e, RAW_TIMEOUT);
	tap_ok(good && status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1,
		   "one that answers nothing but errors ends the process, after the answers");
	raw_close(&c);
	engine_remove_folder(&e);
}

/* A row that kills: how the process ends, and what the clients can tell. */
static void
test_killing_row(const char *name, float x, bool by_signal, int code)
{
	struct engine_process e = {0};
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];
	int			status;

	engine_folder(&e);
	engine_start(&e, NULL);
	raw_connect(&c, e.socket);
	engine_load_toy(&e, &c, "slow", key);
	raw_fill(raw_region(&c, 0, 1 << 16), key, &x, 1);
	raw_submit(&c, &c.regions[0]);
	status = engine_wait(&e, RAW_TIMEOUT);
	tap_ok((by_signal ? WIFSIGNALED(status) && WTERMSIG(status) == code : WIFEXITED(status) && WEXITSTATUS(status) == code) &&
		   c.regions[0].map->run_state == INFER_RUN_RUNNING, "%s ends it at once, and the request is known to have run", name);
	raw_close(&c);
	engine_remove_folder(&e);
}

static void
test_lock(void)
{
	struct engine_process second = engine;
	int			status;

	engine_start(&second, NULL);
	status = engine_wait(&second, 100);
	tap_ok(second.page->state != INFER_ENGINE_READY && engine_lives(&engine) &&
		   engine_logged(&engine, "another engine holds the lock file"), "a second engine does not start beside the first");
	(void) status;
	munmap(second.page, INFER_REGION_HEAD);
	close(second.control);
}

static void
test_restart(void)
{
	struct engine_process e = {0};
	struct raw_client c;

	engine_folder(&e);
	engine_start(&e, NULL);
	engine_stop(&e);
	tap_ok(access(e.socket, F_OK) == 0, "kill -9 leaves a socket");
	engine_start(&e, NULL);
	raw_connect(&c, e.socket);
	tap_ok(engine_lives(&e), "which the next engine replaces");
	raw_close(&c);
	engine_stop(&e);
	engine_remove_folder(&e);
}

static void
test_parent(void)
{
	struct engine_process e = {0};
	pid_t		child;
	int			report[2];
	bool		gone = false;

	if (pipe(report) < 0)
		raw_fail("pipe");
	engine_folder(&e);
	child = fork();
	if (child == 0)
	{
		engine_start(&e, NULL);
		if (write(report[1], &e.pid, sizeof(e.pid)) == sizeof(e.pid))
			pause();
		_exit(0);
	}
	if (read(report[0], &e.pid, sizeof(e.pid)) != sizeof(e.pid))
		raw_fail("read");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (int i = 0; i < RAW_TIMEOUT && !gone; i++)
	{
		char		path[64];
		char		text[512] = "";
		int			fd;

		snprintf(path, sizeof(path), "/proc/%d/stat", (int) e.pid);
		fd = open(path, O_RDONLY);
		gone = fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || strstr(text, ") Z ") != NULL;
		if (fd >= 0)
			close(fd);
		usleep(1000);
	}
	tap_ok(gone, "kill -9 of the supervisor ends the engine");
	close(report[0]);
	close(report[1]);
	engine_remove_folder(&e);
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&engine);
	engine_start(&engine, NULL);
	test_first_run();
	test_lock();
	engine_stop(&engine);
	engine_remove_folder(&engine);

	test_inheritance();
	test_exit("SIGTERM", SIGTERM, 0);
	test_exit("SIGINT", SIGINT, 0);
	test_exit("SIGQUIT", SIGQUIT, 1);
	test_exit("SIGABRT", SIGABRT, 1);
	test_exit("the end of the control pipe", 0, 0);
	test_refusing_device();
	test_exit_while_hanging();
	test_killing_row("a fault", TOY_SEGV, true, SIGSEGV);
	test_killing_row("an abort", TOY_ABORT, false, 1);
	test_killing_row("a lost device", TOY_LOST, false, 1);
	test_restart();
	test_parent();
	return tap_done();
}
