/*
 * thread.c
 *	  Threads that compute ask the kernel for longer slices than others have, and for nothing else.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/process/thread.h"
#include "tap.h"

struct attributes					/* sched_getattr(2) */
{
	uint32_t	size;
	uint32_t	policy;
	uint64_t	flags;
	int32_t		nice;
	uint32_t	priority;
	uint64_t	runtime;
	uint64_t	deadline;
	uint64_t	period;
};

static struct attributes before;
static struct attributes after;
static struct attributes inherited;

static void
look(struct attributes *attributes)
{
	if (syscall(SYS_sched_getattr, 0, attributes, sizeof(*attributes), 0) != 0)
		attributes->size = 0;
}

static void *
look_only(void *argument)
{
	look(argument);
	return NULL;
}

static void *
compute(void *argument)
{
	thread_computes();
	look(argument);
	return NULL;
}

static void
run(void *(*routine) (void *), struct attributes *attributes)
{
	pthread_t	thread;

	if (pthread_create(&thread, NULL, routine, attributes) == 0)
		pthread_join(thread, NULL);
}

int
main(void)
{
	look(&before);
	run(compute, &after);
	run(look_only, &inherited);
	if (before.size == 0 || before.runtime == 0)
	{
		tap_ok(true, "slices # SKIP this kernel has none of their own for threads");
		return tap_done();
	}
	tap_ok(after.runtime > before.runtime && after.runtime > 3000000, "a thread that computes has a longer slice: %llu after %llu ns",
		   (unsigned long long) after.runtime, (unsigned long long) before.runtime);
	tap_ok(after.policy == before.policy && after.nice == before.nice, "and the policy and niceness that it had");
	tap_ok(inherited.runtime == before.runtime, "other threads have theirs");
	return tap_done();
}
