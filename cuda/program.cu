/*
 * program.cu
 *	  From a graph to a program: a plan for each op, by its family's maker or for the host.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* In the order of enum device_opcode. */
extern const cuda_make_fn cuda_makers[DEVICE_OPCODES];
const cuda_make_fn cuda_makers[DEVICE_OPCODES] = {
	nullptr, cuda_make_gemm, cuda_make_matmul, cuda_make_unary, cuda_make_binary, cuda_make_where, cuda_make_cast,
	cuda_make_copy, cuda_make_concat, cuda_make_gather, cuda_make_reduce, cuda_make_softmax, cuda_make_arg,
	cuda_make_normalize, cuda_make_lookup, cuda_make_cumsum, cuda_make_topk, cuda_make_offset, cuda_make_scatter,
	cuda_make_distance, cuda_make_couple, cuda_make_trees, cuda_make_norm, cuda_make_attention, cuda_make_rotary,
	cuda_make_gate, cuda_make_pool, cuda_make_quantise
};

/* ---- places ---- */

cuda_place
cuda_place_of(const device_tensor *tensor)
{
	cuda_place	place = {};

	place.type = tensor->type;
	place.lead = tensor->lead;
	place.elements = device_item_elements(tensor);
	if (tensor->constant != nullptr)
		place.kind = CUDA_CONSTANT;
	else if (tensor->binding >= 0)
	{
		place.kind = CUDA_BINDING;
		place.binding = (uint32_t) tensor->binding;
	}
	else
	{
		place.kind = CUDA_ARENA;
		place.offset = tensor->offset;
	}
	return place;
}

uint64_t
cuda_place_bytes(const cuda_place *place)
{
	return (uint64_t) place->elements * device_type_bytes(place->type);
}

/* ---- plans ---- */

/*
 * Whether an op is well-formed, as the host says it.  It has attention in BF16 only where that is faster there, but the
 * shapes are those of F32.
 */
static bool
op_sound(const cuda_device *device, const device_op *op, const device_tensor *tensors)
{
	::device   *host = device->base.host;
	device_op	wider = *op;
	device_tensor copies[3];
	int32_t		inputs[2];

	if (host->ops->supports(host, op, tensors) != 0)
		return true;
	if (op->op != DEVICE_OP_ATTENTION || op->inputs_count < 1 || op->inputs_count > 2 || op->inputs[0] < 0 ||
		tensors[op->inputs[0]].type != DEVICE_BF16 || tensors[op->output].type != DEVICE_BF16)
		return false;
	for (uint32_t i = 0; i < op->inputs_count; i++)
	{
		inputs[i] = op->inputs[i] < 0 ? -1 : (int32_t) i;
		if (op->inputs[i] >= 0)
			copies[i] = tensors[op->inputs[i]];
	}
	copies[2] = tensors[op->output];
	copies[0].type = copies[2].type = DEVICE_F32;
	wider.inputs = inputs;
	wider.output = 2;
	return host->ops->supports(host, &wider, copies) != 0;
}

/* Only the host knows texts, and the host has no weights of this device. */
static bool
may_run_here(const device_op *op, const device_tensor *tensors)
{
	for (uint32_t i = 0; i < op->inputs_count; i++)
		if (op->inputs[i] >= 0 && tensors[op->inputs[i]].type == DEVICE_STRING)
			return false;
	return tensors[op->output].type != DEVICE_STRING;
}

static void
plan_start(cuda_plan *plan, const device_op *op, const device_tensor *tensors, cuda_place *places)
{
	memset(plan, 0, sizeof(*plan));
	plan->op = op->op;
	plan->fn = op->fn;
	plan->node = op->node;
	memcpy(plan->f, op->f, sizeof(plan->f));
	memcpy(plan->i, op->i, sizeof(plan->i));
	plan->inputs = places;
	plan->inputs_count = op->inputs_count;
	plan->lead = tensors[op->output].lead;
	plan->output = cuda_place_of(&tensors[op->output]);
	plan->type = plan->output.type;
	for (uint32_t i = 0; i < op->inputs_count; i++)
	{
		memset(&places[i], 0, sizeof(places[i]));
		if (op->inputs[i] >= 0)
			places[i] = cuda_place_of(&tensors[op->inputs[i]]);
	}
	if (op->inputs_count > 0 && op->inputs[0] >= 0)
		plan->type = tensors[op->inputs[0]].type;
}

/* The constants among an op's inputs. */
static void
plan_constants(cuda_plan *plan, const device_op *op, const device_tensor *tensors, cuda_constants *constants)
{
	for (uint32_t i = 0; i < op->inputs_count; i++)
		if (plan->inputs[i].kind == CUDA_CONSTANT)
			plan->inputs[i].offset = cuda_constants_add(constants, tensors[op->inputs[i]].constant,
														cuda_place_bytes(&plan->inputs[i]), false);
}

/* Fills the plan's launch and own where there is a kernel; an op without one leaves nothing behind. */
static void
plan_make(cuda_making *making)
{
	cuda_plan  *plan = making->plan;
	uint32_t	constants = making->placing ? 0 : making->constants->count;

	if (!may_run_here(making->op, making->tensors))
		return;
	if (!making->placing)
		plan_constants(plan, making->op, making->tensors, making->constants);
	if (cuda_makers[plan->op](making) && plan->launch != nullptr)
		return;
	free(plan->own);
	plan->own = nullptr;
	plan->launch = nullptr;
	if (!making->placing)
		cuda_constants_cut(making->constants, constants);
}

/* Ops with a weight have one of this device: the host could not compute them. */
static bool
needs_kernel(const device_op *op, const device_tensor *tensors)
{
	return op->op == DEVICE_OP_GEMM ||
		   (op->op == DEVICE_OP_ATTENTION && op->inputs_count > 0 && op->inputs[0] >= 0 && tensors[op->inputs[0]].type == DEVICE_BF16);
}

uint32_t
cuda_supports(device *base, const device_op *op, const device_tensor *tensors)
{
	cuda_device *device = cuda_of(base);
	cuda_place *places;
	cuda_plan	plan;
	cuda_making	making = {};
	status		unused;
	uint32_t	supported;

	if (op->op == 0 || op->op >= DEVICE_OPCODES || !op_sound(device, op, tensors))
		return 0;
	places = (cuda_place *) calloc((size_t) op->inputs_count + 1, sizeof(*places));
	if (places == nullptr)
		return 0;
	status_clear(&unused);
	plan_start(&plan, op, tensors, places);
	making.device = device;
	making.plan = &plan;
	making.op = op;
	making.tensors = tensors;
	making.y = &tensors[op->output];
	making.placing = true;
	making.status = &unused;
	plan_make(&making);
	supported = plan.launch != nullptr ? op->op : needs_kernel(op, tensors) ? 0 : op->op | DEVICE_SUPPORTS_HOST;
	free(plan.own);
	free(places);
	return supported;
}

/* ---- programs ---- */

void
cuda_program_free(device *base, device_program *program)
{
	if (program == nullptr)
		return;
	cuda_hosts_free(program);
	for (uint32_t g = 0; g < program->device->gpus_count; g++)
		cuda_graphs_forget(&program->device->gpus[g], program, nullptr);
	for (uint32_t g = 0; g < program->device->gpus_count; g++)
		cuda_memory_free(&program->device->gpus[g], program->constants[g], program->constants_bytes);
	for (uint32_t p = 0; program->plans != nullptr && p < program->plans_count; p++)
		free(program->plans[p].own);
	free(program->plans);
	free(program->places);
	free(program->host_of);
	free(program->bindings);
	free(program);
}

static bool
reads_offsets(uint16_t op)
{
	return op == DEVICE_OP_ATTENTION || op == DEVICE_OP_ROTARY || op == DEVICE_OP_POOL;
}

static bool
compile_plans(device_program *program, const device_graph *graph, cuda_constants *constants, status *status)
{
	cuda_place *places = program->places;

	for (uint32_t o = 0; o < graph->ops_count; o++)
	{
		const device_op *op = &graph->ops[o];
		cuda_plan  *plan = &program->plans[o];
		cuda_making	making = {};

		if (op->op == 0 || op->op >= DEVICE_OPCODES || !op_sound(program->device, op, graph->tensors))
			return status_set(status, INFER_ERROR_UNSUPPORTED, "the cuda device cannot compute primitive %u of the program", o);
		plan_start(plan, op, graph->tensors, places);
		if (op->op == DEVICE_OP_GEMM)
			plan->weight = graph->weights[op->weight];
		making.device = program->device;
		making.plan = plan;
		making.op = op;
		making.tensors = graph->tensors;
		making.y = &graph->tensors[op->output];
		making.constants = constants;
		making.status = status;
		plan_make(&making);
		if (status->error != 0)
			return false;
		if (plan->launch == nullptr && needs_kernel(op, graph->tensors))
			return status_set(status, INFER_ERROR_UNSUPPORTED,
							  "the cuda device has no kernel for primitive %u of the program, number %u, of these types", o, op->op);
		places += op->inputs_count;
		program->sequences = program->sequences || reads_offsets(op->op);
	}
	return true;
}

/* What is copied between the caller's memory and the arena. */
static void
compile_bindings(device_program *program, const device_graph *graph)
{
	for (uint32_t b = 0; b < program->bindings_count; b++)
		program->bindings[b].up = true;
	for (uint32_t o = 0; o < program->plans_count; o++)
	{
		const cuda_plan *plan = &program->plans[o];

		for (uint32_t i = 0; i <= plan->inputs_count; i++)
		{
			const cuda_place *place = i < plan->inputs_count ? &plan->inputs[i] : &plan->output;
			cuda_binding *binding = &program->bindings[place->binding];
			uint64_t	bytes = cuda_place_bytes(place);

			if (place->kind != CUDA_BINDING)
				continue;
			binding->lead = place->lead;
			if (bytes > binding->bytes)
				binding->bytes = bytes;
			binding->placed = binding->placed || plan->launch != nullptr;
			if (place == &plan->output)
			{
				binding->up = false;
				binding->down = plan->launch != nullptr;
			}
		}
	}
	for (uint32_t b = 0; b < program->bindings_count; b++)
		program->bindings[b].up = program->bindings[b].up && program->bindings[b].placed;
}

static device_program *
program_new(cuda_device *device, const device_graph *graph, status *status)
{
	device_program *program = (device_program *) calloc(1, sizeof(*program));
	size_t		inputs = 1;
	size_t		ops = (size_t) graph->ops_count + 1;
	size_t		bytes;

	for (uint32_t o = 0; o < graph->ops_count; o++)
		inputs += graph->ops[o].inputs_count;
	bytes = sizeof(*program) + ops * (sizeof(cuda_plan) + sizeof(uint32_t)) + inputs * sizeof(cuda_place) +
			((size_t) graph->bindings_count + 1) * sizeof(cuda_binding);
	if (program != nullptr)
	{
		program->device = device;
		program->plans = (cuda_plan *) calloc(ops, sizeof(*program->plans));
		program->places = (cuda_place *) calloc(inputs, sizeof(*program->places));
		program->host_of = (uint32_t *) calloc(ops, sizeof(*program->host_of));
		program->bindings = (cuda_binding *) calloc((size_t) graph->bindings_count + 1, sizeof(*program->bindings));
		program->plans_count = graph->ops_count;
		program->bindings_count = graph->bindings_count;
		program->bytes = bytes;
		for (int lead = 0; lead < DEVICE_LEADS; lead++)
			program->arena_item[lead] = CUDA_ALIGN(graph->arena_item_bytes[lead]);
	}
	if (program != nullptr && program->plans != nullptr && program->places != nullptr && program->host_of != nullptr &&
		program->bindings != nullptr)
		return program;
	status_set(status, INFER_ERROR_MEMORY, "out of memory: %zu bytes wanted for a program", bytes);
	cuda_program_free(&device->base, program);
	return nullptr;
}

device_program *
cuda_compile(device *base, const device_graph *graph, status *status)
{
	cuda_device *device = cuda_of(base);
	cuda_constants constants = {};
	device_program *program;
	bool		good;

	if (!cuda_usable(device, status) || !device_graph_sound(graph, status))
		return nullptr;
	program = program_new(device, graph, status);
	if (program == nullptr)
		return nullptr;
	good = compile_plans(program, graph, &constants, status);
	if (good && constants.failed)
		good = status_set(status, INFER_ERROR_MEMORY, "out of memory for the constants of a program");
	if (good)
		compile_bindings(program, graph);
	good = good && cuda_hosts_compile(program, graph, status) && cuda_constants_upload(&constants, program, status) &&
		cuda_kernels_load(program, status);
	cuda_constants_free(&constants);
	if (good)
		return program;
	cuda_program_free(base, program);
	return nullptr;
}

uint64_t
cuda_program_bytes(const device_program *program)
{
	return program->bytes;
}
