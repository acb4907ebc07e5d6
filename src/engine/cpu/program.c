/*
 * program.c
 *	  From a graph to a program, and what a run of it will need.
 */
#include "cpu.h"

#include <stdlib.h>

#include "../../protocol/protocol.h"
#include "ops/ops.h"
#include "pool/pool.h"

uint32_t
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

void
cpu_program_free(struct device *base, struct device_program *program)
{
	if (program == NULL)
		return;
	free(program->plans);
	free(program->places);
	free(program->parts);
	free(program);
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
			program->shape.scratch = cpu_aligned(plan->scratch);
		if (cpu_plan_reads_offsets(plan))
			program->shape.sequences = true;
		if (plan->op == DEVICE_OP_CAST && plan->output.type == DEVICE_STRING &&
			plan->type != DEVICE_STRING)
		{
			plan->extra_offset = program->shape.extra_item[plan->lead];
			program->shape.extra_item[plan->lead] +=
				cpu_aligned((uint64_t) plan->output.elements * CPU_CAST_TEXT_BYTES);
		}
	}
	return true;
}

struct device_program *
cpu_compile(struct device *base, const struct device_graph *graph, struct status *status)
{
	struct device_program *program;
	size_t		inputs = 1;
	bool		failed;

	if (!device_graph_sound(graph, status))
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
		program->bytes = sizeof(*program) + (graph->ops_count + 1) * sizeof(*program->plans) +
			inputs * (sizeof(*program->places) + sizeof(*program->parts));
		for (int lead = 0; lead < DEVICE_LEADS; lead++)
			program->shape.arena_item[lead] = cpu_aligned(graph->arena_item_bytes[lead]);
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

uint64_t
cpu_program_bytes(const struct device_program *program)
{
	return program->bytes;
}

uint64_t
cpu_arena_bytes(const struct device_program *program, const uint32_t items[DEVICE_LEADS])
{
	uint64_t	bytes = program->shape.scratch * (uint64_t) pool_threads(program->device->pool);

	for (int lead = 0; lead < DEVICE_LEADS; lead++)
		bytes += (program->shape.arena_item[lead] + program->shape.extra_item[lead]) * items[lead];
	return bytes;
}

uint32_t
cpu_segment_end(struct device *base, const struct device_program *program, uint32_t first,
				const struct device_batch *batch, uint64_t nsec, uint64_t *predicted)
{
	double		sum = 0;
	uint32_t	p;

	for (p = first; p < program->plans_count; p++)
	{
		double		next = cpu_plan_nsec(&program->plans[p], batch);

		if (p > first && sum + next > (double) nsec)
			break;
		sum += next;
	}
	*predicted = (uint64_t) sum;
	return p < program->plans_count ? p : UINT32_MAX;
}

uint64_t
cpu_estimate_nsec(struct device *base, const struct device_program *program,
				  const struct device_batch *batch)
{
	double		nsec = 0;

	for (uint32_t p = 0; p < program->plans_count; p++)
		nsec += cpu_plan_nsec(&program->plans[p], batch);
	return (uint64_t) nsec;
}
