/*
 * tensors.c
 *	  An encoder's tensors as the numbers that a program reads: where they lie in the file, or
 *	  converted once.
 */
#include "emit.h"

#include <string.h>

#include "../../protocol/protocol.h"
#include "../half.h"

static uint64_t
element_bytes(const struct encoder_tensor *tensor)
{
	return tensor->storage == ENCODER_F32 ? 4 : 2;
}

static int64_t
elements(const struct encoder_tensor *tensor)
{
	int64_t		count = 1;

	for (int i = 0; i < tensor->rank; i++)
		count *= tensor->dims[i];
	return count;
}

uint64_t
emit_tensor_bytes(const struct encoder_tensor *tensor)
{
	return (uint64_t) elements(tensor) * element_bytes(tensor);
}

void
emit_convert(const struct encoder_tensor *tensor, int64_t first, int64_t count, float *to)
{
	const uint8_t *from = (const uint8_t *) tensor->data + (uint64_t) first * element_bytes(tensor);

	if (tensor->storage == ENCODER_F32)
	{
		memcpy(to, from, (size_t) count * sizeof(*to));
		return;
	}
	for (int64_t i = 0; i < count; i++)
	{
		uint16_t	half;

		memcpy(&half, from + 2 * i, sizeof(half));
		to[i] = tensor->storage == ENCODER_BF16 ? half_f32_of_bf16(half) : half_f32_of_f16(half);
	}
}

void
emit_read(struct emitter *e, const struct encoder_tensor *tensor)
{
	struct packed_range range;

	if (!packed_range_locate(e->files, tensor->data, emit_tensor_bytes(tensor), &range) ||
		!graph_pool_grow(e->memory, &e->read, e->read_count, &e->read_space, sizeof(*e->read), PACKED_COUNT_MAX, "tensors"))
		return;
	e->read[e->read_count++] = range;
}

const float *
emit_floats(struct emitter *e, const struct encoder_tensor *tensor)
{
	float	   *copy;

	emit_read(e, tensor);
	if (tensor->storage == ENCODER_F32 && !tensor->transposed && (uintptr_t) tensor->data % sizeof(float) == 0)
	{
		e->program->tables_bytes += emit_tensor_bytes(tensor);
		return tensor->data;
	}
	copy = graph_block(e->memory, (uint64_t) elements(tensor) * sizeof(*copy));
	if (copy == NULL)
		return NULL;
	emit_convert(tensor, 0, elements(tensor), copy);
	return copy;
}

int32_t
emit_table(struct emitter *e, const struct encoder_tensor *tensor)
{
	if (tensor->storage == ENCODER_F32 || (uintptr_t) tensor->data % sizeof(uint16_t) != 0)
		return emit_numbers(e, tensor);
	emit_read(e, tensor);
	e->program->tables_bytes += emit_tensor_bytes(tensor);
	return emit_constant(e, tensor->storage == ENCODER_BF16 ? DEVICE_BF16 : DEVICE_F16, tensor->rank, tensor->dims,
						 tensor->data);
}

int32_t
emit_numbers(struct emitter *e, const struct encoder_tensor *tensor)
{
	const float *data;

	if (tensor->storage == ENCODER_ABSENT)
		return -1;
	data = emit_floats(e, tensor);
	return emit_constant(e, DEVICE_F32, tensor->rank, tensor->dims, data);
}
