/*
 * pool.c
 *	  See pool.h.
 *
 * Ordering: a job's fields are written before its generation is published, and are read
 * again only by who has seen that generation.  The claim says by itself whether chunks are
 * left: it must not take the job's count to know, which may be the next job's already.  So
 * a claim succeeds only while its job runs, and fields that were read before it were the
 * job's.  A
 * sleeper announces itself, then looks at the generation again; a publisher stores the
 * generation, then looks for sleepers; both sequentially consistent, so one of them sees
 * the other.
 */
#include "pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../protocol/protocol.h"
#include "../../process/thread.h"
#include "../../status.h"
#include "../cpu.h"

#define SPIN_NSEC		50000
#define SPIN_PAUSES		64			/* between two looks at the clock */
#define CACHE_LINE		64

struct pool
{
	_Alignas(CACHE_LINE) uint64_t claim;	/* generation << 32 | chunks nobody has */
	_Alignas(CACHE_LINE) uint32_t generation;	/* workers wait for it to change */
	_Alignas(CACHE_LINE) uint32_t left;	/* chunks not done; the caller waits for 0 */
	uint32_t	caller_asleep;
	_Alignas(CACHE_LINE) uint32_t sleepers;
	uint32_t	busy;				/* a caller has the pool */
	uint32_t	stopping;

	/* the job */
	pool_job	job;
	void	   *context;
	uint32_t	count;

	int			threads;
	int			started;
	pthread_t  *workers;
};

struct worker
{
	struct pool *pool;
	int			thread;
};

static long
futex(uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* Until *word is (equal) or is no longer (!equal) value, or the time is up; returns what it is. */
static uint32_t
spin(const uint32_t *word, uint32_t value, bool equal)
{
	uint64_t	end = 0;

	for (;;)
	{
		uint64_t	now;

		for (int i = 0; i < SPIN_PAUSES; i++)
		{
			uint32_t	seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

			if ((seen == value) == equal)
				return seen;
			infer_pause();
		}
		now = cpu_now_nsec();
		if (end == 0)
			end = now + SPIN_NSEC;
		else if (now > end)
			return __atomic_load_n(word, __ATOMIC_ACQUIRE);
	}
}

uint32_t
pool_control_set(uint32_t control)
{
#if defined(__x86_64__)
	uint32_t	before = __builtin_ia32_stmxcsr();

	__builtin_ia32_ldmxcsr(control);
	return before;
#else
	return control;
#endif
}

/* Takes chunks of the generation until none is left. */
static void
take_chunks(struct pool *pool, uint32_t generation, int thread)
{
	pool_job	job = __atomic_load_n(&pool->job, __ATOMIC_RELAXED);
	void	   *context = __atomic_load_n(&pool->context, __ATOMIC_RELAXED);
	uint32_t	count = __atomic_load_n(&pool->count, __ATOMIC_RELAXED);
	uint64_t	claim = __atomic_load_n(&pool->claim, __ATOMIC_ACQUIRE);

	for (;;)
	{
		if ((uint32_t) (claim >> 32) != generation || (uint32_t) claim == 0)
			return;
		if (!__atomic_compare_exchange_n(&pool->claim, &claim, claim - 1, false, __ATOMIC_ACQ_REL,
										 __ATOMIC_ACQUIRE))
			continue;
		job(context, count - (uint32_t) claim, thread);
		if (__atomic_sub_fetch(&pool->left, 1, __ATOMIC_SEQ_CST) == 0 &&
			__atomic_load_n(&pool->caller_asleep, __ATOMIC_SEQ_CST))
			futex(&pool->left, FUTEX_WAKE_PRIVATE, 1);
		claim = __atomic_load_n(&pool->claim, __ATOMIC_ACQUIRE);
	}
}

static void *
worker_main(void *argument)
{
	struct worker worker = *(struct worker *) argument;
	struct pool *pool = worker.pool;
	uint32_t	seen = 0;

	free(argument);
	pthread_setname_np(pthread_self(), "infer-compute");
	pool_control_set(POOL_CONTROL);
	thread_computes();
	for (;;)
	{
		uint32_t	generation = spin(&pool->generation, seen, false);

		while (generation == seen)
		{
			__atomic_add_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
			if (__atomic_load_n(&pool->generation, __ATOMIC_SEQ_CST) == seen)
				futex(&pool->generation, FUTEX_WAIT_PRIVATE, seen);
			__atomic_sub_fetch(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
			generation = __atomic_load_n(&pool->generation, __ATOMIC_SEQ_CST);
		}
		if (__atomic_load_n(&pool->stopping, __ATOMIC_ACQUIRE))
			return NULL;
		seen = generation;
		take_chunks(pool, generation, worker.thread);
	}
}

static void
run_alone(pool_job job, void *context, uint32_t count)
{
	for (uint32_t chunk = 0; chunk < count; chunk++)
		job(context, chunk, 0);
}

static void
run_together(struct pool *pool, pool_job job, void *context, uint32_t count, bool wake)
{
	uint32_t	generation = pool->generation + 1;
	uint32_t	left;

	__atomic_store_n(&pool->job, job, __ATOMIC_RELAXED);
	__atomic_store_n(&pool->context, context, __ATOMIC_RELAXED);
	__atomic_store_n(&pool->count, count, __ATOMIC_RELAXED);
	__atomic_store_n(&pool->left, count, __ATOMIC_RELAXED);
	__atomic_store_n(&pool->claim, (uint64_t) generation << 32 | count, __ATOMIC_RELEASE);
	__atomic_store_n(&pool->generation, generation, __ATOMIC_SEQ_CST);
	if (wake && __atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST) > 0)
		futex(&pool->generation, FUTEX_WAKE_PRIVATE,
			  count - 1 < (uint32_t) pool->started ? count - 1 : (uint32_t) pool->started);
	take_chunks(pool, generation, 0);

	left = spin(&pool->left, 0, true);
	while (left != 0)
	{
		__atomic_store_n(&pool->caller_asleep, 1, __ATOMIC_SEQ_CST);
		left = __atomic_load_n(&pool->left, __ATOMIC_SEQ_CST);
		if (left != 0)
			futex(&pool->left, FUTEX_WAIT_PRIVATE, left);
		__atomic_store_n(&pool->caller_asleep, 0, __ATOMIC_SEQ_CST);
		left = __atomic_load_n(&pool->left, __ATOMIC_SEQ_CST);
	}
}

void
pool_run(struct pool *pool, pool_job job, void *context, uint32_t count, bool help, bool wake)
{
	if (!help || count < 2 || pool->started == 0 ||
		__atomic_exchange_n(&pool->busy, 1, __ATOMIC_ACQUIRE))
		run_alone(job, context, count);
	else
	{
		run_together(pool, job, context, count, wake);
		__atomic_store_n(&pool->busy, 0, __ATOMIC_RELEASE);
	}
}

int
pool_threads(const struct pool *pool)
{
	return pool->started + 1;
}

/* Workers take no signals: those are the business of who waits for them. */
static bool
start_workers(struct pool *pool)
{
	sigset_t	all;
	sigset_t	before;
	bool		fine = true;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (fine && pool->started < pool->threads - 1)
	{
		struct worker *worker = malloc(sizeof(*worker));

		fine = worker != NULL;
		if (fine)
		{
			worker->pool = pool;
			worker->thread = pool->started + 1;
			fine = pthread_create(&pool->workers[pool->started], NULL, worker_main, worker) == 0;
		}
		if (fine)
			pool->started++;
		else
			free(worker);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return fine;
}

struct pool *
pool_create(int threads, struct status *status)
{
	struct pool *pool;

	if (posix_memalign((void **) &pool, CACHE_LINE, sizeof(*pool)) != 0)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*pool));
		return NULL;
	}
	*pool = (struct pool) {.threads = threads};
	pool->workers = calloc((size_t) threads, sizeof(*pool->workers));
	if (pool->workers == NULL || !start_workers(pool))
	{
		pool_free(pool);
		status_set(status, INFER_ERROR_MEMORY, "could not start %d compute threads", threads);
		status_hint(status, "Lower infer.cpu_threads or raise the limit on processes.");
		return NULL;
	}
	return pool;
}

void
pool_free(struct pool *pool)
{
	if (pool == NULL)
		return;
	__atomic_store_n(&pool->stopping, 1, __ATOMIC_RELEASE);
	__atomic_add_fetch(&pool->generation, 1, __ATOMIC_SEQ_CST);
	futex(&pool->generation, FUTEX_WAKE_PRIVATE, INT_MAX);
	for (int i = 0; i < pool->started; i++)
		pthread_join(pool->workers[i], NULL);
	free(pool->workers);
	free(pool);
}
