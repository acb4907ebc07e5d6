/*
 * plan.c
 *	  Where each computed value lies: bindings for inputs and outputs, and for the rest an
 *	  arena whose places are taken again when their value has been read for the last time.
 *
 * Offsets are bytes per item, multiples of DEVICE_ALIGN.  Two values overlap only if no op
 * needs both.
 */
#include "graph_internal.h"

#include <string.h>

struct place						/* a value that lies in the arena now */
{
	uint64_t	offset;
	uint64_t	size;
	int32_t		value;
};

struct plan
{
	struct place *places;			/* by offset */
	uint32_t	count;
};

static uint64_t
value_bytes(const struct graph_value *value)
{
	uint64_t	bytes = (uint64_t) value->elements * device_type_bytes(value->type);

	return bytes == 0 ? DEVICE_ALIGN : (bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
}

/* The smallest gap that is large enough, else behind the last. */
static void
plan_place(struct graph *graph, struct plan *plan, int32_t value)
{
	uint64_t	size = value_bytes(graph_value(graph, value));
	uint64_t	end = 0, best = UINT64_MAX, best_size = UINT64_MAX;
	uint32_t	at = plan->count, i;

	for (i = 0; i < plan->count; i++)
	{
		uint64_t	gap = plan->places[i].offset - end;

		if (gap >= size && gap < best_size)
		{
			best = end;
			best_size = gap;
			at = i;
		}
		end = plan->places[i].offset + plan->places[i].size;
	}
	if (best == UINT64_MAX)
		best = end;
	memmove(&plan->places[at + 1], &plan->places[at], (plan->count - at) * sizeof(*plan->places));
	plan->places[at].offset = best;
	plan->places[at].size = size;
	plan->places[at].value = value;
	plan->count++;
	graph_value(graph, value)->offset = best;
	if (best + size > graph->arena_item_bytes)
		graph->arena_item_bytes = best + size;
}

/* Gives back the places of what op was the last to read. */
static void
plan_release(struct graph *graph, struct plan *plan, int32_t op)
{
	uint32_t	kept = 0;

	for (uint32_t i = 0; i < plan->count; i++)
		if (graph_value(graph, plan->places[i].value)->last > op)
			plan->places[kept++] = plan->places[i];
	plan->count = kept;
}

static void
plan_bind(struct graph *graph, int32_t value)
{
	struct graph_value *root = graph_value(graph, value);

	if (root->binding >= 0)
		return;
	root->binding = (int32_t) graph->bindings_count;
	graph->bindings[graph->bindings_count++] = value;
}

bool
graph_plan(struct graph *graph)
{
	struct plan plan = {0};

	graph->bindings = graph_pool(graph->memory, graph->inputs_count + graph->outputs_count,
								 sizeof(*graph->bindings));
	plan.places = graph_pool(graph->memory, graph->ops_count + 1, sizeof(*plan.places));
	if (graph->bindings == NULL || plan.places == NULL)
		return false;
	for (uint32_t i = 0; i < graph->inputs_count; i++)
		if (graph_value(graph, graph->inputs[i].value)->uses > 0)
			plan_bind(graph, graph->inputs[i].value);
	for (uint32_t i = 0; i < graph->outputs_count; i++)
		if (graph_value(graph, graph->outputs[i])->rows)
			plan_bind(graph, graph_root(graph, graph->outputs[i]));
	for (uint32_t i = 0; i < graph->ops_count; i++)
	{
		const struct graph_op *op = &graph->ops[i];

		if (op->removed)
			continue;
		if (graph_value(graph, op->device.output)->binding < 0)
			plan_place(graph, &plan, op->device.output);
		plan_release(graph, &plan, (int32_t) i);
	}
	return true;
}
