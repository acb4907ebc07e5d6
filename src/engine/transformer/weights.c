/*
 * weights.c
 *	  Products of an encoder: one weight of one or several matrices side by side, packed, or
 *	  mapped from the packed file of an earlier load.
 *
 * Nouns
 *	part		one of the matrices: [outputs, inputs] as torch stores it, of any storage
 *	recipe		a sum over shape and precision of a weight, and over where in the model's files its
 *				parts lie and how they are stored; see ../model/packed.h
 *
 * Invariants
 *	The bytes of a part are read by the packing alone, so that a load with packed weights never
 *	touches them; whatever else reads from the files says so by emit_read.
 */
#include "emit.h"

#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../model/model.h"

struct weight_making
{
	const struct encoder_linear *const *parts;
	uint32_t	count;
	struct device_weight_desc desc;
};

/* ---- where it comes from ---- */

static struct emit_source
source_make(const struct emitter *e, const struct weight_making *making)
{
	struct emit_source source = {0};
	uint64_t	recipe[4 + 5 * EMIT_PARTS_MAX] = {
		(uint64_t) making->desc.k, (uint64_t) making->desc.n, making->count, making->desc.precision
	};

	for (uint32_t i = 0; i < making->count; i++)
	{
		const struct encoder_tensor *tensor = &making->parts[i]->weight;
		struct packed_range range = {UINT64_MAX, 0, emit_tensor_bytes(tensor)};
		uint64_t   *to = &recipe[4 + 5 * i];

		if (packed_range_locate(e->files, tensor->data, emit_tensor_bytes(tensor), &range))
			source.ranges[source.ranges_count++] = range;
		else
			range.offset = packed_sum(0, tensor->data, range.bytes);
		memcpy(to, &range, sizeof(range));
		to[3] = (uint64_t) tensor->storage * 2 + tensor->transposed;
		to[4] = (uint64_t) tensor->dims[0];
	}
	source.recipe = packed_sum(0, recipe, sizeof(recipe));
	return source;
}

/* ---- a weight ---- */

/* As what the device reads a tensor where it lies; DEVICE_F32 after a copy. */
static uint8_t
direct_type(const struct encoder_tensor *tensor)
{
	switch (tensor->storage)
	{
		case ENCODER_BF16:
			return (uintptr_t) tensor->data % sizeof(uint16_t) == 0 ? DEVICE_BF16 : 0;
		case ENCODER_F16:
			return (uintptr_t) tensor->data % sizeof(uint16_t) == 0 ? DEVICE_F16 : 0;
		default:
			return (uintptr_t) tensor->data % sizeof(float) == 0 ? DEVICE_F32 : 0;
	}
}

/* Parts as one matrix [n, k] of F32, for the caller to free. */
static float *
parts_join(struct emitter *e, const struct weight_making *making)
{
	int64_t		k = making->desc.k;
	float	   *joined = graph_block(e->memory, (uint64_t) making->desc.n * (uint64_t) k * sizeof(*joined));
	float	   *to = joined;

	for (uint32_t i = 0; joined != NULL && i < making->count; i++)
	{
		const struct encoder_tensor *tensor = &making->parts[i]->weight;
		int64_t		n = tensor->dims[0];

		if (!tensor->transposed)
			emit_convert(tensor, 0, n * k, to);
		else
			for (int64_t row = 0; row < n; row++)
				for (int64_t column = 0; column < k; column++)
					emit_convert(tensor, column * n + row, 1, to + row * k + column);
		to += n * k;
	}
	return joined;
}

static struct device_weight *
pack(struct emitter *e, struct weight_making *making)
{
	const struct encoder_tensor *first = &making->parts[0]->weight;
	float	   *joined = NULL;
	struct device_weight *packed;

	making->desc.stride_k = 1;
	making->desc.stride_n = making->desc.k;
	making->desc.data = first->data;
	if (making->count == 1 && direct_type(first) != 0)
	{
		making->desc.type = direct_type(first);
		if (first->transposed)
		{
			making->desc.stride_k = making->desc.n;
			making->desc.stride_n = 1;
		}
	}
	else
	{
		joined = parts_join(e, making);
		if (joined == NULL)
			return NULL;
		making->desc.data = joined;
		making->desc.type = DEVICE_F32;
	}
	packed = e->device->ops->weight_pack(e->device, &making->desc, e->status);
	graph_block_free(e->memory, joined);
	return packed;
}

static struct device_weight *
map(struct emitter *e, const struct weight_making *making, uint64_t recipe)
{
	struct packed *packed = e->files->packed;
	const struct packed_weight *found = packed_find(packed, e->program->weights_count, recipe);
	struct device_weight *weight;

	if (found == NULL)
	{
		packed->stale = true;
		status_set(e->status, INFER_ERROR_INTERNAL, "the packed weights are of another model");
		return NULL;
	}
	weight = e->device->ops->weight_map(e->device, &making->desc, found->data, found->bytes, e->status);
	packed->stale = packed->stale || (weight == NULL && e->status->error != INFER_ERROR_MEMORY);
	return weight;
}

static int32_t
make_weight(struct emitter *e, struct weight_making *making)
{
	struct encoder_program *program = e->program;
	struct device_weight *weight;
	struct emit_source source;

	if (!graph_pool_grow(e->memory, &program->weights, program->weights_count, &e->weights_space,
						 sizeof(*program->weights), PACKED_COUNT_MAX, "weights") ||
		!graph_pool_grow(e->memory, &e->sources, program->weights_count, &e->sources_space,
						 sizeof(*e->sources), PACKED_COUNT_MAX, "weights"))
		return 0;
	source = source_make(e, making);
	weight = e->files->packed != NULL ? map(e, making, source.recipe) : pack(e, making);
	if (weight == NULL)
	{
		status_set(e->status, INFER_ERROR_DEVICE, "the device could not pack a weight");
		return 0;
	}
	program->weights_bytes += e->device->ops->weight_size(e->device, &making->desc);
	e->sources[program->weights_count] = source;
	program->weights[program->weights_count] = weight;
	return (int32_t) program->weights_count++;
}

/* ---- a product ---- */

/* The parts' biases end to end, zeros where a part has none; -1: no part has one. */
static int32_t
make_bias(struct emitter *e, const struct weight_making *making)
{
	int64_t		n = making->desc.n;
	bool		any = false;
	float	   *bias;
	int64_t		at = 0;

	for (uint32_t i = 0; i < making->count; i++)
		any = any || making->parts[i]->bias.storage != ENCODER_ABSENT;
	if (!any)
		return -1;
	bias = graph_block(e->memory, (uint64_t) n * sizeof(*bias));
	if (bias == NULL)
		return -1;
	for (uint32_t i = 0; i < making->count; i++)
	{
		const struct encoder_linear *part = making->parts[i];

		if (part->bias.storage != ENCODER_ABSENT)
		{
			emit_read(e, &part->bias);
			emit_convert(&part->bias, 0, part->weight.dims[0], bias + at);
		}
		at += part->weight.dims[0];
	}
	return emit_constant(e, DEVICE_F32, 1, &n, bias);
}

/* x as a product of that precision takes it. */
static int32_t
narrow(struct emitter *e, int32_t x, uint8_t precision)
{
	uint8_t		lead = e->program->tensors[x].lead;
	int64_t		size = e->program->tensors[x].dims[0];
	int32_t		y;

	if (precision == DEVICE_PRECISION_FULL || e->program->tensors[x].type != DEVICE_F32)
		return x;
	if (precision == DEVICE_PRECISION_BF16)
	{
		y = emit_vector(e, DEVICE_BF16, lead, size);
		emit_op(e, DEVICE_OP_CAST, 0, 1, &x, y);
	}
	else
	{
		y = emit_vector(e, DEVICE_Q8, lead, size + DEVICE_Q8_SCALE);
		emit_op(e, DEVICE_OP_QUANTISE, 0, 1, &x, y);
	}
	return y;
}

int32_t
emit_linear(struct emitter *e, int32_t x, const struct encoder_linear *const *parts, uint32_t count,
			enum encoder_activation activation, uint8_t precision, bool rounded)
{
	struct encoder_program *program = e->program;
	struct weight_making making = {.parts = parts, .count = count};
	uint8_t		lead = program->tensors[x].lead;
	struct device_op *op;
	uint16_t	fn;
	double		f0;
	int32_t		weight, bias, y;

	making.desc.type = DEVICE_F32;
	making.desc.precision = precision;
	making.desc.k = parts[0]->weight.dims[1];
	for (uint32_t i = 0; i < count; i++)
		making.desc.n += parts[i]->weight.dims[0];
	emit_activation(activation, &fn, &f0);
	weight = make_weight(e, &making);
	bias = make_bias(e, &making);
	x = narrow(e, x, precision);
	y = emit_vector(e, rounded && precision == DEVICE_PRECISION_BF16 ? DEVICE_BF16 : DEVICE_F32, lead, making.desc.n);
	op = emit_op(e, DEVICE_OP_GEMM, fn, 2, (const int32_t[]) {x, bias}, y);
	if (op == NULL)
		return y;
	op->f[0] = f0;
	op->weight = weight;
	*(lead == DEVICE_LEAD_TOKENS ? &program->work.token : &program->work.row) +=
		2.0 * (double) making.desc.k * (double) making.desc.n;
	return y;
}

/* ---- what is to be kept ---- */

bool
emit_packed_form(struct emitter *e)
{
	struct encoder_program *program = e->program;
	uint32_t	count = program->weights_count;
	uint32_t	ranges_count = 0;
	struct packed_weight *weights;
	struct packed_range *ranges;

	if (e->files->packed != NULL || count == 0 || program->weights_bytes < PACKED_BYTES_MIN)
		return true;
	weights = graph_pool(e->memory, count, sizeof(*weights));
	ranges = graph_pool(e->memory, (uint64_t) count * EMIT_PARTS_MAX, sizeof(*ranges));
	if (weights == NULL || ranges == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
	{
		weights[i].recipe = e->sources[i].recipe;
		weights[i].data = e->device->ops->weight_data(e->device, program->weights[i], &weights[i].bytes);
		if (weights[i].data == NULL)
			return true;			/* packing is no slower than reading: nothing is kept */
		for (uint32_t j = 0; j < e->sources[i].ranges_count; j++)
			ranges[ranges_count++] = e->sources[i].ranges[j];
	}
	ranges_count = packed_ranges_merge(ranges, ranges_count);
	for (uint32_t i = 0; i < e->read_count; i++)
		packed_ranges_drop(ranges, ranges_count, &e->read[i]);
	program->form = (struct packed_form) {count, packed_ranges_keep(ranges, ranges_count), weights, ranges};
	return true;
}
