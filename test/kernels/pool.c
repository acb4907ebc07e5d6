/*
 * pool.c
 *	  The threads: every chunk runs once, whoever comes late; quotas of control groups.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/cpu/pool/pool.h"
#include "engine/status.h"
#include "tap.h"

#define CHUNKS	64

struct work
{
	uint32_t	runs[CHUNKS];
	uint64_t	sum;
	uint32_t	threads_seen;		/* bits */
};

static void
count_chunk(void *context, uint32_t chunk, int thread)
{
	struct work *work = context;

	__atomic_add_fetch(&work->runs[chunk], 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&work->sum, chunk, __ATOMIC_RELAXED);
	__atomic_or_fetch(&work->threads_seen, 1u << thread, __ATOMIC_RELAXED);
	for (volatile int i = 0; i < 200; i++)
		;
}

static bool
each_once(const struct work *work, uint32_t count)
{
	for (uint32_t c = 0; c < CHUNKS; c++)
		if (work->runs[c] != (c < count))
			return false;
	return true;
}

/* Jobs of all sizes, hot and after sleep, woken or not. */
static void
test_jobs(int threads)
{
	struct status status;
	struct pool *pool;
	bool		fine = true;
	uint32_t	seen = 0;

	status_clear(&status);
	pool = pool_create(threads, &status);
	tap_ok(pool != NULL && pool_threads(pool) == threads, "a pool of %d threads", threads);
	for (uint32_t i = 0; i < 20000; i++)
	{
		struct work work = {0};
		uint32_t	count = i % 2 == 0 ? 2 : 1 + i % CHUNKS;	/* a late worker must not mistake one for the other */

		pool_run(pool, count_chunk, &work, count, i % 5 != 0, i % 3 == 0);
		fine = fine && each_once(&work, count);
		seen |= work.threads_seen;
		if (i % 2000 == 0)
			usleep(2000);			/* let them fall asleep */
	}
	tap_ok(fine, "%d threads: every chunk of 20000 jobs ran once", threads);
	tap_ok(threads == 1 ? seen == 1 : seen > 1 && seen < 1u << threads, "%d threads: others helped (%x)", threads, seen);
	pool_free(pool);
}

static void *
other_caller(void *argument)
{
	struct pool *pool = argument;
	bool		fine = true;

	for (int i = 0; i < 5000; i++)
	{
		struct work work = {0};

		pool_run(pool, count_chunk, &work, CHUNKS, true, true);
		fine = fine && each_once(&work, CHUNKS);
	}
	return fine ? pool : NULL;
}

static void
test_two_callers(void)
{
	struct status status;
	struct pool *pool;
	pthread_t	thread;
	void	   *result;
	bool		fine;

	status_clear(&status);
	pool = pool_create(2, &status);
	pthread_create(&thread, NULL, other_caller, pool);
	fine = other_caller(pool) != NULL;
	pthread_join(thread, &result);
	tap_ok(fine && result != NULL, "two callers at once: neither loses a chunk");
	pool_free(pool);
}

static char folder[] = "/tmp/infer-quota-XXXXXX";

static void
write_file(const char *name, const char *text)
{
	char		path[512];
	FILE	   *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++)
	{
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	fputs(text, file);
	fclose(file);
}

static double
quota(void)
{
	char		membership[512];

	snprintf(membership, sizeof(membership), "%s/membership", folder);
	return pool_quota(membership, folder);
}

static void
test_quota(void)
{
	char		command[600];

	if (mkdtemp(folder) == NULL)
		return;
	write_file("membership", "0::/a/b\n");
	tap_ok(quota() == 0, "no files, no quota");
	write_file("a/b/cpu.max", "max 100000\n");
	tap_ok(quota() == 0, "version 2: max is no quota");
	write_file("a/cpu.max", "150000 100000\n");
	tap_ok(quota() == 1.5, "version 2: the parent's quota counts");
	write_file("a/b/cpu.max", "400000 100000\n");
	tap_ok(quota() == 1.5, "version 2: the smallest counts");
	write_file("membership", "5:memory:/x\n4:cpu,cpuacct:/pod\n0::/none\n");
	write_file("cpu/pod/cpu.cfs_quota_us", "-1\n");
	write_file("cpu/pod/cpu.cfs_period_us", "100000\n");
	tap_ok(quota() == 0, "version 1: -1 is no quota");
	write_file("cpu/pod/cpu.cfs_quota_us", "300000\n");
	tap_ok(quota() == 3, "version 1: three cores");
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command) != 0)
		printf("# left %s\n", folder);
	tap_ok(pool_usable_cores() >= 1 && pool_usable_cores() <= sysconf(_SC_NPROCESSORS_CONF), "usable cores: %d",
		   pool_usable_cores());
}

int
main(void)
{
	test_jobs(1);
	test_jobs(2);
	test_jobs(4);
	test_two_callers();
	test_quota();
	return tap_done();
}
