/*
 * programs.c
 *	  The programs of a text graph, one for each length: compiled when they are wanted, kept in the order of
 *	  their last use, and freed when they are too many or too large together.
 *
 * Of a graph that has been compiled only constants are needed: the rest of its memory is given back, unless
 * an op's parameters or weights of its own lie there.
 */
#include "text_graph.h"

#include <stdlib.h>
#include <string.h>

#include "../../../protocol/protocol.h"

#define PROGRAM_BYTES_MAX	(UINT64_C(1) << 30)		/* of one, while it is compiled */

/* ---- compiling ---- */

/* Of the row, float32, [1, width] or [1, length, width]. */
static bool
check_output(const struct text_graph *g, const struct graph *graph, struct status *status)
{
	const struct graph_value *output = graph_value(graph, graph->outputs[0]);
	const char *name = g->onnx.names[g->onnx.outputs[0].name];
	int64_t		width = output->rank == 0 ? 0 : output->dims[output->rank - 1];
	uint8_t		rank = g->output == 0 ? output->rank : g->output == TEXT_GRAPH_TOKENS ? 3 : 2;

	if (!output->rows)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the output \"%.200s\" does not depend on the text", name);
	if (output->type != DEVICE_F32)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the output \"%.200s\" is of the type %s; float32 is supported", name,
						  infer_type_name(output->type));
	if (output->rank != rank || (rank > 0 && output->dims[0] != 1) || (rank == 3 && output->dims[1] != graph->length) ||
		(g->width != 0 && width != g->width))
		return status_set(status, INFER_ERROR_UNSUPPORTED, "the output \"%.200s\" of a text of %lld tokens has another shape", name,
						  (long long) graph->length);
	return true;
}

bool
text_graph_compile(struct text_graph *g, const struct graph *base, int64_t length, struct device_queue *queue,
				   struct graph_memory *memory, struct graph *graph, struct status *status)
{
	bool		fine;

	graph_init(graph, memory, &g->onnx, g->device, status);
	graph->files = &g->files;
	graph->length = length;
	graph->given = g->given;
	graph->base = base;
	graph->keeps = base == NULL;
	queue = graph_folds(graph) == g->device ? queue : NULL;	/* a host has queues of its own */
	graph->queue = queue;
	fine = graph_lower(graph) && graph_fuse(graph) && check_output(g, graph, status) && graph_compile(graph) && status->error == 0;
	if (queue == NULL)
		graph_queue_free(graph);
	graph->queue = NULL;
	graph->status = NULL;
	return fine;
}

/* ---- a program ---- */

static struct text_graph_input
token_input(const struct text_graph *g, const struct graph *graph, int32_t input)
{
	const struct graph_value *value;

	if (input < 0)
		return (struct text_graph_input) {.binding = -1};
	value = graph_value(graph, graph->by_name[g->onnx.inputs[input].name]);
	return (struct text_graph_input) {.binding = value->binding, .type = value->type};
}

/* Whether something that a run reads lies in the pool. */
static bool
pool_needed(const struct graph *graph)
{
	for (uint32_t i = 0; i < graph->weights_count; i++)
		if (!graph->sources[i].borrowed)
			return true;
	for (uint32_t i = 0; i < graph->program_ops_count; i++)
		if (graph->ops[graph->program_ops[i]].device.params != NULL)
			return true;
	for (uint32_t i = 0; i < graph->values_count; i++)
		if (graph->values[i].type == DEVICE_STRING)
			return true;
	return false;
}

static bool
keep_ops(struct text_graph_program *p)
{
	p->ops_count = p->graph.program_ops_count;
	p->ops = graph_block(&p->memory, p->ops_count * sizeof(*p->ops));
	for (uint32_t i = 0; p->ops != NULL && i < p->ops_count; i++)
	{
		const struct graph_op *from = &p->graph.ops[p->graph.program_ops[i]];
		const struct device_op *op = &from->device;

		p->ops[i] = (struct text_graph_op) {.node = op->node, .op = op->op, .fn = op->fn, .on_host = from->on_host};
	}
	return p->ops != NULL;
}

static void
program_free(struct text_graph *g, struct text_graph_program *p)
{
	if (p->graph.device != NULL)
		graph_release(&p->graph);
	else if (p->program != NULL)
		g->device->ops->program_free(g->device, p->program);
	graph_memory_free(&p->memory);
	free(p);
}

/* What a run needs to know, before the graph goes. */
static bool
program_settle(struct text_graph *g, struct text_graph_program *p)
{
	struct graph *graph = &p->graph;

	p->program = graph->program;
	p->ids = token_input(g, graph, g->ids);
	p->types = token_input(g, graph, g->types);
	p->output = graph_value(graph, graph_root(graph, graph->outputs[0]))->binding;
	p->bindings_count = graph->bindings_count;
	if (!keep_ops(p))
		return false;
	if (!pool_needed(graph))
	{
		*graph = (struct graph) {0};
		graph_pool_free(&p->memory);
	}
	p->memory.status = NULL;
	p->row_bytes = text_graph_bytes(g, p, 2) - text_graph_bytes(g, p, 1);
	p->bytes = sizeof(*p) + p->memory.used + p->graph.weights_bytes + g->device->ops->program_bytes(p->program);
	return true;
}

static struct text_graph_program *
program_make(struct text_graph *g, uint32_t length, struct device_queue *queue, struct status *status)
{
	struct text_graph_program *p = calloc(1, sizeof(*p));

	if (p == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory for texts of %u tokens", length);
		return NULL;
	}
	p->length = length;
	graph_memory_init(&p->memory, PROGRAM_BYTES_MAX, status);
	if (text_graph_compile(g, &g->base, length, queue, &p->memory, &p->graph, status) && program_settle(g, p))
		return p;
	program_free(g, p);
	return NULL;
}

/* ---- those that are kept: with the lock held ---- */

static void
count_bytes(struct text_graph *g, int64_t bytes)
{
	__atomic_fetch_add(&g->programs_bytes, bytes, __ATOMIC_RELAXED);
	if (g->counted != NULL)
		__atomic_fetch_add(g->counted, bytes, __ATOMIC_RELAXED);
}

/* From the one that was used longest ago on, until the rest is little enough. */
static void
evict(struct text_graph *g)
{
	while (g->programs_count > TEXT_GRAPH_PROGRAMS_MAX || g->programs_bytes > g->programs_most)
	{
		struct text_graph_program **oldest = NULL, *p;

		for (struct text_graph_program **at = &g->programs; *at != NULL; at = &(*at)->next)
			if ((*at)->users == 0)
				oldest = at;
		if (oldest == NULL)
			return;
		p = *oldest;
		*oldest = p->next;
		g->programs_count--;
		count_bytes(g, -(int64_t) p->bytes);
		program_free(g, p);
	}
}

static void
put_first(struct text_graph *g, struct text_graph_program *p)
{
	p->next = g->programs;
	g->programs = p;
	p->users++;
	evict(g);
}

/* The one of a length, for another user; NULL: there is none. */
static struct text_graph_program *
find(struct text_graph *g, uint32_t length)
{
	struct text_graph_program **at = &g->programs, *p;

	pthread_mutex_lock(&g->lock);
	while (*at != NULL && (*at)->length != length)
		at = &(*at)->next;
	p = *at;
	if (p != NULL)
	{
		*at = p->next;
		put_first(g, p);
	}
	pthread_mutex_unlock(&g->lock);
	return p;
}

static void
add(struct text_graph *g, struct text_graph_program *p)
{
	pthread_mutex_lock(&g->lock);
	g->compiled++;
	g->programs_count++;
	count_bytes(g, (int64_t) p->bytes);
	put_first(g, p);
	pthread_mutex_unlock(&g->lock);
}

struct text_graph_program *
text_graph_take(struct text_graph *g, uint32_t length, struct device_queue *queue, struct status *status)
{
	struct text_graph_program *p = find(g, length);

	if (p != NULL)
		return p;
	pthread_mutex_lock(&g->compiling);
	p = find(g, length);		/* somebody may have compiled it meanwhile */
	if (p == NULL && (p = program_make(g, length, queue, status)) != NULL)
		add(g, p);
	pthread_mutex_unlock(&g->compiling);
	return p;
}

void
text_graph_give(struct text_graph *g, struct text_graph_program *program)
{
	pthread_mutex_lock(&g->lock);
	program->users--;
	evict(g);
	pthread_mutex_unlock(&g->lock);
}

/* ---- sizes ---- */

static uint64_t
aligned(uint64_t bytes)
{
	return (bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
}

uint64_t
text_graph_bytes(const struct text_graph *g, const struct text_graph_program *program, uint32_t rows)
{
	uint32_t	items[DEVICE_LEADS] = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = rows};
	uint64_t	tokens = (uint64_t) rows * program->length, bytes;

	bytes = aligned(g->device->ops->arena_bytes(program->program, items));
	if (program->ids.binding >= 0)
		bytes += aligned(tokens * device_type_bytes(program->ids.type));
	if (program->types.binding >= 0)
		bytes += aligned(tokens * device_type_bytes(program->types.type));
	return bytes;
}

void
text_graph_close(struct text_graph *g)
{
	if (g == NULL)
		return;
	while (g->programs != NULL)
	{
		struct text_graph_program *p = g->programs;

		g->programs = p->next;
		program_free(g, p);
	}
	graph_release(&g->base);
	graph_memory_free(&g->memory);
	pthread_mutex_destroy(&g->lock);
	pthread_mutex_destroy(&g->compiling);
	free(g);
}
