/*
 * run.c
 *	  Queues, and how a batch is run.
 *
 * Every op is a segment of its own.  enqueue computes on the caller's thread, with the
 * pool's help where the work is worth it, and has run to its end when it returns; so a
 * ticket that was given out is done.
 */
#include "cpu.h"

#include <stdlib.h>

#include "../../protocol/protocol.h"
#include "pool/pool.h"

/*
 * Predicted times, nsec: of an op from which threads that still spin may help; of all that
 * is left of a run, from which sleeping ones are worth waking (that takes them about
 * 50 µs); of a chunk.
 */
#define HELP_NSEC		8000
#define WAKE_NSEC		150000
#define CHUNK_NSEC_MIN	5000
#define CHUNK_NSEC_MAX	200000
#define CHUNKS_THREAD	8			/* at most, where chunks are not at their longest */

struct device_queue
{
	struct cpu_device *device;
	uint64_t   *beat;				/* raised at every claimed chunk; or NULL */
	uint64_t	tickets;			/* given out; atomic, read by poll */
	uint64_t	elapsed[DEVICE_TICKETS_KEPT];	/* nsec of the last tickets; atomic */
};

/*
 * The first error of a row stays.  Errors of one op carry one text, so which thread came
 * first does not show.
 */
static void
row_error(const struct device_batch *batch, uint32_t row, const char *message)
{
	uint32_t	none = INFER_OK;

	if (__atomic_compare_exchange_n(&batch->row_error[row], &none, INFER_ERROR_INPUT, false,
									__ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
		batch->row_message != NULL)
		__atomic_store_n(&batch->row_message[row], message, __ATOMIC_RELAXED);
}

uint32_t
cpu_row_of(const struct device_batch *batch, uint64_t token)
{
	uint32_t	low = 0;
	uint32_t	high = batch->items[DEVICE_LEAD_ROWS];

	while (high - low > 1)
	{
		uint32_t	middle = low + (high - low) / 2;

		if (batch->row_off[middle] <= token)
			low = middle;
		else
			high = middle;
	}
	return low;
}

void
cpu_row_error(const struct cpu_run *run, uint8_t lead, uint64_t item, const char *message)
{
	const struct device_batch *batch = run->batch;
	uint32_t	rows = batch->items[DEVICE_LEAD_ROWS];

	if (batch->row_error == NULL)
		return;
	if (lead == DEVICE_LEAD_NONE)
	{
		for (uint32_t row = 0; row < rows; row++)
			row_error(batch, row, message);
		return;
	}
	if (lead == DEVICE_LEAD_TOKENS && batch->row_off != NULL)
		item = cpu_row_of(batch, item);
	if (item < rows)
		row_error(batch, (uint32_t) item, message);
}

struct device_queue *
cpu_queue_create(struct device *base, int use, struct status *status)
{
	struct device_queue *queue = calloc(1, sizeof(*queue));

	if (queue == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*queue));
		return NULL;
	}
	queue->device = (struct cpu_device *) base;
	queue->beat = queue->device->beats[use == DEVICE_CONSTANTS];
	return queue;
}

void
cpu_queue_free(struct device_queue *queue)
{
	free(queue);
}

static void
run_start(struct cpu_run *run, struct cpu_device *device, const struct device_program *program,
		  const struct device_batch *batch, void *const *bindings, void *arena)
{
	uint64_t	base = 0;

	run->device = device;
	run->shape = &program->shape;
	run->batch = batch;
	run->bindings = bindings;
	run->arena = arena;
	for (int lead = 0; lead < DEVICE_LEADS; lead++)
	{
		run->lead_base[lead] = base;
		base += program->shape.arena_item[lead] * batch->items[lead];
		run->extra_base[lead] = base;
		base += program->shape.extra_item[lead] * batch->items[lead];
	}
	run->scratch_base = base;
	run->scratch_bytes = program->shape.scratch;
}

/* An arena comes from the device's memory, too. */
static bool
budget_holds(const struct cpu_device *device, const struct device_program *program,
			 const uint32_t items[DEVICE_LEADS], struct status *status)
{
	uint64_t	bytes;
	uint64_t	used = __atomic_load_n(&device->used, __ATOMIC_RELAXED);

	if (device->budget == 0)
		return true;
	bytes = cpu_arena_bytes(program, items);
	if (used + bytes <= device->budget)
		return true;
	status_set(status, INFER_ERROR_MEMORY, "device memory exhausted: %llu bytes wanted for a batch",
			   (unsigned long long) bytes);
	status_detail(status, "The device may use %llu bytes and its weights use %llu.",
				  (unsigned long long) device->budget, (unsigned long long) used);
	status_hint(status, "Raise infer.memory or unload a model with infer.unload_model().");
	return false;
}

/* Rows lie end to end, from the first token to the last. */
static bool
offsets_sound(const struct device_batch *batch, struct status *status)
{
	uint32_t	rows = batch->items[DEVICE_LEAD_ROWS];
	bool		sound = batch->row_off != NULL && batch->row_off[0] == 0 &&
		batch->row_off[rows] == batch->items[DEVICE_LEAD_TOKENS];

	for (uint32_t row = 0; sound && row < rows; row++)
		sound = batch->row_off[row] <= batch->row_off[row + 1] &&
			(batch->row_first == NULL || batch->row_first[row] <= batch->row_off[row + 1] - batch->row_off[row]);
	return sound || status_set(status, INFER_ERROR_INTERNAL, "the batch does not say where its rows begin");
}

/* A plan's units as a job of the pool. */
struct plan_job
{
	const struct cpu_plan *plan;
	const struct cpu_run *run;
	uint64_t	units;
	uint64_t	units_chunk;
	uint64_t   *beat;
};

static void
run_chunk(void *context, uint32_t chunk, int thread)
{
	const struct plan_job *job = context;
	uint64_t	first = chunk * job->units_chunk;
	uint64_t	last = first + job->units_chunk;

	if (job->beat != NULL)
		__atomic_add_fetch(job->beat, 1, __ATOMIC_RELAXED);
	job->plan->run(job->plan, job->run, first, last < job->units ? last : job->units, thread);
}

/* nsec: of this op; left: of it and those behind it. */
static void
run_plan(const struct cpu_plan *plan, const struct cpu_run *run, double nsec, double left, uint64_t *beat)
{
	struct plan_job job = {plan, run, cpu_plan_units(plan, run->batch->items), 1, beat};
	double		chunk_nsec = nsec / (pool_threads(run->device->pool) * CHUNKS_THREAD);
	double		chunks;

	if (job.units == 0)
		return;
	chunk_nsec = chunk_nsec < CHUNK_NSEC_MIN ? CHUNK_NSEC_MIN :
		chunk_nsec > CHUNK_NSEC_MAX ? CHUNK_NSEC_MAX : chunk_nsec;
	chunks = nsec / chunk_nsec;
	if (chunks > 1e6)
		chunks = 1e6;
	if (chunks < (double) job.units)
		job.units_chunk = chunks < 1 ? job.units : (job.units + (uint64_t) chunks - 1) / (uint64_t) chunks;
	pool_run(run->device->pool, run_chunk, &job,
			 (uint32_t) ((job.units + job.units_chunk - 1) / job.units_chunk), nsec >= HELP_NSEC,
			 left >= WAKE_NSEC);
}

uint64_t
cpu_enqueue(struct device_queue *queue, struct device_program *program, uint32_t first, uint32_t last,
			const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	struct cpu_run run;
	uint64_t	start = cpu_now_nsec();
	uint64_t	ticket;
	uint32_t	control;
	double		left = 0;

	if (!budget_holds(queue->device, program, batch->items, status) ||
		(program->shape.sequences && !offsets_sound(batch, status)))
		return 0;
	run_start(&run, queue->device, program, batch, bindings, arena);
	if (last > program->plans_count)
		last = program->plans_count;
	for (uint32_t p = first; p < last; p++)
		left += cpu_plan_nsec(&program->plans[p], batch);
	control = pool_control_set(POOL_CONTROL);
	for (uint32_t p = first; p < last; p++)
	{
		double		nsec = cpu_plan_nsec(&program->plans[p], batch);

		run_plan(&program->plans[p], &run, nsec, left, queue->beat);
		left -= nsec;
	}
	pool_control_set(control);
	ticket = queue->tickets + 1;
	__atomic_store_n(&queue->elapsed[ticket % DEVICE_TICKETS_KEPT], cpu_now_nsec() - start, __ATOMIC_RELAXED);
	__atomic_store_n(&queue->tickets, ticket, __ATOMIC_RELEASE);
	return ticket;
}

enum device_state
cpu_poll(struct device_queue *queue, uint64_t ticket, struct status *status)
{
	return ticket <= __atomic_load_n(&queue->tickets, __ATOMIC_ACQUIRE) ? DEVICE_DONE : DEVICE_PENDING;
}

enum device_state
cpu_wait(struct device_queue *queue, uint64_t ticket, uint64_t usec, struct status *status)
{
	return cpu_poll(queue, ticket, status);
}

void
cpu_cancel(struct device_queue *queue, uint64_t ticket)
{
	/* a ticket that exists is done */
}

uint64_t
cpu_elapsed_nsec(struct device_queue *queue, uint64_t ticket)
{
	return __atomic_load_n(&queue->elapsed[ticket % DEVICE_TICKETS_KEPT], __ATOMIC_RELAXED);
}
