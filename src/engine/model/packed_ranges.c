/*
 * packed_ranges.c
 *	  Which bytes of a model's files nobody reads while its weights come from a packed file:
 *	  those that weights are made of, but for what anybody else has read.  See packed.h.
 */
#include "packed.h"

#include <stdlib.h>

#include "model.h"

bool
packed_range_locate(const struct model_files *files, const void *data, uint64_t bytes, struct packed_range *range)
{
	const uint8_t *first = data;

	for (uint32_t i = 0; files != NULL && first != NULL && i < files->count; i++)
	{
		const struct model_file *file = &files->files[i];

		if (first >= file->data && first < file->data + file->size &&
			bytes <= file->size - (uint64_t) (first - file->data))
		{
			*range = (struct packed_range) {i, (uint64_t) (first - file->data), bytes};
			return true;
		}
	}
	return false;
}

static int
ranges_compare(const void *a, const void *b)
{
	const struct packed_range *x = a;
	const struct packed_range *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

uint32_t
packed_ranges_merge(struct packed_range *ranges, uint32_t count)
{
	uint32_t	kept = 0;

	qsort(ranges, count, sizeof(*ranges), ranges_compare);
	for (uint32_t i = 0; i < count; i++)
	{
		struct packed_range *last = kept == 0 ? NULL : &ranges[kept - 1];

		if (last == NULL || last->file != ranges[i].file || ranges[i].offset > last->offset + last->bytes)
			ranges[kept++] = ranges[i];
		else if (ranges[i].offset + ranges[i].bytes > last->offset + last->bytes)
			last->bytes = ranges[i].offset + ranges[i].bytes - last->offset;
	}
	return kept;
}

void
packed_ranges_drop(struct packed_range *ranges, uint32_t count, const struct packed_range *read)
{
	uint32_t	low = 0;
	uint32_t	high = count;

	/* the first that ends behind the beginning of what was read */
	while (low < high)
	{
		uint32_t	middle = low + (high - low) / 2;
		const struct packed_range *range = &ranges[middle];

		if (range->file < read->file || (range->file == read->file && range->offset + range->bytes <= read->offset))
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < count && ranges[low].file == read->file && ranges[low].offset < read->offset + read->bytes; low++)
		ranges[low].bytes = 0;
}

uint32_t
packed_ranges_keep(struct packed_range *ranges, uint32_t count)
{
	uint32_t	kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (ranges[i].bytes >= PACKED_RANGE_MIN)
			ranges[kept++] = ranges[i];
	return kept;
}
