/*
 * fold.c
 *	  Ops on constants, computed while the graph is built, by the device that will run the
 *	  rest, so that a constant has the bits that the same op gives at run time; or by its host, where it has
 *	  one, whose numerics its own name.
 *
 * A fold is a program of one op without rows, run once.
 */
#include "graph_internal.h"

#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"

#define FOLD_WAIT_USEC	(10 * 1000 * 1000)
#define FOLD_WORK_MAX	UINT64_C(100000000000)	/* multiply-adds of all folds of a graph */
#define FOLD_WORK_BASED	UINT64_C(4000000000)	/* likewise of one that has a base: batches wait for it */
#define FOLD_WORK_MOVE	8						/* of an element that is read or written */
#define FOLD_WORK_COUPLE	300					/* of a pair of classes, in all rounds */

static const uint32_t fold_items[DEVICE_LEADS] = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = 1};

/*
 * Counts an op's work against the bound, so that a small file cannot keep the loader busy
 * for hours.
 */
static bool
fold_claim(struct graph *graph, const struct device_op *op, int32_t result)
{
	uint64_t	elements = (uint64_t) graph_value(graph, result)->elements;
	uint64_t	work = elements * FOLD_WORK_MOVE;
	uint64_t	most = graph->base != NULL ? FOLD_WORK_BASED : FOLD_WORK_MAX;

	for (uint32_t i = 0; i < op->inputs_count; i++)
		if (op->inputs[i] >= 0)
			work += (uint64_t) graph_value(graph, op->inputs[i])->elements * FOLD_WORK_MOVE;
	if (op->op == DEVICE_OP_COUPLE)
		work += elements * (uint64_t) op->i[0] * FOLD_WORK_COUPLE;
	if (op->op == DEVICE_OP_MATMUL || op->op == DEVICE_OP_DISTANCE)
	{
		const struct graph_value *a = graph_value(graph, op->inputs[0]);

		work += elements * (uint64_t) a->dims[a->rank - 1];
	}
	if (op->op == DEVICE_OP_TREES)
	{
		const struct device_trees *trees = op->params;
		uint64_t	steps = 0;

		for (uint32_t t = 0; t < trees->trees_count; t++)
			steps += trees->depths[t] + 1;
		if (trees->values == NULL)
			steps += trees->votes_first[trees->nodes_count];	/* no row meets more votes than there are */
		work += elements / trees->targets * steps;
	}
	if (work > most - graph->folded_work)
		return status_set(graph->status, INFER_ERROR_UNSUPPORTED,
						  "the model's constants take more than %llu operations to compute",
						  (unsigned long long) most);
	graph->folded_work += work;
	return true;
}

static void
fold_tensor(struct device_tensor *tensor, uint8_t type, int rank, const int64_t *dims)
{
	memset(tensor, 0, sizeof(*tensor));
	tensor->type = type;
	tensor->lead = DEVICE_LEAD_NONE;
	tensor->rank = (uint8_t) rank;
	if (rank > 0)
		memcpy(tensor->dims, dims, rank * sizeof(*dims));
	tensor->binding = -1;
}

/* The texts' bytes go into the pool: those that a cast made end with the arena of its run. */
static bool
fold_texts_keep(struct graph *graph, struct device_text *texts, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
	{
		texts[i].data = graph_pool_text(graph->memory, texts[i].data, texts[i].length);
		if (texts[i].data == NULL)
			return false;
	}
	return true;
}

/* A device that hangs here is noticed by who watches the heartbeat meanwhile.  Several may compute constants at once. */
static void
watched(struct device *device, bool begins)
{
	if (device->load_busy != NULL)
		__atomic_fetch_add(device->load_busy, begins ? 1 : -1, __ATOMIC_ACQ_REL);
}

/* Runs once; an error of its row is the graph's, unless nobody reads what has none (undefined.c). */
static bool
fold_enqueue(struct graph *graph, const struct device_op *op, int32_t value, struct device_program *program, void *result,
			 void *arena)
{
	struct device *device = graph_folds(graph);
	const struct device_ops *ops = device->ops;
	uint32_t	row_error[1] = {0};
	const char *row_message[1] = {NULL};
	struct device_batch batch = {.row_error = row_error, .row_message = row_message};
	void	   *bindings[1] = {result};
	enum device_state state = DEVICE_PENDING;
	uint64_t	ticket;

	memcpy(batch.items, fold_items, sizeof(fold_items));
	watched(device, true);
	ticket = ops->enqueue(graph->queue, program, 0, UINT32_MAX, &batch, bindings, arena, graph->status);
	if (ticket != 0)
		while (state == DEVICE_PENDING)
			state = ops->wait(graph->queue, ticket, FOLD_WAIT_USEC, graph->status);
	watched(device, false);
	if (ticket == 0 || state != DEVICE_DONE)
		return status_set(graph->status, INFER_ERROR_DEVICE, "the device failed on a constant of the graph");
	return graph_undefined(graph, op, value, row_error[0] != 0, row_message[0] == NULL ? "no reason given" : row_message[0]);
}

/* texts: how many the result consists of, whose bytes may lie in the arena. */
static bool
fold_run(struct graph *graph, const struct device_op *op, int32_t value, struct device_program *program, void *result,
		 int64_t texts)
{
	void	   *arena = graph_block(graph->memory, graph_folds(graph)->ops->arena_bytes(program, fold_items));
	bool		done;

	if (arena == NULL)
		return false;
	done = fold_enqueue(graph, op, value, program, result, arena) && fold_texts_keep(graph, result, texts);
	graph_block_free(graph->memory, arena);
	return done;
}

/* The op's inputs as constants, each in the tensor of its own number. */
static bool
fold_inputs(struct graph *graph, const struct device_op *op, struct device_tensor *tensors, int32_t *inputs)
{
	for (uint32_t i = 0; i < op->inputs_count; i++)
	{
		const struct graph_value *input;
		const void *data;

		inputs[i] = -1;
		fold_tensor(&tensors[i], DEVICE_F32, 0, NULL);
		if (op->inputs[i] < 0)
			continue;
		input = graph_value(graph, graph_root(graph, op->inputs[i]));
		data = input->undefined != NULL ? input->data : graph_data(graph, op->inputs[i]);
		if (data == NULL)
			return false;
		input = graph_value(graph, op->inputs[i]);
		fold_tensor(&tensors[i], input->type, input->rank, input->dims);
		tensors[i].constant = data;
		inputs[i] = (int32_t) i;
	}
	return true;
}

int32_t
graph_fold(struct graph *graph, const struct device_op *op, uint8_t type, int rank, const int64_t *dims)
{
	struct device *device = graph_folds(graph);
	const struct device_ops *ops = device->ops;
	struct device_tensor *tensors = calloc(op->inputs_count + 1, sizeof(*tensors));
	int32_t    *inputs = calloc(op->inputs_count + 1, sizeof(*inputs));
	struct device_op folded = *op;
	struct device_graph one = {
		.tensors_count = op->inputs_count + 1, .ops_count = 1, .bindings_count = 1,
		.tensors = tensors, .ops = &folded
	};
	struct device_program *program = NULL;
	void	   *result;
	int32_t		value = GRAPH_FAILED;
	bool		done = false;

	if (tensors == NULL || inputs == NULL)
	{
		status_set(graph->status, INFER_ERROR_MEMORY, "out of memory while a constant was computed");
		goto done;
	}
	/* first of all: a shape from the file may be larger than anything can be */
	value = graph_constant_make(graph, type, rank, dims, &result);
	if (value < 0 || !fold_claim(graph, op, value))
		goto done;
	if (!fold_inputs(graph, op, tensors, inputs))
		goto done;
	fold_tensor(&tensors[op->inputs_count], type, rank, dims);
	tensors[op->inputs_count].binding = 0;
	folded.inputs = inputs;
	folded.output = (int32_t) op->inputs_count;
	folded.weight = -1;
	if (ops->supports(device, &folded, tensors) == 0)
	{
		graph_unsupported(graph, graph->node, "needs %s%s%s on constants, which the device does not compute",
						  device_op_name(op), device_function_name(op)[0] == '\0' ? "" : " ",
						  device_function_name(op));
		goto done;
	}
	program = ops->compile(device, &one, graph->status);
	if (program == NULL ||
		!fold_run(graph, op, value, program, result, type == DEVICE_STRING ? graph_value(graph, value)->elements : 0))
		goto done;
	graph->folded++;
	done = true;

done:
	if (program != NULL)
		ops->program_free(device, program);
	free(tensors);
	free(inputs);
	return done ? value : GRAPH_FAILED;
}
