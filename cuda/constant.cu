/*
 * constant.cu
 *	  A program's constants: collected at compile, then copied to each GPU as one block.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#define CONSTANT_ALIGN	256

uint64_t
cuda_constants_add(cuda_constants *constants, const void *data, uint64_t bytes, bool copied)
{
	cuda_constant_item *item;

	for (uint32_t i = 0; !copied && i < constants->count; i++)
		if (constants->items[i].data == data && constants->items[i].bytes == bytes)
			return constants->items[i].offset;
	if (constants->count == constants->space)
	{
		uint32_t	space = constants->space == 0 ? 64 : constants->space * 2;
		void	   *larger = realloc(constants->items, space * sizeof(*constants->items));

		constants->failed = constants->failed || larger == nullptr;
		if (larger == nullptr)
			return 0;
		constants->items = (cuda_constant_item *) larger;
		constants->space = space;
	}
	item = &constants->items[constants->count];
	*item = {data, bytes, constants->bytes, nullptr};
	if (copied && bytes > 0)
	{
		item->owned = malloc(bytes);
		constants->failed = constants->failed || item->owned == nullptr;
		if (item->owned == nullptr)
			return 0;
		memcpy(item->owned, data, bytes);
		item->data = item->owned;
	}
	constants->count++;
	constants->bytes += (bytes + CONSTANT_ALIGN - 1) / CONSTANT_ALIGN * CONSTANT_ALIGN;
	return item->offset;
}

uint64_t
cuda_constant_add(cuda_making *making, const void *data, uint64_t bytes, bool copied)
{
	return making->placing ? 0 : cuda_constants_add(making->constants, data, bytes, copied);
}

void
cuda_constants_cut(cuda_constants *constants, uint32_t count)
{
	while (constants->count > count)
	{
		cuda_constant_item *item = &constants->items[--constants->count];

		constants->bytes = item->offset;
		free(item->owned);
	}
}

void
cuda_constants_free(cuda_constants *constants)
{
	cuda_constants_cut(constants, 0);
	free(constants->items);
}

bool
cuda_constants_upload(cuda_constants *constants, device_program *program, status *status)
{
	cuda_device *device = program->device;

	program->constants_bytes = constants->bytes;
	for (uint32_t g = 0; constants->bytes > 0 && g < device->gpus_count; g++)
	{
		program->constants[g] =
			(uint8_t *) cuda_memory_alloc(&device->gpus[g], constants->bytes, "a program's constants", status);
		if (program->constants[g] == nullptr)
			return false;
		for (uint32_t i = 0; i < constants->count; i++)
			if (!cuda_upload(&device->gpus[g], program->constants[g] + constants->items[i].offset, constants->items[i].data,
							 constants->items[i].bytes, status))
				return false;
	}
	return true;
}
