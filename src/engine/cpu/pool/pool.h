/*
 * pool.h
 *	  The threads that compute.
 *
 * Nouns
 *	job			a function over the chunks 0 … count − 1
 *	claim		one 64-bit word: the job's generation and how many chunks nobody has; a chunk
 *				is taken by compare-and-swap, so a thread that comes late finds nothing, and
 *				one that was held up by the kernel holds up one chunk only
 *	workers		threads 1 … threads − 1; the caller is thread 0
 *
 * Loop
 *	The caller publishes a job, takes chunks like everybody, and returns when all are done.
 *	Workers and callers wait by spinning for about 50 µs, then sleep on a futex.  Only a job
 *	that is worth it wakes sleeping workers; those that still spin help with any.
 *
 * Invariants
 *	Which thread runs a chunk is nobody's business: results must not depend on it.  Nothing
 *	is allocated by pool_run.  Two callers at once: the second runs its job alone.
 */
#ifndef ENGINE_CPU_POOL_H
#define ENGINE_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct status;

typedef void (*pool_job) (void *context, uint32_t chunk, int thread);

/* threads: 1 … usable cores.  Call it after exec, never before a fork. */
extern struct pool *pool_create(int threads, struct status *status);
extern void pool_free(struct pool *pool);
extern int	pool_threads(const struct pool *pool);

/* help: let other threads take part; wake: wake them if they sleep. */
extern void pool_run(struct pool *pool, pool_job job, void *context, uint32_t count, bool help,
					 bool wake);

/*
 * Sets the calling thread's floating-point control word, returns what it was.
 * POOL_CONTROL: rounding to nearest, denormals kept, no traps; workers have it, and
 * whoever calls pool_run sets it around its calls.  Elsewhere than on x86 it is so anyway.
 */
#define POOL_CONTROL	0x1F80u
extern uint32_t pool_control_set(uint32_t control);

/*
 * Cores that this process may use: the smaller of its affinity and its control groups'
 * quota (rounded down), at least 1.
 */
extern int	pool_usable_cores(void);

/*
 * The quota of control groups alone, in cores; 0 if there is none.  membership: a file
 * like /proc/self/cgroup; root: where version 2 is mounted; root/cpu: version 1.
 */
extern double pool_quota(const char *membership, const char *root);

#endif							/* ENGINE_CPU_POOL_H */
