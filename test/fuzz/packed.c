/*
 * packed.c
 *	  Fuzzes the reader of packed files: with the input as it is, and again with its sums put
 *	  right, as they would else keep the fuzzer out.  Whatever is read must lie in the file.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/model.h"
#include "engine/model/packed.h"

static struct packed_key key;

static void
use(const struct packed *packed)
{
	static const uint8_t contents[256];
	struct model_file list[2] = {{"a", contents, sizeof(contents)}, {"b", contents, 16}};
	struct model_files files = {.count = 2, .files = list};

	for (uint32_t i = 0; i < packed->form.weights_count; i++)
	{
		const struct packed_weight *weight = &packed->form.weights[i];
		const uint8_t *data = weight->data;

		if (data < packed->map || weight->bytes > packed->size - (uint64_t) (data - packed->map) ||
			(uintptr_t) (data - packed->map) % PACKED_ALIGN != 0 || packed_find(packed, i, weight->recipe) == NULL)
			abort();
	}
	(void) packed_files_sum(&files, &packed->form);
	(void) packed_covers(packed, &files, contents + 255);
}

static void
try(const uint8_t *data, size_t size)
{
	struct packed packed;

	if (!packed_read(data, size, &key, &packed))
		return;
	use(&packed);
	packed_release(&packed);
}

/* The head's fields that only say what the file is, and all sums. */
static void
put_right(uint8_t *data, size_t size)
{
	struct packed_head head;
	uint64_t	tables;

	memcpy(&head, data, sizeof(head));
	memcpy(head.magic, "inferpk\n", sizeof(head.magic));
	head.version = PACKED_VERSION;
	head.bytes = size;
	head.key = key;
	tables = head.weights_count * UINT64_C(32) + head.ranges_count * UINT64_C(24);
	if (tables > size - sizeof(head))
		return;
	for (uint32_t i = 0; i < head.weights_count; i++)
	{
		uint64_t	entry[4];		/* recipe, offset, bytes, sum */
		uint8_t    *at = data + sizeof(head) + i * sizeof(entry);

		memcpy(entry, at, sizeof(entry));
		if (entry[1] > size || entry[2] > size - entry[1])
			continue;
		entry[3] = packed_sum(entry[0], data + entry[1], entry[2]);
		memcpy(at, entry, sizeof(entry));
	}
	head.head_sum = packed_sum(packed_sum(0, &head, offsetof(struct packed_head, head_sum)), data + sizeof(head), tables);
	memcpy(data, &head, sizeof(head));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t    *copy;

	try(data, size);
	if (size < sizeof(struct packed_head))
		return 0;
	copy = malloc(size);
	memcpy(copy, data, size);
	put_right(copy, size);
	try(copy, size);
	free(copy);
	return 0;
}
