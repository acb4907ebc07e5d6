/*
 * plan.c
 *	  From an op of the graph to a plan: everything about types and shapes is checked here,
 *	  once, so that running checks values only.
 */
#include "plan.h"

#include <string.h>

#include "../../../protocol/protocol.h"

bool
plan_refuse(const struct plan_making *making, const char *why)
{
	return status_set(making->status, INFER_ERROR_UNSUPPORTED,
					  "the cpu device cannot compute primitive %u, \"%s %s\", of type %s: %s",
					  making->op->op, device_op_name(making->op), device_function_name(making->op),
					  device_type_name(making->plan->type), why);
}

static bool
tensor_sound(const struct device_tensor *t)
{
	int64_t		elements = 1;

	if (device_type_bytes(t->type) == 0 || t->lead >= DEVICE_LEADS || t->rank > DEVICE_RANK_MAX)
		return false;
	for (int d = 0; d < t->rank; d++)
	{
		if (t->dims[d] < 0 || t->dims[d] > PLAN_ELEMENTS_MAX)
			return false;
		if (t->dims[d] > 0 && elements > PLAN_ELEMENTS_MAX / t->dims[d])
			return false;
		elements *= t->dims[d];
	}
	return true;
}

static struct cpu_place
place_of(const struct device_tensor *t)
{
	struct cpu_place place = {
		.type = t->type,
		.lead = t->lead,
		.elements = device_item_elements(t)
	};

	if (t->constant != NULL)
	{
		place.kind = CPU_CONSTANT;
		place.constant = t->constant;
	}
	else if (t->binding >= 0)
	{
		place.kind = CPU_BINDING;
		place.binding = (uint32_t) t->binding;
	}
	else
	{
		place.kind = CPU_ARENA;
		place.offset = t->offset;
	}
	return place;
}

int64_t
plan_elements(const struct device_tensor *t, int first, int last)
{
	int64_t		elements = 1;

	for (int d = first; d < last; d++)
		elements *= t->dims[d];
	return elements;
}

/* Numbers of one and two bytes are multiplied, cast and moved; other primitives do not know them. */
static bool
moves_bytes(uint16_t op)
{
	return op == DEVICE_OP_COPY || op == DEVICE_OP_CONCAT || op == DEVICE_OP_GATHER || op == DEVICE_OP_WHERE;
}

static bool
knows_type(uint16_t op, uint8_t type)
{
	if (type == DEVICE_BF16)
		return op == DEVICE_OP_GEMM || op == DEVICE_OP_CAST || op == DEVICE_OP_ATTENTION || op == DEVICE_OP_POOL || moves_bytes(op);
	if (type == DEVICE_F16)
		return op == DEVICE_OP_CAST || moves_bytes(op);
	if (type == DEVICE_Q8)
		return op == DEVICE_OP_GEMM || op == DEVICE_OP_QUANTISE;
	return true;
}

static bool
make_primitive(struct plan_making *making)
{
	switch (making->op->op)
	{
		case DEVICE_OP_GEMM:
			return plan_make_gemm(making);
		case DEVICE_OP_MATMUL:
			return plan_make_matmul(making);
		case DEVICE_OP_UNARY:
			return plan_make_unary(making);
		case DEVICE_OP_BINARY:
			return plan_make_binary(making);
		case DEVICE_OP_WHERE:
			return plan_make_where(making);
		case DEVICE_OP_CAST:
			return plan_make_cast(making);
		case DEVICE_OP_COPY:
			return plan_make_copy(making);
		case DEVICE_OP_CONCAT:
			return plan_make_concat(making);
		case DEVICE_OP_GATHER:
			return plan_make_gather(making);
		case DEVICE_OP_REDUCE:
			return plan_make_reduce(making);
		case DEVICE_OP_SOFTMAX:
			return plan_make_softmax(making);
		case DEVICE_OP_ARG:
			return plan_make_arg(making);
		case DEVICE_OP_NORMALIZE:
			return plan_make_normalize(making);
		case DEVICE_OP_LOOKUP:
			return plan_make_lookup(making);
		case DEVICE_OP_CUMSUM:
			return plan_make_cumsum(making);
		case DEVICE_OP_TOPK:
			return plan_make_topk(making);
		case DEVICE_OP_OFFSET:
			return plan_make_offset(making);
		case DEVICE_OP_SCATTER:
			return plan_make_scatter(making);
		case DEVICE_OP_DISTANCE:
			return plan_make_distance(making);
		case DEVICE_OP_COUPLE:
			return plan_make_couple(making);
		case DEVICE_OP_TREES:
			return plan_make_trees(making);
		case DEVICE_OP_QUANTISE:
			return plan_make_quantise(making);
		case DEVICE_OP_NORM:
			return plan_make_norm(making);
		case DEVICE_OP_ATTENTION:
			return plan_make_attention(making);
		case DEVICE_OP_ROTARY:
			return plan_make_rotary(making);
		case DEVICE_OP_GATE:
			return plan_make_gate(making);
		case DEVICE_OP_POOL:
			return plan_make_pool(making);
	}
	return plan_refuse(making, "no such primitive");
}

bool
cpu_plan_make(struct cpu_plan *plan, const struct cpu_device *device, const struct device_op *op,
			  const struct device_tensor *tensors, struct device_weight *const *weights,
			  struct cpu_place *places, int64_t *parts, struct status *status)
{
	struct plan_making making = {plan, device, op, tensors, &tensors[op->output], weights, status};

	memset(plan, 0, sizeof(*plan));
	plan->op = op->op;
	plan->fn = op->fn;
	plan->node = op->node;
	memcpy(plan->f, op->f, sizeof(plan->f));
	memcpy(plan->i, op->i, sizeof(plan->i));
	plan->params = op->params;
	plan->inputs = places;
	plan->inputs_count = op->inputs_count;
	plan->parts = parts;
	plan->lead = making.y->lead;
	plan->output = place_of(making.y);
	if (!tensor_sound(making.y) || making.y->constant != NULL)
		return plan_refuse(&making, "the output is not a sound tensor");
	if (!knows_type(op->op, making.y->type))
		return plan_refuse(&making, "not for the output's type");
	for (uint32_t i = 0; i < op->inputs_count; i++)
	{
		const struct device_tensor *t = plan_input(&making, i);

		if (t == NULL)
			memset(&places[i], 0, sizeof(places[i]));
		else if (!tensor_sound(t))
			return plan_refuse(&making, "an input is not a sound tensor");
		else if (!knows_type(op->op, t->type))
			return plan_refuse(&making, "not for an input's type");
		else
			places[i] = place_of(t);
	}
	if (op->inputs_count > 0 && plan_input(&making, 0) != NULL)
		plan->type = plan_input(&making, 0)->type;
	if (plan_is_float(plan->type))
		plan->kernels = plan->type == DEVICE_F32 ? &device->kernels->f32 : &device->kernels->f64;

	return make_primitive(&making);
}

bool
cpu_plan_reads_offsets(const struct cpu_plan *plan)
{
	return plan->op == DEVICE_OP_ATTENTION || plan->op == DEVICE_OP_ROTARY || plan->op == DEVICE_OP_POOL;
}

uint64_t
cpu_plan_units(const struct cpu_plan *plan, const uint32_t items[DEVICE_LEADS])
{
	if (plan->op == DEVICE_OP_GEMM)
		return cpu_gemm_units(plan, items[plan->lead]);
	if (plan->op == DEVICE_OP_ATTENTION)
		return cpu_attention_units(plan, items[DEVICE_LEAD_TOKENS]);
	return (uint64_t) plan->units_item * items[plan->lead];
}

/* Pairs of tokens that look at each other. */
static double
pairs_of(const struct cpu_plan *plan, const struct device_batch *batch)
{
	double		rows = batch->items[DEVICE_LEAD_ROWS];
	double		tokens = batch->items[DEVICE_LEAD_TOKENS];
	double		pairs = batch->pairs > 0 ? (double) batch->pairs : rows > 0 ? tokens * tokens / rows : 0;
	double		bound = tokens * (double) plan->window;

	return plan->window > 0 && bound < pairs ? bound : pairs;
}

/* Predicted time on one thread. */
double
cpu_plan_nsec(const struct cpu_plan *plan, const struct device_batch *batch)
{
	double		computing = plan->nsec_item * batch->items[plan->lead];

	if (plan->nsec_token > 0)
		computing += plan->nsec_token * batch->items[DEVICE_LEAD_TOKENS];
	if (plan->nsec_pair > 0)
		computing += plan->nsec_pair * pairs_of(plan, batch);
	return 30 + (computing > plan->nsec_run ? computing : plan->nsec_run);
}
