/*
 * core.h
 *	  What the files of the CUDA device's core share, and kernels need not know: programs, arenas, queues.
 *
 * Files
 *	device.cu	which GPUs there are		memory.cu	budget, memory, copies at load
 *	program.cu	plans and constants			host.cu		segments of the host
 *	layout.cu	where an arena's parts lie	arena.cu	buffers for runs
 *	queue.cu	enqueue, poll, wait			run.cu		what a run puts on its stream
 *	watch.cu	the watcher					graph.cu	captured runs
 *	constant.cu	what programs read			estimate.cu	predictions
 *	load.cu		kernels of programs
 */
#ifndef CUDA_CORE_H
#define CUDA_CORE_H

#include "cuda.h"

#include <time.h>

#define CUDA_ALIGN(bytes)	(((uint64_t) (bytes) + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN)

static inline uint64_t
cuda_now_nsec(void)
{
	timespec	now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static inline cuda_device *
cuda_of(device *base)
{
	return (cuda_device *) base;
}

static inline bool
cuda_is_lost(const cuda_device *device)
{
	return __atomic_load_n(&device->lost, __ATOMIC_ACQUIRE) != 0;
}

extern const device_ops cuda_device_ops;

static inline bool
cuda_hangs(const cuda_device *device)
{
	return __atomic_load_n(&device->hangs, __ATOMIC_ACQUIRE) != 0;
}

/* From the first loss on the device is of no more use; the first reason stays. */
extern void cuda_lose(cuda_device *device, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Why, once it is lost. */
extern const char *cuda_lost_reason(const cuda_device *device);

/* A condition variable of the clock of cuda_now_nsec(). */
extern void cuda_condition_init(pthread_cond_t *condition);

/*
 * Host memory that every GPU copies from and to directly, zeroed; NULL and a status.  gpu: any of the device's, since CUDA
 * takes memory of the current one, or of the first that there is.
 */
extern void *cuda_host_alloc(cuda_gpu *gpu, uint64_t bytes, status *status);
extern void cuda_host_free(cuda_gpu *gpu, void *memory);

/* ---- programs ---- */

struct cuda_binding					/* what runs are given by pointer */
{
	uint8_t		lead;
	bool		placed;				/* plans of the GPU read or write it: it has a copy in the arena */
	bool		up;					/* and no op writes it: copied up first */
	bool		down;				/* a plan of the GPU writes it */
	uint64_t	bytes;				/* of one item */
};

struct cuda_copy					/* of a tensor, between the GPU and where the host has it */
{
	cuda_place	place;
	cuda_place	host;
	uint64_t	bytes;				/* of one item */
};

/*
 * A run of ops that the host computes.  Its program's bindings are the graph's own, which it reads and writes where the
 * caller has them, and then mirrors: host memory that stands for places of the arena.
 */
struct cuda_host
{
	uint32_t	first;				/* ops [first, last) */
	uint32_t	last;
	device_program *program;
	uint32_t	down_count;			/* what the GPU has written of what it reads: copied before */
	uint32_t	up_count;			/* what the GPU will read of what it writes: copied behind */
	cuda_copy  *down;
	cuda_copy  *up;
	uint32_t	mirrors_count;
	cuda_place *mirrors;			/* offsets are those in host memory */
};

struct cuda_mirror					/* of a place in the arena, whose tensors follow one another there as they do here */
{
	uint64_t	place;				/* the offset there, */
	uint64_t	offset;				/* and here */
	uint64_t	bytes;				/* of one item, the largest tensor's */
	uint8_t		lead;
};

struct device_program				/* immutable after compile, but for graphs */
{
	cuda_device *device;
	uint32_t	plans_count;		/* one per op: segments' indexes are ops' */
	cuda_plan  *plans;
	cuda_place *places;				/* backing store of all plans' inputs */
	uint32_t   *host_of;			/* by op: 1 + its place in hosts, or 0 */
	uint32_t	hosts_count;
	cuda_host  *hosts;
	uint32_t	mirrors_count;
	cuda_mirror *mirrors;
	uint64_t	mirror_item[DEVICE_LEADS];
	uint32_t	bindings_count;
	uint32_t	bindings_most;		/* of the hosts' programs */
	cuda_binding *bindings;
	uint64_t	arena_item[DEVICE_LEADS];
	bool		sequences;			/* ops look at row_off */
	uint64_t	constants_bytes;
	uint8_t    *constants[CUDA_GPUS_MAX];
	uint64_t	bytes;				/* host memory */
};

/* program.cu */
extern uint32_t cuda_supports(device *base, const device_op *op, const device_tensor *tensors);
extern device_program *cuda_compile(device *base, const device_graph *graph, status *status);
extern void cuda_program_free(device *base, device_program *program);
extern uint64_t cuda_program_bytes(const device_program *program);
extern cuda_place cuda_place_of(const device_tensor *tensor);

/* Bytes of one item. */
extern uint64_t cuda_place_bytes(const cuda_place *place);

/* constant.cu: what goes to the GPUs once. */
struct cuda_constant_item
{
	const void *data;
	uint64_t	bytes;
	uint64_t	offset;
	void	   *owned;				/* data, if it was copied */
};

struct cuda_constants
{
	cuda_constant_item *items;
	uint32_t	count;
	uint32_t	space;
	uint64_t	bytes;
	bool		failed;				/* out of memory */
};

/* The same memory and number of bytes twice: once. */
extern uint64_t cuda_constants_add(cuda_constants *constants, const void *data, uint64_t bytes, bool copied);

/* Forgets all but the first count: what an op without a kernel has asked for. */
extern void cuda_constants_cut(cuda_constants *constants, uint32_t count);
extern void cuda_constants_free(cuda_constants *constants);
extern bool cuda_constants_upload(cuda_constants *constants, device_program *program, status *status);

/* load.cu: of all that the program's plans may launch, so that no run has to wait for it. */
extern bool cuda_kernels_load(const device_program *program, status *status);

/* host.cu: the programs of ops without a kernel, and what crosses. */
extern bool cuda_hosts_compile(device_program *program, const device_graph *graph, status *status);
extern void cuda_hosts_free(device_program *program);

/* layout.cu: where a run's parts lie; bytes from the arena's beginning. */
struct cuda_layout
{
	uint32_t	items[DEVICE_LEADS];	/* rounded up */
	uint64_t	row_off;
	uint64_t	row_first;
	uint64_t	tile_off;
	uint64_t	row_error;
	uint64_t	prefix;				/* bytes of all of these: copied up as one */
	uint64_t	bindings;			/* the first copy */
	uint64_t	lead_base[DEVICE_LEADS];
	uint64_t	scratch;
	uint64_t	bytes;

	/* in the host's memory that belongs to the arena */
	uint64_t	mirror_base[DEVICE_LEADS];
	uint64_t	host_arenas;		/* the first host segment's arena */
	uint64_t	host_bytes;			/* 0: the program has no such segment */
};

extern void cuda_layout_make(const device_program *program, const uint32_t items[DEVICE_LEADS], cuda_layout *layout);

/* Bytes of a binding's copy. */
extern uint64_t cuda_layout_binding(const cuda_layout *layout, const cuda_binding *binding);
extern uint64_t cuda_arena_bytes(const device_program *program, const uint32_t items[DEVICE_LEADS]);

/* ---- runs ---- */

struct cuda_arena					/* from buffer_alloc; the GPU's lock is held to touch next */
{
	cuda_arena *next;
	uint8_t    *memory;
	uint64_t	bytes;
	uint8_t    *host;				/* of host segments: mirrors and their arenas; page-locked */
	uint64_t	host_bytes;
};

/* arena.cu */
extern void *cuda_buffer_alloc(device *base, device_queue *queue, int kind, uint64_t bytes, status *status);
extern void cuda_buffer_free(device *base, int kind, void *buffer);

/* The arena that has this address and so many bytes from there on; NULL: none. */
extern cuda_arena *cuda_arena_find(cuda_gpu *gpu, const void *address, uint64_t bytes);

#define CUDA_FLIGHTS		8		/* enqueued and not completed, of a queue */

struct cuda_flight					/* a ticket until it completes */
{
	cudaEvent_t event;				/* behind all that it enqueued */
	uint8_t    *staging;			/* page-locked: what is copied up for it, then the errors of rows */
	uint64_t	staging_bytes;
	uint64_t	staging_errors;		/* where the errors are */
	uint32_t	rows;
	uint32_t   *row_error;			/* the batch's; NULL: nothing comes back */
	const char **row_message;
	uint64_t	began;				/* nsec, of cuda_now_nsec(): enqueued, and nothing of the queue before it */
	uint64_t	watched;			/* likewise, but behind what enqueue waited for */
	uint64_t	predicted;			/* nsec */
	uint32_t	error;				/* what enqueue knows already: it completes as FAILED */
	char		message[200];
};

struct cuda_ticket					/* how it ended */
{
	uint8_t		state;				/* enum device_state */
	uint32_t	error;
	char		message[200];
	uint64_t	elapsed;			/* nsec */
};

struct device_queue					/* one thread at a time enqueues; lock: for what is below it */
{
	cuda_device *device;
	cuda_gpu   *gpu;
	int			use;
	cudaStream_t stream;
	device_queue *host;
	uint8_t   **bindings;			/* a run's: device memory */
	uint32_t	bindings_space;
	void	  **host_bindings;
	uint32_t	host_bindings_space;

	device_queue *next;				/* of the GPU's: the watcher's lock */

	pthread_mutex_t lock;
	pthread_cond_t changed;			/* a ticket has completed */
	uint32_t	waiting;			/* threads in cuda_wait: they look themselves */
	uint64_t	tickets;			/* given out; read without the lock, too */
	uint64_t	completed;			/* tickets complete in order: all up to here */
	cuda_flight flights[CUDA_FLIGHTS];
	cuda_ticket ended[DEVICE_TICKETS_KEPT];
};

/* queue.cu */
extern device_queue *cuda_queue_create(device *base, int use, status *status);
extern void cuda_queue_free(device_queue *queue);
extern uint64_t cuda_enqueue(device_queue *queue, device_program *program, uint32_t first, uint32_t last,
							 const device_batch *batch, void *const *bindings, void *arena, status *status);
extern enum device_state cuda_poll(device_queue *queue, uint64_t ticket, status *status);
extern enum device_state cuda_wait(device_queue *queue, uint64_t ticket, uint64_t usec, status *status);
extern void cuda_cancel(device_queue *queue, uint64_t ticket);
extern uint64_t cuda_elapsed_nsec(device_queue *queue, uint64_t ticket);

/* Puts the errors of rows that a GPU found where the engine looks; the first error of a row stays. */
extern void cuda_errors_merge(const uint32_t *found, uint32_t rows, uint32_t *row_error, const char **row_message);

/* run.cu: what enqueue puts on the stream. */
struct cuda_call
{
	device_queue *queue;
	const device_program *program;
	uint32_t	first;
	uint32_t	last;
	const device_batch *batch;
	void *const *bindings;
	cuda_arena *arena;
	cuda_layout layout;
	cuda_flight *flight;
	uint64_t	ticket;
	cuda_run	run;
};

/* false: the flight has an error, or the device is lost. */
extern bool cuda_run_enqueue(cuda_call *call, void *arena);

extern void cuda_run_start(cuda_run *run, const device_queue *queue, const device_program *program, const cuda_layout *layout,
						   void *arena, uint8_t **bindings);

/* Bytes of staging that a run needs. */
extern uint64_t cuda_run_staging(const cuda_layout *layout);

/* The lock is held: completes what has ended, or is lost. */
extern void cuda_queue_progress(device_queue *queue);

/* watch.cu: the watcher is the thread that looks after a GPU's queues. */
extern bool cuda_watcher_start(cuda_gpu *gpu, status *status);
extern void cuda_watcher_stop(cuda_gpu *gpu);
extern void cuda_watcher_add(device_queue *queue);
extern void cuda_watcher_remove(device_queue *queue);

/* Something has been enqueued, or there is a graph to capture. */
extern void cuda_watcher_wake(cuda_gpu *gpu);

/* In how many nsec to look again at what began then and is predicted to take so long; 0: at once. */
extern uint64_t cuda_watch_nap(const cuda_gpu *gpu, uint64_t watched, uint64_t predicted, uint64_t now);

/* Loses the device if it is a hang. */
extern bool cuda_watch_hang(cuda_gpu *gpu, uint64_t watched, uint64_t predicted, uint64_t now);

/* What a run took: predictions of the GPU are corrected by it. */
extern void cuda_watch_measured(cuda_gpu *gpu, uint64_t predicted, uint64_t elapsed);

/* Looks at the event until it has happened; false: the device is lost.  predicted: nsec from now on. */
extern bool cuda_watch_event(cuda_gpu *gpu, cudaEvent_t event, uint64_t predicted);

/* graph.cu: captured runs.  cuda_graph_launch: true if a graph was launched in place of the plans. */
extern bool cuda_graphs_start(cuda_gpu *gpu, status *status);
extern void cuda_graphs_stop(cuda_gpu *gpu);
extern bool cuda_graph_launch(cuda_call *call);
extern void cuda_graphs_forget(cuda_gpu *gpu, const device_program *program, const device_queue *queue);

/* By the watcher: captures what was asked for; false: nothing was. */
extern bool cuda_graphs_capture(cuda_gpu *gpu);

/* estimate.cu */
extern double cuda_plan_nsec(const device_program *program, uint32_t plan, const device_batch *batch);
extern uint64_t cuda_range_nsec(const device_program *program, uint32_t first, uint32_t last, const device_batch *batch);
extern uint32_t cuda_segment_end(device *base, const device_program *program, uint32_t first, const device_batch *batch,
								 uint64_t nsec, uint64_t *predicted);
extern uint64_t cuda_estimate_nsec(device *base, const device_program *program, const device_batch *batch);

#endif /* CUDA_CORE_H */
