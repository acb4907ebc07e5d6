/*
 * null.h
 *	  What the files of the null device share: device.c (the CPU with faults), async.c (runs on a thread of their
 *	  own, in memory of their own).
 *
 * Invariants of a null device that is asynchronous ("null:async=N")
 *	- enqueue returns at once; one thread computes, ticket after ticket, in the order in which they came from all queues.
 *	- More than N runs in flight are refused, and more than one of a queue: nobody needs them, and the test fails.
 *	- An arena is inaccessible to the host unless a run on it goes on; unless the program has texts, which may
 *	  lie there.
 */
#ifndef ENGINE_NULL_NULL_H
#define ENGINE_NULL_NULL_H

#include <pthread.h>

#include "../device.h"
#include "../status.h"
#include "faults.h"

struct null_arena
{
	struct null_arena *next;
	void	   *data;
	uint64_t	bytes;
};

struct null_device
{
	struct device base;
	struct device *cpu;				/* what computes */
	struct faults faults;
	uint64_t	calls;				/* runs begun so far; atomic */
	bool		lost;				/* atomic */

	/* async */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t	thread;
	bool		stopping;
	uint32_t	inflight;
	uint32_t	met;				/* runs that have been in flight together, as faults.meet wants it */
	struct null_queue *first;		/* queues with tickets to be computed, in their order */
	struct null_queue **last;
	struct null_arena *arenas;
};

/* A program keeps which bindings are float32 by rows, and what the CPU made of it. */
struct null_program
{
	struct device_program *cpu;
	bool		texts;				/* some tensor is of strings */
	uint32_t	segments;
	uint32_t	bindings_count;
	int64_t		elements[];			/* of an item of each binding; 0: not to be looked at */
};

struct null_flight
{
	struct device_program *program;
	uint32_t	first;
	uint32_t	last;
	struct device_batch batch;
	void	  **bindings;
	void	   *arena;
	enum device_state state;
	struct status status;
};

struct null_queue
{
	struct null_device *device;
	struct device_queue *cpu;
	int			use;				/* enum device_use: what computes constants is never asynchronous */

	/* async */
	struct null_queue *next;
	uint64_t	tickets;			/* given out */
	struct null_flight flight;		/* of the last one */
};

/* device.c: on this thread. */
extern uint64_t null_compute(struct null_queue *queue, struct device_program *program, uint32_t first, uint32_t last,
							 const struct device_batch *batch, void *const *bindings, void *arena, struct status *status);

/* async.c */
extern bool null_async_open(struct null_device *device, struct status *status);
extern void null_async_close(struct null_device *device);
extern uint64_t null_async_enqueue(struct null_queue *queue, struct device_program *program, uint32_t first, uint32_t last,
								   const struct device_batch *batch, void *const *bindings, void *arena, struct status *status);
extern enum device_state null_async_wait(struct null_queue *queue, uint64_t ticket, uint64_t usec, struct status *status);
extern void *null_buffer_alloc(struct device *base, struct device_queue *queue, int kind, uint64_t bytes, struct status *status);
extern void null_buffer_free(struct device *base, int kind, void *buffer);

#endif							/* ENGINE_NULL_NULL_H */
