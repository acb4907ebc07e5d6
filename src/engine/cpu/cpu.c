/*
 * cpu.c
 *	  The CPU device: see ../device.h for the contract, cpu.h for the nouns.
 *
 * Every op is a segment of its own.  enqueue computes on the caller's thread, with the
 * pool's help where the work is worth waking it, and has run to its end when it returns;
 * so a ticket that was given out is done.  One queue's enqueue runs on one thread at a
 * time; several queues may run at once, and share the pool.
 */
#include "cpu.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../../protocol/protocol.h"
#include "pool.h"

#define LARGE_PAGE		((size_t) 2 << 20)
#define ELAPSED_KEPT	64			/* a power of two */

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

/* Reading a weight with one thread: between the last cache's 0.009 and memory's 0.025. */
#define NSEC_BYTE		0.015

struct device_queue
{
	struct cpu_device *device;
	uint64_t	tickets;			/* given out; atomic, read by poll */
	uint64_t	elapsed[ELAPSED_KEPT];	/* nsec of the last tickets; atomic */
};

static uint64_t
now_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static uint64_t
aligned(uint64_t bytes)
{
	return (bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
}

/* ---- opening ---- */

/*
 * The best kernels that this processor has, or those asked for by name (options.arch, else
 * the environment's INFER_CPU).
 */
static const struct cpu_kernels *
kernels_choose(const char *arch, struct status *status)
{
	if (arch == NULL || arch[0] == '\0')
		arch = getenv("INFER_CPU");
	if (arch == NULL || arch[0] == '\0')
		arch = "auto";
	if (strcmp(arch, "scalar") == 0)
		return &cpu_kernels_scalar;
#ifdef __x86_64__
	{
		bool		best = strcmp(arch, "auto") == 0;
		bool		has_avx2;
		bool		has_avx512;

		__builtin_cpu_init();
		has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
		has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
		if (has_avx512 && (best || strcmp(arch, "avx512") == 0))
			return &cpu_kernels_avx512;
		if (has_avx2 && (best || strcmp(arch, "avx2") == 0))
			return &cpu_kernels_avx2;
	}
#endif
	if (strcmp(arch, "auto") == 0)
		return &cpu_kernels_scalar;
	if (strcmp(arch, "avx2") == 0 || strcmp(arch, "avx512") == 0)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED,
				   "this processor does not have the instruction set \"%s\"", arch);
		status_hint(status, "Leave it out for the best that the processor has.");
		return NULL;
	}
	status_set(status, INFER_ERROR_UNSUPPORTED, "unknown instruction set \"%s\"", arch);
	status_hint(status, "Use \"scalar\", \"avx2\" or \"avx512\", or leave it out for the best.");
	return NULL;
}

static void
processor_name(char *name, size_t size)
{
	FILE	   *file = fopen("/proc/cpuinfo", "re");
	char		line[256];

	snprintf(name, size, "unknown processor");
	if (file == NULL)
		return;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		char	   *colon = strchr(line, ':');

		if (colon == NULL || strncmp(line, "model name", 10) != 0)
			continue;
		colon += 1 + strspn(colon + 1, " ");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(name, size, "%s", colon);
		break;
	}
	fclose(file);
}

/* What a multiply-add costs: the fastest of a few small products. */
static double
measure_flop(const struct cpu_kernels *kernels)
{
	enum
	{
		M = 16, K = 128, N = 128, TRIES = 5
	};
	static float x[M * K];
	static float b[K * N] __attribute__((aligned(DEVICE_ALIGN)));
	static float y[M * N];
	uint64_t	best = UINT64_MAX;
	struct cpu_product product = {
		.x = x,
		.x_step = K,
		.b = b,
		.b_step = kernels->f32.panel,
		.b_panel = (int64_t) K * kernels->f32.panel,
		.y = y,
		.y_step = N,
		.k = K,
		.n = N,
		.padded = true
	};

	for (int i = 0; i < TRIES; i++)
	{
		uint64_t	start = now_nsec();
		uint64_t	taken;

		kernels->f32.product(&product, 0, M, 0, N / kernels->f32.panel);
		taken = now_nsec() - start;
		best = taken < best ? taken : best;
	}
	return (double) (best + 1) / (2.0 * M * K * N);
}

/*
 * The C library's functions (sine, power, …) are compiled once with and once without fused
 * multiply-adds, and it chooses by the processor.
 */
static const char *
libm_variant(void)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	return __builtin_cpu_supports("fma") ? "-fma" : "";
#else
	return "";
#endif
}

static void
cpu_close(struct device *base)
{
	pool_free(((struct cpu_device *) base)->pool);
	free(base);
}

static struct device *
cpu_open(const struct device_options *options, struct status *status)
{
	const struct cpu_kernels *kernels = kernels_choose(options->arch, status);
	struct cpu_device *device;
	int			cores = pool_usable_cores();

	if (kernels == NULL)
		return NULL;
	device = calloc(1, sizeof(*device));
	if (device == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*device));
		return NULL;
	}
	device->pool = pool_create(options->threads > 0 && options->threads < cores ? options->threads : cores,
							   options->beat, status);
	if (device->pool == NULL)
	{
		free(device);
		return NULL;
	}
	device->base.ops = &cpu_device_ops;
	device->kernels = kernels;
	device->budget = options->memory;
	processor_name(device->description, sizeof(device->description));
	snprintf(device->numerics_id, sizeof(device->numerics_id), "cpu-%s-%s-glibc-%s%s", kernels->arch,
			 CPU_KERNEL_FAMILY, gnu_get_libc_version(), libm_variant());
	device->nsec_flop = measure_flop(kernels);
	device->nsec_byte = NSEC_BYTE;
	return &device->base;
}

static void
cpu_info(struct device *base, struct device_info *info)
{
	struct cpu_device *device = (struct cpu_device *) base;

	memset(info, 0, sizeof(*info));
	snprintf(info->kind, sizeof(info->kind), "cpu");
	snprintf(info->name, sizeof(info->name), "cpu");
	snprintf(info->arch, sizeof(info->arch), "%s", device->kernels->arch);
	snprintf(info->description, sizeof(info->description), "%s", device->description);
	snprintf(info->numerics_id, sizeof(info->numerics_id), "%s", device->numerics_id);
	info->bytes_total = device->budget;
	info->bytes_budget = device->budget;
	info->bytes_used = __atomic_load_n(&device->used, __ATOMIC_RELAXED);
	info->threads = (uint32_t) pool_threads(device->pool);
	info->async = false;
	info->inflight_max = 1;
	info->align = DEVICE_ALIGN;
}

/* ---- weights ---- */

static uint64_t
cpu_weight_size(struct device *base, const struct device_weight_desc *desc)
{
	return aligned(sizeof(struct device_weight)) +
		cpu_weight_bytes(((struct cpu_device *) base)->kernels, desc);
}

static bool
budget_take(struct cpu_device *device, uint64_t bytes, const char *what, struct status *status)
{
	uint64_t	used = __atomic_add_fetch(&device->used, bytes, __ATOMIC_RELAXED);

	if (device->budget == 0 || used <= device->budget)
		return true;
	__atomic_sub_fetch(&device->used, bytes, __ATOMIC_RELAXED);
	status_set(status, INFER_ERROR_MEMORY, "device memory exhausted: %llu bytes wanted for %s",
			   (unsigned long long) bytes, what);
	status_detail(status, "The device may use %llu bytes and uses %llu.",
				  (unsigned long long) device->budget, (unsigned long long) (used - bytes));
	status_hint(status, "Raise infer.memory or unload a model with infer.unload_model().");
	return false;
}

/* Large weights lie in large pages, so that a product does not wait for address translation. */
static struct device_weight *
cpu_weight_pack(struct device *base, const struct device_weight_desc *desc, struct status *status)
{
	struct cpu_device *device = (struct cpu_device *) base;
	struct device_weight *weight;
	uint64_t	bytes;
	uint64_t	data_bytes;

	if ((desc->type != DEVICE_F32 && desc->type != DEVICE_F64) || desc->k < 0 || desc->n < 0)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "weight of type %d cannot be packed", desc->type);
		return NULL;
	}
	bytes = cpu_weight_size(base, desc);
	data_bytes = bytes - aligned(sizeof(*weight));
	if (!budget_take(device, bytes, "a weight", status))
		return NULL;
	weight = calloc(1, sizeof(*weight));
	if (weight == NULL ||
		(data_bytes > 0 &&
		 posix_memalign(&weight->data, data_bytes >= LARGE_PAGE ? LARGE_PAGE : DEVICE_ALIGN, data_bytes) != 0))
	{
		free(weight);
		__atomic_sub_fetch(&device->used, bytes, __ATOMIC_RELAXED);
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %llu bytes wanted for a weight",
				   (unsigned long long) bytes);
		return NULL;
	}
	if (data_bytes >= LARGE_PAGE)
		madvise(weight->data, data_bytes, MADV_HUGEPAGE);
	weight->bytes = bytes;
	cpu_weight_fill(device->kernels, weight, desc);
	return weight;
}

static void
cpu_weight_free(struct device *base, struct device_weight *weight)
{
	struct cpu_device *device = (struct cpu_device *) base;

	if (weight == NULL)
		return;
	__atomic_sub_fetch(&device->used, weight->bytes, __ATOMIC_RELAXED);
	free(weight->data);
	free(weight);
}

/* ---- programs ---- */

static uint32_t
cpu_supports(struct device *base, const struct device_op *op, const struct device_tensor *tensors)
{
	struct cpu_plan plan;
	struct status status;
	struct cpu_place *places = calloc((size_t) op->inputs_count + 1, sizeof(*places));
	int64_t    *parts = calloc((size_t) op->inputs_count + 1, sizeof(*parts));
	bool		supported = false;

	status_clear(&status);
	if (places != NULL && parts != NULL)
		supported = cpu_plan_make(&plan, (struct cpu_device *) base, op, tensors, NULL, places, parts,
								  &status);
	free(places);
	free(parts);
	return supported ? op->op : 0;
}

static void
cpu_program_free(struct device *base, struct device_program *program)
{
	if (program == NULL)
		return;
	free(program->plans);
	free(program->places);
	free(program->parts);
	free(program);
}

/* Indexes of ops and tensors lie within the graph. */
static bool
graph_sound(const struct device_graph *graph, struct status *status)
{
	for (uint32_t o = 0; o < graph->ops_count; o++)
	{
		const struct device_op *op = &graph->ops[o];
		bool		sound = op->output >= 0 && (uint32_t) op->output < graph->tensors_count;

		for (uint32_t i = 0; i < op->inputs_count; i++)
			if (op->inputs[i] >= 0 && (uint32_t) op->inputs[i] >= graph->tensors_count)
				sound = false;
		if (op->op == DEVICE_OP_GEMM && (op->weight < 0 || (uint32_t) op->weight >= graph->weights_count))
			sound = false;
		if (!sound)
			return status_set(status, INFER_ERROR_INTERNAL, "primitive %u of the program names a tensor that does not exist", o);
	}
	for (uint32_t t = 0; t < graph->tensors_count; t++)
		if (graph->tensors[t].binding >= 0 && (uint32_t) graph->tensors[t].binding >= graph->bindings_count)
			return status_set(status, INFER_ERROR_INTERNAL, "tensor %u of the program names a binding that does not exist", t);
	return true;
}

static bool
compile_plans(struct device_program *program, struct cpu_device *device,
			  const struct device_graph *graph, struct status *status)
{
	struct cpu_place *places = program->places;
	int64_t    *parts = program->parts;

	for (uint32_t o = 0; o < graph->ops_count; o++)
	{
		struct cpu_plan *plan = &program->plans[o];

		if (!cpu_plan_make(plan, device, &graph->ops[o], graph->tensors, graph->weights, places, parts,
						   status))
			return false;
		places += graph->ops[o].inputs_count;
		parts += graph->ops[o].inputs_count;
		program->plans_count++;
		if (plan->scratch > program->shape.scratch)
			program->shape.scratch = aligned(plan->scratch);
		if (plan->op == DEVICE_OP_CAST && plan->output.type == DEVICE_STRING &&
			plan->type != DEVICE_STRING)
		{
			plan->extra_offset = program->shape.extra_item[plan->lead];
			program->shape.extra_item[plan->lead] +=
				aligned((uint64_t) plan->output.elements * CPU_CAST_TEXT_BYTES);
		}
	}
	return true;
}

static struct device_program *
cpu_compile(struct device *base, const struct device_graph *graph, struct status *status)
{
	struct device_program *program;
	size_t		inputs = 1;
	bool		failed;

	if (!graph_sound(graph, status))
		return NULL;
	for (uint32_t o = 0; o < graph->ops_count; o++)
		inputs += graph->ops[o].inputs_count;
	program = calloc(1, sizeof(*program));
	failed = program == NULL;
	if (!failed)
	{
		program->device = (struct cpu_device *) base;
		program->plans = calloc((size_t) graph->ops_count + 1, sizeof(*program->plans));
		program->places = calloc(inputs, sizeof(*program->places));
		program->parts = calloc(inputs, sizeof(*program->parts));
		for (int lead = 0; lead < DEVICE_LEADS; lead++)
			program->shape.arena_item[lead] = aligned(graph->arena_item_bytes[lead]);
		failed = program->plans == NULL || program->places == NULL || program->parts == NULL;
	}
	if (failed)
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted for a program",
				   sizeof(*program) + graph->ops_count * sizeof(*program->plans) +
				   inputs * sizeof(*program->places));
	if (failed || !compile_plans(program, program->device, graph, status))
	{
		cpu_program_free(base, program);
		return NULL;
	}
	return program;
}

static uint64_t
cpu_arena_bytes(const struct device_program *program, const uint32_t items[DEVICE_LEADS])
{
	uint64_t	bytes = program->shape.scratch * (uint64_t) pool_threads(program->device->pool);

	for (int lead = 0; lead < DEVICE_LEADS; lead++)
		bytes += (program->shape.arena_item[lead] + program->shape.extra_item[lead]) * items[lead];
	return bytes;
}

/* ---- running ---- */

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
	{
		uint32_t	low = 0;
		uint32_t	high = rows;

		while (high - low > 1)
		{
			uint32_t	middle = low + (high - low) / 2;

			if (batch->row_off[middle] <= item)
				low = middle;
			else
				high = middle;
		}
		item = low;
	}
	if (item < rows)
		row_error(batch, (uint32_t) item, message);
}

static struct device_queue *
cpu_queue_create(struct device *base, int priority, struct status *status)
{
	struct device_queue *queue = calloc(1, sizeof(*queue));

	if (queue == NULL)
		status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted", sizeof(*queue));
	else
		queue->device = (struct cpu_device *) base;
	return queue;
}

static void
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

/* A plan's units as a job of the pool. */
struct plan_job
{
	const struct cpu_plan *plan;
	const struct cpu_run *run;
	uint64_t	units;
	uint64_t	units_chunk;
};

static void
run_chunk(void *context, uint32_t chunk, int thread)
{
	const struct plan_job *job = context;
	uint64_t	first = chunk * job->units_chunk;
	uint64_t	last = first + job->units_chunk;

	job->plan->run(job->plan, job->run, first, last < job->units ? last : job->units, thread);
}

/* nsec: of this op; left: of it and those behind it. */
static void
run_plan(const struct cpu_plan *plan, const struct cpu_run *run, double nsec, double left)
{
	struct plan_job job = {plan, run, cpu_plan_units(plan, run->batch->items), 1};
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

static uint64_t
cpu_enqueue(struct device_queue *queue, struct device_program *program, uint32_t first, uint32_t last,
			const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	struct cpu_run run;
	uint64_t	start = now_nsec();
	uint64_t	ticket;
	uint32_t	control;
	double		left = 0;

	if (!budget_holds(queue->device, program, batch->items, status))
		return 0;
	run_start(&run, queue->device, program, batch, bindings, arena);
	if (last > program->plans_count)
		last = program->plans_count;
	for (uint32_t p = first; p < last; p++)
		left += cpu_plan_nsec(&program->plans[p], batch->items);
	control = pool_control_set(POOL_CONTROL);
	for (uint32_t p = first; p < last; p++)
	{
		double		nsec = cpu_plan_nsec(&program->plans[p], batch->items);

		run_plan(&program->plans[p], &run, nsec, left);
		left -= nsec;
	}
	pool_control_set(control);
	ticket = queue->tickets + 1;
	__atomic_store_n(&queue->elapsed[ticket % ELAPSED_KEPT], now_nsec() - start, __ATOMIC_RELAXED);
	__atomic_store_n(&queue->tickets, ticket, __ATOMIC_RELEASE);
	return ticket;
}

static enum device_state
cpu_poll(struct device_queue *queue, uint64_t ticket, struct status *status)
{
	return ticket <= __atomic_load_n(&queue->tickets, __ATOMIC_ACQUIRE) ? DEVICE_DONE : DEVICE_PENDING;
}

static enum device_state
cpu_wait(struct device_queue *queue, uint64_t ticket, uint64_t usec, struct status *status)
{
	return cpu_poll(queue, ticket, status);
}

static void
cpu_cancel(struct device_queue *queue, uint64_t ticket)
{
	/* a ticket that exists is done */
}

static uint64_t
cpu_estimate_nsec(struct device *base, const struct device_program *program,
				  const uint32_t items[DEVICE_LEADS])
{
	double		nsec = 0;

	for (uint32_t p = 0; p < program->plans_count; p++)
		nsec += cpu_plan_nsec(&program->plans[p], items);
	return (uint64_t) nsec;
}

static uint64_t
cpu_elapsed_nsec(struct device_queue *queue, uint64_t ticket)
{
	return __atomic_load_n(&queue->elapsed[ticket % ELAPSED_KEPT], __ATOMIC_RELAXED);
}

const struct device_ops cpu_device_ops = {
	.kind = "cpu",
	.open = cpu_open,
	.close = cpu_close,
	.info = cpu_info,
	.supports = cpu_supports,
	.weight_size = cpu_weight_size,
	.weight_pack = cpu_weight_pack,
	.weight_free = cpu_weight_free,
	.compile = cpu_compile,
	.program_free = cpu_program_free,
	.arena_bytes = cpu_arena_bytes,
	.queue_create = cpu_queue_create,
	.queue_free = cpu_queue_free,
	.enqueue = cpu_enqueue,
	.poll = cpu_poll,
	.wait = cpu_wait,
	.cancel = cpu_cancel,
	.estimate_nsec = cpu_estimate_nsec,
	.elapsed_nsec = cpu_elapsed_nsec
};
