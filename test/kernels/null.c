/*
 * null.c
 *	  The null device: right where it has no fault, wrong exactly when it is told to.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "protocol/protocol.h"
#include "tap.h"

static float x[4] = {1, 2, -3, 13};
static float y[4];

/* Runs 2·x on n rows, starting at row first; the status says how it went. */
static bool
twice(struct op_case *c, uint32_t first, uint32_t rows, struct status *status)
{
	static float two = 2;
	void	   *bindings[3] = {x + first, &two, y + first};

	status_clear(status);
	memset(y, 0, sizeof(y));
	return case_run(c, rows, bindings, NULL, status);
}

static struct op_case
open_case(const char *setting)
{
	struct op_case c = {.op = {.op = DEVICE_OP_BINARY, .fn = BINARY_MUL}, .inputs_count = 2};

	c.tensors[0] = c.tensors[2] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 0, NULL);
	c.tensors[1] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 0, NULL);
	case_compile(&c, case_device(setting, NULL, 1));
	return c;
}

static void
close_case(struct op_case *c)
{
	case_free(c);
	c->device->ops->close(c->device);
}

static void
test_statuses(void)
{
	struct status status;
	struct op_case c = open_case("null");

	tap_ok(twice(&c, 0, 4, &status) && y[0] == 2 && y[2] == -6, "without a fault it computes");
	close_case(&c);

	c = open_case("null:fail=2,oom=3");
	tap_ok(twice(&c, 0, 4, &status), "fail=2: the first call works");
	tap_ok(!twice(&c, 0, 4, &status) && status.error == INFER_ERROR_DEVICE, "the second fails");
	tap_ok(!twice(&c, 0, 4, &status) && status.error == INFER_ERROR_MEMORY, "oom=3: the third is out of memory");
	tap_ok(twice(&c, 0, 4, &status), "the fourth works");
	close_case(&c);

	c = open_case("null:lost=2");
	tap_ok(twice(&c, 0, 4, &status), "lost=2: the first call works");
	for (int i = 0; i < 3; i++)
		tap_ok(!twice(&c, 0, 4, &status) && status.error == INFER_ERROR_DEVICE_LOST, "and then never again");
	status_clear(&status);
	tap_ok(c.device->ops->poll(c.queue, 1, &status) == DEVICE_LOST, "tickets are lost, too");
	close_case(&c);

	c = open_case("null:fail=2+");
	tap_ok(twice(&c, 0, 4, &status) && !twice(&c, 0, 4, &status) && !twice(&c, 0, 4, &status) &&
		   status.error == INFER_ERROR_DEVICE, "fail=2+: from the second on");
	close_case(&c);

	c = open_case("null:fail_on=13");
	tap_ok(twice(&c, 0, 3, &status), "fail_on=13: innocent rows compute");
	tap_ok(!twice(&c, 0, 4, &status) && status.error == INFER_ERROR_DEVICE, "with the guilty one they fail");
	tap_ok(!twice(&c, 3, 1, &status), "and it alone");
	close_case(&c);
}

static void
test_delay(void)
{
	struct status status;
	struct op_case c = open_case("null:delay=30");
	struct timespec before;
	struct timespec after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	twice(&c, 0, 4, &status);
	clock_gettime(CLOCK_MONOTONIC, &after);
	tap_ok((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 29,
		   "delay=30 takes its time");
	close_case(&c);
}

/* How a child ends that makes two calls of rows rows; SIGALRM: it hung. */
static int
child_signal(const char *setting, uint32_t first, uint32_t rows)
{
	int			ended;
	pid_t		child;

	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		struct status status;
		struct op_case c = open_case(setting);

		sigset_t	all;

		/* as the engine's threads do */
		sigfillset(&all);
		sigdelset(&all, SIGALRM);
		sigprocmask(SIG_SETMASK, &all, NULL);
		alarm(1);
		twice(&c, first, rows, &status);
		twice(&c, first, rows, &status);
		_exit(0);
	}
	waitpid(child, &ended, 0);
	return WIFSIGNALED(ended) ? WTERMSIG(ended) : 0;
}

static void
test_deaths(void)
{
	struct device_options options = {.threads = 1};
	struct status status;

	tap_ok(child_signal("null:crash=2", 0, 4) == SIGSEGV, "crash=2 kills the process");
	tap_ok(child_signal("null:crash=3", 0, 4) == 0, "crash=3 does not, in two calls");
	tap_ok(child_signal("null:crash_on=13", 0, 4) == SIGSEGV, "crash_on=13 kills with the guilty row");
	tap_ok(child_signal("null:crash_on=13", 0, 3) == 0, "and not without it");
	tap_ok(child_signal("null:hang=1", 0, 4) == SIGALRM, "hang=1 hangs");
	tap_ok(child_signal("null:hang_on=13", 3, 1) == SIGALRM, "hang_on=13 hangs");
	for (int i = 0; i < 5; i++)
	{
		static const char *const wrong[] = {"null:explode=1", "null:fail", "null:fail=", "null:fail=x", "null:delay=1s"};

		status_clear(&status);
		tap_ok(device_open(wrong[i], &options, &status) == NULL && status.error == INFER_ERROR_UNSUPPORTED,
			   "\"%s\" is refused: %s", wrong[i], status.message);
	}
}

int
main(void)
{
	test_statuses();
	test_delay();
	test_deaths();
	return tap_done();
}
